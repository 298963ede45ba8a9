"""What stands there for nobody: places of runs that are gone, runs that never began, files that a kill left.

Reads, but for `drop`. A run in use has a file among the scopes, or a slot: its places are never left over,
whatever became of its folder.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from orchestrator.archive._run_data import MESSAGES, PLACES, bytes_of
from orchestrator.archive.pack import GOING
from orchestrator.archive.runs import began
from orchestrator.runs import scopes_in_use as holding
from orchestrator.runs.kept_refs import KEEP, drop_refs, kept_refs
from workers.files.locks import is_locked
from workers.files.run_dir import ARCHIVE, RUNS, RunDir, is_empty
from workers.git.run import GitError, Repository
from workers.pool.slots import holders
from workers.worktree.worktree import remove_tree

RUN_ID = re.compile(r"[0-9]{8}_[0-9]{6}(_[0-9]+)?")
_GONE = "its run is gone"
SETTLED = timedelta(days=1)
"""Age after which nobody is still at work on what takes a moment."""


class Leftover(NamedTuple):
    """One file, folder or group of refs that can go."""

    what: str
    reason: str
    path: Path | None
    """None where it is the refs of the run that `what` ends with."""
    bytes: int = 0


def leftovers(repository: Repository, at: datetime) -> list[Leftover]:
    """List what nobody needs; of runs that are about to go, nothing is named here."""
    own, common = list(_own(repository)), list(_common(repository))
    # What is in use is looked at last: whatever began since the listing is seen there.
    busy = holding.ids(repository) | _with_slots(repository)
    roots = worktree_roots(repository)
    found = [one for run_id, one in own if run_id not in busy and _is_gone([repository.root], run_id)]
    found += [one for run_id, one in common if run_id not in busy and _is_gone(roots, run_id)]
    return [*found, *_unbegun(repository, at), *_of_kills(repository, at)]


def drop(repository: Repository, one: Leftover) -> bool:
    """Delete a leftover; tell whether it is gone."""
    if one.path is None:
        # A ref that is locked now goes with the next call.
        with suppress(GitError):
            drop_refs(repository, one.what.rpartition("/")[2])
        return True
    with suppress(OSError):
        one.path.unlink()
    remove_tree(one.path)
    return not one.path.exists()


def worktree_roots(repository: Repository) -> list[Path]:
    """List the work trees of a repository, whether they are there or not; workers' own are not among them."""
    found = {repository.root}
    if repository.common.name == ".git":
        found.add(repository.common.parent)
    for path in (repository.common / "worktrees").glob("*/gitdir"):
        with suppress(OSError, ValueError):
            root = Path(path.read_text().strip()).parent
            if ".taskers" not in root.parts:
                found.add(root)
    return sorted(found)


def said_of(repository: Repository, path: Path) -> str:
    """Name a path as people see it: from the root, or from git's own folder."""
    if path.is_relative_to(repository.common):
        return f".git/{path.relative_to(repository.common).as_posix()}"
    return path.relative_to(repository.root).as_posix()


def _own(repository: Repository) -> Iterator[tuple[str, Leftover]]:
    """Give what bears a run's name in this work tree, with that name."""
    for place in PLACES:
        for path in _children(repository.root / ".taskers" / place):
            if RUN_ID.fullmatch(path.name):
                yield path.name, Leftover(said_of(repository, path), _GONE, path, bytes_of(path))
    for path in _children(repository.root / ".taskers" / "worktrees"):
        # Whatever is in it may be somebody's only copy.
        if RUN_ID.fullmatch(path.name) and is_empty(path):
            yield path.name, Leftover(said_of(repository, path), _GONE, path)
    for path in _children(repository.root / ".taskers" / MESSAGES):
        run_id = path.name.partition(".")[0]
        # Empty ones alone: what somebody said is nobody's leftover. A dry run holds no lock: they may go.
        with suppress(FileNotFoundError):
            is_log = RUN_ID.fullmatch(run_id) and path.suffix == ".jsonl" and path.is_file()
            if is_log and not path.stat().st_size:
                yield run_id, Leftover(said_of(repository, path), _GONE, path)


def _common(repository: Repository) -> Iterator[tuple[str, Leftover]]:
    """Give what bears a run's name beside git, for all work trees."""
    for path in _children(repository.own / "runs"):
        if RUN_ID.fullmatch(path.name):
            yield path.name, Leftover(said_of(repository, path), _GONE, path, bytes_of(path))
    refs: list[str] = []
    with suppress(GitError):
        refs = kept_refs(repository)
    for run_id in dict.fromkeys(ref.removeprefix(f"{KEEP}/").partition("/")[0] for ref in refs):
        if RUN_ID.fullmatch(run_id):
            yield run_id, Leftover(f"{KEEP}/{run_id}", _GONE, None)


def _is_gone(roots: list[Path], run_id: str) -> bool:
    """Tell whether no work tree has a run; one that is not there at this moment may have it."""
    places = (f"{RUNS}/{run_id}", f"{ARCHIVE}/{run_id}{GOING}")
    return all(root.is_dir() and not any((root / place).exists() for place in places) for root in roots)


def _with_slots(repository: Repository) -> set[str]:
    return {one.holder.get("run", "") for one in holders(repository.own / "slots")}


def _unbegun(repository: Repository, at: datetime) -> Iterator[Leftover]:
    """Give the runs whose start was cut before they were whole: nothing of them ever ran."""
    busy = _with_slots(repository)
    for path in _children(repository.root / RUNS):
        if not RUN_ID.fullmatch(path.name) or path.name in busy or began(path.name) > at - SETTLED:
            continue
        run = RunDir(repository.root, path.name)
        if run.manifest_path.exists() or (path / "events.jsonl").exists():
            continue
        if not any(map(is_locked, (path / "run.lock", holding.holding_path(repository, run)))):
            yield Leftover(said_of(repository, path), "it never began", path, bytes_of(path))


def _of_kills(repository: Repository, at: datetime) -> Iterator[Leftover]:
    """Give the files that somebody was writing who was killed before they had their name."""
    found = [path for path in _children(repository.own / "providers") if path.suffix[1:].isdigit()]
    for folder in (repository.own / "scopes", repository.root / ".taskers"):
        found += [path for path in _children(folder) if path.suffix == ".tmp"]
    for path in found:
        with suppress(OSError):
            status = path.stat()
            if datetime.fromtimestamp(status.st_mtime, UTC) < at - SETTLED:
                yield Leftover(said_of(repository, path), "a killed process left it", path, status.st_size)


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
