"""Messages reach the pinned CLIs while they work: after a tool call, with our tools, and before they stop."""

import json
import shlex
import sys
import threading
import time

import pytest
from support.mail import LEAD, ONE, Post
from support.paths import ROOT
from support.real_phase import REPORT

from workers.agents.agent import Mail
from workers.messages.scratch import GREETED

pytestmark = pytest.mark.real_cli

PATIENCE = 200.0
ROOM = ROOT / "workers" / "messages"
each_agent = pytest.mark.parametrize("name", ["codex", "claude", "gemini"])
MODES = {
    "read-only": {"mode": "read-only"},
    "write": {"mode": "write"},
    "fenced": {"mode": "write", "fenced": True},
}
each_mode = pytest.mark.parametrize("mode", MODES)


class Office:
    """The messages of one worker, ONE, and its CLI in the lab."""

    def __init__(self, lab, folder):
        self.lab, self.post = lab, Post(folder / "messages")
        self.post.folder.mkdir()
        self.post.now = time.time()
        self.step = lab.server.step

    def mail(self, name, **more):
        python, log = (sys.executable, "-I", "-S"), str(self.post.path(ONE))
        options = {"log": log, "phase": "phase-2", "events": "transitions", "on-blocker": "skip"}
        options |= {"pause-limit": "1800", "scratch": str(self.lab.scratch)}
        server = [*python, str(ROOM / "mail_server.py")]
        server += [part for key, value in options.items() for part in (f"--{key}", value)]
        after, stop = (
            shlex.join([*python, str(ROOM / "mail_hook.py"), way, name, log]) for way in ("after", "stop")
        )
        mail = Mail(tuple(server), after, stop, int(self.post.now) + 1800, 1860, ("ORCHESTRATE_TEST_MARK",))
        return mail._replace(**more)

    def run(self, name, script, *, meanwhile=lambda: None, mail=None, **fields):
        """Run an attempt; `meanwhile` is done beside it."""
        beside = threading.Thread(target=meanwhile)
        beside.start()
        try:
            return self.lab.run(name, script, mail=mail or self.mail(name), **fields)
        finally:
            beside.join(PATIENCE)

    def wait_for(self, is_there):
        until = time.monotonic() + PATIENCE
        while not is_there():
            assert time.monotonic() < until
            time.sleep(0.02)  # between two looks

    def counts(self, text):
        """Return how often a text is in each request, in order."""
        return [asked["body"].count(text) for asked in self.lab.server.requests()]


@pytest.fixture
def office(lab, tmp_path):
    return Office(lab, tmp_path)


@each_agent
@each_mode
def test_a_message_that_comes_while_a_tool_runs_is_in_the_very_next_request_once(office, name, mode):
    """The agent never calls a tool of ours."""
    go = office.lab.scratch / "go"
    if mode == "read-only":  # nothing that writes and waits runs there: the model is slow instead
        call = office.step("shell", cmd="git log -1", once=str(go))
        begun = office.lab.server.requests
    else:
        call = office.step("shell", cmd=f"touch begun; until [ -e {go} ]; do sleep 0.05; done; rm begun")
        begun = (office.lab.repo / "begun").exists

    def send():
        office.wait_for(begun)
        office.post.send(LEAD, ONE, "The word is heron.")
        go.touch()

    script = call + office.step("shell", cmd="true") + office.step("answer", text="Done.")
    ran = office.run(name, script, meanwhile=send, **MODES[mode])
    assert (ran.answer.ended, ran.answer.text, ran.answer.error) == ("success", "Done.", ""), ran
    has_shell = (name, mode) != ("gemini", "read-only")
    assert office.counts("The word is heron.") == ([0, 1, 1] if has_shell else [0, 0, 0, 1])
    assert office.lab.changes() == ""


@each_agent
def test_a_message_reaches_an_agent_whose_tool_call_fails(office, name):
    office.post.send(LEAD, ONE, "The word is heron.")
    script = office.step("shell", cmd="exit 3") + office.step("answer", text="Done.")
    ran = office.run(name, script, mode="write", fenced=True)
    assert (ran.answer.ended, ran.answer.text) == ("success", "Done."), ran
    assert office.counts("The word is heron.") == [0, 1]


@each_agent
@each_mode
def test_an_agent_that_would_end_with_an_unread_message_gets_it_first(office, name, mode):
    office.post.send(LEAD, ONE, "The word is heron.")
    report = REPORT.replace("COMPLETE", "BLOCKED")
    script = office.step("answer", text=REPORT) + office.step("answer", text=report)
    ran = office.run(name, script, **MODES[mode])
    assert (ran.answer.ended, ran.answer.text) == ("success", report), ran
    assert [said.text for said in ran.progress if said.kind == "error"] == []
    assert office.counts("The word is heron.") == [0, 1]


@each_agent
def test_a_report_is_kept_where_the_agent_answers_a_late_message_in_a_word(office, name):
    office.post.send(LEAD, ONE, "The word is heron.")
    script = office.step("answer", text=REPORT) + office.step("answer", text="Noted.")
    ran = office.run(name, script, mode="write", fenced=True)
    assert (ran.answer.ended, ran.answer.text) == ("success", REPORT), ran


@each_agent
@each_mode
def test_a_resumed_thread_has_server_and_hooks_as_well(office, name, mode):
    home = office.lab.homes / "one"
    first = office.run(name, office.step("answer", text="I begin."), home=home, **MODES[mode])
    assert first.answer.ended == "success", first
    office.post.send(LEAD, ONE, "The word is heron.")
    (office.lab.scratch / GREETED).unlink()
    # A later attempt ends later.
    mail = office.mail(name, deadline=office.mail(name).deadline + 1000)
    script = office.step("answer", text="I go on.") + office.step("answer", text="I end.")
    ran = office.run(name, script, home=home, thread=first.answer.thread, mail=mail, **MODES[mode])
    assert (ran.answer.ended, ran.answer.text) == ("success", "I end."), ran
    assert office.counts("The word is heron.") == [0, 0, 1]
    assert (office.lab.scratch / GREETED).exists()


@pytest.mark.parametrize("trusted", [False, True])
def test_hooks_of_the_repository_reach_codex_only_when_it_is_trusted_though_ours_run(office, trusted):
    lab = office.lab
    (lab.repo / ".codex").mkdir()
    hook = {"type": "command", "command": f"touch {lab.scratch}/hooked"}
    hooks = {"hooks": {"Stop": [{"hooks": [hook]}], "PostToolUse": [{"matcher": "*", "hooks": [hook]}]}}
    lab.commit(".codex/hooks.json", json.dumps(hooks))
    office.post.send(LEAD, ONE, "The word is heron.")
    script = office.step("shell", cmd="true") + office.step("answer", text="Done.")
    ran = office.run("codex", script, mode="write", fenced=True, trust_repository=trusted)
    assert ran.answer.ended == "success", ran
    assert office.counts("The word is heron.")[-1] == 1
    assert (lab.scratch / "hooked").exists() == trusted


def test_a_server_of_a_later_attempt_of_gemini_is_told_when_that_one_ends(office, tmp_path):
    told = tmp_path / "told"
    home = office.lab.homes / "one"
    server = office.mail("gemini").server
    note = f"open({str(told)!r}, 'a').write(sys.argv[-1] + '\\n')"
    spy = (sys.executable, "-c", f"import os, sys; {note}; os.execv(sys.argv[1], sys.argv[1:])")
    for deadline in (1_900_000_000, 1_900_000_500):
        mail = office.mail("gemini", deadline=deadline, server=(*spy, *server))
        assert office.run("gemini", "Say.", home=home, mail=mail).answer.ended == "success"
    assert told.read_text().split() == ["1900000000", "1900000500"]
