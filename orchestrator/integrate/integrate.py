"""Workers with a verdict, and the lead's decisions over it, to a landing commit and the project's state."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import anyio.to_thread

from orchestrator.checks.figures import Figure, known_figures, tests_among, total_of
from orchestrator.checks.run import counted, keep_figure
from orchestrator.errors import Refusal, StateError
from orchestrator.execute.checkpoints import stages_of
from orchestrator.execute.judgement import verdict_of
from orchestrator.execute.landable import landable_changes
from orchestrator.execute.runtime import Runtime
from orchestrator.integrate._bisect import reached
from orchestrator.integrate._conflicts import BranchTree
from orchestrator.integrate._gate import Candidate, Gated, note_gate, pass_gate
from orchestrator.integrate._gate_tampering import HARM, accepted_harm, held_by_harm
from orchestrator.integrate._hooks import run_hooks
from orchestrator.integrate._overrule import (
    ACCEPTED,
    REJECTED,
    although,
    decider_of,
    finding_of,
    outside_of,
    said_of,
)
from orchestrator.integrate._problems import open_problems, remedy
from orchestrator.integrate._secrets import landed_secrets
from orchestrator.runs.checkpoint_place import place_in_the_way
from orchestrator.runs.cut_off import has_new_changes
from orchestrator.runs.events import ChangesLanded, LandingBlocked, LandingLost, SettledBy, StateRecorded
from orchestrator.runs.landings import landed_tickets, read_landing, trailers
from orchestrator.runs.message_log import chat_of
from orchestrator.runs.state import shown_of
from orchestrator.runs.worker_state import HELD_UP
from orchestrator.state.events import ChatMessage, CheckpointWritten, Completion, Event, RunIntegrated
from orchestrator.state.facts import percent
from orchestrator.store.landing import MOVED, Landing, refuse_elsewhere, refuse_unready
from orchestrator.store.repo import RepoBlocked, UserRepo
from orchestrator.store.store import Recorded, Store
from tickets.problems import Problem
from tickets.ticket import Ticket
from tickets.types import Verdict
from tickets.wording import count_of, some_of
from workers.agents.follow import read_tail
from workers.errors import WorkerError
from workers.git.metadata import own_moves
from workers.git.run import GitError
from workers.worktree.change import Change
from workers.worktree.changes import NewCommit

TRIES = 5
"""How often a landing is made again when the branch moves meanwhile."""
NOT_RUN = "not run"
"""The result of a gate that did not run on the work that is recorded."""
_SEE = re.compile(r"; see \.taskers/[^\s)]+")
"""Where the gate's output is: a clone, which has the commit, has no such file."""


class LeadDecision(NamedTuple):
    """The lead's decision about some workers, by name."""

    accept: tuple[str, ...] = ()
    reject: tuple[str, ...] = ()
    reason: str = ""


NO_DECISION = LeadDecision()


async def integrate(runtime: Runtime, decision: LeadDecision = NO_DECISION) -> list[Problem]:
    """Settle verdicts, gate, land, record. Twice is the same answer and no second commit."""
    store = Store(runtime.repository)
    problems = await anyio.to_thread.run_sync(store.finish)
    await anyio.to_thread.run_sync(_find_lost, runtime)
    _apply(runtime, decision)
    try:
        await anyio.to_thread.run_sync(_refuse_unrecordable, runtime, store)
        problems += await _land(runtime, store)
    except StateError as error:
        problems += _then_again(runtime, error)
    except RepoBlocked as blocked:
        problems += blocked.problems
    except GitError as error:
        # Nothing has moved before a landing's intent is written: it is made again from its beginning.
        problems.append(error.problem._replace(do=f"fix it, then: orchestrate integrate {runtime.run.id}"))
    if runtime.stopping:
        return problems
    problems += open_problems(runtime.state)
    problems += await anyio.to_thread.run_sync(_record, runtime, store)
    problems = list(dict.fromkeys(problems))  # each of these steps reports what waits to be finished
    _note_obstacle(runtime, problems)
    return problems


def _note_obstacle(runtime: Runtime, problems: Sequence[Problem]) -> None:
    """Note what has kept the run from its end although no verdict is open: `status` asks no git."""
    errors = [one for one in problems if one.severity == "error"]
    state = runtime.state
    # Accepted work that waits is told beside what waits for a verdict.
    waits = not state.pending or any(map(state.is_to_land, state.workers.keys() - state.landings.keys()))
    is_left = state.has_ended and not state.is_integrated and waits
    why = some_of([str(one) for one in errors], 1) if is_left else ""
    branch = runtime.manifest.branch or ""
    awaits = branch if why and branch and UserRepo(runtime.repository).head().branch != branch else ""
    if (why, awaits) != (state.blocked, state.awaits):
        runtime.note(LandingBlocked(why, awaits))


# Verdicts


def _apply(runtime: Runtime, decision: LeadDecision) -> None:
    """Apply the lead's decision, and the rule to workers that a gate or a conflict had held up."""
    _refuse_unknown(runtime, decision)
    harmed = held_by_harm(runtime.state)
    for ticket in runtime.manifest.tickets:
        worker = runtime.of(ticket)
        name, violations = ticket.worker, worker.evidence.violations
        if name in runtime.state.landings or not worker.ended:
            continue
        if name in harmed:
            # Before the lead's decision, which ends it: a runtime may have been killed before it noted this.
            runtime.settle(ticket, "pending", harmed[name], HARM)
        if name in decision.reject:
            runtime.settle(ticket, "rejected", decision.reason or REJECTED, "lead")
        elif name in decision.accept:
            verdict: Verdict = "partial" if violations or worker.outcome != "complete" else "accepted"
            said = decision.reason or ACCEPTED
            runtime.settle(ticket, verdict, although(said, worker), "lead")
        elif worker.verdict == "pending" and worker.settled_by in HELD_UP:
            by_rule = verdict_of(worker.ended_as, violations, runtime.settings.integration.on_violation)
            settled, why = worker.lead_said or by_rule
            runtime.settle(ticket, settled, why, "rule")
        _reject_dependent(runtime, ticket)


def _reject_dependent(runtime: Runtime, ticket: Ticket) -> None:
    """Reject a worker if one that it depends on was rejected: its work was made on top of that one's."""
    for before in runtime.manifest.dependencies.get(ticket.id, ()):
        if (
            runtime.of(ticket).verdict not in ("rejected", None)
            and runtime.of(runtime.manifest.by_id(before)).verdict == "rejected"
        ):
            runtime.settle(ticket, "rejected", f"depends on {before}, which was rejected", "dependency")


def _refuse_unknown(runtime: Runtime, decision: LeadDecision) -> None:
    problems = []
    for name in (*decision.accept, *decision.reject):
        worker = runtime.state.workers.get(name)
        if worker is None:
            known = ", ".join(runtime.state.workers)
            problems.append(Problem(name, f"is not a worker of run {runtime.run.id}", f"there are: {known}"))
        elif worker.outcome == "skipped" or not worker.ended:
            problems.append(Problem(name, "left nothing to judge", "run its ticket again"))
        elif name in runtime.state.landings and name in decision.accept:
            continue  # decided and done: twice is the same answer
        elif name in runtime.state.landings:
            problems.append(Problem(name, "has landed already", _taking_back(runtime, name)))
        elif name in decision.accept and not worker.evidence.patch and worker.outcome != "complete":
            problems.append(
                Problem(name, f"is {worker.outcome} and changed nothing", "there is nothing to accept")
            )
    both = set(decision.accept) & set(decision.reject)
    problems += [Problem(name, "is both accepted and rejected", "write one of them") for name in sorted(both)]
    if problems:
        raise Refusal(*problems)


def _taking_back(runtime: Runtime, name: str) -> str:
    """Describe how to revert the work of a worker that has landed, and which other work goes with it."""
    commit = runtime.state.landings[name]
    if not commit:  # it was never committed
        return "remove its changes from the work tree by hand"
    others = [one for one, landed in runtime.state.landings.items() if landed == commit and one != name]
    also = f" reverts it, with the work of {some_of(others)}" if others else " reverts it"
    return f"`git revert {commit[:10]}`{also}"


# Landing


async def _land(runtime: Runtime, store: Store) -> list[Problem]:
    repo = UserRepo(runtime.repository)
    _take_over(runtime, repo)
    ref = runtime.manifest.ref
    for _ in range(TRIES):
        candidates, lost = await _candidates(runtime)
        if not candidates:
            note_gate(runtime, Gated())
            return []
        refuse_elsewhere(repo, runtime.manifest.branch)
        old = repo.value_of(ref) or runtime.manifest.base
        standing = BranchTree(runtime.checker.entries(old))
        candidates = _not_landed_before(runtime, candidates, standing)
        fitting: Sequence[Candidate] = _fitting(runtime, candidates, standing, lost)
        if not fitting:
            return []
        landing, tree = _landing_of(runtime, fitting, old, ref)
        try:
            if runtime.settings.integration.gate or runtime.settings.git.hooks:
                # Before them too: what can be refused at once need not wait for it.
                refuse_unready(repo, landing)
            gated = await pass_gate(runtime, fitting, tree, old)
            if runtime.stopping:
                return []
            _take_gate(runtime, fitting, gated)
            problems = list(gated.problems)
            if gated.held:
                do = remedy(gated.fenced, f"fix it, then: orchestrate integrate {runtime.run.id}")
                problems.append(Problem("gate", gated.held, do))
            if not gated.kept:
                return problems
            if len(gated.kept) < len(fitting):
                fitting, (landing, tree) = gated.kept, _landing_of(runtime, gated.kept, old, ref)
            commits, why = await _commits(runtime, repo, landing, tree, fitting)
            if runtime.stopping:
                return []
            if why:
                for candidate in fitting:
                    runtime.settle(candidate.ticket, "pending", why, "hook")
                do = f"fix it, then: orchestrate integrate {runtime.run.id}"
                return [*problems, Problem("hook", why, do)]
            new = commits[-1]
            problems += await anyio.to_thread.run_sync(store.land, landing._replace(new=new))
        except RepoBlocked as blocked:
            if any(problem.what == MOVED for problem in blocked.problems):
                continue
            raise
        if landing.ref and not repo.is_ancestor(new, repo.value_of(ref) or ""):
            return problems
        names = tuple(one.ticket.worker for one in fitting)
        own = tuple(commits) if len(commits) > 1 else ()
        runtime.note(ChangesLanded(new if landing.ref else None, names, own))
        problems += await anyio.to_thread.run_sync(landed_secrets, runtime, fitting)
        if not runtime.manifest.branch:
            what = f"HEAD was detached, so the work landed on {ref}, with its record"
            problems.append(Problem(ref, what, f"git merge --ff-only {ref}", "warning"))
        return problems
    return [Problem(ref, "the branch keeps moving", f"orchestrate integrate {runtime.run.id}")]


def _take_over(runtime: Runtime, repo: UserRepo) -> None:
    """Note landings of a runtime that was killed before it noted them; the trailers name the workers."""
    ref = runtime.manifest.ref
    for sha, message in repo.commits_with(
        "Orchestrate-Run", runtime.run.id, runtime.manifest.base, ref
    ).items():
        landing = read_landing(sha, message)
        if landing is not None and not set(landing.workers) <= set(runtime.state.landings):
            runtime.note(ChangesLanded(sha, landing.workers))


def _find_lost(runtime: Runtime) -> None:
    """Note landings and a record that this clone never had: the files of the run came from another one."""
    repo, state = UserRepo(runtime.repository), runtime.state
    known = {name: commit for name, commit in state.landings.items() if commit}
    every = {*known.values(), *((state.state_commit,) if state.state_commit else ())}
    lost = repo.lacks(every - own_moves(runtime.repository.own))
    if lost and repo.is_shallow():
        return  # they may be behind its end
    if lost:
        runtime.note(LandingLost(tuple(name for name, commit in known.items() if commit in lost)))


async def _candidates(runtime: Runtime) -> tuple[list[Candidate], dict[str, str]]:
    """Return the candidates for landing, and by ticket id why the changes of some cannot be read."""
    found, lost = [], {}
    for ticket in runtime.manifest.tickets:
        if runtime.state.is_to_land(ticket.worker) and ticket.worker not in runtime.state.landings:
            changes: Sequence[Change] = ()
            try:
                changes = await anyio.to_thread.run_sync(landable_changes, runtime, ticket)
            except WorkerError as error:
                lost[ticket.id] = str(error)
            found.append(Candidate(ticket, tuple(changes)))
    return found, lost


def _not_landed_before(
    runtime: Runtime, candidates: Sequence[Candidate], standing: BranchTree
) -> list[Candidate]:
    """Return the candidates that have something to land; another run has landed the others' tickets.

    A commit of theirs would be empty.
    """
    same = [one.ticket for one in candidates if one.changes and standing.has(one.changes)]
    landed = landed_tickets(runtime.repository.root) if same and runtime.manifest.branch else {}
    for ticket in same:
        if ticket.digest in landed:
            runtime.note(ChangesLanded(landed[ticket.digest][0].commit, (ticket.worker,)))
    return [one for one in candidates if one.ticket.worker not in runtime.state.landings]


def _fitting(
    runtime: Runtime, candidates: Sequence[Candidate], standing: BranchTree, lost: Mapping[str, str]
) -> list[Candidate]:
    """Return the candidates whose paths are as when they started; the others wait for the lead."""
    fitting: list[Candidate] = []
    fallen: set[str] = set()
    for candidate in candidates:
        ticket = candidate.ticket
        # Also through one that changed nothing, and so is no candidate itself.
        waits = reached(ticket.id, runtime.manifest.dependencies) & fallen
        clash = standing.clash(candidate.changes)
        if waits:
            runtime.settle(ticket, "pending", f"{min(waits)}, which it builds on, did not land", "dependency")
            fallen.add(ticket.id)
        elif ticket.id in lost:
            runtime.settle(ticket, "pending", lost[ticket.id], "conflict")
            fallen.add(ticket.id)
        elif clash is not None:
            branch = (runtime.manifest.branch or "HEAD").removeprefix("refs/heads/")
            runtime.settle(ticket, "pending", f"conflict: {clash} has changed on {branch} since", "conflict")
            fallen.add(ticket.id)
        else:
            fitting.append(candidate)
            standing.take(candidate.changes)
    return fitting


def _landing_of(runtime: Runtime, fitting: Sequence[Candidate], old: str, ref: str) -> tuple[Landing, str]:
    """Return the landing of some candidates, without its commit, and its tree."""
    tree = runtime.checker.tree_with(old, _together(fitting).values())
    kept = ref if runtime.settings.git.commit == "integration" or not runtime.manifest.branch else ""
    return Landing(runtime.run.id, kept, old, "", tuple(runtime.checker.changes(old, tree))), tree


async def _commits(
    runtime: Runtime, repo: UserRepo, landing: Landing, tree: str, fitting: Sequence[Candidate]
) -> tuple[list[str], str]:
    """Make the commits of a landing, to which no ref points yet; or return why a hook refuses them."""
    each = runtime.settings.integration.commits == "worker" and landing.ref
    parts = [[one] for one in fitting] if each else [fitting]
    messages = [runtime.redactor.clean(_landing_message(runtime, part)) for part in parts]
    if runtime.settings.git.hooks and landing.ref:
        why, messages = await run_hooks(runtime, tree, landing.old, messages)
        if why or runtime.stopping:
            return [], why
    if len(parts) == 1:
        return [repo.commit_tree(tree, landing.old, messages[0])], ""
    who = repo.identities()
    row = [
        NewCommit(text, *who, tuple(_together(part).values()))
        for text, part in zip(messages, parts, strict=True)
    ]
    return runtime.checker.commit_row(landing.old, tree, row), ""


def _together(part: Sequence[Candidate]) -> dict[str, Change]:
    """Return the changes of some candidates by path: a later one has built on those before it."""
    return {change.path: change for candidate in part for change in candidate.changes}


def _take_gate(runtime: Runtime, fitting: Sequence[Candidate], gated: Gated) -> None:
    """Settle verdicts by the gate: who broke it is rejected with the dependents; others may wait."""
    for ticket, reason in gated.broken:
        runtime.settle(ticket, "rejected", reason, "gate")
    for ticket in runtime.manifest.tickets:
        if ticket.worker not in runtime.state.landings and runtime.of(ticket).ended:
            _reject_dependent(runtime, ticket)
    why = gated.harm or gated.held or gated.doubt
    by: SettledBy = HARM if gated.harm else "gate" if gated.held else "rule"
    for candidate in fitting if why else ():
        if runtime.of(candidate.ticket).verdict != "rejected":
            runtime.settle(candidate.ticket, "pending", why, by)
    note_gate(runtime, gated)


def _landing_message(runtime: Runtime, part: Sequence[Candidate]) -> str:
    """Return the message of a landing commit: that of one worker, or of the whole run."""
    run, phase = runtime.run.id, runtime.manifest.phase
    last = trailers(run, phase, [(one.ticket, runtime.of(one.ticket).agent) for one in part])
    if runtime.settings.integration.commits == "worker" and len(part) == 1:
        left = _left_outside(runtime, part[0].ticket)
        body = [f"In part: {left} outside its scope did not land", ""] if left else []
        return "\n".join((" ".join(part[0].ticket.title.split()), "", *body, *last, ""))

    def line(one: Candidate) -> str:
        left = _left_outside(runtime, one.ticket)
        more = f", in part: without {left}" if left else ""
        return f"- {one.ticket.worker}: {one.ticket.title} ({count_of(len(one.changes), 'file')}{more})"

    return "\n".join([f"Land run {run} ({phase})", "", *map(line, part), "", *last, ""])


def _left_outside(runtime: Runtime, ticket: Ticket) -> str:
    """Name what a worker has changed and never lands; empty for one whose work lands as a whole."""
    return some_of(outside_of(runtime.of(ticket)))


# State


def _refuse_unrecordable(runtime: Runtime, store: Store) -> None:
    """Raise StateError where there is work to land, and no state file could show it."""
    if any(runtime.state.is_to_land(name) and name not in runtime.state.landings
           for name in runtime.state.workers):  # fmt: skip
        ended = [ticket for ticket in runtime.manifest.tickets if runtime.of(ticket).ended]
        store.check([_event(runtime, ended)])


def _then_again(runtime: Runtime, error: StateError) -> list[Problem]:
    again = f"then: orchestrate integrate {runtime.run.id}"
    return [one._replace(do=f"{one.do}, {again}" if one.do else again) for one in error.problems]


def _record(runtime: Runtime, store: Store) -> list[Problem]:
    """Record in the state files what they do not have of this run yet."""
    if not runtime.state.has_ended:
        return []
    told = {
        name: shown_of(worker)
        for name, worker in runtime.state.workers.items()
        # Accepted and not landed is not done: it is recorded when it has landed.
        if name in runtime.state.landings or not runtime.state.is_to_land(name)
    }
    fresh = [
        t for t in runtime.manifest.tickets if runtime.state.recorded.get(t.worker) != told.get(t.worker)
    ]
    fresh = [ticket for ticket in fresh if ticket.worker in told]
    if not fresh:
        return []
    events: list[Event] = [_event(runtime, fresh), *_checkpoints(runtime, fresh)]
    wanted = runtime.settings.git.commit == "integration"
    try:
        recorded = _recorded(runtime, store, events, _state_message(runtime, fresh), commit=wanted)
    except StateError as error:
        # What landed has landed; it is recorded when the files can be edited.
        return _then_again(runtime, error)
    except RepoBlocked as blocked:
        return list(blocked.problems)
    _keep_figure(runtime)
    commit = recorded.commit
    if commit is None and wanted:
        where = runtime.manifest.ref if _is_apart(runtime) else "HEAD"
        made = UserRepo(runtime.repository).commits_with(
            "Orchestrate-State", runtime.run.id, runtime.manifest.base, where
        )
        commit = next(reversed(made), None)
    runtime.note(StateRecorded(commit, {**runtime.state.recorded, **told}))
    return list(recorded.problems)


def _recorded(
    runtime: Runtime, store: Store, events: Sequence[Event], message: str, *, commit: bool
) -> Recorded:
    """Record events where the work is: a commit that claims work is on no other line than the work."""
    manifest, families = runtime.manifest, runtime.settings.families
    if commit and _is_apart(runtime):
        return store.record_on(manifest.ref, events, families=families, message=message)
    branch = manifest.branch
    return store.record(events, families=families, message=message, commit=commit, branch=branch, is_run=True)


def _is_apart(runtime: Runtime) -> bool:
    """Return whether the run has landed on a ref of its own."""
    manifest = runtime.manifest
    return not manifest.branch and UserRepo(runtime.repository).value_of(manifest.ref) is not None


def _event(runtime: Runtime, tickets: Sequence[Ticket]) -> RunIntegrated:
    harm, figure = accepted_harm(runtime.state), _figure(runtime)
    return RunIntegrated(
        run=runtime.run.id,
        phase=runtime.manifest.phase,
        at=runtime.clock(),
        lead=runtime.manifest.lead,
        workers=tuple(_completion(runtime, ticket, harm.get(ticket.worker, "")) for ticket in tickets),
        landing=runtime.state.landing,
        is_settled=bool(runtime.state.recorded),
        left_out=runtime.manifest.left_out,
        can_resume=_answerable(runtime),
        tests=total_of([figure]) if figure else "",
        chat=_chat(runtime) if "phases" in runtime.settings.families else (),
    )


def _checkpoints(runtime: Runtime, tickets: Sequence[Ticket]) -> Iterator[CheckpointWritten]:
    """Yield what the checkpoints of some workers say of their verdicts, in the transaction of these."""
    if place_in_the_way(runtime.repository.root):
        return  # told with the others
    landings, last = runtime.state.landings, runtime.state.landing
    for ticket in tickets:
        landed = (landings[ticket.worker] or last) if ticket.worker in landings else None
        worker, at = runtime.of(ticket), runtime.clock()
        is_new = has_new_changes(runtime.run, worker)
        made = stages_of(runtime, ticket).judged(worker, at, landed, is_new=is_new)
        if made is not None:
            yield made


def _answerable(runtime: Runtime) -> tuple[str, ...]:
    """Return the phase worker's name where it has ended, and an answer of the lead's lets it go on."""
    ticket = runtime.manifest.phase_worker
    if ticket is None or not runtime.of(ticket).ended or runtime.of(ticket).why_not_answered(asks=False):
        return ()
    return (ticket.worker,)


def _chat(runtime: Runtime) -> tuple[ChatMessage, ...]:
    return chat_of(runtime.run.root, runtime.run.id, runtime.clock().timestamp())


def _gate_of(runtime: Runtime, fresh: Sequence[Ticket]) -> str:
    """Return the result of the gate for some workers; a decision of the lead is no result of the gate."""
    asked = any(
        ticket.worker in runtime.state.landings or runtime.of(ticket).settled_by in ("gate", "hook", HARM)
        for ticket in fresh
    )
    return runtime.state.gate.result if asked or not runtime.settings.integration.gate else NOT_RUN


def _completion(runtime: Runtime, ticket: Ticket, harm: str) -> Completion:
    worker = runtime.of(ticket)
    files = worker.evidence.files
    landed = files if ticket.worker in runtime.state.landings else ()
    decider = decider_of(worker)
    is_left_out = worker.verdict == "rejected" or decider == "conflict"
    return Completion(
        ticket.worker, ticket.title, worker.ended_as, worker.verdict, worker.reason, landed,
        decider, said_of(worker) if decider == "lead" else "", finding_of(worker, harm),
        (*(files if is_left_out else ()), *outside_of(worker), *worker.evidence.left_out),
        _result(runtime, ticket) if worker.lands else "",
        runtime.state.recorded.get(ticket.worker, (None, None))[1] == "rejected", ticket.id,
    )  # fmt: skip


def _result(runtime: Runtime, ticket: Ticket) -> str:
    """Return a worker's result in its own words, with what of it did not land."""
    summary, left = runtime.of(ticket).evidence.summary, _left_outside(runtime, ticket)
    return "; ".join(filter(None, (summary, f"landed in part, without {left}" if left else "")))


def _state_message(runtime: Runtime, fresh: Sequence[Ticket]) -> str:
    lines = []
    for ticket in fresh:
        worker = runtime.of(ticket)
        lines.append(f"- {ticket.worker}: {worker.outcome}, {worker.verdict or 'no verdict'}")
    what, gate = "Settled" if runtime.state.recorded else "Integrated", _gate_of(runtime, fresh)
    tests = NOT_RUN if gate == NOT_RUN else _tests(runtime)
    return "\n".join([
        f"{what} run {runtime.run.id} ({runtime.manifest.phase})", "", *lines, "",
        f"Gate: {_SEE.sub('', gate)}", f"Tests: {tests}", "",
        f"Orchestrate-State: {runtime.run.id}", "",
    ])  # fmt: skip


def _tests(runtime: Runtime) -> str:
    """Return the test counts that the gate's commands printed on the tree that landed."""
    runs = _passed_on_landing(runtime)
    if (counts := _counted(runtime, runs)) is None:
        return f"passed ({'; '.join(runs)})" if runs else NOT_RUN
    return f"{counts[0]}/{counts[1]} passing ({percent(*counts)}%)"


def _figure(runtime: Runtime) -> Figure | None:
    """Return these counts as a check's result, where no command of `[checks]` gives one."""
    landing, runs = runtime.state.landing, _passed_on_landing(runtime)
    if landing is None or tests_among(runtime.settings.checks._asdict()):
        return None
    if (counts := _counted(runtime, runs)) is None:
        return None
    at = runtime.clock().isoformat(timespec="seconds")
    output = next(iter(runs.values()))
    return Figure(
        "test", "; ".join(runs), landing, changed=False, at=at, passed=True, ended="exit code 0",
        good=counts[0], total=counts[1], source="printed", seconds=0.0, output=output,
    )  # fmt: skip


def _keep_figure(runtime: Runtime) -> None:
    """Keep the figure of a landing with those of the checks, for reports and handoffs."""
    figure, root = _figure(runtime), runtime.repository.root
    newest = {one.name: one.commit for one in known_figures(root)}
    if figure is not None and newest.get(figure.name) != figure.commit:
        with suppress(OSError):  # a full disk: STATUS.md has it
            keep_figure(root, figure, runtime.clock())


def _counted(runtime: Runtime, runs: Mapping[str, str]) -> tuple[int, int] | None:
    printed = [read_tail(runtime.run.root / path) for path in runs.values()]
    figures = [found for text in printed if (found := counted(text))]
    return (sum(good for good, _ in figures), sum(total for _, total in figures)) if figures else None


def _passed_on_landing(runtime: Runtime) -> dict[str, str]:
    """Return the gate's commands that passed on the tree that landed, each with its output."""
    landed = (
        UserRepo(runtime.repository).value_of(f"{runtime.state.landing}^{{tree}}")
        if runtime.state.landing
        else None
    )
    known = runtime.state.gate.known.values()
    return {run.command: run.output for run in known if run.passed and run.tree == landed}
