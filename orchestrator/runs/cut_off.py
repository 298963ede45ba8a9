"""Workers that were cut off: which of them can go on without a decision of anybody."""

from orchestrator.runs.worker_state import WorkerState
from tickets.wording import count_of
from workers.files.read import read_whole
from workers.files.run_dir import RunDir


def goes_on(run: RunDir, worker: WorkerState) -> bool:
    """Return whether a worker was cut off, and another run can go on from there.

    Cut off a second time without a new change it waits for somebody: the next run would end as this one.
    """
    if worker.outcome not in ("timed_out", "interrupted") or worker.lands:
        return False
    return not worker.was_cut_off_before or (bool(worker.evidence.files) and has_new_changes(run, worker))


def has_new_changes(run: RunDir, worker: WorkerState) -> bool:
    """Return whether the changes of a worker differ from those that it went on from."""
    patch = worker.evidence.patch
    if patch is None or worker.continues is None:
        return True
    try:
        return read_whole(run.root / patch) != read_whole(run.earlier_patch(worker.worker))
    except OSError:
        return True  # it went on from none, or one is gone


def kept(count: int) -> str:
    """Return how many changed files are kept."""
    return (
        f"{count_of(count, 'file')} {'is' if count == 1 else 'are'} kept" if count else "no file was changed"
    )
