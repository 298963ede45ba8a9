"""A run that goes on by itself: seen, waited for, read and ended from outside, runtime or not."""

import json
import os
import pty
import signal
import subprocess

import pytest
from support.repository import SCRIPT, shell
from support.runtimes import PATIENCE, UNFENCED, journal, kill_and_see_dead, pids, started, wait_until

from orchestrator.runs.state import read_run
from workers.files.run_dir import runs_of

STUBBORN = "trap '' TERM; (trap '' TERM; sleep 600) & echo ready; sleep 600; sleep 600"
ESCAPE, TURN = "\x1b", "\u202e"


def two_that_wait(lives, **front):
    """Deploy two workers and one that depends on the first; return the run's folder and its runtime."""
    say = f"echo ready; {lives.waits}"
    lives.lab.templates(
        command_1=shell(f"{say}; echo 1 > a", mode="write", owns=["a"], title="First"),
        command_2=shell(f"{say}; echo 2 > b", mode="write", owns=["b"], title="Second", **front),
        command_3=shell("cat a", depends_on=["command-1"], title="Third"),
    )
    run, runtime = lives.detached()
    wait_until(lambda: len(started(run)) == 2)
    wait_until(lambda: all((run / f"Command-Worker-{n}.stdout").read_text() for n in (1, 2)))
    return run, runtime


def test_a_detached_run_is_seen_waited_for_and_integrated(lives):
    run, _ = two_that_wait(lives)
    ps = lives.call("ps", "--json").document
    assert [(one["worker"], one["state"], one["last"], one["attempt"]) for one in ps["workers"]] == [
        ("Command-Worker-1", "running", "ready", 1), ("Command-Worker-2", "running", "ready", 1),
    ]  # fmt: skip
    assert set(ps["workers"][0]) == {
        "run", "worker", "ticket", "agent", "title", "state", "attempt", "seconds", "last",
            "asks",
    }  # fmt: skip
    assert (ps["queued"]["total"], ps["queued"]["dependency"]) == (1, 1)
    assert ps["queued"]["next"][0]["waits_for"] == "command-1"
    assert ps["slots"] == {"taken": 2, "dirty": []}
    assert "waits for command-1" in lives.call("ps").out
    lives.let_go(2)
    waited = lives.call("wait", "last", "--json")
    assert (waited.code, waited.document["status"]) == (0, "finished")
    assert waited.document["next_action"] == f"orchestrate integrate {run.name}"
    assert lives.call("integrate", "last", "--json").document["status"] == "integrated"
    step = lives.call("wait", "last", "--json").document["next_action"]
    assert step == "orchestrate deliverable done 'Code review' --detach"
    assert lives.call("ps", "--json").document["runs"] == []


def test_a_run_that_begins_is_at_no_moment_interrupted(lives):
    lives.lab.templates(command_1=shell("true"))
    seen = set()
    for words in (("deploy", "phase-1", "--detach"), ("run", "phase-1", "--again", "--new")):
        calling = lives.begin(*words)
        while calling.poll() is None:
            seen |= {state.status() for run in runs_of(lives.root) if (state := read_run(run)) is not None}
        assert calling.communicate(timeout=PATIENCE)[0]
        assert calling.returncode == 0
        assert lives.call("wait", "last", "--json").code == 0
    assert "interrupted" not in seen
    assert "running" in seen


def test_nobody_waits_for_scopes_that_an_interrupted_run_holds(lives):
    lives.lab.templates(
        command_1=shell("sleep 60", mode="write", owns=["out/**"], timeout="60s"),
        command_2=shell("true", mode="write", owns=["out/**"], phase="phase-2"),
    )
    lives.stopped()
    refused = lives.call("run", "phase-2", "--wait", "3000", "--json")
    assert refused.code == 5
    assert refused.document["next_action"].startswith("orchestrate resume ")


def test_a_refusal_by_a_run_that_is_on_names_the_wait_for_what_is_new(lives):
    run, _ = two_that_wait(lives)
    for words in (("resume", run.name), ("resume", run.name, "--detach"), ("deploy", "phase-1")):
        refused = lives.call(*words, "--json")
        wait, cursor = refused.document["next_action"].rsplit(" ", 1)
        assert (refused.code, wait) == (5, f"orchestrate wait {run.name} --timeout 90 --since"), words
        assert cursor.isdecimal()


def test_a_brief_answer_names_what_has_landed(lives):
    lives.lab.templates(command_1=shell("echo 1 > a", mode="write", owns=["a"]))
    landing = lives.call("run", "phase-1", "--json").document["commit"]["landing"]
    said = lives.call("wait", "last", "--since", "0", "--json").document
    assert (said["status"], said["landed"]) == ("integrated", landing)


def test_deploy_in_the_foreground_leaves_the_landing_to_the_lead(lives):
    lives.lab.templates(command_1=shell("echo 1 > a", mode="write", owns=["a"]))
    called = lives.call("deploy", "phase-1", "--json")
    assert (called.code, called.document["status"]) == (0, "finished")
    assert (called.document["workers"][0]["verdict"], lives.landed()) == ("accepted", [])
    assert lives.call("integrate", "last", "--json").document["commit"]["landing"]
    assert lives.landed() == ["Command-Worker-1"]


def test_waiting_since_a_cursor_gives_each_event_once(lives):
    run, _ = two_that_wait(lives)
    first = lives.call("wait", "last", "--no-brief", "--since", "0", "--json")
    assert (first.code, first.document["status"]) == (0, "running")
    cursor = first.document["cursor"]
    assert first.document["next_action"] == f"orchestrate wait {run.name} --timeout 90 --since {cursor}"
    nothing = lives.call("wait", "last", "--no-brief", "--since", cursor, "--timeout", "0.2", "--json")
    assert (nothing.code, nothing.document["events"], nothing.document["cursor"]) == (0, [], cursor)
    assert nothing.document["status"] == "running"
    seen = list(first.document["events"])
    waiting = lives.begin("wait", "last", "--no-brief", "--since", cursor)
    lives.let_go(1)
    while True:
        out, _ = waiting.communicate(timeout=PATIENCE)
        document = json.loads(out)
        seen += document["events"]
        if document["status"] != "running":
            break
        lives.let_go(1)
        waiting = lives.begin("wait", "last", "--no-brief", "--since", document["cursor"])
    assert seen == journal(run)


@pytest.mark.parametrize("cursor", ["7", "999999", "-1", "x", "1e3", "٣", "9" * 30])
def test_what_is_no_cursor_is_refused(lives, cursor):
    lives.lab.templates(command_1=shell("true"))
    assert lives.call("deploy", "phase-1", "--json").code == 0
    called = lives.call("wait", "last", f"--since={cursor}", "--json")
    assert (called.code, called.document["status"]) == (2, "refused")
    assert "is not a cursor of run" in called.says()[0]


def test_the_time_that_is_over_is_no_failure_and_says_how_to_go_on(lives):
    run, _ = two_that_wait(lives)
    called = lives.call("wait", "last", "--timeout", "0.1")
    assert called.code == 0
    assert f"next: orchestrate wait {run.name} --timeout 90 --since" in called.out


def test_a_run_whose_runtime_is_dead_is_not_waited_for(lives):
    run, runtime = two_that_wait(lives)
    kill_and_see_dead(runtime)
    called = lives.call("wait", "last", "--json")
    assert (called.code, called.document["status"]) == (1, "interrupted")
    assert called.document["next_action"] == f"orchestrate resume {run.name} --detach"
    # Its workers live on, and are seen.
    ps = lives.call("ps", "--json").document
    assert {one["state"] for one in ps["workers"]} == {"running"}
    assert (ps["runs"][0]["status"], ps["queued"]["slot"] + ps["queued"]["dependency"]) == ("interrupted", 1)


def test_one_worker_is_cancelled_and_the_others_go_on(lives):
    run, _ = two_that_wait(lives)
    called = lives.call("cancel", "last", "command-2", "--json")
    assert (called.code, called.document["status"]) == (0, "running")
    assert called.document["stopped"] == ["Command-Worker-2"]
    assert [(one["worker"], one["state"]) for one in called.document["workers"]] == [
        ("Command-Worker-2", "cancelled")
    ]
    assert len(started(run)) == 2
    lives.let_go(1)
    waited = lives.call("wait", "last", "--json")
    assert [one["outcome"] for one in waited.document["workers"]] == ["complete", "cancelled", "complete"]
    assert (waited.code, lives.living()) == (1, [])


def test_a_cancel_says_whom_it_stopped_and_whether_the_run_goes_on(lives):
    run, _ = two_that_wait(lives)
    waits = f"run {run.name} of phase-1 continues\n"
    assert lives.call("cancel", "last", "command-2").out.startswith(f"stopped Command-Worker-2; {waits}")
    again = lives.call("cancel", "last", "command-2")
    assert again.out.startswith(f"Command-Worker-2 had ended before; there was nothing to stop; {waits}")
    third = lives.call("cancel", "last", "command-2", "command-3")
    before = "Command-Worker-2 had ended before"
    assert third.out.startswith(f"kept from starting Command-Worker-3; {before}; {waits}")
    assert "Command-Worker-2  cancelled" in third.out
    whole = lives.call("cancel", "last")
    assert whole.out.startswith(f"run {run.name} of phase-1 is cancelled: stopped Command-Worker-1\n")
    assert lives.living() == []


def test_a_run_is_cancelled_and_all_of_its_trees_are_dead_when_the_command_returns(lives):
    lives.lab.commit({"orchestrate.toml": "[limits]\ngrace = 1.0\n"})
    lives.lab.templates(command_1=shell(STUBBORN, matrix={"n": list(range(6))}, title="{{ matrix.n }}"))
    run, _ = lives.detached()
    wait_until(lambda: len([1 for path in run.glob("*.stdout") if path.read_text()]) == 6)
    assert len(lives.living()) >= 12
    called = lives.call("cancel", "last", "--json")
    assert lives.living() == []
    assert (called.code, called.document["status"]) == (0, "cancelled")
    assert {one["state"] for one in called.document["workers"]} == {"cancelled"}
    assert lives.call("ps", "--json").document["runs"] == []
    again = lives.call("cancel", "last", "--json")
    assert (again.code, again.document["status"]) == (0, "cancelled")
    assert "had ended before" in lives.call("cancel", "last").out


@pytest.mark.parametrize("workers", [(), ("Command-Worker-1", "Command-Worker-2")])
def test_what_a_dead_runtime_left_is_cancelled_all_the_same(lives, workers):
    lives.lab.commit({"orchestrate.toml": f"{UNFENCED}[limits]\ngrace = 0.5\n"})
    _, runtime = two_that_wait(lives)
    kill_and_see_dead(runtime)
    called = lives.call("cancel", "last", *workers, "--json")
    assert called.code == 0
    assert lives.living() == []
    states = [one["state"] for one in called.document["workers"]]
    if workers:
        assert (called.document["status"], states) == ("interrupted", ["stopped", "stopped"])
        assert "interrupted: 0 running, 2 stopped" in lives.call("ps").out
        assert lives.call("resume", "last", "--json").document["status"] == "integrated"
    else:
        assert (called.document["status"], states) == ("cancelled", ["cancelled", "cancelled", "skipped"])
        assert lives.call("status", "--json").document["active_workers"] == []


def test_what_a_killed_shim_left_is_found_and_ended_by_cancel(lives):
    run, runtime = two_that_wait(lives)
    kill_and_see_dead(runtime)
    kill_and_see_dead(started(run)["Command-Worker-1"]["shim_pid"])
    ps = lives.call("ps", "--json").document
    assert [one["state"] for one in ps["workers"]] == ["lost", "running"]
    assert len(ps["slots"]["dirty"]) == 1
    assert [one["severity"] for one in ps["problems"]] == ["warning", "warning"]
    assert lives.call("cancel", "last", "Command-Worker-1", "--json").code == 0
    own = {started(run)["Command-Worker-1"]["pid"]}
    assert not own & set(pids())
    assert lives.call("cancel", "last", "--json").code == 0
    assert lives.living() == []


@pytest.mark.parametrize(
    "arguments", [("cancel", "last", "Command-Worker-9"), ("logs", "last", "nobody"), ("cancel", "2099")]
)
def test_a_name_that_nobody_has_is_refused(lives, arguments):
    lives.lab.templates(command_1=shell("true"))
    assert lives.call("deploy", "phase-1", "--json").code == 0
    before = lives.lab.everything()
    called = lives.call(*arguments, "--json")
    assert (called.code, called.document["ok"]) == (2, False)
    assert lives.lab.everything() == before


def test_logs_follow_a_worker_until_it_ends(lives):
    two_that_wait(lives)
    following = subprocess.Popen(
        [SCRIPT, "logs", "last", "command-1", "-f"], cwd=lives.root, env=lives.lab.env(),
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    lives.begun.append(following)
    assert following.stdout.readline() == "ready\n"
    assert following.poll() is None
    lives.let_go(2)
    out, _ = following.communicate(timeout=PATIENCE)
    assert (following.returncode, out) == (0, "")
    assert lives.call("wait", "last", "--json").code == 0


def test_logs_of_what_has_not_started_say_so(lives):
    two_that_wait(lives)
    called = lives.call("logs", "last", "command-3", "--json")
    assert (called.code, called.out.count("\n")) == (1, 1)
    assert "has not started yet" in called.says()[0]


def test_logs_are_plain_text_unless_asked_for_raw(lives):
    hostile = f"{ESCAPE}[2J{ESCAPE}]0;owned\x07  {TURN}evil\x9b31m\tend"
    script = f"printf '%s\\n' '{hostile}'; head -c 1048600 /dev/zero | tr '\\0' x; printf oops >&2"
    lives.lab.templates(command_1=shell(script))
    assert lives.call("deploy", "phase-1", "--json").code == 0
    first, second = lives.call("logs", "last", "command-1").out.splitlines()
    assert first.isprintable()
    assert first == "   evil 31m       end"
    assert second == "x" * (1 << 20) + " [cut here]"
    as_json = lives.call("logs", "last", "command-1", "--json").out
    assert json.loads(as_json.partition("\n")[0]) == {"kind": "text", "text": first}
    assert hostile in lives.call("logs", "last", "command-1", "--raw").out
    assert lives.call("logs", "last", "command-1", "--stderr").out == "oops\n"


def test_logs_of_a_stream_that_was_replaced_by_a_pipe_hang_nobody(lives):
    lives.lab.templates(command_1=shell("echo said"))
    run = lives.call("deploy", "phase-1", "--json").document["run"]
    stream = lives.root / ".taskers" / "runs" / run / "Command-Worker-1.stdout"
    stream.unlink()
    os.mkfifo(stream)
    for more in ((), ("--raw",), ("--json",)):
        assert "said" not in lives.call("logs", "last", "command-1", *more).out


def test_a_reader_of_logs_that_has_gone_is_no_trace(lives):
    lives.lab.templates(command_1=shell("seq 1 200000"))
    assert lives.call("deploy", "phase-1", "--json").code == 0
    for raw in ((), ("--raw",)):
        command = " ".join([str(SCRIPT), "logs", "last", "command-1", *raw])
        done = subprocess.run(
            ["sh", "-c", f"{command} | head -2"], cwd=lives.root, env=lives.lab.env(),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.stdout, done.stderr) == ("1\n2\n", "")


def test_watch_off_a_terminal_prints_each_event_until_the_run_ends(lives):
    run, _ = two_that_wait(lives)
    watching = [lives.begin("watch"), lives.begin("watch", "last")]
    # A run that is over before it was found is none that runs.
    heads = [one.stdout.readline() for one in watching]
    lives.let_go(2)
    for head, one in zip(heads, watching, strict=True):
        # Not by `communicate`, which knows nothing of what was read ahead.
        objects = [json.loads(line) for line in (head + one.stdout.read()).splitlines()]
        assert (one.wait(60), one.stderr.read()) == (0, "")
        assert objects == [{"run": run.name, **record} for record in journal(run)]
    said = lives.call("watch", "last").out
    assert "start        Command-Worker-1  First" in said
    assert ESCAPE not in said


def test_watch_of_nothing_ends_at_once(lives):
    called = lives.call("watch")
    assert (called.code, called.out) == (0, "nothing is running\nnext: orchestrate status\n")
    assert lives.call("watch", "--json").out == ""


def on_a_terminal(lives, *arguments, **env):
    """Start a command on a terminal of its own; return the process and the terminal's other end."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [SCRIPT, *arguments], cwd=lives.root, env=lives.lab.env(**{"TERM": "xterm", **env}),
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    lives.begun.append(process)
    return process, ours


def read_until(terminal, wanted=None):
    """Read what a terminal is given until a text comes, or its end."""
    found = ""
    while wanted is None or wanted not in found:
        try:
            found += os.read(terminal, 65536).decode()
        except OSError:  # the other end has been closed
            assert wanted is None, found
            break
    return found


def test_ctrl_c_ends_the_watching_and_not_the_run(lives):
    run, _ = two_that_wait(lives)
    watching, terminal = on_a_terminal(lives, "watch")
    seen = read_until(terminal, "Command-Worker-2")
    assert "\x1b[?1049h" in seen
    watching.send_signal(signal.SIGINT)
    seen = read_until(terminal)
    os.close(terminal)
    assert watching.wait(60) == 130
    # Back from the other screen, with the last picture left to read.
    assert "Command-Worker-1" in seen.partition("\x1b[?1049l")[2]
    assert {one["state"] for one in lives.call("ps", "--json").document["workers"]} == {"running"}
    lives.let_go(2)
    assert lives.call("wait", run.name, "--json").code == 0


@pytest.mark.parametrize(("env", "colours"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_run_on_a_terminal_has_a_table_below_its_events(lives, env, colours):
    lives.lab.templates(command_1=shell(f"printf '{ESCAPE}[2Jhello\\n'; {lives.waits}", title="First"))
    process, terminal = on_a_terminal(lives, "run", "phase-1", **env)
    seen = read_until(terminal, "hello")
    lives.let_go(1)
    seen += read_until(terminal)
    os.close(terminal)
    assert process.wait(60) == 0
    assert "WORKER" in seen
    assert "integrated" in seen
    assert ("\x1b[1mrunning" in seen) is colours
    # What the worker printed to clear the screen has not reached it.
    assert "\x1b[2J" not in seen


def test_a_dumb_terminal_gets_lines_alone(lives):
    lives.lab.templates(command_1=shell("true"))
    process, terminal = on_a_terminal(lives, "run", "phase-1", TERM="dumb")
    seen = read_until(terminal)
    os.close(terminal)
    assert (process.wait(60), ESCAPE in seen) == (0, False)
