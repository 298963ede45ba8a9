"""What a checkpoint says at each stage, from the facts of a run; an agent's own lines in its stream."""

import json

import pytest
from support.repository import AT

from orchestrator.runs.events import NO_USAGE, AcceptanceResult, Begin, Evidence, Try, WorkerStarted
from orchestrator.runs.stages import Stages, own_line
from orchestrator.runs.worker_state import WorkerState
from tickets.ticket import Ticket
from workers.agents.follow import Follower

RUN, W = "20260216_142834", "Codex-Worker-2"
TICKET = Ticket("codex-2", "docs/t.md", W, "codex", "phase-2", "Port the parser", "", deliverable="Parser")
FAILED = AcceptanceResult("make test", False, 2, "exited", 1.0, "x")


def worker(outcome=None, **fields):
    made = WorkerState(W, "codex-2", "codex")
    for name, value in {"outcome": outcome, **fields}.items():
        setattr(made, name, value)
    return made


def stages(**fields):
    return Stages(RUN, TICKET._replace(**fields), "phase-2")


@pytest.mark.parametrize(
    ("mode", "attempt", "begin", "stage", "action"),
    [
        ("read-only", 1, None, "research", f"Claimed by {W} (run {RUN})"),
        ("write", 1, None, "implementation", f"Claimed by {W} (run {RUN})"),
        ("write", 2, Begin("again", reason="exit code 1"), None, f"Attempt 2 by {W}: exit code 1"),
        ("write", 3, Begin("thread", "t", "quiet"), None, f"Attempt 3 by {W}: quiet, in its own thread"),
        ("write", 2, Begin("answered", "t", "x", answer="Yes"), None,
         f"Attempt 2 by {W}: answered by the lead, in its own thread"),
    ],
)  # fmt: skip
def test_what_an_attempt_begins_with(mode, attempt, begin, stage, action):
    made = stages(mode=mode).started(WorkerStarted(W, attempt, "abc"), worker(begin=begin), AT)
    assert (made.feature, made.agent, made.team) == ("Parser", "codex-2", "phase-2")
    assert (made.stage, made.status, made.action) == (stage, "in_progress", action)


def test_without_a_deliverable_the_title_is_the_feature():
    assert (
        stages(deliverable=None).started(WorkerStarted(W, 1, "a"), worker(), AT).feature == "Port the parser"
    )


CUT = Try(1, NO_USAGE, outcome="timed_out")


@pytest.mark.parametrize(
    ("outcome", "fields", "wanted"),
    [
        ("complete", {"evidence": Evidence(summary="Ported it")},
         ("review", "awaiting_review", "Reported COMPLETE: Ported it")),
        ("complete", {}, ("review", "awaiting_review", "Reported COMPLETE")),
        ("blocked", {"found": "no schema"}, (None, "blocked", "Blocked: no schema; needs the schema")),
        ("needs_clarification", {"found": "Which?"}, (None, "blocked", "Asks: Which?")),
        ("timed_out", {"found": "ran longer", "evidence": Evidence(files=("a", "b"))},
         (None, "in_progress", "Cut off: ran longer; last: edited a; 2 files are kept")),
        ("interrupted", {"found": "its runtime stopped", "evidence": Evidence(files=("a",))},
         (None, "in_progress", "Cut off: its runtime stopped; last: edited a; 1 file is kept")),
        ("timed_out", {"found": "again", "tries": (CUT, CUT)},
         (None, "blocked", "Cut off: again; last: edited a; no file was changed")),
        ("failed", {"found": "exit code 1"}, (None, "blocked", "Failed: exit code 1; no file was changed")),
        ("failed", {"found": "x", "evidence": Evidence(acceptance=(FAILED,), files=("a",))},
         ("testing", "blocked", "Acceptance failed: make test exited with 2")),
        ("failed", {"found": "x", "evidence": Evidence(acceptance=(FAILED._replace(end="timed_out"),))},
         ("testing", "blocked", "Acceptance failed: make test timed out")),
        ("over_budget", {"found": "spent"}, (None, "blocked", "Over budget: spent; no file was changed")),
        ("cancelled", {"found": "said"}, (None, "blocked", "Cancelled: said; no file was changed")),
    ],
)  # fmt: skip
def test_what_it_ended_with(outcome, fields, wanted):
    needs = "the schema" if outcome == "blocked" else ""
    made = stages().ended(worker(outcome, **fields), AT, last="edited a", needs=needs)
    assert (made.stage, made.status, made.action) == wanted


def test_nothing_to_do_writes_nothing():
    assert stages().ended(worker("skipped"), AT) is None
    assert stages().judged(worker("skipped"), AT, None) is None


@pytest.mark.parametrize(
    ("verdict", "wanted"),
    [
        ("accepted", ("review", "complete", f"Accepted (run {RUN}), landed as 97f3cfdb1b")),
        ("partial", ("review", "complete", f"Accepted in part (run {RUN}): why")),
        ("pending", ("review", "awaiting_review", "Waits for the lead: why")),
        ("rejected", (None, "blocked", "Rejected: why")),
    ],
)
def test_what_was_decided(verdict, wanted):
    made = stages().judged(worker("complete", verdict=verdict, reason="why"), AT, "97f3cfdb1b08651d")
    assert (made.stage, made.status, made.action, made.begins) == (*wanted, True)


def test_a_command_begins_none_where_it_is_accepted_and_one_where_it_failed():
    command = stages(agent="command")
    assert command.judged(worker("complete", verdict="accepted"), AT, None).begins is False
    failed = command.judged(worker("failed", verdict="rejected", found="exit code 1"), AT, None)
    assert (failed.status, failed.begins) == ("blocked", True)
    assert stages().judged(worker("failed", verdict="rejected"), AT, None) is None  # its end has said so


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("CHECKPOINT: Lexer done; next: escapes", ("Lexer done; next: escapes", None, "in_progress")),
        ("CHECKPOINT [testing]: x", ("x", "testing", "in_progress")),
        ("CHECKPOINT [Testing, BLOCKED]: x", ("x", "testing", "blocked")),
        ("CHECKPOINT [blocked]: x", ("x", None, "blocked")),
        ("CHECKPOINT [complete]: all of it", ("all of it", None, "in_progress")),
        ("CHECKPOINT: \x1b[31m# x\x07", ("# x", None, "in_progress")),
        ("CHECKPOINT:", None), ("CHECKPOINT: ", None), ("CHECKPOINTS: x", None), ("checkpoint: x", None),
        (" CHECKPOINT: x", None), ("CHECKPOINT [testing] x", None),
    ],
)  # fmt: skip
def test_a_line_of_the_workers_own(line, wanted):
    found = own_line(line)
    assert (found and (found.text, found.stage, found.standing)) == wanted


def test_a_long_line_is_cut():
    assert len(own_line(f"CHECKPOINT: {'x' * 1_000_000}").text) == 300


def parts(*deltas):
    """Return the stream of a CLI whose messages come in parts."""
    return [
        {"type": "init", "session_id": "s", "model": "m"},
        *({"type": "message", "role": "assistant", "content": one, "delta": True} for one in deltas),
    ]


@pytest.mark.parametrize(
    ("records", "wanted"),
    [
        (parts("CHECK", "POINT: Lexer", " done\n", "more"), "CHECKPOINT: Lexer done"),
        (parts("CHECKPOINT: one\nCHECKPOINT: two\nx"), "CHECKPOINT: two"),
        (parts("CHECKPOINT: cut off by the ki"), ""),
        (parts("CHECKPOINT: before a tool", "\n") , "CHECKPOINT: before a tool"),
        ([*parts("CHECKPOINT: before a tool"), {"type": "tool_use", "tool_name": "x", "tool_id": "1"}],
         "CHECKPOINT: before a tool"),
        (parts("say CHECKPOINT: no\n"), ""),
    ],
)  # fmt: skip
def test_a_line_is_known_whatever_parts_it_comes_in(tmp_path, records, wanted):
    out = tmp_path / "out"
    out.write_bytes(b"".join(json.dumps(one).encode() + b"\n" for one in records))
    follower = Follower("gemini", out)
    follower.read_more()
    assert follower.checkpoint == wanted
    follower.read_more()
    assert follower.checkpoint == ""


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_line_that_comes_with_the_end_is_known_when_the_worker_is_judged(tmp_path, end):
    """Between two polls a worker may say it, close, and exit."""
    out, err = tmp_path / "out", tmp_path / "err"
    records = [*parts("CHECKPOINT: Lexer done\n", "The report."), {"type": "result", "status": "success"}]
    out.write_text("\n".join(map(json.dumps, records)) + end)
    follower = Follower("gemini", out)
    follower.answer(exit_code=0, stderr=err)
    assert follower.checkpoint == "CHECKPOINT: Lexer done"
