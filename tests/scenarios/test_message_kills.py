"""Messages and kill -9: whoever dies, each message that its sender knows to be written is handled once."""

import os
import random
import re
import time
from collections import Counter

import pytest
from support.messages import SENDS, Talk
from support.runtimes import kill_and_see_dead, pids, wait_until
from support.templates import front

from orchestrator.state.phases.phase_status.read import read

IS_SOAK = os.environ.get("ORCHESTRATE_SOAK") == "1"
PLANS = 8
STATUS = "phases/phase-1/STATUS.md"
# What was written is noted beside the log: just that must be handled.
SAYS = (
    SENDS
    + """
import pathlib, random, time
outside = pathlib.Path({outside!r})
def told(type, to, body, **more):
    sent = send(type, to, body, **more)
    with (outside / name).open("a") as file:
        file.write(sent.id + "\\n")
    time.sleep(random.uniform(0.02, {pause}))
"""
)
LEADS = (
    SAYS
    + """
for plan in range(1, {plans} + 1):
    id = f"01-{{plan:02}}"
    told("plan_started", "coordinator", "", plan=id, phase="phase-1")
    told("task_progress", "coordinator", "", plan=id, facts=dict(task=f"Task {{plan}}", state="done"))
    told("state_change", "coordinator", "", facts=dict(context=f"Context {{plan}}"))
    told("blocker", "coordinator", f"Wall {{plan}}", plan=id, facts=dict(title=f"Wall {{plan}}", mode="skip"))
    pathlib.Path(f"src/{{plan}}.txt").write_text(id)
    told("plan_complete", "coordinator", f"done {{plan}}", plan=id)
    if plan % 2:
        told("error", "coordinator", "it was complete", plan=id, facts=dict(state="failed"))
"""
)
PEER = (
    SAYS
    + """
for number in range({plans} * 4):
    to = ("coordinator", "Command-Worker-1", "all")[number % 3]
    told("question" if number % 5 == 0 else "chat", to, f"say {{number}}")
"""
)


def template(number, python, phase_worker):
    return front(f"""
        agent: command
        command: ["{python}", "do-{number}.py"]
        phase: phase-1
        title: Work {number}
        mode: write
        owns: ["{"src" if number == 1 else f"out/{number}"}/**"]
        phase_worker: {"true" if phase_worker else "false"}
    """)


def prepared(lives, peers, pause):
    """Commit a phase worker that reports plan after plan, and peers that talk."""
    lab = lives.lab
    talk = Talk(lab)
    assert lab.call("init", "--with", "phases").code == 0
    plans = "\n\n".join(
        f"### 01-{at:02}: Plan {at}\n\n**Verify:** `test -s src/{at}.txt`\n\n**Tasks:**\n- Task {at}"
        for at in range(1, PLANS + 1)
    )
    head = "# Phase 1: Review - Plan\n\n**Phase:** phase-1\n\n---\n\n## Plans\n\n"
    files = {"phases/phase-1/PLAN.md": f"{head}{plans}\n\n---\n\n**Plan File End**\n"}
    words = {"outside": str(lives.outside), "plans": PLANS, "pause": pause}
    for number in range(1, peers + 2):
        script = LEADS if number == 1 else PEER
        body = script.replace("{outside!r}", repr(words["outside"])).replace("{pause}", str(pause))
        body = body.replace("{plans}", str(PLANS)).replace("{{", "{").replace("}}", "}")
        files[f"do-{number}.py"] = body
        files[f"docs/worker-ticket-templates/command-{number}.md"] = template(
            number, Talk.python, number == 1
        )
    lab.commit(files)
    return talk


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_runtimes_are_killed_at_random_moments_and_each_message_is_handled_once(lives, capsys):
    seed = int(os.environ.get("ORCHESTRATE_SEED", str(random.randrange(10**6))))
    rng, peers, kills = random.Random(seed), 14 if IS_SOAK else 3, 0
    talk = prepared(lives, peers, 0.2 if IS_SOAK else 0.08)
    run, runtime = lives.detached("--new")
    most = 100 if IS_SOAK else 12
    while kills < most and runtime in pids():
        time.sleep(rng.uniform(0, 0.5))
        if runtime not in pids():
            break
        kill_and_see_dead(runtime)
        kills += 1
        told = lives.call("resume", run.name, "--detach", "--json")
        assert told.code == 0, told
        found = [pid for pid in pids() if pid == _runtime(lives, run.name)]
        if not found:
            break
        (runtime,) = found
    wait_until(lambda: talk.journal("recorded") or _settled(lives, run.name))
    told = lives.call("resume", run.name, "--json")
    assert told.document["status"] == "integrated", told
    written = {line for path in lives.outside.iterdir() for line in path.read_text().split()}
    assert len(written) == 5 * PLANS + PLANS // 2 + peers * 4 * PLANS
    held(talk, run, written)
    with capsys.disabled():
        print(f"\nseed {seed}: {kills} runtimes killed, {len(written)} messages, each handled once")


def _runtime(lives, run):
    try:
        return lives.runtime_of(run)
    except ValueError:
        return None


def _settled(lives, run):
    return lives.call("wait", run, "--timeout", "0", "--json").document["status"] != "running"


def held(talk, run, written):
    """Hold that each message has its receipt and its one effect, and that STATE.md is a recount."""
    book = talk.book()
    by_id = {message.record.id: message for message in book}
    assert written <= by_id.keys()
    coordinator = f"{run.name}.coordinator"
    owed = [by_id[id_] for id_ in written if by_id[id_].record.to == coordinator]
    receipts = [[ack.how for ack in one.acks if ack.sender == coordinator] for one in owed]
    assert all(len(one) == 1 for one in receipts), Counter(map(len, receipts))
    text = (talk.lab.root / STATUS).read_text()
    assert (
        max(Counter(re.findall(r"\*\*Message:\*\* (\S+)|^- .*\((\S+:\d+)\)$", text, re.MULTILINE)).values())
        == 1
    )
    status = read(STATUS, text.encode())
    assert [one.title for one in status.blockers] == [f"Wall {at}" for at in range(1, PLANS + 1)]
    assert [one.text for one in status.context] == [f"Context {at}" for at in range(1, PLANS + 1)]
    assert [one.state for one in status.plans] == ["complete"] * PLANS
    for row in status.plans:
        assert talk.lab.git("show", f"{row.commit}:src/{int(row.plan[3:])}.txt") == row.plan
        assert (row.verified, row.landed) == (row.commit, talk.lab.git("rev-parse", row.landed).strip())
    row = next(
        line for line in (talk.lab.root / "STATE.md").read_text().splitlines() if "| phase-1 |" in line
    )
    assert f"| 0 | 0 | {PLANS} | 0 |" in row
    copied = Counter((run / "messages.jsonl").read_bytes().splitlines())
    assert max(copied.values()) == 1
