"""The cleanup of a run: temporary files are removed once nothing more can happen in it; its outputs stay."""

import contextlib

from orchestrator.errors import Refusal
from orchestrator.runs import scopes_in_use
from orchestrator.runs.kept_refs import drop_bases
from orchestrator.runs.manifest import read_manifest
from orchestrator.runs.state import RunState, read_run
from workers.files.locks import is_locked
from workers.files.run_dir import runs_of
from workers.git.run import Repository
from workers.worktree.worktree import remove_empty_folders, remove_places_below, remove_tree


def clear_run(repository: Repository, state: RunState, base: str) -> None:
    """Remove the temporary files of a run that began at `base`; the mark comes last, so a cut is finished."""
    run = state.run
    if not state.is_unfinished:
        scopes_in_use.drop(repository, run)
    if state.is_integrated:
        drop_bases(repository, state, base)
        root = repository.root / ".taskers"
        scratch = root / "scratch" / run.id
        remove_empty_folders(scratch)  # most are: to list a thousand costs more than to try
        for folder in (repository.own / "runs" / run.id, scratch):
            remove_tree(folder)
        # A worktree of which no patch could be made holds the only copy of its worker's changes.
        kept = [name for name, worker in state.workers.items() if worker.evidence.worktree]
        remove_places_below(repository.common, root / "worktrees" / run.id, kept)
        with contextlib.suppress(OSError):
            (root / "homes" / run.id).rmdir()
    state.mark_end()


def clear_ended_runs(repository: Repository) -> None:
    """Do so for ended runs whose runtime was killed before it could."""
    for run in runs_of(repository.root, closed=False):
        state = read_run(run)
        if state is None or state.is_unfinished or is_locked(run.path / "run.lock"):
            continue
        with contextlib.suppress(Refusal):
            clear_run(repository, state, read_manifest(run).base)
