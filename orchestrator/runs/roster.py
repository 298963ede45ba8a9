"""Whether all that is uncommitted in STATUS.md is the roster of runs: its commit comes with the run's."""

from collections.abc import Collection

from orchestrator.state.canonical.status.read import PATH, active_workers
from orchestrator.state.document import opened
from tickets.markdown import field, header
from tickets.problems import ProblemError
from workers.files.run_dir import runs_of
from workers.git.run import Repository, git


def shown_runs(repository: Repository, text: bytes) -> tuple[str, ...] | None:
    """Give the runs whose workers are all that STATUS.md has beyond its commit; None where more was changed.

    What was changed for a run that is gone is more: no run is left that would commit it.
    """
    known = {run.id for run in runs_of(repository.root)}
    committed = git("cat-file", "blob", f"HEAD:{PATH}", cwd=repository.root, check=False)
    try:
        (before, _), (now, shown) = _without_roster(committed, known), _without_roster(text, known)
    except ProblemError:
        return None
    return shown if before == now else None


def _without_roster(text: bytes, known: Collection[str]) -> tuple[list[bytes], tuple[str, ...]]:
    """Give the lines that say something, without the date and the roster of known runs; and those runs."""
    document = opened(PATH, text)
    roster = [one for one in active_workers(document) if one.run in known]
    stamp = field(document, header(document), "Last Updated")
    left_out = {one.item.line for one in roster} | ({stamp.line} if stamp else set())
    lines = [document.data[line.start : line.end].rstrip() for line in document.lines]
    kept = [line for number, line in enumerate(lines, start=1) if line and number not in left_out]
    return kept, tuple(dict.fromkeys(one.run for one in roster))
