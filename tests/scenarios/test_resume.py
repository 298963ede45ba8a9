"""`kill -9` of the runtime at any moment: the next command reports the truth, and no work is done twice."""

import json
import os
import random
import shlex
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest
from support.repository import SCRIPT, shell, template
from support.runtimes import PATIENCE

from workers.files.locks import is_locked

WORKERS = 8
UNFENCED = 'fence = "off"\n'
"""Settings for workers and checks that leave their traces outside of their trees, or outlive a shim."""


@pytest.fixture
def lab(lab):
    """Return a repository whose workers may write anywhere."""
    lab.commit({"orchestrate.toml": UNFENCED})
    return lab


def begin(lab, *arguments):
    """Start a command as a process group of its own, so that a kill takes nothing of the test's along."""
    return subprocess.Popen(
        [SCRIPT, *arguments, "--json"],
        cwd=lab.root,
        env=lab.env(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def runs(lab):
    return set((lab.root / ".taskers" / "runs").glob("2*"))


def journal(lab, known=frozenset()):
    """Return the journal so far of the one run that is not `known`."""
    found = [path / "events.jsonl" for path in runs(lab) - known if (path / "events.jsonl").exists()]
    lines = found[-1].read_text().splitlines() if found else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def wait_until(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came so far"
        time.sleep(0.005)


def marked(lab):
    """List the living processes that work below this repository's runs."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environ = (folder / "environ").read_bytes()
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if f"ORCHESTRATE_PROJECT={lab.root}".encode() in environ.split(b"\0") and state not in "ZX":
            found.append(int(folder.name))
    return found


def phase(lab, pause):
    """Eight workers below a pool of three, two of them in a chain; each leaves one line outside of git."""
    outside = lab.root.parent / "executed"
    outside.mkdir()
    texts = {}
    for number in range(1, WORKERS + 1):
        script = f"echo x >> {outside}/{number}; sleep {pause * number:.2f}; echo {number} > out/{number}"
        more = {"depends_on": ["command-1"]} if number == 5 else {}
        script = f"cat out/1 && {script}" if number == 5 else script
        texts[f"command-{number}"] = shell(
            f"mkdir -p out && {script}", mode="write", owns=[f"out/{number}"], **more
        )
    rules = (lab.root / "AGENTS.md").read_text()
    lab.write("AGENTS.md", rules.replace("15", "3", 1))
    lab.templates(**texts)
    return outside


def executed(outside):
    return {path.name: path.read_text() for path in sorted(outside.iterdir())}


def landed(lab):
    return lab.git("log", "--format=%H", "--grep=^Orchestrate-Run: ").split()


def test_a_runtime_killed_at_any_moment_is_gone_on_with_and_nothing_is_done_twice(lab):
    outside = phase(lab, 0.06)
    base = lab.git("rev-parse", "HEAD").strip()
    rng = random.Random(20260216)
    events = 2 * WORKERS + 4  # started and ended, landed and recorded
    killed = set()
    for wanted in [0, *sorted(rng.sample(range(1, events), 6)), events]:
        known = runs(lab)
        runtime = begin(lab, "run", "phase-1")
        wait_until(partial(far_enough, lab, runtime, known, wanted))
        runtime.kill()
        runtime.communicate()
        if not journal(lab, known):
            continue  # killed before it had begun: nothing is there, and nothing is asked of it
        told = lab.call("resume", "--json")
        assert told.code == 0, told
        for run in told.document["runs"]:  # none, where it was killed after its end
            ended = sum(record["event"] == "ended" for record in journal(lab, known))
            assert sum(worker["state"] == "ended" for worker in run["workers"]) == ended
            assert run["status"] in ("interrupted", "finished")
            again = lab.call("resume", run["run"], "--json")
            assert again.code == 0, (wanted, again)
            document = again.document
            assert document["status"] == "integrated"
            assert {worker["verdict"] for worker in document["workers"]} == {"accepted"}
            killed.add(ended)
        assert executed(outside) == {str(number): "x\n" for number in range(1, WORKERS + 1)}, wanted
        assert len(landed(lab)) == WORKERS
        assert lab.git("status", "--porcelain") == ""
        assert sorted(path.name for path in (lab.root / "out").iterdir()) == [
            str(n) for n in range(1, WORKERS + 1)
        ]
        assert lab.git("log", "--format=%s").count("Integrated run") == 1
        assert lab.git("worktree", "list").count("\n") == 1
        assert marked(lab) == []
        lab.git("reset", "-q", "--hard", base)
        for path in outside.iterdir():
            path.unlink()
    assert len(killed) > 2, "it was never killed in the middle"


def far_enough(lab, runtime, known, wanted):
    return runtime.poll() is not None or len(journal(lab, known)) >= wanted


def one_writer(lab, script, **more):
    lab.templates(command_1=shell(script, mode="write", owns=["out/**"], **more))


def test_resume_tells_what_each_worker_does_and_starts_nothing(lab):
    go = lab.root.parent / "go"
    lab.templates(
        command_1=shell(f"until test -e {go}; do sleep 0.05; done; mkdir out; echo 1 > out/1", mode="write",
                        owns=["out/**"]),
        command_2=shell("true", depends_on=["command-1"]),
    )  # fmt: skip
    runtime = begin(lab, "run", "phase-1")
    wait_until(lambda: marked(lab))
    wait_until(lambda: list((lab.root / ".taskers/runs").glob("*/shims/*.started.json")))
    runtime.kill()
    runtime.communicate()
    told = lab.call("resume", "--json").document
    assert [(one["worker"], one["state"]) for one in told["runs"][0]["workers"]] == [
        ("Command-Worker-1", "running"),
        ("Command-Worker-2", "waiting"),
    ]
    assert told["next_action"] == f"orchestrate resume {told['runs'][0]['run']} --detach"
    refused = lab.call("run", "phase-1", "--json")
    assert (refused.code, refused.document["next_action"]) == (5, told["next_action"])
    follower = begin(lab, "resume", told["runs"][0]["run"])
    # Not before: the call would become the runtime itself, and wait for `go` as long as we do.
    lock = lab.root / ".taskers" / "runs" / told["runs"][0]["run"] / "run.lock"
    wait_until(lambda: is_locked(lock))
    assert lab.call("resume", told["runs"][0]["run"], "--json").code == 5
    go.touch()
    out, err = follower.communicate(timeout=PATIENCE)
    assert follower.returncode == 0, err
    assert [worker["attempts"] for worker in json.loads(out)["workers"]] == [1, 1]
    assert (lab.root / "out/1").read_text() == "1\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_stops_its_workers_and_goes_on_when_asked(lab, number):
    once = lab.root.parent / "once"
    one_writer(lab, f"mkdir -p out; echo 1 >> out/1; test -e {once} || {{ touch {once}; sleep 60; }}")
    runtime = begin(lab, "run", "phase-1")
    wait_until(once.exists)
    runtime.send_signal(number)
    out, err = runtime.communicate(timeout=PATIENCE)
    assert runtime.returncode == 128 + number, err
    document = json.loads(out)
    assert (document["status"], document["workers"][0]["outcome"]) == ("interrupted", None)
    assert marked(lab) == []
    assert [run["run"] for run in lab.call("resume", "--json").document["runs"]] == [document["run"]]
    again = lab.call("resume", document["run"], "--json")
    assert again.code == 0, again
    assert (again.document["workers"][0]["outcome"], again.document["workers"][0]["attempts"]) == (
        "complete",
        2,
    )
    assert (lab.root / "out/1").read_text() == "1\n1\n"  # it went on in its tree
    told = lab.call("resume", document["run"], "--json").document
    assert {**told, "problems": []} == {**again.document, "problems": []}


@pytest.mark.parametrize("agent", ["command", "claude"])
def test_four_stops_by_the_limit_of_a_tool_call_still_end_with_the_ticket_done(lab, tmp_path, agent):
    last, stops = 20, 4
    go = tmp_path / "go"
    work = (
        f"mkdir -p out; n=$(grep -c . out/1 || true); while [ ${{n:-0}} -lt {last} ]; do n=$((n+1)); "
        f"echo $n >> out/1; until [ -e {go} ] || [ $n -le $(cat {tmp_path}/room) ]; do sleep .02; done; done"
    )
    (tmp_path / "room").write_text("0")
    if agent == "claude":
        lab.have_fake_claude(tmp_path / "fakes")
        text = (lab.root / "orchestrate.toml").read_text()
        lab.commit({"orchestrate.toml": UNFENCED + text})
        step = json.dumps({"do": "shell", "command": work})
        lab.templates(claude_1=template(None, agent="claude", mode="write", owns=["out/**"], retries=0)
                      + f"<<fake {step}>>\n")  # fmt: skip
    else:
        one_writer(lab, work, retries=0)
    command = "orchestrate run phase-1"
    for stop in range(1, stops + 1):
        runtime = begin(lab, *(word for word in command.split()[1:] if word != "--detach"))
        (tmp_path / "room").write_text(str(stop * 3))
        wait_until(lambda stop=stop: lines_in(lab) > stop * 3, PATIENCE)
        runtime.terminate()
        out, err = runtime.communicate(timeout=PATIENCE)
        assert runtime.returncode == 143, err
        command = json.loads(out)["next_action"]
        assert command == f"orchestrate resume {json.loads(out)['run']} --detach"
    go.touch()
    while command is not None and command != "orchestrate status":
        called = lab.call(*shlex.split(command)[1:], "--json")
        assert called.code == 0, called
        command = called.document["next_action"]
    assert (lab.root / "out/1").read_text().split() == [str(n) for n in range(1, last + 1)]
    begun = [one for one in journal(lab) if one["event"] == "started"]
    kinds = ["first", *["again" if agent == "command" else "thread"] * stops]
    assert [one.get("kind", "first") for one in begun] == kinds


def lines_in(lab):
    """Count the lines of work in the trees of workers."""
    places = lab.root.glob(".taskers/worktrees/*/*/out/1")
    return sum(len(path.read_text().splitlines()) for path in places)


def test_an_interrupt_in_an_acceptance_command_fails_nobody(lab):
    once = lab.root.parent / "once"
    one_writer(lab, "mkdir -p out; echo 1 > out/1",
               acceptance=[f"test -e {once} || {{ touch {once}; sleep 60; }}"])  # fmt: skip
    runtime = begin(lab, "run", "phase-1")
    wait_until(once.exists)
    runtime.send_signal(signal.SIGINT)
    runtime.communicate(timeout=PATIENCE)
    assert runtime.returncode == 130
    assert marked(lab) == []
    run = lab.call("resume", "--json").document["runs"][0]["run"]
    again = lab.call("resume", run, "--json")
    assert again.code == 0, again
    assert again.document["workers"][0]["attempts"] == 1


def test_an_interrupt_in_the_gate_leaves_no_process_and_blames_nobody(lab):
    once = lab.root.parent / "once"
    gate = f"test -e {once} || {{ touch {once}; sleep 60; }}"
    lab.commit({"orchestrate.toml": f"{UNFENCED}[integration]\ngate = [{json.dumps(gate)}]\n"})
    one_writer(lab, "mkdir -p out; echo 1 > out/1")
    runtime = begin(lab, "run", "phase-1")
    wait_until(once.exists)
    runtime.send_signal(signal.SIGINT)
    out, _ = runtime.communicate(timeout=PATIENCE)
    assert runtime.returncode == 130
    assert marked(lab) == []
    document = json.loads(out)
    assert document["workers"][0]["verdict"] == "accepted"
    again = lab.call("integrate", document["run"], "--json")
    assert (again.code, again.document["status"]) == (0, "integrated")


def test_a_check_that_a_killed_runtime_left_running_is_stopped_by_the_next(lab):
    once = lab.root.parent / "once"
    one_writer(lab, "mkdir -p out; echo 1 > out/1",
               acceptance=[f"test -e {once} || {{ touch {once}; sleep 60; }}"])  # fmt: skip
    runtime = begin(lab, "run", "phase-1")
    wait_until(once.exists)
    runtime.kill()
    runtime.communicate()
    assert marked(lab) != []
    run = lab.call("resume", "--json").document["runs"][0]["run"]
    again = lab.call("resume", run, "--json")
    assert again.code == 0, again
    assert marked(lab) == []
    assert lab.git("worktree", "list").count("\n") == 1


def test_a_worker_whose_shim_was_killed_too_is_started_again_and_its_tree_seen_dead(lab):
    pids = lab.root.parent / "pids"
    one_writer(
        lab, f"mkdir -p out; echo $$ >> {pids}; test $(wc -l < {pids}) -gt 1 || sleep 60; echo 1 > out/1"
    )
    runtime = begin(lab, "run", "phase-1")
    wait_until(pids.exists)
    wait_until(lambda: pids.read_text().endswith("\n"))
    worker = int(pids.read_text())
    shim = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
    runtime.kill()
    os.kill(shim, signal.SIGKILL)
    runtime.communicate()
    (run,) = lab.call("resume", "--json").document["runs"]
    assert run["workers"][0]["state"] == "lost"
    again = lab.call("resume", run["run"], "--json")
    assert again.code == 0, again
    assert again.document["workers"][0]["attempts"] == 2
    assert marked(lab) == []


def test_a_run_whose_landing_was_not_noted_finds_it_by_its_trailer(lab):
    one_writer(lab, "mkdir -p out; echo 1 > out/1")
    done = lab.call("run", "phase-1", "--json").document
    path = lab.root / ".taskers" / "runs" / done["run"] / "events.jsonl"
    kept = [
        line
        for line in path.read_text().splitlines()
        if json.loads(line)["event"] not in ("landed", "recorded")
    ]
    path.write_text("\n".join(kept) + "\n")
    before = lab.git("rev-parse", "HEAD")
    again = lab.call("integrate", done["run"], "--json")
    assert again.code == 0, again
    assert lab.git("rev-parse", "HEAD") == before
    assert again.document["commit"] == done["commit"]
    assert lab.git("status", "--porcelain") == ""
    assert lab.git("log", "--format=%s").count("Integrated run") == 1


def test_losing_the_workings_costs_what_was_not_integrated_and_nothing_else(lab):
    one_writer(lab, "mkdir -p out; echo 1 > out/1")
    assert lab.call("run", "phase-1", "--json").code == 0
    subprocess.run(["rm", "-rf", lab.root / ".taskers"], check=True)
    told = lab.call("resume", "--json")
    assert (told.code, told.document["runs"]) == (0, [])
    assert lab.call("run", "phase-1", "--json").code == 0


def test_what_a_runtime_was_killed_before_clearing_up_goes_with_the_next_run(lab):
    one_writer(lab, "mkdir -p out; echo 1 > out/1")
    done = lab.call("run", "phase-1", "--json").document["run"]
    workings = lab.root / ".taskers"
    own = lab.root / ".git" / "orchestrate"
    (workings / "runs" / done / "closed").unlink()
    left = [workings / "scratch" / done / "Command-Worker-1", own / "runs" / done]
    for folder in left:
        folder.mkdir(parents=True)
    tree = workings / "worktrees" / done / "Command-Worker-1"
    lab.git("worktree", "add", "-q", "--detach", str(tree))
    assert lab.call("run", "phase-1", "--json").code == 0
    assert [path for path in (*left, tree) if path.exists()] == []
    assert lab.git("worktree", "list").count("\n") == 1
    assert (workings / "runs" / done / "closed").exists()
