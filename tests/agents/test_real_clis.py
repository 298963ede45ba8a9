"""The pinned CLIs themselves, against the scripted model: the facts in the agents' modules are true."""

import json
import subprocess
import sys
import urllib.request

import pytest
from support.paths import TESTS

pytestmark = pytest.mark.real_cli

AGENTS = ("codex", "claude", "gemini")
each_agent = pytest.mark.parametrize("name", AGENTS)


@pytest.fixture
def step(model_server):
    return model_server.step


@each_agent
def test_a_read_only_ticket_is_answered(lab, step, name):
    ran = lab.run(name, step("answer", text="The code is sound.", **{"in": 1200, "out": 34}))
    assert ran.answer.ended == "success", ran
    assert ran.answer.text == "The code is sound."
    assert (ran.answer.usage.input_tokens, ran.answer.usage.output_tokens) == (1200, 34)
    assert (ran.answer.usage.cost_usd is not None) == (name == "claude")
    assert ran.answer.thread
    assert [said.kind for said in ran.progress][0::2] == ["session", "end"]
    assert lab.changes() == ""


def test_codex_asks_the_server_that_its_variable_names_though_it_does_not_read_it(lab, step, monkeypatch):
    plain = lab.settings("codex")._replace(args=())
    monkeypatch.setattr(lab, "settings", lambda name: plain)  # noqa: ARG005 - as `settings` is called
    environ = {**lab.environ("codex"), "OPENAI_BASE_URL": f"{lab.server.url}/v1"}
    ran = lab.run("codex", step("answer", text="Heard."), environ=environ)
    assert (ran.answer.ended, ran.answer.text) == ("success", "Heard."), ran


@each_agent
@pytest.mark.parametrize("fenced", [False, True], ids=["own-sandbox", "fenced"])
def test_a_write_ticket_edits_files_and_runs_commands(lab, step, name, fenced):
    script = step("write", path="made.txt", text="by the edit tool\n") + step(
        "shell", cmd="cat made.txt > copy.txt"
    )
    ran = lab.run(name, script + step("answer", text="Written."), mode="write", fenced=fenced)
    assert (ran.answer.ended, ran.answer.text) == ("success", "Written."), ran
    assert ran.answer.flags == ()
    assert (lab.repo / "copy.txt").read_text().strip() == "by the edit tool"
    assert lab.changes().split() == ["??", "copy.txt", "??", "made.txt"]


@each_agent
def test_a_write_in_read_only_mode_changes_nothing(lab, step, name):
    script = step("write", path="made.txt", text="x\n") + step("shell", cmd="echo x > copy.txt")
    ran = lab.run(name, script + step("answer", text="I tried."), mode="read-only")
    assert (ran.answer.ended, ran.answer.text) == ("success", "I tried."), ran
    assert "permission_denied" in ran.answer.flags
    assert lab.changes() == ""


@each_agent
def test_a_wrong_key_is_a_login_failure_told_in_one_line(lab, step, name):
    ran = lab.run(name, step("fail", status=401, message="no such key"))
    assert (ran.answer.ended, ran.answer.failure) == ("error", "login"), ran
    assert "no such key" in ran.answer.error
    assert "{" not in ran.answer.error
    assert "\n" not in ran.answer.error
    assert len(lab.server.requests()) <= 8


@each_agent
def test_without_a_key_it_is_a_login_failure(lab, step, name):
    environ = {key: value for key, value in lab.environ(name).items() if not key.endswith("_API_KEY")}
    ran = lab.run(name, step("answer", text="ok"), environ=environ)
    assert ran.answer.ended != "success", ran
    assert ran.answer.failure == "login", ran
    assert lab.server.requests() == []


@each_agent
def test_a_spent_limit_is_known_as_one(lab, step, name):
    ran = lab.run(name, step("fail", status=429, message="slow down"))
    assert (ran.answer.ended, ran.answer.failure) == ("error", "rate_limited"), ran


@each_agent
def test_a_stream_that_stalls_and_is_killed_is_no_result(lab, step, name):
    ran = lab.run(name, step("stall"), until="stall")
    assert ran.exit_code is None
    assert ran.answer.ended == "none", ran
    assert ran.answer.failure is None
    assert ran.answer.thread, "the session can be resumed: its id comes before the first request"


@each_agent
def test_instruction_files_of_the_repository_reach_the_model(lab, step, name):
    words = {"AGENTS.md": "heron", "CLAUDE.md": "bittern", "GEMINI.md": "egret"}
    for file, word in words.items():
        lab.commit(file, f'Always say {word} 🪶 "twice" \\ once.\n')
    ran = lab.run(name, step("answer", text="ok"), instructions=tuple(words))
    assert ran.answer.ended == "success", ran
    body = lab.server.requests()[-1]["body"]
    assert {word: body.count(f"Always say {word}") for word in words.values()} == dict.fromkeys(
        words.values(), 1
    )


@each_agent
def test_agents_md_alone_reaches_the_model(lab, step, name):
    lab.commit("AGENTS.md", "Always say heron.\n")
    lab.run(name, step("answer", text="ok"), instructions=("AGENTS.md",))
    assert lab.server.requests()[-1]["body"].count("Always say heron") == 1


@each_agent
def test_hooks_of_an_untrusted_repository_do_not_run(lab, step, name):
    hook = {"hooks": [{"type": "command", "command": f"touch {lab.scratch}/hooked"}]}
    for folder, events in (
        (".claude", ("SessionStart", "UserPromptSubmit")),
        (".gemini", ("SessionStart", "BeforeAgent")),
    ):
        (lab.repo / folder).mkdir()
        lab.commit(f"{folder}/settings.json", json.dumps({"hooks": {event: [hook] for event in events}}))
    ran = lab.run(name, step("answer", text="ok"))
    assert ran.answer.ended == "success", ran
    assert not (lab.scratch / "hooked").exists()


@pytest.mark.parametrize("name", ["claude", "gemini"])
def test_hooks_of_a_trusted_repository_run(lab, step, name):
    event = {"claude": "UserPromptSubmit", "gemini": "BeforeAgent"}[name]
    hook = {"hooks": [{"type": "command", "command": f"touch {lab.scratch}/hooked"}]}
    (lab.repo / f".{name}").mkdir()
    lab.commit(f".{name}/settings.json", json.dumps({"hooks": {event: [hook]}}))
    ran = lab.run(name, step("answer", text="ok"), trust_repository=True)
    assert ran.answer.ended == "success", ran
    assert (lab.scratch / "hooked").exists()


@pytest.mark.parametrize("trusted", [False, True])
def test_settings_of_the_repository_reach_codex_only_when_it_is_trusted(lab, step, trusted):
    (lab.repo / ".codex").mkdir()
    lab.commit(".codex/config.toml", 'developer_instructions = "Always say heron."\n')
    ran = lab.run("codex", step("answer", text="ok"), trust_repository=trusted)
    assert ran.answer.ended == "success", ran
    assert ("Always say heron" in lab.server.requests()[-1]["body"]) == trusted


@each_agent
def test_a_flag_it_does_not_know_is_refused_at_once(lab, step, name):
    ran = lab.run(name, step("answer", text="ok"), args=("--zebra",))
    assert (ran.answer.ended, ran.answer.failure) == ("none", "refused"), ran
    assert "zebra" in ran.answer.error
    assert lab.server.requests() == []


@each_agent
def test_nothing_of_it_stays_in_the_users_home_or_the_repository(lab, step, name):
    lab.run(name, step("shell", cmd="true") + step("answer", text="ok"), mode="write")
    assert [str(path) for path in lab.user.rglob("*")] == []
    assert lab.changes() == ""


def test_tools_of_codex_do_not_see_the_key(lab, step):
    script = step("shell", cmd="env > seen.txt") + step("answer", text="ok")
    ran = lab.run("codex", script, mode="write", fenced=True)
    assert ran.answer.ended == "success", ran
    seen = (lab.repo / "seen.txt").read_text()
    assert "ORCHESTRATE_TEST_MARK" in seen
    assert "sk-test-not-real" not in seen


def test_codex_is_started_without_its_launcher(lab):
    assert "/vendor/" in lab.request("codex", "x").executable


def test_the_scripted_model_runs_by_itself(tmp_path):
    port, log = tmp_path / "port", tmp_path / "log"
    script = TESTS / "support" / "stub_model.py"
    command = [sys.executable, script, "--port", "0", "--port-file", port, "--log", log]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = server.stdout.readline().strip()
            assert url == f"http://127.0.0.1:{port.read_text()}"
            prompt = {
                "contents": [{"role": "user", "parts": [{"text": '<<step {"do": "answer", "text": "hi"}>>'}]}]
            }
            at = f"{url}/v1beta/models/m:streamGenerateContent"
            with urllib.request.urlopen(at, json.dumps(prompt).encode(), timeout=30) as answer:
                assert '"text": "hi"' in answer.read().decode()
        finally:
            server.kill()
    assert json.loads(log.read_text())["do"] == "answer"
