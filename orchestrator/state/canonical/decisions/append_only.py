"""Edits and removals of old decisions: the log compared with an earlier state of itself."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from orchestrator.errors import StateError
from orchestrator.state.canonical.decisions._entries import ACKNOWLEDGED
from orchestrator.state.canonical.decisions.read import spans
from tickets.markdown import plain
from tickets.value import Value

REMOVED = "removed"
_MARKED = re.compile(r"- Neutral: (?P<title>.*) \((?P<now>[0-9a-f]{12}|removed)\)$")
_CLOSING = re.compile(r"---|\*\*[^*\n]+ End\*\*")

Log = Mapping[str, str]
"""Heading to the digest of the text below it."""


class Edit(Value):
    """One old entry that has changed; `now` is the digest of its text, or `removed`."""

    title: str
    was: str
    now: str

    @property
    def how(self) -> str:
        """Describe the change."""
        return "was removed" if self.now == REMOVED else "was edited"


def log_of(texts: Iterable[bytes]) -> dict[str, str]:
    """Read the entries of the log and its archives; a file that cannot be read has none."""
    found: dict[str, str] = {}
    for text in texts:
        try:
            listed = spans(text)
        except StateError:
            continue
        counts: dict[str, int] = {}
        for title, body in reversed(listed):  # new ones come on top, so old ones keep their number
            counts[title] = number = counts.get(title, 0) + 1
            name = title if number == 1 else f"{title} #{number}"
            found[name] = _digest(body)
    return found


def edits(old: Log, new: Log) -> list[Edit]:
    """Return the entries of `old` that `new` lacks or has changed."""
    return [Edit(title, was, new.get(title, REMOVED)) for title, was in old.items() if new.get(title) != was]


def acknowledged(texts: Iterable[bytes]) -> set[tuple[str, str]]:
    """Return the edits that the log acknowledges: (heading, current digest or `removed`)."""
    found = set()
    for text in texts:
        try:
            listed = spans(text)
        except StateError:
            continue
        for title, body in listed:
            if ACKNOWLEDGED in title:
                matches = (_MARKED.match(line.strip()) for line in body.splitlines())
                found |= {(plain(match["title"]), match["now"]) for match in matches if match}
    return found


def without_closing(body: str) -> str:
    """Remove the blanks, rules and end-of-file lines at the end of an entry."""
    # From the end: one pattern for all of it is tried at each blank of the log, the most of a comparison.
    while True:
        words = body.rstrip()
        start = words.rfind("\n") + 1
        is_whole = len(words) == len(body) or body[len(words)] == "\n"
        if not words or not is_whole or not _CLOSING.fullmatch(words, start):
            return words
        body = words[:start]


@lru_cache(maxsize=4096)
def _digest(body: str) -> str:
    words = without_closing(body.replace("\r\n", "\n").replace("\r", "\n"))
    return hashlib.sha256(words.encode()).hexdigest()[:12]
