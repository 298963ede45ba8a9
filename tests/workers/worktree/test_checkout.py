"""A tree made ready as the user has it: files brought, submodules there, filters run where it is safe."""

import os
from pathlib import Path

import pytest
from support.changes import Lab

from workers.errors import WorkerError
from workers.git.run import find_repository, git, git_line
from workers.worktree.changes import Checker
from workers.worktree.checkout import Furniture, Made, make_tree
from workers.worktree.worktree import Place, found_place, modules_of, remove_place, remove_places_below

CAP = 10_000_000
LOCAL = ("-c", "protocol.file.allow=always")


class Making(Lab):
    """A repository in which trees are made as a run makes them."""

    def made(self, name: str = "W-1", base: str = "HEAD", **furniture) -> Made:
        found = find_repository(self.root)
        self.common = found.common
        self.checker = Checker(found.common, found.own / "runs" / "r", found.root)
        self.checker.prepare()
        sha = git_line("rev-parse", base, cwd=self.root)
        index = self.checker.directory / f"{name}.index"
        path = found.root / ".taskers" / "worktrees" / "r" / name
        return make_tree(found, self.checker, path, sha, index, furniture=Furniture(**furniture))

    def tree(self, **furniture) -> Place:
        place = self.made(**furniture).place
        self.checker.settle(place)
        return place

    def look(self, place: Place):
        return self.checker.look(place, CAP)

    def worktrees(self, root: Path) -> int:
        return git("worktree", "list", "--porcelain", cwd=root).count(b"worktree ")


@pytest.fixture
def lab(tmp_path):
    lab = Making(tmp_path / "repo")
    (lab.root / "src").mkdir()
    (lab.root / "src" / "a.py").write_text("a\n")
    lab.commit(**{".gitignore": b".env\nnode_modules/\n"})
    return lab


# What is brought


def test_untracked_files_are_copied_with_their_modes_and_links_as_links(lab):
    (lab.root / ".env").write_text("KEY=1\n")
    (lab.root / "src" / "local.cfg").write_text("x\n")
    (lab.root / "src" / "local.cfg").chmod(0o755)
    (lab.root / "src" / "to.cfg").symlink_to("/etc/passwd")
    (lab.root / "other").write_text("not asked for\n")
    place = lab.tree(copied=(".env", "src/*.cfg"))
    assert (place.path / ".env").read_text() == "KEY=1\n"
    assert (place.path / "src" / "local.cfg").stat().st_mode & 0o777 == 0o755
    assert (place.path / "src" / "to.cfg").is_symlink()
    assert not (place.path / "other").exists()
    found = lab.look(place)
    assert (found.changes, found.ignored) == ((), ())


def test_what_was_brought_and_then_changed_is_the_workers_change(lab, tmp_path):
    (lab.root / "local.cfg").write_text("x\n")
    (lab.root / "more.cfg").write_text("x\n")
    place = lab.tree(copied=("*.cfg",))
    (place.path / "local.cfg").write_text("changed\n")
    (place.path / "new.cfg").write_text("new\n")
    (place.path / "more.cfg").unlink()
    found = lab.look(place)
    assert [(one.path, one.old_mode) for one in found.changes] == [
        ("local.cfg", "000000"),
        ("new.cfg", "000000"),
    ]
    lab.checker.write_patch(place, found, tmp_path / "patch")
    assert tuple(lab.checker.changes_of_patch(place.base, tmp_path / "patch")) == found.changes


def test_what_a_setup_did_to_tracked_files_is_not_in_the_patch_of_who_leaves_them_alone(lab):
    place = lab.made().place
    (place.path / "src" / "a.py").write_text("by setup\n")
    (place.path / "lock.json").write_text("by setup\n")
    (place.path / "node_modules").mkdir()
    (place.path / "node_modules" / "x.js").write_text("x")
    lab.checker.settle(place)
    assert lab.look(place).changes == ()
    (place.path / "mine.py").write_text("mine\n")
    found = lab.look(place)
    assert [one.path for one in found.changes] == ["mine.py"]
    assert found.ignored == ()
    (place.path / "src" / "a.py").write_text("a\n")
    assert [one.path for one in lab.look(place).changes] == ["mine.py"], "what it put back is as it was"


def test_folders_are_linked_and_what_is_not_there_is_named(lab):
    (lab.root / "node_modules").mkdir()
    (lab.root / "web" / "node_modules").mkdir(parents=True)
    place, missing = lab.made(linked=("node_modules", "*/node_modules", ".venv", "api/*/x"))
    lab.checker.settle(place)
    assert (place.path / "node_modules").readlink() == lab.root / "node_modules"
    assert (place.path / "web" / "node_modules").is_symlink()
    assert missing == (".venv", "api/*/x")
    assert lab.look(place).changes == (), "`node_modules/` ignores folders, and this is a link"
    remove_place(place)
    assert (lab.root / "node_modules").is_dir()


def test_a_link_over_what_git_tracks_is_refused_and_nothing_is_left(lab):
    with pytest.raises(WorkerError, match="'src' is there already"):
        lab.made(linked=("src",))
    assert lab.worktrees(lab.root) == 1
    assert not (lab.root / ".taskers" / "worktrees" / "r" / "W-1").exists()


def test_nothing_is_brought_through_a_link_that_a_worker_has_landed(lab, tmp_path):
    (lab.root / "conf").mkdir()
    (lab.root / "conf" / ".env").write_text("KEY=1\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    other = tmp_path / "other"
    git("worktree", "add", "-q", "--detach", str(other), cwd=lab.root)
    (other / "conf").symlink_to(outside)
    git("add", "-A", cwd=other)
    git("commit", "-q", "-m", "evil", cwd=other)
    evil = git_line("rev-parse", "HEAD", cwd=other)
    with pytest.raises(WorkerError, match="'conf' is not a folder"):
        lab.made(base=evil, copied=("conf/.env",))
    assert list(outside.iterdir()) == []


def test_a_pipe_among_what_is_to_be_copied_is_passed_over(lab):
    os.mkfifo(lab.root / "a.env")
    (lab.root / "b.env").write_text("x")
    place = lab.tree(copied=("*.env",))
    assert [path.name for path in place.path.glob("*.env")] == ["b.env"]


# Submodules


@pytest.fixture
def nested(lab, tmp_path):
    for name in ("inner", "lib"):
        (tmp_path / name).mkdir()
        git("init", "-q", "-b", "main", cwd=tmp_path / name)
        (tmp_path / name / f"{name}.c").write_text(f"{name}\n")
        if name == "lib":
            git(*LOCAL, "submodule", "--quiet", "add", str(tmp_path / "inner"), "deep", cwd=tmp_path / name)
        git("add", "-A", cwd=tmp_path / name)
        git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x", cwd=tmp_path / name)
    for path in ("vendor/lib", "idle"):
        git(*LOCAL, "submodule", "--quiet", "add", str(tmp_path / "lib"), path, cwd=lab.root)
    lab.commit()
    git(*LOCAL, "submodule", "--quiet", "update", "--init", "--recursive", "vendor/lib", cwd=lab.root)
    git("submodule", "--quiet", "deinit", "-f", "idle", cwd=lab.root)
    for name in ("inner", "lib"):
        (tmp_path / name).rename(tmp_path / f"{name}-unreachable")
    return lab


def test_submodules_are_there_as_far_as_the_user_has_them_and_no_network_is_asked(nested):
    place = nested.tree()
    assert (place.path / "vendor" / "lib" / "lib.c").read_text() == "lib\n"
    assert (place.path / "vendor" / "lib" / "deep" / "inner.c").read_text() == "inner\n"
    assert list((place.path / "idle").iterdir()) == []
    assert git("status", "--porcelain", cwd=place.path) == b""
    assert git("status", "--porcelain", cwd=place.path / "vendor" / "lib") == b""
    found = nested.look(place)
    assert (found.changes, found.inside, found.special, found.ignored) == ((), (), (), ())


def test_what_is_changed_in_a_submodule_is_told_at_any_depth(nested):
    place = nested.tree()
    lib = place.path / "vendor" / "lib"
    (lib / "lib.c").write_text("changed\n")
    (lib / "deep" / "new.c").write_text("new\n")
    os.mkfifo(lib / "pipe")
    (place.path / "idle" / "hidden.py").write_text("in what was to be empty\n")
    git(
        "-c",
        "user.name=n",
        "-c",
        "user.email=e",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "x",
        cwd=lib / "deep",
    )
    found = nested.look(place)
    assert sorted(found.inside) == [
        "idle/hidden.py",
        "vendor/lib/deep/HEAD",
        "vendor/lib/deep/new.c",
        "vendor/lib/lib.c",
        "vendor/lib/pipe",
    ]
    assert found.changes == ()


def test_a_submodule_that_became_a_folder_of_its_own_is_told(nested):
    place = nested.tree()
    (place.path / "vendor" / "lib" / ".git").unlink()
    assert nested.look(place).inside == ("vendor/lib/.git",)


def test_taking_a_tree_away_takes_its_submodules_worktrees_along(nested):
    module = nested.root / "vendor" / "lib"
    assert nested.worktrees(module) == 1
    place = nested.tree()
    assert nested.worktrees(module) == 2
    remove_place(place)
    assert nested.worktrees(module) == nested.worktrees(module / "deep") == 1
    nested.tree()
    remove_places_below(nested.common, nested.root / ".taskers" / "worktrees" / "r")
    assert nested.worktrees(module) == nested.worktrees(module / "deep") == nested.worktrees(nested.root) == 1
    nested.tree()
    assert (nested.root / ".taskers/worktrees/r/W-1/vendor/lib/lib.c").exists(), "and again"


def test_a_place_is_found_again_with_all_that_is_in_it(nested):
    place = nested.tree()
    again = found_place(nested.common, place.path, place.base, place.index_copy)
    assert again == place
    (module,) = modules_of(again)
    (inner,) = modules_of(module.place)
    assert (module.path, inner.path) == ("vendor/lib", "deep")
    assert nested.look(again).inside == ()


# Filters

POINTER = "pointer to {}\n"
FILTER = """
import os, sys
from pathlib import Path
store, way = Path(sys.argv[1]), sys.argv[2]
with (store / "cwd").open("a") as file:
    file.write(os.getcwd() + chr(10))
data = sys.stdin.buffer.read()
if way == "clean":
    (store / str(len(data))).write_bytes(data)
    sys.stdout.write(f"pointer to {len(data)}" + chr(10))
else:
    number = data.split()[-1].decode()
    kept = store / number
    sys.stdout.buffer.write(kept.read_bytes() if kept.exists() else data)
"""


@pytest.fixture
def large(lab, tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    (lab.root / "tools").mkdir()
    (lab.root / "tools" / "filter.py").write_text(FILTER)
    # Named by its place in the repository, as many are: in a worker's tree it would be the worker's program.
    for way in ("clean", "smudge"):
        git("config", f"filter.big.{way}", f"python3 tools/filter.py {store} {way}", cwd=lab.root)
    lab.store = store
    lab.commit(
        **{".gitattributes": b"*.bin filter=big -text\n", "one.bin": b"x" * 1000, "two.bin": b"y" * 2000}
    )
    assert git("show", "HEAD:one.bin", cwd=lab.root) == b"pointer to 1000\n"
    (store / "cwd").write_text("")
    return lab


def test_filtered_files_are_there_as_in_the_users_checkout_and_are_no_change(large):
    place = large.tree()
    assert (place.path / "one.bin").read_bytes() == b"x" * 1000
    (large.store / "cwd").write_text("")
    assert large.look(place).changes == ()
    assert (large.store / "cwd").read_text() == "", "nothing was cleaned to find that out"


def test_filtered_files_come_back_as_their_pointers(large):
    place = large.tree()
    (place.path / "one.bin").write_bytes(b"z" * 3000)
    (place.path / "new.bin").write_bytes(b"n" * 4000)
    (place.path / "plain.txt").write_text("plain\n")
    found = large.look(place)
    assert [one.path for one in found.changes] == ["new.bin", "one.bin", "plain.txt"]
    kept = {one.path: git("cat-file", "blob", one.new_sha, cwd=large.root) for one in found.changes}
    assert kept["one.bin"] == b"pointer to 3000\n"
    assert kept["new.bin"] == b"pointer to 4000\n"
    assert large.tree_of(place, found) == large.oracle(place)
    (place.path / "one.bin").write_bytes(b"x" * 1000)
    (place.path / "new.bin").unlink()
    assert [one.path for one in large.look(place).changes] == ["plain.txt"]


def test_a_filter_runs_in_the_users_checkout_and_never_the_program_of_a_worker(large, tmp_path):
    canary = tmp_path / "canary"
    place = large.tree()
    evil = f"import sys; open({str(canary)!r}, 'w'); sys.stdout.write(sys.stdin.read())"
    (place.path / "tools" / "filter.py").write_text(evil)
    (place.path / "one.bin").write_bytes(b"z" * 3000)
    found = large.look(place)
    parent = large.checker.commit(large.tree_of(place, found), place.base, "the tree of its acceptance")
    remove_place(place)
    accepting = large.made(base=parent).place
    assert (accepting.path / "one.bin").read_bytes() == b"z" * 3000
    assert (accepting.path / "tools" / "filter.py").read_text() == evil
    assert not canary.exists()
    assert set((large.store / "cwd").read_text().split()) == {str(large.root)}


def test_an_object_that_is_not_there_stays_what_the_filter_makes_of_it(large):
    (large.store / "1000").unlink()
    place = large.tree()
    assert (place.path / "one.bin").read_bytes() == b"pointer to 1000\n"
    assert large.look(place).changes == ()


def test_a_filter_that_fails_fails_the_worker_and_no_raw_file_gets_in(large):
    place = large.tree()
    (place.path / "one.bin").write_bytes(b"z" * 3000)
    (large.root / "tools" / "filter.py").write_text("import sys; sys.exit('the store is full')")
    with pytest.raises(WorkerError, match=r"changes could not be read: .*the store is full"):
        large.look(place)


def test_only_filters_that_the_user_had_configured_when_the_run_began_are_run(large, tmp_path):
    place = large.tree()
    git("config", "filter.evil.clean", f"touch {tmp_path}/canary; cat", cwd=large.root)
    git("config", "filter.big.clean", f"touch {tmp_path}/canary; cat", cwd=large.root)
    (place.path / ".gitattributes").write_text("*.bin filter=big -text\n*.txt filter=evil\n")
    (place.path / "a.txt").write_text("a\n")
    (place.path / "one.bin").write_bytes(b"z" * 3000)
    fresh = Checker(large.common, large.checker.directory, large.root)
    fresh.prepare()
    assert [one.path for one in fresh.look(place, CAP).changes] == [".gitattributes", "a.txt", "one.bin"]
    assert not (tmp_path / "canary").exists()


def test_a_repository_without_filtered_files_asks_for_none(lab, tmp_path):
    git("config", "filter.lfs.smudge", f"touch {tmp_path}/canary; cat", cwd=lab.root)
    git("config", "filter.lfs.required", "true", cwd=lab.root)
    place = lab.tree()
    (place.path / "x.py").write_text("x\n")
    assert [one.path for one in lab.look(place).changes] == ["x.py"]
    assert not (tmp_path / "canary").exists()
