"""Submodules as in the user's checkout: from the repositories that are there, without a network."""

import contextlib
import os
from pathlib import Path

from workers.errors import WorkerError
from workers.files.run_dir import create_json
from workers.git.run import find_repository, git_fields
from workers.worktree.change import GITLINK
from workers.worktree.worktree import Module, Place, make_place, modules_of

_GITLINK_BYTES = b"\x00\x00\xe0\x00"
"""The mode as an index file has it: without these bytes there is no submodule, and git need not be asked."""


def gitlinks(index: Path, common: Path) -> dict[str, str]:
    """List the submodules of an index of ours: path to the commit it names."""
    if _GITLINK_BYTES not in index.read_bytes():
        return {}
    env = {"GIT_DIR": str(common), "GIT_INDEX_FILE": str(index)}
    found = {}
    for field in git_fields("ls-files", "-s", "-z", cwd=common, env=env):
        head, _, path = field.partition("\t")
        mode, sha, _ = head.split(" ")
        if mode == GITLINK:
            found[path] = sha
    return found


def bring_modules(root: Path, common: Path, place: Place) -> None:
    """Make a worktree of each submodule that is initialised at `root`, and of nested ones.

    A missing one, or one without its commit, stays the empty folder of a fresh checkout.
    """
    made: list[Module] = []
    for number, (path, sha) in enumerate(gitlinks(place.index_copy, common).items()):
        theirs = root / path
        # The link to its metadata is read from the user's checkout: `.gitmodules` may be a worker's.
        if not os.path.lexists(theirs / ".git") or theirs.is_symlink():
            continue
        repository = find_repository(theirs)
        if repository is None or repository.root != theirs.resolve():
            continue
        with contextlib.suppress(OSError):
            (place.path / path).rmdir()
        index = place.beside(f"module-{number}")
        try:
            inner = make_place(theirs, repository.common, place.path / path, sha, index)
        except WorkerError:
            (place.path / path).mkdir(exist_ok=True)
            continue
        bring_modules(theirs, repository.common, inner)
        made.append(Module(path, repository.common, inner))
    if made and not modules_of(place):
        modules = [
            {
                "path": one.path,
                "common": str(one.common),
                "base": one.place.base,
                "admin": str(one.place.admin),
                "index": str(one.place.index_copy),
            }
            for one in made
        ]
        create_json(place.beside("modules"), {"modules": modules})
