"""The next step of a project: that of the first condition that holds, in one ordered list.

`status` and `resume` ask it of an outlook, the facts that decide it.
"""

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

from orchestrator.runs.cut_off import goes_on, kept
from orchestrator.runs.next_action import (
    INBOX,
    STATUS,
    TEMPLATES,
    completing,
    going_on,
    next_of_ended,
    next_of_run,
    once_mended,
    quoted,
    without_template,
)
from orchestrator.runs.state import RunState, read_roster
from orchestrator.step import Step, Waits, step_text
from tickets.value import Value
from tickets.wording import count_of, some_of
from workers.files.run_dir import runs_of

if TYPE_CHECKING:
    from orchestrator.state.canonical.status.read import Status

RECOVER = "orchestrate resume"
"""Completes changes that a killed command had decided, and shows the state of the project."""
_COMMAND = re.compile(r"`(orchestrate [^`]+)`")
_RUNS_PHASE = re.compile(r"orchestrate (?:plan|run|deploy) (?P<phase>[^-\s]\S*)")
_AS_IT_IS = re.compile(r"orchestrate [\w ./=@:,+-]+")
"""A call without what a shell would act on."""
_PHASE = re.compile(rb"^phase:", re.MULTILINE)


class ProjectStep(Value):
    """The next step of a project, and its P0."""

    p0: str
    step: Step
    why: str
    """The reason for the step, in one line."""

    @property
    def said(self) -> str:
        """The step in one line: the command, or what is waited for."""
        return step_text(self.step)

    def as_json(self) -> dict[str, str | None]:
        """Return the P0, the command, which is null where there is none, and why it is the next one."""
        command = self.step if isinstance(self.step, str) else None
        return {"p0": self.p0, "command": command, "why": self.why}


class Rerun(Value):
    """Tickets of a phase that redo lost work, and the runs that are gone."""

    phase: str
    tickets: tuple[str, ...]
    runs: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """Return the command that runs them."""
        only = " ".join(quoted(ticket) for ticket in dict.fromkeys(self.tickets))
        return f"orchestrate run {quoted(self.phase)} --only {only}"

    @property
    def step(self) -> Waits:
        """Return the wait for the lead: what was done and paid for would be done again."""
        work = f"the work of run {some_of(self.runs)}, whose folder is gone, is lost"
        return Waits("lead", f"{work}; `{self.command}` runs it again, once that is wanted")


class CutOff(Value):
    """Tickets of a phase whose checkpoints say that they can go on, and no run here is about them."""

    phase: str
    tickets: tuple[str, ...]
    why: str


class Outlook(Value):
    """The facts that decide the next step of a project."""

    root: Path
    at: datetime
    status: "Status | None"
    is_missing: bool
    """There is no STATUS.md; otherwise, without a `status`, it cannot be read."""
    conflict: str
    """Why it cannot be changed: the marks of a merge are in it."""
    red_tests: str
    """The project's tests that have failed at this commit, where a run has finished a deliverable."""
    is_interrupted: bool
    """Whether a command was killed between its decision and its end."""
    awaited: str
    """The branch that its change waits for, where the user is on another one."""
    in_progress: str
    """The operation that the user is in the middle of, as a merge: until its end nothing is committed."""
    waiting: RunState | None
    """The run that waits for a command."""
    newest: Sequence[RunState]
    """The newest runs, the last one first, whatever became of them."""
    rerun: Rerun | None
    outlived: tuple[str, ...]
    """The workers that still run although the folder of their run is gone."""
    phases_done: Collection[str]
    """Phases that are complete by the plan, or were run."""
    phases_complete: Collection[str]
    """Phases that are complete by the plan."""
    rejected: str
    """Who has rejected the step from the current phase to the next; empty where nobody has."""
    cut_off: Callable[[], CutOff | None]
    """Reads the checkpoints: there may be thousands, and hardly any step asks for them."""


def next_of_project(outlook: Outlook) -> ProjectStep:
    """Return the next P0 and the step that continues a project."""
    first = next(iter(open_p0(outlook.status, outlook.phases_done)), "")
    look = _Look(outlook, first)
    find, step = next((find, step) for find in _STEPS if (step := find(look)))
    return ProjectStep(first, step, step.what if isinstance(step, Waits) else _WHY[find](look))


class _Look:
    """An outlook with its first P0, and what that says of the work that is next."""

    def __init__(self, outlook: Outlook, first: str) -> None:
        self.outlook, self.first = outlook, first

    @property
    def status(self) -> "Status":
        """The content of STATUS.md: those ask that come behind the step for a missing one."""
        return cast("Status", self.outlook.status)

    @cached_property
    def cut_off(self) -> CutOff | None:
        """The tickets that go on from their checkpoints alone."""
        return self.outlook.cut_off()

    @cached_property
    def named(self) -> re.Match[str] | None:
        """The command that the first P0 names."""
        return _COMMAND.search(self.first)

    @cached_property
    def run_named(self) -> re.Match[str] | None:
        """The same, where it runs a phase."""
        runs = _RUNS_PHASE.match(self.named[1]) if self.named else None
        is_whole = self.named and runs and not runs["phase"].isupper() and _AS_IT_IS.fullmatch(self.named[1])
        return runs if is_whole else None

    @cached_property
    def begins(self) -> tuple[str, str]:
        """The phase that is next, and the command that begins it; empty where that is over, or has none."""
        if self.named and self.run_named:
            return self.run_named["phase"], self.named[1]
        phase, outlook = self.status.phase_slug, self.outlook
        if phase and phase not in outlook.phases_done and has_templates(outlook.root, phase):
            return phase, f"orchestrate plan {quoted(phase)}"
        return phase, ""


def _end_of_operation(look: _Look) -> Step | None:
    """Return the wait for the end of a merge or the like; a run that is on goes on meanwhile."""
    waiting, operation = look.outlook.waiting, look.outlook.in_progress
    if not operation or (waiting is not None and waiting.status() == "running"):
        return None
    return Waits("lead", f"{operation} is in progress: finish or abort it first")


def _switch_back(look: _Look) -> Step | None:
    """Return the wait for the branch that a decided change belongs to."""
    branch = look.outlook.awaited
    what = f"a decided change waits for {branch}: switch back, then `{RECOVER}`"
    return Waits("lead", what) if branch else None


def _recovery(look: _Look) -> Step | None:
    """Return the command that completes what a killed command had decided."""
    return RECOVER if look.outlook.is_interrupted else None


def _new_messages(look: _Look) -> Step | None:
    """Return the command that shows the messages for the lead which nobody has shown yet."""
    runs = (*look.outlook.newest, *filter(None, (look.outlook.waiting,)))
    return INBOX if any(run.inbox.new for run in runs) else None


def _waiting_run(look: _Look) -> Step | None:
    """Return the step of the run that waits for one: that is on, interrupted, or has work to settle."""
    waiting = look.outlook.waiting
    if waiting is None or (look.outlook.status is None and waiting.status() != "running"):
        return None
    return next_of_run(waiting, look.outlook.at)


def _missing_status(look: _Look) -> Step | None:
    """Return the command for a STATUS.md that is missing or cannot be read."""
    if look.outlook.status is not None:
        return None
    return "orchestrate init" if look.outlook.is_missing else "orchestrate validate"


def _outlived(look: _Look) -> Step | None:
    """Return the wait for workers that still run although the folder of their run is gone."""
    if not look.outlook.outlived:
        return None
    what = f"{some_of(look.outlook.outlived)}: still running, although the folder of the run is gone"
    return Waits("outside", f"{what}; what is done cannot land: wait for its end, or end its process")


def _lost_work(look: _Look) -> Step | None:
    """Return the wait for a decision about the tickets of a lost run."""
    return look.outlook.rerun.step if look.outlook.rerun else None


def _cut_off(look: _Look) -> Step | None:
    """Return the command that goes on with what was cut off, where only its checkpoint is left here."""
    found = look.cut_off
    return going_on(found.phase, found.tickets) if found else None


def _item_to_tick(look: _Look) -> Step | None:
    """Return the wait for the first P0 where its command runs no phase.

    It would be named again and again until somebody ticks the item.
    """
    if look.named is None or look.run_named:
        return None
    return Waits("lead", f"the first P0 item is to be done and ticked: {look.first}")


def _left_undone(look: _Look) -> Step | None:
    """Return the step that follows a run that is over and has left work undone."""
    outlook = look.outlook
    phase, command = look.begins
    # What is left of another phase gives way to this one; that of a complete phase is over.
    wanted = {phase} if command else {one.phase for one in outlook.newest} - {*outlook.phases_complete}
    since: set[str] = set()
    for run in outlook.newest:
        if run.phase in wanted:
            ended = next_of_ended(run, since | _not_wanted(run))
            if isinstance(ended, Waits) or ended != STATUS:
                return ended
            since |= {worker.ticket for worker in run.workers.values()}
    return None


def _next_phase(look: _Look) -> Step | None:
    """Return the command that the first P0 names, or that plans the phase if it was not run."""
    return look.begins[1] or None


def _finished_work(look: _Look) -> Step | None:
    """Return the command that completes what the last run has finished and the plan has open."""
    newest = look.outlook.newest
    is_current = newest and newest[0].phase == look.begins[0]
    command = completing(newest[0], look.status) if is_current else ""
    return once_mended(look.outlook.conflict or look.outlook.red_tests, command) if command else None


def _nothing_to_do(look: _Look) -> Step:
    """Return the wait for the lead where nothing is under way, and nothing is left to run."""
    newest = look.outlook.newest
    more = _failed_again(newest[0]) if newest else ""
    more += _not_done(look.outlook)
    more += f"; {look.outlook.rejected}" if look.outlook.rejected else ""
    return Waits("lead", f"{_nothing_left(look.status, look.first, look.outlook.phases_done)}{more}")


_STEPS: tuple[Callable[[_Look], Step | None], ...] = (
    _end_of_operation,
    _switch_back,
    _recovery,
    _new_messages,
    _waiting_run,
    _missing_status,
    _outlived,
    _lost_work,
    _cut_off,
    _item_to_tick,
    _left_undone,
    _next_phase,
    _finished_work,
    _nothing_to_do,
)
"""The step is that of the first of these which has one, and the last always has.

Behind `_missing_status` STATUS.md can be read.
"""


def _why_waiting(look: _Look) -> str:
    """Return what the run that waits for a command waits for."""
    run = look.outlook.waiting
    if run is None:
        return ""
    status = run.status()
    if status == "interrupted":
        going = [name for name, one in run.workers.items() if one.started and not one.ended]
        at_work = f"; {some_of(going, 1)} had begun" if going else ""
        return f"run {run.run.id} of {run.phase} was interrupted{at_work}"
    if pending := run.pending:
        return f"run {run.run.id} of {run.phase} has {count_of(len(pending), 'pending verdict')}"
    return f"run {run.run.id} of {run.phase} is {status}"


def _why_no_status(look: _Look) -> str:
    """Return what is wrong with STATUS.md."""
    return f"STATUS.md {'is missing' if look.outlook.is_missing else 'cannot be read'}"


def _why_left(look: _Look) -> str:
    """Return what the newest run that is over has left."""
    for run in look.outlook.newest:
        going = [one for one in run.workers.values() if goes_on(run.run, one)]
        if going:
            first = going[0]
            files = len(first.evidence.files)
            named = some_of([one.ticket for one in going], 1)
            return f"{named} was cut off: {first.found or first.reason}; {kept(files)}"
    return "a run that is over has left tickets that were not done"


def _why_begins(look: _Look) -> str:
    """Return why a phase is next."""
    if look.run_named:
        return f"the first P0 item names it: {look.first}"
    return f"{look.begins[0]} is the current phase of the plan, and no run of it has ended yet"


_WHY: Mapping[Callable[[_Look], Step | None], Callable[[_Look], str]] = {
    _recovery: lambda _: "a change was decided and not completed",
    _new_messages: lambda _: "there are messages for you that nobody has shown yet",
    _waiting_run: _why_waiting,
    _missing_status: lambda look: (
        f"STATUS.md {'is missing' if look.outlook.is_missing else 'cannot be read'}"
    ),
    _cut_off: lambda look: look.cut_off.why if look.cut_off else "",
    _left_undone: _why_left,
    _next_phase: _why_begins,
    _finished_work: lambda _: "all tickets of a deliverable that the plan has open are done",
}
"""The reason for a step that is a command; a wait says its own."""


def _not_wanted(run: RunState) -> set[str]:
    """Return the tickets that are not left to do: without a template, or done before and run once more."""
    return without_template(run) | {one.ticket for one in run.workers.values() if one.again}


def _failed_again(run: RunState) -> str:
    """Describe the workers that failed although their tickets were done before; empty for none."""
    names = [name for name in run.to_examine if run.workers[name].again]
    if not names:
        return ""
    return f"; run again, {some_of(names, 1)} failed: `orchestrate logs {run.run.id} {names[0]}` shows why"


def _not_done(outlook: Outlook) -> str:
    """Name the tickets of phases that were run which are not done and that no step is about; empty for none.

    Their work was rejected, or their templates have come since.
    """
    for phase in dict.fromkeys(run.phase for run in outlook.newest):
        left = [] if phase in outlook.phases_complete else _not_done_of(outlook, phase)
        if left:
            command = f"orchestrate run {quoted(phase)}"
            return (
                f"; not done of {phase}: {some_of(left)}: `{command}` runs what is left, once that is wanted"
            )
    return ""


def _not_done_of(outlook: Outlook, phase: str) -> list[str]:
    there = dict.fromkeys(templates_of(outlook.root, phase))
    stands: dict[str, bool] = {}
    for run in outlook.newest:
        for worker in run.workers.values() if run.phase == phase else ():
            is_over = worker.had_nothing_to_do or worker.is_done_since or worker.again
            stands.setdefault(worker.ticket, worker.lands or is_over or worker.worker in run.unavailable)
    rejected = [ticket for ticket, done in stands.items() if not done and _stem(ticket) in there]
    seen = tickets_seen(outlook.root, phase)
    return [*rejected, *(stem for stem in there if stem not in seen)]


def _stem(ticket: str) -> str:
    return ticket.partition("[")[0]


def tickets_seen(root: Path, phase: str) -> set[str]:
    """Return the stems of the templates of a phase that some run has had, packed ones included."""
    # For start-up time: `ps` asks for no step of a project.
    from orchestrator.runs.packed import packed_ids  # noqa: PLC0415
    from orchestrator.runs.packed_works import packed_works  # noqa: PLC0415

    rosters = (read_roster(run) for run in runs_of(root))
    found = {
        _stem(worker.ticket)
        for one in rosters
        if one and one.phase == phase
        for worker in one.workers.values()
    }
    return found | {_stem(work.ticket) for id_ in packed_ids(root) for work in packed_works(root, id_, phase)}


def _nothing_left(status: "Status", first: str, phases_done: Collection[str]) -> str:
    """Describe what the lead decides where nothing is under way, and nothing is left to run."""
    said = f"nothing is under way; {_left_of_plan(status, phases_done)}"
    if first:
        return f"{said}; the first open P0 item: {first}"
    if any(open_todo(status, grade) for grade in ("P1", "P2")):
        return f"{said}; `orchestrate todo list` shows the open items"
    return said


def _left_of_plan(status: "Status", phases_done: Collection[str]) -> str:
    """Describe what the plan says of the current phase, or which one is next."""
    from orchestrator.state.canonical.status.read import slug  # noqa: PLC0415 - for start-up time: `ps` reads no plan

    phase = status.current
    follows = next((one for one in status.phases if not one.complete and one != phase), None)
    if phase is None or phase.complete:
        if follows is not None:
            return f"next in the plan is {follows.title}: `orchestrate phase start {slug(follows.title)}`"
        return "all phases are complete" if status.phases else "the plan has no phases"
    left = [one for one in phase.deliverables if not one.done]
    unmet = sum(not met for met, _ in phase.criteria)
    if left:
        said = f"{phase.title} has {count_of(len(left), 'deliverable')} left"
    elif unmet:
        counted = count_of(unmet, "criterion", "criteria")
        said = f"{phase.title} has {counted} left: `orchestrate criterion list`"
    elif phase.deliverables or phase.criteria:
        then = f", then comes {follows.title}" if follows else ""
        return f"all of {phase.title} is done: `orchestrate phase complete`{then}"
    else:
        said = f"{phase.title} has no deliverables yet: `orchestrate deliverable add`"
    name = slug(phase.title)
    return said if name in phases_done else f"{said}, and no template is of `{name}`"


def open_p0(status: "Status | None", done: Collection[str]) -> Sequence[str]:
    """Return the open P0 items, without the one to run a phase that is done.

    It may not be ticked, and a lead that follows it would run the same phase again and again.
    """
    return [text for text in open_todo(status, "P0") if not _is_over(text, done)]


def open_todo(status: "Status | None", grade: str) -> tuple[str, ...]:
    """Return the open TODO items of one priority."""
    return tuple(text for done, text in status.todo.get(grade, ()) if not done) if status else ()


def has_templates(root: Path, phase: str) -> bool:
    """Return whether some template is of a phase, by its text alone."""
    return next(templates_of(root, phase), None) is not None


def templates_of(root: Path, phase: str) -> Iterator[str]:
    """Yield the stems of the templates of a phase, by their text alone."""
    from orchestrator.store.read import bytes_of  # noqa: PLC0415 - for start-up time: `ps` reads no template

    named = re.compile(
        rb"^phase:\s*[\"']?" + re.escape(phase.encode()) + rb"[\"']?\s*(?:#.*)?$", re.MULTILINE
    )
    folder = root / TEMPLATES
    names = sorted(entry.name for entry in os.scandir(folder)) if folder.is_dir() else []
    for name in names:
        if name.lower().endswith(".md") and name.lower() != "readme.md" and name[0] != ".":
            try:
                text = bytes_of(folder / name)
            except OSError:
                continue  # `plan` reports the faults of templates
            # A template without a phase belongs to every phase.
            if named.search(text) or not _PHASE.search(text):
                yield name[: -len(".md")]


def _is_over(text: str, done: Collection[str]) -> bool:
    named = _COMMAND.search(text)
    runs = _RUNS_PHASE.match(named[1]) if named else None
    return bool(runs and runs["phase"] in done)
