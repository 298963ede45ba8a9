"""Refs read from git's own files: git takes a process for each answer, and a landing asks often.

Only plain cases are answered here: a branch or a ref of ours, loose or packed. For all else the answer is
`UNSURE`, and git must be asked.
"""

import os
import re
import zlib
from pathlib import Path
from typing import Final, Literal, NamedTuple

from workers.git.run import Repository, git_directory

UNSURE: Final = "unsure"
"""The answer where git has to be asked: no commit has such a name."""
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_TREE = rb"commit \d+\0tree ([0-9a-f]{40,64})\n"
_PLAIN = re.compile(r"refs/(?:heads|orchestrate)/[\w./+@=,-]+")


class FoundHead(NamedTuple):
    """The state of HEAD, as its file holds it."""

    sha: str | None
    branch: str | None


def head_of(repository: Repository) -> FoundHead | Literal["unsure"]:
    """Read HEAD and the branch that it names."""
    path = git_directory(repository) / "HEAD"
    if (text := _line_of(path)) is None or path.is_symlink():
        return UNSURE
    if _SHA.fullmatch(text):
        return FoundHead(text, None) if _is_plain(repository.common) else UNSURE
    branch = text.removeprefix("ref: ")
    sha = value_of(repository, branch) if branch != text else UNSURE
    return UNSURE if sha == UNSURE else FoundHead(sha, branch)


def value_of(repository: Repository, ref: str) -> str | None:
    """Read what a ref points to; None where it does not exist, `UNSURE` where git has to be asked."""
    if not _PLAIN.fullmatch(ref) or ".." in ref or "//" in ref or not _is_plain(repository.common):
        return UNSURE
    # Loose before packed: git writes the packed entry before it removes the loose file.
    path = repository.common / ref
    if os.path.lexists(path) and not path.is_dir():
        text = _line_of(path)
        return text if text is not None and _SHA.fullmatch(text) else UNSURE
    try:
        packed = (repository.common / "packed-refs").read_bytes()
    except FileNotFoundError:
        return None
    except OSError:
        return UNSURE
    found = re.search(rb"^([0-9a-f]{40,64}) " + re.escape(os.fsencode(ref)) + rb"$", packed, re.MULTILINE)
    return found[1].decode() if found else None


def tree_of(repository: Repository, commit: str) -> str:
    """Return the tree of a commit that is a loose object, as all new commits are."""
    if not _SHA.fullmatch(commit):
        return UNSURE
    found = re.match(_TREE, _loose(repository, commit))
    return found[1].decode() if found else UNSURE


def holds(repository: Repository, commit: str, path: str, data: bytes) -> bool:
    """Return whether a commit surely has a file of that content, as loose objects say; git is not asked."""
    import hashlib  # noqa: PLC0415 - for start-up time: only writers ask

    name, mode = tree_of(repository, commit), b"40000"
    for part in path.split("/"):
        tree = _loose(repository, name) if mode == b"40000" and name != UNSURE else b""
        mode, name = _entry_of(tree, os.fsencode(part), len(name) // 2)
    kind = hashlib.sha256 if len(name) > 40 else hashlib.sha1
    return kind(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest() == name


def _entry_of(tree: bytes, name: bytes, size: int) -> tuple[bytes, str]:
    """Return mode and id of an entry of a tree object, whose ids have `size` bytes; UNSURE for none."""
    at = tree.find(b"\0") + 1
    while at < len(tree):
        end = tree.index(b"\0", at)
        mode, _, found = tree[at:end].partition(b" ")
        at = end + 1 + size
        if found == name:
            return mode, tree[end + 1 : at].hex()
    return b"", UNSURE


def _loose(repository: Repository, name: str) -> bytes:
    """Return a loose object with its header; empty where it is none."""
    try:
        return zlib.decompress((repository.common / "objects" / name[:2] / name[2:]).read_bytes())
    except (OSError, zlib.error):
        return b""


def _is_plain(common: Path) -> bool:
    return not (common / "reftable").exists()


def _line_of(path: Path) -> str | None:
    """Return the line of a file of one line; None for any other file."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return os.fsdecode(data[:-1]) if data.count(b"\n") == 1 and data.endswith(b"\n") else None
