"""The user's repository before and after: what only tampering does, what everyday work does, what is ours."""

import os
import time
from pathlib import Path

import pytest

from workers.git.metadata import note_move, own_moves
from workers.git.run import find_repository, git, git_line
from workers.git.snapshot import Lens, as_text, compare, from_text

WHO = ("-c", "user.name=a", "-c", "user.email=a@b")


class Lab:
    """A repository, its user's home, and a lens on both."""

    def __init__(self, folder: Path) -> None:
        self.root, self.home = folder / "repo", folder / "home"
        self.home.mkdir()
        self.root.mkdir()
        self.git("init", "-q", "-b", "main")
        (self.root / "a").write_text("a\n")
        self.git("add", "-A")
        self.git(*WHO, "commit", "-q", "-m", "base")
        (self.home / ".gitconfig").write_text("[user]\n\tname = Ada\n")
        found = find_repository(self.root)
        assert found is not None
        self.repository, self.common = found, found.common
        found.own.mkdir(exist_ok=True)
        self.lens = Lens(found, {"HOME": str(self.home)})

    def git(self, *arguments: str) -> None:
        git(*arguments, cwd=self.root)

    def differences(self, act) -> list[tuple[str, str]]:
        before = self.lens.snapshot()
        act(self)
        harm, moves = compare(before, self.lens.snapshot(), own_moves(self.repository.own))
        return [*((path, "harm") for path in harm), *((path, "move") for path in moves)]


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


def hook(lab):
    (lab.common / "hooks").mkdir(exist_ok=True)
    (lab.common / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
    (lab.common / "hooks" / "pre-commit").chmod(0o755)


def alternates(lab):
    (lab.common / "objects" / "info" / "alternates").write_text("/elsewhere\n")


def excluded(lab):
    (lab.common / "info").mkdir(exist_ok=True)
    (lab.common / "info" / "exclude").write_text("*\n")


def shared_hooks(lab):
    lab.git("config", "core.hooksPath", ".husky")


def swapped(lab):
    (lab.root / ".git").rename(lab.root / "other.git")
    (lab.root / ".git").symlink_to("other.git")


HARM = [
    (lambda lab: lab.git("config", "core.fsmonitor", "evil"), ".git/config"),
    (lambda lab: (lab.common / "config.worktree").write_text("[core]\n"), ".git/config.worktree"),
    (hook, ".git/hooks/pre-commit"),
    (alternates, ".git/objects/info/alternates"),
    (excluded, ".git/info/exclude"),
    (lambda lab: (lab.home / ".gitconfig").write_text("[core]\nhooksPath = /x\n"), "~/.gitconfig"),
    (shared_hooks, ".git/config"),
    (swapped, ".git"),
]


@pytest.mark.parametrize(("act", "path"), HARM)
def test_what_steers_git_is_missed_when_it_changes(lab, act, path):
    assert (path, "harm") in lab.differences(act)


def test_the_time_of_a_file_says_nothing_when_it_is_put_back(lab):
    config = lab.common / "config"

    def same_size_and_time(_lab):
        times = config.stat()
        config.write_bytes(config.read_bytes().replace(b"false", b"true!", 1))
        os.utime(config, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert (".git/config", "harm") in lab.differences(same_size_and_time)


def test_a_folder_of_hooks_and_an_included_file_are_watched_where_configuration_points_to_them(lab):
    (lab.root / ".husky").mkdir()
    (lab.root / ".husky" / "pre-commit").write_text("#!/bin/sh\n")
    (lab.common / "more").write_text("[core]\n")
    lab.git("config", "core.hooksPath", ".husky")
    lab.git("config", "include.path", "more")

    def meddle(lab):
        (lab.root / ".husky" / "pre-commit").write_text("#!/bin/sh\nevil\n")
        (lab.common / "more").write_text("[core]\nfsmonitor = evil\n")

    assert lab.differences(meddle) == [(".git/more", "harm"), (".husky/pre-commit", "harm")]


def test_a_submodules_configuration_and_hooks_are_watched_however_deep_its_name(lab):
    module = lab.common / "modules" / "libs" / "deep"
    (module / "hooks").mkdir(parents=True)
    (module / "HEAD").write_text("ref: refs/heads/main\n")
    act = lambda _lab: (module / "hooks" / "post-checkout").write_text("evil")  # noqa: E731 - one act of many
    assert lab.differences(act) == [(".git/modules/libs/deep/hooks/post-checkout", "harm")]


MOVES = [
    (lambda lab: lab.git(*WHO, "commit", "-q", "--allow-empty", "-m", "mine"), "refs/heads/main"),
    (lambda lab: lab.git("branch", "side"), "refs/heads/side"),
    (lambda lab: lab.git("tag", "v1"), "refs/tags/v1"),
    (lambda lab: lab.git("checkout", "-q", "-b", "side"), "HEAD"),
    (lambda lab: lab.git("update-ref", "refs/stash", "HEAD"), "refs/stash"),
    (lambda lab: lab.git("worktree", "add", "-q", "--detach", "../w"), "worktrees/w"),
]


@pytest.mark.parametrize(("act", "path"), MOVES)
def test_what_the_users_everyday_work_does_too_is_told_apart(lab, act, path):
    found = lab.differences(act)
    assert (path, "move") in found
    assert not [one for one in found if one[1] == "harm"]


def test_packing_refs_changes_nothing_and_collecting_garbage_is_a_move(lab):
    lab.git("branch", "side")
    assert lab.differences(lambda lab: lab.git("pack-refs", "--all", "--prune")) == []
    assert lab.differences(lambda lab: lab.git("gc", "-q")) == [("objects/pack", "move")]
    assert lab.differences(lambda lab: lab.git("status")) == []


@pytest.mark.parametrize("name", [".bashrc", ".ssh/authorized_keys", ".zshenv"])
def test_what_the_users_shell_runs_is_harm_where_it_appears_or_changes(lab, name):
    (lab.home / ".ssh").mkdir()
    path = lab.home / name
    assert lab.differences(lambda _: path.write_text("one\n")) == [(f"~/{name}", "harm")]
    assert lab.differences(lambda _: path.write_text("two\n")) == [(f"~/{name}", "harm")]
    assert lab.differences(lambda _: os.utime(path)) == []


def edited(lab):
    (lab.root / "a").write_text("x\n")


def edited_again(lab):
    times = (lab.root / "dirty").stat()
    (lab.root / "dirty").write_text("two\n")
    os.utime(lab.root / "dirty", ns=(times.st_atime_ns, times.st_mtime_ns))


def staged(lab):
    edited(lab)
    lab.git("add", "a")
    (lab.root / "a").write_text("a\n")


@pytest.mark.parametrize(
    ("act", "path"),
    [
        (edited, "a"), (edited_again, "dirty"), (staged, "a"), (lambda lab: (lab.root / "a").unlink(), "a"),
        (lambda lab: (lab.root / "new").mkdir() or (lab.root / "new" / "x").touch(), "new/x"),
        (lambda lab: os.mkfifo(lab.root / "a2") or (lab.root / "a3").symlink_to("a2"), "a3"),
    ],
)  # fmt: skip
def test_what_is_written_into_the_users_checkout_or_index_is_told(lab, act, path):
    (lab.root / "dirty").write_text("one\n")
    assert lab.differences(act) == [(path, "move")]


def test_refs_that_we_moved_and_worktrees_that_we_made_are_no_difference(lab):
    def ours(lab):
        sha = git_line(*WHO, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "state", cwd=lab.root)
        note_move(lab.repository.own, sha)
        lab.git("update-ref", "HEAD", sha)
        lab.git("update-ref", "refs/orchestrate/r", sha)
        lab.git("worktree", "add", "-q", "--detach", ".taskers/worktrees/r/W-1")

    assert lab.differences(ours) == []


def test_pipes_and_links_among_the_metadata_are_never_opened(lab):
    def pipes(lab):
        (lab.common / "hooks").mkdir(exist_ok=True)
        os.mkfifo(lab.common / "hooks" / "pre-push")
        os.mkfifo(lab.common / "refs" / "heads" / "pipe")
        (lab.common / "config.worktree").symlink_to(lab.common / "hooks" / "pre-push")

    found = lab.differences(pipes)
    assert (".git/hooks/pre-push", "harm") in found
    assert (".git/config.worktree", "harm") in found


def test_a_snapshot_can_be_written_down_and_read_back(lab):
    before = lab.lens.snapshot()
    found = from_text(as_text(before))
    assert found is not None
    assert compare(before, found) == ([], [])
    assert from_text(b"{") is None
    assert from_text(b"[]") is None


def test_a_thousand_loose_refs_are_looked_at_in_no_time(lab):
    sha = git_line("rev-parse", "HEAD", cwd=lab.root)
    folder = lab.common / "refs" / "heads" / "many"
    folder.mkdir()
    for number in range(1000):
        (folder / f"b{number}").write_text(sha + "\n")
    lab.lens.snapshot()
    start = time.process_time()
    snapshot = lab.lens.snapshot()
    spent = time.process_time() - start
    assert len(snapshot.places) > 1000
    assert spent < 2  # a git process for each would take five


def test_a_worktree_that_git_is_just_making_is_no_difference(lab):
    def act(lab):
        made = lab.common / "worktrees" / "r.W-1"
        made.mkdir(parents=True)
        (made / "gitdir").touch()

    assert lab.differences(act) == []


def test_a_folder_that_cannot_be_looked_into_is_a_difference_and_hides_no_other(lab, monkeypatch):
    listed = Path.iterdir

    def refused(path):
        if path.name == "hooks":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    def act(lab):
        hook(lab)
        monkeypatch.setattr(Path, "iterdir", refused)
        lab.git("config", "core.pager", "evil")

    assert {(".git/hooks", "harm"), (".git/config", "harm")} <= set(lab.differences(act))
