"""Messages and kill -9: whoever dies, each message that its sender knows to be written is handled once."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from support import mail_sender
from support.messages import Talk
from support.repository import SCRIPT
from support.runtimes import PATIENCE, kill_and_see_dead, pids, wait_until
from support.templates import front

from orchestrator.state.phases.phase_status.read import read

STATUS = "phases/phase-1/STATUS.md"
SENDER = Path(mail_sender.__file__)


class Size(NamedTuple):
    """How many of each there are, and how busy they are."""

    workers: int
    plans: int
    kills: int
    """Of each kind: runtimes, leads, and by the workers their servers, hooks and commands."""
    pause: float
    """The most seconds between two words of a worker."""


SIZE = Size(15, 24, 100, 1.0) if os.environ.get("ORCHESTRATE_SOAK") == "1" else Size(4, 6, 8, 0.1)


class Lead:
    """A lead that reads, answers and closes what waits for it, and is killed at random moments."""

    def __init__(self, lives, run, rng):
        self._lives, self._run, self._rng = lives, run, rng
        self.told, self.seen, self.failed, self.killed = [], set(), [], 0
        self._open = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def _work(self):
        number = 0
        while not self._is_over.is_set() and not self.failed:
            number += 1
            if found := self._call("msg", "inbox"):
                self._open = [one["id"] for one in found["messages"] if one["open"]]
                self.seen |= {one["id"] for one in found["messages"]}
            asked = self._rng.choice(self._open) if self._open else None
            to = f"Command-Worker-{self._rng.randint(1, SIZE.workers)}"
            say = ("--re", asked) if asked and number % 3 else ("--to", to)
            if sent := self._call("msg", "send", *say, f"word {number}"):
                self.told.append(sent["message"]["id"])
            if asked and number % 4 == 0 and (closed := self._call("msg", "ack", asked)):
                self.told += [one["ack"] for one in closed["acked"]]

    def _call(self, *words):
        """Call the command line; return what it says, None where it was killed before."""
        argv, pipes = [SCRIPT, *words, "--json"], {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(
            argv,
            cwd=self._lives.root,
            env=self._lives.lab.env(),
            stdin=subprocess.DEVNULL,
            text=True,
            **pipes,
        ) as process:
            timer = threading.Timer(self._rng.uniform(0, 1), process.kill)
            if self._rng.random() < 0.7:
                timer.start()
            out, err = process.communicate(timeout=PATIENCE)
            timer.cancel()
        was_killed = process.returncode == -signal.SIGKILL
        self.killed += was_killed
        said = json.loads(out) if out.endswith("\n") else None
        if said is None or not said["ok"]:
            self.failed += [] if was_killed else [(words, process.returncode, out, err)]
            return None
        return said


def template(number, seed, outside):
    kills = -(-SIZE.kills // SIZE.workers)
    words = [sys.executable, SENDER, outside, kills, SIZE.plans if number == 1 else 0, SIZE.pause, seed]
    command = json.dumps([str(one) for one in words] + ["--phase-worker"] * (number == 1))
    return front(f"""
        agent: command
        command: {command}
        phase: phase-1
        title: Work {number}
        mode: write
        owns: ["{"src" if number == 1 else f"out/{number}"}/**"]
        phase_worker: {"true" if number == 1 else "false"}
    """)


def prepared(lives, seed):
    """Commit a phase worker that reports plan after plan, and peers that talk."""
    lab = lives.lab
    talk = Talk(lab)
    assert lab.call("init", "--with", "phases").code == 0
    plans = "\n\n".join(
        f"### 01-{at:02}: Plan {at}\n\n**Verify:** `test -s src/{at}.txt`\n\n**Tasks:**\n- Task {at}"
        for at in range(1, SIZE.plans + 1)
    )
    head = "# Phase 1: Review - Plan\n\n**Phase:** phase-1\n\n---\n\n## Plans\n\n"
    lab.commit({
        "phases/phase-1/PLAN.md": f"{head}{plans}\n\n---\n\n**Plan File End**\n", "src/0.txt": "0\n",
        **{f"docs/worker-ticket-templates/command-{number}.md": template(number, seed, lives.outside)
           for number in range(1, SIZE.workers + 1)},
    })  # fmt: skip
    (lives.outside / "workers").write_text(f"{SIZE.workers}")
    return talk


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_whoever_is_killed_at_a_random_moment_each_message_is_handled_once(lives, capsys):
    seed = int(os.environ.get("ORCHESTRATE_SEED", str(random.randrange(10**6))))
    rng = random.Random(seed)
    talk = prepared(lives, seed)
    run, _ = lives.detached("--new")
    with Lead(lives, run.name, random.Random(seed + 1)) as lead:
        killed = Counter(runtimes=killed_runtimes(lives, run, rng))
        runtime_for(lives, run)
        wait_until(lambda: lead.killed >= SIZE.kills or lead.failed)
        wait_until(lambda: len(list(lives.outside.glob("*.enough"))) == SIZE.workers, 900)
    assert lead.failed == []
    (lives.outside / "enough").touch()
    # The last runtime sees the run to its end.
    told = lives.call("wait", run.name, "--timeout", str(PATIENCE), "--json")
    while told.document["status"] == "running":
        # What it returns for is read.
        lead.seen |= {one["id"] for one in lives.call("msg", "inbox", "--json").document["messages"]}
        told = lives.call("wait", run.name, "--timeout", str(PATIENCE), "--json")
    told = lives.call("resume", run.name, "--json")
    assert told.document["status"] == "integrated", told
    assert {one["outcome"] for one in told.document["workers"]} == {"complete"}, told
    killed.update(leads=lead.killed, **Counter(noted(lives, "killed")))
    written = [*noted(lives, "told"), *lead.told]
    assert min(killed[kind] for kind in ("runtimes", "leads", *mail_sender.KINDS)) >= SIZE.kills
    held(talk, run, written)
    read_by_all(lives, talk, run)
    assert acknowledged(talk, f"{run.name}.lead") - lead.seen == set()
    assert lives.call("validate", "--json").code == 0
    with capsys.disabled():
        kinds = ", ".join(f"{number} {kind}" for kind, number in killed.items())
        print(f"\nseed {seed}: killed {kinds}; {len(written)} messages, each handled once")


def noted(lives, kind, name="*"):
    """Return what workers have noted outside of their trees."""
    return [line for path in lives.outside.glob(f"{name}.{kind}") for line in path.read_text().split()]


def killed_runtimes(lives, run, rng):
    """Kill runtime after runtime, and commands that start the next; return how many runtimes it were."""
    for _ in range(SIZE.kills):
        runtime = runtime_for(lives, run)
        # Now while it begins, now in the middle of its work.
        time.sleep(rng.uniform(0, rng.choice([0.5, 3])))
        assert runtime in pids(), "it has ended before its workers"
        kill_and_see_dead(runtime)
        if rng.random() < 0.3:
            resuming = lives.begin("resume", run.name, "--detach")
            time.sleep(rng.uniform(0, 1))
            resuming.kill()
            resuming.communicate(timeout=PATIENCE)
    return SIZE.kills


def runtime_for(lives, run):
    """Return the runtime of a run; a new one where there is none."""
    while (found := _runtime(lives, run.name)) is None:
        told = lives.call("resume", run.name, "--detach", "--json")
        # One that was started by a command that we have killed may be there by now.
        assert told.code in (0, 5), told
    return found


def _runtime(lives, run):
    try:
        return lives.runtime_of(run)
    except ValueError:
        return None


def held(talk, run, written):
    """Hold that each message has its receipt and its one effect, and that STATE.md is a recount."""
    by_id = {message.record.id: message for message in talk.book()}
    everything = {*by_id, *(ack.id for message in by_id.values() for ack in message.acks)}
    assert [id_ for id_ in written if id_ not in everything] == []
    coordinator = f"{run.name}.coordinator"
    owed = [one for one in by_id.values() if one.record.to == coordinator]
    receipts = [[ack.how for ack in one.acks if ack.sender == coordinator] for one in owed]
    assert all(len(one) == 1 for one in receipts), Counter(map(len, receipts))
    copied = Counter((run / "messages.jsonl").read_bytes().splitlines())
    assert max(copied.values()) == 1
    noted = Counter(one["id"] for one in talk.journal("message"))
    assert max(noted.values()) == 1
    held_in_files(talk, [one for one in owed if "handled" in {ack.how for ack in one.acks}], by_id)


def held_in_files(talk, handled, by_id):
    """Hold that the phase's files show each effect once, and no other."""
    text = (talk.lab.root / STATUS).read_text()
    status = read(STATUS, text.encode())
    mine = [one.record for one in handled if one.record.sender == status_worker(status, text)]
    ids = {kind: sorted(one.id for one in mine if one.type == kind) for kind in ("blocker", "state_change")}
    assert sorted(one.message for one in status.blockers) == ids["blocker"]
    assert sorted(one.by for one in status.context) == ids["state_change"]
    for blocker in status.blockers:
        answers = [one.id for one in by_id[blocker.message].answers]
        assert blocker.answered_by in (answers or [None]), (blocker, answers)
    moves = Counter(
        (one.plan, one.type) for one in mine if one.type in ("plan_started", "plan_complete", "error")
    )
    plans = [f"01-{at:02}" for at in range(1, SIZE.plans + 1)]
    assert moves == Counter((plan, kind) for plan in plans for kind in ("plan_started", "plan_complete"))
    for plan in plans:
        assert text.count(f" {plan} not started -> in progress (") == 1
        assert text.count(f" {plan} in progress -> complete: ") == 1
    assert (status.state, [one.state for one in status.plans]) == ("complete", ["complete"] * SIZE.plans)
    for row in status.plans:
        assert talk.lab.git("show", f"{row.commit}:src/{int(row.plan[3:])}.txt") == row.plan
        assert (row.verified, row.landed) == (row.commit, talk.lab.git("rev-parse", row.landed).strip())
    state = (talk.lab.root / "STATE.md").read_text().splitlines()
    row = next(line for line in state if "| phase-1 |" in line)
    assert " | ".join(map(str, status.counts.values())) in row


def status_worker(status, text):
    """Return the phase worker; its name has left the header where the run has ended."""
    return status.worker or f"{text.rpartition('.Command-Worker-1:')[0].rpartition('(')[2]}.Command-Worker-1"


def acknowledged(talk, me):
    """Return the messages that somebody says to have been shown."""
    return {
        one.record.id for one in talk.book() for ack in one.acks if (ack.sender, ack.how) == (me, "shown")
    }


def read_by_all(lives, talk, run):
    """Hold that each worker was shown each message to it, and has said so once, or has answered it."""
    book = [one for one in talk.book() if one.record.to.startswith(f"{run.name}.")]
    for number in range(1, SIZE.workers + 1):
        name = f"Command-Worker-{number}"
        me, seen = f"{run.name}.{name}", set(noted(lives, "seen", name))
        for message in book:
            if message.record.to in (me, f"{run.name}.all") and message.record.sender != me:
                acks = [ack.how for ack in message.acks if ack.sender == me]
                answered = any(one.sender == me for one in message.answers)
                assert acks in (["shown"], [] if answered else ["shown"]), (me, message.record, acks)
                assert message.record.id in seen, (me, message.record)
