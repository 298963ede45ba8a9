"""Attempts: what is tried again and what never, in which thread, with which count, and where it stands."""

import hashlib
import json
import signal
from datetime import datetime
from itertools import pairwise

import pytest
from support.faults import AGENTS, step, ticket
from support.runtimes import kill_and_see_dead, started


def once(do, **fields):
    """Spell a step that is played in the first attempt alone."""
    return step("once", step={"do": do, **fields})


@pytest.fixture
def prepare(rehearsal):
    """Commit templates, with pauses that a test can wait for, and settings before all others."""

    def commit(tickets, pause=0.1, first=""):
        rehearsal.prepare(tickets)
        text = (rehearsal.root / "orchestrate.toml").read_text()
        pauses = f"[pool]\nretry_pause = {pause}\nprovider_pause = 0.1\n"
        rehearsal.lab.commit({"orchestrate.toml": first + text.replace("[pool]\n", pauses)})
        return rehearsal

    return commit


def record(lab, worker):
    return json.loads((lab.root / worker["output"]).with_suffix(".json").read_text())


def tries(lab, worker):
    return [(one["attempt"], one["kind"], one["outcome"]) for one in record(lab, worker)["tries"]]


def prompt(lab, worker, attempt):
    return lab.run_folder() / f"tickets/{worker['worker']}.{attempt}.md"


def hears(lab, worker, attempt):
    """Return whether an attempt's agent printed the hash of the expected prompt."""
    data = prompt(lab, worker, attempt).read_bytes()
    text = (lab.root / worker["output"]).read_text()
    return f"sha256 {hashlib.sha256(data).hexdigest()} of {len(data)} bytes" in text


TROUBLES = {
    "cut": (once("cut", bytes=1500), "incomplete output"),
    "stalled": (once("stall"), "no output and no activity for 1 s"),
    "killed": (once("die"), "killed by signal 9 (SIGKILL), not by us"),
    "error": (once("error", status=500, message="internal server error"), "internal server error"),
}


@pytest.mark.parametrize("agent", AGENTS)
def test_what_others_broke_off_goes_on_in_its_own_thread(prepare, agent):
    lab = prepare(
        {
            f"{agent}-{number}": ticket(trouble, step("hash"), agent=agent, retries=1, idle_timeout="1s")
            for number, (trouble, _) in enumerate(TROUBLES.values(), 1)
        }
    )
    workers = lab.run()["workers"]
    for worker, (_, reason) in zip(workers, TROUBLES.values(), strict=True):
        first, second = record(lab, worker)["tries"]
        assert worker["outcome"] == "complete", worker
        assert reason in first["reason"]
        assert (first["kind"], second["kind"], second["outcome"]) == ("first", "thread", "complete")
        assert first["thread"] == second["thread"] is not None
        assert hears(lab, worker, 2)
        told = prompt(lab, worker, 2).read_text()
        assert told.startswith(f"You were interrupted: {first['reason']}. Continue your ticket")
        output = lab.run_folder() / f"{worker['worker']}.stdout"
        assert output.stat().st_size > 0  # each attempt keeps its own files
        assert worker["output"].endswith(f"{worker['worker']}.2.txt")


@pytest.mark.parametrize("agent", AGENTS)
def test_where_its_thread_is_lost_it_begins_afresh_and_is_told_what_stands_there(prepare, agent):
    lab = prepare(
        {
            f"{agent}-1": ticket(
                once("write", path="src/half.py"), once("shell", command='rm "$TMPDIR"/fake-threads/*.steps'),
                once("die"), step("hash"), agent=agent, mode="write", owns=["src/**"], retries=1,
            )
        }
    )  # fmt: skip
    (worker,) = lab.run()["workers"]
    assert tries(lab, worker) == [
        (1, "first", "failed"), (2, "thread", "failed"), (3, "again", "complete"),
    ]  # fmt: skip
    told = prompt(lab, worker, 3).read_text()
    ticket_text = (lab.run_folder() / f"tickets/{worker['worker']}.md").read_text()
    assert told.startswith(ticket_text)
    assert "## Earlier Attempt" in told.removeprefix(ticket_text)
    assert "- `src/half.py`" in told
    assert hears(lab, worker, 3)
    assert worker["files"] == ["src/half.py"]


@pytest.mark.parametrize("how", ["stopped", "restarted"])
def test_what_went_with_its_runtime_or_its_machine_goes_on_in_its_thread(prepare, how):
    lab = prepare(
        {
            f"{agent}-1": ticket(once("stall"), step("hash"), agent=agent, idle_timeout="20s")
            for agent in AGENTS
        },
        first='on_runtime_death = "stop"\n' if how == "stopped" else "",
    )
    runtime = lab.begin("run", "phase-1")
    lab.wait_until(lambda: all("Step 2" in text for text in outputs(lab)) and len(outputs(lab)) == 3)
    runtime.send_signal(signal.SIGSTOP if how == "restarted" else signal.SIGKILL)
    if how == "restarted":
        for name, shim in started(lab.run_folder()).items():
            kill_and_see_dead(shim["shim_pid"])
            path = lab.run_folder() / f"shims/{name}.started.json"
            path.write_text(json.dumps({**shim, "boot_id": "00000000-0000-0000-0000-000000000000"}))
        runtime.kill()
    runtime.communicate()
    for worker in lab.run("resume", lab.run_folder().name)["workers"]:
        assert tries(lab, worker) == [(1, "first", "interrupted"), (2, "thread", "complete")]
        first, second = record(lab, worker)["tries"]
        assert first["thread"] == second["thread"] is not None
        assert hears(lab, worker, 2)
        assert len(ledger(lab, worker)) == 4  # two attempts: reserved and settled, each once


def outputs(lab):
    folder = lab.run_folder()
    return [path.read_text() for path in folder.glob("*.stdout")] if folder else []


def ledger(lab, worker):
    lines = [
        json.loads(line)
        for path in (lab.root / ".git/orchestrate/spending").glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    return [(one["event"], one["attempt"]) for one in lines if one["worker"] == worker["worker"]]


def test_nothing_is_tried_again_where_that_would_not_help(prepare):
    write = {"mode": "write", "retries": 2}
    cases = {
        "claude-1": (ticket(step("untrusted"), retries=2), "failed", "root"),
        "claude-2": (ticket(step("login"), retries=2), "failed", "authenticate"),
        "claude-3": (ticket(step("hang"), retries=2, timeout="1s"), "timed_out", "timeout of 1 s"),
        "claude-4": (ticket(step("answer", status="BLOCKED"), retries=2), "blocked", "Done."),
        "codex-1": (
            ticket(step("write", path="b.txt"), agent="codex", owns=["a/**"], **write), "complete", "",
        ),
        "codex-2": (
            ticket(step("write", path="c/x"), agent="codex", owns=["c/**"], acceptance=["false"], **write),
            "failed", "acceptance failed",
        ),
        "codex-3": (ticket(step("login"), agent="codex", retries=2), "failed", ""),
        "gemini-1": (ticket(step("untrusted"), agent="gemini", retries=2), "failed", "trusted"),
    }  # fmt: skip
    lab = prepare({name: text for name, (text, _, _) in cases.items()})
    document = lab.run()
    for name, (_, outcome, reason) in cases.items():
        worker = lab.worker(document, name)
        assert (name, worker["outcome"], worker["attempts"]) == (name, outcome, 1)
        assert reason.lower() in worker["reason"].lower()
    assert [one["kind"] for one in lab.worker(document, "codex-1")["violations"]] == ["out_of_scope"]


def test_attempts_are_counted_through_the_deaths_of_their_runtimes(prepare):
    failing = step("error", status=500, message="internal server error")
    lab = prepare({"codex-1": ticket(failing, agent="codex", retries=2)}, pause=30)
    runtime = lab.begin("run", "phase-1")
    for decided in (1, 2):
        lab.wait_until(lambda decided=decided: len(lab.journal("retry")) == decided)
        runtime.kill()  # it pauses; what it has decided stands
        runtime.communicate()
        runtime = lab.begin("resume", lab.run_folder().name)
    (worker,) = lab.end(runtime)["workers"]
    assert (worker["outcome"], worker["attempts"]) == ("failed", 3)
    assert tries(lab, worker) == [(1, "first", "failed"), (2, "thread", "failed"), (3, "thread", "failed")]
    assert len(lab.journal("retry")) == 2
    assert ledger(lab, worker) == [(event, n) for n in (1, 2, 3) for event in ("reserved", "settled")]


@pytest.mark.hardening
@pytest.mark.parametrize("agent", AGENTS)
def test_a_rate_limit_without_end_ends_at_the_tickets_timeout(prepare, agent):
    """T18: the same line each second (here: ten times as often) extends no deadline."""
    forever = step("error", status=429, forever=True, every=0.1)
    lab = prepare({f"{agent}-1": ticket(forever, agent=agent, timeout="3s", idle_timeout="1s")})
    (worker,) = lab.run()["workers"]
    assert worker["outcome"] in ("rate_limited", "timed_out")
    assert worker["seconds"] < 60  # it would go on without end
    assert len(lab.journal("parked")) in range(1, 5)  # said once in a while, not with every line


@pytest.mark.hardening
def test_no_time_limit_is_the_usual_one_and_none_at_all_is_refused(prepare):
    """T18: a limit that is missing or 0 never means endless."""
    lab = prepare({"claude-1": ticket(timeout=None)})
    lab.run()
    manifest = json.loads((lab.run_folder() / "run.json").read_text())
    assert [one["timeout"] for one in manifest["tickets"]] == [1800.0]
    lab.lab.templates(claude_1=ticket(timeout=0))
    refused = lab.lab.call("run", "phase-1", "--new", "--json")
    assert refused.code == 2
    assert "timeout" in refused.says()[0]


@pytest.mark.hardening
@pytest.mark.parametrize(("how", "spawns"), [("refuse", 1), ("die", 3)])
def test_who_fails_at_once_is_started_seldom_and_ever_more_slowly(prepare, how, spawns):
    """T19: five tickets, each dead on arrival, two retries."""
    lab = prepare({f"claude-{number}": ticket(step(how), retries=2) for number in range(1, 6)}, pause=0.2)
    document = lab.run()
    assert [one["outcome"] for one in document["workers"]] == ["failed"] * 5
    begun = {one["worker"]: [] for one in document["workers"]}
    for one in lab.journal("started"):
        begun[one["worker"]].append(datetime.fromisoformat(one["at"]).timestamp())
    assert [len(times) for times in begun.values()] == [spawns] * 5
    for times in begun.values():
        gaps = [after - before for before, after in pairwise(times)]
        assert all(gap >= least for gap, least in zip(gaps, (0.2, 0.4), strict=False))
