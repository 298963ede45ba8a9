"""Whatever a worker does with git in its tree hides no change and has nothing run by ours."""

import shutil
import subprocess
from pathlib import Path

import pytest
from support.changes import CAP, Lab, rich

from workers.git.run import git
from workers.worktree.worktree import Place, left_its_base, remove_place


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
    lab.checker.write_patch(place, found, tmp_path / "patch")
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
    lab.checker.write_patch(place, found, tmp_path / "patch")
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
