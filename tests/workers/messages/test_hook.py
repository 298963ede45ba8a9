"""The hooks of agent CLIs as they are started: what is new is told once, and no fault reaches the CLI."""

import fcntl
import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.mail import COORDINATOR, LEAD, ONE, RUN, THREE, TWO, Post, line_of
from support.paths import ROOT
from support.runtimes import PATIENCE

from workers.messages.delivery import Reading
from workers.messages.glance import Glance
from workers.messages.scratch import FAULTS, NOTE

PROGRAM = ROOT / "workers" / "messages" / "mail_hook.py"
AFTER = {"codex": "PostToolUse", "claude": "PostToolUse", "gemini": "AfterTool"}
each_cli = pytest.mark.parametrize("agent", AFTER)


@pytest.fixture
def hook(post, tmp_path):
    """Run the hook of ONE as its CLI does; the answer is what that reads."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def run(way="after", agent="codex", said=None, *, raw=None, env=None, log=None):
        event = AFTER[agent] if way == "after" else "Stop"
        data = json.dumps({"hook_event_name": event, **(said or {})}).encode() if raw is None else raw
        ran = subprocess.run(
            [sys.executable, "-I", "-S", PROGRAM, way, agent, log or post.path(ONE)],
            input=data,
            env={"TMPDIR": str(scratch)} if env is None else env,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (0, b"")
        (line,) = ran.stdout.splitlines()
        return json.loads(line)

    run.scratch = scratch
    return run


def added(answer):
    return answer["hookSpecificOutput"]["additionalContext"]


@each_cli
def test_what_is_new_is_told_after_a_tool_call_once_and_acknowledged(post, hook, agent):
    record = post.send(LEAD, ONE, "Yes: MIT.", "answer")
    answer = hook(agent=agent)
    assert answer["hookSpecificOutput"]["hookEventName"] == AFTER[agent]
    assert "    | Yes: MIT." in added(answer).splitlines()
    assert post.stands(record) == "shown"
    assert hook(agent=agent) == {}
    assert hook("stop", agent) == {}


def test_the_event_of_a_failed_call_is_answered_by_its_own_name(post, hook):
    post.send(LEAD, ONE, "Stop that.")
    answer = hook(agent="claude", said={"hook_event_name": "PostToolUseFailure"})
    assert answer["hookSpecificOutput"]["hookEventName"] == "PostToolUseFailure"


@each_cli
def test_an_agent_is_held_back_at_its_end_once_for_each_message(post, hook, agent):
    post.send(TWO, ONE, "Do you keep line ends?", "question")
    answer = hook("stop", agent, {"stop_hook_active": False})
    assert answer["decision"] == "block"
    assert "    | Do you keep line ends?" in answer["reason"].splitlines()
    assert "final answer" in answer["reason"]
    assert hook("stop", agent, {"stop_hook_active": True}) == {}
    post.send(TWO, ONE, "Please.", "question")
    assert hook("stop", agent, {"stop_hook_active": True})["decision"] == "block"


def test_a_plan_in_progress_holds_an_agent_back_once_in_all(post, hook):
    first = post.send(ONE, COORDINATOR, kind="plan_started", plan="02-01")
    refused = post.send(ONE, COORDINATOR, kind="plan_started", plan="02-9")
    post.ack(first, "handled")
    post.ack(refused, "refused")
    reason = hook("stop", said={"stop_hook_active": False})["reason"]
    assert "02-01" in reason
    assert "02-9" not in reason
    assert hook("stop", said={"stop_hook_active": True}) == {}
    post.send(ONE, COORDINATOR, "gave up", "error", plan="02-01", facts={"state": "failed"})
    assert hook("stop", said={"stop_hook_active": False}) == {}


def test_a_helper_of_an_agent_is_told_nothing(post, hook):
    record = post.send(LEAD, ONE, "Yes.")
    assert hook(agent="claude", said={"agent_id": "a1"}) == {}
    assert post.stands(record) == "new"
    assert "Yes." in added(hook(agent="claude"))


@pytest.mark.parametrize("count", [1, 3])
def test_claude_gets_no_text_of_which_it_shows_only_the_beginning(post, hook, count):
    for at in range(count):
        post.send(TWO, ONE, "\n".join([f"line {at}"] * 1000))
    text = added(hook(agent="claude"))
    assert len(text) < 10_000
    assert ("and 2 more: call inbox" in text) == (count == 3)
    # The others come with the next calls.
    assert [bool(hook(agent="claude")) for _ in range(count)] == [True] * (count - 1) + [False]


def test_a_message_to_all_and_one_of_another_run_are_told(post, hook):
    post.send(LEAD, f"{RUN}.all", "To all.")
    other = "20260216_150000.Codex-Worker-1"
    post.send(other, ONE, "From afar.")
    text = added(hook())
    assert "To all." in text
    assert f"from {other}, a peer" in text


def test_messages_to_others_receipts_and_own_ones_are_not_new(post, hook):
    mine = post.send(ONE, TWO, "Hello.")
    post.ack(mine)
    post.send(TWO, THREE, f"about {ONE}")
    assert hook() == {}


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"\xff\xfe", b"null", b"[" * 100_000, b'{"hook_event_name": 3}', b"x" * 5_000_000],
)
def test_whatever_the_cli_says_is_no_fault_of_its_own(post, hook, raw):
    record = post.send(LEAD, ONE, "Yes.")
    answer = hook(raw=raw)
    assert "Yes." in added(answer)
    assert post.stands(record) == "shown"


@contextmanager
def locked(path):
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def a_link(path, tmp_path):
    path.symlink_to(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    "spoil",
    [lambda path, _: path.mkdir(), lambda path, _: os.mkfifo(path), a_link],
    ids=["folder", "pipe", "link"],
)
def test_an_own_log_that_cannot_be_written_gives_nothing_and_a_line_in_scratch(post, hook, tmp_path, spoil):
    record = post.send(LEAD, ONE, "Yes.")
    spoil(post.path(ONE), tmp_path)
    assert hook() == {}
    (line,) = (hook.scratch / FAULTS).read_text().splitlines()
    assert line.startswith("hook: NotSentError: ")
    assert not (tmp_path / "elsewhere").exists()
    assert post.stands(record) == "new"


def test_a_lock_that_is_held_does_not_hold_the_cli(post, hook):
    post.send(LEAD, ONE, "Yes.")
    with locked(post.path(ONE)):
        assert hook() == {}
    assert "Yes." in added(hook())


def test_without_a_folder_of_messages_or_scratch_there_is_nothing_new(hook, tmp_path):
    assert hook(log=tmp_path / "gone" / "x.jsonl") == {}
    for env in ({}, {"TMPDIR": str(tmp_path / "gone")}):
        assert hook(env=env) == {}
        assert hook("stop", env=env) == {}


@pytest.mark.parametrize("spoil", [b"", b".\n", b"x", b"x 1 y\n.\n", b"\xff\n.\n", b"a 1 2\n.\nb 1 2\n"])
def test_a_note_that_is_no_good_costs_another_look(post, hook, spoil):
    hook()
    (hook.scratch / NOTE).write_bytes(spoil)
    post.send(LEAD, ONE, "Yes.")
    assert "Yes." in added(hook())


def test_a_log_that_was_cut_or_replaced_is_looked_through_again(post, hook):
    post.send(LEAD, TWO, "no matter " * 40)
    assert hook() == {}
    path = post.path(LEAD)
    path.unlink()
    path.write_bytes(line_of(id=f"{LEAD}:2", from_=LEAD, to=ONE, body="Yes.") + b"\n")
    assert "Yes." in added(hook())


WORDS = st.lists(
    st.tuples(st.sampled_from([LEAD, COORDINATOR, TWO]), st.sampled_from([ONE, TWO, THREE, f"{RUN}.all"])),
    max_size=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(WORDS, max_size=5), torn=st.booleans())
def test_a_glance_finds_whatever_is_new(tmp_path_factory, batches, torn):
    """What the whole reading finds new, the glance has seen since the last time that nothing was new."""
    folder = tmp_path_factory.mktemp("post")
    post, scratch = Post(folder / "messages"), folder
    post.folder.mkdir()
    for batch in batches:
        for sender, to in batch:
            if sender != to:
                post.send(sender, to, "hello")
        if torn:
            post.write(LEAD, b'{"torn')
        glance = Glance(str(post.path(ONE)), str(scratch))
        glance.look()
        reading = Reading(str(post.folder), ONE)
        reading.catch_up()
        new = reading.book.new_for(ONE)
        assert glance.finds or not new
        for message in new:
            post.ack(message.record, by=ONE)
        glance.keep()
