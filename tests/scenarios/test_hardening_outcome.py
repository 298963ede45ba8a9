"""What becomes of a worker: errors, silence, an end that does not come, records without work behind them."""

import pytest
from support.faults import AGENTS, step, ticket

pytestmark = pytest.mark.hardening


def test_an_error_is_a_failure_also_where_the_exit_code_is_0(rehearsal):
    """T14: an error record, the error on standard error, exit 0, no closing record."""
    steps = [
        step("error", status=500, message="internal server error", final=False),
        step("raw", stderr="API error: 500\n"),
        step("exit", code=0),
    ]
    rehearsal.prepare({
        **{f"{name}-1": ticket(*steps, agent=name) for name in AGENTS},
        **{f"{name}-2": ticket(agent=name, depends_on=[f"{name}-1"]) for name in AGENTS},
    })  # fmt: skip
    document = rehearsal.run()
    for name in AGENTS:
        one, after = (rehearsal.worker(document, f"{name}-{number}") for number in (1, 2))
        assert (one["outcome"], one["exit_code"]) == ("failed", 0)
        assert "internal server error" in one["reason"] or "500" in one["reason"]
        assert (after["outcome"], after["verdict"], after["attempts"]) == ("skipped", None, 0)
    assert len(rehearsal.journal("started")) == 3


def test_silence_is_no_success(rehearsal):
    """T15: nothing at all and exit 0; an empty answer and nothing changed."""
    silent, empty = step("exit"), step("answer", text="", report=False)
    rehearsal.prepare({
        **{f"{name}-1": ticket(silent, agent=name) for name in AGENTS},
        **{f"{name}-2": ticket(empty, agent=name, mode="write", owns=[f"{name}/**"]) for name in AGENTS},
    })  # fmt: skip
    document = rehearsal.run()
    for name in AGENTS:
        silent, idle = (rehearsal.worker(document, f"{name}-{number}") for number in (1, 2))
        assert (silent["outcome"], silent["exit_code"]) == ("failed", 0)
        assert "no result" in silent["reason"]
        assert idle["outcome"] == "failed"
        assert "no_changes" in idle["flags"]


def test_a_claim_without_work_is_flagged_and_success_with_a_failing_exit_is_none(rehearsal):
    """T15, the louder kind: claims that it wrote a file; reports success and exits with 1."""
    owned = {"mode": "write", "acceptance": ["test -e src/never_written.py"]}
    rehearsal.prepare({
        "claude-1": ticket(step("lie"), owns=["src/never_written.py"], **owned),
        "claude-2": ticket(step("lie", code=1)),
    })  # fmt: skip
    first, second = rehearsal.run()["workers"]
    assert (first["outcome"], first["verdict"], first["files"]) == ("failed", "rejected", [])
    assert "no changes, though its report names src/never_written.py" in first["reason"]
    assert "no_changes" in first["flags"]
    assert (second["outcome"], second["exit_code"]) == ("failed", 1)


def test_a_worker_that_has_said_all_and_does_not_go_is_complete(rehearsal):
    """T16: it is stopped after its grace, and the record notes that it did not exit."""
    stay = [step("ignore-term"), step("never-exit")]
    rehearsal.prepare({
        **{f"{name}-1": ticket(step("never-exit"), agent=name) for name in AGENTS},
        **{f"{name}-2": ticket(*stay, agent=name) for name in AGENTS},
    })  # fmt: skip
    document = rehearsal.run()
    for one in document["workers"]:
        assert (one["outcome"], one["verdict"]) == ("complete", "accepted"), one
        assert "did_not_exit" in one["flags"]
        assert one["seconds"] >= 1  # its grace
        assert "COMPLETE" in (rehearsal.root / one["output"]).read_text()


def test_a_worker_that_falls_silent_is_stopped_and_may_be_tried_again(rehearsal):
    """T17: two records, then nothing; retried once, as the template allows."""
    stall, again = step("stall", records=2), {"codex": 1, "claude": 0, "gemini": 0}
    rehearsal.prepare({
        f"{name}-1": ticket(stall, agent=name, idle_timeout="1s", retries=again[name]) for name in AGENTS
    })  # fmt: skip
    document = rehearsal.run()
    for one in document["workers"]:
        assert one["outcome"] == "timed_out"
        printed = rehearsal.stdout(one)
        assert printed.count(b"Step 1.") == printed.count(b"Step 2.") == 1
    assert [one["worker"] for one in rehearsal.journal("retry")] == ["Codex-Worker-1"]


def test_an_open_tool_call_is_not_silence(rehearsal):
    """T17, the other side: quiet for longer than the idle limit, below a tool that takes its time."""
    rehearsal.prepare({
        f"{name}-1": ticket(step("shell", seconds=3), agent=name, idle_timeout="1s") for name in AGENTS
    })  # fmt: skip
    for one in rehearsal.run()["workers"]:
        assert one["outcome"] == "complete", one


def test_a_question_that_nobody_answers_blocks_within_the_idle_limit(rehearsal):
    """T17 again: it asks for leave, and waits."""
    rehearsal.prepare({f"{name}-1": ticket(step("ask"), agent=name, idle_timeout="1s") for name in AGENTS})
    for one in rehearsal.run()["workers"]:
        assert (one["outcome"], one["verdict"]) == ("blocked", "rejected")
        assert "May I run" in one["reason"]
        assert b"May I run" in rehearsal.stdout(one)
