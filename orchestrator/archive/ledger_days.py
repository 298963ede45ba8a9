"""Which days of the ledger may go: those long past in which no run stands that is still there."""

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from orchestrator.archive.garbage import Leftover, said_of, worktree_roots
from orchestrator.budget.ledger import PATIENCE
from orchestrator.budget.totals import entries_of
from orchestrator.runs import scopes_in_use as holding
from workers.files.locks import held_folder
from workers.files.run_dir import RunDir
from workers.git.run import Repository

KEPT = timedelta(days=90)
"""What is younger stays, so that a lead can look up a quarter."""
_REASON = "no run needs what that day cost"
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def old_days(repository: Repository, at: datetime, going: Collection[RunDir] = ()) -> list[Leftover]:
    """List the days that can go once the runs that are `going` have gone; a run may stand in several."""
    needed = _Needed(repository, going)
    found = []
    for path in _past(repository.own / "spending", at):
        # Whoever only looks holds no lock, and what was listed may be gone.
        with suppress(FileNotFoundError):
            size = path.stat().st_size
            if not any(needed.by(root, run_id) for root, run_id, *_ in entries_of(path)):
                found.append(Leftover(said_of(repository, path), _REASON, path, size))
    return found


def drop_days(repository: Repository, at: datetime) -> list[Leftover] | None:
    """Delete the days that can go, and give them; None where others hold the ledger for too long."""
    folder = repository.own / "spending"
    if not folder.is_dir():
        return []
    with held_folder(folder, PATIENCE) as had:
        if not had:
            return None
        gone = old_days(repository, at)
        for one in gone:
            if one.path is not None:
                one.path.unlink(missing_ok=True)
        return gone


def _past(folder: Path, at: datetime) -> Iterator[Path]:
    last = (at.astimezone(UTC) - KEPT).date().isoformat()
    with suppress(FileNotFoundError, NotADirectoryError):
        for path in sorted(folder.iterdir()):
            if path.suffix == ".jsonl" and _DAY.fullmatch(path.stem) and path.stem < last:
                yield path


class _Needed:
    """Tells whether a run's lines are: for `report`, `status` and `ps`, or for what its limits leave it."""

    def __init__(self, repository: Repository, going: Collection[RunDir]) -> None:
        self._going = {(str(run.root), run.id) for run in going}
        # A run that can go on may lie in a work tree that is not there at this moment.
        self._in_use = holding.ids(repository)
        self._away = {str(root) for root in worktree_roots(repository) if not root.is_dir()}
        self._known: dict[tuple[str, str], bool] = {}

    def by(self, root: str, run_id: str) -> bool:
        """Tell it of one run."""
        if (root, run_id) not in self._known:
            self._known[root, run_id] = (root, run_id) not in self._going and (
                run_id in self._in_use or root in self._away or RunDir(Path(root), run_id).path.exists()
            )
        return self._known[root, run_id]
