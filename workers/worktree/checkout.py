"""A worker's tree, made ready: checked out, its submodules and filtered files there, furnished."""

from pathlib import Path
from typing import NamedTuple

from workers.errors import WorkerError
from workers.git.run import GitError, Repository
from workers.worktree.changes import Checker
from workers.worktree.furnish import Furniture, bring
from workers.worktree.submodules import bring_modules
from workers.worktree.worktree import Place, make_place, remove_place


class Made(NamedTuple):
    """A tree that nobody has worked in yet."""

    place: Place
    missing: tuple[str, ...]
    """Links that were asked for and have nothing to lead to."""


def make_tree(
    repository: Repository, checker: Checker, path: Path, base: str, index: Path, *, furniture: Furniture
) -> Made:
    """Make a worktree of `base` as the user would have it. Raises WorkerError, and then leaves nothing."""
    root, common = repository
    place = make_place(root, common, path, base, index, options=checker.filters.switched_off)
    try:
        checker.write_filtered(place)
        bring_modules(root, common, place)
        return Made(place, bring(root, place.path, furniture))
    except GitError as error:
        remove_place(place)
        raise WorkerError(f"no worktree: {error.said}") from error
    except (WorkerError, OSError):
        remove_place(place)
        raise
