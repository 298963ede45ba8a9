"""Worktrees for fifteen write workers of a big repository, and their patches; beside git's own, in turn."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab import say

from workers.git.run import find_repository
from workers.worktree.changes import Checker
from workers.worktree.checkout import Furniture, make_tree
from workers.worktree.worktree import Place, remove_place

FILES, WORKERS, AT_ONCE = 20_000, 15, 4
ROUNDS = 2


def main() -> None:
    # In memory where that is to be had: a disk that is still writing the last round would be measured.
    where = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="orchestrate-bench-", dir=where))
    try:
        root = big(folder / "repo")
        rounds = [(bare(root, folder), ours(root)) for _ in range(ROUNDS)]
    finally:
        shutil.rmtree(folder)
    git = {name: min(one[0][name] for one in rounds) for name in rounds[0][0]}
    mine = {name: min(one[1][name] for one in rounds) for name in rounds[0][1]}
    say(f"{FILES:,} files, {WORKERS} x git worktree add, one by one", f"{git['make']:.2f} s")
    say(f"  ours, {AT_ONCE} at once", f"{mine['make']:.2f} s = {mine['make'] / git['make']:.2f} x")
    say(f"{WORKERS} x git add -A; git diff --cached --binary", f"{git['patch']:.2f} s")
    say("  ours, the check included", f"{mine['patch']:.2f} s = {mine['patch'] / git['patch']:.2f} x")
    say("  ours, where nothing was changed", f"{mine['look'] * 1000 / WORKERS:.0f} ms each")
    say(f"{WORKERS} x git worktree remove --force", f"{git['remove']:.2f} s")
    say("  ours", f"{mine['remove']:.2f} s = {mine['remove'] / git['remove']:.2f} x")
    every = sum(mine[name] for name in git) / sum(git.values())
    say("all of it, beside git one by one", f"{every:.2f} x", "<= 1")


def big(root: Path) -> Path:
    """Make a repository of many small files, fifty in a folder."""
    for number in range(FILES // 50):
        package = root / f"part{number % 20}" / f"package{number}"
        package.mkdir(parents=True)
        for at in range(50):
            (package / f"module{at}.py").write_text(f"# {number} {at}\n" * 40)
    # Packed as after a clone; and no collection of garbage beside what is measured.
    for command in (
        "init -q -b main",
        "config gc.auto 0",
        "add -A",
        "-c user.name=a -c user.email=a@b commit -qm base",
        "repack -adq",
        "prune-packed -q",
    ):
        subprocess.run(["git", *command.split()], cwd=root, check=True)
    return root


def change(tree: Path, number: int) -> None:
    """Make a worker's changes: some files changed, one new."""
    package = tree / f"part{number % 20}" / f"package{number}"
    for at in range(5):
        (package / f"module{at}.py").write_text("changed\n" * 50)
    (package / "new.py").write_text("new\n")


def clocked(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def bare(root: Path, folder: Path) -> dict[str, float]:
    """Measure git's own way."""
    trees = [folder / f"tree{number}" for number in range(WORKERS)]

    def git(*arguments: str, cwd: Path = root) -> None:
        with (folder / "patch").open("wb") as file:
            subprocess.run(["git", *arguments], cwd=cwd, check=True, stdout=file, stderr=subprocess.DEVNULL)

    def make() -> None:
        for tree in trees:
            git("worktree", "add", "--detach", str(tree), "HEAD")

    def patch() -> None:
        for tree in trees:
            git("add", "-A", cwd=tree)
            git("diff", "--cached", "--binary", "HEAD", cwd=tree)

    def remove() -> None:
        for tree in trees:
            git("worktree", "remove", "--force", str(tree))

    found = {"make": clocked(make)}
    for number, tree in enumerate(trees):
        change(tree, number)
    return {**found, "patch": clocked(patch), "remove": clocked(remove)}


def ours(root: Path) -> dict[str, float]:
    """Measure ours, as a run does it: as many at once as a run starts."""
    repository = find_repository(root)
    assert repository is not None
    directory = repository.own / "runs" / "r"
    checker = Checker(repository.common, directory, root)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, check=True, capture_output=True, text=True)
    base = head.stdout.strip()
    places: list[Place] = []

    def make_one(number: int) -> Place:
        path, index = root / ".taskers" / "worktrees" / "r" / f"W-{number}", directory / f"W-{number}.index"
        return make_tree(repository, checker, path, base, index, furniture=Furniture()).place

    def patch_one(number: int) -> None:
        found = checker.look(places[number], 10**9)
        checker.write_patch(places[number], found, directory / f"{number}.patch")

    with ThreadPoolExecutor(AT_ONCE) as threads:

        def each(act: Callable[[int], object]) -> None:
            list(threads.map(act, range(WORKERS)))

        def make() -> None:
            checker.prepare()
            places.extend(threads.map(make_one, range(WORKERS)))

        found = {"make": clocked(make)}
        found["look"] = clocked(lambda: each(lambda number: checker.look(places[number], 10**9)))
        for number, place in enumerate(places):
            change(place.path, number)
        found["patch"] = clocked(lambda: each(patch_one))
        found["remove"] = clocked(lambda: each(lambda number: remove_place(places[number])))
    shutil.rmtree(directory)
    return found


if __name__ == "__main__":
    main()
