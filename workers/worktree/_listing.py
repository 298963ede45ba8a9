"""Which paths of a worker's tree differ from its index, by one call of git and one walk of ours."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from workers.git.run import git_fields
from workers.worktree.submodules import gitlinks
from workers.worktree.worktree import Place


class Listed(NamedTuple):
    """The paths of a tree."""

    known: set[str]
    """Tracked, and not left out of the tree by a sparse checkout."""
    changed: list[str]
    untracked: list[str]
    """Not ignored; `x/` is a repository inside."""


def listed(
    place: Place, common: Path, env: Mapping[str, str], there: frozenset[str], *, patience: float
) -> Listed:
    """List tracked paths, those of them that differ, and what git does not know; `there` is what was seen.

    Submodules are looked at apart, since git would read theirs. Raises GitError.
    """
    links = gitlinks(Path(env["GIT_INDEX_FILE"]), common)
    asked = ("-c", "-o") if links else ("-c", "-m", "-o")
    fields = git_fields("ls-files", "-t", *asked, "--exclude-standard", "-z",
                        cwd=place.path, env=env, patience=patience)  # fmt: skip
    known = {field[2:] for field in fields if field[0] == "H"}
    changed = {field[2:] for field in fields if field[0] == "C"}
    if links:
        found = git_fields("diff-files", "--raw", "--no-renames", "--ignore-submodules=all", "-z",
                           cwd=place.path, env=env, patience=patience)  # fmt: skip
        changed.update(found[1::2])
    # Git follows a link in place of a folder, and would find there what it looks for.
    gone = (path for path in known - there if path not in links or not os.path.lexists(place.path / path))
    changed.update(gone)
    return Listed(known, sorted(changed), [field[2:] for field in fields if field[0] == "?"])
