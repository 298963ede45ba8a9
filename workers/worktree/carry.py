"""The work of an earlier run on the branch as it is now: its patch, applied three-way to another base."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from workers.git.run import GitError, Repository, git, git_fields
from workers.worktree.changes import PATCH_FORM, Checker, literal

_PLAIN = ("--cached", "--binary", "--whitespace=nowarn")


class Carried(NamedTuple):
    """An earlier patch as it applies to a base."""

    patch: bytes
    """Of the base; where it conflicts, the earlier one."""
    files: tuple[str, ...]
    """What it changes."""
    conflict: str = ""
    """The first path that does not fit; nothing is to be applied then."""


class _Bench(Checker):
    """Git with objects that are gone with its folder: to try a patch leaves nothing in the repository."""

    def prepare(self) -> None:
        super().prepare()
        alternates = self._bare / "objects" / "info" / "alternates"
        alternates.parent.mkdir(exist_ok=True)
        alternates.write_text(f"{self._common / 'objects'}\n")

    def _env(self, index: Path | None = None, tree: Path | None = None) -> dict[str, str]:
        return {**super()._env(index, tree), "GIT_OBJECT_DIRECTORY": str(self._bare / "objects")}

    def carry(self, base: str, patch: Path, covers: Callable[[str], bool]) -> Carried:
        env = self._env(self._index_of(base))
        fields = partial(git_fields, cwd=self._bare, env=env)
        listed = fields("apply", "--numstat", "-z", str(patch))
        paths = [field.split("\t", 2)[2] for field in listed]
        wanted = tuple(path for path in paths if covers(path))
        if not wanted:
            return Carried(b"", ())
        left_out = [f"--exclude={literal(path)}" for path in paths if path not in wanted]
        try:
            git("apply", "--3way", *_PLAIN, *left_out, str(patch), cwd=self._bare, env=env)
        except GitError as error:
            unmerged = [field.partition("\t")[2] for field in fields("ls-files", "-u", "-z")]
            return Carried(patch.read_bytes(), wanted, next(iter(unmerged), "") or error.said)
        made = git("diff-index", "--cached", *PATCH_FORM, base, cwd=self._bare, env=env)
        changed = git_fields(
            "diff-index", "--cached", "--name-only", "--no-renames", "-z", base, cwd=self._bare, env=env
        )
        return Carried(made, tuple(changed))


def carried(repository: Repository, base: str, patch: Path, covers: Callable[[str], bool]) -> Carried:
    """Make of an earlier patch one of another base, with the paths that `covers` allows.

    Writes nothing into the repository. Raises GitError where the patch cannot be read, or OSError.
    """
    with TemporaryDirectory(prefix="orchestrate-") as folder:
        bench = _Bench(repository.common, Path(folder), repository.root)
        bench.prepare()
        return bench.carry(base, patch, covers)
