"""Edits of old decisions in the history of git: which entries, and in which commit."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from orchestrator.state.canonical.decisions.append_only import (
    Edit,
    Log,
    acknowledged,
    edits,
    log_of,
)
from orchestrator.state.canonical.decisions.read import PATH
from orchestrator.store.read import bytes_of
from tickets.problems import Problem
from tickets.value import Value
from workers.git.run import git

ARCHIVES = "docs/decisions"
_DO = (
    "put the old text back (`git show {}:{}` shows it), or record a fixed typo by"
    " `orchestrate decide --acknowledge-edit`"
)
_SHA = 12
_AT_ONCE = 32


class LastCommit(Value):
    """Facts about the last commit."""

    id: str
    """Empty where there is none."""
    at: datetime | None
    """Its time; None where there is no commit."""
    log: Mapping[str, bytes]
    """The files of the decision log in it, archives included, by their blobs."""


class Tampering(Value):
    """An edit of an old entry; `commit` is None while it is only in the work tree."""

    edit: Edit
    commit: str | None
    before: str
    """A name of the last commit that has the old text."""

    def problem(self) -> Problem:
        """Return the warning about it."""
        where = f"in commit {self.commit[:_SHA]}" if self.commit else "since the last commit"
        what = f"the entry `{self.edit.title}` {self.edit.how} {where}"
        return Problem(PATH, what, _DO.format(self.before, PATH), "warning")


def fresh_edits(root: Path) -> list[Tampering]:
    """Compare the log with the last commit: the edits that a writing command warns of."""
    there = _written(root)
    return [] if there is None else _unknown(there, _since(last_commit(root), there))


def all_edits(root: Path, last: LastCommit | None = None) -> list[Tampering]:
    """Compare the log with the whole history: every edit that is still there and not acknowledged.

    `last` is the last commit, where the caller has read it already.
    """
    there, last = _written(root), last or last_commit(root)
    if there is None or last.at is None:
        return []
    now, found = log_of(there), _since(last, there)
    first: dict[str, str] = {}
    for commit, before, after in _logs(root, last.log):
        found += [Tampering(edit, commit, f"{commit[:_SHA]}^") for edit in edits(before, after)]
        for title, was in (*before.items(), *after.items()):
            first.setdefault(title, was)
    # A commit that restores the first text is no edit, and ends the edits before it.
    standing = [
        one for one in found if first.get(one.edit.title) not in (one.edit.now, now.get(one.edit.title))
    ]
    return _unknown(there, standing)


def last_commit(root: Path) -> LastCommit:
    """Read the last commit."""
    commit, log, archives = _objects(root, ["HEAD", f"HEAD:{PATH}", f"HEAD:{ARCHIVES}"])
    blobs = _blobs_of(archives.data, len(archives.id) // 2) if archives else ()
    made = re.search(rb"^committer .* (\d+) [+-]\d{4}$", commit.data, re.MULTILINE) if commit else None
    at = datetime.fromtimestamp(int(made[1]), UTC) if made else None
    name = commit.id if commit else ""
    return LastCommit(name, at, {one.id: one.data for one in (log, *_objects(root, list(blobs))) if one})


def _since(last: LastCommit, there: Iterable[bytes]) -> list[Tampering]:
    found = edits(log_of(last.log.values()), log_of(there))
    return [Tampering(edit, None, last.id[:_SHA]) for edit in found]


def _blobs_of(tree: bytes, size: int) -> Iterator[str]:
    """Yield the ids of the Markdown files in a tree object: `MODE NAME`, NUL, id of `size` bytes."""
    at = 0
    while at < len(tree):
        end = tree.index(b"\0", at)
        at, start = end + 1 + size, end + 1
        if tree[:end].endswith(b".md"):
            yield tree[start:at].hex()


def _unknown(there: Iterable[bytes], found: Iterable[Tampering]) -> list[Tampering]:
    known = acknowledged(there)
    return [one for one in found if (one.edit.title, one.edit.now) not in known]


def _written(root: Path) -> list[bytes] | None:
    """Read the current log; None where a part cannot be read, whose entries would all seem removed."""
    texts = []
    for path in (root / PATH, *sorted((root / ARCHIVES).glob("*.md"))):
        try:
            texts.append(bytes_of(path))
        except FileNotFoundError:
            continue
        except OSError:
            return None  # its problem is reported for the file itself
    return texts


def _logs(root: Path, read: Mapping[str, bytes]) -> Iterator[tuple[str, Log, Log]]:
    """Yield each commit that changed the log with the log before and after; few texts are held at a time.

    `read` are the blobs that have been read already.
    """
    steps = list(_steps(root))
    known: dict[tuple[str, ...], Log] = {}
    for at in range(0, len(steps), _AT_ONCE):
        some = steps[at : at + _AT_ONCE]
        wanted = {blob for _, old, new in some for blob in (*old, *new)}
        texts = {**read, **_contents(root, wanted - read.keys())}
        for commit, *sides in some:
            # The text after a commit is mostly the text before the next one.
            known = {
                key: known.get(key) or log_of(texts[blob] for blob in key if blob in texts)
                for key in map(tuple, sides)
            }
            yield commit, known[tuple(sides[0])], known[tuple(sides[1])]


def _steps(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each commit that changed the log, oldest first, with the blobs before and after."""
    shape = (
        "--reverse",
        "--full-history",
        "--diff-merges=first-parent",
        "--raw",
        "--no-abbrev",
        "--no-renames",
    )
    plain = ("--no-show-signature", "--format=commit %H")
    said = git("log", *shape, *plain, "--", PATH, ARCHIVES, cwd=root)
    lines = said.decode("utf-8", "replace").splitlines()
    commit, old, new = "", list[str](), list[str]()
    for line in [*lines, "commit "]:
        if line.startswith("commit "):
            if commit and (old or new):
                yield commit, old, new
            commit, old, new = line.removeprefix("commit "), [], []
        elif line.startswith(":"):
            was, now = line.split()[2:4]
            old += [was] if was.strip("0") else []
            new += [now] if now.strip("0") else []


def _contents(root: Path, blobs: Iterable[str]) -> dict[str, bytes]:
    wanted = sorted(set(blobs))
    return {blob: one.data for blob, one in zip(wanted, _objects(root, wanted), strict=True) if one}


class _GitObject(NamedTuple):
    id: str
    data: bytes


def _objects(root: Path, names: list[str]) -> list[_GitObject | None]:
    """Read git objects by one process, in the order of their names; None for one that does not exist."""
    if not names:
        return []
    data = git("cat-file", "--batch", cwd=root, feed="".join(f"{name}\n" for name in names).encode())
    found: list[_GitObject | None] = []
    at = 0
    while at < len(data):
        end = data.index(b"\n", at)
        words = data[at:end].split()
        at = end + 1
        if len(words) == 3:
            size = int(words[2])
            found.append(_GitObject(words[0].decode(), data[at : at + size]))
            at += size + 1
        else:
            found.append(None)
    return found
