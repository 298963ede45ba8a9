"""Trees that worker left as traps: nothing hangs, nothing goes unseen, nothing escapes."""

import os
import socket
import time
from pathlib import Path

import pytest
from support.changes import CAP, Lab, rich

from workers.errors import WorkerError
from workers.git.run import GitError, git, git_line
from workers.worktree.change import Change
from workers.worktree.worktree import remove_place, remove_tree


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path / "repo")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "where", [".gitignore", ".gitattributes", "src/.gitignore", "new/.gitattributes", ".gitmodules"]
)
def test_a_pipe_that_git_would_read_is_named_and_never_opened(lab, where):
    place = rich(lab)
    path = place.path / where
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(WorkerError, match=rf"{where}: is not a regular file"):
        lab.checker.look(place, CAP)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["HEAD", "commondir", "config"])
def test_a_nested_repository_with_a_pipe_for_metadata_is_named_and_never_opened(lab, name):
    place = rich(lab)
    nested = place.path / "vendor"
    git("init", "-q", str(nested), cwd=place.path)
    (nested / "a").write_text("a")
    (nested / ".git" / name).unlink(missing_ok=True)
    os.mkfifo(nested / ".git" / name)
    with pytest.raises(WorkerError, match=rf"vendor/\.git/{name}: is not a regular file"):
        lab.checker.look(place, CAP)


@pytest.mark.timeout(300)
def test_a_git_that_is_made_to_wait_for_ever_is_ended(lab, tmp_path, monkeypatch):
    place = rich(lab)
    elsewhere = tmp_path / "elsewhere"
    git("init", "-q", str(elsewhere), cwd=tmp_path)
    (elsewhere / ".git" / "HEAD").unlink()
    os.mkfifo(elsewhere / ".git" / "HEAD")
    (place.path / "vendor").mkdir()
    (place.path / "vendor" / ".git").write_text(f"gitdir: {elsewhere}/.git\n")
    monkeypatch.setattr("workers.worktree.changes.PATIENCE", 0.5)
    with pytest.raises(WorkerError, match=r"did not end within 0\.5 s"):
        lab.checker.look(place, CAP)


def test_pipes_and_sockets_are_told_though_no_patch_can_have_them(lab):
    place = rich(lab)
    os.mkfifo(place.path / "src" / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        here = Path.cwd()
        os.chdir(place.path)  # the path of a socket is short
        one.bind("socket")
        os.chdir(here)
    found = lab.checker.look(place, CAP)
    assert (found.changes, found.special) == ((), ("socket", "src/pipe"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_told_and_never_opened(lab):
    place = rich(lab)
    try:
        os.mknod(
            place.path / "blob.dev", 0o020666, os.makedev(1, 5)
        )  # /dev/zero: endless to whoever reads it
    except PermissionError:
        pytest.skip("no devices in this container")
    (place.path / "blob").unlink()
    os.mknod(place.path / "blob", 0o020666, os.makedev(1, 5))
    found = lab.checker.look(place, CAP)
    assert found.special == ("blob", "blob.dev")
    assert [(one.path, one.new_mode) for one in found.changes] == [("blob", "000000")]


@pytest.mark.parametrize("name", ["huge", "blob", ".gitignore"])
def test_a_huge_sparse_file_is_refused_unread(lab, name):
    place = rich(lab)
    with (place.path / name).open("wb") as file:
        file.truncate(64 * 2**30)
    start = time.monotonic()
    with pytest.raises(WorkerError, match=r"patch_cap|too large"):
        lab.checker.look(place, CAP)
    assert time.monotonic() - start < 60  # reading it takes minutes


def test_files_named_like_options_and_case_colliding_names_are_files(lab, tmp_path):
    place = rich(lab)
    names = ["--exec=x", "-rf", "--", "-", "src/A.py", "README", "readme", "--help"]
    for name in names:
        (place.path / name).write_text(name)
    found = lab.checker.look(place, CAP)
    assert sorted(change.path for change in found.changes) == sorted(names)
    assert lab.tree_of(place, found) == lab.oracle(place)
    lab.checker.write_patch(place, found, tmp_path / "patch")
    assert tuple(lab.checker.changes_of_patch(place.base, tmp_path / "patch")) == found.changes


def test_a_hard_link_to_a_file_outside_is_a_file_and_taking_the_tree_away_leaves_the_other(lab, tmp_path):
    place = rich(lab)
    outside = tmp_path / "secret"
    outside.write_text("not yours\n")
    os.link(outside, place.path / "mine")
    assert lab.paths(place) == ["mine"]
    remove_place(place)
    assert outside.read_text() == "not yours\n"


@pytest.mark.parametrize("name", [".GIT", "git~1", ".Git"])
def test_a_folder_that_is_gits_own_on_another_system_never_gets_into_a_tree(lab, name):
    place = rich(lab)
    (place.path / "src" / name / "hooks").mkdir(parents=True)
    (place.path / "src" / name / "hooks" / "pre-commit").write_text("evil")
    with pytest.raises(WorkerError, match="git takes no file of this name"):
        lab.checker.look(place, CAP)


def test_paths_longer_than_any_path_are_an_error_and_can_be_taken_away(lab):
    place = rich(lab)
    here = Path.cwd()
    os.chdir(place.path)
    try:
        for _ in range(60):
            os.mkdir("d" * 100)  # noqa: PTH102 - relative to where we are, since no path reaches there
            os.chdir("d" * 100)
        Path("deep").write_text("x")
    finally:
        os.chdir(here)
    with pytest.raises(WorkerError):
        lab.checker.look(place, CAP)
    remove_place(place)
    assert not place.path.exists()


def test_folders_deeper_than_python_recurses_are_removed(tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    here = Path.cwd()
    os.chdir(top)
    try:
        for _ in range(1500):
            os.mkdir("d")  # noqa: PTH102 - as above
            os.chdir("d")
    finally:
        os.chdir(here)
    remove_tree(top)
    assert not top.exists()


ESCAPES = ["../x", "/etc/x", ".git/hooks/pre-commit", ".GIT/config", "src/../../x", "src/.git/config", "./x"]


@pytest.mark.parametrize("path", ESCAPES)
def test_a_patch_with_a_path_that_escapes_is_refused(lab, path, tmp_path):
    place = rich(lab)
    blob = git_line("hash-object", "-w", "--stdin", cwd=lab.root)
    patch = tmp_path / "patch"
    patch.write_text(
        f"diff --git a/{path} b/{path}\nnew file mode 100755\nindex {'0' * 40}..{blob}\n"
        f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+evil\n"
    )
    with pytest.raises(GitError, match=r"invalid path|Invalid path|escapes|outside"):
        lab.checker.changes_of_patch(place.base, patch)
    tree = lab.checker.tree_with(place.base, [Change(path, "000000", "0" * 40, "100644", blob)])
    assert lab.checker.changes(place.base, tree) == []


def test_unlisted_folders_are_opened_and_looked_into(lab):
    place = rich(lab)
    (place.path / "closed").mkdir()
    (place.path / "closed" / "new").write_text("x")
    (place.path / "closed").chmod(0)
    assert lab.paths(place) == ["closed/new"]
