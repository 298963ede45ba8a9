"""A session's file as it reads: its name, six keys, entries and notes, also where a person has edited it."""

import re
from datetime import UTC, datetime

from orchestrator.errors import StateError
from orchestrator.state.document import opened, section_like, state_errors
from tickets.markdown import Document, Part, front_problems, front_value, items, plain, sections
from tickets.problems import Problem
from tickets.value import Value

FOLDER = "ai_memory/session_history"
KEYS = ("started", "last_updated", "task_id", "status", "files_changed", "commits")
"""In the order in which they are written."""
OPEN, COMPLETED = "in-progress", "completed"
NO_TASK = "none"
SUMMARY, CHANGELOG, FOR_NEXT = "Summary", "Changelog", "Notes for Next Session"
OF_RUNTIME = " ← changelog"
"""How the runtime's own line of the summary ends."""

_NAME = re.compile(r"session_(?P<id>(?P<day>\d{4}-\d\d-\d\d)_(?P<number>\d{3,}))\.md")
_HEADING = re.compile(r"(?P<at>\d\d:\d\d)(?: \((?P<day>\d{4}-\d\d-\d\d)\))? — (?P<title>.*)")
_LED = re.compile(
    r"Note: led by (?P<lead>.*), on (?:`[^`]*`|no branch)(?: at `(?P<commit>[0-9a-f]{7,64})`)?$"
)
_COMMIT = re.compile(r"Commit: `(?P<commit>[0-9a-f]{7,64})`")
_CHANGED = re.compile(r"Changed: `(?P<path>[^`]+)`")


class SessionEntry(Value):
    """One entry of a changelog; `lines` read without their marks: `Note: Keep one parser`."""

    at: datetime
    title: str
    lines: tuple[str, ...]


class Session(Value):
    """One session. A key that is missing reads as an empty text."""

    path: str
    id: str
    started: str
    last_updated: str
    task_id: str
    status: str
    files_changed: str
    commits: str
    summary: str
    entries: tuple[SessionEntry, ...]
    notes: tuple[str, ...]
    lead: str
    """By the first entry; empty where that names none."""
    start: str
    """The commit that it began at; empty where none is known."""

    @property
    def is_open(self) -> bool:
        """Whether it goes on."""
        return self.status == OPEN

    @property
    def commits_listed(self) -> tuple[str, ...]:
        """The commits of the changelog, abbreviated, in their order."""
        found = (_COMMIT.match(line) for one in self.entries for line in one.lines)
        return tuple(one["commit"] for one in found if one)

    @property
    def paths_listed(self) -> frozenset[str]:
        """The changed paths of the changelog."""
        found = (_CHANGED.match(line) for one in self.entries for line in one.lines)
        return frozenset(one["path"] for one in found if one)

    @property
    def touched(self) -> datetime | None:
        """When something was last written to it; None where the file does not say."""
        return moment(self.last_updated)


def path_of(id_: str) -> str:
    """Return the path of a session's file."""
    return f"{FOLDER}/session_{id_}.md"


def id_of(path: str) -> str | None:
    """Return the id that a path names; None for another file."""
    found = _NAME.fullmatch(path.rpartition("/")[2])
    return found["id"] if found and path == path_of(found["id"]) else None


def order_of(id_: str) -> tuple[str, int]:
    """Return by what sessions are ordered: the day and the number."""
    day, _, number = id_.partition("_")
    return day, int(number)


def read(path: str, text: bytes) -> Session:
    """Read a session. Raises StateError where it is empty, not UTF-8, or its keys cannot be told."""
    document = opened(path, text)
    if found := front_problems(document):
        raise StateError(*found)
    with state_errors():
        values = {key: front_value(document, key) for key in KEYS}
        if values["started"] is None or values["status"] is None:
            what = "front matter has no `started` or no `status`, so it is no session"
            raise StateError(Problem(f"{path}:1", what, "add them, or move the file away"))
        started, last_updated, task_id, status, files_changed, commits = (values[key] or "" for key in KEYS)
        entries = tuple(entries_of(document, started))
        summary, notes = section_like(document, SUMMARY), section_like(document, FOR_NEXT)
        said = _own_text(document, summary)
        listed = [plain(one.text) for one in items(document, notes) if one.depth == 0] if notes else []
    led = next((one for line in (entries[0].lines if entries else ()) if (one := _LED.match(line))), None)
    return Session(
        path, id_of(path) or "", started, last_updated, task_id, status, files_changed, commits, said,
        entries, tuple(listed), led["lead"] if led else "", (led["commit"] or "") if led else "",
    )  # fmt: skip


def entries_of(document: Document, started: str) -> list[SessionEntry]:
    """Return the entries of the changelog in their order; headings of another form are none."""
    part = section_like(document, CHANGELOG)
    began = moment(started)
    found = []
    for one in sections(document, part) if part else ():
        heading = _HEADING.fullmatch(plain(one.title))
        if heading is None:
            continue
        day = heading["day"] or (f"{began:%Y-%m-%d}" if began else "1970-01-01")
        at = moment(f"{day}T{heading['at']}:00Z")
        lines = tuple(
            plain(item.text).replace("**", "", 2) for item in items(document, one) if item.depth == 0
        )
        if at is not None:
            found.append(SessionEntry(at, heading["title"], lines))
    return found


def newest_part(document: Document) -> Part | None:
    """Return the newest entry of the changelog as a part of the document."""
    part = section_like(document, CHANGELOG)
    found = [one for one in sections(document, part) if _HEADING.fullmatch(plain(one.title))] if part else []
    return found[-1] if found else None


def moment(text: str) -> datetime | None:
    """Read a time in any offset, or a bare date; None where it is neither."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def count_in(text: str) -> int:
    """Read a count; 0 where there is none."""
    return int(text) if text.isdecimal() else 0


def _own_text(document: Document, part: Part | None) -> str:
    return plain(" ".join(document.text(part.body, part.own_content_end).split())) if part else ""
