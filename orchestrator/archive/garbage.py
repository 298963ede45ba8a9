"""Garbage: what no run and no process needs any more, as one table of its places and deletion rules.

A run in use has a file among the scopes, or a slot: what it has elsewhere is never garbage, whatever became
of its folder.
"""

import re
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from orchestrator.archive._pack import GOING
from orchestrator.archive.runs import began, bytes_of
from orchestrator.budget.ledger import PATIENCE
from orchestrator.budget.totals import entries_of
from orchestrator.checks.figures import NAMES
from orchestrator.runs import scopes_in_use
from orchestrator.runs.kept_refs import KEEP, drop_refs, kept_refs
from tickets.problems import Problem
from workers.files.locks import held_folder, is_locked
from workers.files.run_dir import ARCHIVE, RUNS, RunDir, is_empty
from workers.git.run import GitError, Repository
from workers.pool.slots import holders
from workers.worktree.worktree import remove_tree

YOUNG = timedelta(days=1)
"""Age in seconds below which a process may still be working on a short-lived file."""
QUARTER = timedelta(days=90)
"""Age in seconds below which days of the ledger and results of checks stay: a lead may look them up."""
_RUN_ID = re.compile(r"[0-9]{8}_[0-9]{6}(_[0-9]+)?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ITS_RUN_IS_GONE = "its run is gone"


class Garbage(NamedTuple):
    """A file, a folder or a group of refs that can be deleted."""

    what: str
    reason: str
    path: Path | None
    """None where it is the refs of the run that `what` ends with."""
    bytes: int = 0


class RepositoryFacts:
    """Facts about a repository that the table's rules ask for; `going` are runs that a dry run would pack.

    Made after the candidates were listed: a run that began since is seen as in use.
    """

    def __init__(self, repository: Repository, at: datetime, going: Collection[RunDir] = ()) -> None:
        self.repository = repository
        self.at = at
        self._going = {(str(run.root), run.id) for run in going}
        self._needed: dict[tuple[str, str], bool] = {}
        self._in_use = scopes_in_use.ids(repository)
        self.with_slots = {one.holder.get("run", "") for one in holders(repository.own / "slots")}
        self._roots = worktree_roots(repository)

    def is_run_gone(self, run_id: str, *, everywhere: bool) -> bool:
        """Return whether a run is in no work tree, or not in this one; an absent work tree may have it."""
        if not _RUN_ID.fullmatch(run_id) or run_id in self._in_use | self.with_slots:
            return False
        places = (f"{RUNS}/{run_id}", f"{ARCHIVE}/{run_id}{GOING}")
        roots = self._roots if everywhere else [self.repository.root]
        return all(root.is_dir() and not any((root / place).exists() for place in places) for root in roots)

    def is_run_needed(self, root: str, run_id: str) -> bool:
        """Return whether `report`, `status`, `ps` or a limit may ask what a run has cost."""
        if (root, run_id) not in self._needed:
            self._needed[root, run_id] = (root, run_id) not in self._going and (
                run_id in self._in_use or root in self._away or RunDir(Path(root), run_id).path.exists()
            )
        return self._needed[root, run_id]

    def is_older(self, path: Path, age: timedelta) -> bool:
        """Return whether a file was written longer ago than that."""
        return datetime.fromtimestamp(path.stat().st_mtime, UTC) < self.at - age

    @cached_property
    def _away(self) -> set[str]:
        """Return the work trees that do not exist at this moment, for instance on an unplugged disk."""
        return {str(root) for root in self._roots if not root.is_dir()}

    @cached_property
    def newest_checks(self) -> set[Path]:
        """Return the results of checks with the newest figure of some kind, which `report` shows."""
        missing, found = set(NAMES), set()
        for path in _listed(self.repository, ".taskers/checks/*")[::-1]:
            if has := {name for name in missing if (path / f"{name}.json").is_file()}:
                missing -= has
                found.add(path)
        return found


def worktree_roots(repository: Repository) -> list[Path]:
    """List the work trees of a repository, whether they exist at this moment or not, without workers' own."""
    found = {repository.root}
    if repository.common.name == ".git":
        found.add(repository.common.parent)
    for path in (repository.common / "worktrees").glob("*/gitdir"):
        with suppress(OSError, ValueError):
            root = Path(path.read_text().strip()).parent
            if ".taskers" not in root.parts:
                found.add(root)
    return sorted(found)


# The rules: each returns whether a path may be deleted. One that raises OSError keeps it.


def _of_gone_run(path: Path, facts: RepositoryFacts) -> bool:
    return facts.is_run_gone(path.name, everywhere=False)


def _empty_of_gone_run(path: Path, facts: RepositoryFacts) -> bool:
    # A worktree may hold the only copy of somebody's work.
    return is_empty(path) and facts.is_run_gone(path.name, everywhere=False)


def _empty_log_of_gone_run(path: Path, facts: RepositoryFacts) -> bool:
    # Messages stay. A dry run holds no lock: the log may be gone by now.
    is_bare = path.is_file() and not path.stat().st_size
    return is_bare and facts.is_run_gone(path.name.partition(".")[0], everywhere=False)


def _of_run_gone_everywhere(path: Path, facts: RepositoryFacts) -> bool:
    return facts.is_run_gone(path.name, everywhere=True)


def _run_never_began(path: Path, facts: RepositoryFacts) -> bool:
    run, is_named = RunDir(facts.repository.root, path.name), _RUN_ID.fullmatch(path.name)
    if not is_named or path.name in facts.with_slots or began(path.name) > facts.at - YOUNG:
        return False
    if run.manifest_path.exists() or (path / "events.jsonl").exists():
        return False
    locks = (path / "run.lock", scopes_in_use.holding_path(facts.repository, run))
    return not any(map(is_locked, locks))


def _unfinished(path: Path, facts: RepositoryFacts) -> bool:
    return facts.is_older(path, YOUNG)


def _unfinished_state(path: Path, facts: RepositoryFacts) -> bool:
    # Earlier versions wrote to a name that ends with the number of the process.
    is_temporary = path.suffix == ".tmp" or path.suffix[1:].isdigit()
    return is_temporary and facts.is_older(path, YOUNG)


def _superseded_check(path: Path, facts: RepositoryFacts) -> bool:
    is_old = bool(_RUN_ID.fullmatch(path.name)) and began(path.name) < facts.at - QUARTER
    return is_old and path not in facts.newest_checks


def _unneeded_day(path: Path, facts: RepositoryFacts) -> bool:
    last = (facts.at.astimezone(UTC) - QUARTER).date().isoformat()
    if not _DAY.fullmatch(path.stem) or path.stem >= last:
        return False
    return not any(facts.is_run_needed(root, run_id) for root, run_id, *_ in entries_of(path))


class Kind(NamedTuple):
    """A kind of garbage."""

    glob: str
    """Below the work tree; from `.git/` on, below git's common directory."""
    may_go: Callable[[Path, RepositoryFacts], bool]
    reason: str


_KILLED = "a killed process left it"
KINDS = (
    Kind(".taskers/scratch/*", _of_gone_run, _ITS_RUN_IS_GONE),
    Kind(".taskers/homes/*", _of_gone_run, _ITS_RUN_IS_GONE),
    Kind(".taskers/worktrees/*", _empty_of_gone_run, _ITS_RUN_IS_GONE),
    Kind(".taskers/messages/*.jsonl", _empty_log_of_gone_run, _ITS_RUN_IS_GONE),
    Kind(".git/orchestrate/runs/*", _of_run_gone_everywhere, _ITS_RUN_IS_GONE),
    Kind(".taskers/runs/*", _run_never_began, "it never began"),
    Kind(".git/orchestrate/providers/*", _unfinished_state, _KILLED),
    Kind(".git/orchestrate/logins/*.tmp", _unfinished, _KILLED),
    Kind(".git/orchestrate/scopes/*.tmp", _unfinished, _KILLED),
    Kind(".taskers/*.tmp", _unfinished, _KILLED),
    Kind(".taskers/checks/*", _superseded_check, "a newer check has taken its place"),
)
DAYS = (Kind(".git/orchestrate/spending/*.jsonl", _unneeded_day, "no run needs what that day cost"),)
"""Apart, since days of the ledger are deleted under its lock."""


def find(repository: Repository, at: datetime, going: Collection[RunDir] = ()) -> list[Garbage]:
    """List what may be deleted once the runs that are `going` have been packed."""
    found = [*_find(repository, at, KINDS), *_find_refs(repository, at)]
    return [*found, *_find(repository, at, DAYS, going)]


def collect(repository: Repository, at: datetime) -> tuple[list[Garbage], list[Problem]]:
    """Delete what may be deleted; return what is gone, and what could not be deleted."""
    gone, problems = [], []
    for one in (*_find(repository, at, KINDS), *_find_refs(repository, at)):
        if _delete(repository, one):
            gone.append(one)
        else:
            problems.append(Problem(one.what, "cannot be deleted", "check its permissions", "warning"))
    ledger = repository.own / "spending"
    if ledger.is_dir():
        with held_folder(ledger, PATIENCE) as is_ours:
            if is_ours:
                gone += [one for one in _find(repository, at, DAYS) if _delete(repository, one)]
            else:
                what = "another process holds the ledger: its old days stay"
                problems.append(Problem(".git/orchestrate/spending", what, "call again", "warning"))
    return gone, problems


def _find(
    repository: Repository, at: datetime, kinds: Collection[Kind], going: Collection[RunDir] = ()
) -> list[Garbage]:
    candidates = [(kind, path) for kind in kinds for path in _listed(repository, kind.glob)]
    facts = RepositoryFacts(repository, at, going)
    found = []
    for kind, path in candidates:
        with suppress(OSError):
            if kind.may_go(path, facts):
                size = bytes_of(path) if path.is_dir() else path.stat().st_size
                found.append(Garbage(_describe(repository, path), kind.reason, path, size))
    return found


def _find_refs(repository: Repository, at: datetime) -> list[Garbage]:
    """List the runs that are in no work tree any more, and have keep-alive refs."""
    refs: list[str] = []
    with suppress(GitError):
        refs = kept_refs(repository)
    runs = dict.fromkeys(ref.removeprefix(f"{KEEP}/").partition("/")[0] for ref in refs)
    facts = RepositoryFacts(repository, at)
    gone = [run_id for run_id in runs if facts.is_run_gone(run_id, everywhere=True)]
    return [Garbage(f"{KEEP}/{run_id}", _ITS_RUN_IS_GONE, None) for run_id in gone]


def _delete(repository: Repository, one: Garbage) -> bool:
    """Delete garbage; return whether it is gone."""
    if one.path is None:
        # A ref that is locked at this moment goes with the next call.
        with suppress(GitError):
            drop_refs(repository, one.what.rpartition("/")[2])
        return True
    with suppress(OSError):
        one.path.unlink()
    remove_tree(one.path)
    return not one.path.exists()


def _listed(repository: Repository, glob: str) -> list[Path]:
    inside = glob.removeprefix(".git/")
    return sorted((repository.root if inside == glob else repository.common).glob(inside))


def _describe(repository: Repository, path: Path) -> str:
    """Return a path from the root, or from git's common directory, as `.git/…`."""
    if path.is_relative_to(repository.common):
        return f".git/{path.relative_to(repository.common).as_posix()}"
    return path.relative_to(repository.root).as_posix()
