"""What a worker changed is what `git add -A` would have staged, found by asking nothing of the worker's."""

import os
import shutil
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.changes import CAP, Lab, rich

from workers.errors import WorkerError
from workers.git.run import git
from workers.worktree.changes import Checker


def test_an_untouched_tree_has_no_changes(lab):
    place = rich(lab)
    found = lab.checker.look(place, CAP)
    assert (found.changes, found.ignored) == ((), ())
    assert git("diff-tree", lab.tree_of(place, found), "HEAD", cwd=lab.root) == b""


def replace_file_by_folder(tree: Path) -> None:
    (tree / "src" / "a.py").unlink()
    (tree / "src" / "a.py").mkdir()
    (tree / "src" / "a.py" / "inner").write_text("x")


def replace_folder_by_file(tree: Path) -> None:
    shutil.rmtree(tree / "src")
    (tree / "src").write_text("now a file")


def replace_folder_by_link(tree: Path) -> None:
    shutil.rmtree(tree / "src" / "deep")
    (tree / "src" / "deep").symlink_to("/etc")


def replace_link_by_folder(tree: Path) -> None:
    (tree / "folder-link").unlink()
    (tree / "folder-link").mkdir()
    (tree / "folder-link" / "a.py").write_text("not a link any more")


def swap_link_and_file(tree: Path) -> None:
    (tree / "link").unlink()
    (tree / "link").write_text("src/a.py")
    (tree / "run.sh").unlink()
    (tree / "run.sh").symlink_to("no\nwhere")


def same_size_and_time(tree: Path) -> None:
    path = tree / "src" / "a.py"
    times = path.stat()
    path.write_text("b\n" * 50)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def odd_names(tree: Path) -> None:
    for name in (b"new\nline", b'"quoted"', b"not-\xff-utf8", b"trailing ", b" leading", b"tab\t", b"\\back",
                 b"-dash", b":(top)x", b"*", "ümlaut".encode(), b"a\\n.py"):  # fmt: skip
        Path(os.fsdecode(os.fsencode(tree) + b"/" + name)).write_bytes(name)


def modes(tree: Path) -> None:
    (tree / "run.sh").chmod(0o644)
    (tree / "src" / "a.py").chmod(0o755)


def deletions(tree: Path) -> None:
    (tree / "blob").unlink()
    (tree / "kept.log").unlink()
    shutil.rmtree(tree / "src")


def binaries(tree: Path) -> None:
    (tree / "blob").write_bytes(os.urandom(5000) + b"\0\r\n")
    (tree / "empty").write_bytes(b"")
    (tree / "no-end").write_bytes(b"no line end")
    (tree / "crlf").write_bytes(b"a\r\nb\nc\r")


def renamed(tree: Path) -> None:
    (tree / "src" / "a.py").rename(tree / "moved.py")
    (tree / "src" / "deep").rename(tree / "elsewhere")


def hidden_by_its_own_ignore(tree: Path) -> None:
    (tree / ".gitignore").write_text("*\n")
    (tree / "src" / "a.py").write_text("tracked files cannot be hidden")


def pipe_and_socket(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    (tree / "blob").unlink()
    os.mkfifo(tree / "blob")
    with socket.socket(socket.AF_UNIX) as one:
        here = Path.cwd()
        os.chdir(tree)  # the path of a socket is short
        one.bind("socket")
        os.chdir(here)


MUTATIONS = [
    replace_file_by_folder, replace_folder_by_file, replace_folder_by_link, replace_link_by_folder,
    swap_link_and_file, same_size_and_time, odd_names, modes, deletions, binaries, renamed,
    hidden_by_its_own_ignore, pipe_and_socket,
]  # fmt: skip


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_a_change_is_what_git_add_makes_of_it_and_survives_its_patch(lab, mutate, tmp_path):
    place = rich(lab)
    mutate(place.path)
    found = lab.checker.look(place, CAP)
    assert found.changes
    if mutate is not pipe_and_socket:  # `git add` refuses a fifo at a tracked path; to us it is a removal
        assert lab.tree_of(place, found) == lab.oracle(place)
    lab.checker.write_patch(place, found, tmp_path / "patch")
    assert tuple(lab.checker.changes_of_patch(place.base, tmp_path / "patch")) == found.changes


def test_a_pipe_at_a_tracked_path_is_a_removal_and_others_are_nothing(lab):
    place = rich(lab)
    pipe_and_socket(place.path)
    (change,) = lab.checker.look(place, CAP).changes
    assert (change.path, change.new_mode) == ("blob", "000000")


NAMES = st.sampled_from(
    ["src", "src/a.py", "src/deep", "src/deep/b.py", "blob", "link", "new", "new/x", "run.sh"]
)
KINDS = st.sampled_from(["file", "other", "exec", "link", "folder", "gone"])


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(NAMES, KINDS), min_size=1, max_size=6))
def test_any_sequence_of_replacements_is_seen_as_git_sees_it(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("any")
    lab = Lab(folder / "repo")
    place = rich(lab)
    for name, kind in steps:
        put(place.path / name, kind)
    found = lab.checker.look(place, CAP)
    assert git("diff-tree", lab.tree_of(place, found), lab.oracle(place), cwd=lab.root) == b""
    lab.checker.write_patch(place, found, folder / "patch")
    assert tuple(lab.checker.changes_of_patch(place.base, folder / "patch")) == found.changes
    shutil.rmtree(folder)


def put(path: Path, kind: str) -> None:
    if any(parent.is_symlink() or parent.is_file() for parent in path.parents):
        return
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "file" | "exec":
            path.write_text(f"{path.name}\n")
            path.chmod(0o755 if kind == "exec" else 0o644)
        case "other":
            path.write_bytes(b"\0\1\2" * 30)
        case "link":
            path.symlink_to("src/deep")
        case "folder":
            path.mkdir()
            (path / "inner").write_text("inner\n")


def test_asking_twice_gives_the_same_answer_also_for_a_tracked_file_that_is_ignored(lab):
    place = rich(lab)
    (place.path / "kept.log").unlink()
    before = lab.checker.look(place, CAP)
    assert [change.path for change in before.changes] == ["kept.log"]
    assert lab.checker.look(place, CAP) == before
    (place.path / "kept.log").write_text("tracked although ignored\n")
    assert lab.checker.look(place, CAP).changes == ()
    assert not [path for path in lab.checker.directory.iterdir() if path.name.startswith("look-")]


def test_ignored_files_are_named_and_stay_out_of_the_patch(lab):
    place = rich(lab)
    (place.path / "build").mkdir()
    (place.path / "build" / "x.o").write_text("x")
    (place.path / "src" / "trace.log").write_text("x")
    found = lab.checker.look(place, CAP)
    assert found.changes == ()
    assert sorted(found.ignored) == ["build/", "src/trace.log"]


def test_a_folder_that_an_ignored_link_stands_for_is_gone(lab):
    place = rich(lab)
    # The very files, as old as they were, behind a link that git is not to see.
    (place.path / "src").rename(place.path / "build")
    (place.path / "src").symlink_to("build")
    with (place.path / ".gitignore").open("a") as file:
        file.write("src\nbuild\n")
    assert lab.paths(place) == [".gitignore", "src/a.py", "src/deep/b.py"]
    assert lab.tree_of(place, lab.checker.look(place, CAP)) == lab.oracle(place)


def test_the_patch_of_what_was_found_is_the_one_that_git_makes_of_the_two_trees(lab, tmp_path):
    place = rich(lab)
    (place.path / 'odd "name"\n').write_bytes(b"\0\0binary")
    (place.path / "src" / "a.py").write_text("b\n")
    (place.path / "link").unlink()
    found = lab.checker.look(place, CAP)
    lab.checker.write_patch(place, found, tmp_path / "kept.patch")
    fresh = Checker(lab.common, lab.checker.directory)
    fresh.write_patch(place, found, tmp_path / "made.patch")
    assert (tmp_path / "kept.patch").read_bytes() == (tmp_path / "made.patch").read_bytes() != b""


def test_more_than_the_cap_is_an_error_with_both_figures(lab):
    place = rich(lab)
    (place.path / "big").write_bytes(b"x" * 2000)
    with pytest.raises(WorkerError, match=r"2,000 bytes, more than patch_cap \(1,999 bytes\)"):
        lab.checker.look(place, 1999)
    assert lab.paths(place) == ["big"]


def test_a_name_that_git_does_not_take_is_an_error_that_names_it(lab):
    place = rich(lab)
    (place.path / "src" / ".gitmodules").mkdir()
    (place.path / ".git~x").write_text("fine")
    (place.path / "src" / "odd\udc80").write_text("fine")
    assert ".git~x" in lab.paths(place)
    (place.path / "src" / "GIT~1").write_text("x")
    with pytest.raises(WorkerError, match=r"src/GIT~1"):
        lab.checker.look(place, CAP)
