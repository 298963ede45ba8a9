"""STATUS.md as values: tolerant of what people write, without a problem for what is missing."""

import re
from typing import NamedTuple

from orchestrator.errors import StateError
from orchestrator.state.document import doubled, fence_problem, opened, section_like
from orchestrator.state.facts import percent
from tickets.markdown import (
    Document,
    Item,
    MarkdownError,
    Part,
    field,
    fields,
    header,
    items,
    key_of,
    labelled,
    nul_problem,
    plain,
    sections,
)
from tickets.problems import Problem
from tickets.value import Value

PATH = "STATUS.md"
ACTIVE = "Active Workers"
RECENT = "Recent Completions"
_READ = ("Current Deliverable", "Phase Plan", "Progress", "TODO", "Worker Roster")
_PHASE = re.compile(
    r"phase\s+(?P<number>\d+(?:\.\d+)*)(?:\s*[:.\u2013\u2014-]+\s*|\s+|$)(?P<name>.*)", re.IGNORECASE
)
_PHASE_WORD = r"(?i)phase[-_ ]?(?P<number>\d+(?:\.\d+)*)"
_WORDS = r"COMPLETE|DONE|IN PROGRESS|NEXT|PLANNED|BLOCKED"
DELIVERABLE = re.compile(
    rf"(?P<name>.*?)\s*(?<!\\)\((?P<status>{_WORDS})(?::\s*(?P<reason>(?:(?![,;]\s*Owner:)[^)])*))?"
    r"(?:[,;]\s*Owner:\s*(?P<owner>[^)]*))?[^)]*\)\s*$",
    re.IGNORECASE,
)
ARCHIVED = "archived:"
"""The word in the status of a complete phase whose details are in `docs/history`."""
BLOCKER = r"(?i)(Impact|Mitigation|Priority): (.*)$"
"""A line below a blocked deliverable."""
MISSED = "(not reached)"
"""What the milestone of an archived phase has whose work was left open."""
_REACHED = re.compile(
    r"(?P<name>.*?)\s*(?:(?P<done>(?<!\\)\(COMPLETE\b[^)]*\))|(?P<missed>(?<!\\)\(not reached\)))?$",
    re.IGNORECASE,
)
_ACTIVE = (
    r"(?P<worker>[^\s:]+): (?P<title>.*) \(Scope: (?P<scope>.*), run (?P<run>\d{8}_\d{6}(?:_\d+)?)\)"
    r"(?: \u2014 pending: (?P<pending>.*))?$"
)
_SENT = r"(?P<worker>[^\s:]+): (?P<title>.*?)(?: \(Scope: (?P<scope>.*)\))?$"
_DONE = re.compile(
    r"(?P<worker>[^\s:]+): (?P<title>.*) \((?P<outcome>[A-Z_ ]+)(?:, (?P<verdict>[a-z ]+))?, "
    r"integrated (?P<date>\d{4}-\d{2}-\d{2})(?:, run (?P<run>\d{8}_\d{6}(?:_\d+)?)(?:, (?P<phase>.+?))?)?\)"
    r"(?: \u2014 (?P<result>.*))?$"
)


class Deliverable(Value):
    """One line of a phase's deliverables, or the current one."""

    name: str
    status: str
    owner: str
    done: bool
    reason: str = ""
    """Why it is blocked, where the line has a reason."""
    impact: str = ""
    mitigation: str = ""
    priority: str = ""
    """Of a blocked one, from the list below its line."""


class Phase(NamedTuple):
    """One phase of the plan; `title` is its heading, `criteria` are (met, text)."""

    number: str | None
    name: str
    title: str
    status: str
    milestone: str
    deliverables: tuple[Deliverable, ...]
    criteria: tuple[tuple[bool, str], ...]
    line: int
    reached: bool = False
    """Whether its milestone line has COMPLETE."""
    missed: bool = False
    """Whether it is archived, and says that its milestone was not reached."""

    @property
    def complete(self) -> bool:
        """Whether its status line has COMPLETE; a phase whose details are archived has nothing else."""
        return self.status.upper().startswith("COMPLETE")

    @property
    def achieved(self) -> bool:
        """Whether its milestone counts as complete: it is reached, or the phase ended with all work done."""
        is_open = not all(one.done for one in self.deliverables) or not all(met for met, _ in self.criteria)
        return self.reached or (self.complete and not is_open and not self.missed)

    @property
    def made(self) -> tuple[int, int]:
        """Deliverables complete, and all."""
        return sum(one.done for one in self.deliverables), len(self.deliverables)


class ActiveWorker(NamedTuple):
    """One roster line; `run` is empty where a person wrote it."""

    worker: str
    title: str
    scope: str
    run: str
    pending: str
    item: Item


class Completed(NamedTuple):
    """One line of the recent completions."""

    worker: str
    title: str
    outcome: str
    verdict: str
    date: str
    run: str
    phase: str
    """The name that `run` was called with; empty in lines of old versions and of people."""
    result: str
    """The worker's result in its own words, where the line has it."""
    item: Item


class Status(Value):
    """The content of STATUS.md. A missing part is an empty string or tuple."""

    last_updated: str
    lead: str
    phase: str
    phase_slug: str
    milestone: str
    deliverable: Deliverable
    phases: tuple[Phase, ...]
    progress: tuple[tuple[str, str], ...]
    todo: dict[str, tuple[tuple[bool, str], ...]]
    """By `P0`, `P1` and `P2`: (done, text)."""
    active: tuple[ActiveWorker, ...]
    completions: tuple[Completed, ...]

    @property
    def current(self) -> Phase | None:
        """The phase of the plan that the header names."""
        return phase_of(self.phases, self.phase)

    @property
    def milestones(self) -> tuple[int, int]:
        """Milestones complete, and all; a phase has one."""
        return sum(phase.achieved for phase in self.phases), len(self.phases)


def read(text: bytes) -> Status:
    """Read the file. Raises StateError where it is empty or not UTF-8."""
    return read_of(opened(PATH, text))


def read_of(document: Document) -> Status:
    """Read a parsed file."""
    top = header(document)
    phase = value(document, top, "Phase")
    return Status(
        value(document, top, "Last Updated"),
        value(document, top, "Lead Agent"),
        phase,
        slug(phase),
        value(document, top, "Milestone"),
        _current_deliverable(document, section_like(document, "Current Deliverable")),
        _phases(document, section_like(document, "Phase Plan")),
        _progress(document, section_like(document, "Progress")),
        _todo(document, section_like(document, "TODO")),
        active_workers(document),
        completed(document),
    )


def doubts(text: bytes) -> list[Problem]:
    """Return why the file may hold more than was read: repeated sections, or sections hidden by code.

    Raises StateError where the file cannot be read at all.
    """
    document = opened(PATH, text)
    lacking = [title for title in _READ if section_like(document, title) is None]
    found = [nul_problem(document), fence_problem(document) if lacking else None]
    found += [doubled(document, title) for title in lacking]
    return [problem for problem in found if problem is not None]


def refuse_doubts(text: bytes) -> None:
    """Raise StateError where a file may hold more than can be read."""
    found = doubts(text)
    if found:
        raise StateError(*found)


def phase_matches(status: Status, phase: str) -> str | None:
    """Return the title of the phase that a template names: by number for `phase-2`, else by slug."""
    word = re.fullmatch(_PHASE_WORD, phase.strip())
    titles = [spelled(found.number, found.name) or found.title for found in status.phases]
    titles += [status.phase] if status.phase and status.current is None else []
    if word:
        for title in titles:
            named = _PHASE.match(title)
            if named and _number(named["number"]) == _number(word["number"]):
                return title
    wanted = _dashed(phase)
    for title in titles:
        named = _PHASE.match(title)
        if wanted and wanted in {_dashed(title), _dashed(named["name"]) if named else ""}:
            return title
    return None


def slug(title: str) -> str:
    """Return the short name of a phase, by its title or by the word of a template: `phase-2` if numbered."""
    named = _PHASE.match(title) or re.fullmatch(_PHASE_WORD, title.strip())
    return f"phase-{_number(named['number'])}" if named else _dashed(title)


def milestone_percent(phase: Phase | None) -> int:
    """Return the percentage of a milestone's criteria that are met; without criteria, 0 or 100."""
    if phase is None:
        return 0
    if not phase.criteria:
        return 100 if phase.achieved else 0
    return percent(sum(met for met, _ in phase.criteria), len(phase.criteria))


def value(document: Document, part: Part | None, key: str) -> str:
    """Return the value of a field, as text without escapes; empty where it is missing or repeated."""
    return plain(_spelled(document, part, key))


def _spelled(document: Document, part: Part | None, key: str) -> str:
    try:
        found = field(document, part, key) if part else None
    except MarkdownError:
        return ""
    return found.value if found else ""


def active_workers(document: Document) -> tuple[ActiveWorker, ...]:
    """Return the roster lines below **Active Workers:**."""
    found = []
    for item in _below(document, ACTIVE):
        match = re.match(_ACTIVE, item.text) or re.match(_SENT, item.text)
        if match:
            said = {name: plain(text or "") for name, text in match.groupdict().items()}
            run, pending = said.get("run", ""), said.get("pending", "")
            found.append(ActiveWorker(said["worker"], said["title"], said["scope"], run, pending, item))
    return tuple(found)


def completed(document: Document) -> tuple[Completed, ...]:
    """Return the lines below **Recent Completions:** that have our form, or that of the first version."""
    found = []
    for item in _below(document, RECENT):
        match = _DONE.match(item.text)
        if match:
            said = {name: plain(text or "") for name, text in match.groupdict().items()}
            found.append(Completed(**said, item=item))
    return tuple(found)


def _below(document: Document, label: str) -> tuple[Item, ...]:
    roster = section_like(document, "Worker Roster")
    try:
        part = labelled(document, roster, label) if roster else None
    except MarkdownError:
        part = None
    return () if part is None else tuple(item for item in items(document, part) if item.depth == 0)


def _current_deliverable(document: Document, part: Part | None) -> Deliverable:
    if part is None:
        return Deliverable("", "", "", done=False)
    known = {"status", "owner"}
    taken = {one.line for one in fields(document, part) if key_of(one.key) in known}
    name = ""
    for number, line in enumerate(document.lines, start=1):
        text = document.text(line.start, line.end).strip()
        inside = part.body <= line.start < part.content_end
        if inside and text and number not in taken and document.opaque_at(line.start) is None:
            name = plain(text)
            break
    status = value(document, part, "Status")
    return Deliverable(name, status, value(document, part, "Owner"), status.upper().startswith("COMPLETE"))


def _phases(document: Document, plan: Part | None) -> tuple[Phase, ...]:
    found = []
    for part in sections(document, plan) if plan else ():
        match = _PHASE.match(part.title)
        made = labelled_items(document, part, "Deliverables")
        criteria = labelled_items(document, part, "Acceptance Criteria")
        milestone = _REACHED.match(_spelled(document, part, "Milestone"))
        found.append(
            Phase(
                _number(match["number"]) if match else None,
                match["name"] if match else part.title,
                part.title,
                value(document, part, "Status"),
                plain(milestone["name"]) if milestone else "",
                _deliverables(made),
                tuple((bool(item.done), plain(item.text)) for item in criteria if item.done is not None),
                part.line,
                bool(milestone and milestone["done"]),
                bool(milestone and milestone["missed"]),
            )
        )
    return tuple(found)


def labelled_items(document: Document, part: Part, label: str) -> tuple[Item, ...]:
    """Return the items below a label, or below a heading of that name."""
    try:
        below = labelled(document, part, label)
    except MarkdownError:
        below = None
    below = below or section_like(document, label, part)
    return () if below is None else items(document, below)


def _deliverables(listed: tuple[Item, ...]) -> tuple[Deliverable, ...]:
    return tuple(
        _deliverable(item, [one for one in listed if item.start < one.start < item.end])
        for item in listed
        if item.done is not None
    )


def _deliverable(item: Item, below: list[Item]) -> Deliverable:
    match = DELIVERABLE.match(item.text)
    if match is None:
        return Deliverable(plain(item.text), "COMPLETE" if item.done else "", "", bool(item.done))
    owner = plain(match["owner"] or "").strip()
    reason = plain(match["reason"] or "").strip()
    said = {found[1].casefold(): plain(found[2]) for one in below if (found := re.match(BLOCKER, one.text))}
    name, word = plain(match["name"]), match["status"].upper()
    return Deliverable(name, word, owner, bool(item.done), reason, **said)


def _progress(document: Document, part: Part | None) -> tuple[tuple[str, str], ...]:
    return tuple((one.key, plain(one.value)) for one in fields(document, part)) if part else ()


def _todo(document: Document, part: Part | None) -> dict[str, tuple[tuple[bool, str], ...]]:
    found = {}
    for level in ("P0", "P1", "P2"):
        below = section_like(document, level, part) if part else None
        inside = items(document, below) if below else ()
        found[level] = tuple((item.done, plain(item.text)) for item in inside if item.done is not None)
    return found


def phase_of(phases: tuple[Phase, ...], title: str) -> Phase | None:
    """Return the phase that a title means, in any spelling."""
    wanted = slug(title)
    return next((phase for phase in phases if wanted and slug(phase.title) == wanted), None)


def spelled(number: str | None, name: str) -> str:
    """Return a phase's title in the form of the header; empty for one without a number."""
    return f"Phase {number} - {name}" if number and name else f"Phase {number}" if number else ""


def _number(text: str) -> str:
    return ".".join(part.lstrip("0") or "0" for part in text.split("."))


def _dashed(text: str) -> str:
    return re.sub(r"[\W_]+", "-", text.casefold()).strip("-")
