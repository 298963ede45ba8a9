"""Messages reach the pinned CLIs while they work: after a tool call, with our tools, and before they stop."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest
from support.mail import LEAD, ONE, Post
from support.paths import ROOT
from support.real_phase import AGENTS, ORCHESTRATE, REPORT

from workers.agents.agent import Mail
from workers.engine.mail import PYTHON, hook_command
from workers.messages.scratch import GREETED

pytestmark = pytest.mark.real_cli

PATIENCE = 200.0
ROOM = ROOT / "workers" / "messages"
each_agent = pytest.mark.parametrize("name", AGENTS)
MODES = {
    "read-only": {"mode": "read-only"},
    "write": {"mode": "write"},
    "fenced": {"mode": "write", "fenced": True},
}
each_mode = pytest.mark.parametrize("mode", MODES)
EVERY = [(name, mode) for name in AGENTS for mode in MODES]
each_way = pytest.mark.parametrize(
    ("name", "mode"),
    EVERY if os.environ.get("ORCHESTRATE_SOAK") == "1" else list(zip(AGENTS, MODES, strict=True)),
)
"""Each agent and each mode once, and every pair in a soak: a start of these CLIs takes seconds."""


class Office:
    """The messages of one worker, ONE, and its CLI in the lab."""

    def __init__(self, lab, folder):
        self.lab, self.post = lab, Post(folder / "messages")
        self.post.folder.mkdir()
        self.post.now = time.time()
        self.step = lab.server.step

    def mail(self, name, **more):
        log = str(self.post.path(ONE))
        options = {"log": log, "phase": "phase-2", "events": "transitions", "on-blocker": "skip"}
        options |= {"pause-limit": "1800", "ack-limit": "900", "scratch": str(self.lab.scratch)}
        server = [*PYTHON, str(ROOM / "mail_server.py")]
        server += [part for key, value in options.items() for part in (f"--{key}", value)]
        after, stop = (hook_command(way, name, log) for way in ("after", "stop"))
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


@each_way
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


@each_way
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


TOOL = {
    "codex": {"tool": "send_message", "namespace": "mcp__orchestrate"},
    "claude": {"tool": "mcp__orchestrate__send_message"},
    "gemini": {"tool": "mcp_orchestrate_send_message"},
}


@each_way
def test_an_agent_sends_a_message_and_gets_what_is_new_with_the_answer(office, name, mode):
    """The hooks are off: what is shown is the tool's answer, once in whichever form the CLI shows it."""
    office.post.send(LEAD, ONE, "The word is heron.")
    call = office.step("call", given={"to": "lead", "body": "Which word?", "type": "question"}, **TOOL[name])
    mail = office.mail(name, after_tool="true", before_stop="true")
    ran = office.run(name, call + office.step("answer", text="Done."), mail=mail, **MODES[mode])
    assert (ran.answer.ended, ran.answer.text, ran.answer.flags) == ("success", "Done.", ()), ran
    assert office.counts("The word is heron.") == [0, 1]
    assert office.counts(f"{ONE}:1") == [0, 1]
    first, *acks = [record for record in office.post.records() if record.sender == ONE]
    assert (first.type, first.to, first.body) == ("question", LEAD, "Which word?")
    assert [one.facts for one in acks] == [{"how": "shown"}]


def test_codex_with_the_user_s_login_gets_messages_with_its_tools(office, monkeypatch):
    """No hook of ours may run there; the login is played by a key that codex is told the name of."""
    lab = office.lab
    keyed = lab.settings("codex")
    args = tuple(one.replace('env_key="CODEX_API_KEY"', 'env_key="LOGIN"') for one in keyed.args)
    monkeypatch.setattr(lab, "settings", lambda _: keyed._replace(args=args, env=("LOGIN",)))
    environ = {**lab.runtime, "LOGIN": "sk-test-not-real", "CODEX_HOME": str(lab.user / ".codex")}
    (lab.user / ".codex").mkdir()
    office.post.send(LEAD, ONE, "The word is heron.")
    script = office.step("shell", cmd="true")
    script += office.step("call", given={"to": "lead", "body": "Which word?"}, **TOOL["codex"])
    ran = office.run("codex", script + office.step("answer", text="Done."), environ=environ)
    assert (ran.answer.ended, ran.answer.text) == ("success", "Done."), ran
    assert office.counts("The word is heron.") == [0, 0, 1]


FAULTY = {
    "no-server": {"server": ("/bin/false",)},
    "no-python": {
        "server": ("/nonexistent/python", "x"),
        "after_tool": hook_command("after", "x", "/x", python=("/nonexistent/python",)),
        "before_stop": hook_command("stop", "x", "/x", python=("/nonexistent/python",)),
    },
    "no-program": {
        "server": (sys.executable, "/nonexistent.py"),
        "after_tool": hook_command("after", "x", "/x", python=(sys.executable, "/nonexistent.py")),
        "before_stop": hook_command("stop", "x", "/x", python=(sys.executable, "/nonexistent.py")),
    },
    "garbage": {"server": ("/bin/yes", "{"), "after_tool": "yes | head -c 100000", "before_stop": "echo {"},
    "hooks-fail": {"after_tool": "echo oops >&2; exit 1", "before_stop": "echo oops; exit 1"},
}


@each_agent
@pytest.mark.parametrize("fault", FAULTY)
def test_no_fault_of_server_or_hooks_breaks_a_turn(office, name, fault):
    script = office.step("shell", cmd="true") + office.step("answer", text="Done.")
    mail = office.mail(name, **FAULTY[fault])
    ran = office.run(name, script, mail=mail, mode="write", fenced=True)
    assert (ran.answer.ended, ran.answer.text) == ("success", "Done."), ran
    assert (office.lab.scratch / GREETED).exists() == (fault == "hooks-fail")


@each_agent
def test_a_log_that_cannot_be_written_breaks_no_turn(office, name):
    office.post.path(ONE).mkdir()
    office.post.send(LEAD, ONE, "The word is heron.")
    script = office.step("shell", cmd="true")
    script += office.step("call", given={"to": "lead", "body": "Which word?"}, **TOOL[name])
    ran = office.run(name, script + office.step("answer", text="Done."), mode="write", fenced=True)
    assert (ran.answer.ended, ran.answer.text) == ("success", "Done."), ran
    assert office.counts("cannot be written")[-1] >= 1, "the agent is told that nothing was sent"
    assert office.counts("The word is heron.") == [0, 0, 0]


@pytest.mark.parametrize("fence", ["auto", "landlock", "off"])
def test_a_lead_reaches_the_workers_of_a_run_within_their_tool_calls(project, fence):
    """Each is asked to wait in a command; what it is told meanwhile is in its very next request, once."""
    wait = "touch begun; until [ -e go ]; do sleep 0.05; done; rm begun go"
    report = REPORT.replace("Done.", "Done.\n\nNo changes: it only waited.")
    for name in AGENTS:
        call = project.step("call", given={"to": "lead", "body": f"{name} heard"}, **TOOL[name])
        steps = (project.step("shell", cmd=wait), call, project.step("answer", text=report))
        project.ticket(f"{name}-1", f'mode: write\nowns: ["{name}/**"]\nretries: 0', *steps)
    settings = project.lab.repo / "orchestrate.toml"
    settings.write_text(f'fence = "{fence}"\n{settings.read_text()}')
    project.commit()
    trees = project.lab.repo / ".taskers" / "worktrees"
    with subprocess.Popen(
        [ORCHESTRATE, "run", "phase-1", "--json"],
        cwd=project.lab.repo,
        env=project.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as run:
        try:
            waiting, until = set(AGENTS), time.monotonic() + PATIENCE
            while waiting:
                assert time.monotonic() < until
                for name in list(waiting):
                    for begun in trees.glob(f"*/{name.title()}-Worker-1/begun"):
                        to = f"{name.title()}-Worker-1"
                        code, _ = project.call("msg", "send", "--to", to, f"The word is {name}-heron.")
                        assert code == 0
                        begun.with_name("go").touch()
                        waiting.discard(name)
                time.sleep(0.05)  # between two looks
            document = json.loads(run.communicate(timeout=PATIENCE)[0])
        finally:
            run.terminate()
    workers = {one["agent"]: one for one in document["workers"]}
    for name in AGENTS:
        found = workers[name]
        assert (found["verdict"], found["flags"]) == ("accepted", ["no_changes"]), found
        bodies = [one["body"] for one in project.lab.server.requests() if f"{name}/**" in one["body"]]
        assert [body.count(f"The word is {name}-heron.") for body in bodies] == [0, 1, 1]
        assert f"{name.title()}-Worker-1:2" in bodies[-1], "its own message, after the receipt"
