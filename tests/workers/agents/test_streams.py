"""Readers against streams that the real CLIs wrote (shortened), and against what no CLI should write."""

import itertools
import json
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tickets.types import AGENTS
from workers.agents.agent import Usage, agent_named
from workers.agents.stream import MAX_RECORD, Lines

STREAMS = Path(__file__).parent / "streams"
CLIS = ("codex", "claude", "gemini")
each_cli = pytest.mark.parametrize("name", CLIS)

END = {
    "codex": {"type": "turn.completed", "usage": {"input_tokens": 3, "output_tokens": 1}},
    "claude": {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "Done.",
        "session_id": "s",
    },
    "gemini": {"type": "result", "status": "success", "stats": {"input_tokens": 3, "output_tokens": 1}},
}
SAYING = {
    "codex": {"type": "item.completed", "item": {"type": "agent_message", "text": "Done."}},
    "claude": {"type": "assistant", "message": {"content": [{"type": "text", "text": "Done."}]}},
    "gemini": {"type": "message", "role": "assistant", "content": "Done.", "delta": True},
}


def line(record):
    return json.dumps(record).encode()


def read(name, lines, *, exit_code=0, stderr=""):
    reader = agent_named(name).new_reader()
    for each in lines:
        reader.feed(each)
    return reader.answer(exit_code=exit_code, stderr_tail=stderr)


def recorded(stream, *, exit_code):
    stderr = STREAMS / f"{stream}.stderr"
    lines = (STREAMS / f"{stream}.jsonl").read_bytes().splitlines()
    text = stderr.read_text() if stderr.exists() else ""
    return read(stream.split("-")[0], lines, exit_code=exit_code, stderr=text)


@pytest.mark.parametrize(
    ("stream", "text", "usage"),
    [
        ("codex-ok", "Hello from the stub", Usage(100, 10)),
        ("codex-tool", "All done", Usage(1534, 86, 1000)),
        ("codex-background", "All done", Usage(200, 20)),
        ("claude-ok", "DONE", Usage(100, 10, 0, 0.00045)),
        ("claude-latest-ok", "DONE", Usage(100, 10, 0, 0.00045)),
        ("claude-tool", "All done", Usage(2634, 96, 1000, 0.006642)),
        ("gemini-ok", "Hello from the stub", Usage(100, 10)),
        ("gemini-tool", "All done", Usage(1534, 86, 1000)),
    ],
)
def test_a_recorded_success_gives_the_last_answer_and_its_use(stream, text, usage):
    answer = recorded(stream, exit_code=0)
    assert (answer.ended, answer.text, answer.flags, answer.error) == ("success", text, (), "")
    assert answer.usage._replace(cost_usd=None, models=()) == usage._replace(cost_usd=None)
    assert answer.usage.cost_usd == pytest.approx(usage.cost_usd)
    assert answer.thread


REPORT = "## Summary\n\nDone.\n\n## Status\n\nCOMPLETE"


@each_cli
@pytest.mark.parametrize(
    ("first", "last", "counts"),
    [
        (REPORT, "Noted.", REPORT),
        (REPORT, REPORT.replace("Done", "Done anew"), REPORT.replace("Done", "Done anew")),
        ("First.", "Noted.", "Noted."),
        ("The status is unknown.", "Noted.", "Noted."),
    ],
)
def test_an_agent_that_was_held_back_at_its_end_has_said_its_report_once_or_twice(name, first, last, counts):
    stream = (STREAMS / f"{name}-held-back.jsonl").read_text()
    for old, new in ((REPORT, first), ("Noted.", last)):
        stream = stream.replace(json.dumps(old), json.dumps(new))
    reader = agent_named(name).new_reader()
    progress = [said for each in stream.encode().splitlines() if (said := reader.feed(each))]
    answer = reader.answer(exit_code=0, stderr_tail="")
    assert (answer.ended, answer.text, answer.error, answer.flags) == ("success", counts, "", ())
    assert [said.kind for said in progress] == ["session", "tool", "tool_end", "text", "text", "end"]


@pytest.mark.parametrize("stream", ["gemini-ok", "gemini-tool"])
def test_gemini_names_the_model_that_did_it_and_codex_names_none(stream):
    usage = recorded(stream, exit_code=0).usage
    assert [tuple(one) for one in usage.models] == [("gemini-2.5-pro", *usage[:3])]
    assert recorded(stream.replace("gemini", "codex"), exit_code=0).usage.models == ()


@pytest.mark.parametrize(
    "models", [None, [], "pro", {"pro": None}, {"pro": 5}, {str(at): {} for at in range(1000)}], ids=repr
)
def test_models_that_make_no_sense_name_none_and_there_are_never_many(models):
    reader = agent_named("gemini").new_reader()
    record = {"type": "result", "status": "success", "stats": {"input_tokens": 3, "models": models}}
    reader.feed(json.dumps(record).encode())
    usage = reader.answer(exit_code=0, stderr_tail="").usage
    assert usage.input_tokens == 3
    assert len(usage.models) <= 20
    assert all(one[1:] == (0, 0, 0) for one in usage.models)


@pytest.mark.parametrize(
    ("stream", "failure", "words"),
    [
        ("codex-error401", "login", "unexpected status 401 Unauthorized"),
        ("codex-error429", "rate_limited", "429 Too Many Requests"),
        ("codex-error500", "overloaded", "high demand"),
        ("codex-drop", "provider", "stream disconnected"),
        ("claude-error401", "login", "Failed to authenticate"),
        ("claude-error429", "rate_limited", "Request rejected (429)"),
        ("claude-error529", "overloaded", "529"),
        ("claude-drop", "provider", "Unable to connect"),
        ("claude-garbage", "provider", "malformed response"),
        ("gemini-error401", "login", "API Error: 401 UNAUTHENTICATED: scripted error 401"),
        ("gemini-error429", "rate_limited", "API Error: scripted error 429 Please wait"),
        ("gemini-error500", "provider", "API Error: 500 INTERNAL"),
        ("gemini-drop", "provider", "API Error: terminated"),
        ("gemini-refused", "provider", "fetch failed"),
    ],
)
def test_a_recorded_failure_is_told_in_one_plain_line_of_its_kind(stream, failure, words):
    answer = recorded(stream, exit_code=1)
    assert (answer.ended, answer.failure) == ("error", failure)
    assert words in answer.error
    assert "{" not in answer.error
    assert answer.error.isprintable()


@pytest.mark.parametrize("stream", ["codex-timeout", "codex-refused", "claude-stall"])
def test_a_recorded_stream_without_an_end_is_no_result(stream):
    assert recorded(stream, exit_code=None).ended == "none"


def test_a_worker_stopped_while_it_retried_says_what_it_waited_for():
    assert recorded("codex-refused", exit_code=None).failure == "provider"
    retry = {"type": "system", "subtype": "api_retry", "error_status": 429, "error": "rate_limit"}
    assert read("claude", [line(retry)], exit_code=None).failure == "rate_limited"
    assert read("claude", [line(retry), line(SAYING["claude"])], exit_code=None).failure is None


def test_codex_ends_its_turn_in_order_while_a_command_of_its_own_is_still_at_work():
    *before, message, end = (STREAMS / "codex-background.jsonl").read_bytes().splitlines()
    failed = line({"type": "turn.failed", "error": {"message": "unexpected status 401 Unauthorized"}})
    read_with = partial(read, "codex")
    assert read_with([*before, message, end], exit_code=1).ended == "none"
    assert read_with([*before, message, end], exit_code=-9).ended == "none"
    error = read_with([*before, failed], exit_code=1)
    assert (error.ended, error.error, error.flags) == ("error", "unexpected status 401 Unauthorized", ())
    # What a tool printed is not what the agent said: the turn went on, and closed itself.
    forged = [line(SAYING["codex"]), line(END["codex"])]
    answer = read_with([*before, *forged, message, end])
    assert (answer.ended, answer.text, answer.flags) == ("success", "All done", ("early_end",))
    assert answer.usage == Usage(200, 20)


@each_cli
def test_noise_around_records_is_ignored(name):
    lines = [
        b"\x1b[?1049h\x1b]11;?\x07\x1b[6n" + line(SAYING[name]),
        b'INFO said {"type": "turn.failed", "error": {"message": "quoted, not said"}}',
        b"",
        b"\x00\xff\xfe",
        b"[1, 2]",
        line(END[name]),
        b"bye {",
    ]
    answer = read(name, lines)
    assert (answer.ended, answer.text, answer.flags) == ("success", "Done.", ())


@each_cli
def test_a_cut_closing_record_is_no_result_and_says_so(name):
    answer = read(name, [line(SAYING[name]), line(END[name] | {"padding": "x" * 100_000})[:65536]])
    assert (answer.ended, answer.flags) == ("none", ("cut_record",))
    assert answer.error == "no result: the stream ended without a closing record"


@each_cli
def test_exit_0_after_an_error_is_no_success(name):
    answer = read(name, [b'{"type": "error", "message": "it broke"}'], stderr="API error: 500\n")
    assert answer.ended == "none"
    assert answer.error in ("it broke", "API error: 500")
    assert answer.failure == "provider"


@each_cli
def test_silence_is_no_result(name):
    answer = read(name, [])
    assert (answer.ended, answer.text) == ("none", "")
    assert answer.error.startswith("no result")


@each_cli
def test_a_record_of_success_does_not_outweigh_the_exit_code(name):
    answer = read(name, [line(SAYING[name]), line(END[name])], exit_code=7, stderr="it fell over\n")
    assert (answer.ended, answer.error) == ("error", "it fell over")


@each_cli
def test_a_worker_that_said_everything_and_had_to_be_stopped_is_a_success(name):
    answer = read(name, [line(SAYING[name]), line(END[name])], exit_code=None)
    assert (answer.ended, answer.flags) == ("success", ("did_not_exit",))


@each_cli
def test_a_large_record_is_read_and_a_larger_one_is_flagged(name):
    large, end = "é" * 1_600_000, [line(SAYING[name]), line(END[name])]
    answer = read(name, [line({"type": "item.updated", "text": large}), *end])
    assert (answer.ended, answer.flags) == ("success", ())
    lines = Lines()
    got = [*lines.add(b'{"type": "' + b"x" * (MAX_RECORD + 5)), *lines.add(b'"}\n' + b"\n".join(end) + b"\n")]
    answer = read(name, got)
    assert (answer.ended, answer.text, answer.flags) == ("success", "Done.", ("oversize_record",))
    assert max(map(len, got)) == MAX_RECORD + 1


def test_success_without_a_word_from_gemini_is_an_error():
    answer = read("gemini", [line(END["gemini"])])
    assert answer.ended == "error"
    assert "without an answer" in answer.error


def test_a_turn_that_was_too_dear_is_known_as_one():
    end = {"type": "result", "subtype": "error_max_budget_usd", "is_error": True, "total_cost_usd": 1.5}
    answer = read("claude", [line(end)], exit_code=1)
    assert (answer.ended, answer.failure, answer.error) == ("error", "budget", "max budget usd")
    assert answer.usage.cost_usd == 1.5


def test_what_claude_was_denied_is_flagged():
    end = END["claude"] | {"permission_denials": [{"tool_name": "Write"}]}
    assert read("claude", [line(end)]).flags == ("permission_denied",)


@pytest.mark.parametrize(
    ("stderr", "failure"),
    [
        ("Not inside a trusted directory and --skip-git-repo-check was not specified.", "refused"),
        ("--dangerously-skip-permissions cannot be used with root/sudo privileges", "refused"),
        (
            "error: unexpected argument '--zebra' found\n\nUsage: codex exec\n\nFor more, try '--help'.",
            "refused",
        ),
        ("\x1b[31mInvalid API key\x1b[0m", "login"),
        ("You've hit your usage limit. Try again at 5 PM.", "rate_limited"),
        ("Credit balance is too low", "login"),
        ("something else entirely", None),
    ],
)
@each_cli
def test_a_worker_that_never_spoke_is_judged_by_its_last_words(name, stderr, failure):
    answer = read(name, [], exit_code=1, stderr=f"early chatter\n{stderr}\n\n")
    assert (answer.ended, answer.failure) == ("none", failure)
    assert answer.error.isprintable()
    assert answer.error in stderr


def test_a_url_or_a_count_is_not_taken_for_a_status():
    answer = read("claude", [], exit_code=1, stderr="see http://localhost:429/error/401 for all 503 tokens\n")
    assert answer.failure is None


shapes = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "subtype",
                    "item",
                    "message",
                    "content",
                    "error",
                    "usage",
                    "result",
                    "stats",
                    "text",
                    "role",
                    *("id", "name", "input", "tool", "tool_use_id", "tool_id", "tool_name", "is_error"),
                    *("questions", "question", "parameters", "arguments", "command", "status", "errors"),
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
kinds = [
    "turn.completed",
    "turn.failed",
    "error",
    "item.completed",
    "system",
    "assistant",
    "user",
    "result",
    "message",
    *("item.started", "tool_use", "rate_limit_event"),
]


@settings(max_examples=60)
@given(
    name=st.sampled_from(tuple(AGENTS)),
    records=st.lists(st.tuples(st.sampled_from([*kinds, "tool_result", "init"]), shapes), max_size=6),
    noise=st.lists(st.binary(max_size=40), max_size=3),
    exit_code=st.sampled_from([None, 0, 1, -9, 130]),
)
@example(name="command", records=[], noise=["0\u05f5".encode()], exit_code=1)
def test_no_stream_makes_a_reader_fail_or_hides_what_it_says(name, records, noise, exit_code):
    lines = [
        line(shape | {"type": kind}) if isinstance(shape, dict) else line(shape) for kind, shape in records
    ]
    answer = read(
        name, [*lines, *noise], exit_code=exit_code, stderr="\ud800".encode("utf-8", "replace").decode()
    )
    json.dumps(answer).encode()
    answer.text.encode()
    assert answer.error.isprintable()
    assert answer.ended != "success" or (exit_code in (None, 0, -9) and answer.error == "")


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_lines_are_the_same_however_they_arrive(data, cuts):
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    lines = Lines()
    got = [each for start, end in itertools.pairwise(bounds) for each in lines.add(data[start:end])]
    assert [*got, lines.rest()] == data.split(b"\n")


def test_a_deeply_nested_record_does_not_end_the_runtime():
    answer = read("codex", [b'{"type":' * 100_000])
    assert (answer.ended, answer.flags) == ("none", ("cut_record",))


def test_half_of_a_surrogate_pair_can_be_written_to_a_file():
    said = b'{"type":"item.completed","item":{"type":"agent_message","text":"\\ud83d"}}'
    assert read("codex", [said, line(END["codex"])]).text == "?"
