"""Which results of the project's own checks may go: those long past, where newer ones tell the same."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from orchestrator.archive._run_data import bytes_of
from orchestrator.archive.garbage import RUN_ID, Leftover, said_of
from orchestrator.archive.runs import began
from orchestrator.checks.figures import FOLDER, NAMES
from workers.git.run import Repository

KEPT = timedelta(days=90)
"""What is younger stays: a status report names its outputs."""
_REASON = "a newer check has taken its place"


def old_checks(repository: Repository, at: datetime) -> Iterator[Leftover]:
    """Give the folders of checks that can go; the newest figure of each kind is what `report` tells."""
    folder = repository.root / FOLDER
    if not folder.is_dir():
        return
    missing = set(NAMES)
    for path in sorted(folder.iterdir(), reverse=True):
        told = {name for name in missing if (path / f"{name}.json").is_file()}
        missing -= told
        if not told and RUN_ID.fullmatch(path.name) and began(path.name) < at - KEPT:
            yield Leftover(said_of(repository, path), _REASON, path, bytes_of(path))
