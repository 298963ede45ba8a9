"""The patch of a worker's changes, made by the same start of git that lists them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from workers.git.run import git, git_into

_FORM = (
    *("-p", "--binary", "--full-index", "--no-renames"),
    *("--no-ext-diff", "--no-textconv", "--no-color"),
)


class Patch(NamedTuple):
    """A patch that git has made already, in a file of ours."""

    path: Path
    offset: int
    """Where in the file it begins."""


def compared(path: Path, base: str, *, cwd: Path, env: Mapping[str, str]) -> tuple[list[str], Patch]:
    """Give what git prints of the paths in which an index differs from a base, by field; keep their patch."""
    with path.open("xb") as file:
        git("diff-index", "--cached", "-z", "--raw", *_FORM, base, cwd=cwd, env=env, into=file)
    head = b""
    with path.open("rb") as file:
        # No field is empty, so that two ends in a row are the end of the list.
        while b"\0\0" not in head and (part := file.read(1 << 16)):
            head += part
    raw = head.partition(b"\0\0")[0]
    fields = [os.fsdecode(field) for field in raw.split(b"\0")] if raw else []
    return fields, Patch(path, len(raw) + 2)


def write_patch(path: Path, old: str, new: str, *, cwd: Path, env: Mapping[str, str]) -> None:
    """Create a file of the difference of two trees, whole or not at all."""
    git_into(path, "diff-tree", "-r", *_FORM, old, new, cwd=cwd, env=env)
