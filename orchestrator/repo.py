"""The user's repository: its state, commits of state, landing of code. The only user of GitPython."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from git import Repo
from git.exc import GitCommandError

from tickets.problems import Problem
from workers.changes import ABSENT, WHO, Change
from workers.environment import drop_foreign_git
from workers.git import QUIET, Repository

LINK = "120000"
LOCK_WAIT = 10.0
"""Seconds to wait for somebody else's `index.lock`; one that nobody holds is never removed by us."""

_IN_PROGRESS = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
}


class Head(NamedTuple):
    """Where HEAD stands."""

    sha: str | None
    """None in a repository without a commit."""
    branch: str | None
    """Full name (`refs/heads/main`); None where HEAD is detached."""


class Landing(NamedTuple):
    """One change of a branch, its index and its work tree; plain data, so that another can finish it."""

    run: str
    ref: str
    """Full name of the branch; `""` where only the work tree is changed and nothing committed."""
    old: str
    new: str
    changes: tuple[Change, ...]


class RepoBlocked(Exception):
    """The repository is in somebody else's hands; nothing was changed."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class UserRepo:
    """The repository that a person works in: we add commits to it, and take nothing of theirs."""

    def __init__(self, repository: Repository) -> None:
        self.root = repository.root
        self._own = repository.own
        drop_foreign_git(os.environ)  # type: ignore[arg-type]  # GitPython reads the environment by itself
        self._repo = Repo(repository.root)

    # What state it is in

    def head(self) -> Head:
        """Tell the commit and the branch."""
        branch = self._line("symbolic-ref", "-q", "HEAD", check=False)
        sha = self._line("rev-parse", "-q", "--verify", "HEAD^{commit}", check=False)
        return Head(sha or None, branch or None)

    def in_progress(self) -> str | None:
        """Name what the user is in the middle of, with its article."""
        folder = Path(self._repo.git_dir)
        return next((words for name, words in _IN_PROGRESS.items() if (folder / name).exists()), None)

    def uncommitted(self) -> list[str]:
        """List the paths that differ from HEAD, untracked ones included, ignored ones not."""
        fields = self._run("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames").split(
            "\0"
        )
        return [field[3:] for field in fields if field]

    def links(self) -> dict[str, str]:
        """List the tracked symlinks with their targets as written."""
        found = {}
        for field in self._run("ls-files", "-s", "-z").split("\0"):
            head, _, path = field.partition("\t")
            if head.startswith(LINK) and (self.root / path).is_symlink():
                found[path] = str((self.root / path).readlink())
        return found

    def setting(self, name: str) -> str:
        """Give a setting of git's, `""` where it is not set."""
        return self._line("config", "--get", name, check=False)

    def commits_with(self, trailer: str, value: str, since: str, ref: str = "HEAD") -> dict[str, str]:
        """Find commits of ours by a trailer line, oldest first: sha to message."""
        if self.value_of(ref) is None:
            return {}
        grep = f"--grep=^{trailer}: {value}$"
        found = self._run("log", "--reverse", "--format=%H%n%B%x00", grep, ref, f"^{since}").split("\0")
        pairs = (entry.strip("\n").partition("\n") for entry in found if entry.strip())
        return {sha: message for sha, _, message in pairs}

    def value_of(self, ref: str) -> str | None:
        """Give the commit that a ref points to."""
        return self._line("rev-parse", "-q", "--verify", ref, check=False) or None

    # Commits of state

    def commit_paths(self, paths: Iterable[str], message: str) -> str | None:
        """Commit files as they stand, and nothing else of the user's; None where they are committed already.

        No hooks, no signing, the user's staged work untouched. Raises RepoBlocked.
        """
        wanted = sorted(set(paths))
        self._refuse_in_progress()
        while True:
            head = self.head()
            entries, tree = self._stage(head, wanted)
            if head.sha and tree == self._line("rev-parse", f"{head.sha}^{{tree}}"):
                self._move_index(entries)
                return None
            new = self.commit_tree(tree, head.sha, message)
            # The index goes first: an index behind its branch would show our commit undone.
            self._move_index(entries)
            if self._moved("HEAD", new, head.sha or "0" * len(new), message):
                return new

    def commit_tree(self, tree: str, parent: str | None, message: str) -> str:
        """Make a commit object, in the user's name where git knows one."""
        parents = ("-p", parent) if parent else ()
        return self._line("commit-tree", tree, *parents, feed=message.encode(), env=self._identity())

    def _stage(self, head: Head, paths: Sequence[str]) -> tuple[list[str], str]:
        with tempfile.TemporaryDirectory(dir=self._own, prefix="commit-") as folder:
            env = {"GIT_INDEX_FILE": f"{folder}/index"}
            if head.sha:
                self._run("read-tree", head.sha, env=env)
            feed = b"".join(os.fsencode(path) + b"\0" for path in paths)
            self._run("update-index", "--add", "--remove", "-z", "--stdin", feed=feed, env=env)
            listed = self._run("ls-files", "-s", "-z", "--", *paths, env=env | {"GIT_LITERAL_PATHSPECS": "1"})
            entries = [field for field in listed.split("\0") if field]
            there = {entry.partition("\t")[2] for entry in entries}
            entries += [f"0 {'0' * 40}\t{path}" for path in paths if path not in there]
            return entries, self._line("write-tree", env=env)

    def _move_index(self, entries: Sequence[str]) -> None:
        """Set those entries of the user's index; waits a while for a lock, never takes it away."""
        feed = b"".join(os.fsencode(entry) + b"\0" for entry in entries)
        deadline = time.monotonic() + LOCK_WAIT
        while True:
            try:
                self._run("update-index", "-z", "--index-info", feed=feed)
            except GitCommandError as error:
                lock = Path(self._repo.git_dir) / "index.lock"
                if not lock.exists() and "index.lock" not in str(error.stderr):
                    raise
                if time.monotonic() > deadline:
                    raise RepoBlocked(
                        Problem(
                            str(lock), "another git process holds the index", "remove it if none is running"
                        )
                    ) from error
                time.sleep(0.05)
            else:
                return

    def _moved(self, ref: str, new: str, old: str, message: str) -> bool:
        """Move a ref if it still stands at `old`; tells whether it did."""
        try:
            self._run("update-ref", "-m", message.partition("\n")[0], ref, new, old)
        except GitCommandError:
            if self._line("rev-parse", "-q", "--verify", ref, check=False) in (
                "" if not old.strip("0") else old,
                new,
            ):
                raise
            return False
        return True

    # Landing

    def refuse_unready(self, landing: Landing) -> None:
        """Raise RepoBlocked unless a landing can be made now without touching anything of the user's."""
        self._refuse_in_progress()
        if not landing.ref or landing.ref.startswith("refs/heads/"):
            head = self.head()
            landing = landing._replace(ref=landing.ref or head.branch or "")
            if head.branch != landing.ref:
                now = head.branch or "a detached HEAD"
                raise RepoBlocked(
                    Problem(now, f"the run started on {landing.ref}", "switch back to that branch")
                )
            if head.sha != landing.old:
                raise RepoBlocked(Problem(landing.ref, "the branch has moved", "integrate again"))
            mixed = [path for path, state in self._standing(landing.changes).items() if state == "third"]
            if mixed:
                raise RepoBlocked(
                    *(
                        Problem(p, "has changes of yours that are not committed", "commit or stash it")
                        for p in mixed
                    )
                )

    def advance(self, landing: Landing) -> list[Problem]:
        """Make or finish a landing: the ref first, then index and work tree; safe to repeat after any stop.

        A path that holds neither its old nor its new content is left alone, and named.
        """
        if landing.ref:
            message = f"orchestrate: land {landing.run}"
            if not self._moved(landing.ref, landing.new, landing.old, message):
                at = self.value_of(landing.ref) or ""
                if at != landing.new and not self._is_ancestor(landing.new, at):
                    what = f"the branch has moved, so run {landing.run} did not land"
                    return [Problem(landing.ref, what, f"orchestrate integrate {landing.run}")]
            if self.head().branch != landing.ref:
                return []
        standing = self._standing(landing.changes)
        self._place([change for change in landing.changes if standing[change.path] == "old"], landing)
        kept = [path for path, state in standing.items() if state == "third"]
        if landing.ref:
            self._move_index(
                [f"{_mode(change)} {change.new_sha}\t{change.path}" for change in landing.changes]
            )
        return [
            Problem(p, "was changed by hand while a landing was under way", "it keeps your text")
            for p in kept
        ]

    def _standing(self, changes: Sequence[Change]) -> dict[str, str]:
        """Tell for each path whether the work tree holds its old side, its new side, or a third."""
        there = [
            c.path
            for c in changes
            if (self.root / c.path).is_file() and not (self.root / c.path).is_symlink()
        ]
        shas = self._hashes(there)
        found = {}
        for change in changes:
            now = self._side(change, shas)
            old, new = (change.old_mode, change.old_sha), (change.new_mode, change.new_sha)
            found[change.path] = "new" if now == new else "old" if now == old else "third"
        return found

    def _side(self, change: Change, shas: Mapping[str, str]) -> tuple[str, str]:
        path = self.root / change.path
        if any(parent.is_symlink() for parent in list(path.parents)[: len(Path(change.path).parts) - 1]):
            return "", ""
        if path.is_symlink():
            return LINK, self._line("hash-object", "--stdin", feed=os.fsencode(path.readlink()))
        if change.path in shas:
            return ("100755" if path.stat().st_mode & 0o100 else "100644"), shas[change.path]
        absent = ABSENT, "0" * len(change.old_sha)
        if path.is_dir():
            # Nothing stands there as far as git is concerned, unless files of the user's do.
            others = (Path(folder) / name for folder, _, names in os.walk(path) for name in names)
            return absent if not any(others) else ("", "")
        return absent

    def _hashes(self, paths: Sequence[str]) -> dict[str, str]:
        if not paths:
            return {}
        shas: dict[str, str] = {}
        plain = [path for path in paths if "\n" not in path and not path.startswith('"')]
        feed = b"".join(os.fsencode(path) + b"\n" for path in plain)
        shas.update(zip(plain, self._run("hash-object", "--stdin-paths", feed=feed).split(), strict=True))
        for path in set(paths) - set(plain):
            shas[path] = self._line("hash-object", "--", path)
        return shas

    def _place(self, changes: Sequence[Change], landing: Landing) -> None:
        for change in changes:
            if change.new_mode == ABSENT:
                self._remove(change.path)
        written = [change.path for change in changes if change.new_mode != ABSENT]
        if not written:
            return
        # Written aside by git (filters, line ends), then moved: a kill leaves a path old or new, never torn.
        (self.root / ".taskers").mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.root / ".taskers", prefix="landing-") as folder:
            env = {"GIT_INDEX_FILE": f"{folder}/index"}
            self._run("read-tree", landing.new, env=env)
            feed = b"".join(os.fsencode(path) + b"\0" for path in written)
            self._run("checkout-index", "-f", "-z", "--stdin", f"--prefix={folder}/tree/", feed=feed, env=env)
            for path in written:
                target = self.root / path
                target.parent.mkdir(parents=True, exist_ok=True)
                if target.is_dir() and not target.is_symlink():
                    shutil.rmtree(target)
                Path(folder, "tree", path).replace(target)

    def _remove(self, path: str) -> None:
        target = self.root / path
        target.unlink(missing_ok=True)
        for parent in list(target.parents)[: len(Path(path).parts) - 1]:
            try:
                parent.rmdir()
            except OSError:
                return

    # Git

    def _refuse_in_progress(self) -> None:
        words = self.in_progress()
        if words:
            raise RepoBlocked(
                Problem(str(self._repo.git_dir), f"{words} is in progress", "finish or abort it first")
            )

    def _is_ancestor(self, old: str, new: str) -> bool:
        return bool(new) and self._line("merge-base", old, new, check=False) == old

    def _identity(self) -> dict[str, str]:
        named = all(self.setting(f"user.{part}") or os.environ.get(f"GIT_AUTHOR_{part.upper()}")
                    for part in ("name", "email"))  # fmt: skip
        return {} if named else WHO

    def _line(
        self, *arguments: str, check: bool = True, feed: bytes = b"", env: Mapping[str, str] | None = None
    ) -> str:
        return self._run(*arguments, check=check, feed=feed, env=env).partition("\n")[0].strip()

    def _run(
        self, *arguments: str, check: bool = True, feed: bytes = b"", env: Mapping[str, str] | None = None
    ) -> str:
        with tempfile.TemporaryFile() as file:
            file.write(feed)
            file.seek(0)
            _, out, _ = self._repo.git.execute(
                ["git", *QUIET, *arguments],
                istream=file,
                with_extended_output=True,
                with_exceptions=check,
                strip_newline_in_stdout=False,
                stdout_as_string=False,
                env={"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", **(env or {})},
            )
        return os.fsdecode(out)


def _mode(change: Change) -> str:
    return "0" if change.new_mode == ABSENT else change.new_mode
