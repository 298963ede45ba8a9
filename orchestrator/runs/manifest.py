"""`run.json`: the facts of a run at its beginning; written once, read by every runtime that continues it."""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from orchestrator.errors import Refusal
from orchestrator.runs._shapes import Amount, Inside, is_name, typed
from orchestrator.runs.continued import Continued
from orchestrator.runs.state import Roster, RosterWorker
from orchestrator.state.canonical.status import status
from orchestrator.state.events import CheckpointWritten, Event, NewPlan, PhaseTaken, RunClosed, RunDeployed
from tickets.problems import Problem
from tickets.scopes.rules import PathRules
from tickets.scopes.scope import Scope
from tickets.templates.render import Values
from tickets.ticket import AssignedPlan, Ticket
from tickets.types import BlockerMode, Reporting
from tickets.value import as_json
from workers.files.durable import create_file
from workers.files.read import read_whole
from workers.files.run_dir import RunDir

SCHEMA = 1
_NOTHING = (("again", False), ("continues", None))


class DoneTicket(NamedTuple):
    """The earlier work by which a ticket is done."""

    run: str
    worker: str
    commit: str | None = None
    """None where nothing was to land, or no commit was made."""
    output: Inside | None = None
    """None where the files of that run are gone."""


class Rejection(NamedTuple):
    """Why the work of an earlier run was not accepted."""

    run: str
    worker: str
    outcome: str
    verdict: str
    reason: str
    """Of the verdict."""
    found: str = ""
    """Of its end, where something else decided the verdict."""
    output: Inside | None = None


class MessageRules(NamedTuple):
    """The settings of messages as they were when the run began. Times are seconds."""

    events: Reporting = "transitions"
    on_blocker: BlockerMode = "skip"
    pause_limit: Amount = 1800.0
    ack_limit: Amount = 900.0


class ManifestFile(NamedTuple):
    """The content of `run.json`, without its schema. Times are ISO 8601, UTC."""

    run: str
    phase: str
    created: str
    lead: str
    base: str
    """The commit that the run started from."""
    branch: str | None
    """Full name of the branch it lands on; None where HEAD was detached."""
    fence: str
    tickets: tuple[Ticket, ...]
    """In an order in which every ticket comes after its dependencies."""
    dependencies: Mapping[str, tuple[str, ...]]
    reserved: tuple[str, ...]
    project: str
    skipped: Mapping[str, str] = {}  # it is never changed
    """Ids of tickets that are never started, with the reason."""
    links: Mapping[str, str | None] = {}
    ignore_case: bool = False
    files: tuple[str, ...] = ()
    """The patterns that named a regular file of the base."""
    deliverable: str = ""
    status_text: str = ""
    decisions_text: str = ""
    done: Mapping[str, DoneTicket] = {}
    """Ids of tickets that these depend on, and that earlier runs have done."""
    rejected: Mapping[str, Rejection] = {}
    """Ids of tickets whose newest earlier work was not accepted."""
    again: tuple[str, ...] = ()
    """Ids of tickets that were done before, and were to run again."""
    messages: MessageRules = MessageRules()
    plans: tuple[AssignedPlan, ...] = ()
    """The plans of the phase that had not landed when the run began."""
    left_out: tuple[str, ...] = ()
    """Ids of tickets of the phase that `--only` left out, and that are not done."""
    continues: Mapping[str, Continued] = {}
    """Ids of tickets that somebody has begun in an earlier run, and that go on from there."""
    guardrails: tuple[str, ...] = ()
    """What the active context says that all agents are to keep, when the run began."""


class Manifest(ManifestFile):
    """Everything needed to continue a run after a stop."""

    @cached_property
    def values(self) -> Values:
        """Return the values of the project for the templates, as they were when the run began."""
        said = (self.status_text, self.decisions_text, self.plans)
        return Values(self.project, self.phase, self.deliverable, *said)

    @property
    def ref(self) -> str:
        """Return what it lands on: its branch, or a ref of its own beside a detached HEAD."""
        return self.branch or f"refs/orchestrate/{self.run}"

    def shows(self, event: Event) -> bool:
        """Return whether an event is shown by what is checked out while the run is on.

        Beside a detached HEAD nothing changes there: work and roster are on a ref of the run's own.
        """
        is_apart = self.branch is None and any(ticket.mode == "write" for ticket in self.tickets)
        is_ours = isinstance(event, RunDeployed | RunClosed) and event.run == self.run
        return not (is_apart and (is_ours or isinstance(event, CheckpointWritten)))

    @cached_property
    def rules(self) -> PathRules:
        """The facts by which the tickets' patterns were proved."""
        return PathRules(self.reserved, self.links, self.ignore_case, self.files)

    @cached_property
    def scopes(self) -> Mapping[str, Scope]:
        """The paths that each ticket may change, by its id."""
        return {ticket.id: self.rules.scope_of(ticket) for ticket in self.tickets}

    @cached_property
    def phase_criteria(self) -> tuple[str, ...]:
        """Return the acceptance criteria of the phase, as STATUS.md had them when the run began."""
        if not self.status_text:
            return ()
        read = status.read(self.status_text.encode())
        alone = (read._replace(phases=(phase,), phase="") for phase in read.phases)
        named = [one for one in alone if status.phase_matches(one, self.phase)]
        return tuple(text for one in named for _, text in one.phases[0].criteria)

    @cached_property
    def phase_worker(self) -> Ticket | None:
        """The ticket that owns the plans of the phase, if one is started that does."""
        started = (ticket for ticket in self.tickets if ticket.id not in self.skipped)
        return next((ticket for ticket in started if ticket.phase_worker), None)

    def taken(self, at: datetime) -> tuple[PhaseTaken, ...]:
        """Return the event that the phase worker owns its phase; none where there is no such worker."""
        ticket = self.phase_worker
        if ticket is None:
            return ()
        plans = tuple(NewPlan(plan.id, plan.title) for plan in ticket.named_plans)
        return (PhaseTaken(self.run, self.phase, ticket.worker, self.base, at, self.lead, plans),)

    @cached_property
    def blocks(self) -> Mapping[str, tuple[str, ...]]:
        """Return, by id, the tickets that wait for one; tickets without any are omitted."""
        found: dict[str, list[str]] = {}
        for ticket in self.tickets:
            for id_ in self.dependencies.get(ticket.id, ()):
                found.setdefault(id_, []).append(ticket.id)
        return {id_: tuple(ids) for id_, ids in found.items()}

    def by_id(self, ticket_id: str) -> Ticket:
        """Return a ticket."""
        return self._of_id[ticket_id]

    @cached_property
    def _of_id(self) -> Mapping[str, Ticket]:
        return {ticket.id: ticket for ticket in self.tickets}


def roster_of(manifest: Manifest) -> Roster:
    """Return the part of a manifest that `status` and `ps` can read quickly."""
    workers_of = {ticket.id: ticket.worker for ticket in manifest.tickets}
    return Roster(
        manifest.phase,
        tuple(
            RosterWorker(
                ticket.worker,
                ticket.id,
                ticket.agent,
                ticket.title,
                skipped=ticket.id in manifest.skipped,
                waits_for=tuple(workers_of[one] for one in manifest.dependencies.get(ticket.id, ())),
                again=ticket.id in manifest.again,
                continues=manifest.continues.get(ticket.id),
            )
            for ticket in manifest.tickets
        ),
    )


def write_manifest(run: RunDir, manifest: Manifest) -> None:
    """Create `roster.json`, then `run.json`: a run with the second is complete."""
    # Without the names of empty fields: with ten thousand tickets every word counts at each read.
    workers = [
        {
            name: value
            for name, value in as_json(one).items()
            if not (value == [] or (name, value) in _NOTHING)
        }
        for one in roster_of(manifest).workers
    ]
    roster = {"schema": SCHEMA, "run": manifest.run, "phase": manifest.phase, "workers": workers}
    create_file(run.roster_path, json.dumps(roster).encode() + b"\n")
    names = ("done", "rejected", "messages", "plans", "continues")
    whole = {
        "schema": SCHEMA,
        **manifest._asdict(),
        **{name: as_json(getattr(manifest, name)) for name in names},
        "tickets": [ticket._asdict() for ticket in manifest.tickets],
    }
    # Private: what is executed stays exact, so that a runtime that continues the run does the same.
    create_file(run.manifest_path, json.dumps(whole).encode() + b"\n", 0o600)


def read_manifest(run: RunDir) -> Manifest:
    """Read `run.json`. Raises Refusal where it is not valid."""
    why = "it is damaged, or of another version"
    try:
        found = json.loads(read_whole(run.manifest_path))
        facts = typed(ManifestFile, found)
        # A worker's name is part of its files' names: one with a slash would leave the run's folder.
        are_named = all(is_name(ticket.worker) for ticket in facts.tickets)
        if found.get("schema") == SCHEMA and facts.run == run.id and are_named:
            tickets = tuple(ticket.shared() for ticket in facts.tickets)
            return Manifest(*facts._replace(tickets=tickets))
    except (ValueError, RecursionError):
        pass
    except OSError as error:
        why = (error.strerror or "unknown reason").lower()
    do = "put it back, or run its phase once more with `--new`"
    raise Refusal(Problem(run.relative(run.manifest_path), f"cannot be read: {why}", do))
