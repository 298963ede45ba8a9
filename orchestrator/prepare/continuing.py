"""What unfinished tickets go on from: their checkpoints, and the thread and the patch that a run has left."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from orchestrator.errors import Refusal
from orchestrator.runs.continued import Continued, Origin
from orchestrator.runs.earlier import Earlier
from orchestrator.runs.events import NO_USAGE, TOKENS, Usage
from orchestrator.runs.manifest import Manifest, read_manifest
from orchestrator.runs.state import RunState, read_roster, read_run
from orchestrator.runs.worker_state import CUT_OFF, WorkerState
from orchestrator.state.checkpoints.form import Checkpoint
from orchestrator.state.checkpoints.glance import glance
from orchestrator.state.checkpoints.names import FOLDER, paths_of, same_pair
from orchestrator.state.checkpoints.read import read
from orchestrator.store.read import read_state
from tickets.problems import ProblemError
from tickets.scopes.rules import PathRules
from tickets.scopes.scope import Scope
from tickets.ticket import Ticket
from tickets.value import Value
from workers.agents.agent import agent_named
from workers.files.run_dir import runs_of
from workers.git.run import GitError, Repository, git_fields
from workers.worktree.carry import Carried, carried

NOTES = 10
"""How many of a worker's last notes the next one is told."""


class Continuation(Value):
    """How one ticket goes on."""

    told: Continued
    patch: bytes = b""
    """The earlier changes, for the new base; as they were where they conflict."""


def checkpoint_of(root: Path, ticket: Ticket, *, whole: bool = False) -> Checkpoint | None:
    """Return the checkpoint of a ticket, `whole` with its notes; None where it has none that can be read."""
    pair = ticket.deliverable or ticket.title, ticket.id
    with suppress(ProblemError):
        for path in paths_of(*pair):
            if (text := read_state(root, path)) is None:
                return None
            found = (read if whole else glance)(path, text)
            if found and same_pair((found.feature, found.agent), pair):
                return found
    return None


def cut_off(root: Path, tickets: Sequence[Ticket]) -> list[str]:
    """Return the ids of tickets whose checkpoints say that they can go on."""
    try:
        there = {f"{FOLDER}/{name}" for name in os.listdir(root / FOLDER)}  # noqa: PTH208 - names alone
    except OSError:
        return []
    begun = [one for one in tickets if next(paths_of(one.deliverable or one.title, one.id)) in there]
    found = ((one.id, checkpoint_of(root, one)) for one in begun)
    return [id_ for id_, one in found if one is not None and one.status == "in_progress"]


def unfinished(root: Path, tickets: Sequence[Ticket], earlier: Earlier) -> set[str]:
    """Return the ids of tickets that somebody has begun, by their checkpoints, and that are not done.

    Where a checkpoint could not be written, the records of the runs tell it.
    """
    found = {one.id: checkpoint_of(root, one) for one in tickets if one.id not in earlier.done}
    return {
        id_ for id_, one in found.items()
        if (one.status != "complete" if one is not None else id_ in earlier.rejected)
    }  # fmt: skip


def with_related(
    tickets: Sequence[Ticket], begun: Collection[str], done: Collection[str]
) -> tuple[Ticket, ...]:
    """Return the begun tickets, those that wait for them, and those that any of these wait for."""
    chosen = set(begun)
    for ticket in _in_order(tickets):
        if ticket.id not in done and not chosen.isdisjoint(ticket.depends_on):
            chosen.add(ticket.id)
    for ticket in reversed(_in_order(tickets)):
        if ticket.id in chosen:
            chosen.update(id_ for id_ in ticket.depends_on if id_ not in done)
    return tuple(ticket for ticket in tickets if ticket.id in chosen)


def _in_order(tickets: Sequence[Ticket]) -> list[Ticket]:
    """Return the tickets with each after those that it depends on; a circle, which is refused, at the end."""
    placed: dict[str, Ticket] = {}
    left = {ticket.id: ticket for ticket in tickets}
    while left:
        ready = [one for one in left.values() if left.keys().isdisjoint(one.depends_on)]
        for one in ready or list(left.values()):
            placed[one.id] = left.pop(one.id)
    return list(placed.values())


class Branch(Value):
    """What tickets start from now."""

    repository: Repository
    rules: PathRules
    base: str


def continuations(branch: Branch, phase: str, tickets: Sequence[Ticket]) -> Mapping[str, Continuation]:
    """Return how tickets of a phase go on from a branch, by their ids; those nobody has begun are omitted.

    Writes nothing.
    """
    found: dict[str, Continuation] = {}
    wanted = {ticket.id: ticket for ticket in tickets}
    root = branch.repository.root
    for state, manifest in _runs(root, phase):
        for worker in state.workers.values():
            if worker.ticket in wanted and worker.started and worker.ended:
                ticket = wanted.pop(worker.ticket)
                found[ticket.id] = _continuation(branch, ticket, manifest, worker)
        if not wanted:
            break
    for ticket in wanted.values():
        if checkpoint := checkpoint_of(root, ticket, whole=True):
            told = Continued(None, None, "notes", checkpoint.last_action, notes=_notes(checkpoint))
            found[ticket.id] = Continuation(told)
    return found


def _runs(root: Path, phase: str) -> Iterator[tuple[RunState, Manifest]]:
    """Yield the readable runs of a phase that are here, newest first."""
    for run in reversed(runs_of(root)):
        roster = read_roster(run)
        if roster is None or roster.phase != phase or (state := read_run(run)) is None:
            continue
        with suppress(Refusal):  # `validate` reports it
            yield state, read_manifest(run)


class Left(Value):
    """What a run here has of a ticket that was begun."""

    state: RunState
    worker: WorkerState
    changed_since: tuple[str, ...]
    thread: bool
    patch: str | None
    worktree: str | None
    """While the run is unfinished."""
    files: tuple[str, ...]

    @property
    def origin(self) -> Origin:
        """What a new run would go on from, as far as it is known without a try of the patch."""
        if self.thread and not self.changed_since:
            return "thread"
        return "patch" if self.patch or self.worktree else "notes"


def left_of(repository: Repository, phase: str, ticket_id: str, base: str) -> Left | None:
    """Return what the newest run here has of a ticket; None where no run has begun it."""
    for state, manifest in _runs(repository.root, phase):
        worker = next((one for one in state.workers.values() if one.ticket == ticket_id), None)
        if worker is None or not worker.started:
            continue
        ticket, branch = manifest.by_id(ticket_id), Branch(repository, manifest.rules, base)
        scope = manifest.rules.scope_of(ticket)
        tree = state.run.worktree(worker.worker)
        return Left(
            state,
            worker,
            _changed_since(branch, ticket, scope, worker.base or manifest.base),
            _thread(worker) is not None,
            worker.evidence.patch,
            state.run.relative(tree) if state.is_unfinished and tree.is_dir() else None,
            worker.evidence.files,
        )
    return None


def _continuation(branch: Branch, ticket: Ticket, manifest: Manifest, worker: WorkerState) -> Continuation:
    scope = branch.rules.scope_of(ticket)
    changed = _changed_since(branch, ticket, scope, worker.base or manifest.base)
    if manifest.by_id(worker.ticket).digest != ticket.digest:
        changed = (ticket.template, *changed)
    work = _carried(branch, ticket, scope, worker)
    thread = _thread(worker)
    conflict = work.conflict or None
    if changed or conflict or worker.agent != ticket.agent:
        thread = None
    has_patch = bool(work.files) and conflict is None
    checkpoint = checkpoint_of(branch.repository.root, ticket, whole=True)
    told = Continued(
        manifest.run,
        worker.worker,
        "thread" if thread else "patch" if has_patch else "notes",
        worker.found or worker.reason or worker.ended_as,
        was_cut_off=worker.outcome in CUT_OFF,
        files=work.files,
        changed_since=changed,
        conflict=conflict,
        thread=thread,
        notes=_notes(checkpoint) if checkpoint else (),
        used=_used(worker, thread) if thread else NO_USAGE,
    )
    return Continuation(told, work.patch)


def _changed_since(branch: Branch, ticket: Ticket, scope: Scope, old: str) -> tuple[str, ...]:
    """Return what a ticket owns or reads that differs from an old base; all of it where that is gone."""
    if old == branch.base:
        return ()
    differ = ("diff", "--name-only", "--no-renames", "-z", old, branch.base, "--")
    try:
        paths = git_fields(*differ, cwd=branch.repository.root)
    except GitError:
        return (*ticket.owns, *ticket.reads)
    read_ = branch.rules.read(ticket.reads)
    return tuple(path for path in paths if scope.covers(path) or read_.covers(path))


def _carried(branch: Branch, ticket: Ticket, scope: Scope, worker: WorkerState) -> Carried:
    """Return the earlier changes inside the scope, for the new base; none where they are gone."""
    kept, repository = worker.evidence.patch, branch.repository
    if ticket.mode == "write" and kept:
        with suppress(GitError, OSError):
            return carried(repository, branch.base, repository.root / kept, scope.covers)
    return Carried(b"", ())


def _thread(worker: WorkerState) -> str | None:
    """Return the thread of a worker that its agent still has, and finds in another folder."""
    if "thread_lost" in worker.flags or not agent_named(worker.agent).MOVES_THREADS:
        return None
    known = (worker.evidence.thread, *(one.thread for one in reversed(worker.tries)))
    return next(filter(None, known), None)


def _used(worker: WorkerState, thread: str | None) -> Usage:
    """Return what a thread has used so far, also in the runs before: some agents report the sum of all."""
    tries = [one.usage for one in worker.evidence.tries or worker.tries if one.thread == thread]
    before = worker.continues
    if before is not None and before.thread == thread:
        tries.append(before.used)
    return NO_USAGE._replace(**{name: sum(getattr(one, name) for one in tries) for name in TOKENS})


def _notes(checkpoint: Checkpoint) -> tuple[str, ...]:
    return tuple(f"[{note.at}] {note.text}" if note.at else note.text for note in checkpoint.notes[-NOTES:])
