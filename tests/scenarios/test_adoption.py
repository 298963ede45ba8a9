"""Runtimes that die, and shims, and machines: what was running is adopted, never run twice."""

import contextlib
import json
import os
import re
import shutil
import signal
import time

import pytest
from support.repository import Lab, shell
from support.runtimes import (
    PATIENCE,
    UNFENCED,
    journal,
    kill,
    kill_and_see_dead,
    pids,
    read,
    started,
    wait_until,
)

from workers.pool import slots as pool


def many(lives, count, more=""):
    """Make one template for so many workers: each leaves a line, waits for its token, writes a file."""
    n = "{{ matrix.number }}"
    script = f"echo x >> {lives.outside}/{n}; {lives.waits}; mkdir -p out; echo {n} > out/{n}{more}"
    numbers = {"number": list(range(1, count + 1))}
    lives.lab.templates(command_1=shell(script, mode="write", owns=[f"out/{n}"], matrix=numbers))


def one(lives, script, **front):
    lives.lab.templates(command_1=shell(script, mode="write", owns=["out/**"], **front))


def is_alive(file):
    """Return a line of shell that tests whether the process whose id is in a file still runs."""
    return f"grep -qs '^State:.[^ZX]' /proc/$(cat {file})/status"


def settings(lives, text):
    lives.lab.commit({"orchestrate.toml": UNFENCED + text})


def parent(pid):
    return int((read(pid, "stat").rpartition(b")")[2].split() or [0, 0])[1])


def exits(run):
    return list((run / "shims").glob("*.exit.json"))


def test_fifteen_in_flight_and_ten_queued_survive_the_death_of_their_runtime(lives):
    many(lives, 25)
    run, runtime = lives.detached()
    wait_until(lambda: len(started(run)) == 15)
    kill_and_see_dead(runtime)
    # Some end while nobody is there to see it.
    lives.let_go(5)
    wait_until(lambda: len(exits(run)) == 5)
    follower = lives.begin("resume", run.name)
    wait_until(lambda: len(started(run)) == 20)  # what was queued goes on as slots come free
    second = lives.call("resume", run.name, "--json")
    assert second.code == 5, second
    assert "another runtime" in second.says()[0]
    lives.let_go(20)
    out, err = follower.communicate(timeout=PATIENCE)
    assert follower.returncode == 0, err
    document = json.loads(out)
    assert document["status"] == "integrated"
    told = {(worker["outcome"], worker["verdict"], worker["attempts"]) for worker in document["workers"]}
    assert told == {("complete", "accepted", 1)}
    everybody = {str(number) for number in range(1, 26)}
    assert lives.executed() == {number: ["x"] for number in everybody}
    assert {path.name for path in (lives.root / "out").iterdir()} == everybody
    assert lives.landed() == sorted(f"Command-Worker-{number}" for number in everybody)
    assert lives.living() == []


def test_on_request_workers_die_with_their_runtime_and_go_on_in_their_trees(lives):
    settings(lives, 'on_runtime_death = "stop"\n')
    one(lives, f"mkdir -p out; echo $$ >> out/pids; setsid sleep 300 & {lives.waits}")
    run, runtime = lives.detached()
    wait_until(lambda: len(lives.living()) >= 3)
    kill_and_see_dead(runtime)
    (left,) = wait_until(lambda: exits(run))
    assert lives.living() == []
    assert json.loads(left.read_text())["cancelled_by"] == "the death of its runtime"
    assert not any(record["event"] == "ended" for record in journal(run))
    lives.let_go(1)
    again = lives.call("resume", run.name, "--json")
    assert again.code == 0, again
    assert again.document["workers"][0]["attempts"] == 2
    assert len((lives.root / "out/pids").read_text().split()) == 2
    assert lives.living() == []


def test_a_worker_whose_shim_is_killed_is_tried_again_once_its_tree_is_dead(lives):
    """The second attempt reports what is left of the first."""
    first = lives.outside / "first"
    seen = f"{is_alive(first)} && echo alive > out/seen || echo dead > out/seen"
    begun = f"setsid sleep 300 & echo $! > {first}; {lives.waits}"
    script = f"mkdir -p out; if test -e {first}; then {seen}; else {begun}; fi"
    one(lives, script, retries=1)
    run, _ = lives.detached()
    wait_until(lambda: first.exists() and first.read_text().endswith("\n"))
    kill(wait_until(lambda: started(run))["Command-Worker-1"]["shim_pid"])
    wait_until(
        lambda: any(record["event"] == "closed" or record["event"] == "ended" for record in journal(run))
    )
    (retry,) = [record for record in journal(run) if record["event"] == "retry"]
    assert retry["reason"] == "its shim is gone and left no record"
    (ended,) = [record["facts"] for record in journal(run) if record["event"] == "ended"]
    assert (ended["outcome"], ended["attempts"]) == ("complete", 2)
    assert lives.living() == []
    done = wait_until(lambda: (told := lives.call("integrate", run.name, "--json")).code != 5 and told)
    assert done.code == 0, done
    assert (lives.root / "out/seen").read_text() == "dead\n"


def test_a_slot_whose_shim_and_runtime_were_killed_is_given_on_once_its_tree_is_dead(lives):
    first = lives.outside / "first"
    lives.pool_of(1)
    one(lives, f"setsid sleep 300 & echo $! > {first}; {lives.waits}")
    look = f"! {is_alive(first)}"
    lives.lab.templates(command_2=shell(look, phase="phase-2"))
    run, runtime = lives.detached()
    wait_until(lambda: first.exists() and first.read_text().endswith("\n"))
    kill(runtime, signal.SIGSTOP)  # so that it does not see to it itself
    kill_and_see_dead(wait_until(lambda: started(run))["Command-Worker-1"]["shim_pid"])
    kill_and_see_dead(runtime)
    assert int(first.read_text()) in pids()
    other = lives.call("run", "phase-2", "--json")
    assert other.code == 0, other
    assert lives.living() == []


def test_a_dirty_slot_found_late_costs_nobody_who_was_started_again(lives):
    """What a dirty slot names is one attempt: the next attempt of that worker lives elsewhere by then."""
    go = lives.root.parent
    until = f"until test -e {go}/go-$ORCHESTRATE_WORKER; do sleep 0.05; done"
    lives.pool_of(3)
    lives.lab.templates(
        command_9=shell("true", phase="phase-2"),
        **{
            f"command_{n}": shell(
                f"echo x >> {lives.outside}/{n}; {until}; mkdir -p out; echo {n} > out/{n}",
                mode="write",
                owns=[f"out/{n}"],
                retries=0,
            )
            for n in (1, 2, 3)
        },
    )
    run, runtime = lives.detached()
    wait_until(lambda: len(started(run)) == 3)
    holders = [json.loads(path.read_text())["worker"] for path in sorted(slots(lives).glob("pool-*.lock"))]
    kill(runtime, signal.SIGSTOP)
    kill_and_see_dead(started(run)[holders[2]]["shim_pid"])
    kill_and_see_dead(runtime)
    (go / f"go-{holders[0]}").touch()
    wait_until(lambda: len(exits(run)) == 1)
    follower = lives.begin("resume", run.name)
    again = wait_until(lambda: started(run).get(f"{holders[2]}.2"))
    assert [taken.dirty for taken in pool.holders(slots(lives))] == [False, False, True]
    other = lives.call("run", "phase-2", "--json")
    assert other.code == 0, other
    assert again["pid"] in pids()
    for worker in holders[1:]:
        (go / f"go-{worker}").touch()
    out, err = follower.communicate(timeout=PATIENCE)
    assert follower.returncode == 0, (out, err)
    assert sorted(lives.executed().values()) == [["x"], ["x"], ["x", "x"]]


@contextlib.contextmanager
def stopped(pid):
    """Hold a process up for the block; one that is left so would stay for good."""
    kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        kill(pid, signal.SIGCONT)


def test_a_launch_that_was_on_its_way_when_its_runtime_died_starts_nobody_twice(lives):
    """The fork server is blocked, as on a busy machine; it gets the launch when it is no longer wanted."""
    # A shim that has to clear up after its worker takes no other one: so the server forks one more.
    many(lives, 3, "; sleep 60 &")
    lives.pool_of(2)
    run, runtime = lives.detached()
    wait_until(lambda: len(lives.executed()) == 2)
    (fork_server,) = [pid for pid in pids() if parent(pid) == runtime]
    with stopped(fork_server):
        lives.let_go(1)
        begun = wait_until(lambda: [record for record in journal(run) if record["event"] == "started"][2:])
        wait_until((lives.root / ".taskers/scratch" / run.name / begun[0]["worker"]).exists)
        wait_until(lambda: read(runtime, "stat").rpartition(b")")[2].split()[0] == b"S")
        kill_and_see_dead(runtime)
        # It is the launch itself that holds the slot now.
        assert [taken.dirty for taken in pool.holders(slots(lives))] == [False, False]
        follower = lives.begin("resume", run.name)
        lives.let_go(1)
        wait_until(lambda: len(lives.executed()) == 3)
    wait_until(lambda: fork_server not in pids())
    lives.let_go(1)
    out, err = follower.communicate(timeout=PATIENCE)
    assert follower.returncode == 0, (out, err)
    assert lives.executed() == {str(number): ["x"] for number in range(1, 4)}
    (lost,) = [record for record in journal(run) if record["event"] == "lost"]
    assert lost["reason"] == "its runtime died before it was started"


def slots(lives):
    return lives.root / ".git" / "orchestrate" / "slots"


def test_what_a_restart_of_the_machine_took_is_said_and_started_again(lives):
    one(lives, f"mkdir -p out; echo x >> out/1; {lives.waits}", retries=0)
    run, runtime = lives.detached()
    record = wait_until(lambda: started(run))["Command-Worker-1"]
    kill(runtime, signal.SIGSTOP)
    kill_and_see_dead(record["shim_pid"])
    kill_and_see_dead(runtime)
    (place,) = (run / "shims").glob("*.started.json")
    place.write_text(json.dumps({**record, "boot_id": "00000000-0000-0000-0000-000000000000"}))
    lives.let_go(2)
    again = lives.call("resume", run.name, "--json")
    assert again.code == 0, again
    (lost,) = [told for told in journal(run) if told["event"] == "lost"]
    assert lost["reason"] == "the machine was restarted"
    assert again.document["workers"][0]["attempts"] == 2
    assert (lives.root / "out/1").read_text() == "x\nx\n"


STUBBORN = (
    "trap '' TERM INT; mkdir -p out; echo half > out/1; setsid sh -c \"trap '' TERM INT; sleep 300\" & {}"
)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_stops_an_attached_run_in_order_and_keeps_its_work(lives, number, code):
    settings(lives, '[limits]\ngrace = "1s"\n')
    one(lives, STUBBORN.format(lives.waits))
    runtime = lives.begin("run", "phase-1")
    run = in_the_middle(lives)
    asked = time.monotonic()
    os.killpg(runtime.pid, number)  # as a terminal does: all of its foreground group
    out, err = runtime.communicate(timeout=PATIENCE)
    took = time.monotonic() - asked
    assert runtime.returncode == code, (out, err)
    assert took >= 1.0
    document = json.loads(out)
    assert (document["status"], document["next_action"]) == (
        "interrupted", f"orchestrate resume {run.name} --detach",
    )  # fmt: skip
    assert document["workers"][0]["outcome"] is None
    assert {word: count for word, count in document["counts"].items() if count} == {"stopped": 1}
    assert partial_work(lives, run) == "half\n"
    assert lives.living() == []
    told = {name: lives.call(name, "--json").document["runs"][0] for name in ("status", "ps")}
    assert told["status"]["outcomes"] == {"stopped": 1}
    assert (told["ps"]["stage"], told["ps"]["running"]) == (None, 0)
    assert "1 stopped" in lives.call("ps").out


def test_a_worker_that_outlives_its_runtime_is_told_as_running(lives):
    one(lives, f"mkdir out; echo half > out/1; {lives.waits}")
    run, runtime = lives.detached()
    wait_until(lambda: started(run) and list((lives.root / ".taskers/worktrees").glob("*/*/out/1")))
    kill_and_see_dead(runtime)
    told = {name: lives.call(name, "--json").document["runs"][0] for name in ("status", "ps")}
    assert (told["status"]["outcomes"], told["ps"]["running"]) == ({"running": 1}, 1)
    assert lives.call("wait", run.name, "--json").document["counts"]["running"] == 1


def in_the_middle(lives):
    """Wait until the one worker of the one run has done half of its work."""
    wait_until(lambda: list((lives.root / ".taskers/worktrees").glob("*/*/out/1")))
    wait_until(lambda: len(lives.living()) >= 3)
    (run,) = (lives.root / ".taskers" / "runs").glob("2*")
    return run


def partial_work(lives, run):
    return (lives.root / ".taskers/worktrees" / run.name / "Command-Worker-1/out/1").read_text()


def test_a_second_interrupt_stops_at_once(lives):
    settings(lives, '[limits]\ngrace = "600s"\n')
    one(lives, STUBBORN.format(lives.waits))
    runtime = lives.begin("run", "phase-1")
    run = in_the_middle(lives)
    runtime.send_signal(signal.SIGINT)
    wait_until((run / "cancel" / ".runtime").exists)
    runtime.send_signal(signal.SIGINT)
    out, err = runtime.communicate(timeout=PATIENCE)
    assert runtime.returncode == 130, (out, err)
    assert json.loads(out)["status"] == "interrupted"
    assert partial_work(lives, run) == "half\n"
    assert lives.living() == []


def test_a_second_interrupt_ends_an_acceptance_command_at_once_and_blames_nobody(lives):
    settings(lives, '[limits]\ngrace = "600s"\n')
    once = lives.outside / "once"
    check = f"test -e {once} || {{ trap '' TERM INT; echo x > {once}; {lives.waits}; }}"
    one(lives, "mkdir -p out; echo 1 > out/1", acceptance=[check])
    runtime = lives.begin("run", "phase-1")
    wait_until(once.exists)
    runtime.send_signal(signal.SIGINT)
    wait_until(lambda: list((lives.root / ".taskers/runs").glob("*/cancel/.runtime")))
    runtime.send_signal(signal.SIGINT)
    out, err = runtime.communicate(timeout=PATIENCE)
    assert runtime.returncode == 130, (out, err)
    assert lives.living() == []
    again = lives.call("resume", json.loads(out)["run"], "--json")
    assert (again.code, again.document["workers"][0]["attempts"]) == (0, 1)


def test_a_hangup_leaves_a_detached_run_alone_and_a_termination_stops_it(lives):
    one(lives, f"mkdir -p out; echo half > out/1; sleep 300 & {lives.waits}")
    run, runtime = lives.detached()
    in_the_middle(lives)
    kill(runtime, signal.SIGHUP)
    assert lives.call("resume", run.name, "--json").code == 5  # it is still there
    kill(runtime, signal.SIGTERM)
    wait_until(lambda: runtime not in pids())
    (told,) = lives.call("resume", "--json").document["runs"]
    assert told["status"] == "interrupted"
    assert partial_work(lives, run) == "half\n"
    assert lives.living() == []


def test_slots_that_a_killed_runtime_had_taken_for_nobody_yet_are_given_back_when_its_run_ends(lives):
    """It had the slot and was killed before it started a worker: no other process may take that one."""
    one(lives, lives.waits)
    run, runtime = lives.detached()
    wait_until(lambda: started(run))
    kill_and_see_dead(runtime)
    mine = {"run": run.name, "worker": "Command-Worker-9", "mark": f"{run}/Command-Worker-9/1"}
    (slots(lives) / "pool-14.lock").write_text(json.dumps(mine))
    (slots(lives) / "pool-15.lock").write_text(json.dumps({**mine, "run": "20200101_000000"}))
    follower = lives.begin("resume", run.name)
    lives.let_go(1)
    out, err = follower.communicate(timeout=PATIENCE)
    assert follower.returncode == 0, (out, err)
    assert [taken.slot for taken in pool.holders(slots(lives))] == ["pool-15"]


def test_the_record_of_one_that_ended_before_it_began_is_not_laid_on_who_runs_after_a_kill(lives):
    settings(lives, "[worktree]\nsetup = ['test $ORCHESTRATE_WORKER != Command-Worker-2']\n")
    lives.lab.templates(command_1=shell(lives.waits), command_2=shell("true"))
    run, runtime = lives.detached()
    wait_until(lambda: started(run) and (run / "Command-Worker-2.json").exists())
    wait_until(lambda: [one for one in journal(run) if one["event"] == "ended"])
    kill_and_see_dead(runtime)
    lives.let_go(1)
    called = lives.call("resume", run.name, "--json")
    outcomes = {one["worker"]: one["outcome"] for one in called.document["workers"]}
    assert outcomes == {"Command-Worker-1": "complete", "Command-Worker-2": "failed"}
    assert [one["violations"] for one in called.document["workers"]] == [[], []]
    assert [one for one in journal(run) if one["event"] == "unattributed"] == []


def elsewhere(lives, place):
    """Return the repository of a run whose `.taskers` was kept: in a fresh clone, or moved as a whole."""
    there = lives.root.parent / "other"
    if place == "moved":
        lives.root.rename(there)
    else:
        lives.lab.git("clone", "--quiet", str(lives.root), str(there))
        shutil.copytree(lives.root / ".taskers", there / ".taskers", symlinks=True)
    return Lab(there, lives.lab.home)


@pytest.mark.parametrize("place", ["cloned", "moved"])
def test_a_run_whose_workings_were_kept_goes_on_in_another_checkout(lives, place):
    """One worker has ended and was not judged, one was killed, one was not begun."""
    lives.pool_of(2)
    n, stayed = "{{ matrix.number }}", lives.root.parent / "stayed"
    stay = f"if test {n} = 2 -a ! -e {stayed}; then touch {stayed}; sleep 300; fi"
    script = f"mkdir -p out; echo x >> out/{n}; {lives.waits}; {stay}; echo x >> {lives.outside}/{n}"
    numbers = {"number": [1, 2, 3]}
    lives.lab.templates(command_1=shell(script, mode="write", owns=[f"out/{n}"], matrix=numbers))
    run, runtime = lives.detached()
    wait_until(lambda: len(started(run)) == 2)
    kill_and_see_dead(runtime)
    lives.let_go(2)
    wait_until(lambda: exits(run) and stayed.exists())
    kill_and_see_dead(started(run)["Command-Worker-2"]["shim_pid"])
    for pid in lives.living():
        kill_and_see_dead(pid)
    lab = elsewhere(lives, place)
    lives.let_go(2)
    done = lab.call("resume", run.name, "--json")
    assert done.code == 0, done
    assert {(one["outcome"], one["verdict"]) for one in done.document["workers"]} == {
        ("complete", "accepted")
    }
    assert lives.executed() == {"1": ["x"], "2": ["x"], "3": ["x"]}
    assert [(lab.root / "out" / name).read_text() for name in "123"] == ["x\n", "x\nx\n", "x\n"]
    assert lab.git("status", "--porcelain") == ""
    assert lab.git("worktree", "list").count("\n") == 1


def test_a_worker_whose_run_is_deleted_is_named_with_its_process_and_no_call_that_cannot_help(lives):
    one(lives, f"echo $$ > {lives.outside}/pid; {lives.waits}")
    _, runtime = lives.detached()
    wait_until(lambda: (lives.outside / "pid").exists() and (lives.outside / "pid").read_text())
    kill_and_see_dead(runtime)
    shutil.rmtree(lives.root / ".taskers")
    told = lives.call("run", "phase-1", "--json")
    assert (told.code, told.document["next_action"], told.document["waiting_for"]) == (5, None, "outside")
    (said,) = [line for line in lives.call("ps", "--json").says() if "the folder of its run is gone" in line]
    named = {int(word) for word in re.findall(r"\d+", said.partition("`kill ")[2])}
    assert int((lives.outside / "pid").read_text()) in named
    assert "nothing is running" not in lives.call("ps").out
    for pid in named:
        kill(pid)
    assert lives.call("ps", "--json").says() == []
