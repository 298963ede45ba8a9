"""What was changed is the same answer for every kind of repository and all settings of the user's git."""

import os

import pytest
from support.changes import CAP, Lab, rich

from workers.git.run import git
from workers.worktree.worktree import found_place


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
    assert lab.tree_of(place, lab.checker.look(place, CAP)) == lab.oracle(place)


def test_attributes_and_excludes_of_the_repository_hold(lab):
    lab.commit(a=b"a\n")
    (lab.root / ".git" / "info").mkdir(exist_ok=True)
    (lab.root / ".git" / "info" / "attributes").write_text("*.txt text eol=crlf\n")
    (lab.root / ".git" / "info" / "exclude").write_text("*.tmp\n")
    place = lab.place()
    (place.path / "x.txt").write_bytes(b"x\r\n")
    (place.path / "x.tmp").write_bytes(b"x")
    found = lab.checker.look(place, CAP)
    assert lab.tree_of(place, found) == lab.oracle(place)
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
    assert lab.tree_of(place, found) == lab.oracle(place)
    lab.checker.write_patch(place, found, tmp_path / "patch")
    assert tuple(lab.checker.changes_of_patch(place.base, tmp_path / "patch")) == found.changes
    assert found_place(lab.common, place.path, place.base, place.index_copy) == place


def test_a_patch_does_not_depend_on_the_users_diff_settings(lab, tmp_path, monkeypatch):
    place = rich(lab)
    for key, value in {"diff.noprefix": "true", "diff.context": "0", "apply.whitespace": "error"}.items():
        git("config", key, value, cwd=lab.root)
    (place.path / "src" / "a.py").write_text("a\n" * 20 + "b  \n" + "a\n" * 29)
    found = lab.checker.look(place, CAP)
    env = {"GIT_DIFF_OPTS": "-u0"}
    monkeypatch.setattr("workers.git.run._inherited", lambda: {**os.environ, **env})
    lab.checker.write_patch(place, found, tmp_path / "patch")
    assert tuple(lab.checker.changes_of_patch(place.base, tmp_path / "patch")) == found.changes
