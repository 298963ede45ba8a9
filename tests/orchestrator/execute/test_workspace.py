"""`[worktree]` in a whole run: setup, copies and links, for workers and for what judges them."""

import json

import pytest
from support.repository import shell
from support.runtimes import PATIENCE, UNFENCED, kill_and_see_dead, pids, wait_until


def furnish(lab, text):
    lab.commit({"orchestrate.toml": f"[worktree]\n{text}", ".gitignore": ".env\nnode_modules\n"})


def only(called):
    (worker,) = called.document["workers"]
    return worker


def test_a_worker_and_its_acceptance_commands_find_what_the_checkout_lacks(lab):
    furnish(
        lab,
        'copy = [".env", "*.local"]\nlink = ["node_modules"]\nsetup = ["echo made > made.txt", "cat .env"]\n',
    )
    lab.write(".env", "KEY=1\n")
    lab.write("x.local", "untracked and not ignored\n")
    lab.write("node_modules/dep.js", "dep\n")
    seen = "cat .env made.txt x.local node_modules/dep.js"
    lab.templates(
        command_1=shell(
            f"{seen} && echo x > out.py",
            mode="write",
            owns=["out.py"],
            acceptance=[seen],
            max_files_changed=1,
        )
    )
    called = lab.call("run", "phase-1", "--json")
    worker = only(called)
    assert (worker["outcome"], worker["verdict"], worker["violations"]) == ("complete", "accepted", [])
    assert worker["files"] == ["out.py"]
    run = lab.root / ".taskers" / "runs" / called.document["run"]
    record = json.loads((run / "Command-Worker-1.json").read_text())
    assert record["ignored"] == []
    assert (run / "checks" / "Command-Worker-1.setup-2.stdout").read_text() == "KEY=1\n"
    assert lab.git("show", "--stat", "--format=", "HEAD~1").split()[0] == "out.py"
    assert (lab.root / "node_modules" / "dep.js").read_text() == "dep\n"


def test_a_setup_that_fails_fails_its_ticket_with_its_last_line_and_starts_no_worker(lab, tmp_path):
    furnish(lab, 'setup = ["echo first; echo no such package >&2; exit 3"]\n')
    lab.templates(command_1=shell(f"touch {tmp_path}/ran"))
    called = lab.call("run", "phase-1", "--json")
    worker = only(called)
    assert worker["outcome"] == "failed"
    assert worker["reason"].startswith(
        "setup failed: `echo first; echo no such package >&2; exit 3` (exit code 3;"
    )
    assert worker["reason"].endswith(": no such package")
    assert not (tmp_path / "ran").exists()
    assert not list((lab.root / ".taskers" / "worktrees").glob("*/*"))
    assert called.code == 1


def test_a_setup_has_a_time_limit_of_its_own_that_the_workers_does_not_pay_for(lab):
    furnish(lab, 'setup = ["sleep 60"]\nsetup_timeout = "0.3s"\n')
    lab.templates(command_1=shell("true"))
    assert "timed out" in only(lab.call("run", "phase-1", "--json"))["reason"]
    furnish(lab, 'setup = ["sleep 1.2"]\n')
    lab.templates(command_1=shell("true", timeout="1s"))
    assert only(lab.call("run", "phase-1", "--new", "--json"))["outcome"] == "complete"


def test_a_change_of_what_was_brought_is_judged_like_any_other(lab):
    furnish(lab, 'copy = ["*.local"]\n')
    lab.write("x.local", "mine\n")
    lab.templates(command_1=shell("echo more >> x.local; echo y > out.py", mode="write", owns=["out.py"]))
    worker = only(lab.call("run", "phase-1", "--json"))
    assert worker["violations"] == [{"kind": "out_of_scope", "path": "x.local"}]
    assert worker["verdict"] == "pending"


def test_pipes_and_what_is_in_a_submodule_are_violations_and_their_tree_is_kept(lab, tmp_path):
    lib = tmp_path / "lib"
    lib.mkdir()
    for arguments in (
        ("init", "-q"),
        ("-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-mx"),
    ):
        lab.git("-C", str(lib), *arguments)
    lab.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(lib), "vendor/lib")
    lab.commit({"a": "a\n"})
    script = "echo y > vendor/lib/new; echo y > out/y; mkfifo out/pipe pipe"
    lab.templates(command_1=shell(f"mkdir out; {script}", mode="write", owns=["out/**", "vendor/**"]))
    called = lab.call("run", "phase-1", "--json")
    worker = only(called)
    assert worker["violations"] == [
        {"kind": "out_of_scope", "path": "pipe"},
        {"kind": "out_of_scope", "path": "vendor/lib/new"},
    ]
    run = called.document["run"]
    record = json.loads((lab.root / ".taskers" / "runs" / run / "Command-Worker-1.json").read_text())
    assert record["ignored"] == ["out/pipe", "pipe"]
    lab.call("integrate", run, "--accept", "Command-Worker-1", "--json")
    assert (lab.root / "out" / "y").exists()
    assert not (lab.root / "vendor" / "lib" / "new").exists()
    assert (lab.root / record["worktree"] / "vendor" / "lib" / "new").exists()


@pytest.mark.parametrize("mode", [{"mode": "read-only"}, {"mode": "write", "owns": ["out/**"]}])
def test_a_worker_that_could_not_be_started_leaves_no_tree(lab, mode):
    lab.templates(command_1=shell("true", cwd="no/where", **mode), command_2=shell("true"))
    called = lab.call("run", "phase-1", "--json")
    failed, _ = called.document["workers"]
    assert (failed["outcome"], failed["attempts"]) == ("failed", 1)
    assert "no/where is not a folder of its tree" in failed["reason"]
    assert not (lab.root / ".taskers/worktrees" / called.document["run"]).exists()


def test_a_tree_that_is_the_only_copy_stays_alone_and_the_run_can_be_packed_once_it_is_removed(lab):
    lab.commit({"orchestrate.toml": '[limits]\npatch_cap = "1 KB"\n'})
    big = shell("mkdir out; head -c 5000 /dev/zero > out/big", mode="write", owns=["out/**"])
    lab.templates(command_1=big, command_2=shell("sleep 600", mode="write", owns=["more/**"], timeout="1s"))
    run = lab.call("run", "phase-1", "--json").document["run"]
    assert [path.name for path in (lab.root / ".taskers/worktrees" / run).iterdir()] == ["Command-Worker-1"]
    lab.templates(command_9=shell("true", phase="phase-2"))
    assert lab.call("run", "phase-2", "--json").code == 0
    told = lab.call("archive", "--runs", "--keep", "1", "--json").document
    (reason,) = [one["reason"] for one in told["kept"] if one["run"] == run]
    command = reason.partition("`")[2].partition("`")[0]
    assert command == f"git worktree remove --force .taskers/worktrees/{run}/Command-Worker-1"
    lab.git(*command.split()[1:])
    assert lab.git("worktree", "list").count("\n") == 1
    moved = lab.call("archive", "--runs", "--keep", "1", "--json").document["moved"]
    assert [one["what"] for one in moved] == [run]


def test_a_setup_that_outlived_its_runtime_is_dead_before_the_tree_is_made_anew(lives):
    begun = lives.outside / "begun"
    settings = f"[worktree]\nsetup = ['echo $$ >> {begun}; {lives.waits}']\n"
    lives.lab.commit({"orchestrate.toml": UNFENCED + settings})
    lives.lab.templates(command_1=shell("true"))
    run, runtime = lives.detached()
    (first,) = wait_until(lambda: begun.exists() and begun.read_text().split())
    kill_and_see_dead(runtime)
    assert int(first) in pids(), "it outlives its runtime, or this test would prove nothing"
    follower = lives.begin("resume", run.name)
    wait_until(lambda: len(begun.read_text().split()) == 2)
    assert int(first) not in pids()
    lives.let_go(1)
    out, err = follower.communicate(timeout=PATIENCE)
    assert follower.returncode == 0, err
    assert json.loads(out)["workers"][0]["outcome"] == "complete"
