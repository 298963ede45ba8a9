"""The failures of agent CLIs: the reason in one plain line, and its kind."""

import json
import re
from functools import cache

from workers.agents._retry_after import Reset, delay_in, reset_in
from workers.agents.agent import Answer, Failure, Progress
from workers.agents.stream import printable, text_at, value_at

LONGEST = 400
"""Characters of a reason; a provider may send a whole page."""

WAITED_FOR: tuple[Failure, ...] = ("rate_limited", "overloaded", "provider")
"""Failures that may pass with time."""
OVERLOADED = (503, 529)
"""HTTP statuses of an overloaded provider."""

NO_RECORD = "no result: the stream ended without a closing record"

# Kept as text until something has failed: to compile them takes a tenth of a `ps`.
_LOST = (
    r"(?i)no rollout found for|no conversation found with session id"
    r"|no previous sessions found for this project|invalid session identifier|error resuming session"
)
_URL = r"\b\w+://\S+"
_STATUS = r"(?i)(?:status|error|code|rejected)\W{0,4}(\d{3})\b"
_KINDS: tuple[tuple[Failure, tuple[str, ...]], ...] = (
    ("budget", (r"max_budget|budget (?:exceeded|reached)|maximum budget",)),
    # An empty account needs a person: to wait, as for a rate limit, would not help.
    ("login", (r"credit balance|billing|spend limit",)),
    ("rate_limited", (r"rate.?limit|too many requests|usage.?limit|hit your .{0,20}limit|quota",)),
    ("rate_limited", (r"resource_exhausted|out of (?:extra )?usage",)),
    ("overloaded", (r"overloaded|high demand|at capacity|no capacity",)),
    (
        "login",
        (
            r"unauthori[sz]ed|unauthenticated|authenticat|not logged in|permission_denied|forbidden",
            r"run /login|sign in again|(?:oauth|access|refresh) token",
            r"(?:missing|invalid|incorrect|no|valid) api.?key|api.?key not",
            r"missing environment variable|environment variable and try again|auth method",
        ),
    ),
    (
        "refused",
        (
            r"not inside a trusted|not trusted|untrusted|cannot be used with root",
            r"unexpected argument|unknown (?:option|argument)|invalid (?:value|choice|settings)|unrecognized",
        ),
    ),
    (
        "provider",
        (
            r"disconnected|connection|unable to connect|econn\w+|socket|fetch failed|terminated",
            # Its own state, which another instance has open at this moment.
            r"database is locked",
            r"timed? ?out|network|malformed response|internal server|server error|unavailable",
        ),
    ),
)
_NOISE = (
    r"(?i)^(?:reading additional input from stdin|yolo mode is enabled|ripgrep is not available|"
    r"warning: 256-color|tip:|keychain initialization|for more information, try|usage:|loaded cached|"
    r"at (?:\S+ )?\(?(?:file|node):|node\.js v\d)"
)


@cache
def _words() -> tuple[tuple[Failure, re.Pattern[str]], ...]:
    return tuple((kind, re.compile("|".join(words), re.IGNORECASE)) for kind, words in _KINDS)


def one_line(text: str) -> str:
    """Return a provider's error as one plain line: the message without raw JSON and control characters."""
    start = text.find("{")
    if start >= 0:
        try:
            found, end = json.JSONDecoder().raw_decode(text, start)
            text = text[:start] + _message(found) + text[end:]
        except (ValueError, RecursionError):
            text = text[:start].rstrip(" :") or "an error that could not be read"
    text = printable(text)
    text = re.sub(r"^\[(API Error:[^\]]*)\]", r"\1", text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def last_words(stderr_tail: str) -> str:
    """Return the last meaningful line of standard error: no stack frames, no greetings."""
    lines = [printable(line) for line in stderr_tail.splitlines()]
    # A refused flag is named first, and a page of help follows.
    page = next((at for at, line in enumerate(lines) if at and line.lower().startswith("usage:")), len(lines))
    for plain in reversed(lines[:page]):
        if any(char.isalpha() for char in plain) and not re.match(_NOISE, plain):
            return one_line(plain)
    return ""


def kind_of(error: str, status: int | None = None) -> Failure | None:
    """Return the kind of failure that an error text (or the HTTP status beside it) names."""
    text = re.sub(_URL, "", error)
    if status is None and (named := re.search(_STATUS, text)):
        status = int(named[1])
    by_words = next((kind for kind, words in _words() if words.search(text)), None)
    if by_words in ("budget", "rate_limited", "overloaded"):
        return by_words  # a spent quota comes as 400 and 403, too, and an overload as 500
    return _kind_of_status(status) or by_words


def retry(text: str, status: int | None = None) -> Progress:
    """Return the progress record of a failed request that a CLI repeats, from its message."""
    if status is None and (named := re.search(_STATUS, re.sub(_URL, "", text))):
        status = int(named[1])
    return Progress("retry", printable(text), delay_in(text), status)


def is_throttled(progress: Progress) -> bool:
    """Return whether a request is repeated because its provider is rate limited or overloaded."""
    if progress.kind != "retry":
        return False
    if progress.status in (429, *OVERLOADED):
        return True
    return kind_of(progress.text, progress.status) in ("rate_limited", "overloaded")


_EPOCH = r"\|\d{10,13}\b"


def judge_end(
    said: Answer, *, exit_code: int | None, stderr_tail: str, resets: str = "", now: float | None = None
) -> Answer:
    """Judge a stream together with how its process ended.

    A record of success stands when the process exited with 0, or was stopped by a signal after it had
    said everything (flag `did_not_exit`); with any other exit code it is an error. `resets` is what the
    stream said, beside its error, of when to ask again.
    """
    by_signal = exit_code is None or exit_code < 0
    words = last_words(stderr_tail)
    if said.ended == "success" and not by_signal and exit_code != 0:
        error = said.error or words or f"reported success, then exited with {exit_code}"
        said = said._replace(ended="error", error=error)
    if said.ended == "success":
        flags = (*said.flags, "did_not_exit") if by_signal else said.flags
        return said._replace(error=one_line(said.error), failure=None, flags=flags)
    error, failure = one_line(said.error), said.failure
    if failure is None:
        # A stopped worker did not end because of its standard error; an error in its stream may be the cause.
        failure = kind_of(error) or (None if said.ended == "none" and by_signal else kind_of(words))
    if failure is None and exit_code in (130, 143):
        failure = "interrupted"
    told = f"{said.error}\n{stderr_tail}"
    flags = (*said.flags, "thread_lost") if re.search(_LOST, told) else said.flags
    reset = reset_in(f"{resets}\n{told}", now=now) if failure in WAITED_FOR else Reset()
    # The time of the next try is read already, and seconds since 1970 mean nothing to a person.
    error = re.sub(_EPOCH, "", error) or words
    return said._replace(
        error=error or (NO_RECORD if said.ended == "none" else "the agent gave no reason"),
        failure=failure,
        flags=flags,
        # A failed worker does not wait for an answer: it waits for its provider, or for nothing.
        question="" if failure else said.question,
        retry_after=reset.after,
        resets_at=reset.at,
    )


def _kind_of_status(status: int | None) -> Failure | None:
    if status == 429:
        return "rate_limited"
    if status in OVERLOADED:
        return "overloaded"
    if status in (401, 403):
        return "login"
    return "provider" if status in (408, 425) or (status is not None and 500 <= status <= 599) else None


def _message(found: object) -> str:
    inner = value_at(found, "error")
    inner = inner if isinstance(inner, dict) else found
    if not isinstance(inner, dict):
        return ""
    code = value_at(inner, "code")
    head = " ".join(part for part in (str(code or ""), text_at(inner, "status")) if part)
    message = text_at(inner, "message") or text_at(inner, "detail") or text_at(inner, "type")
    # A provider wraps another's error as a string: once is enough, and never for ever.
    message = "" if message.lstrip().startswith("{") and not head else message
    return ": ".join(part for part in (head, message) if part)
