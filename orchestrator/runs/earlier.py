"""The earlier runs of a phase: which tickets are done, and why the work of others was not accepted.

A ticket is done if its work was accepted and, where it changed anything, is in the history of HEAD. The
records of the runs show it, packed ones included; without them, as in another clone, the trailers of the
landing commits do.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from orchestrator.errors import Refusal
from orchestrator.runs.landings import LandingCommit, landed_tickets
from orchestrator.runs.manifest import DoneTicket, Rejection, read_manifest
from orchestrator.runs.packed import packed_ids
from orchestrator.runs.packed_works import Work, packed_works
from orchestrator.runs.state import RunState, read_roster, read_run
from orchestrator.runs.works import works_of
from tickets.ticket import Ticket
from workers.files.run_dir import RunDir, age, later_runs, runs_of

MOST_RUNS = 500
"""How many runs of a phase are read, from the newest one on."""


class Earlier(NamedTuple):
    """The results of earlier runs, by the ids of a phase's tickets."""

    done: Mapping[str, DoneTicket] = {}  # neither is ever changed
    rejected: Mapping[str, Rejection] = {}
    """Of those that are not done: why the newest work was not accepted."""
    apart: Mapping[str, str] = {}
    """Of those that are done: the ref beside a detached HEAD that alone has the work."""


def earlier_of(root: Path, phase: str, tickets: Sequence[Ticket], beyond: Sequence[str] = ()) -> Earlier:
    """Look for the tickets of a phase in its runs, also packed, in HEAD and in refs `beyond` it."""
    history = _History(root)
    done: dict[str, DoneTicket] = {}
    rejected: dict[str, Rejection] = {}
    seen: set[str] = set()
    """The tickets whose newest work was found."""
    wanted = {ticket.id: ticket.digest for ticket in tickets}
    for works in islice(_works(root, phase), MOST_RUNS):
        for work in works:
            if work.ticket not in wanted or work.ticket in done:
                continue
            if work.lands and wanted[work.ticket] == work.digest and history.holds(work):
                done[work.ticket] = DoneTicket(work.run, work.worker, work.commit, work.output)
            elif not work.lands and work.ticket not in seen:
                rejected[work.ticket] = _rejection(work)
            seen.add(work.ticket)
        if len(done) == len(wanted):
            break
    for ticket in tickets:
        if ticket.id not in done and (landed := history.landed.get(ticket.digest)):
            commit, name = landed
            done[ticket.id] = DoneTicket(commit.run, name, commit.commit)
    apart: dict[str, str] = {}
    for ref in reversed(beyond):
        landed_there = landed_tickets(root, ref)
        for ticket in tickets:
            if ticket.id not in done and (landed := landed_there.get(ticket.digest)):
                done[ticket.id] = DoneTicket(landed[0].run, landed[1], landed[0].commit)
                apart[ticket.id] = ref
    return Earlier(done, {id_: one for id_, one in rejected.items() if id_ not in done}, apart)


def done_since(state: RunState, tickets: Sequence[Ticket]) -> Mapping[str, DoneTicket]:
    """Return those tickets of a run that was stopped which a later run has done, by their ids."""
    run = state.run
    if not (later_runs(run) or any(worker.started or worker.ended for worker in state.workers.values())):
        return {}  # it begins now
    done = earlier_of(run.root, state.phase, tickets).done
    return {id_: one for id_, one in done.items() if age(one.run) > age(run.id)}


class _History:
    """The landing commits in the history of HEAD, read when the first is asked for."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @cached_property
    def landed(self) -> Mapping[str, tuple[LandingCommit, str]]:
        """Digest to the newest commit with its work, and the worker that did it."""
        return landed_tickets(self._root)

    def holds(self, work: Work) -> bool:
        """Return whether the accepted work of a ticket is there, or there was none to land."""
        if not work.is_change or not work.has_landed:
            return not work.is_change
        # Without commits it is in the work tree alone, and a commit may have been rewritten since.
        return work.commit is None or work.digest in self.landed


def _works(root: Path, phase: str) -> Iterator[Sequence[Work]]:
    """Yield what each readable run of a phase has made of its tickets, newest first."""
    here = {run.id: run for run in runs_of(root)}
    for name in sorted({*here, *packed_ids(root)}, key=age, reverse=True):
        found = _works_here(here[name], phase) if name in here else packed_works(root, name, phase)
        if found:
            yield found


def _works_here(run: RunDir, phase: str) -> Sequence[Work]:
    roster = read_roster(run)
    state = read_run(run) if roster is not None and roster.phase == phase else None
    if state is None:
        return ()
    try:
        return tuple(works_of(state, read_manifest(run)))
    except Refusal:
        return ()  # `validate` and `resume` report it


def _rejection(work: Work) -> Rejection:
    return Rejection(work.run, work.worker, work.outcome, work.verdict, work.reason, work.found, work.output)
