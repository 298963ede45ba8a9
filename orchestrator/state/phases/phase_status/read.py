"""A phase's STATUS.md as values: tolerant of what people write; a `-` is a value that is not known."""

import re
from typing import cast, get_args

from orchestrator.state.document import opened, section_like
from orchestrator.state.events import PlanState, TaskState
from tickets.markdown import (
    Document,
    Item,
    Part,
    fields,
    header,
    items,
    key_of,
    plain,
    sections,
    tables,
)
from tickets.types import BlockerMode
from tickets.value import Value

STATES: tuple[PlanState, ...] = get_args(PlanState)
COLUMNS = ("Plan", "Title", "State", "Started", "Ended", "Commit", "Verified", "Landed")
FIELDS = (
    "Title", "State", "Plan", "Task", "Mode", "Raised", "Message", "Attempted", "Needs", "Answer", "Answered",
    "Answered By",
)  # fmt: skip
"""The fields of a blocker, in their order."""
UNKNOWN = "-"

ID = r"\d{8}_\d{6}(?:_\d+)?\.[A-Za-z0-9][A-Za-z0-9-]*(?::\d+)?"
"""The id of a message, or of the coordinator that acted by itself."""
_TASK = re.compile(r"(?P<text>.*) \((?P<state>todo|doing|done|blocked|dropped)(?:: (?P<blocker>B\d+))?\)")
_NOTED = re.compile(rf"(?P<text>.*?)(?: \((?P<by>{ID})\))?")
_LOGGED = re.compile(rf".* \((?P<by>{ID})\)")
_BLOCKER = re.compile(r"B\d+")
_DECISION = re.compile(r"(?P<date>\d{4}-\d{2}-\d{2}): (?P<title>.*)")


class PlanRow(Value):
    """How one plan stands. Times and SHAs are as they are written."""

    plan: str
    title: str
    state: PlanState
    started: str | None
    ended: str | None
    commit: str | None
    verified: str | None
    landed: str | None


class Task(Value):
    """One task of a plan."""

    text: str
    state: TaskState
    blocker: str | None
    """The name of the blocker that names it."""
    item: Item


class PhaseBlocker(Value):
    """One blocker; `message` is the id of the message that raised it."""

    name: str
    title: str
    state: str
    """`open`, `answered` or `closed`."""
    plan: str | None
    task: str | None
    mode: BlockerMode
    raised: str
    message: str
    attempted: str | None
    needs: str | None
    answered_by: str | None

    @property
    def is_closed(self) -> bool:
        """Whether nobody waits for an answer any more."""
        return self.state == "closed"


class PhaseDecision(Value):
    """A decision of the phase's own."""

    date: str
    title: str
    by: str | None


class Note(Value):
    """A line of context."""

    text: str
    by: str | None
    """The id of its message; None for the lead's."""
    item: Item


class PhaseStatus(Value):
    """The content of the file. A missing part is None or empty."""

    phase: str
    title: str
    """The phase's heading, as STATUS.md had it when the file was begun."""
    state: PlanState
    worker: str | None
    base: str | None
    plans: tuple[PlanRow, ...]
    tasks: dict[str, tuple[Task, ...]]
    """By the id of the plan, in the order of the file."""
    blockers: tuple[PhaseBlocker, ...]
    decisions: tuple[PhaseDecision, ...]
    context: tuple[Note, ...]
    logged: frozenset[str]
    """Who each entry of the log is by."""

    def row(self, plan: str) -> PlanRow | None:
        """Return a plan by its id, compared literally."""
        return next((one for one in self.plans if one.plan == plan), None)

    @property
    def counts(self) -> dict[PlanState, int]:
        """How many plans there are in each state."""
        return {state: sum(one.state == state for one in self.plans) for state in STATES}

    @property
    def handled(self) -> frozenset[str]:
        """The ids of the messages whose effect the file shows."""
        found = {by for one in self.blockers for by in (one.message, one.answered_by)}
        found |= {one.by for one in self.decisions} | {one.by for one in self.context}
        return frozenset(one for one in found if one) | self.logged


def read(path: str, text: bytes) -> PhaseStatus:
    """Read the file. Raises StateError where it is empty or not UTF-8."""
    return read_of(opened(path, text))


def read_of(document: Document) -> PhaseStatus:
    """Read a parsed file."""
    top = header(document)
    said = _said(document, top)
    return PhaseStatus(
        said.get("phase") or "",
        plain(top.title).removesuffix(" - Status"),
        plan_state(said.get("state")),
        said.get("worker"),
        said.get("base"),
        rows_of(document),
        {part.title: _tasks(document, part) for part in _below(document, "Tasks")},
        tuple(_blocker(document, part) for part in blocker_parts(document)),
        tuple(_decisions(document)),
        _notes(document),
        frozenset(_logged(document)),
    )


def plan_state(said: str | None) -> PlanState:
    """Return a state by its word; what is no word of ours counts as not started."""
    return said if said in STATES else "not started"


def blocker_parts(document: Document) -> tuple[Part, ...]:
    """Return the sections of the blockers, the oldest first."""
    return tuple(part for part in _below(document, "Blockers") if _BLOCKER.fullmatch(part.title))


def pointer(path: str, blocker: str) -> str:
    """Return where a blocker is: the file and its heading."""
    return f"{path}#{blocker.lower()}"


def _below(document: Document, title: str) -> tuple[Part, ...]:
    part = section_like(document, title)
    return sections(document, part) if part else ()


def _said(document: Document, part: Part) -> dict[str, str | None]:
    """Return the fields of a part by their names; one that is there twice is not known."""
    found: dict[str, str | None] = {}
    for one in fields(document, part):
        key = key_of(one.key)
        found[key] = None if key in found else known(one.value)
    return found


def known(said: str) -> str | None:
    """Return a value as text; None where it is not known."""
    text = plain(said)
    return None if text in ("", UNKNOWN) else text


def rows_of(document: Document) -> tuple[PlanRow, ...]:
    """Return the rows of the table of plans."""
    part = section_like(document, "Plans")
    found = next(iter(tables(document, part)), None) if part else None
    if found is None:
        return ()
    at = {title: number for number, title in reversed([*enumerate(found.columns)])}
    rows = []
    for row in found.rows:
        cells = [known(one.text) for one in row.cells]
        said = [cells[at[name]] if name in at and at[name] < len(cells) else None for name in COLUMNS]
        if said[0]:
            rows.append(PlanRow(said[0], said[1] or "", plan_state(said[2]), *said[3:]))
    return tuple(rows)


def _tasks(document: Document, part: Part) -> tuple[Task, ...]:
    found = []
    for item in items(document, part):
        match = _TASK.fullmatch(item.text) if item.done is not None and item.depth == 0 else None
        if match:
            found.append(
                Task(plain(match["text"]), cast("TaskState", match["state"]), match["blocker"], item)
            )
    return tuple(found)


def _blocker(document: Document, part: Part) -> PhaseBlocker:
    said = _said(document, part)
    return PhaseBlocker(
        part.title,
        said.get("title") or "",
        said.get("state") or "open",
        said.get("plan"),
        said.get("task"),
        "pause" if said.get("mode") == "pause" else "skip",
        said.get("raised") or "",
        said.get("message") or "",
        said.get("attempted"),
        said.get("needs"),
        said.get("answered by"),
    )


def _decisions(document: Document) -> list[PhaseDecision]:
    found = []
    for part in _below(document, "Decisions"):
        match = _DECISION.fullmatch(part.title)
        if match:
            found.append(PhaseDecision(match["date"], match["title"], _said(document, part).get("message")))
    return found


def _notes(document: Document) -> tuple[Note, ...]:
    found = []
    for item in list_items(document, "Context"):
        match = _NOTED.fullmatch(item.text)
        if match:
            found.append(Note(plain(match["text"]), match["by"], item))
    return tuple(found)


def list_items(document: Document, title: str) -> tuple[Item, ...]:
    """Return the items of a list section, without those below others and without `None.`."""
    part = section_like(document, title)
    return tuple(item for item in items(document, part) if item.depth == 0) if part else ()


def _logged(document: Document) -> list[str]:
    matches = (_LOGGED.fullmatch(item.text) for item in list_items(document, "Log"))
    return [match["by"] for match in matches if match]
