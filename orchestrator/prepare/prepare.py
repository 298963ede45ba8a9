"""The plan before a start: templates to a plan, and every reason why it must not run."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from heapq import heappop, heappush
from pathlib import Path

from orchestrator.budget.totals import Spent, spent_on
from orchestrator.budget.warnings import Doers, budget_warnings
from orchestrator.errors import HELD, AllDone, Refusal
from orchestrator.prepare.continuing import (
    Branch,
    Continuation,
    continuations,
    cut_off,
    unfinished,
    with_related,
)
from orchestrator.prepare.doubts import doubts, unwritable
from orchestrator.prepare.phase_worker import FAMILY as PHASES
from orchestrator.prepare.phase_worker import (
    PlansFound,
    assigned,
    phase_worker_problems,
    plans_found,
    refuse_taken,
)
from orchestrator.prepare.templates import path_rules, template_files, template_stems
from orchestrator.project import Project
from orchestrator.runs.earlier import Earlier, earlier_of
from orchestrator.runs.next_action import next_of_run
from orchestrator.runs.scopes_in_use import Conflict, claimed, conflicts, refuse_conflicts
from orchestrator.runs.state import unfinished_runs
from orchestrator.schedule.availability import doubted_environments, unmet_fence, why_disabled, why_off
from orchestrator.settings.settings import Settings
from orchestrator.state import ALWAYS, FAMILIES, owned_paths
from orchestrator.state.canonical.status import status
from orchestrator.state.document import merge_conflicts
from orchestrator.state.events import RosterEntry, RunDeployed
from orchestrator.store.read import in_the_way, read_state
from orchestrator.store.repo import Head, UserRepo
from tickets.plan import OnOverlap, Plan, make_plan
from tickets.problems import Problem, ProblemError
from tickets.scopes.rules import PathRules
from tickets.scopes.scope import Scope
from tickets.templates.fan_out import gathered, named, stem_of
from tickets.templates.jinja import nearest
from tickets.templates.render import FOLDER, Values, render_phase
from tickets.ticket import Ticket
from tickets.types import AgentName
from tickets.value import Value
from tickets.wording import some_of
from workers.fence.probe import fence_in_force
from workers.git.run import Repository
from workers.worktree.environments import CACHES

BUILDS = frozenset(("dist", "build", "target", "coverage", "htmlcov", ".coverage"))
LANDED = ("accepted", "partial")
UNSHALLOW = "`git fetch --unshallow`"
SHOWN = 5
"""How many paths a message names before it counts the rest."""


class Request(Value):
    """The request of a command."""

    phase: str
    lead: str
    only: tuple[str, ...] = ()
    again: bool = False
    """Run also what is done."""
    continues: bool = False
    """Run what is unfinished, from what earlier runs have left of it."""
    new: bool = False
    strict_agents: bool = False
    on_overlap: OnOverlap = "refuse"
    wait: float = 0.0
    """Seconds to wait for scopes that other runs hold."""
    day: str = ""
    """Today (UTC, 2026-02-16): its cost so far is reported; empty: not read."""


class Prepared(Value):
    """A phase that may run: nothing is wrong with it, `warnings` are for the reader."""

    plan: Plan
    values: Values
    head: Head
    rules: PathRules
    doers: Doers
    """The agent that will do each ticket: its own, or a fallback where that is not available."""
    skipped: Mapping[str, str]
    """Tickets that cannot be started, with the reason."""
    done: Sequence[Ticket]
    """The chosen tickets that are done, and do not run again."""
    earlier: Earlier
    warnings: tuple[Problem, ...]
    phase_plans: PlansFound
    left_out: tuple[str, ...]
    """The tickets that were not chosen, and are not done."""
    continues: Mapping[str, Continuation]
    """What tickets go on from, by their ids."""


def prepare(project: Project, request: Request) -> Prepared:
    """Render and prove a phase. Raises Refusal with every problem; starts and writes nothing."""
    prepared, problems = examine(project.repository, project.settings, request, project.environ)
    if problems:
        raise Refusal(*problems)
    _refuse_unfinished(project.repository.root, request)
    if any(ticket.phase_worker for ticket in prepared.plan.tickets):
        refuse_taken(project.repository.root, prepared.phase_plans, request.phase)
    if not prepared.plan.tickets:
        raise AllDone(done_problem(request.phase, prepared), phase=request.phase)
    refuse_conflicts(in_use(project.repository, prepared, new=request.new))
    return prepared


def examine(
    repository: Repository, settings: Settings, request: Request, environ: Mapping[str, str]
) -> tuple[Prepared, tuple[Problem, ...]]:
    """Render a phase, and return it with every reason why it must not run; starts and writes nothing."""
    problems: list[Problem] = []
    repo = UserRepo(repository)
    found = _examine(repository, repo, settings.families, request, problems)
    plan = found.plan
    problems += unmet_fence(settings, fence_in_force(settings.fence.level))
    doers, skipped = _available(plan.tickets, settings, environ)
    warnings = [*settings.warnings, *plan.notes, *found.remarks, *_warnings(repository.root, found)]
    warnings += _cut_off_warnings(repo, plan) if not request.again else []
    warnings += [*_detached(repo, found), *_ignored_patterns(repo, plan)]
    warnings += [] if request.continues else _begun_afresh(repository.root, request, plan)
    said = status.read(found.values.status.encode()) if found.values.status else None
    warnings += [problem._replace(severity="warning") for problem in unwritable(repository)]
    warnings += doubts(repository.root, plan.tickets, said, settings, environ)
    if settings.integration.gate or any(ticket.acceptance for ticket in plan.tickets):
        warnings += doubted_environments(settings, repository.root, environ)
    reasons = {
        name: skipped[missing[0]] for name, missing in named(skipped, [t.id for t in plan.tickets]).items()
    }
    warnings += [Problem(ticket, f"skipped: {why}", "", "warning") for ticket, why in reasons.items()]
    # Where something is in the way, nothing can be read there, and that is reported already.
    is_told = bool(request.day) and not problems
    today = spent_on(repository.own / "spending", request.day) if is_told else Spent()
    warnings += budget_warnings(settings, [t for t in plan.tickets if t.id not in skipped], doers, today)
    if not problems and len(skipped) == len(plan.tickets) > 0:
        problems += [Problem(ticket, why, "install or enable it") for ticket, why in reasons.items()]
    elif request.strict_agents:
        # One that is off by choice is not missing.
        missing = {t.id for t in plan.tickets if t.id in skipped and why_disabled(t.agent, settings) is None}
        problems += [
            Problem(name, reasons[name], "install it, or leave out `--strict-agents`")
            for name, ids in named(skipped, [t.id for t in plan.tickets]).items()
            if not missing.isdisjoint(ids)
        ]
    prepared = Prepared(
        plan, found.values, found.head, found.rules, doers, skipped, found.done, found.earlier,
        tuple(dict.fromkeys(warnings)), found.phase_plans, found.left_out,
        _continued(repository, request, found, problems),
    )  # fmt: skip
    return prepared, tuple(dict.fromkeys(problems))


def done_problem(phase: str, found: Prepared) -> Problem:
    """Return the remark that some tickets are done, with the runs that did them."""
    runs = dict.fromkeys(found.earlier.done[ticket.id].run for ticket in found.done)
    count = len(found.done) + len(found.plan.tickets)
    whole = "all" if len(found.done) == count > 1 else f"{len(found.done)} of"
    what = f"{whole} {count} tickets {'is' if count == 1 else 'are'} done (run {some_of(list(runs))})"
    return Problem(phase, what, "`--again` runs them again", "info")


def in_use(repository: Repository, prepared: Prepared, *, new: bool) -> list[Conflict]:
    """List what other runs own of the tickets that would start; `new` minds only what may be written to."""
    others = claimed(repository, prepared.head.branch)
    mine = [ticket for ticket in prepared.plan.tickets if ticket.id not in prepared.skipped]
    in_the_way = [other for other in others if other.standing == "running" or not new]
    return conflicts(mine, prepared.plan.scopes, in_the_way, ignore_case=prepared.rules.ignore_case)


def problems_besides(repository: Repository, request: Request) -> list[Problem]:
    """List the problems of a phase whose settings cannot be read, so that one call reports them all."""
    problems: list[Problem] = []
    _examine(repository, UserRepo(repository), FAMILIES, request, problems)
    return problems


def tickets_of(root: Path, phase: str) -> list[Ticket]:
    """Return the tickets of a phase; none where a template has a mistake, which `plan` reports."""
    problems: list[Problem] = []
    return _tickets(root, _values(root, phase, problems), problems)


def finished_deliverables(root: Path, phase: str) -> list[str]:
    """Return the open deliverables of a phase whose tickets are all done, in the order of the plan."""
    problems: list[Problem] = []
    values = _values(root, phase, problems)
    tickets = _tickets(root, values, problems)
    if problems or not values.status:
        return []
    read = status.read(values.status.encode())
    alone = ((one, read._replace(phases=(one,), phase="")) for one in read.phases)
    plan = next((one for one, only in alone if status.phase_matches(only, phase)), None)
    done = earlier_of(root, phase, tickets).done
    # A ticket whose template names none works on what is current, and completes nothing.
    naming = [one for one in tickets if "deliverable" in one.lines]
    left = {one.deliverable for one in naming if one.id not in done}
    named = {one.deliverable for one in naming} - left
    return [one.name for one in plan.deliverables if not one.done and one.name in named] if plan else []


class Starter(Value):
    """The facts that decide when a ticket starts."""

    ticket: str
    agent: str
    priority: str
    waits_for: Sequence[str]


def starting_order(
    tickets: Sequence[Starter], never: Collection[str], total: int, rooms: Mapping[str, int]
) -> list[list[str]]:
    """Return the tickets that start together, then those that start when these have ended, and so on.

    The order is that of the queue if all tickets took as long. Those in `never`, and those that wait
    for them, do not start. `rooms` has how many of an agent may run at once; one that is not in it has no
    limit beside `total`.
    """
    place = {one.ticket: at for at, one in enumerate(tickets)}
    left = {one.ticket: set(one.waits_for) for one in tickets}
    after: dict[str, list[Starter]] = {}
    for one in tickets:
        for before in one.waits_for:
            after.setdefault(before, []).append(one)
    waiting: dict[str, list[tuple[str, int, str]]] = {}
    age = 0
    ready = [one for one in tickets if not left[one.ticket]]
    waves: list[list[str]] = []
    while True:
        # Priority, then age: the time at which a ticket became ready; then the order of the plan.
        for one in ready:
            if one.ticket not in never:
                heappush(waiting.setdefault(one.agent, []), (one.priority, age, one.ticket))
                age += 1
        wave = _granted(waiting, total, rooms)
        if not wave:
            return waves
        waves.append(wave)
        ready = []
        for ended in wave:
            for one in after.get(ended, ()):
                left[one.ticket].discard(ended)
                if not left[one.ticket]:
                    ready.append(one)
        ready.sort(key=lambda one: place[one.ticket])


def _granted(
    waiting: Mapping[str, list[tuple[str, int, str]]], total: int, rooms: Mapping[str, int]
) -> list[str]:
    """Choose the tickets that have room, each time the first of all that wait for an agent."""
    held: dict[str, int] = {}
    wave: list[str] = []
    while len(wave) < total:
        agents = [
            name for name, line in waiting.items() if line and held.get(name, 0) < rooms.get(name, total)
        ]
        if not agents:
            break
        best = min(agents, key=lambda name: waiting[name][0])
        held[best] = held.get(best, 0) + 1
        wave.append(heappop(waiting[best])[2])
    return wave


class _Examined(Value):
    """A phase as the files define it, apart from the settings of agents."""

    plan: Plan
    values: Values
    head: Head
    rules: PathRules
    uncommitted: Sequence[str]
    done: Sequence[Ticket]
    earlier: Earlier
    untracked: Sequence[str]
    """As `git status` names them: a new folder as a whole."""
    phase_plans: PlansFound
    remarks: tuple[Problem, ...]
    """About the plans of the phase."""
    left_out: tuple[str, ...]


def _examine(
    repository: Repository, repo: UserRepo, families: Sequence[str], request: Request, problems: list[Problem]
) -> _Examined:
    """Read repository, state and templates; every problem is added to `problems`."""
    root = repository.root
    head = repo.head()
    problems += _repository_problems(repo, head)
    for name in (".taskers", ".taskers/runs"):
        problems += in_the_way(root / name, name)
    for name in ("", "/slots"):
        problems += in_the_way(Path(f"{repository.own}{name}"), f".git/orchestrate{name}")
    values = _values(root, request.phase, problems)
    plans = plans_found(root, request.phase, values.status) if PHASES in families else PlansFound("")
    values = values._replace(plans=plans.open if plans.is_there else None)
    rendered = _tickets(root, values, problems)
    # Where there is no ticket, or no commit, nothing is done.
    beyond = repo.refs_beyond(head) if rendered else ()
    earlier = earlier_of(root, request.phase, rendered, beyond) if rendered and head.sha else Earlier()
    if plans.has_new and earlier.done:
        new = {ticket.id for ticket in rendered if ticket.phase_worker}
        earlier = earlier._replace(done={id_: one for id_, one in earlier.done.items() if id_ not in new})
    chosen = _only(rendered, request, earlier.done, problems)
    if request.continues and chosen:
        begun = unfinished(root, chosen, earlier)
        chosen = [one for one in with_related(rendered, begun, earlier.done) if one in chosen]
        problems += [] if chosen else [_nothing_begun(request)]
    done = [] if request.again else [ticket for ticket in chosen if ticket.id in earlier.done]
    tickets = [ticket for ticket in chosen if ticket not in done]
    about_plans = phase_worker_problems(tickets, plans, families)
    problems += [one for one in about_plans if one.severity == "error"]
    worker = next((ticket for ticket in tickets if ticket.phase_worker), None)
    values = values._replace(plans=assigned(worker, plans) if worker else plans.open)
    rules = path_rules(root, repo, families, tickets, has_base=head.sha is not None)
    running = {ticket.id for ticket in tickets}
    satisfied = {
        ticket.id: ticket.depends_on
        for ticket in rendered
        if ticket.id in earlier.done and ticket.id not in running
    }
    plan = make_plan(
        tickets, rules, on_overlap=request.on_overlap, done=satisfied, others=template_stems(root)
    )
    problems += plan.problems
    problems += _done_apart(plan, earlier)
    problems += [] if request.again else _cut_off(repo, values, plan)
    uncommitted = repo.uncommitted() if head.sha else []
    problems += _uncommitted_in_scope(plan, uncommitted)
    problems += nothing_committed(repo, rules, head)
    untracked = repo.untracked() if uncommitted else ()
    return _Examined(
        plan, values, head, rules, uncommitted, done, earlier, untracked, plans,
        tuple(one for one in about_plans if one.severity != "error"),
        tuple(one.id for one in rendered if one.id not in running and one.id not in earlier.done),
    )  # fmt: skip


def _done_apart(plan: Plan, earlier: Earlier) -> list[Problem]:
    """Refuse tickets whose dependencies are done on another line: they would start without that work."""
    return [
        Problem(
            ticket.place("depends_on"),
            f"it depends on `{id_}`, whose work is on {ref} and not in HEAD",
            f"`git merge --ff-only {ref}` first",
        )
        for ticket in plan.tickets
        for id_ in ticket.depends_on
        if (ref := earlier.apart.get(id_)) and id_ not in {one.id for one in plan.tickets}
    ]


def _cut_off(repo: UserRepo, values: Values, plan: Plan) -> list[Problem]:
    """Refuse tickets that have landed by STATUS.md, where a shallow clone may just lack their commits."""
    writers = [ticket for ticket in plan.tickets if ticket.mode == "write"]
    if not (writers and values.status and repo.is_shallow()):
        return []
    listed = status.read(values.status.encode()).completions
    known = {one.worker for one in listed if one.phase == values.phase and one.verdict in LANDED}
    # Of a full list the oldest lines have gone: who is not on it may have been.
    is_full = known and len(listed) >= status.KEPT
    again = [ticket.id for ticket in writers if is_full or ticket.worker in known]
    if not again:
        return []
    names = some_of(gathered(again, [ticket.id for ticket in plan.tickets]), SHOWN)
    what = (
        f"STATUS.md says that {names} have landed, and this clone is shallow: it does not have their commits"
    )
    return [Problem("history", what, f"{UNSHALLOW} first; `--again` runs them again")]


def _cut_off_warnings(repo: UserRepo, plan: Plan) -> list[Problem]:
    """Warn of a shallow clone before it does work: what has landed behind its end is not known."""
    if not (any(ticket.mode == "write" for ticket in plan.tickets) and repo.is_shallow()):
        return []
    what = "this clone is shallow: work that landed before its first commit is not known, and would run again"
    return [Problem("history", what, UNSHALLOW, "warning")]


def _repository_problems(repo: UserRepo, head: Head) -> list[Problem]:
    problems = []
    if head.sha is None:
        problems.append(Problem(".git", "there is no commit yet, and workers start from one", "commit first"))
    busy = repo.in_progress()
    if busy:
        problems.append(Problem(".git", f"{busy} is in progress", "finish or abort it first"))
    return [*problems, *repo.closed_folders(), *repo.unmerged(owned_paths(ALWAYS))]


def nothing_committed(repo: UserRepo, rules: PathRules, head: Head) -> list[Problem]:
    """Refuse a last commit without a file of the user's: workers would see nothing of the project."""
    if head.sha is None or repo.holds_more_than(lambda path: _is_ours(path, rules)):
        return []
    there = [
        path for path in repo.untracked() if not _made(repo.root, path, path) and not _is_ours(path, rules)
    ]
    what = "the last commit holds no file of yours, and workers see nothing else"
    if not there:
        return [Problem(".git", what, "commit a first file of the project, a README for example")]
    do = f"commit your files: git add -- {shlex.join(there[:SHOWN])} && git commit"
    return [Problem(".git", f"{what}; not committed: {some_of(there, SHOWN)}", do)]


def _is_ours(path: str, rules: PathRules) -> bool:
    """Return whether `init` writes a path, or only such are below it."""
    return path in (".gitignore", "docs/") or rules.reserved_scope.covers(path)


def _made(root: Path, path: str, folder: str) -> str:
    """Return what tools have made that an untracked path is in, and nobody means to commit; else `""`."""
    names = path.rstrip("/").split("/")
    for count, name in enumerate(names, 1):
        if name in CACHES or name in BUILDS or name.endswith((".egg-info", ".pyc")):
            return "/".join(names[:count]) + ("/" if "/".join(names[:count]) != path else "")
    return folder if (root / folder / "pyvenv.cfg").is_file() else ""


def _values(root: Path, phase: str, problems: list[Problem]) -> Values:
    """Read what templates may use; a state file that could not record the run is a problem now, not later."""
    roster = (RosterEntry("Command-Worker-1", "title", ()),)
    trial = RunDeployed("00000000_000000", phase, datetime(2026, 1, 1, tzinfo=UTC), "lead", roster)
    texts: dict[str, bytes | None] = {"STATUS.md": None, "DECISIONS.md": None}
    current = ""
    try:
        for path in texts:
            texts[path] = read_state(root, path)
        problems += merge_conflicts(texts)
        status.changes(texts, trial)
        current = status.read(texts["STATUS.md"] or b"").deliverable.name
    except ProblemError as error:
        problems += error.problems
    with suppress(ProblemError):  # reported with the settings
        problems += merge_conflicts({"AGENTS.md": read_state(root, "AGENTS.md")})
    said = [(text or b"").decode("utf-8", "replace") for text in texts.values()]
    return Values(root.name, phase, current, said[0], said[1])


def _tickets(root: Path, values: Values, problems: list[Problem]) -> list[Ticket]:
    """Render the templates of the phase; none where any template has a mistake, whatever its phase."""
    known = len(problems)
    files = template_files(root, problems)
    if len(problems) > known:
        return []
    tickets, wrong = render_phase(files, values)
    problems += wrong
    return [] if wrong else tickets


def _only(
    tickets: list[Ticket], request: Request, done: Collection[str], problems: list[Problem]
) -> list[Ticket]:
    """Choose tickets by id, worker or fan-out; those that they depend on must be among them, or done."""
    only = request.only
    if not only or not tickets:
        return tickets
    ids = [ticket.id for ticket in tickets]
    stems = {ticket.id: stem_of(ticket.id) for ticket in tickets}
    known = {*ids, *stems.values(), *(ticket.worker for ticket in tickets)}
    for name in only:
        if name not in known:
            # For names that differ only by a number, the list is more useful than a guess.
            spelled = {one.rstrip("0123456789") for one in known}
            near = "" if name.rstrip("0123456789") in spelled else nearest(name, known)
            do = near or f"there are: {some_of(gathered(ids, ids), SHOWN)}"
            problems.append(Problem("--only", f"there is no ticket `{name}` in this phase", do))
    chosen = [t for t in tickets if {t.id, stems[t.id], t.worker} & set(only)]
    here = {ticket.id for ticket in chosen}
    left_out = {
        id_: ticket.id
        for ticket in chosen
        for id_ in ticket.depends_on
        if id_ in stems.keys() - here and id_ not in done
    }
    for name, missing in named(left_out, ids).items():
        what = f"`{left_out[missing[0]]}` depends on `{name}`, which is left out"
        problems.append(Problem("--only", what, f"name `{name}` too"))
    # A problem reported here need not be repeated by the plan for each of them.
    kept = {t.id: tuple(id_ for id_ in t.depends_on if id_ not in left_out) for t in chosen}
    return [ticket._replace(depends_on=kept[ticket.id]) for ticket in chosen]


def _nothing_begun(request: Request) -> Problem:
    what = "none of these tickets is" if request.only else f"nothing of {request.phase} is"
    do = "`orchestrate checkpoint list --all` shows what was begun; leave out `--continue` to begin"
    return Problem("--continue", f"{what} unfinished", do)


def _continued(
    repository: Repository, request: Request, found: "_Examined", problems: Sequence[Problem]
) -> Mapping[str, Continuation]:
    """Return what the tickets go on from, where that is asked for and they can run at all."""
    base = found.head.sha
    if not request.continues or problems or base is None:
        return {}
    branch = Branch(repository, found.rules, base)
    return continuations(branch, request.phase, found.plan.tickets)


def _begun_afresh(root: Path, request: Request, plan: Plan) -> list[Problem]:
    """Warn of tickets that somebody has begun, and that this run begins once more."""
    names = cut_off(root, plan.tickets)
    if not names:
        return []
    ids = [ticket.id for ticket in plan.tickets]
    what = f"{some_of(gathered(names, ids), SHOWN)} was cut off, and would begin afresh"
    if len(gathered(names, ids)) > 1:
        what = what.replace(" was cut", " were cut", 1)
    return [Problem(request.phase, what, "`--continue` goes on from what was done", "warning")]


def _uncommitted_in_scope(plan: Plan, uncommitted: Sequence[str]) -> list[Problem]:
    problems = []
    for ticket in plan.tickets:
        scope = plan.scopes.get(ticket.id)
        covered = [path for path in uncommitted if ticket.mode == "write" and scope and scope.covers(path)]
        mine = [path for path in covered if CACHES.isdisjoint(path.split("/"))]
        if mine:
            what = f"{ticket.id} would change what you have not committed: {some_of(mine, SHOWN)}"
            problems.append(Problem(ticket.place("owns"), what, "commit or stash it first"))
    return problems


def _detached(repo: UserRepo, found: _Examined) -> list[Problem]:
    """Warn of a detached HEAD: what is accepted lands beside it, and what is recorded is on no branch."""
    if found.head.branch or not found.head.sha or not found.plan.tickets:
        return []
    writes = any(ticket.mode == "write" for ticket in found.plan.tickets)
    lands = "what is accepted lands on `refs/orchestrate/RUN`, on no branch"
    what = f"is detached: {lands if writes else 'what is recorded is on no branch'}"
    do, more = "`git switch BRANCH` first", "holds work that HEAD does not have, and no worker sees it"
    return [
        Problem("HEAD", what, do, "warning"),
        *(
            Problem(ref, more, f"`git merge --ff-only {ref}`", "warning")
            for ref in repo.refs_beyond(found.head)
        ),
    ]


def _ignored_patterns(repo: UserRepo, plan: Plan) -> list[Problem]:
    """Warn of patterns of `owns` that git ignores: what is written there does not land."""
    asked: dict[str, list[tuple[Ticket, str]]] = {}
    for ticket in plan.tickets:
        scope = plan.scopes.get(ticket.id) if ticket.mode == "write" else None
        for pattern in scope.owns if scope else ():
            everything = Scope.of(["**"], ignore_case=pattern.ignore_case)
            if path := Scope((pattern,), (), pattern.ignore_case).overlaps(everything):
                # Git may ignore folders of that name alone.
                asked.setdefault(f"{path}/x", []).append((ticket, pattern.text))
    found = repo.ignored(asked) if asked else ()
    do = "take it out of .gitignore if it is to land"
    return [
        Problem(
            ticket.place("owns"), f"git ignores `{text}`: what is written there does not land", do, "warning"
        )
        for path in sorted(found)
        for ticket, text in asked[path]
    ]


def _available(
    tickets: Sequence[Ticket], settings: Settings, environ: Mapping[str, str]
) -> tuple[Doers, dict[str, str]]:
    reasons: dict[AgentName, str] = {}
    wanted = {name for ticket in tickets for name in (ticket.agent, *ticket.fallback)}
    for name in wanted:
        if (why := why_off(name, settings, environ)) is not None:
            reasons[name] = why
    agents: dict[str, AgentName] = {}
    skipped: dict[str, str] = {}
    for ticket in tickets:
        usable = next((name for name in (ticket.agent, *ticket.fallback) if name not in reasons), None)
        if usable is None:
            skipped[ticket.id] = reasons[ticket.agent]
        else:
            agents[ticket.id] = usable
    return Doers(agents, frozenset(wanted - reasons.keys())), skipped


def _warnings(root: Path, examined: _Examined) -> list[Problem]:
    found, values, uncommitted = [], examined.values, examined.uncommitted
    if values.status and status.phase_matches(status.read(values.status.encode()), values.phase) is None:
        found.append(Problem("STATUS.md", f"has no phase that `{values.phase}` names", "add it to the plan"))
    templates = [path for path in uncommitted if path.startswith(f"{FOLDER}/")]
    if templates:
        found.append(Problem(f"{FOLDER}/", f"is not committed: {some_of(templates, SHOWN)}", "commit it"))
    other = [path for path in uncommitted if not examined.rules.reserved_scope.covers(path)]
    made: dict[str, bool] = {}
    seen: dict[str, bool] = {}
    for path in other:
        new = next((one for one in examined.untracked if f"{path}/".startswith(f"{one.rstrip('/')}/")), "")
        label = _made(root, path, new) if new else ""
        (made if label else seen)[label or new or path] = True
    if seen:
        what = f"is not committed, and workers start from the last commit: {some_of([*seen], SHOWN)}"
        found.append(Problem("work tree", what, "commit what they should see"))
    if made:
        what = f"does not name what tools have made here: {some_of([*made], SHOWN)}"
        found.append(Problem(".gitignore", what, "add it, so that it is never committed"))
    return [problem._replace(severity="warning") for problem in found]


def _refuse_unfinished(root: Path, request: Request) -> None:
    """Refuse a second run of the phase."""
    if request.new:
        return
    hidden: list[Problem] = []
    for state in unfinished_runs(root, hidden):
        if state.phase == request.phase:
            status = state.status()
            goes_on = status == "running"
            do = "wait for it, or `--new`" if goes_on else "continue it, or `--new`"
            raise Refusal(
                Problem(state.run.id, f"this run of {state.phase} is {status}", do),
                exit_code=HELD,
                next_action=next_of_run(state),
            )
    # It may be of this phase, and its work would be paid for twice.
    if hidden:
        raise Refusal(*(one._replace(do=f"{one.do}; or `--new`") for one in hidden))
