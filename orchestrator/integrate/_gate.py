"""The gate on what would land: which work passes, which workers broke it, and in how many runs."""

from collections.abc import Sequence
from typing import NamedTuple

import anyio.to_thread

from orchestrator.execute.command import run_check
from orchestrator.execute.runtime import Runtime
from orchestrator.integrate._bisect import Ask, Breaking, Found, Names, breakers
from orchestrator.integrate._gate_tampering import note_harm
from orchestrator.runs.events import GateBegun, GateEnded, GateRun, GateStep, Unattributed
from orchestrator.runs.next_action import flaky_words
from orchestrator.runs.worker_state import LANDS
from orchestrator.schedule.availability import REMEDY, outdated_build
from orchestrator.store.repo import UserRepo
from orchestrator.tamper.guard import Guard, tampering_problem
from tickets.problems import Problem
from tickets.ticket import Ticket
from tickets.wording import count_of
from workers.agents.follow import read_tail
from workers.agents.stream import printable
from workers.engine.check import EVIDENCE
from workers.fence.probe import fence_in_force
from workers.worktree.change import Change

FLAKY = "after failing once on the same tree"
"""Describes a gate that passed and is flaky; before its commands, which may be cut."""


class Candidate(NamedTuple):
    """A worker whose accepted changes are to land."""

    ticket: Ticket
    changes: tuple[Change, ...]


class Gated(NamedTuple):
    """The gate's result for some candidates."""

    kept: tuple[Candidate, ...] = ()
    """The gate passed on the tree of exactly these."""
    tree: str = ""
    broken: tuple[tuple[Ticket, str], ...] = ()
    """The tickets that broke it, with the reason, in order; their dependents are to be rejected with them."""
    held: str = ""
    """Why all that is not kept has to wait, where no worker is at fault."""
    problems: tuple[Problem, ...] = ()
    harm: str = ""
    """Why all has to wait for the lead's decision: what the gate did to the user's repository."""
    doubt: str = ""
    """Why the lead has to decide although the gate passed: it may have tested something else."""
    fenced: str = ""
    """What the fence kept from a command that failed, where that may be the reason."""
    flaky: bool = False
    """It failed once and passed once on the same tree."""


def note_gate(runtime: Runtime, gated: Gated) -> None:
    """Note the result of the gate, once the workers that broke it are settled."""
    commands = runtime.settings.integration.gate
    last = (gated.held or gated.harm or gated.doubt).removeprefix("the gate ")
    if gated.kept:
        last = f"passed{f', {FLAKY}' if gated.flaky else ''}: {'; '.join(commands)}"
    line = gate_line(runtime, last)
    # Left to note by a runtime that was killed, where nothing is left to land.
    if commands and (last or (line and not runtime.state.gate.result.startswith(line))):
        runtime.note(GateEnded(line, bool(gated.kept), gated.flaky, gated.fenced))


class _NoAnswer(Exception):
    """The gate gave no answer."""


async def pass_gate(runtime: Runtime, candidates: Sequence[Candidate], tree: str, old: str) -> Gated:
    """Run the gate on the tree that would land; if it fails there and not on the base, find out why.

    If the run is being stopped, no work is kept or held: the journal has what was found so far, and the next
    call continues from there.
    """
    gate = _Gate(runtime, candidates, tree, old)
    workers = tuple(one.ticket.worker for one in candidates)
    guard = await anyio.to_thread.run_sync(_guard, runtime) if runtime.settings.integration.gate else None
    if guard is not None:
        before = len(runtime.tampered)
        begun = await guard.begin_check(workers)
        runtime.note(GateBegun(workers))
    try:
        gated = (await _passed(runtime, gate, tuple(candidates), tree))._replace(fenced=gate.fenced())
    except _NoAnswer as no_word:
        gated = Gated(held=str(no_word))
    if guard is None:
        return gated
    found = (*begun, *await guard.end_check("gate"))
    return _with_harm(runtime, gated, (*found, *_forged(runtime, before, workers)))


def _guard(runtime: Runtime) -> Guard | None:
    """Return the guard of an unfenced run; one that is integrated later gets a new one for its gate."""
    if runtime.guard is None and not fence_in_force(runtime.settings.fence.level).holds:
        everyone = {name: one.attempts for name, one in runtime.state.workers.items()}
        runtime.guard = Guard(
            runtime.repository,
            runtime.checker.directory,
            runtime.environ,
            runtime.manifest.rules.reserved_scope,
            # A killed gate may have made the changes since the run began.
            afresh=not runtime.state.gate.unseen,
            ran=everyone,
            ended=everyone,
        )
    return runtime.guard


def _forged(runtime: Runtime, before: int, workers: tuple[str, ...]) -> list[Unattributed]:
    """Return what the gate wrote into the journal; who notes a line finds that, without the cause."""
    seen = [one.paths for one in runtime.tampered[before:]]
    return [
        Unattributed(paths, workers, harm=True, during="gate")
        for paths in (*seen, runtime.forged_paths())
        if paths
    ]


def _with_harm(runtime: Runtime, gated: Gated, found: Sequence[Unattributed]) -> Gated:
    """Add what the gate's commands changed in the user's repository; harm keeps all from landing."""
    harm = note_harm(runtime, found)
    gated = gated._replace(problems=(*gated.problems, *map(tampering_problem, found)))
    return gated._replace(kept=(), tree="", harm=harm) if harm else gated


def gate_line(runtime: Runtime, last: str) -> str:
    """Describe on one line the results of the gate since the last record, and the number of its runs."""
    runs, broken = runtime.state.gate.looks, runtime.state.gate.broken
    if not broken:
        return last
    without = "it" if len(broken) == 1 else "them"
    said = f"failed, {count_of(len(runs), 'run')}, broken by {', '.join(broken)}"
    return said + (f"; without {without} {last}" if last else "")


async def _passed(runtime: Runtime, gate: "_Gate", candidates: tuple[Candidate, ...], tree: str) -> Gated:
    if await gate.is_green(tree):
        return _doubted(runtime, candidates) or Gated(candidates, tree)
    red = gate.reds[tree, 1]
    base = await gate.on_base(red.command)
    if not base.passed:
        return Gated(held=f"the gate fails without these changes too: {_told(base)}")
    if len(candidates) > 1 and not runtime.settings.integration.bisect:
        return Gated(held=f"the gate fails: {red.words}")
    found = await _search(runtime, gate, candidates)
    kept = tuple(one for one in candidates if one.ticket.id in found.kept)
    broken = tuple(
        (one.ticket, _reason(gate, found, one.ticket.id))
        for one in candidates
        if one.ticket.id in found.dropped
    )
    tree = await gate.tree_of(found.kept) if kept else ""
    if found.flaky is None:
        return Gated(kept, tree, broken)
    what = flaky_words(gate.looks_at(await gate.tree_of(found.flaky)))
    if kept:
        return Gated(kept, tree, broken, flaky=True)
    return Gated(kept, tree, broken, f"the gate is flaky: {what}")


def _doubted(runtime: Runtime, candidates: Sequence[Candidate]) -> Gated | None:
    """Return the result of a gate whose success is no evidence; None where the lead has decided about all."""
    asked = [one for one in candidates if (runtime.of(one.ticket).lead_said or ("",))[0] not in LANDS]
    changed = [change.path for one in asked for change in one.changes]
    outdated = outdated_build(runtime.settings, runtime.repository.root, changed)
    doubt = runtime.environments.doubt or outdated
    if not (doubt and asked and runtime.settings.integration.gate):
        return None
    what = f"the gate passed, but may have tested your checkout: {doubt}"
    accept = f"--accept {' '.join(one.ticket.worker for one in candidates)}"
    do = f"{REMEDY}; or check it, then: orchestrate integrate {runtime.run.id} {accept}"
    return Gated(doubt=what, problems=(Problem("gate", what, do),))


async def _search(runtime: Runtime, gate: "_Gate", candidates: Sequence[Candidate]) -> Found:
    search = breakers([one.ticket.id for one in candidates], runtime.manifest.dependencies)
    try:
        ask: Ask = next(search)
        while True:
            ask = search.send(await gate.is_green(await gate.tree_of(ask.kept), 2 if ask.again else 1))
    except StopIteration as found:
        answer: Found = found.value
        return answer


def _reason(gate: "_Gate", found: Found, ticket: str) -> str:
    """Describe with which others a worker breaks the gate, by which command, and its last line."""
    hit = next(one for one in found.breaking if ticket in one.members)
    others = [gate.worker(name) for name in hit.members if name != ticket]
    red = gate.red_of(hit)
    along = f" together with {', '.join(others)}" if others else ""
    return f"breaks the gate{along}: {_told(red)}"


def _told(red: GateRun) -> str:
    return red.words + (f": {red.last}" if red.last else "")


class _Gate:
    """Runs the gate's commands on trees of one base, once a tree: the run's state has earlier results."""

    def __init__(self, runtime: Runtime, candidates: Sequence[Candidate], tree: str, old: str) -> None:
        self._runtime, self._old = runtime, old
        self._candidates = candidates
        self._trees: dict[Names, str] = {frozenset(one.ticket.id for one in candidates): tree}
        self._steps = 0
        self.reds: dict[tuple[str, int], GateRun] = {}
        """The command that failed on a tree, in its first or second run there."""

    def worker(self, ticket: str) -> str:
        return self._runtime.manifest.by_id(ticket).worker

    def red_of(self, breaking: Breaking) -> GateRun:
        tree = self._trees[breaking.seen]
        return self.reds[tree, 1]

    def looks_at(self, tree: str) -> str:
        """Describe the runs of a command that failed on a tree, and then passed."""
        first = self.reds[tree, 1]
        return f"{first.words}, then {self._runtime.state.gate.known[tree, 2, first.command].words}"

    def fenced(self) -> str:
        """Return what the fence kept from a command that failed; empty if nothing suggests that."""
        return next((red.fenced for red in self.reds.values() if red.fenced), "")

    async def tree_of(self, kept: Names) -> str:
        if kept not in self._trees:
            chosen = [one for one in self._candidates if one.ticket.id in kept]
            changes = {change.path: change for one in chosen for change in one.changes}
            self._trees[kept] = await anyio.to_thread.run_sync(
                self._runtime.checker.tree_with, self._old, changes.values()
            )
        return self._trees[kept]

    async def is_green(self, tree: str, look: int = 1) -> bool:
        """Return whether all commands pass on a tree."""
        commands, known = self._runtime.settings.integration.gate, self._runtime.state.gate.known
        if commands and (tree, look, commands[0]) not in known:
            kept = next((kept for kept, one in self._trees.items() if one == tree), frozenset())
            again = ", again" if look > 1 else ""
            self._tell(f"on the work of {len(kept)} of {count_of(len(self._candidates), 'worker')}{again}")
        for at, command in enumerate(commands, 1):
            run = await self._run(f"gate-{at}", tree, look, command)
            if not run.passed:
                self.reds[tree, look] = run
                return False
        return True

    async def on_base(self, command: str) -> GateRun:
        """Run a command on the base."""
        tree = UserRepo(self._runtime.repository).value_of(f"{self._old}^{{tree}}") or self._old
        at = self._runtime.settings.integration.gate.index(command) + 1
        self._tell("on the branch as it is")
        return await self._run(f"gate-{at}-base", tree, 1, command)

    def _tell(self, work: str) -> None:
        """Note the beginning of a run, from the second on: there are as many more as the search needs."""
        self._steps += 1
        # All, the base, halves of the work, the worker that is found alone, and once more to be sure.
        about = 4 + (len(self._candidates) - 1).bit_length() if len(self._candidates) > 1 else 2
        if self._steps > 1:
            self._runtime.note(GateStep(self._steps, max(about, self._steps), work))

    async def _run(self, name: str, tree: str, look: int, command: str) -> GateRun:
        known = self._runtime.state.gate.known.get((tree, look, command))
        if known is not None:
            return known
        if self._runtime.stopping:
            raise _NoAnswer
        cwd = self._runtime.settings.checks.cwd
        result = await run_check(self._runtime, name, command, tree, self._old, cwd=cwd)
        if self._runtime.stopping and not result.passed:
            raise _NoAnswer
        if result.end not in EVIDENCE:
            raise _NoAnswer(f"the gate did not run: {result.in_words()}")
        lines = read_tail(self._runtime.run.root / result.output).split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "")
        run = GateRun(
            tree,
            look,
            command,
            result.passed,
            result.in_words(),
            printable(last)[:200],
            result.seconds,
            result.output,
            result.hint,
        )
        self._runtime.note(run)
        return run
