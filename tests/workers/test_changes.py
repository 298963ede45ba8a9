"""What a worker changed is what `git add -A` would have staged, found by asking nothing of the worker's."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workers.agents import WorkerError
from workers.changes import Checker
from workers.git import find_repository, git, git_line
from workers.worktree import Place, found_place, left_its_base, make_place, remove_place

CAP = 10_000_000


class Lab:
    """A real repository, a checker, and a worker's place in it."""

    def __init__(self, root: Path, *init: str) -> None:
        self.root = root
        root.mkdir(parents=True)
        git("init", "-q", "-b", "main", *init, cwd=root)
        git("config", "user.name", "Ada", cwd=root)
        git("config", "user.email", "ada@example.org", cwd=root)

    def commit(self, **files: bytes) -> None:
        for name, data in files.items():
            (self.root / name).write_bytes(data)
        git("add", "-A", cwd=self.root)
        git("commit", "-q", "--allow-empty", "-m", "base", cwd=self.root)

    def place(self, name: str = "Codex-Worker-1") -> Place:
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
        """Give what git itself makes of the worktree, with the user's own config."""
        index = self.root.parent / "oracle.index"
        shutil.copy2(place.index_copy, index)
        env = {"GIT_INDEX_FILE": str(index)}
        git("-c", "core.safecrlf=false", "add", "-A", cwd=place.path, env=env)
        tree = git_line("write-tree", cwd=place.path, env=env)
        index.unlink()
        return tree

    def paths(self, place: Place) -> list[str]:
        return [change.path for change in self.checker.look(place, CAP).changes]


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path / "repo")


def rich(lab: Lab) -> Place:
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


def test_an_untouched_tree_has_no_changes(lab):
    place = rich(lab)
    found = lab.checker.look(place, CAP)
    assert (found.changes, found.ignored) == ((), ())
    assert git("diff-tree", found.tree, "HEAD", cwd=lab.root) == b""


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
        assert found.tree == lab.oracle(place)
    lab.checker.write_patch(place.base, found.tree, tmp_path / "patch")
    assert tuple(lab.checker.changes_of_patch(place.base, tmp_path / "patch")) == found.changes
    assert lab.checker.tree_with(place.base, found.changes) == found.tree


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
    assert git("diff-tree", found.tree, lab.oracle(place), cwd=lab.root) == b""
    lab.checker.write_patch(place.base, found.tree, folder / "patch")
    assert tuple(lab.checker.changes_of_patch(place.base, folder / "patch")) == found.changes
    assert lab.checker.changes(found.tree, lab.checker.tree_with(place.base, found.changes)) == []
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
    assert lab.checker.look(place, CAP).tree == lab.oracle(place)


def test_the_patch_of_what_was_found_is_the_one_that_git_makes_of_the_two_trees(lab, tmp_path):
    place = rich(lab)
    (place.path / 'odd "name"\n').write_bytes(b"\0\0binary")
    (place.path / "src" / "a.py").write_text("b\n")
    (place.path / "link").unlink()
    found = lab.checker.look(place, CAP)
    lab.checker.write_patch(place.base, found.tree, tmp_path / "kept.patch")
    fresh = Checker(lab.common, lab.checker.directory)
    fresh.write_patch(place.base, found.tree, tmp_path / "made.patch")
    assert (tmp_path / "kept.patch").read_bytes() == (tmp_path / "made.patch").read_bytes() != b""


@pytest.mark.parametrize("commits", [False, True])
def test_the_files_of_a_nested_repository_count_as_files(lab, commits):
    place = rich(lab)
    nested = place.path / "vendor" / "lib"
    nested.mkdir(parents=True)
    git("init", "-q", cwd=nested)
    (nested / "code.c").write_text("int x;")
    (nested / "sub").mkdir()
    (nested / "sub" / "more.c").write_text("int y;")
    (nested / "link").symlink_to("sub")
    if commits:
        git("add", "-A", cwd=nested)
        git("-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "-m", "x", cwd=nested)
    assert lab.paths(place) == ["vendor/lib/code.c", "vendor/lib/link", "vendor/lib/sub/more.c"]


def test_a_repository_made_around_tracked_files_hides_nothing(lab):
    place = rich(lab)
    git("init", "-q", cwd=place.path / "src")
    (place.path / "src" / "a.py").write_text("changed\n")
    (place.path / "src" / "new.py").write_text("new\n")
    assert lab.paths(place) == ["src/a.py", "src/new.py"]


def with_submodule(lab: Lab, tmp_path: Path) -> Place:
    other = Lab(tmp_path / "other")
    other.commit(lib=b"lib\n")
    git(
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(other.root),
        "sub",
        cwd=lab.root,
    )
    lab.commit(a=b"a\n")
    return lab.place()


def test_a_submodule_that_nobody_touched_is_no_change(lab, tmp_path):
    place = with_submodule(lab, tmp_path)
    (place.path / "a").write_bytes(b"b\n")
    assert lab.paths(place) == ["a"]


def test_a_submodule_may_go_and_the_patch_says_so(lab, tmp_path):
    place = with_submodule(lab, tmp_path)
    (place.path / "sub").rmdir()
    (place.path / ".gitmodules").unlink()
    found = lab.checker.look(place, CAP)
    assert [(change.path, change.new_mode) for change in found.changes] == [
        (".gitmodules", "000000"),
        ("sub", "000000"),
    ]
    lab.checker.write_patch(place.base, found.tree, tmp_path / "patch")
    assert tuple(lab.checker.changes_of_patch(place.base, tmp_path / "patch")) == found.changes


def test_another_commit_in_a_submodule_is_named_and_not_taken(lab, tmp_path):
    place = with_submodule(lab, tmp_path)
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", cwd=place.path)
    git("-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "x",
        cwd=place.path / "sub")  # fmt: skip
    found = lab.checker.look(place, CAP)
    assert (found.changes, found.inside) == ((), ("sub/lib",))


CANARY = "#!/bin/sh\ntouch {}\ncat\n"


def test_nothing_that_a_worker_configures_runs_in_our_git(lab, tmp_path):
    place = rich(lab)
    canary = tmp_path / "canary"
    script = tmp_path / "attack.sh"
    script.write_text(CANARY.format(canary))
    script.chmod(0o755)
    evil = tmp_path / "evil"
    git("init", "-q", str(evil), cwd=tmp_path)
    for key in ("core.fsmonitor", "filter.x.clean", "filter.x.process", "diff.x.textconv", "diff.external",
                "core.sshCommand", "core.pager"):  # fmt: skip
        git("config", key, str(script), cwd=evil)
    hooks = evil / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "post-checkout", "pre-commit", "reference-transaction"):
        shutil.copy(script, hooks / name)
    (place.path / ".gitattributes").write_text("* filter=x diff=x\n")
    (place.path / "src" / "a.py").write_text("changed\n")
    (place.path / ".git").write_text(f"gitdir: {evil}/.git\n")
    subprocess.run(["git", "status"], cwd=place.path, check=False, capture_output=True)
    assert canary.exists(), "the bait does not work, so this test would prove nothing"
    canary.unlink()
    found = lab.checker.look(place, CAP)
    lab.checker.write_patch(place.base, found.tree, tmp_path / "patch")
    lab.checker.changes_of_patch(place.base, tmp_path / "patch")
    assert [change.path for change in found.changes] == [".gitattributes", "src/a.py"]
    assert left_its_base(place) == ".git"
    remove_place(place)
    assert not canary.exists()
    assert not place.path.exists()


def test_index_tricks_of_a_worker_hide_nothing(lab):
    place = rich(lab)
    git("update-index", "--skip-worktree", "src/a.py", cwd=place.path)
    git("update-index", "--assume-unchanged", "blob", cwd=place.path)
    (place.path / "src" / "a.py").write_text("changed\n")
    (place.path / "blob").write_text("changed\n")
    (lab.common / "info").mkdir(exist_ok=True)
    (lab.common / "info" / "exclude").write_text("new.py\n")
    (place.path / "new.py").write_text("new\n")
    assert lab.paths(place) == ["blob", "new.py", "src/a.py"]


def test_a_file_where_a_sparse_checkout_leaves_a_hole_is_seen(lab):
    rich(lab)
    git("sparse-checkout", "set", "--no-cone", "/*", "!/src/", cwd=lab.root)
    place = lab.place("Codex-Worker-2")
    assert lab.paths(place) == []
    (place.path / "src").mkdir(exist_ok=True)
    (place.path / "src" / "a.py").write_text("written into the hole\n")
    assert lab.paths(place) == ["src/a.py"]


def test_a_commit_of_the_worker_is_told_and_its_content_is_judged_all_the_same(lab):
    place = rich(lab)
    (place.path / "src" / "a.py").write_text("committed\n")
    git("-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "-a", "-m", "mine", cwd=place.path)
    assert left_its_base(place) == "HEAD"
    assert lab.paths(place) == ["src/a.py"]


@pytest.mark.parametrize(
    ("settings_", "attributes"),
    [
        ({}, b""),
        ({"core.autocrlf": "true"}, b""),
        ({"core.autocrlf": "input"}, b""),
        ({}, b"* text=auto\n"),
        ({}, b"*.txt text eol=crlf\n"),
        ({"core.autocrlf": "true", "core.safecrlf": "true"}, b"*.bin -text\n"),
        ({"core.filemode": "false"}, b"*.txt ident\n"),
    ],
)
def test_line_ends_and_modes_come_out_as_git_add_has_them(lab, settings_, attributes):
    lab.commit(**{"crlf.txt": b"one\r\ntwo\r\n", "lf.txt": b"one\n", "x.bin": b"\0\r\n", "mode": b"m\n"})
    lab.commit(**{".gitattributes": attributes})
    for key, value in settings_.items():
        git("config", key, value, cwd=lab.root)
    place = lab.place()
    assert lab.paths(place) == []
    (place.path / "crlf.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    (place.path / "new.txt").write_bytes(b"new\r\n$Id$\r\n")
    (place.path / "mode").write_bytes(b"changed\n")
    (place.path / "mode").chmod(0o755)
    assert lab.checker.look(place, CAP).tree == lab.oracle(place)


def test_attributes_and_excludes_of_the_repository_hold(lab):
    lab.commit(a=b"a\n")
    (lab.root / ".git" / "info").mkdir(exist_ok=True)
    (lab.root / ".git" / "info" / "attributes").write_text("*.txt text eol=crlf\n")
    (lab.root / ".git" / "info" / "exclude").write_text("*.tmp\n")
    place = lab.place()
    (place.path / "x.txt").write_bytes(b"x\r\n")
    (place.path / "x.tmp").write_bytes(b"x")
    found = lab.checker.look(place, CAP)
    assert found.tree == lab.oracle(place)
    assert found.ignored == ("x.tmp",)


@pytest.mark.parametrize("where", ["plain", "with space and ü", "worktree", "dot-git-file", "sha256", "link"])
def test_every_kind_of_repository_gives_the_same_answer(tmp_path, where):
    kind = {"sha256": ["--object-format=sha256"], "dot-git-file": ["--separate-git-dir", f"{tmp_path}/git"]}
    lab = Lab(tmp_path / ("main" if where in {"worktree", "link"} else where), *kind.get(where, ()))
    lab.commit(a=b"a\n", b=b"b\n")
    if where == "worktree":
        git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"), cwd=lab.root)
        lab.root = tmp_path / "side"
    if where == "link":
        (tmp_path / "link").symlink_to(lab.root)
        lab.root = tmp_path / "link"
    place = lab.place()
    (place.path / "a").unlink()
    (place.path / "c").write_bytes(b"c\n")
    found = lab.checker.look(place, CAP)
    assert [change.path for change in found.changes] == ["a", "c"]
    assert found.tree == lab.oracle(place)
    lab.checker.write_patch(place.base, found.tree, tmp_path / "patch")
    assert tuple(lab.checker.changes_of_patch(place.base, tmp_path / "patch")) == found.changes
    assert found_place(lab.common, place.path, place.base, place.index_copy) == place


def test_a_patch_does_not_depend_on_the_users_diff_settings(lab, tmp_path, monkeypatch):
    place = rich(lab)
    for key, value in {"diff.noprefix": "true", "diff.context": "0", "apply.whitespace": "error"}.items():
        git("config", key, value, cwd=lab.root)
    (place.path / "src" / "a.py").write_text("a\n" * 20 + "b  \n" + "a\n" * 29)
    found = lab.checker.look(place, CAP)
    env = {"GIT_DIFF_OPTS": "-u0"}
    monkeypatch.setattr("workers.git._inherited", lambda: {**os.environ, **env})
    lab.checker.write_patch(place.base, found.tree, tmp_path / "patch")
    assert tuple(lab.checker.changes_of_patch(place.base, tmp_path / "patch")) == found.changes


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
