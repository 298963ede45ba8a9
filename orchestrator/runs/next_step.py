"""What comes next in a project: the P0 and the command that `status`, `resume`, `report`, `handoff` show."""

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from orchestrator.errors import Refusal
from orchestrator.runs.state import RunState, told_of
from orchestrator.state.canonical.decisions.read import PATH as DECISIONS
from orchestrator.state.canonical.decisions.read import phases_run
from orchestrator.state.canonical.status.read import Status, slug
from orchestrator.store.read import bytes_of, read_state
from tickets.value import Value

TEMPLATES = "docs/worker-ticket-templates"
"""As `tickets.template` has it, which `status` has no time to import."""
_COMMAND = re.compile(r"`(orchestrate [^`]+)`")
_PHASE = re.compile(rb"^phase:", re.MULTILINE)
_RUNS_PHASE = re.compile(r"orchestrate (?:plan|run|deploy) [^-\s]\S*$")


class Step(Value):
    """What comes next: the P0 that it is about, and the command."""

    p0: str
    command: str


class Made(Value):
    """Tickets of a phase that make lost work again."""

    phase: str
    tickets: tuple[str, ...]

    @property
    def command(self) -> str:
        """Return the command that runs them."""
        only = " ".join(shlex.quote(ticket) for ticket in dict.fromkeys(self.tickets))
        return f"orchestrate run {shlex.quote(self.phase)} --only {only}"


def next_step(
    root: Path, status: Status | None, waiting: RunState | None, again: Made | None, *, is_missing: bool
) -> Step:
    """Return the next P0 and the command that takes things further, from files alone.

    `waiting` is the run that `waiting_of` gives, `again` what makes lost work again; without a `status`,
    `is_missing` tells whether there is no file at all.
    """
    done = phases_done(root, status)
    first = next(iter(open_p0(status, done)), "")
    if waiting is not None:
        return Step(first, waiting.next_action())
    if status is None:
        return Step("", "orchestrate init" if is_missing else "orchestrate validate")
    if again is not None:
        return Step(first, again.command)
    if named := _COMMAND.search(first):
        return Step(first, named[1])
    phase = status.phase_slug
    if phase and phase not in done and has_templates(root, phase):
        return Step(first, f"orchestrate plan {shlex.quote(phase)}")
    # Run already, or nothing to run: what is next is for the lead to say, and the list is where it is said.
    return Step(first, "orchestrate todo list")


def waiting_of(unfinished: Iterable[RunState], newest: RunState | None) -> RunState | None:
    """Return the newest run that waits for something: also the last of all, cancelled with work to settle."""
    if newest is not None and newest.closed == "cancelled" and _has_work(newest):
        return newest
    return next(iter(unfinished), None)


def phases_done(root: Path, status: Status | None) -> frozenset[str]:
    """Return the phases that are complete by the plan, or were run: a clone is told the same."""
    done = frozenset(slug(one.title) for one in (status.phases if status else ()) if one.complete)
    done |= frozenset(one.phase for one in (status.completions if status else ()) if one.phase)
    with suppress(Refusal):  # what is wrong with the log, others say
        done |= phases_run(read_state(root, DECISIONS))
    return done


def open_p0(status: Status | None, done: frozenset[str]) -> Sequence[str]:
    """Return what is open of P0, but for the running of a phase that is done.

    Nobody may have ticked it, and whoever follows it would go through the same phase again and again.
    """
    said = [text for is_done, text in (status.todo.get("P0", ()) if status else ()) if not is_done]
    return [text for text in said if not _is_over(text, done)]


def has_templates(root: Path, phase: str) -> bool:
    """Return whether some template is of a phase, by its text alone."""
    named = re.compile(
        rb"^phase:\s*[\"']?" + re.escape(phase.encode()) + rb"[\"']?\s*(?:#.*)?$", re.MULTILINE
    )
    folder = root / TEMPLATES
    names = sorted(entry.name for entry in os.scandir(folder)) if folder.is_dir() else []
    for name in names:
        if name.lower().endswith(".md") and name.lower() != "readme.md" and name[0] != ".":
            with suppress(OSError):  # what is wrong with a template, `plan` says
                # One that names no phase is of any.
                text = bytes_of(folder / name)
                if named.search(text) or not _PHASE.search(text):
                    return True
    return False


def _has_work(run: RunState) -> bool:
    """Return whether a verdict is to be found, or accepted work to be landed and recorded."""
    return any(
        worker.verdict == "pending" or (worker.lands and run.recorded.get(name) != told_of(worker))
        for name, worker in run.workers.items()
    )


def _is_over(text: str, done: frozenset[str]) -> bool:
    named = _COMMAND.search(text)
    return bool(named and _RUNS_PHASE.match(named[1]) and named[1].split()[2] in done)
