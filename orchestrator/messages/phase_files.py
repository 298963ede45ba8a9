"""The files of the phase that a run's phase worker owns: what a message makes of them, and their record."""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import cast

import anyio.to_thread

from orchestrator.errors import StateError
from orchestrator.execute.runtime import Runtime
from orchestrator.messages.effects import Effect, OwnedPhase, effect_of, effect_of_answer
from orchestrator.state import Tree
from orchestrator.state.events import PhaseEvent
from orchestrator.state.phases import plan_file
from orchestrator.state.phases.paths import name_of, plan_path, status_path
from orchestrator.state.phases.phase_status import read as status_file
from orchestrator.state.phases.phase_status.phase_status import missing
from orchestrator.state.transition import transition
from orchestrator.store.read import FilesRead, read_state
from orchestrator.store.repo import RepoBlocked
from orchestrator.store.store import Store
from tickets.problems import Problem, ProblemError
from tickets.ticket import Ticket
from workers.messages.record import Record, participant


class PhaseFiles:
    """The files of a run's phase; without a phase worker, or with the family off, there are none."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        is_on = "phases" in runtime.settings.families
        self.ticket: Ticket | None = runtime.manifest.phase_worker if is_on else None
        """That of the phase worker."""
        self.owner = participant(runtime.run.id, self.ticket.worker) if self.ticket else ""
        self._known: tuple[Mapping[str, bytes | None], OwnedPhase] | None = None

    def tree(self) -> Tree:
        """Return the files as they are; each is read when it is asked for."""
        return FilesRead(lambda path: read_state(self._runtime.repository.root, path))

    def phase(self, tree: Tree) -> OwnedPhase | None:
        """Read the phase; None where no worker of this run owns one. Raises StateError, Refusal."""
        if self.ticket is None:
            return None
        name = name_of(tree, self._runtime.manifest.phase)
        texts = {path: tree.get(path) for path in (status_path(name), plan_path(name))}
        if self._known is None or self._known[0] != texts:
            self._known = texts, self._read(name, *texts.values())
        return self._known[1]

    def _read(self, name: str, status: bytes | None, plan: bytes | None) -> OwnedPhase:
        if status is None:
            raise missing(status_path(name))
        found = status_file.read(status_path(name), status)
        plans = plan_file.read(plan_path(name), plan or b"")
        reporting = self._runtime.manifest.messages.events
        return OwnedPhase(self._runtime.manifest.phase, name, self.owner, reporting, found, plans)

    def effect_of(self, record: Record, tree: Tree) -> Effect:
        """Return what a message to the coordinator brings about. Raises StateError, Refusal."""
        return effect_of(record, self.phase(tree))

    def effect_of_answer(self, record: Record, asked: Record | None, tree: Tree) -> Effect:
        """Return what an answer or a receipt of the lead's brings about. Raises StateError, Refusal."""
        return effect_of_answer(record, asked, self.phase(tree))

    def after(self, tree: Tree, event: PhaseEvent) -> Tree:
        """Return the files after an event that is not recorded yet."""
        made = transition(tree, [event], self._runtime.settings.families, leaves=True).texts
        return ChainMap(dict(made), cast("dict[str, bytes | None]", tree))

    def shown_of(self, record: Record) -> dict[str, str]:
        """Return what the files show of a handled message: where its blocker is, or its plan's commit."""
        try:
            phase = self.phase(self.tree())
        except ProblemError:
            return {}
        if phase is None:
            return {}
        if record.type == "plan_complete":
            row = phase.status.row(record.plan or "")
            return {"commit": row.commit or "", "verified": row.verified or ""} if row else {}
        found = next((one for one in phase.status.blockers if one.message == record.id), None)
        return {"pointer": status_file.pointer(status_path(phase.name), found.name)} if found else {}

    async def record(self, events: Sequence[PhaseEvent]) -> dict[int, Problem]:
        """Record events as one change; return what prevents some of them, by their places."""
        if not events:
            return {}
        return await anyio.to_thread.run_sync(self._record, events)

    def _record(self, events: Sequence[PhaseEvent]) -> dict[int, Problem]:
        store, families = Store(self._runtime.repository), self._runtime.settings.families
        try:
            done = store.record(events, families=families, message="", commit=False, is_run=True)
        except (StateError, RepoBlocked) as error:
            return dict.fromkeys(range(len(events)), error.problems[0])
        return dict(done.left)
