"""The landing of a run: one change of branch, index and work tree, finished by any command after a stop."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Literal

from orchestrator.store._placing import Mark, Placing, mark_of, put_back
from orchestrator.store.repo import LINK, RepoBlocked, UserRepo
from tickets.problems import Problem
from tickets.value import Value
from workers.worktree.change import ABSENT, GITLINK, Change

MOVED = "the branch has moved"
MOST_NAMED = 5
"""How many paths a command names."""
Side = tuple[str, str]
"""Mode and sha of the content of a path."""
Word = Literal["old", "new", "third"]


class Landing(Value):
    """One change of a branch, its index and its work tree; plain data, so that any command can finish it."""

    run: str
    ref: str
    """Full name of the branch; `""` where only the work tree is changed and no commit is made."""
    old: str
    new: str
    changes: tuple[Change, ...]
    left_out: tuple[str, ...] = ()
    """Paths that a sparse checkout leaves out: they change in the index alone."""

    @property
    def is_here(self) -> bool:
        """Return whether the work tree changes too; a detached ref of ours leaves it unchanged."""
        return not self.ref or self.ref.startswith("refs/heads/")


def refuse_elsewhere(repo: UserRepo, branch: str | None) -> None:
    """Raise RepoBlocked during a merge or the like of the user's, or on another branch."""
    repo.refuse_in_progress()
    if not branch:
        return
    now = repo.head().branch
    if now != branch:
        what, do = f"the run started on {branch}", "switch back to that branch"
        if repo.value_of(branch) is None:
            what += ", and that branch is no more"
            name = branch.removeprefix("refs/heads/")
            do = f"make it again from here (`git switch --create {name}`), integrate, then merge it"
        raise RepoBlocked(Problem(now or "a detached HEAD", what, do))


def refuse_unready(repo: UserRepo, landing: Landing) -> None:
    """Raise RepoBlocked unless a landing can be made now without changing the user's own work."""
    refuse_elsewhere(repo, landing.ref if landing.is_here else None)
    if not landing.is_here:
        return
    if repo.head().sha != landing.old:
        raise RepoBlocked(Problem(landing.ref, MOVED, "integrate again"))
    repo.wait_index_free()
    standing = _standing(repo, landing._replace(left_out=left_out_of(repo, landing)))
    staged = _staged(repo, landing.changes) if landing.ref else {}
    mixed = [c.path for c in landing.changes if "third" in (standing[c.path], staged.get(c.path))]
    if mixed:
        what = "has changes of yours that are not committed"
        named = " ".join(map(quote, mixed)) if len(mixed) <= MOST_NAMED else "."
        do = f"put them aside (`git stash push -u -- {named}`) and, after the landing, back (`git stash pop`)"
        do += "; committed they would be a conflict"
        raise RepoBlocked(*(Problem(path, what, do) for path in mixed))
    if closed := _closed(repo.root, [path for path, word in standing.items() if word == "old"]):
        what, do = "this folder cannot be written to", "give it to the user who runs this"
        raise RepoBlocked(*(Problem(folder, what, do) for folder in closed))


def _closed(root: Path, paths: Sequence[str]) -> list[str]:
    """Return the folders in which a landing would replace, make or remove something, and may not."""
    # What lands is written below `.taskers` first.
    parents = {(root / path).parent for path in (*paths, ".taskers/landing")}
    folders = {next(one for one in (parent, *parent.parents) if one.is_dir()) for parent in parents}
    closed = sorted(one for one in folders if not os.access(one, os.W_OK | os.X_OK))
    return [one.relative_to(root).as_posix() for one in closed]


def left_out_of(repo: UserRepo, landing: Landing) -> tuple[str, ...]:
    """Return the paths of a landing that the user's checkout leaves out, where the index takes them in."""
    is_taken = landing.ref and landing.is_here
    return tuple(repo.left_out([change.path for change in landing.changes])) if is_taken else ()


def advance(repo: UserRepo, landing: Landing) -> list[Problem]:
    """Make or finish a landing: the ref first, then work tree and index; safe to repeat after any stop.

    A path with neither its old nor its new content stays unchanged, and is named.
    """
    if landing.ref:
        old = landing.old if landing.is_here or repo.value_of(landing.ref) else "0" * len(landing.old)
        if not repo.move_ref(landing.ref, landing.new, old, f"orchestrate: land {landing.run}"):
            at = repo.value_of(landing.ref) or ""
            if not repo.is_ancestor(landing.new, at):
                what = f"the branch has moved, so run {landing.run} did not land"
                return [Problem(landing.ref, what, f"orchestrate integrate {landing.run}", "warning")]
        if repo.head().branch != landing.ref:
            return []
    put_back(repo.root)
    there = [change for change in landing.changes if change.path not in landing.left_out]
    before = {change.path: mark_of(repo.root / change.path) for change in there}
    standing = _standing(repo, landing)
    kept = [path for path, word in standing.items() if word == "third"]
    kept += _place(repo, [c for c in there if standing[c.path] == "old"], landing, before)
    if landing.ref:
        staged = _staged(repo, landing.changes)
        behind = [change for change in landing.changes if staged[change.path] == "old"]
        repo.move_index([f"{_index_mode(change)} {change.new_sha}\t{change.path}" for change in behind])
        if left := [c.path for c in landing.changes if c.path in landing.left_out and c.new_mode != ABSENT]:
            repo.leave_out(left)
    what = "was edited during a landing"
    return [Problem(path, what, "it keeps your text") for path in kept]


# Current content


def _staged(repo: UserRepo, changes: Sequence[Change]) -> dict[str, Word]:
    """Return for each path whether the user's index holds its old side, its new side, or a third."""
    entries = repo.index_entries([change.path for change in changes])
    return {change.path: _word(change, {entries.get(change.path, _absent(change))}) for change in changes}


def _standing(repo: UserRepo, landing: Landing) -> dict[str, Word]:
    """Return the same for the work tree; what it leaves out is as the index has it."""
    left = [change for change in landing.changes if change.path in landing.left_out]
    changes = [change for change in landing.changes if change.path not in landing.left_out]
    ours = {change.path for change in changes}
    files = [c.path for c in changes if _is_file(repo.root, c.path)]
    # A blob with CRLF that git would not store today is still unchanged: ask without filters too.
    hashes = (repo.hashes(files), repo.hashes(files, "--no-filters"))
    trusted = repo.setting("core.filemode") != "false"
    found = _staged(repo, left) if left else {}
    for change in changes:
        sides = set(_sides(repo, change, hashes, ours))
        if not trusted:
            sides |= {(mode, sha) for _, sha in sides for mode in ("100644", "100755") if sha.strip("0")}
        found[change.path] = _word(change, sides)
    return found


def _sides(
    repo: UserRepo, change: Change, hashes: Sequence[Mapping[str, str]], ours: set[str]
) -> Iterator[Side]:
    """Yield the sides that the content of a path matches; none where it is the user's own."""
    path = repo.root / change.path
    obstacle = _obstacle(repo.root, change.path)
    if obstacle is not None:
        # A file or link in place of a folder: in the way, unless this very landing takes it away.
        if obstacle in ours:
            yield _absent(change)
    elif path.is_symlink():
        yield LINK, repo.hash_of(os.fsencode(path.readlink()))
    elif change.path in hashes[0]:
        mode = "100755" if path.stat().st_mode & 0o100 else "100644"
        yield from ((mode, found[change.path]) for found in hashes)
    elif not path.exists():
        yield _absent(change)
    elif path.is_dir():
        others = [
            Path(top) / name
            for top, folders, files in os.walk(path)
            # A link to a folder is content of its own, and not to be followed.
            for name in (*files, *(one for one in folders if Path(top, one).is_symlink()))
        ]
        if all(str(other.relative_to(repo.root)) in ours for other in others):
            yield _absent(change)
            yield GITLINK, change.old_sha
        elif (change.old_mode, change.new_mode) == (GITLINK, ABSENT):
            yield _absent(change)  # as git does, the files of a submodule stay


def _is_file(root: Path, path: str) -> bool:
    return _obstacle(root, path) is None and (root / path).is_file() and not (root / path).is_symlink()


def _obstacle(root: Path, path: str) -> str | None:
    """Return the first part of a path that ought to be a folder and is none."""
    for parent in reversed(list(Path(path).parents)[:-1]):
        here = root / parent
        if here.is_symlink() or (here.exists() and not here.is_dir()):
            return str(parent)
    return None


def _word(change: Change, sides: set[Side]) -> Word:
    if (change.new_mode, change.new_sha) in sides:
        return "new"
    return "old" if (change.old_mode, change.old_sha) in sides else "third"


def _absent(change: Change) -> Side:
    return ABSENT, "0" * len(change.old_sha)


def _index_mode(change: Change) -> str:
    return "0" if change.new_mode == ABSENT else change.new_mode


# The work tree


def _place(
    repo: UserRepo, changes: Sequence[Change], landing: Landing, before: Mapping[str, Mark]
) -> list[str]:
    """Write the new side of each path in one step; return the paths where something is in the way."""
    free = [change for change in changes if _obstacle(repo.root, change.path) is None]
    removed = [c.path for c in free if c.new_mode == ABSENT and c.old_mode != GITLINK]
    for change in free:
        if (change.old_mode, change.new_mode) == (GITLINK, ABSENT):
            with suppress(OSError):
                (repo.root / change.path).rmdir()
            _remove_empty(repo.root, change.path)
    written = [change.path for change in changes if change.new_mode not in (ABSENT, GITLINK)]
    if not written and not removed:
        return []
    kept = []
    # Written aside by git (filters, line ends), then moved: a kill leaves a path old or new, never torn.
    (repo.root / ".taskers").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=repo.root / ".taskers", prefix="landing-") as folder:
        if written:
            repo.check_out(landing.new, written, Path(folder))
        placing = Placing(repo.root, Path(folder), before)
        placing.begin(written, removed)
        for path in removed:
            if placing.remove(path):
                _remove_empty(repo.root, path)
            else:
                kept.append(path)
        for path in written:
            is_free = _obstacle(repo.root, path) is None and _make_room(repo.root / path)
            if not is_free or not placing.write(path):
                kept.append(path)
    return kept


def _make_room(target: Path) -> bool:
    """Make the folder of a file, and remove empty ones in its place; False where a file stands in them."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir() and not target.is_symlink():
        for top, _, _ in os.walk(target, topdown=False):
            try:
                Path(top).rmdir()
            except OSError:
                return False
    return True


def _remove_empty(root: Path, path: str) -> None:
    for parent in list((root / path).parents)[: len(Path(path).parts) - 1]:
        try:
            parent.rmdir()
        except OSError:
            return
