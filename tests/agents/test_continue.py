"""A job of ten steps is killed at random moments, in three ways, and goes on: with all that was done before.

`make soak` kills each agent, and a command, five times in each way; `make test` once each.
"""

import json
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter

import pytest
from support.real_phase import ORCHESTRATE, REPORT, survivors

pytestmark = [pytest.mark.real_cli, pytest.mark.soak, pytest.mark.timeout(1800)]

SOAK = os.environ.get("ORCHESTRATE_SOAK") == "1"
WAYS = ("worker", "all", "limit")
NAMES = ("codex", "claude", "gemini", "command")
STEPS = range(1, 11)
MOMENTS = 5
LIMIT = 9
"""Seconds that a ticket of the way `limit` may take; its steps take more."""
ENOUGH = 12
"""Calls after which a job has ended, or never will."""
CASES = [(name, way, moment) for name in NAMES for way in WAYS for moment in range(MOMENTS)]
SHORT = [("codex", "limit", 0), ("claude", "limit", 1), ("gemini", "all", 2), ("command", "worker", 3)]


def do(number, pause):
    return f"[ -e done/{number} ] || {{ sleep {pause}; echo {number} > done/{number}; echo did-{number}; }}"


def check():
    """Return the command of who looks at the end what is missing: a call that was cut off may be."""
    numbers = " ".join(map(str, STEPS))
    return f"for i in {numbers}; do [ -e done/$i ] || {{ echo $i > done/$i; echo mended-$i; }}; done"


def write_ticket(project, name, way):
    pause = 1.2 if way == "limit" else 0.3
    limit = f"timeout: {LIMIT}s\nretries: 0" if way == "limit" else "timeout: 200s\nretries: 1"
    front = f'mode: write\nowns: ["done/**"]\n{limit}'
    texts = [do(number, pause) for number in STEPS]
    if name == "command":
        script = "mkdir -p done; " + "; ".join(texts)
        project.ticket("command-1", f"agent: command\n{front}\ncommand: {json.dumps(['sh', '-c', script])}")
        return
    steps = [project.step("shell", cmd=f"mkdir -p done; {text}") for text in texts]
    project.ticket(
        f"{name}-1", front, *steps, project.step("shell", cmd=check()), project.step("answer", text=REPORT)
    )


def started(project):
    """Return the pids of the newest attempt of the worker: of its shim, and of the worker itself."""
    records = sorted(
        (project.lab.repo / ".taskers/runs").glob("*/shims/*.started.json"),
        key=lambda one: one.stat().st_mtime,
    )
    found = json.loads(records[-1].read_text()) if records else {}
    return found.get("shim_pid"), found.get("pid")


def done_in(project):
    trees = (project.lab.repo / ".taskers/worktrees").glob("*/*/done/*")
    return {path.name for path in trees}


def kill(project, runtime, way, at, rest):
    """Wait for a step of the job, then kill the worker alone, or all of the run."""
    until = time.monotonic() + 200
    while str(at) not in done_in(project) and runtime.poll() is None:
        assert time.monotonic() < until, "the step never came"
        time.sleep(0.01)
    time.sleep(rest)  # anywhere within the next step, whatever comes
    shim, worker = started(project)
    if way == "all":
        runtime.kill()
    for pid in (shim, worker) if way == "all" else (worker,):
        if pid:
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    return runtime.communicate()


def begin(project, *arguments):
    return subprocess.Popen(
        [ORCHESTRATE, *arguments, "--json"], cwd=project.lab.repo, env=project.environ,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def follow(project, document):
    """Do what the answers say until the job is done; return how it went on each time."""
    went = []
    for _ in range(ENOUGH):
        step = document["next_action"]
        if step is None or not re.match(r"orchestrate (resume|run|wait)", step):
            return went, document
        words = step.replace(" --detach", "").split()[1:]
        if words[0] == "run":
            shown = project.call("plan", *words[1:])[1]["tickets"][0]["continues"]
            went.append(shown["from"] if shown else "nothing")
        elif words[0] == "resume" and len(words) > 1:
            went.append("resume")
        _, document = project.call(*words)
    raise AssertionError(f"it does not end: {went}, {document['next_action']}")


@pytest.mark.parametrize(("name", "way", "moment"), CASES if SOAK else SHORT)
def test_a_job_that_is_killed_goes_on_with_all_that_was_done(project, name, way, moment):
    chance = random.Random(f"{name}-{way}-{moment}")
    write_ticket(project, name, way)
    project.commit()
    runtime = begin(project, "run", "phase-1")
    if way == "limit":
        out, _ = runtime.communicate()
    else:
        out, _ = kill(project, runtime, way, chance.randint(1, 8), chance.random() * 0.6)
    document = json.loads(out) if out else project.call("resume")[1]
    went, last = follow(project, document)
    folder = project.lab.repo / "done"
    made = {path.name: path.read_text() for path in folder.iterdir()} if folder.is_dir() else {}
    assert made == {str(number): f"{number}\n" for number in STEPS}, (went, last)
    bodies = [asked["body"] for asked in project.lab.server.requests()]
    said = Counter(found for body in bodies for found in set(re.findall(r"(?:did|mended)-\d+(?!;)", body)))
    kinds = Counter(one["kind"] for one in journal(project, "started"))
    told = f"{', '.join(went) or 'at once'}; attempts: {dict(kinds)}; {len(said)} steps seen"
    print(f"\n{name}, {way}, {moment}: {told}")
    for run in (project.lab.repo / ".taskers/runs").glob("2*"):
        assert survivors(run.name) == []
    if way == "limit":
        assert "nothing" not in went
        assert went[:1] == ["thread" if name in ("codex", "claude") else "patch"]


def journal(project, event):
    found = []
    for path in sorted((project.lab.repo / ".taskers/runs").glob("2*/events.jsonl")):
        found += [json.loads(line) for line in path.read_text().splitlines()]
    return [one for one in found if one["event"] == event]
