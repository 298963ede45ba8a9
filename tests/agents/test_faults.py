"""What real CLIs do when things go wrong, as a run sees it: the outcome, why, how soon, and nothing left."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest
from support.real_phase import AGENTS, ORCHESTRATE, REPORT, survivors

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(900)]

TIMEOUT, IDLE, GRACE = 20, 6, 2
"""Seconds, as in the tickets and the settings."""
LONG = "python3 -c 'import time; time.sleep(200)'"
"""What a tool does that takes its time; one of the CLIs refuses a bare `sleep`."""


def faults(project, name):
    """Return the faults in the order of their start, the slow ones first: what, ticket, script."""
    step, owns = project.step, f'mode: write\nowns: ["{name}/**"]'
    end = step("answer", text=REPORT)
    begun = step("shell", cmd=f"mkdir -p {name}; echo x > {name}/begun; {LONG}")
    # More than ten seconds: codex then goes on, and ends its turn while its command is at work.
    quiet = step(
        "shell", cmd=f"mkdir -p {name}3; echo x > {name}3/x; python3 -c 'import time; time.sleep({IDLE + 9})'"
    )
    leaves = step(
        "shell", cmd=f"mkdir -p {name}2; echo x > {name}2/x; setsid sleep 300 >/dev/null 2>&1 & echo left"
    )
    return {
        "stall": (f"timeout: {TIMEOUT}s", step("stall")),
        "silence": (f"timeout: 300s\nidle_timeout: {IDLE}s", step("mute")),
        "killed": (f"timeout: 300s\n{owns}", begun + end),
        "quiet": (f"timeout: 300s\nidle_timeout: {IDLE}s\n{owns.replace('/**', '3/**')}", quiet + end),
        "child": (f"timeout: 300s\n{owns.replace('/**', '2/**')}", leaves + end),
        "401": ("timeout: 300s", step("fail", status=401, message="no such key")),
        "429": ("timeout: 300s", step("fail", status=429, message="too much for today")),
        "500": ("timeout: 300s", step("fail", status=500, message="broken inside")),
        "cut": ("timeout: 300s", step("cut")),
    }


EXPECTED = {
    "stall": ("timed_out", rf"ran longer than its timeout of {TIMEOUT} s"),
    "silence": ("timed_out", rf"no output and no activity for {IDLE} s"),
    "killed": ("failed", r"killed by signal 9 \(SIGKILL\), not by us"),
    "quiet": ("complete", r"^$"),  # its tool is at work: that is not idleness
    "child": ("complete", r"^$"),
    "401": ("failed", r"\b401\b.*no such key"),
    "429": ("rate_limited", r"429|too much for today"),
    "500": ("failed", r"high demand|broken inside"),
    "cut": ("failed", r"stream disconnected|connection closed|terminated|empty or malformed response"),
    "refused": ("failed", r"connect|fetch failed|refused|sending request"),
}
"""Fault to outcome, and words of the reason."""


def settings(project):
    """Limit each wait to the time of the test."""
    path = project.lab.repo / "orchestrate.toml"
    path.write_text(f'[pool]\nstart_interval = 0\n[limits]\ngrace = "{GRACE}s"\n{path.read_text()}')


@contextlib.contextmanager
def running(project, *arguments, **more):
    """Have a runtime during the block; after it, nothing of it is left whatever went wrong."""
    runtime = subprocess.Popen(
        [ORCHESTRATE, *arguments, "--json"],
        cwd=project.lab.repo,
        env=project.environ | more,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield runtime
    finally:
        runtime.kill()
        runtime.communicate()
        for run in (project.lab.repo / ".taskers" / "runs").glob("2*"):
            while left := survivors(run.name):
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)


def kill_in_mid_tool(project, runtime, names):
    """Kill the CLIs themselves, each once the tool that it has called is at work."""
    waiting = dict(names)
    while waiting and runtime.poll() is None:
        for name, worker in list(waiting.items()):
            for begun in project.lab.repo.glob(f".taskers/worktrees/*/{worker}/{name}/begun"):
                run = begun.parents[2].name
                record = project.lab.repo / ".taskers/runs" / run / "shims" / f"{worker}.started.json"
                os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)
                del waiting[name]
        time.sleep(0.05)
    assert not waiting, f"never came as far as their tool: {waiting}"


def test_each_fault_has_its_outcome_its_reason_and_its_end(project):
    settings(project)
    kinds = list(faults(project, "codex"))
    for name in AGENTS:
        for number, (front, script) in enumerate(faults(project, name).values(), 1):
            project.ticket(f"{name}-{number}", f"retries: 0\n{front}", script)
    project.commit()
    number = kinds.index("killed") + 1
    with running(project, "run", "phase-1") as runtime:
        kill_in_mid_tool(project, runtime, {name: f"{name.title()}-Worker-{number}" for name in AGENTS})
        document = told(runtime)
        assert survivors(document["run"]) == []
    for worker in document["workers"]:
        kind = kinds[int(worker["ticket"].rpartition("-")[2]) - 1]
        as_expected(kind, worker)
        if kind in ("killed", "child") and worker["agent"] != "codex":
            # What was still there was ended by us; codex has its own sandbox end it, sometimes sooner.
            assert "left_processes" in worker["flags"], worker
    assert len(document["workers"]) == 27


def test_a_connection_that_is_refused_fails_each_of_them_soon(project):
    settings(project)
    for name in AGENTS:
        project.ticket(f"{name}-1", "retries: 0\ntimeout: 300s", project.step("answer", text=REPORT))
    project.commit()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # taken, so that nobody else gets it, and never listened on
        closed = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        path = project.lab.repo / "orchestrate.toml"
        path.write_text(path.read_text().replace(project.lab.server.url, closed))
        places = {"ANTHROPIC_BASE_URL": closed, "GOOGLE_GEMINI_BASE_URL": closed}
        with running(project, "run", "phase-1", **places) as runtime:
            document = told(runtime)
            assert survivors(document["run"]) == []
    for worker in document["workers"]:
        as_expected("refused", worker)
    assert len(document["workers"]) == 3
    assert project.lab.server.requests() == []


def told(runtime):
    """Wait for a run that is bound to fail, and return its document."""
    out, err = runtime.communicate(timeout=600)
    assert runtime.returncode == 1, (out, err)
    document = json.loads(out)
    assert document["status"] == "integrated", document
    return document


def as_expected(kind, worker):
    """Hold a worker to the outcome and the reason that its fault may have."""
    outcome, words = EXPECTED[kind]
    print(
        f"{worker['agent']:<7} {kind:<8} {worker['seconds']:>6.1f} s  {worker['outcome']}: {worker['reason']}"
    )
    assert worker["outcome"] == outcome, worker
    assert re.search(words, worker["reason"], re.IGNORECASE), worker
    assert "\n" not in worker["reason"]
    assert worker["attempts"] == 1
