"""A real repository, a worker's worktree in it, and the checker that finds its changes."""

import shutil
from pathlib import Path

from workers.git.run import find_repository, git, git_line
from workers.worktree.changes import Checker, Found
from workers.worktree.worktree import Place, make_place

CAP = 10_000_000


class Lab:
    """A real repository, a checker, and a worker's worktree in it."""

    def __init__(self, root: Path, *init: str) -> None:
        self.root = root
        root.mkdir(parents=True)
        git("init", "-q", "-b", "main", *init, cwd=root)
        git("config", "user.name", "Ada", cwd=root)
        git("config", "user.email", "ada@example.org", cwd=root)

    def commit(self, **files: bytes) -> None:
        """Commit files, with everything else in the folder."""
        for name, data in files.items():
            (self.root / name).write_bytes(data)
        git("add", "-A", cwd=self.root)
        git("commit", "-q", "--allow-empty", "-m", "base", cwd=self.root)

    def place(self, name: str = "Codex-Worker-1") -> Place:
        """Make a worker's worktree at the last commit, and a checker for it."""
        found = find_repository(self.root)
        assert found is not None
        self.common = found.common
        self.checker = Checker(found.common, found.own / "runs" / "r")
        self.checker.prepare()
        base = git_line("rev-parse", "HEAD", cwd=self.root)
        self.index = self.checker.directory / f"{name}.index"
        path = found.root / ".taskers" / "worktrees" / "r" / name
        return make_place(found.root, found.common, path, base, self.index)

    def oracle(self, place: Place) -> str:
        """Return git's own view of the worktree, with the user's own config."""
        index = self.root.parent / "oracle.index"
        shutil.copy2(place.index_copy, index)
        env = {"GIT_INDEX_FILE": str(index)}
        git("-c", "core.safecrlf=false", "add", "-A", cwd=place.path, env=env)
        tree = git_line("write-tree", cwd=place.path, env=env)
        index.unlink()
        return tree

    def tree_of(self, place: Place, found: Found) -> str:
        """Return the tree of a base with the found changes."""
        return self.checker.tree_with(place.base, found.changes)

    def paths(self, place: Place) -> list[str]:
        """List the changed paths."""
        return [change.path for change in self.checker.look(place, CAP).changes]


def rich(lab: Lab) -> Place:
    """Commit a file of each kind, and return a worktree with them."""
    root = lab.root
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "a.py").write_text("a\n" * 50)
    (root / "src" / "deep" / "b.py").write_text("b\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "blob").write_bytes(bytes(range(256)) * 4)
    (root / "link").symlink_to("src/a.py")
    (root / "folder-link").symlink_to("src")
    (root / ".gitignore").write_text("*.log\n/build/\n")
    (root / "kept.log").write_text("tracked although ignored\n")
    git("add", "-f", "kept.log", cwd=root)
    lab.commit()
    return lab.place()
