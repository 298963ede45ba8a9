"""A project at one moment: state files, runs and git, each read once, and only on demand.

`status`, `resume`, `report`, `handoff`, `validate` and `doctor` are views of it. Nothing is written.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.budget.totals import Spending, Spent, spent_on_day_and_in
from orchestrator.report.phase_list import phases_listed
from orchestrator.runs.inbox import read_inboxes
from orchestrator.runs.next_action import has_work
from orchestrator.runs.project_step import CutOff, Outlook, ProjectStep, Rerun, next_of_project, open_p0
from orchestrator.runs.state import RunState, read_run
from orchestrator.state import ALWAYS, NEEDED, Family, owned_among, owned_paths
from orchestrator.state.canonical.decisions.read import PATH as DECISIONS
from orchestrator.state.canonical.decisions.read import phases_run
from orchestrator.state.canonical.status.read import PATH as STATUS
from orchestrator.state.canonical.status.read import ActiveWorker, Status, doubts, read, slug
from orchestrator.state.document import merge_conflicts
from orchestrator.store.intent import awaited_branch, decided
from orchestrator.store.read import read_state
from tickets.problems import Problem, ProblemError
from workers.files.run_dir import RunDir, runs_of
from workers.git.run import Repository, operation_in_progress

if TYPE_CHECKING:
    from orchestrator.checks.figures import Figure
    from orchestrator.report._documents import Log, Rules
    from orchestrator.report.checkpoints import CheckpointsFound
    from orchestrator.runs.roster import LostWorker
    from orchestrator.settings.settings import Settings
    from orchestrator.store.repo import Head, UserRepo

RUNS = 20
"""How many runs are read; older ones are never needed."""
LOOKED_AT = 3
"""How many of them are looked at for what was left undone."""
RULES = "AGENTS.md"
WINDOW = 7
"""Days of decisions that a new lead reads."""


_Problems = tuple[Problem, ...]
"""Why something cannot be read: it stands beside what could be."""


class _Moment(NamedTuple):
    """A repository at one time."""

    repository: Repository
    at: datetime


class Situation(_Moment):
    """A project at one moment; an unreadable part is a problem, and does not stop the rest."""

    # State files

    def text(self, path: str) -> bytes | None:
        """Return a state file as it was last decided; None where there is none, or it cannot be read."""
        return self._read(path)[0]

    def unread(self, path: str) -> tuple[Problem, ...]:
        """Return why a state file cannot be read, or that a required one is missing."""
        return self._read(path)[1]

    @property
    def texts(self) -> Mapping[str, bytes | None]:
        """The state files that every project has."""
        return {path: self.text(path) for path in NEEDED}

    @property
    def status(self) -> Status | None:
        """The content of STATUS.md."""
        return self._status[0]

    @property
    def lead(self) -> str:
        """The lead by STATUS.md; empty where it names none."""
        return self.status.lead if self.status else ""

    @property
    def status_problems(self) -> tuple[Problem, ...]:
        """The problems of STATUS.md."""
        return (*self.unread(STATUS), *self._status[1])

    @cached_property
    def updated(self) -> datetime | None:
        """When STATUS.md was last updated, None where its date is missing or invalid."""
        try:
            return datetime.fromisoformat(self.status.last_updated) if self.status else None
        except ValueError:
            return None

    @cached_property
    def log(self) -> "Log":
        """The content of the decision log."""
        # For start-up time, as all imports in here: `status` only needs runs and STATUS.md.
        from orchestrator.report._documents import log_of  # noqa: PLC0415

        return log_of(self.text(DECISIONS), self.decisions_since)

    @cached_property
    def decisions_since(self) -> str:
        """The day from which decisions count as recent: a week before now, or before the last work."""
        end = self.at.date()
        if self.updated is not None:
            # After a gap the last week is empty, and a lead needs the week before the gap.
            end = min(end, self.updated.date())
        return (end - timedelta(days=WINDOW)).isoformat()

    @cached_property
    def settings(self) -> "Settings":
        """The settings of `orchestrate.toml` and AGENTS.md for a run. Raises Refusal."""
        from orchestrator.settings.settings import read_settings  # noqa: PLC0415

        return read_settings(self.repository.root)

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """The families of state files that are on; of settings that cannot be read, those that always are."""
        from orchestrator.settings.recording import read_recording  # noqa: PLC0415

        try:
            return read_recording(self.repository.root).families
        except ProblemError:
            return ALWAYS

    @cached_property
    def phases(self) -> list[dict[str, Any]]:
        """The phases of the plan as commands list them, with their plans where the family is on."""
        return phases_listed(self.status, self.families, self.text) if self.status else []

    @cached_property
    def rules(self) -> "Rules":
        """The rules in AGENTS.md for the lead."""
        from orchestrator.report._documents import rules_of  # noqa: PLC0415

        return rules_of(self.text(RULES), self.approved_pool)

    @cached_property
    def approved_pool(self) -> int:
        """The largest pool that the user has approved."""
        from orchestrator.report._documents import approved_pool  # noqa: PLC0415

        return approved_pool(self.text(DECISIONS))

    # Runs

    def newest(self, count: int) -> list[RunState]:
        """Return the readable ones of the newest runs, oldest first."""
        return [state for state, _ in self._newest(count) if state is not None]

    def unreadable(self, count: int) -> list[Problem]:
        """Return why others of the newest runs cannot be read."""
        return [problem for _, problems in self._newest(count) for problem in problems]

    @property
    def runs(self) -> list[RunState]:
        """The newest runs, oldest first."""
        return self.newest(RUNS)

    @cached_property
    def unfinished(self) -> tuple[RunState, ...]:
        """The runs that are not integrated, oldest first."""
        found = [self._run(run)[0] for run in self._open]
        states = [state for state in found if state is not None and state.is_unfinished]
        read_inboxes(self.repository.root, states, self.at.timestamp())
        return tuple(states)

    @property
    def unreadable_open(self) -> list[Problem]:
        """Why others, in which something may still happen, cannot be read."""
        return [problem for run in self._open for problem in self._run(run)[1]]

    @cached_property
    def waiting(self) -> RunState | None:
        """The newest run that waits for something, also a cancelled last one with work to settle."""
        last = self.last
        if last is not None and last.closed == "cancelled" and has_work(last):
            return last
        found = (self._run(run)[0] for run in reversed(self._open))
        return next((state for state in found if state is not None and state.is_unfinished), None)

    @cached_property
    def last(self) -> RunState | None:
        """The newest run that can be read."""
        found = (self._run(run)[0] for run in reversed(self._there[-RUNS:]))
        return next((state for state in found if state is not None), None)

    @cached_property
    def gone(self) -> tuple[ActiveWorker, ...]:
        """The workers on the roster whose runs are gone."""
        there = {run.id for run in self._there}
        roster = self.status.active if self.status else ()
        return tuple(one for one in roster if one.run and one.run not in there)

    @cached_property
    def lost(self) -> "tuple[LostWorker, ...]":
        """The same with the tickets that rerun them."""
        if self.status is None or not self.gone:
            return ()
        from orchestrator.runs.roster import lost_workers  # noqa: PLC0415 - only for a run that is gone

        return lost_workers(self.repository, self.gone, self.status, self.texts)

    def spent(self, runs: Sequence[RunState]) -> tuple[Spent, list[Spent]]:
        """Return the cost of today (UTC), and of each of some runs."""
        return spent_on_day_and_in(self.repository.own / "spending", self.day, runs)

    @cached_property
    def spending(self) -> Spending:
        """The cost of today (UTC) and of the newest run."""
        newest = self.runs[-1:]
        today, in_runs = self.spent(newest)
        return Spending(self.day, today, newest[0].run.id if newest else None, (*in_runs, Spent())[0])

    @property
    def day(self) -> str:
        """Today, in UTC."""
        return f"{self.at:%Y-%m-%d}"

    @cached_property
    def figures(self) -> "tuple[Figure, ...]":
        """The newest result of each check."""
        from orchestrator.checks.figures import known_figures  # noqa: PLC0415

        return known_figures(self.repository.root)

    # Git

    @property
    def head(self) -> "Head":
        """The commit and the branch of HEAD."""
        return self._head[0]

    @property
    def uncommitted(self) -> tuple[str, ...]:
        """The paths that differ from HEAD, untracked ones included."""
        return self._uncommitted[0]

    @cached_property
    def not_committed(self) -> tuple[str, ...]:
        """The same as `git status` names them, folders as a whole; without what runs have written."""
        names = self._repo.not_committed() if self.uncommitted else ()
        return tuple(name for name in names if not (self._by_runs and self._is_by_runs(name)))

    @property
    def git_problems(self) -> tuple[Problem, ...]:
        """Why git does not answer, or which operation the user is in the middle of."""
        return (*self.merging, *self._head[1], *self._uncommitted[1], *self.unmerged)

    @property
    def merging(self) -> tuple[Problem, ...]:
        """A warning about the operation that the user is in the middle of."""
        what, do = f"{self.in_progress} is in progress", "finish or abort it first"
        return (Problem(".git", what, do, "warning"),) if self.in_progress else ()

    @cached_property
    def unmerged(self) -> tuple[Problem, ...]:
        """The state files of which git has the sides of a conflict."""
        return () if self._uncommitted[1] else tuple(self._repo.unmerged(owned_paths(self.families)))

    @property
    def obstacles(self) -> tuple[Problem, ...]:
        """Why git would not commit here, or does not answer."""
        return tuple(self._repo.obstacles()) or self._head[1]

    @cached_property
    def in_progress(self) -> str | None:
        """The operation that the user is in the middle of, with its article: a merge, a rebase."""
        return operation_in_progress(self.repository)

    @property
    def changes(self) -> frozenset[str]:
        """The uncommitted paths, without what only runs have changed: the next commit of state has it."""
        return frozenset(self.uncommitted) - ({STATUS} if self._shown is not None else set()) - self._by_runs

    @property
    def changed(self) -> tuple[str, ...]:
        """The state files among these."""
        return owned_among(self.changes, self.families)

    @property
    def roster_of(self) -> tuple[str, ...]:
        """The runs whose workers are the only uncommitted change of STATUS.md, to be committed with them."""
        return self._shown or ()

    @cached_property
    def behind(self) -> int:
        """Commits since STATUS.md was last updated."""
        if self.head.sha is None or self.updated is None:
            return 0
        from workers.git.run import GitError, git_line  # noqa: PLC0415

        # The file's time is in minutes: a commit within the minute may be the one that wrote it.
        since = f"--since={(self.updated + timedelta(minutes=1)).isoformat()}Z"
        try:
            said = git_line("rev-list", "--count", since, self.head.sha, cwd=self.repository.root)
        except GitError:
            return 0
        return int(said) if said.isdigit() else 0

    # Conclusions

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The unreadable parts, and changes that were not completed."""
        return (
            *(problem for path in NEEDED for problem in self.unread(path)),
            *self._status[1], *self.log.problems, *self.unreadable(RUNS), *self.git_problems,
            *self.rules.problems, *self.interrupted,
        )  # fmt: skip

    @cached_property
    def interrupted(self) -> tuple[Problem, ...]:
        """The change that a killed command had decided and not completed."""
        paths = (decided(self.repository, kind) for kind in ("intent", "landing"))
        what, do = "a change was decided and not completed", "`orchestrate resume` completes it"
        if self._awaited:
            what, do = f"{what}: it waits for {self._awaited}", f"switch back to that branch, then {do}"
        return tuple(Problem(path.name, what, do, "warning") for path in paths if path.exists())[:1]

    @cached_property
    def p0(self) -> tuple[str, ...]:
        """The open P0 items, without the one to run a phase that is done."""
        return tuple(open_p0(self.status, self._phases_done))

    @cached_property
    def step(self) -> ProjectStep:
        """The next P0, and the step that continues the project."""
        newest = self.newest(LOOKED_AT)[::-1]
        ended = [state for state in newest if state not in self.unfinished]
        read_inboxes(self.repository.root, ended, self.at.timestamp())
        return next_of_project(
            Outlook(
                self.repository.root,
                self.at,
                self.status,
                self._is_missing,
                next(map(str, self.unread(STATUS)), "") if self.status else "",
                self._red_tests,
                bool(self.interrupted),
                self._awaited,
                self.in_progress or "",
                self.waiting,
                newest,
                self._rerun,
                tuple(dict.fromkeys(one.worker for one in self.lost if one.lives)),
                self._phases_done,
                self._phases_complete,
                self._rejected,
                self._cut_off,
            )
        )

    # How each is read

    @cached_property
    def _texts(self) -> dict[str, tuple[bytes | None, _Problems]]:
        return {}

    def _read(self, path: str) -> tuple[bytes | None, _Problems]:
        if path not in self._texts:
            self._texts[path] = _text_of(self.repository, path)
        return self._texts[path]

    @cached_property
    def _status(self) -> tuple[Status | None, _Problems]:
        text = self.text(STATUS)
        try:
            return (None, ()) if text is None else (read(text), tuple(doubts(text)))
        except ProblemError as error:
            return None, error.problems

    @property
    def _is_missing(self) -> bool:
        return any("is missing" in one.what for one in self.unread(STATUS))

    @cached_property
    def _there(self) -> list[RunDir]:
        return runs_of(self.repository.root)

    @cached_property
    def _open(self) -> list[RunDir]:
        return runs_of(self.repository.root, closed=False)

    @cached_property
    def _runs(self) -> dict[str, tuple[RunState | None, _Problems]]:
        return {}

    def _run(self, run: RunDir) -> tuple[RunState | None, _Problems]:
        if run.id not in self._runs:
            problems: list[Problem] = []
            self._runs[run.id] = read_run(run, problems), tuple(problems)
        return self._runs[run.id]

    def _newest(self, count: int) -> Iterator[tuple[RunState | None, _Problems]]:
        return map(self._run, self._there[-count:])

    @cached_property
    def _phases_done(self) -> frozenset[str]:
        """Return the phases that are complete by the plan, or were run; in a clone, with a result."""
        status, done = self.status, self._phases_complete
        done |= frozenset(one.phase for one in (status.completions if status else ()) if one.phase)
        if (last := self.last) is not None and last.is_integrated:
            done |= {last.phase}  # also where nothing of it was accepted
        return done | phases_run(self.text(DECISIONS))

    @cached_property
    def _awaited(self) -> str:
        """Return the branch that a decided change waits for, where the user is on another one."""
        branch = awaited_branch(self.repository) if decided(self.repository, "intent").exists() else None
        return branch if branch and self.head.branch != branch else ""

    @property
    def _red_tests(self) -> str:
        is_asked = self.last is not None and self.last.finished_deliverables
        if not (is_asked and (self.repository.root / ".taskers/checks").is_dir()):
            return ""
        from orchestrator.checks.figures import red_tests  # noqa: PLC0415

        return red_tests(self.repository.root)

    @property
    def _phases_complete(self) -> frozenset[str]:
        status = self.status
        return frozenset(slug(one.title) for one in (status.phases if status else ()) if one.complete)

    @property
    def _rejected(self) -> str:
        status, text = self.status, self.text(DECISIONS)
        if status is None or status.current is None or not text or b": rejected by " not in text:
            return ""
        from orchestrator.state.canonical.decisions import gates  # noqa: PLC0415

        later = status.phases[status.phases.index(status.current) + 1 :]
        gate = gates.gate_between(
            status, status.current, next((one for one in later if not one.complete), None)
        )
        said = gates.answers(text).get(gate)
        if said is None or said.answer != "rejected":
            return ""
        return f"gate {gate} was rejected by {said.by} on {said.date}, and waits for another answer"

    @cached_property
    def checkpoints(self) -> "CheckpointsFound":
        """The checkpoints, and what is wrong with those that cannot be read."""
        from orchestrator.report.checkpoints import NO_CHECKPOINTS, read_checkpoints  # noqa: PLC0415 - `status` seldom asks

        try:
            return read_checkpoints(self.repository)
        except ProblemError as error:
            return NO_CHECKPOINTS._replace(problems=error.problems)

    def _cut_off(self) -> CutOff | None:
        """Return what can go on from its checkpoint alone: no run that is here has had its ticket."""
        if not (self.repository.root / "docs/progress").is_dir():
            return None
        from orchestrator.report.checkpoints import can_go_on  # noqa: PLC0415 - as above

        had = {worker.ticket for run in self.runs for worker in run.workers.values()}
        found = [
            one for one in self.checkpoints.open
            if one.agent not in had and can_go_on(self.repository.root, one, self.at)
        ]  # fmt: skip
        if not found:
            return None
        team, first = found[0].team, found[0]
        mine = [one.agent for one in found if one.team == team]
        return CutOff(team, tuple(dict.fromkeys(mine)), f"{first.agent} was begun: {first.last_action}")

    @property
    def _rerun(self) -> Rerun | None:
        again = [one for one in self.lost if one.ticket and not one.lives]
        phase = again[0].phase if again else ""
        mine = [one for one in again if one.phase == phase]
        runs = dict.fromkeys(one.run for one in mine)
        return Rerun(phase, tuple(one.ticket for one in mine), tuple(runs)) if again else None

    @cached_property
    def _repo(self) -> "UserRepo":
        from orchestrator.store.repo import UserRepo  # noqa: PLC0415

        return UserRepo(self.repository)

    @cached_property
    def _head(self) -> "tuple[Head, _Problems]":
        from orchestrator.store.repo import Head, RepoBlocked  # noqa: PLC0415

        try:
            return self._repo.head(), ()
        except RepoBlocked as blocked:
            return Head(None, None), blocked.problems

    @cached_property
    def _uncommitted(self) -> tuple[tuple[str, ...], _Problems]:
        from orchestrator.store.repo import RepoBlocked  # noqa: PLC0415

        try:
            return tuple(self._repo.uncommitted()), ()
        except RepoBlocked as blocked:
            return (), blocked.problems

    @cached_property
    def _by_runs(self) -> frozenset[str]:
        """Return the uncommitted files of families that runs alone have changed since their commit."""
        from orchestrator.store.intent import digest  # noqa: PLC0415
        from orchestrator.store.uncommitted import written_by_runs  # noqa: PLC0415

        written = written_by_runs(self.repository) if self.uncommitted else {}
        return frozenset(
            path
            for path in written.keys() & {*self.uncommitted} - {*NEEDED}
            if written[path] == (digest(self._repo.committed(path) or None), digest(self.text(path)))
        )

    def _is_by_runs(self, name: str) -> bool:
        """Return whether a name of `git status` stands for such files alone."""
        below = {path for path in self.uncommitted if f"{path}/".startswith(f"{name.rstrip('/')}/")}
        return not below.isdisjoint(self._by_runs) and below <= self._by_runs

    @cached_property
    def _shown(self) -> tuple[str, ...] | None:
        text = self.text(STATUS)
        if not text or STATUS not in self.uncommitted:
            return None
        from orchestrator.runs.roster import shown_runs  # noqa: PLC0415

        return shown_runs(self.repository, text)


def _text_of(repository: Repository, path: str) -> tuple[bytes | None, _Problems]:
    try:
        text = read_state(repository.root, path)
    except ProblemError as error:
        return None, error.problems
    missing = Problem(path, "the file is missing", "`orchestrate init` writes it")
    return text, (missing,) if text is None and path in NEEDED else tuple(merge_conflicts({path: text}))
