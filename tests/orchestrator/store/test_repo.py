"""The user's repository is read as it is, and gains commits without losing anything of theirs."""

import os
import shutil
import subprocess

import pytest
from support.repository import Lab, seen_in, shell

from orchestrator.store.repo import RepoBlocked, UserRepo
from workers.git.run import find_repository


def repo_of(root):
    found = find_repository(root)
    assert found is not None
    found.own.mkdir(exist_ok=True)
    return UserRepo(found)


def test_a_head_is_told_in_each_of_its_states(lab):
    sha = lab.git("rev-parse", "HEAD").strip()
    assert repo_of(lab.root).head() == (sha, "refs/heads/main")
    lab.git("switch", "-q", "--detach")
    assert repo_of(lab.root).head() == (sha, None)
    lab.git("switch", "-q", "--orphan", "fresh")
    assert repo_of(lab.root).head() == (None, "refs/heads/fresh")


@pytest.mark.parametrize(
    ("name", "words"),
    [("MERGE_HEAD", "a merge"), ("rebase-merge/", "a rebase"), ("rebase-apply/", "a rebase"),
     ("CHERRY_PICK_HEAD", "a cherry-pick"), ("REVERT_HEAD", "a revert")],
)  # fmt: skip
def test_what_the_user_is_in_the_middle_of_is_named_and_left_alone(lab, name, words):
    path = lab.root / ".git" / name
    path.mkdir() if name.endswith("/") else path.write_text("x")
    (lab.root / "STATUS.md").write_text("changed\n")
    with pytest.raises(RepoBlocked, match=f"{words} is in progress"):
        repo_of(lab.root).commit_paths(["STATUS.md"], "no")


def test_a_merge_in_another_worktree_is_none_of_ours(lab):
    lab.git("worktree", "add", "-q", "-b", "side", str(lab.root.parent / "side"))
    (lab.root / ".git" / "MERGE_HEAD").write_text("x")
    assert repo_of(lab.root).in_progress() == "a merge"
    assert repo_of(lab.root.parent / "side").in_progress() is None


def test_uncommitted_paths_are_listed_by_their_own_names(lab):
    names = ["new\nline", '"quoted"', " spaced ", "ümlaut", "dir/inner"]
    for name in names:
        lab.write(name, "x")
    lab.git("mv", "src/app.py", "src/moved.py")
    lab.git("config", "status.showUntrackedFiles", "no")
    lab.git("config", "status.renames", "copies")
    assert sorted(repo_of(lab.root).uncommitted()) == sorted([*names, "src/app.py", "src/moved.py"])


def test_links_are_told_with_their_targets_as_written(lab):
    (lab.root / "one").symlink_to("../outside")
    (lab.root / "two").symlink_to("src")
    lab.git("add", "one", "two")
    (lab.root / "untracked").symlink_to("src")
    assert repo_of(lab.root).links() == {"one": "../outside", "two": "src"}


def test_a_commit_of_some_paths_holds_these_alone_without_one_that_git_ignores(lab):
    lab.commit({"a": "a\n", "b": "b\n", ".gitignore": "ignored\n"})
    for name in ("a", "c", "ignored"):
        lab.write(name, "new\n")
    (lab.root / "b").unlink()
    lab.write("src/app.py", "staged\n")
    lab.git("add", "src/app.py")
    made = repo_of(lab.root).commit_paths(["a", "b", "ignored", "never-was"], "message\n")
    assert made == lab.git("rev-parse", "HEAD").strip()
    assert lab.git("show", "--format=", "--name-status", "HEAD").split() == [
        "M",
        "a",
        "D",
        "b",
    ]
    assert lab.git("status", "--porcelain") == "M  src/app.py\n?? c\n"
    assert repo_of(lab.root).commit_paths(["a", "b", "ignored", "never-was"], "again\n") is None


def test_a_commit_takes_the_place_of_what_the_user_had_staged_of_the_same_file_only(lab):
    lab.write("STATUS.md", "staged half\n")
    lab.git("add", "STATUS.md")
    lab.write("STATUS.md", "the whole\n")
    repo_of(lab.root).commit_paths(["STATUS.md"], "message\n")
    assert lab.git("show", "HEAD:STATUS.md") == "the whole\n"
    assert lab.git("status", "--porcelain") == ""


def test_commits_of_ours_are_found_whatever_the_users_log_settings_are(lab):
    base = lab.git("rev-parse", "HEAD").strip()
    for key, value in {"log.showSignature": "true", "grep.patternType": "fixed", "log.decorate": "full",
                       "format.pretty": "oneline", "core.pager": "false"}.items():  # fmt: skip
        lab.git("config", key, value)
    made = []
    for run in ("20260216_142834", "20260216_142834_2", "20260216_142834"):
        message = f"Land\n\n- x\n\nOrchestrate-Run: {run}\nOrchestrate-Workers: A\n"
        lab.git("commit", "-q", "--allow-empty", "-m", message)
        made.append(lab.git("rev-parse", "HEAD").strip())
    lab.git("commit", "-q", "--allow-empty", "-m", "about Orchestrate-Run: 20260216_142834 in prose")
    found = repo_of(lab.root).commits_with("Orchestrate-Run", "20260216_142834", base)
    assert list(found) == [made[0], made[2]]
    assert found[made[0]].startswith("Land\n\n- x")
    assert repo_of(lab.root).commits_with("Orchestrate-Run", "20260216_142834", base, "refs/no/where") == {}


@pytest.mark.parametrize("has", [(), ("user.name",), ("user.email",), ("user.name", "user.email")])
def test_a_commit_has_an_author_whatever_git_knows(lab, has, monkeypatch):
    monkeypatch.setenv("HOME", str(lab.home))
    for name in [name for name in os.environ if name.startswith("GIT_") or name == "EMAIL"]:
        monkeypatch.delenv(name)
    lab.git("config", "user.useConfigOnly", "true")
    for name in {"user.name", "user.email"} - set(has):
        lab.git("config", "--unset", name)
    lab.write("STATUS.md", "changed\n")
    repo_of(lab.root).commit_paths(["STATUS.md"], "message\n")
    author = lab.git("log", "-1", "--format=%an <%ae> %cn <%ce>").strip()
    who = "Ada Lead <ada@localhost>" if len(has) == 2 else "orchestrate <orchestrate@localhost>"
    assert author == f"{who} {who}"


def test_what_git_refuses_is_said_in_its_words_and_with_exit_code_one(lab):
    (lab.root / ".git" / "index").write_bytes(b"broken")
    with pytest.raises(RepoBlocked, match=r"git ls-files: .*index") as blocked:
        repo_of(lab.root).index_entries(["STATUS.md"])
    assert blocked.value.exit_code == 1


FOREIGN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")


@pytest.mark.hardening
def test_a_foreign_git_environment_reaches_neither_us_nor_a_worker(lab):
    """T04: a decoy that five variables name is left alone, and the work lands where it belongs."""
    decoy = lab.root.parent / "decoy"
    subprocess.run(["git", "init", "-q", decoy], check=True, env=lab.env())
    (decoy / "file").write_text("decoy\n")
    before = seen_in(decoy)
    inside = decoy / ".git"
    foreign = dict(
        zip(FOREIGN, map(str, (inside, decoy, inside / "index", inside, inside / "objects")), strict=True)
    )
    script = f"mkdir out; env | grep -cE '^({'|'.join(FOREIGN)})=' > out/seen; true"
    lab.templates(command_1=shell(script, mode="write", owns=["out/**"]))
    called = lab.call("run", "phase-1", "--json", env=foreign)
    assert called.code == 0, called
    assert (lab.root / "out/seen").read_text() == "0\n"
    assert seen_in(decoy) == before
    landing = called.document["commit"]["landing"]
    assert f"\nOrchestrate-Run: {called.document['run']}\n" in lab.git("log", "-1", "--format=%B", landing)


@pytest.mark.parametrize("where", ["worktree", "space and ü", "link", "subfolder", "separate"])
def test_a_run_lands_in_every_kind_of_repository(lab, where):
    lab.templates(
        command_1=shell(
            "mkdir out; echo 1 > out/1", mode="write", owns=["out/**"], acceptance=["test -f out/1"]
        )
    )
    root, at = lab.root.parent / where, None
    if where == "worktree":
        lab.git("worktree", "add", "-q", "-b", "side", str(root))
    elif where == "space and ü":
        shutil.copytree(lab.root, root, symlinks=True)
    elif where == "link":
        root.symlink_to(lab.root)
    elif where == "separate":
        root = lab.root
        lab.git("init", "-q", "--separate-git-dir", str(lab.root.parent / "elsewhere"))
    else:
        root, at = lab.root, lab.root / "src"
    here = Lab(root, lab.home)
    called = here.call("run", "phase-1", "--json", cwd=at)
    assert called.code == 0, called
    assert here.git("status", "--porcelain") == ""
    assert here.git("show", "--format=", "--name-only", called.document["commit"]["landing"]).split() == [
        "out/1"
    ]
    if where == "worktree":
        assert lab.git("log", "-1", "--format=%s", "main") == "files\n"
        assert not (lab.root / "out").exists()
    assert "Codex" not in here.git("worktree", "list")
