"""The user's repository: its state, commits of state files, landing of code. The only user of GitPython."""

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from orchestrator.errors import Refusal
from orchestrator.state import is_pattern
from orchestrator.store.folding import (
    Folded,
    is_elsewhere,
    is_record_of_run,
    may_fold,
    note_folded,
    read_folded,
    whole_message,
)
from orchestrator.store.places import without_places
from tickets.problems import Problem
from tickets.value import Value
from workers.files.read import read_whole
from workers.files.run_dir import age
from workers.git.metadata import note_move
from workers.git.refs import UNSURE, head_of, holds, tree_of, value_of
from workers.git.run import (
    QUIET,
    GitError,
    Repository,
    drop_foreign_git,
    git,
    git_directory,
    operation_in_progress,
)
from workers.worktree.change import WHO

if TYPE_CHECKING:
    from git import Git

LINK = "120000"
LOCK_WAIT = 10.0
"""Seconds to wait for another process's `index.lock`; we never remove one."""
TRIES = 5
LIMIT = 20.0
"""Seconds that git may take to store state files: a filter of the user's that hangs would block others."""
MOST_NAMED = 32_000
"""Characters of paths on one command line of git."""
NONE, UNKNOWN = (0, 1), (0, 1, 128)
"""Exit codes of a git that was asked for something missing, or in a repository without a commit."""

_COMMIT = (
    "-c", "user.useConfigOnly=true",  # a name that git derives from the host's is not the user's
    "-c", "gc.auto=0", "-c", "maintenance.auto=false",
    "-c", "core.splitIndex=false",  # a shared part would be written beside our temporary HEAD
)  # fmt: skip
_AMENDING = ("--amend", "--reset-author", "--allow-empty")
"""The parent's parent is that of the new commit."""
_NAMELESS = ("auto-detection is disabled", "empty ident name", "ident name consists only")
_NUMBERS = itertools.count(1)


class Head(Value):
    """The commit and the branch of HEAD."""

    sha: str | None
    """None in a repository without a commit."""
    branch: str | None
    """Full name (`refs/heads/main`); None where HEAD is detached."""


class CommitSeen(Value):
    """A commit of the branch's history."""

    sha: str
    subject: str
    run: str
    """The run that it lands; empty for a commit of somebody else."""
    paths: tuple[str, ...]
    """What it changes; none for a merge."""


class RepoBlocked(Refusal):
    """Raised where another git process or git itself blocks a change of the repository; exit code 1."""

    def __init__(self, *problems: Problem, code: int = 0, said: str = "") -> None:
        self.code = code
        """Git's exit code; 0 where git did not fail."""
        self.said = said
        super().__init__(*problems, exit_code=1)


class UserRepo:
    """The repository that a person works in: we add commits to it, and remove nothing of theirs."""

    def __init__(self, repository: Repository) -> None:
        self.root = repository.root
        self._repository = repository
        self._own = repository.own
        self._git_dir = git_directory(repository)

    # What state it is in

    def head(self) -> Head:
        """Return the commit and the branch."""
        found = head_of(self._repository)
        if found != UNSURE:
            return Head(*found)
        branch = self._line("symbolic-ref", "-q", "HEAD", fine=NONE)
        sha = self._line("rev-parse", "-q", "--verify", "HEAD^{commit}", fine=NONE)
        return Head(sha or None, branch or None)

    def in_progress(self) -> str | None:
        """Return the operation that the user is in the middle of, with its article."""
        return operation_in_progress(self._repository)

    def uncommitted(self) -> list[str]:
        """List the paths that differ from HEAD, untracked ones included, ignored ones not."""
        return [path for _, path in self._status("all")]

    def not_committed(self) -> list[str]:
        """List the same as `git status` names it: untracked folders as a whole (`src/`)."""
        return [path for _, path in self._status("normal")]

    def untracked(self) -> list[str]:
        """List what git neither tracks nor ignores, as `git status` names it."""
        return [path for word, path in self._status("normal") if word == "??"]

    def differing(self, texts: Mapping[str, bytes | None]) -> list[str]:
        """List those of some tracked files that differ from HEAD; `texts` are what they hold."""
        sha = self.head().sha or ""
        doubtful = sorted(
            path
            for path, text in texts.items()
            if text is None or not holds(self._repository, sha, path, text)
        )
        if not doubtful:
            return []
        asked = ("status", "--porcelain=v1", "-z", "--untracked-files=no", "--no-renames", "--", *doubtful)
        found = self._run(*asked, env={"GIT_LITERAL_PATHSPECS": "1"})
        return [field[3:] for field in found.split("\0") if field]

    def _status(self, files: str) -> Iterator[tuple[str, str]]:
        fields = self._run("status", "--porcelain=v1", "-z", f"--untracked-files={files}", "--no-renames")
        return ((field[:2], field[3:]) for field in fields.split("\0") if field)

    def holds_more_than(self, covers: Callable[[str], bool]) -> bool:
        """Return whether the last commit has a file besides those that are covered."""
        top = [field.partition("\t") for field in self._run("ls-tree", "-z", "HEAD").split("\0") if field]
        folders = [path for head, _, path in top if " tree " in head]
        if any(not covers(path) for head, _, path in top if " tree " not in head):
            return True
        # Folder by folder: in most repositories the first is enough, and all files are many.
        asked = ("ls-tree", "-r", "-z", "--name-only", "HEAD")
        return any(
            path and not covers(path)
            for folder in sorted(folders, key=lambda name: name in ("docs", "design"))
            for path in self._run(*asked, f"{folder}/").split("\0")
        )

    def links(self) -> dict[str, str]:
        """List the tracked symlinks with their targets as written."""
        found = {}
        for field in self._run("ls-files", "-s", "-z").split("\0"):
            head, _, path = field.partition("\t")
            if head.startswith(LINK) and (self.root / path).is_symlink():
                found[path] = str((self.root / path).readlink())
        return found

    def files_among(self, paths: Iterable[str]) -> set[str]:
        """Return the paths that are regular files in the last commit."""
        wanted = {path for path in paths if path and not path.startswith("-") and "\0" not in path}
        if not wanted:
            return set()
        listed = self._run("ls-tree", "-z", "--full-tree", "HEAD", "--", *sorted(wanted), fine=UNKNOWN)
        entries = (field.partition("\t") for field in listed.split("\0"))
        return {path for head, _, path in entries if head.startswith("100")} & wanted

    def committed(self, path: str, commit: str = "HEAD") -> bytes:
        """Return a file of a commit; empty where there is none."""
        return os.fsencode(self._run("cat-file", "blob", f"{commit}:{path}", fine=UNKNOWN))

    def checked_out(self, path: str) -> bytes | None:
        """Return a file of the last commit as a checkout writes it; None where there is none."""
        found = self._run("cat-file", "--filters", f"HEAD:{path}", fine=UNKNOWN)
        return os.fsencode(found) or None

    def refs_beyond(self, head: Head) -> list[str]:
        """List the refs of runs that hold more than a detached HEAD, the newest last; none on a branch."""
        if head.branch or not head.sha:
            return []
        asked = ("for-each-ref", "--format=%(objectname) %(refname)", f"--contains={head.sha}")
        found = (line.split(" ") for line in self._run(*asked, "refs/orchestrate/2*").splitlines())
        return sorted((ref for sha, ref in found if sha != head.sha), key=lambda ref: age(ref.split("/")[-1]))

    def setting(self, name: str) -> str:
        """Return a setting of git's, `""` where it is not set."""
        return self._settings.get(name.lower(), "")

    @cached_property
    def _settings(self) -> dict[str, str]:
        """Read all of git's settings at once; of a repeated one the last holds."""
        fields = self._run("config", "-z", "--list").split("\0")
        return dict(field.partition("\n")[::2] for field in fields if field)

    def commits_with(self, trailer: str, value: str, since: str, ref: str = "HEAD") -> dict[str, str]:
        """Return our commits with a trailer line, oldest first: sha to message."""
        if self.value_of(ref) in (None, since):
            return {}
        grep = f"--grep=^{trailer}: {value}$"
        plain = ("--no-show-signature", "--basic-regexp", "--format=%H%n%B%x00")  # whatever the user has set
        found = self._run("log", "--reverse", *plain, grep, ref, f"^{since}").split("\0")
        pairs = (entry.strip("\n").partition("\n") for entry in found if entry.strip())
        return {sha: message for sha, _, message in pairs}

    def commits_since(self, start: str, most: int) -> list[CommitSeen] | None:
        """Return the newest commits of HEAD that are not in the history of another, oldest first.

        None where that other commit is gone.
        """
        if not start or self.value_of(f"{start}^{{commit}}") is None:
            return None
        form = "--format=%x01%H%n%s%n%(trailers:key=Orchestrate-Run,valueonly,separator=%x2C)"
        asked = (
            "--reverse",
            "--no-show-signature",
            f"--max-count={most}",
            "--name-only",
            "--no-renames",
            form,
        )
        found = self._run("-c", "core.quotePath=false", "log", *asked, f"{start}..HEAD", "--")
        commits = (entry.split("\n") for entry in found.split("\x01")[1:])
        return [
            CommitSeen(sha, subject, run, tuple(filter(None, paths))) for sha, subject, run, *paths in commits
        ]

    def subject_of(self, commit: str) -> str:
        """Return the first line of a commit's message; empty where it is gone."""
        return self._message_of(commit).partition("\n")[0]

    def value_of(self, ref: str) -> str | None:
        """Return the commit that a ref points to."""
        commit, is_tree, _ = ref.partition("^{tree}")
        found = tree_of(self._repository, commit) if is_tree else value_of(self._repository, ref)
        return self._line("rev-parse", "-q", "--verify", ref, fine=NONE) or None if found == UNSURE else found

    def is_shallow(self) -> bool:
        """Return whether the history ends at commits that have parents elsewhere."""
        return (self._repository.common / "shallow").exists()

    def lacks(self, commits: Iterable[str]) -> set[str]:
        """Return those commits that are not here; in a shallow clone they may be behind its end."""
        wanted = list(dict.fromkeys(commits))
        feed = b"".join(os.fsencode(one) + b"\n" for one in wanted)
        found = self._run("cat-file", "--batch-check=%(objectname)", feed=feed) if wanted else ""
        return {
            one for one, line in zip(wanted, found.splitlines(), strict=True) if line.endswith(" missing")
        }

    # Commits of state

    def commit_paths(self, paths: Iterable[str], message: str, *, is_patient: bool = True) -> str | None:
        """Commit files as they are, and nothing else of the user's; None where they are committed already.

        No hooks, no signing, the user's staged work untouched. Raises RepoBlocked, at once if another process
        holds the index and we are not patient.
        """
        if not is_patient:
            self.wait_index_free(0)
        wanted = set(paths)
        self.refuse_in_progress()
        folds = may_fold(wanted, message)
        while True:
            head = self.head()
            known = wanted - self._unknown(wanted, head.sha)
            if not known:
                return None
            feed = b"".join(os.fsencode(path) + b"\0" for path in sorted(known))
            before = self._folding(head, known, message) if folds else ()
            text = whole_message((*before, message))
            amending = _AMENDING if before else ()
            # The index goes first: an index behind its branch would show our commit undone.
            try:
                new = self._commit_only(feed, head.sha, text, *amending)
            except RepoBlocked as error:
                if "did not match any file" not in error.said:
                    raise
                # A file that is new to git. One that it ignores is the user's own.
                known -= self.ignored(known)
                if not known:
                    return None
                feed = b"".join(os.fsencode(path) + b"\0" for path in sorted(known))
                self._set_index("update-index", "--add", "--remove", "-z", "--stdin", feed=feed, limit=LIMIT)
                new = self._commit_only(feed, head.sha, text, *amending)
            if new is None and is_record_of_run(message) and self._message_of("HEAD") != text:
                # The verdicts of a run that changed nothing are told by the commit alone.
                new = self._commit_only(feed, head.sha, text, "--allow-empty")
            if new is None:
                return None
            if folds:
                note_folded(self._repository, Folded(new, (*before, message)))
            if self.move_ref("HEAD", new, head.sha or "0" * len(new), text):
                return new

    def ignored(self, paths: Iterable[str]) -> set[str]:
        """Return those paths that git ignores; what is committed it does not ignore."""
        feed = b"".join(os.fsencode(path) + b"\0" for path in sorted(paths))
        found = self._run("check-ignore", "-z", "--stdin", feed=feed, fine=NONE)
        return {path for path in found.split("\0") if path}

    def _message_of(self, commit: str) -> str:
        return self._run("log", "-1", "--no-show-signature", "--format=%B", commit, fine=UNKNOWN)[:-1]

    def _folding(self, head: Head, paths: Iterable[str], message: str) -> tuple[str, ...]:
        """Return the messages of the last commit, if this change can fold into it; else none.

        Not where another ref, a remote's above all, has it, nor where one of the files names it.
        """
        last = read_folded(self._repository)
        # A command that was killed after its commit comes again with the same message.
        if last is None or last.commit != head.sha or message in last.messages:
            return ()
        files = (self.root / path for path in paths)
        named = any(last.commit[:7].encode() in read_whole(file) for file in files if file.is_file())
        if named or is_elsewhere(self._repository, last.commit):
            return ()
        known = self._run("for-each-ref", "--count=2", "--format=%(refname)", f"--contains={last.commit}")
        return last.messages if known.split("\n")[:-1] == [head.branch] else ()

    def _unknown(self, paths: Iterable[str], commit: str | None) -> set[str]:
        """Return those paths that are neither in the work tree nor in a commit: git would not commit them."""
        missing = {path for path in paths if not os.path.lexists(self.root / path)}
        if not missing or commit is None:
            return missing
        options = ("-z", "--full-tree", "--name-only")
        return missing - set(self._run("ls-tree", *options, commit, "--", *sorted(missing)).split("\0"))

    def _commit_only(self, feed: bytes, parent: str | None, message: str, *options: str) -> str | None:
        """Make a commit of files as they are, on no branch; None where they are committed already.

        As `git commit --only`, with a HEAD of its own: a reader of the user's HEAD learns of the commit first
        (`note_move`).
        """
        from shutil import rmtree  # noqa: PLC0415 - for start-up time: a question makes no commit

        folder = self._own / f"commit-{os.getpid()}-{next(_NUMBERS)}"
        head = folder / "refs/worktree/state"
        head.parent.mkdir(parents=True)
        try:
            (folder / "HEAD").write_bytes(f"ref: {head.relative_to(folder)}\n".encode())
            (folder / "commondir").write_bytes(os.fsencode(self._repository.common) + b"\n")
            (folder / "message").write_bytes(message.encode())
            if parent:
                head.write_bytes(f"{parent}\n".encode())
            # What git keeps beside a HEAD, and our commit needs as well.
            shared = self._git_dir.glob("sharedindex.*")
            for path in (self._git_dir / "config.worktree", self._git_dir / "info/sparse-checkout", *shared):
                if path.exists():
                    link = folder / path.relative_to(self._git_dir)
                    link.parent.mkdir(exist_ok=True)
                    link.symlink_to(path)
            env = {
                "GIT_DIR": str(folder), "GIT_WORK_TREE": str(self.root),
                "GIT_INDEX_FILE": str(self._git_dir / "index"), "GIT_LITERAL_PATHSPECS": "1",
            }  # fmt: skip
            try:
                self._committed_by(feed, folder / "message", env, *options)
            except RepoBlocked as error:
                # Code 1 without a word: there is nothing to commit.
                if error.code != 1 or error.said:
                    raise
                return None
            return read_whole(head).decode().strip()
        finally:
            rmtree(folder, ignore_errors=True)

    def _committed_by(self, feed: bytes, message: Path, env: Mapping[str, str], *more: str) -> None:
        """Commit in the user's name where git knows one, in ours for each role without a name."""
        commit = (
            *_COMMIT, "commit", "-q", "--only", "--no-gpg-sign", "--cleanup=verbatim",
            "--allow-empty-message", "--untracked-files=no", f"--file={message}",
            "--pathspec-from-file=-", "--pathspec-file-nul", *more,
        )  # fmt: skip
        try:
            self._set_index(*commit, feed=feed, env=env, limit=LIMIT)
        except RepoBlocked as error:
            if not any(words in error.said for words in _NAMELESS):
                raise
            who = {key: value for key, value in WHO.items() if not os.environ.get(key)}
            self._set_index(*commit, feed=feed, env={**env, **who}, limit=LIMIT)

    def commit_on(self, ref: str, texts: Mapping[str, bytes], message: str) -> str | None:
        """Commit new texts of files on a ref that nobody has checked out; None where it has moved."""
        import tempfile  # noqa: PLC0415 - for start-up time: it is for a detached HEAD

        old = self._line("rev-parse", "--verify", ref)
        with tempfile.TemporaryDirectory(dir=self._own, prefix="commit-") as folder:
            env = {"GIT_INDEX_FILE": f"{folder}/index"}
            self._run("read-tree", old, env=env)
            for path, text in texts.items():
                blob = self._line("hash-object", "-w", "--stdin", feed=text)
                self._run("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", env=env)
            tree = self._line("write-tree", env=env)
        new = self.commit_tree(tree, old, message)
        return new if self.move_ref(ref, new, old, message) else None

    def commit_tree(self, tree: str, parent: str | None, message: str) -> str:
        """Make a commit object, in the user's name where git knows one."""
        parents = ("-p", parent) if parent else ()
        feed = without_places(message, self.root).encode()
        return self._do("commit-tree", tree, *parents, feed=feed, env=self._identity()).strip()

    def identities(self) -> tuple[str, str]:
        """Return author and committer of a commit made now, as in a commit object."""
        found: dict[str, str] = {}
        for line in self._run("var", "-l", env=self._identity()).splitlines():
            name, _, value = line.partition("=")
            found[name] = value  # those of git come after those of its configuration
        return found["GIT_AUTHOR_IDENT"], found["GIT_COMMITTER_IDENT"]

    def merged(self, hand: bytes, was: bytes, ours: bytes) -> bytes | None:
        """Merge two changes of one text by lines; None on a conflict."""
        import tempfile  # noqa: PLC0415 - for start-up time: hands and commands hardly ever meet

        with tempfile.TemporaryDirectory(dir=self._own, prefix="commit-") as folder:
            files = [Path(folder, name) for name in ("hand", "was", "ours")]
            for file, text in zip(files, (hand, was, ours), strict=True):
                file.write_bytes(text)
            try:
                return os.fsencode(self._run("merge-file", "-p", "-q", *map(str, files)))
            except RepoBlocked:
                return None

    def left_out(self, paths: Sequence[str]) -> list[str]:
        """List those paths of the index that a sparse checkout leaves out of the work tree."""
        if not paths or self.setting("core.sparsecheckout") != "true":
            return []
        asked = ("--", *paths) if sum(map(len, paths)) < MOST_NAMED else ()
        listed = self._run("ls-files", "-t", "-z", *asked, env={"GIT_LITERAL_PATHSPECS": "1"}).split("\0")
        marked = {field[2:] for field in listed if field.startswith("S ")}
        return [path for path in paths if path in marked and not os.path.lexists(self.root / path)]

    def leave_out(self, paths: Sequence[str]) -> None:
        """Mark entries of the user's index as left out of the work tree, as they were before they moved."""
        feed = b"".join(os.fsencode(path) + b"\0" for path in paths)
        self._set_index("update-index", "--skip-worktree", "-z", "--stdin", feed=feed)

    def move_index(self, entries: Sequence[str]) -> None:
        """Set those entries of the user's index, removals first. Raises RepoBlocked while it is locked."""
        # A file that makes room for a folder must be gone before what is in the folder is added.
        ordered = sorted(entries, key=lambda entry: not entry.startswith("0 "))
        feed = b"".join(os.fsencode(entry) + b"\0" for entry in ordered)
        self._set_index("update-index", "-z", "--index-info", feed=feed)

    def _set_index(self, *arguments: str, **options: Any) -> None:
        """Let git change the user's index. Raises RepoBlocked while it is locked."""
        for _ in range(TRIES):
            self.wait_index_free()
            try:
                self._run(*arguments, **options)
            except RepoBlocked as error:
                if not ("index.lock" in error.said and "File exists" in error.said):
                    raise
            else:
                return
        self.wait_index_free()
        raise RepoBlocked(Problem("index", "other git processes keep locking it", "try again"))

    def move_ref(self, ref: str, new: str, old: str, message: str) -> bool:
        """Move a ref if it still points to `old`; return whether it points to `new` now."""
        note_move(self._own, new)
        try:
            self._run("update-ref", "-m", message.partition("\n")[0], ref, new, old)
        except RepoBlocked:
            at = self.value_of(ref) or "0" * len(old)
            if at == old:
                raise  # it did not move, and yet git would not move it: a lock, a full disk
            return at == new
        return True

    # Reads and writes of a landing

    def index_entries(self, paths: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return these entries of the user's index: path to (mode, sha); a conflict matches no side."""
        found = {}
        # So many as one command line takes; of more all are listed.
        asked = ("--", *paths) if sum(map(len, paths)) < MOST_NAMED else ()
        listed = self._run("ls-files", "-s", "-z", *asked, env={"GIT_LITERAL_PATHSPECS": "1"})
        for field in listed.split("\0"):
            head, _, path = field.partition("\t")
            if head:
                mode, sha, stage = head.split(" ")
                found[path] = (mode, sha) if stage == "0" else ("", "")
        return found

    def hashes(self, paths: Sequence[str], *options: str) -> dict[str, str]:
        """Return the blob id that each file of the work tree would have, with the user's filters."""
        shas: dict[str, str] = {}
        plain = [path for path in paths if "\n" not in path and not path.startswith('"')]
        if plain:
            feed = b"".join(os.fsencode(path) + b"\n" for path in plain)
            found = self._run("hash-object", *options, "--stdin-paths", feed=feed).split()
            shas.update(zip(plain, found, strict=True))
        for path in set(paths) - set(plain):
            shas[path] = self._line("hash-object", *options, "--", path)
        return shas

    def hash_of(self, data: bytes) -> str:
        """Return the blob id that some bytes would have."""
        return self._line("hash-object", "--stdin", feed=data)

    def check_out(self, commit: str, paths: Sequence[str], folder: Path) -> None:
        """Write files of a commit below `folder/tree`, as git would write them into the work tree."""
        env = {"GIT_INDEX_FILE": f"{folder}/index"}
        self._run("read-tree", commit, env=env)
        feed = b"".join(os.fsencode(path) + b"\0" for path in paths)
        self._do("checkout-index", "-f", "-z", "--stdin", f"--prefix={folder}/tree/", feed=feed, env=env)

    def is_ancestor(self, old: str, new: str) -> bool:
        """Return whether a commit is in the history of another."""
        return new == old or (bool(new) and self._line("merge-base", old, new, fine=UNKNOWN) == old)

    def obstacles(self) -> list[Problem]:
        """List why git would not commit here: what it refuses, in its own words, or `closed_folders`."""
        try:
            self._run("rev-parse", "--show-toplevel")
        except RepoBlocked as blocked:
            return list(blocked.problems)
        return self.closed_folders()

    def unmerged(self, paths: Iterable[str]) -> list[Problem]:
        """List the files, by path or pattern, of which the index has the sides of a conflict.

        Raises RepoBlocked.
        """
        named = (f":({'glob' if is_pattern(path) else 'literal'}){path}" for path in paths)
        # Asked where there has to be a work tree: git refuses it as it refuses a commit.
        asked = ("diff-files", "--name-only", "-z", "--diff-filter=U", "--", *named)
        found = dict.fromkeys(filter(None, self._run(*asked).split("\0")))
        what = "is in conflict: a merge of it is not finished"
        return [Problem(path, what, f"choose what stays, then `git add {quote(path)}`") for path in found]

    def closed_folders(self) -> list[Problem]:
        """Name the first of git's folders that we may not write to, as after a git that ran as root."""
        common = self._repository.common
        objects = common / "objects"
        folders = [self._git_dir, common, common / "refs", common / "refs/heads", self._own, objects]
        with contextlib.suppress(OSError), os.scandir(objects) as found:
            folders += [Path(one.path) for one in found if len(one.name) == 2]
        closed = [
            folder for folder in folders if folder.exists() and not os.access(folder, os.W_OK | os.X_OK)
        ]
        do = "give all of it to the user who runs this: `chown -R USER .git`, `chmod -R u+w .git`"
        return [Problem(str(folder), "git's folder cannot be written to", do) for folder in closed[:1]]

    def refuse_in_progress(self) -> None:
        """Raise RepoBlocked while the user is in the middle of a merge or the like."""
        words = self.in_progress()
        if words:
            raise RepoBlocked(
                Problem(str(self._git_dir), f"{words} is in progress", "finish or abort it first")
            )

    def wait_index_free(self, seconds: float | None = None) -> None:
        """Wait a while for another process's `index.lock`, never remove it. Raises RepoBlocked."""
        lock = self._git_dir / "index.lock"
        deadline = time.monotonic() + (LOCK_WAIT if seconds is None else seconds)
        while lock.exists():
            if time.monotonic() > deadline:
                raise RepoBlocked(
                    Problem(str(lock), "another git process holds the index", "remove it if none is running")
                )
            time.sleep(0.05)

    # Git

    def _identity(self) -> dict[str, str]:
        """Return a name for each role that git knows none for."""
        if self.setting("user.name") and self.setting("user.email"):
            return {}
        return {key: value for key, value in WHO.items() if not os.environ.get(key)}

    def _line(self, *arguments: str, **options: Any) -> str:
        return self._run(*arguments, **options).partition("\n")[0].strip()

    @cached_property
    def _git(self) -> "Git":
        drop_foreign_git(os.environ)  # type: ignore[arg-type]  # GitPython reads the environment by itself
        return import_gitpython()(self.root)

    def _run(
        self,
        *arguments: str,
        fine: Sequence[int] = (0,),
        feed: bytes = b"",
        env: Mapping[str, str] | None = None,
        limit: float | None = None,
    ) -> str:
        """Run a git command that only reads."""
        try:
            return os.fsdecode(git(*arguments, cwd=self.root, env=env, feed=feed, patience=limit))
        except GitError as error:
            # A git that was killed has printed nothing, which is not the same as "there is none".
            if error.code in fine:
                return os.fsdecode(error.printed)
            raise RepoBlocked(error.problem, code=error.code, said=error.said) from None

    def _do(
        self,
        *arguments: str,
        feed: bytes = b"",
        env: Mapping[str, str] | None = None,
        limit: float | None = None,
    ) -> str:
        """Run a git command that changes the repository, by GitPython."""
        import tempfile  # noqa: PLC0415 - as GitPython

        with contextlib.ExitStack() as stack:
            file = None
            if feed:
                file = stack.enter_context(tempfile.TemporaryFile())
                file.write(feed)
                file.seek(0)
            code, out, said = self._git.execute(
                ["git", *QUIET, *arguments],
                istream=file,
                with_extended_output=True,
                with_exceptions=False,
                strip_newline_in_stdout=False,
                stdout_as_string=False,
                kill_after_timeout=limit,
                env={"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", **(env or {})},
            )
        if code:
            error = GitError(arguments, int(code), str(said))
            raise RepoBlocked(error.problem, code=error.code, said=error.said)
        return os.fsdecode(out)


def import_gitpython() -> "type[Git]":
    """Import GitPython. Late: it is a fifth of all that a run imports, and only landing needs it.

    Its `Git` takes a path as it is; its `Repo` would put the values of variables into it.
    """
    from git import Git  # noqa: PLC0415 - for start-up time: see above

    return Git
