"""Limits, open questions, lost threads and running retries in the streams."""

import json
from pathlib import Path

import pytest

from workers.agents.agent import Progress, agent_named
from workers.agents.follow import Follower
from workers.agents.stream import id_at, number_at

STREAMS = Path(__file__).parent / "streams"
CLIS = ("codex", "claude", "gemini")
each_cli = pytest.mark.parametrize("name", CLIS)
NOW = 1_796_000_000.0

LIMIT = "You've hit your usage limit. "


def failed(name, words, status=429):
    """Return the records of a CLI that its provider refused, and its exit code."""
    match name:
        case "codex":
            return [
                {"type": "error", "message": words},
                {"type": "turn.failed", "error": {"message": words}},
            ], 1
        case "claude":
            end = {"type": "result", "subtype": "success", "is_error": True, "result": words}
            return [end | {"api_error_status": status, "session_id": "s"}], 1
        case "gemini":
            error = {"type": "unknown", "message": f"[API Error: {words}]"}
            return [{"type": "result", "status": "error", "error": error, "stats": {}}], status & 255


def ended(name, text):
    """Return the records by which a CLI closes well."""
    match name:
        case "codex":
            item = {"id": "i9", "type": "agent_message", "text": text}
            return [{"type": "item.completed", "item": item}, {"type": "turn.completed", "usage": {}}]
        case "claude":
            return [{"type": "result", "subtype": "success", "is_error": False, "result": text}]
        case "gemini":
            said = {"type": "message", "role": "assistant", "content": text, "delta": True}
            return [said, {"type": "result", "status": "success", "stats": {}}]


def called(name, tool, given, call="c1"):
    """Return the record by which a CLI opens a tool call."""
    match name:
        case "codex":
            item = {"id": call, "type": "mcp_tool_call", "tool": tool, "arguments": given}
            return {"type": "item.started", "item": item | {"status": "in_progress"}}
        case "claude":
            block = {"type": "tool_use", "id": call, "name": tool, "input": given}
            return {"type": "assistant", "message": {"content": [block]}}
        case "gemini":
            return {"type": "tool_use", "tool_name": tool, "tool_id": call, "parameters": given}


def refused(name, why, call="c1"):
    """Return the record by which a CLI reports a refused call."""
    match name:
        case "codex":
            item = {"id": call, "type": "mcp_tool_call", "status": "failed", "error": {"message": why}}
            return {"type": "item.completed", "item": item}
        case "claude":
            block = {"type": "tool_result", "tool_use_id": call, "content": why, "is_error": True}
            return {"type": "user", "message": {"content": [block]}}
        case "gemini":
            error = {"type": "tool_execution_failed", "message": why}
            return {"type": "tool_result", "tool_id": call, "status": "error", "error": error}


def read(name, records, *, exit_code=0, stderr="", now=NOW):
    reader = agent_named(name).new_reader()
    for record in records:
        reader.feed(json.dumps(record).encode())
    return reader.answer(exit_code=exit_code, stderr_tail=stderr, now=now)


@each_cli
@pytest.mark.parametrize(
    ("words", "after", "at"),
    [
        (f"{LIMIT}Try again in 3 hours 5 minutes.", 11100, None),
        ("usage limit reached|1796003600", None, NOW + 3600),
        ("usage limit reached|1767225600", None, None),
        ('{"error": {"type": "usage_limit_reached", "resets_in_seconds": 90}}', 90, None),
        ("rate limit: slow down", None, None),
    ],
)
def test_a_spent_limit_says_when_to_ask_again(name, words, after, at):
    records, code = failed(name, words)
    answer = read(name, records, exit_code=code)
    assert (answer.failure, answer.retry_after, answer.resets_at) == ("rate_limited", after, at)


@each_cli
def test_a_time_on_standard_error_counts_too(name):
    stderr = f"{LIMIT}Your quota will reset after 3h21m4s.\n"
    answer = read(name, [], exit_code=1, stderr=stderr)
    assert (answer.failure, answer.retry_after) == ("rate_limited", 12064)


@each_cli
@pytest.mark.parametrize(
    ("words", "status"),
    [("Overloaded", 529), ("API Error: 529 scripted", 529), ("status 503: no healthy upstream", 503)],
)
def test_an_overloaded_provider_is_not_a_spent_limit(name, words, status):
    records, code = failed(name, f"{words}. Retry after 30", status)
    answer = read(name, records, exit_code=code)
    assert (answer.failure, answer.retry_after) == ("overloaded", 30)


@each_cli
def test_what_time_does_not_put_right_names_none(name):
    records, code = failed(name, "status 401 Unauthorized; try again in 5 minutes", 401)
    answer = read(name, records, exit_code=code)
    assert (answer.failure, answer.retry_after) == ("login", None)
    assert read(name, ended(name, "Retry after 7 was the bug.")).retry_after is None


def test_claude_names_the_time_in_a_record_of_its_own():
    info = {"status": "rejected", "resetsAt": 1796003600, "rateLimitType": "five_hour"}
    records, _ = failed("claude", "You've hit your limit")
    answer = read("claude", [{"type": "rate_limit_event", "rate_limit_info": info}, *records], exit_code=1)
    assert (answer.failure, answer.resets_at, answer.error) == (
        "rate_limited", NOW + 3600, "You've hit your limit",
    )  # fmt: skip
    allowed = {"type": "rate_limit_event", "rate_limit_info": info | {"status": "allowed"}}
    assert read("claude", [allowed, *records], exit_code=1).resets_at is None


def test_without_the_time_of_its_end_no_time_of_day_is_believed():
    records, code = failed("claude", "usage limit reached|1796003600")
    assert read("claude", records, exit_code=code, now=None).resets_at is None


RETRIES = {
    "codex": [
        ({"type": "error", "message": "Reconnecting... 1/5 (unexpected status 529: busy)"}, None, 529, 0.0),
        ({"type": "error", "message": "Reconnecting... 1/5 (status 429; try again in 20s)"}, 20, 429, 20),
        ({"type": "error", "message": "Reconnecting... waiting for network"}, None, None, None),
    ],
    "claude": [
        ({"type": "system", "subtype": "api_retry", "retry_delay_ms": 514.5, "error_status": 429,
          "error": "rate_limit"}, 0.5145, 429, 0.5145),
        ({"type": "system", "subtype": "api_retry", "retry_delay_ms": 9000, "error_status": None,
          "error": "overloaded"}, 9, None, 9),
        ({"type": "system", "subtype": "api_retry", "retry_delay_ms": 9000, "error_status": 500,
          "error": "server_error"}, 9, 500, None),
        ({"type": "system", "subtype": "api_retry", "retry_delay_ms": "soon", "error_status": 429},
         None, 429, 0.0),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "case"), [(name, case) for name, cases in RETRIES.items() for case in cases]
)
def test_a_retry_is_told_while_it_waits(tmp_path, name, case):
    record, delay, status, throttled = case
    stdout = tmp_path / "stdout"
    stdout.write_bytes(json.dumps(record).encode() + b"\n")
    follower = Follower(name, stdout)
    (found,) = follower.read_more()
    assert (found.kind, found.delay, found.status) == ("retry", delay, status)
    assert follower.throttled == throttled
    follower.read_more()
    assert follower.throttled is None, "it was told of before"


def test_gemini_tells_of_its_retries_on_standard_error(tmp_path):
    stdout, stderr = tmp_path / "stdout", tmp_path / "stderr"
    stdout.touch()
    follower = Follower("gemini", stdout, stderr)
    assert follower.read_more() == []  # not there yet
    with stderr.open("ab", buffering=0) as file:
        file.write(b"Ripgrep is not available.\nAttempt 1 failed with status 429. Retrying wi")
        assert follower.read_more() == []
        file.write(b"th backoff... {\n  status: 429\n}\n")
        assert follower.read_more() == [
            Progress("retry", "Attempt 1 failed with status 429. Retrying with backoff... {", None, 429)
        ]
        assert follower.throttled == 0.0
        file.write(b"Attempt 2 failed: You exceeded your quota. Retrying after 16245ms...\n")
        follower.read_more()
        assert follower.throttled == 16.245
        file.write(b"x" * 200_000 + b"\nAttempt 3 failed with status 529. Retrying with backoff...\n")
        follower.read_more()
        assert (follower.throttled, follower.last) == (
            0.0, "Attempt 3 failed with status 529. Retrying with backoff...",
        )  # fmt: skip
        follower.read_more()
        assert follower.throttled is None


def test_what_the_others_print_on_standard_error_is_not_followed(tmp_path):
    stdout, stderr = tmp_path / "stdout", tmp_path / "stderr"
    stdout.touch()
    stderr.write_text("Attempt 1 failed with status 429. Retrying with backoff...\n")
    for name in ("codex", "claude", "command"):
        assert Follower(name, stdout, stderr).read_more() == []


QUESTION = {
    "codex": ("request_user_input", {"questions": [{"id": "q", "question": "Which database?"}]}),
    "claude": ("AskUserQuestion", {"questions": [{"question": "Which database?", "header": "DB"}]}),
    "gemini": ("ask_user", {"questions": [{"question": "Which\ndatabase?", "type": "text"}]}),
}


@each_cli
def test_a_worker_that_waits_for_an_answer_is_not_at_work_and_says_for_which(tmp_path, name):
    stdout, stderr = tmp_path / "stdout", tmp_path / "stderr"
    stdout.write_bytes(json.dumps(called(name, *QUESTION[name])).encode() + b"\n")
    stderr.touch()
    follower = Follower(name, stdout)
    (found,) = follower.read_more()
    assert (found.kind, follower.tools) == ("question", 0)
    answer = follower.answer(exit_code=None, stderr=stderr)
    assert (answer.ended, answer.question) == ("none", "Which database?")


@each_cli
def test_an_open_tool_call_is_work_and_no_question(tmp_path, name):
    stdout = tmp_path / "stdout"
    stdout.write_bytes(json.dumps(called(name, "Bash", {"command": "make"})).encode() + b"\n")
    follower = Follower(name, stdout)
    follower.read_more()
    assert follower.tools == 1
    assert follower.answer(exit_code=None, stderr=tmp_path / "none").question == ""


DENIALS = (
    "Claude requested permissions to use Bash, but you haven't granted it yet.",
    "This command requires approval",
    "Permission to use Bash has been denied because Claude Code is running in don't ask mode.",
    "MCP tool call requires approval, but approval policy is never",
    'Tool execution for "Shell" requires user confirmation, which is not supported in non-interactive mode.',
)


@each_cli
@pytest.mark.parametrize("why", DENIALS)
def test_a_refusal_after_which_nothing_was_tried_is_what_it_waits_for(name, why):
    given = {"command": "rm -rf build"}
    records = [called(name, "Bash", given), refused(name, why)]
    answer = read(name, [*records, *ended(name, "I could not go on.")])
    assert (answer.ended, answer.question) == ("success", "no permission for Bash: rm -rf build")
    went_on = [called(name, "Read", {"path": "a"}, "c2")]
    assert read(name, [*records, *went_on, *ended(name, "Done another way.")]).question == ""
    assert read(name, records, exit_code=None).question == "", "a refusal makes nobody wait"


@each_cli
def test_a_question_that_was_refused_is_still_asked(name):
    records = [called(name, *QUESTION[name]), refused(name, "not available here")]
    assert read(name, [*records, *ended(name, "I stop.")]).question == "Which database?"


@each_cli
def test_a_tool_that_failed_for_itself_is_no_refusal(name):
    records = [called(name, "Bash", {"command": "make"}), refused(name, "make: no rule; exit code 2")]
    assert read(name, [*records, *ended(name, "It fails.")]).question == ""


@each_cli
def test_an_answer_that_is_a_question_is_one(name):
    assert (
        read(name, ended(name, "There are two.\n\nShall I take the first?")).question
        == "Shall I take the first?"
    )
    assert read(name, ended(name, "Shall I? I did.")).question == ""


@each_cli
def test_a_prompt_on_standard_error_is_a_question_of_one_that_was_stopped(name):
    stderr = "chatter\nMay I run `rm -rf build`? [y/N] "
    assert read(name, [], exit_code=None, stderr=stderr).question == "May I run `rm -rf build`? [y/N]"
    assert read(name, [], exit_code=None, stderr=f"{stderr}\nno answer\n").question == ""


@each_cli
def test_who_waits_for_a_provider_asks_nobody(name):
    records, code = failed(name, LIMIT)
    answer = read(name, [called(name, *QUESTION[name]), *records], exit_code=code)
    assert (answer.failure, answer.question) == ("rate_limited", "")


@each_cli
@pytest.mark.parametrize(
    "words",
    [
        "Error: thread/resume: thread/resume failed: no rollout found for thread id 01a2",
        "No conversation found with session ID: ce88",
        "Error resuming session: No previous sessions found for this project.",
        'Invalid session identifier "01a2".',
    ],
)
def test_a_thread_that_is_gone_is_told(name, words):
    assert "thread_lost" in read(name, [], exit_code=1, stderr=words).flags
    assert "thread_lost" not in read(name, ended(name, words), stderr=words).flags


def test_what_is_no_id_never_becomes_an_argument():
    for bad in ("--dangerously-bypass-approvals-and-sandbox", "", "a b", "/etc/x.jsonl", "x" * 200, 7, None):
        assert id_at({"thread_id": bad}, "thread_id") is None
    assert id_at({"thread_id": "01a2-b_C"}, "thread_id") == "01a2-b_C"
    assert read("codex", [{"type": "thread.started", "thread_id": "--last"}], exit_code=None).thread is None


@pytest.mark.parametrize("value", [-1, True, "7", None, float("inf"), 10**400, [1]])
def test_what_is_no_number_is_none(value):
    assert number_at({"n": value}, "n") is None


@pytest.mark.parametrize(
    ("name", "tool", "given", "shown"),
    [
        ("claude", "Bash", {"command": "npm test\x1b[2J\n -- all"}, "Bash: npm test -- all"),
        ("claude", "Edit", {"file_path": "src/a.py", "old_string": "x"}, "Edit: src/a.py"),
        ("claude", "TodoWrite", {"todos": []}, "TodoWrite"),
        ("gemini", "run_shell_command", {"command": "make"}, "run_shell_command: make"),
    ],
)
def test_a_tool_call_shows_what_it_was_given(name, tool, given, shown):
    reader = agent_named(name).new_reader()
    found = reader.feed(json.dumps(called(name, tool, given)).encode())
    assert found == Progress("tool", shown)
