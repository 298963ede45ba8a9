"""A worker's place: made whole or not at all, known again after a kill, taken away whatever is in it."""

import contextlib
import inspect
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from workers.errors import WorkerError
from workers.git.run import Repository, find_repository, git, git_line
from workers.worktree.worktree import (
    Place,
    _remove_outside,
    found_place,
    left_its_base,
    make_place,
    readopted_place,
    remove_empty_folders,
    remove_place,
    remove_places_below,
    remove_tree,
)


@pytest.fixture
def repository(tmp_path) -> Repository:
    root = tmp_path / "repo"
    root.mkdir()
    git("init", "-q", "-b", "main", cwd=root)
    (root / "a").write_text("a\n")
    git("add", "-A", cwd=root)
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "base", cwd=root)
    found = find_repository(root)
    assert found is not None
    return found


def make(repository: Repository, name: str = "W-1", base: str = "HEAD") -> Place:
    sha = git_line("rev-parse", base, cwd=repository.root, check=False) or base
    path = repository.root / ".taskers" / "worktrees" / "r" / name
    return make_place(repository.root, repository.common, path, sha, repository.own / f"{name}.index")


def worktrees(repository: Repository) -> list[str]:
    lines = git("worktree", "list", "--porcelain", cwd=repository.root).decode().splitlines()
    return [line.removeprefix("worktree ") for line in lines if line.startswith("worktree ")]


def test_a_place_is_a_worktree_of_its_own_that_git_knows(repository):
    place = make(repository)
    top = git_line("rev-parse", "--show-toplevel", cwd=place.path)
    assert top == str(place.path)
    assert git_line("rev-parse", "HEAD", cwd=place.path) == place.base
    assert git_line("symbolic-ref", "-q", "HEAD", cwd=place.path, check=False) == ""
    assert git("status", "--porcelain", cwd=place.path) == b""
    assert str(place.path) in worktrees(repository)
    assert left_its_base(place) is None
    assert found_place(repository.common, place.path, place.base, place.index_copy) == place


def test_removing_a_place_leaves_nothing_and_no_branch(repository):
    place = make(repository)
    remove_place(place)
    assert worktrees(repository) == [str(repository.root)]
    assert not any(path.exists() for path in (place.path, place.admin, place.index_copy))
    assert git("branch", "--list", cwd=repository.root).split() == [b"*", b"main"]
    assert git("worktree", "prune", "-v", cwd=repository.root) == b""


@pytest.mark.hardening
def test_fifteen_places_are_made_at_once(repository):
    """T26: from a remote-tracking branch, detached, so that no branch is made."""
    git("update-ref", "refs/remotes/origin/main", "HEAD", cwd=repository.root)
    made: list[Place] = []
    threads = [
        threading.Thread(target=lambda n=n: made.append(make(repository, f"W-{n}", "origin/main")))
        for n in range(15)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 15
    assert len(worktrees(repository)) == 16
    assert all(left_its_base(place) is None for place in made)


def test_a_garbage_collection_that_takes_the_empty_folder_of_worktrees_away_stops_nobody(repository):
    folder, over, taken = repository.common / "worktrees", threading.Event(), 0

    def collect():
        nonlocal taken
        while not over.is_set():
            with contextlib.suppress(OSError):
                folder.rmdir()  # as `git worktree prune` does
                taken += 1

    thread = threading.Thread(target=collect)
    thread.start()
    try:
        for number in range(8):
            place = make(repository, f"W-{number}")
            assert left_its_base(place) is None
            remove_place(place)
            until = time.monotonic() + 60
            while folder.exists():
                assert time.monotonic() < until, "it was never taken away"
                time.sleep(0.001)  # between two looks
    finally:
        over.set()
        thread.join()
    assert taken >= 8


@pytest.mark.hardening
def test_an_occupied_path_is_an_error_and_stays_as_it_is(repository):
    """T29: nothing is made, and no worker could start there."""
    path = repository.root / ".taskers" / "worktrees" / "r" / "W-1"
    path.mkdir(parents=True)
    (path / "precious").write_text("mine")
    with pytest.raises(WorkerError, match="already exists"):
        make(repository)
    assert (path / "precious").read_text() == "mine"
    assert worktrees(repository) == [str(repository.root)]


def test_a_base_that_git_cannot_check_out_is_an_error_in_gits_words(repository):
    with pytest.raises(WorkerError, match=r"no worktree: fatal: .*0123"):
        make(repository, base="0123" * 10)
    assert worktrees(repository) == [str(repository.root)]
    assert list((repository.root / ".taskers" / "worktrees" / "r").iterdir()) == []


def test_what_a_killed_runtime_had_made_without_starting_a_worker_is_made_anew(repository):
    first = make(repository)
    (first.path / "half").write_text("made")
    second = make(repository)
    assert git("status", "--porcelain", cwd=second.path) == b""
    assert worktrees(repository) == [str(repository.root), str(second.path)]


KILLED = """
import os, sys
from pathlib import Path
at, root, common, path, base, index = int(sys.argv[1]), *sys.argv[2:]
calls = 0
STEPS = ("open", "os.rename", "os.mkdir", "os.remove", "os.utime", "subprocess.Popen", "shutil.copyfile")
def count(event, arguments):
    global calls
    if event in STEPS and not (event == "open" and "w" not in str(arguments[1])):
        calls += 1
        if calls == at:
            os._exit(9)
from workers.worktree.worktree import make_place
sys.addaudithook(count)
make_place(Path(root), Path(common), Path(path), base, Path(index))
"""


def test_a_kill_at_any_step_of_the_making_never_blocks_the_next_one(repository):
    path = repository.root / ".taskers" / "worktrees" / "r" / "W-1"
    base = git_line("rev-parse", "HEAD", cwd=repository.root)
    arguments = (repository.root, repository.common, path, base, repository.own / "W-1.index")
    steps = 0
    while True:
        steps += 1
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(steps), *map(str, arguments)], capture_output=True, check=False
        )
        assert done.returncode in (0, 9), done.stderr.decode()
        place = make(repository)
        assert left_its_base(place) is None
        assert git("status", "--porcelain", cwd=place.path) == b""
        remove_places_below(repository.common, path.parent)
        git("worktree", "prune", cwd=repository.root)
        assert worktrees(repository) == [str(repository.root)]
        if done.returncode == 0:
            break
    assert steps > 4


def test_a_place_is_not_found_without_our_copy_of_its_index(repository):
    place = make(repository)
    place.index_copy.unlink()
    assert found_place(repository.common, place.path, place.base, place.index_copy) is None


def copied(repository: Repository, root: Path) -> Repository:
    """Clone a repository, and copy `.taskers` to the clone."""
    git("clone", "-q", str(repository.root), str(root), cwd=repository.root)
    shutil.copytree(repository.root / ".taskers", root / ".taskers", symlinks=True)
    return Repository(root, root / ".git")


def moved(repository: Repository, root: Path) -> Repository:
    repository.root.rename(root)
    return Repository(root, root / ".git")


@pytest.mark.parametrize("take", [copied, moved])
def test_a_place_in_another_checkout_is_readopted_with_the_work_in_it(repository, tmp_path, take):
    place = make(repository)
    (place.path / "a").write_text("changed\n")
    (place.path / "new").write_text("new\n")
    there = take(repository, tmp_path / "there")
    there.own.mkdir(exist_ok=True)
    path = there.root / ".taskers" / "worktrees" / "r" / "W-1"
    arguments = there.root, there.common, path, place.base, there.own / "W-1.index"
    assert found_place(*arguments[1:]) is None
    found = readopted_place(*arguments)
    assert found is not None
    assert found == found_place(*arguments[1:])
    assert left_its_base(found) is None
    assert git("status", "--porcelain", cwd=path).split() == [b"M", b"a", b"??", b"new"]
    assert worktrees(there) == [str(there.root), str(path)]
    assert [one.name for one in path.parent.iterdir()] == ["W-1"]
    remove_place(found)
    assert worktrees(there) == [str(there.root)]
    assert list(there.own.iterdir()) == []


@pytest.mark.parametrize("take", [copied, moved])
def test_a_place_that_is_half_made_in_another_checkout_is_made_anew_there(repository, tmp_path, take):
    place = make(repository)
    there = take(repository, tmp_path / "there")
    there.own.mkdir(exist_ok=True)
    path = there.root / ".taskers" / "worktrees" / "r" / "W-1"
    readopted_place(there.root, there.common, path, place.base, there.own / "W-1.index")
    assert left_its_base(make(there)) is None
    assert worktrees(there) == [str(there.root), str(path)]


def test_metadata_that_another_work_tree_uses_is_not_taken(repository, tmp_path):
    place, other = make(repository), tmp_path / "other"
    git("worktree", "add", "-q", "--detach", str(other), cwd=repository.root)
    shutil.copytree(repository.root / ".taskers", other / ".taskers")
    path = other / ".taskers" / "worktrees" / "r" / "W-1"
    found = readopted_place(other, repository.common, path, place.base, repository.own / "W-1.index")
    assert found is not None
    assert found.admin != place.admin
    assert left_its_base(found) is left_its_base(place) is None


@pytest.mark.parametrize("link", ["", "gitdir: /elsewhere/.git/worktrees/other\n", "gitdir: r.W-1\n"])
def test_a_folder_that_is_no_place_of_ours_is_not_readopted(repository, link):
    path = repository.root / ".taskers" / "worktrees" / "r" / "W-1"
    path.mkdir(parents=True)
    (path / ".git").write_text(link)
    base = git_line("rev-parse", "HEAD", cwd=repository.root)
    arguments = repository.root, repository.common, path, base, repository.own / "W-1.index"
    assert readopted_place(*arguments) is None
    assert (path / ".git").read_text() == link
    assert worktrees(repository) == [str(repository.root)]


def test_a_place_without_its_base_is_not_readopted(repository, tmp_path):
    place = make(repository)
    there = copied(repository, tmp_path / "there")
    there.own.mkdir()
    path = there.root / ".taskers" / "worktrees" / "r" / "W-1"
    assert readopted_place(there.root, there.common, path, "0123" * 10, there.own / "W-1.index") is None
    assert (path / ".git").read_bytes() == place.link
    assert list(there.own.iterdir()) == []


def pipe(path):
    """Put there something at which an opening process would wait for ever."""
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("meddle", "told"),
    [
        (lambda place: (place.path / ".git").unlink(), ".git"),
        (lambda place: (place.path / ".git").write_text("gitdir: /elsewhere\n"), ".git"),
        (lambda place: git("checkout", "-q", "-b", "mine", cwd=place.path), "HEAD"),
        (lambda place: (place.admin / "HEAD").unlink(), ".git"),
        (lambda place: pipe(place.path / ".git"), ".git"),
        (lambda place: pipe(place.admin / "HEAD"), ".git"),
    ],
)
def test_what_a_worker_does_to_its_git_metadata_is_told(repository, meddle, told):
    place = make(repository)
    assert left_its_base(place) is None
    meddle(place)
    assert left_its_base(place) == told


def test_what_is_written_behind_a_link_or_through_a_mapping_is_told(repository, tmp_path):
    linked, mapped = make(repository, "linked"), make(repository, "mapped")
    head = linked.admin / "HEAD"
    (tmp_path / "said").write_bytes(head.read_bytes())
    head.unlink()
    head.symlink_to(tmp_path / "said")
    assert left_its_base(linked) is None
    (tmp_path / "said").write_text("ref: refs/heads/mine\n")
    assert left_its_base(linked) == "HEAD"
    with (mapped.admin / "HEAD").open("r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        pages[:1] = pages[:1]
        assert left_its_base(mapped) is None
        pages[:1] = b"x"
        assert left_its_base(mapped) == "HEAD"


def test_only_empty_folders_go_and_none_behind_a_link(tmp_path):
    for name in ("top/empty", "top/full/inside", "elsewhere/empty"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("top", "link", "nothing"):
        remove_empty_folders(tmp_path / name)
    assert [path.name for path in (tmp_path / "top").iterdir()] == ["full"]
    assert (tmp_path / "elsewhere" / "empty").is_dir()


def test_a_git_file_that_became_a_link_is_told_even_if_it_says_the_same(repository, tmp_path):
    place = make(repository)
    (tmp_path / "copy").write_bytes(place.link)
    (place.path / ".git").unlink()
    (place.path / ".git").symlink_to(tmp_path / "copy")
    assert left_its_base(place) == ".git"


FORBIDDEN = """
import contextlib, os, shutil, subprocess, sys
from pathlib import Path
exec(sys.argv[1])
os.setgid(65534); os.setuid(65534)
os.makedirs("tree/a/b/c"); open("tree/a/b/c/f", "w").close(); os.symlink("/", "tree/a/root")
for path in ("tree/a/b/c", "tree/a/b", "tree/a", "tree"):
    os.chmod(path, 0)
remove_tree(Path("tree"))
print(os.path.lexists("tree"))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="root may do everything, so another user is needed")
def test_folders_that_may_not_be_listed_are_removed_all_the_same():
    # In /tmp itself, since pytest closes its folders to others; as source text, since ours may be closed too.
    source = inspect.getsource(remove_tree) + inspect.getsource(_remove_outside)
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        argv = [sys.executable, "-c", FORBIDDEN, source]
        done = subprocess.run(argv, cwd=name, capture_output=True, check=False)
    assert (done.stdout, done.stderr) == (b"False\n", b"")


def test_another_runs_places_stay_when_one_run_is_cleared(repository):
    make(repository)
    other = repository.root / ".taskers" / "worktrees" / "other" / "W-1"
    base = git_line("rev-parse", "HEAD", cwd=repository.root)
    kept = make_place(repository.root, repository.common, other, base, repository.own / "o.index")
    remove_places_below(repository.common, repository.root / ".taskers" / "worktrees" / "r")
    assert worktrees(repository) == [str(repository.root), str(kept.path)]
    assert left_its_base(kept) is None


def test_a_user_setting_for_relative_worktrees_and_hooks_does_not_reach_a_place(repository, tmp_path):
    hook = repository.common / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    git("config", "worktree.useRelativePaths", "true", cwd=repository.root)
    git("config", "core.splitIndex", "true", cwd=repository.root)
    assert left_its_base(make(repository)) is None
    assert not (tmp_path / "ran").exists()


SMALL = """
import subprocess, sys
from pathlib import Path
from workers.errors import WorkerError
from workers.worktree.worktree import make_place
root, base, small = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "none", small], check=True)
try:
    index = Path(root, ".git/orchestrate/W-1.index")
    make_place(Path(root), Path(root, ".git"), Path(small, "r/W-1"), base, index)
except WorkerError as error:
    print(error.reason)
"""


def test_a_full_disk_is_named_and_not_every_file_that_finds_no_room(repository, tmp_path):
    if subprocess.run(["unshare", "-Urm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespaces, so no small file system")
    for number in range(200):
        (repository.root / f"file-{number}").write_text(f"{number}\\n" * 4000)
    git("add", "-A", cwd=repository.root)
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "many", cwd=repository.root)
    base = git_line("rev-parse", "HEAD", cwd=repository.root)
    small = tmp_path / "small"
    small.mkdir()
    argv = ["unshare", "-Urm", sys.executable, "-c", SMALL, repository.root, base, small]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("no worktree: no space left on device: error: unable to "), done
    assert len(done.stdout) < 300
