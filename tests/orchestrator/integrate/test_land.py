"""Where a run's work lands, and what holds it up: the gate, the user's changes and branch, the hooks."""

import json
import shlex
import shutil
import signal
import subprocess
import sys

import pytest
from support.fences import people, walled_for
from support.judgement import head, integrate, message_of, run, settle, verdicts, write
from support.repository import SCRIPT, Lab, shell


def test_a_gate_that_the_landing_breaks_lands_nothing_where_nobody_is_to_be_looked_for(lab):
    settle(lab, '[integration]\nbisect = false\ngate = ["test ! -e out/1"]\n')
    lab.templates(command_1=write(1), command_2=write(2))
    base = head(lab)
    document = run(lab, 1)
    assert {one["verdict"] for one in document["workers"]} == {"pending"}
    assert "the gate fails: `test ! -e out/1`" in message_of(document)
    assert not (lab.root / "out").exists()
    assert lab.git("log", "--format=%H", "--grep=^Orchestrate-Run: ", f"{base}..") == ""
    settle(lab, '[integration]\ngate = ["true"]\n')
    document = integrate(lab, document)
    assert document["status"] == "integrated"
    assert sorted(path.name for path in (lab.root / "out").iterdir()) == ["1", "2"]


def test_a_gate_that_was_red_before_blames_nobody_and_is_told_as_it_fails_on_the_branch(lab):
    settle(lab, '[integration]\ngate = ["cat out/1 src/app.py; test -e out/1 && exit 4; exit 3"]\n')
    lab.templates(command_1=write(1))
    document = run(lab, 1)
    (worker,) = document["workers"]
    assert worker["verdict"] == "pending"
    assert "without these changes too" in message_of(document)
    assert "(exit code 3; see " in worker["reason"]
    assert "checks/gate-1-base.std" in worker["reason"]


def by_worker(lab, edit, act):
    """Have the worker act for the user meanwhile, as no clock of the test's could be as exact."""
    script = f"{edit}; cd {lab.root} && unset GIT_OPTIONAL_LOCKS && {act}"
    lab.templates(command_1=shell(script, mode="write", owns=["out/**", "src/app.py"]))
    settle(lab, 'fence = "off"\n')


COMMIT = "git -c user.name=u -c user.email=u@v commit -qm user"


def test_a_landing_goes_on_top_of_what_the_user_committed_meanwhile(lab):
    by_worker(lab, "mkdir out; echo 1 > out/1", f"echo later > later && git add later && {COMMIT}")
    document = run(lab)
    assert lab.git("log", "--format=%s", "-3").splitlines()[2] == "user"
    assert lab.git("status", "--porcelain") == ""
    assert document["workers"][0]["verdict"] == "accepted"


def test_the_same_path_changed_by_both_is_a_conflict_that_keeps_the_patch(lab):
    by_worker(lab, "echo worker > src/app.py", f"echo user > src/app.py && git add src/app.py && {COMMIT}")
    document = run(lab, 1)
    (worker,) = document["workers"]
    assert worker["verdict"] == "pending"
    assert worker["reason"] == "conflict: src/app.py has changed on main since"
    log = (lab.root / "DECISIONS.md").read_text()
    assert "\n**Decision:** Left out Command-Worker-1: conflict with the branch.\n" in log
    again = integrate(lab, document, code=1)
    assert verdicts(again) == verdicts(document)
    assert (lab.root / "DECISIONS.md").read_text() == log
    assert (lab.root / "src/app.py").read_text() == "user\n"
    patch = lab.root / ".taskers/runs" / document["run"] / "Command-Worker-1.patch"
    assert "+worker" in patch.read_text()
    lab.git("revert", "--no-edit", lab.git("log", "--format=%H", "--grep=^user$").split()[0])
    assert integrate(lab, document)["status"] == "integrated"
    assert (lab.root / "src/app.py").read_text() == "worker\n"


@pytest.mark.parametrize("fault", ["gone", "conflict"])
def test_work_lands_only_where_it_can_be_recorded(lab, fault):
    settle(lab, '[integration]\ngate = ["true"]\n')
    lab.templates(command_1=write(1))
    document = lab.call("deploy", "phase-1", "--json").document
    path, base = lab.root / "STATUS.md", head(lab)
    whole = path.read_text()
    if fault == "gone":
        path.unlink()
    else:
        path.write_text(whole.replace("\n## ", "\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> side\n\n## ", 1))
    told = integrate(lab, document, code=1)
    assert (told["status"], told["commit"]["landing"]) == ("finished", None)
    assert [one["place"].partition(":")[0] for one in told["problems"]] == ["STATUS.md"]
    assert told["problems"][0]["do"].endswith(f"then: orchestrate integrate {document['run']}")
    assert (head(lab), (lab.root / "out/1").exists()) == (base, False)
    assert not list((lab.root / ".taskers/runs" / document["run"]).glob("checks/gate-*"))
    assert told["what"].endswith(f"then: orchestrate integrate {document['run']}")
    path.write_text(whole)
    assert integrate(lab, document)["status"] == "integrated"
    assert (lab.root / "out/1").read_text() == "1\n"


def test_an_uncommitted_change_of_the_users_blocks_the_landing_until_it_is_stashed(lab):
    by_worker(lab, "echo worker > src/app.py", "echo user > src/app.py")
    document = run(lab, 1)
    assert [one["place"] for one in document["problems"] if one["severity"] == "error"] == ["src/app.py"]
    assert (lab.root / "src/app.py").read_text() == "user\n"
    assert document["status"] == "finished"
    assert "(COMPLETE, accepted" not in (lab.root / "STATUS.md").read_text()
    (do,) = (one["do"] for one in document["problems"] if one["severity"] == "error")
    assert do.endswith("; committed they would be a conflict")
    lab.git(*shlex.split(do.split("`")[1])[1:])
    assert integrate(lab, document)["status"] == "integrated"
    assert (lab.root / "src/app.py").read_text() == "worker\n"
    assert "(COMPLETE, accepted" in (lab.root / "STATUS.md").read_text()


def test_changes_of_the_users_in_other_lines_are_back_after_the_landing(lab):
    lines = [f"{number}\n" for number in range(100)]
    lab.commit({"src/app.py": "".join(lines)})
    lab.templates(command_1=shell("echo worker >> src/app.py", mode="write", owns=["src/app.py"]))
    document = lab.call("deploy", "phase-1", "--json").document
    lab.write("src/app.py", "user\n" + "".join(lines[1:]))
    put_aside, bring_back = integrate(lab, document, code=1)["problems"][0]["do"].split("`")[1:4:2]
    lab.git(*shlex.split(put_aside)[1:])
    assert integrate(lab, document)["status"] == "integrated"
    lab.git(*shlex.split(bring_back)[1:])
    assert (lab.root / "src/app.py").read_text() == "user\n" + "".join(lines[1:]) + "worker\n"


def test_what_keeps_accepted_work_from_landing_is_told_beside_a_conflict_of_another_worker(lab):
    lab.commit({"mine": "old\n", "theirs": "old\n"})
    lab.templates(
        command_1=shell("echo worker > mine", mode="write", owns=["mine"]),
        command_2=shell("echo worker > theirs", mode="write", owns=["theirs"]),
    )
    document = lab.call("deploy", "phase-1", "--json").document
    lab.commit({"theirs": "new\n"})
    lab.write("mine", "new\n")
    told = integrate(lab, document, code=1)
    assert [one["verdict"] for one in told["workers"]] == ["accepted", "pending"]
    for command in (("status",), ("wait", document["run"])):
        said = lab.call(*command, "--json").document["what"]
        assert said == told["what"]
        assert said.startswith("mine: has changes of yours that are not committed; put them aside (`git ")
        assert "; and Command-Worker-2 cannot land: conflict: theirs has changed on main since; " in said


def test_on_another_branch_nothing_lands_and_no_conflict_is_made_up(lab):
    by_worker(lab, "echo worker > src/app.py",
              f"git switch -qc side && echo side > src/app.py && git add src/app.py && {COMMIT}")  # fmt: skip
    document = run(lab, 1)
    assert "the run started on refs/heads/main" in message_of(document)
    assert document["workers"][0]["verdict"] == "accepted"
    assert lab.git("show", "-s", "--format=%s", "side") == "user\n"
    lab.git("stash", "push", "--include-untracked", check=False)
    lab.git("switch", "-q", "main")
    lab.git("stash", "pop", check=False)
    assert integrate(lab, document)["status"] == "integrated"
    assert (lab.root / "src/app.py").read_text() == "worker\n"


def test_a_detached_head_lands_on_a_ref_of_its_own_and_says_so(lab):
    lab.templates(command_1=write(1))
    lab.git("switch", "-q", "--detach")
    document = run(lab)
    ref = f"refs/orchestrate/{document['run']}"
    assert lab.git("rev-parse", f"{ref}~").strip() == document["commit"]["landing"]
    assert lab.git("rev-parse", ref).strip() == document["commit"]["state"]
    assert f"the work landed on {ref}" in message_of(document)
    assert not (lab.root / "out").exists()
    assert integrate(lab, document)["commit"] == document["commit"]


def test_a_detached_head_claims_no_work_that_it_does_not_have(lab):
    lab.templates(command_1=write(1), command_2=shell("echo looked"), command_3=shell("false"))
    lab.git("switch", "-q", "--detach")
    base = head(lab)
    document = run(lab, 1)
    ref = f"refs/orchestrate/{document['run']}"
    assert (head(lab), lab.git("status", "--porcelain")) == (base, "")
    assert "Command-Worker" not in (lab.root / "STATUS.md").read_text()
    assert lab.call("todo", "add", "later", "--json").code == 0
    assert "Command-Worker" not in lab.git("show", "HEAD:STATUS.md")
    lab.git("reset", "-q", "--hard", base)
    lab.git("merge", "--ff-only", ref)
    assert (lab.root / "out/1").exists()
    assert lab.git("show", "HEAD:STATUS.md").count("COMPLETE, accepted, integrated") == 2
    assert lab.git("status", "--porcelain") == ""


def test_a_detached_head_records_with_its_work_after_the_leads_decision_as_well(lab):
    lab.templates(command_1=write(1), command_2=shell("echo 2 >> src/app.py", mode="write", owns=["lib"]))
    lab.git("switch", "-q", "--detach")
    base = head(lab)
    document = run(lab, 1)
    ref = f"refs/orchestrate/{document['run']}"
    done = integrate(lab, document, "--reject", "Command-Worker-2", "--reason", "not asked for", code=1)
    assert done["status"] == "integrated"
    assert (head(lab), lab.git("status", "--porcelain")) == (base, "")
    assert "not asked for" in lab.git("show", f"{ref}:DECISIONS.md")
    assert "Command-Worker-1" in lab.git("show", f"{ref}:STATUS.md")


def test_reading_on_a_detached_head_is_recorded_there(lab):
    lab.templates(command_1=shell("echo looked"))
    lab.git("switch", "-q", "--detach")
    document = run(lab)
    assert head(lab) == document["commit"]["state"]
    assert "COMPLETE, accepted" in lab.git("show", "HEAD:STATUS.md")


def test_what_a_detached_head_means_is_said_before_the_start(lab):
    lab.templates(command_1=write(1), command_2=shell("echo looked", phase="phase-2"))
    lab.git("switch", "-q", "--detach")
    for command in ("plan", "run"):
        (told,) = [
            line for line in lab.call(command, "phase-1", "--json").says() if line.startswith("HEAD: ")
        ]
        assert "what is accepted lands on `refs/orchestrate/RUN`, on no branch; `git switch BRANCH`" in told
    (told,) = [line for line in lab.call("plan", "phase-2", "--json").says() if line.startswith("HEAD: ")]
    assert "what is recorded is on no branch" in told
    (told,) = [line for line in lab.call("plan", "phase-2", "--json").says() if line.startswith("refs/")]
    assert "holds work that HEAD does not have, and no worker sees it; `git merge --ff-only refs/" in told


def test_what_has_landed_beside_a_detached_head_is_not_done_twice(lab):
    lab.templates(command_1=write(1), command_2=write(2, depends_on=["command-1"]))
    lab.git("switch", "-q", "--detach")
    document = run(lab, 0, "--only", "command-1")
    ref = f"refs/orchestrate/{document['run']}"
    assert "1 of 1 tickets is done" in message_of(run(lab, 0, "--only", "command-1"))
    refused = lab.call("run", "phase-1", "--json")
    assert refused.code == 2, refused
    assert f"`command-1`, whose work is on {ref} and not in HEAD" in message_of(refused.document)
    lab.git("merge", "--ff-only", ref)
    assert {one["ticket"] for one in run(lab)["workers"]} == {"command-2"}


def test_a_landing_that_a_clone_does_not_have_is_made_there(lab):
    lab.templates(command_1=write(1))
    document = run(lab)
    lost = document["commit"]["landing"]
    lab.git("reset", "-q", "--hard", f"{lost}~")
    other = Lab(lab.root.parent / "other", lab.home)
    lab.git("clone", "-q", f"file://{lab.root}", str(other.root))
    shutil.copytree(lab.root / ".taskers", other.root / ".taskers", symlinks=True)
    done = integrate(other, document)
    assert other.git("rev-parse", "HEAD~").strip() == done["commit"]["landing"] != lost
    assert (other.root / "out/1").exists()
    assert "COMPLETE, accepted" in other.git("show", "HEAD:STATUS.md")
    assert integrate(other, document)["commit"] == done["commit"]


def test_without_commits_files_are_written_all_the_same(lab):
    settle(lab, '[git]\ncommit = "never"\n')
    lab.templates(command_1=write(1))
    base = head(lab)
    document = run(lab)
    assert document["commit"] == {"landing": None, "state": None}
    assert head(lab) == base
    assert (lab.root / "out/1").read_text() == "1\n"
    assert "(COMPLETE, accepted" in (lab.root / "STATUS.md").read_text()


def hook(lab, name, script, mode=0o755):
    path = lab.root / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(mode)


def test_the_users_hooks_do_not_run_unless_they_are_asked_for(lab):
    lab.templates(command_1=write(1))
    for name in ("pre-commit", "commit-msg", "post-commit", "post-checkout", "reference-transaction"):
        hook(lab, name, f"touch {lab.root.parent}/ran-{name}; exit 1")
    run(lab)
    assert not list(lab.root.parent.glob("ran-*"))


def test_hooks_that_are_asked_for_see_the_change_as_a_commit_would(lab):
    settle(lab, "[git]\nhooks = true\n")
    lab.templates(command_1=write(1), command_2=shell("rm src/app.py", mode="write", owns=["src/app.py"]))
    hook(
        lab,
        "pre-commit",
        'test "$(git diff --cached --name-only | tr "\\n" " ")" = "out/1 src/app.py " && test -f out/1',
    )
    hook(
        lab,
        "commit-msg",
        'grep -q "^Orchestrate-Run: " "$1" && echo "Signed-off-by: Ada" >> "$1"; echo noise',
    )
    document = run(lab)
    landed = lab.git("log", "-2", "--format=%B%x00", document["commit"]["landing"]).split("\0")[:2]
    assert all(message.rstrip().endswith("Signed-off-by: Ada") for message in landed)
    assert integrate(lab, document)["commit"] == document["commit"]


@pytest.mark.parametrize("name", ["pre-commit", "commit-msg"])
def test_a_hook_that_refuses_holds_the_landing_up_with_its_own_words(lab, name):
    settle(lab, "[git]\nhooks = true\n")
    lab.templates(command_1=write(1))
    hook(lab, name, "echo 'tabs, please' >&2; exit 1")
    document = run(lab, 1)
    assert document["workers"][0]["verdict"] == "pending"
    assert f"the {name} hook refuses: tabs, please" in message_of(document)
    assert not (lab.root / "out").exists()
    hook(lab, name, "exit 0")
    assert integrate(lab, document)["status"] == "integrated"


@pytest.mark.hardening
def test_a_hook_that_stages_is_told_that_a_landing_takes_no_changes_of_hooks(lab):
    """T53: its staging works, as in a commit, and the refusal names what it has staged."""
    settle(lab, "[git]\nhooks = true\n")
    lab.templates(command_1=write(1))
    lab.commit({"src/other.py": "x\n"})
    staging = "for f in $(git diff --cached --name-only); do sed -i s/1/X/ $f; git add $f; done"
    hook(lab, "pre-commit", staging)
    document = run(lab, 1)
    why = "the pre-commit hook stages changes (out/1), and a landing takes none of a hook"
    assert document["workers"][0]["reason"] == why
    assert not (lab.root / "out").exists()
    hook(lab, "pre-commit", "sed -i s/2/X/ out/1; git add out/1")  # nothing to mend
    assert integrate(lab, document)["status"] == "integrated"
    assert (lab.root / "out/1").read_text() == "1\n"


def test_each_accepted_worker_lands_as_a_commit_of_its_own_in_the_order_of_dependencies(lab):
    lab.templates(
        command_1=shell("mkdir -p out/d && echo 1 > out/a && echo 1 > 'out/d/\\t\"é\"'", mode="write",
                        owns=["out/**"], title="Make a", depends_on=["command-2"]),
        command_2=shell("rm src/app.py; mkdir -p src/app.py; echo 2 > src/app.py/b; ln -s b src/app.py/l; "
                        "echo 2 > run; chmod +x run", mode="write", owns=["src/**", "run"], title="Make b"),
        command_3=shell("echo 3 >> out/a && rm -r src", mode="write", owns=["src/**", "out/**"],
                        depends_on=["command-1"], title="Change a"),
        command_4=shell("true", title="Read"),
    )  # fmt: skip
    base = head(lab)
    document = run(lab)
    tip = document["commit"]["landing"]
    shown = lab.git("log", "--reverse", "--format=%s|%an|%ae", f"{base}..{tip}").splitlines()
    assert shown == [f"{title}|Ada Lead|ada@localhost" for title in ("Make b", "Make a", "Change a")]
    names = [lab.git("log", "-1", f"--format=%(trailers:key=Orchestrate-{key},valueonly)", f"{tip}~1").strip()
             for key in ("Run", "Phase", "Worker", "Ticket", "Agent")]  # fmt: skip
    ticket = names.pop(3)
    assert names == [document["run"], "phase-1", "Command-Worker-1", "command"]
    assert ticket.startswith("command-1 ")
    changed = lab.git("show", "--format=", "--name-status", "-z", tip).replace("\0", " ")
    assert changed == "M out/a D src/app.py/b D src/app.py/l "
    assert lab.git("ls-tree", tip, "run").startswith("100755 ")
    assert (lab.root / 'out/d/\\t"é"').read_text() == "1\n"
    assert lab.git("status", "--porcelain") == ""
    assert lab.git("fsck", "--strict", "--no-dangling") == ""
    assert integrate(lab, document)["commit"] == document["commit"]
    lab.git("revert", "--no-edit", tip)
    assert lab.git("show", "HEAD:out/a") == "1\n"


def test_one_commit_for_the_whole_run_where_that_is_asked_for(lab):
    settle(lab, '[integration]\ncommits = "run"\n')
    lab.templates(command_1=write(1), command_2=write(2))
    base = head(lab)
    document = run(lab)
    (message,) = lab.git("log", "--format=%B%x00", f"{base}..{document['commit']['landing']}").split("\0")[
        :-1
    ]
    assert message.startswith(f"Land run {document['run']} (phase-1)\n\n- Command-Worker-1: ")
    assert message.count("Orchestrate-Ticket: ") == 2
    plan = lab.call("plan", "phase-1", "--json").document
    assert {one["done"]["commit"] for one in plan["tickets"]} == {document["commit"]["landing"]}


@pytest.mark.hardening
def test_a_runtime_whose_parent_ignores_its_children_sees_that_git_fails(lab):
    """T67: with SIGCHLD ignored every exit code would be read as 0."""
    lab.templates(command_1=write(1))
    base = head(lab)
    lock = lab.root / ".git/refs/heads/main.lock"
    lock.touch()
    done = subprocess.run(
        [SCRIPT, "run", "phase-1", "--json"], cwd=lab.root, env=lab.env(), capture_output=True, text=True,
        check=False, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    document = json.loads(done.stdout)
    assert "main.lock" in message_of(document)
    assert (head(lab), lab.git("diff", "HEAD", "--name-only", "--", "src", "out")) == (base, "")
    assert not (lab.root / "out").exists()
    lock.unlink()
    assert integrate(lab, document)["status"] == "integrated"


LITTLE_ROOM = """
import json, os, shutil, subprocess, sys
from pathlib import Path

project, small, script, run = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(small)], check=True)
seen = []
for room in map(int, sys.argv[5:]):
    root = small / "project"
    shutil.copytree(project, root, symlinks=True)
    stat = os.statvfs(small)
    (small / "filler").write_bytes(bytes(stat.f_bavail * stat.f_frsize - room))
    called = [subprocess.run([script, "integrate", run, "--json"], cwd=root, capture_output=True, text=True)]
    (small / "filler").unlink()
    for _ in range(2):
        again = json.loads(called[-1].stdout)["next_action"] or f"orchestrate integrate {run}"
        words = [script, *again.split()[1:], "--json"]
        if "deliverable" not in words:
            called.append(subprocess.run(words, cwd=root, capture_output=True, text=True))
    log = ["git", "log", "--format=%(trailers:key=Orchestrate-Worker,valueonly)"]
    seen.append([
        [one.returncode for one in called], called[0].stdout + called[0].stderr,
        subprocess.run(log, cwd=root, capture_output=True, text=True).stdout.split(),
        subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True).stdout,
        [str(path) for path in root.rglob("*.tmp")], sorted(path.name for path in (root / "out").iterdir()),
    ])
    shutil.rmtree(root)
print(json.dumps(seen))
"""


@pytest.mark.hardening
def test_with_little_room_a_landing_is_refused_and_made_once_there_is_some(unfenced):
    """T68: a full disk is no bug of ours, and nothing is half made by it."""
    lab = unfenced
    if subprocess.run(["unshare", "-Urm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespaces, so no small file system")
    lab.templates(**{f"command_{number}": write(number) for number in (1, 2, 3)})
    document = lab.call("deploy", "phase-1", "--json").document
    small = lab.root.parent / "small"
    small.mkdir()
    rooms = [str(room) for room in (0, 4096, 8192, 12288, 16384, 24576, 40960, 65536)]
    done = subprocess.run(
        ["unshare", "-Urm", sys.executable, "-c", LITTLE_ROOM, lab.root, small, SCRIPT, document["run"],
         *rooms],
        env=lab.env(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for room, (codes, said, landed, status, left, files) in zip(rooms, json.loads(done.stdout), strict=True):
        assert codes[0] == 1, (room, codes, said)
        assert "o space left" in said or "diskspace" in said, (room, said)
        assert sorted(landed) == [f"Command-Worker-{number}" for number in (1, 2, 3)], (room, codes, said)
        assert (codes[-1], status, left, files) == (0, "", [], ["1", "2", "3"]), (room, codes, said)


@pytest.fixture
def ordinary(pattern_repository):
    """Yield a repository of an ordinary user, whom permissions stop."""
    with walled_for(pattern_repository, people()[-1]) as lab:
        lab.commit({"lib/old.py": "old\n", "lib/gone.py": "gone\n"})
        yield lab


@pytest.mark.parametrize("edit", ["echo new > lib/old.py", "echo new > lib/made/new.py", "rm lib/gone.py"])
def test_nothing_lands_where_a_folder_cannot_be_written_to(ordinary, edit):
    lab = ordinary
    lab.templates(command_1=shell(f"mkdir -p lib/made; {edit}", mode="write", owns=["lib/**"]))
    settle(lab, 'fence = "off"\n')
    base = head(lab)
    (lab.root / "lib").chmod(0o555)
    called = lab.call("run", "phase-1", "--json")
    assert called.code == 1, called
    document = called.document
    assert "lib: this folder cannot be written to; give it to the user who runs this" in called.says()
    assert (document["status"], document["next_action"]) == ("finished", None)
    assert document["waiting_for"] == "lead"
    assert (head(lab), lab.git("diff", "--name-only")) == (base, "STATUS.md\n")
    assert "cannot be written to" in lab.call("status").out
    (lab.root / "lib").chmod(0o755)
    done = lab.call("integrate", document["run"], "--json")
    assert done.code == 0, done
    assert done.document["workers"][0]["verdict"] == "accepted"
    assert lab.git("status", "--porcelain") == ""


def test_what_the_machine_refuses_after_the_start_is_told_of_the_run_that_was_started(unfenced):
    lab = unfenced
    lab.commit({"orchestrate.toml": 'fence = "off"\n[integration]\ngate = ["true"]\n'})
    checks = '"$ORCHESTRATE_PROJECT/.taskers/runs/$ORCHESTRATE_RUN/checks"'
    spoil = f"rm -rf {checks}; touch {checks}"
    lab.templates(command_1=shell(f"mkdir out; echo 1 > out/1; {spoil}", mode="write", owns=["out/**"]))
    called = lab.call("run", "phase-1", "--json")
    assert called.code == 1, called
    document = called.document
    assert document["workers"][0]["outcome"] == "complete"
    assert (document["status"], document["waiting_for"]) == ("finished", "outside")
    assert f"orchestrate integrate {document['run']}" in document["what"]
    (lab.root / ".taskers/runs" / document["run"] / "checks").unlink()
    (lab.root / ".taskers/runs" / document["run"] / "checks").mkdir()
    done = lab.call("integrate", document["run"], "--json")
    assert done.code == 0, done
    assert done.document["workers"][0]["verdict"] == "accepted"


@pytest.mark.parametrize("before", ["a minute ago", "long ago"])
def test_verdicts_that_change_no_state_file_are_recorded_by_a_commit_all_the_same(lab, before):
    lab.templates(command_1=shell("exit 3"))
    if before == "a minute ago":
        # In the same minute even the date stays.
        assert lab.call("todo", "add", "Something").code == 0
    document = run(lab, 1)
    assert document["status"] == "integrated"
    assert lab.git("rev-parse", "HEAD").strip() == document["commit"]["state"]
    message = lab.git("show", "--no-patch", "--format=%B")
    assert "\n- Command-Worker-1: failed, rejected\n" in message
    assert integrate(lab, document, code=1)["commit"] == document["commit"]
    # As after a kill between the commit and the end of its intent.
    commit = {"paths": ["STATUS.md"], "message": message[:-1], "branch": "refs/heads/main", "saved": {}}
    (lab.root / ".git/orchestrate/intent.json").write_text(json.dumps({"moves": [], "commit": commit}))
    assert lab.call("resume", "--json").document["repaired"]
    assert lab.git("log", "--format=%s").count("Integrated run") == 1
    assert lab.git("status", "--porcelain") == ""
