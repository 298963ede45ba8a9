"""A landing is a branch, an index and a work tree moved as one, and nothing of the user's with them."""

import itertools
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.crash import Fault, done_in_child, faults_of
from support.repository import seen_in

from orchestrator.store.landing import Landing, advance, refuse_unready
from orchestrator.store.repo import RepoBlocked, UserRepo
from orchestrator.store.store import Store
from workers.git.run import find_repository
from workers.worktree.changes import Checker

IS_SOAK = os.environ.get("ORCHESTRATE_SOAK") == "1"

RICH = {
    "src/a.py": "a\n", "src/deep/b.py": "b\n", "plain": "plain\n", "gone": "gone\n", "other": "other\n",
    "edited": "".join(f"{n}\n" for n in range(9)),
}  # fmt: skip


class Site:
    """A repository with a landing that is ready to be made."""

    def __init__(self, lab):
        self.lab = lab
        lab.commit(RICH)
        (lab.root / "link").symlink_to("src")
        (lab.root / "run.sh").write_text("#!/bin/sh\n")
        lab.git("add", "-A")
        lab.git("commit", "-qm", "link")
        found = find_repository(lab.root)
        assert found is not None
        self.repository = found
        self.checker = Checker(found.common, found.own / "runs" / "r")
        self.checker.prepare()
        self.old = lab.git("rev-parse", "HEAD").strip()
        lab.write(".taskers/.gitignore", "*\n")

    def landing(self, mutate, ref="refs/heads/main"):
        """Make the commit of what `mutate` does to a tree, without moving anything."""
        lab, side = self.lab, self.lab.root.parent / "side"
        lab.git("worktree", "add", "-q", "--detach", str(side), self.old)
        mutate(side)
        subprocess.run(["git", "add", "-A"], cwd=side, check=True)
        tree = subprocess.run(["git", "write-tree"], cwd=side, check=True, capture_output=True, text=True)
        lab.git("worktree", "remove", "--force", str(side))
        new = UserRepo(self.repository).commit_tree(
            tree.stdout.strip(), self.old, "Land\n\nOrchestrate-Run: r\n"
        )
        return Landing("r", ref, self.old, new, tuple(self.checker.changes(self.old, new)))

    def land(self, landing):
        return Store(self.repository).land(landing)

    def status(self):
        return self.lab.git("status", "--porcelain")

    def holds(self, commit):
        """Check that branch, index and work tree are all at a commit."""
        assert self.lab.git("rev-parse", "main").strip() == commit
        assert self.status() == ""


@pytest.fixture
def site(lab):
    return Site(lab)


def edit(tree):
    (tree / "edited").write_text("landed\n")
    (tree / "new" / "deep").mkdir(parents=True)
    (tree / "new" / "deep" / "file").write_bytes(b"\0binary")
    (tree / "gone").unlink()
    (tree / "run.sh").chmod(0o755)


def file_to_folder(tree):
    (tree / "plain").unlink()
    (tree / "plain").mkdir()
    (tree / "plain" / "inner").write_text("x")


def folder_to_file(tree):
    shutil.rmtree(tree / "src")
    (tree / "src").write_text("a file")


def link_to_folder(tree):
    (tree / "link").unlink()
    (tree / "link").mkdir()
    (tree / "link" / "a.py").write_text("no link")


def folder_to_link(tree):
    shutil.rmtree(tree / "src" / "deep")
    (tree / "src" / "deep").symlink_to("/etc")


def odd_names(tree):
    for name in (b"new\nline", b'"quoted"', b"not-\xff", b" spaces ", b":(top)x", b"-dash", b"\\back"):
        Path(os.fsdecode(os.fsencode(tree) + b"/" + name)).write_bytes(name)


MUTATIONS = [edit, file_to_folder, folder_to_file, link_to_folder, folder_to_link, odd_names]


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_branch_index_and_work_tree_arrive_together(site, mutate):
    landing = site.landing(mutate)
    assert site.land(landing) == []
    site.holds(landing.new)
    assert advance(UserRepo(site.repository), landing) == []  # twice is once
    site.holds(landing.new)
    assert not list((site.lab.root / ".taskers").glob("landing-*"))


@pytest.mark.parametrize(
    ("mutate", "left_out"), [(edit, ()), (folder_to_file, ()), (edit, ("edited", "gone", "run.sh"))]
)
def test_a_kill_at_any_step_leaves_the_old_state_or_one_that_is_finished(site, mutate, left_out):
    landing = site.landing(mutate)
    if left_out:
        site.lab.git("sparse-checkout", "set", "--no-cone", "/*", *(f"!/{path}" for path in left_out))
    (site.lab.root / "mine.txt").write_text("staged\n")
    site.lab.git("add", "mine.txt")
    pristine = site.lab.root.parent / "pristine"
    shutil.copytree(site.lab.root, pristine, symlinks=True)
    seen = set()
    for step in itertools.count(1):
        early = done_in_child(lambda: len(site.land(landing)), Fault("killed before", step)).killed
        assert Store(site.repository).finish() == []
        head = site.lab.git("rev-parse", "main").strip()
        seen.add(head)
        assert site.status() == "A  mine.txt\n", f"half a landing after step {step}"
        assert Store(site.repository).pending() == []
        assert not list((site.lab.root / ".taskers").glob("landing-*"))
        if not early:
            break
        if head == landing.new:
            shutil.rmtree(site.lab.root)
            shutil.copytree(pristine, site.lab.root, symlinks=True)
    assert head == landing.new
    assert seen == {landing.old, landing.new}
    assert step > 15
    assert not any((site.lab.root / path).exists() for path in left_out)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_any_fault_of_a_landing_leaves_the_old_state_or_one_that_is_finished(site, capsys):
    landing = site.landing(edit)
    (site.lab.root / "mine.txt").write_text("staged\n")
    site.lab.git("add", "mine.txt")
    pristine = site.lab.root.parent / "pristine"
    shutil.copytree(site.lab.root, pristine, symlinks=True)
    steps = done_in_child(lambda: len(site.land(landing))).steps
    faults = [fault for at, step in enumerate(steps, 1) for fault in faults_of(step, at)]
    tried, seen = faults if IS_SOAK else faults[::13], []
    for fault in tried:
        shutil.rmtree(site.lab.root)
        shutil.copytree(pristine, site.lab.root, symlinks=True)
        outcome = done_in_child(lambda: len(site.land(landing)), fault)
        why = (fault, steps[fault.at - 1], outcome)
        assert Store(site.repository).finish() == [], why
        seen.append(site.lab.git("rev-parse", "main").strip())
        assert site.status() == "A  mine.txt\n", why
        assert Store(site.repository).pending() == [], why
        assert not list((site.lab.root / ".taskers").glob("landing-*")), why
        assert outcome.code or seen[-1] == landing.new, why
    assert set(seen) == {landing.old, landing.new}
    with capsys.disabled():
        whole = seen.count(landing.new)
        print(f"\n{len(steps)} operations of a landing, {len(tried)} of {len(faults)} faults: "
              f"{whole} landed whole, {len(seen) - whole} not at all")  # fmt: skip


def test_what_the_user_has_staged_elsewhere_stays_staged_to_the_byte(site):
    (site.lab.root / "other").write_text("staged\n")
    site.lab.git("add", "other")
    (site.lab.root / "other").write_text("and edited further\n")
    (site.lab.root / "untracked").write_text("mine\n")
    landing = site.landing(edit)
    assert site.land(landing) == []
    assert site.status() == "MM other\n?? untracked\n"
    assert site.lab.git("show", ":other") == "staged\n"
    assert (site.lab.root / "other").read_text() == "and edited further\n"


def uncommitted(lab):
    (lab.root / "edited").write_text("mine\n")
    return "edited"


def staged(lab):
    (lab.root / "edited").write_text("mine\n")
    lab.git("add", "edited")
    (lab.root / "edited").write_text(RICH["edited"])
    return "edited"


def untracked(lab):
    (lab.root / "new" / "deep").mkdir(parents=True)
    (lab.root / "new" / "deep" / "file").write_text("mine\n")
    return "new/deep/file"


def ignored(lab):
    (lab.root / ".git" / "info").mkdir(exist_ok=True)
    (lab.root / ".git" / "info" / "exclude").write_text("new/\n")
    return untracked(lab)


def file_in_the_way_of_a_folder(lab):
    (lab.root / "new").write_text("mine\n")
    return "new/deep/file"


def link_in_the_way_of_a_folder(lab):
    (lab.root / "elsewhere").mkdir()
    (lab.root / "new").symlink_to("elsewhere")
    return "new/deep/file"


def folder_in_the_way_of_a_file(lab):
    (lab.root / "new" / "deep" / "file").mkdir(parents=True)
    (lab.root / "new" / "deep" / "file" / "mine").write_text("mine\n")
    return "new/deep/file"


def deleted(lab):
    (lab.root / "edited").unlink()
    return "edited"


def mode_changed(lab):
    (lab.root / "edited").chmod(0o755)
    return "edited"


@pytest.mark.hardening
@pytest.mark.parametrize(
    ("path", "target"), [("current", "/etc"), ("deep/er/current", "/etc"), ("current", "nowhere")]
)
def test_a_folder_of_links_is_the_users(site, path, target):
    """T64: links to folders count as content, where git ignores the folder."""
    landing = site.landing(edit)
    (site.lab.root / ".git/info/exclude").write_text("new/\n")
    link = site.lab.root / "new/deep/file" / path
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    with pytest.raises(RepoBlocked) as blocked:
        site.land(landing)
    assert [problem.place for problem in blocked.value.problems] == ["new/deep/file"]
    assert str(link.readlink()) == target
    assert Store(site.repository).pending() == []


@pytest.mark.parametrize(
    "own",
    [uncommitted,
     staged, untracked, ignored, file_in_the_way_of_a_folder, link_in_the_way_of_a_folder,
     folder_in_the_way_of_a_file, deleted, mode_changed],
)  # fmt: skip
def test_a_landing_on_the_users_own_changes_is_refused_by_name_and_touches_nothing(site, own):
    landing = site.landing(edit)
    named = own(site.lab)
    site.lab.git("status")
    before = seen_in(site.lab.root)
    with pytest.raises(RepoBlocked) as blocked:
        site.land(landing)
    assert [problem.place for problem in blocked.value.problems] == [named]
    after = seen_in(site.lab.root)
    assert {k: v for k, v in after.items() if "orchestrate" not in k} == {
        k: v for k, v in before.items() if "orchestrate" not in k
    }
    assert Store(site.repository).pending() == []


@pytest.mark.parametrize("attributes", ["* text=auto\n", "", "*.txt text eol=crlf\n"])
@pytest.mark.parametrize("autocrlf", ["false", "input", "true"])
def test_line_ends_that_git_takes_for_unchanged_are_unchanged(lab, attributes, autocrlf):
    lab.commit({"mixed": "x"})
    (lab.root / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    (lab.root / "lf.txt").write_bytes(b"one\ntwo\n")
    lab.git("add", "-A")
    lab.git("commit", "-qm", "crlf")
    (lab.root / ".gitattributes").write_text(attributes)
    lab.git("add", "-A")
    lab.git("commit", "-q", "--allow-empty", "-m", "attributes")
    lab.git("config", "core.autocrlf", autocrlf)
    site = Site(lab)

    def change(tree):
        (tree / "crlf.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
        (tree / "lf.txt").write_bytes(b"one\ntwo\nthree\n")

    landing = site.landing(change)
    assert site.land(landing) == []
    assert lab.git("rev-parse", "main").strip() == landing.new
    assert lab.git("diff", "HEAD", "--stat") == ""


def test_a_repository_that_does_not_trust_modes_is_landed_on(site):
    site.lab.git("config", "core.filemode", "false")
    (site.lab.root / "run.sh").chmod(0o755)
    landing = site.landing(lambda tree: (tree / "run.sh").write_text("#!/bin/sh\necho\n"))
    assert site.land(landing) == []
    site.holds(landing.new)


def test_a_branch_that_has_moved_is_told_and_left_alone(site):
    landing = site.landing(edit)
    site.lab.commit({"later": "x"})
    head = site.lab.git("rev-parse", "main").strip()
    with pytest.raises(RepoBlocked, match="the branch has moved"):
        site.land(landing)
    site.holds(head)


def test_another_branch_and_a_merge_in_progress_are_refused(site):
    landing = site.landing(edit)
    site.lab.git("switch", "-qc", "side")
    with pytest.raises(RepoBlocked, match="switch back to that branch"):
        site.land(landing)
    site.lab.commit({"plain": "side\n"})
    site.lab.git("switch", "-q", "main")
    site.lab.commit({"plain": "main\n"})
    site.lab.git("merge", "side", check=False)
    with pytest.raises(RepoBlocked, match="a merge is in progress"):
        site.land(landing)
    site.lab.git("merge", "--abort")


def test_a_detached_head_keeps_its_tree_and_the_work_lands_on_a_ref_of_its_own(site):
    landing = site.landing(edit, ref="refs/orchestrate/r")
    site.lab.git("switch", "-q", "--detach")
    assert site.land(landing) == []
    assert site.lab.git("rev-parse", "refs/orchestrate/r").strip() == landing.new
    site.holds(landing.old)


def test_without_commits_only_the_work_tree_changes(site):
    landing = site.landing(edit, ref="")
    assert site.land(landing) == []
    assert site.lab.git("rev-parse", "HEAD").strip() == landing.old
    assert site.status() == " M edited\n D gone\n M run.sh\n?? new/\n"


def test_a_landing_waits_for_the_index_lock_of_a_living_git(site):
    landing = site.landing(edit)
    lock = site.lab.root / ".git" / "index.lock"
    lock.touch()
    holder = subprocess.Popen(["sh", "-c", f"sleep 0.7; rm {lock}"])
    assert site.land(landing) == []
    holder.wait()
    site.holds(landing.new)


def test_an_index_lock_that_nobody_removes_is_named_and_nothing_is_touched(site, monkeypatch):
    monkeypatch.setattr("orchestrator.store.repo.LOCK_WAIT", 0.2)
    landing = site.landing(edit)
    lock = site.lab.root / ".git" / "index.lock"
    lock.touch()
    with pytest.raises(RepoBlocked, match=r"index\.lock: another git process holds the index"):
        site.land(landing)
    assert lock.exists()
    lock.unlink()
    site.holds(landing.old)


def append(path, line):
    with path.open("ab") as file:
        file.write(line)


def rename(path, line):
    aside = path.with_name(f"{path.name}~")
    aside.write_bytes((path.read_bytes() if path.exists() else b"") + line)
    aside.replace(path)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("save", [append, rename])
@pytest.mark.parametrize("name", ["edited", "gone"])
@pytest.mark.parametrize("is_killed", [False, True], ids=["", "killed after it"])
def test_what_a_hand_saves_at_any_operation_of_a_landing_stays(site, save, name, is_killed):
    landing = site.landing(edit)
    pristine = site.lab.root.parent / "pristine"
    shutil.copytree(site.lab.root, pristine, symlinks=True)
    steps = done_in_child(lambda: len(site.land(landing))).steps
    moved = [at for at, step in enumerate(steps, 1) if step in (f"replace {name}", "rename gone")]
    assert moved
    tried = range(1, len(steps) + 1) if IS_SOAK else {*range(1, len(steps) + 1, 5), *moved}
    for at in tried:
        shutil.rmtree(site.lab.root)
        shutil.copytree(pristine, site.lab.root, symlinks=True)

        def hand(now, _, at=at):
            if now == at:
                save(site.lab.root / name, b"typed by hand\n")

        fault = Fault("killed after", at) if is_killed else None
        outcome = done_in_child(lambda: len(site.land(landing)), fault, meddle=hand)
        problems = Store(site.repository).finish()
        why = (at, steps[at - 1], outcome, problems)
        assert b"typed by hand\n" in (site.lab.root / name).read_bytes(), why
        assert "Traceback" not in outcome.err or "RepoBlocked" in outcome.err, why
        assert {problem.place for problem in problems} <= {name}, why
        assert not list((site.lab.root / ".taskers").glob("landing-*")), why


def test_a_hand_that_was_faster_than_the_finishing_keeps_its_text(site):
    landing = site.landing(edit)
    refuse_unready(UserRepo(site.repository), landing)
    (site.lab.root / "edited").write_text("typed in between\n")
    problems = advance(UserRepo(site.repository), landing)
    assert [problem.place for problem in problems] == ["edited"]
    assert (site.lab.root / "edited").read_text() == "typed in between\n"
    assert site.status() == " M edited\n"


def test_no_identity_no_hooks_and_no_signature_are_needed(site, monkeypatch):
    monkeypatch.setenv("HOME", str(site.lab.home))
    for name in [name for name in os.environ if name.startswith("GIT_") or name == "EMAIL"]:
        monkeypatch.delenv(name)
    for name in ("user.name", "user.email"):
        site.lab.git("config", "--unset", name)
    site.lab.git("config", "user.useConfigOnly", "true")
    site.lab.git("config", "commit.gpgsign", "true")
    site.lab.git("config", "gpg.program", "false")
    hook = site.lab.root / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    landing = site.landing(edit)
    hook.chmod(0o755)
    assert site.land(landing) == []
    hook.unlink()
    site.holds(landing.new)
    assert site.lab.git("log", "-1", "--format=%an <%ae>") == "orchestrate <orchestrate@localhost>\n"
