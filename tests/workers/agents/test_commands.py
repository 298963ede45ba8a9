"""Command lines, environments and files of the agents; and command workers, which are nothing but these."""

import itertools
import json
import os
import tomllib
from pathlib import Path

import pytest

from tickets.types import AGENTS
from workers.agents.agent import AgentSettings, InvocationRequest, Mail, agent_named
from workers.errors import WorkerError

CLIS = ("codex", "claude", "gemini")
each_cli = pytest.mark.parametrize("name", CLIS)
KEYS = {"codex": "CODEX_API_KEY", "claude": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}
HOMES = {"codex": "CODEX_HOME", "claude": "CLAUDE_CONFIG_DIR", "gemini": "GEMINI_CLI_HOME"}


@pytest.fixture
def wanted(tmp_path):
    for name in ("tree", "home"):
        (tmp_path / name).mkdir()
    prompt = tmp_path / "prompt.md"
    prompt.write_text("Look at this.\n")
    made = InvocationRequest(
        "W-1",
        "read-only",
        "/bin/agent",
        AgentSettings(),
        None,
        tmp_path / "tree",
        prompt,
        tmp_path / "home",
        {},
    )
    return made._replace(command=("make", "check"))


def invocation(name, wanted, **fields):
    return agent_named(name).invocation(wanted._replace(**fields))


def options_of_codex(argv):
    """Read what `-c` sets as codex does: as TOML."""
    return dict(
        next(iter(flat(tomllib.loads(value)))) for flag, value in itertools.pairwise(argv) if flag == "-c"
    )


def flat(table, prefix=""):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


@each_cli
def test_a_key_of_one_agent_is_not_given_to_another(wanted, name):
    environ = {key: "sk-test-not-real" for other in CLIS for key in agent_named(other).KEYS}
    given = {
        key
        for key, value in invocation(name, wanted, environ=environ).env.items()
        if value == "sk-test-not-real"
    }
    assert given == set(agent_named(name).KEYS)


@each_cli
def test_a_key_brings_a_private_directory_and_none_leaves_the_users_own(wanted, name):
    env = invocation(name, wanted, environ={KEYS[name]: "sk-test-not-real"}).env
    assert Path(env[HOMES[name]]).is_relative_to(wanted.home)
    assert "HOME" not in env
    for environ in ({}, {KEYS[name]: ""}):
        env = invocation(name, wanted, environ=environ).env
        assert HOMES[name] not in env
        assert KEYS[name] not in env


@each_cli
def test_the_prompt_is_never_an_argument(wanted, name):
    wanted.prompt.write_text("a word that is nowhere else: albatross\n")
    call = invocation(name, wanted)
    assert not any("albatross" in part for part in call.argv)


@each_cli
def test_a_model_and_arguments_of_the_settings_come_last_so_that_they_win(wanted, name):
    call = invocation(name, wanted, model="m-1", settings=AgentSettings(args=("--extra", "x")))
    assert call.argv[call.argv.index("m-1") - 1] in ("-m", "--model")
    assert call.argv[-3:-1] == ("--extra", "x") or call.argv[-2:] == ("--extra", "x")


@pytest.mark.parametrize(
    ("name", "mode", "fenced", "expected"),
    [
        ("codex", "read-only", False, "--sandbox read-only"),
        ("codex", "write", False, "--sandbox workspace-write"),
        ("codex", "write", True, "--sandbox danger-full-access"),
        ("claude", "read-only", False, "--permission-mode dontAsk"),
        ("claude", "write", False, "--permission-mode acceptEdits --allowedTools Bash"),
        ("claude", "write", True, "--permission-mode bypassPermissions"),
        ("gemini", "read-only", False, "--approval-mode default"),
        ("gemini", "write", False, "--approval-mode yolo"),
        ("gemini", "read-only", True, "--approval-mode yolo"),
    ],
)
def test_a_cli_is_as_free_as_its_mode_and_the_fence_allow(wanted, name, mode, fenced, expected):
    assert expected in " ".join(invocation(name, wanted, mode=mode, fenced=fenced).argv)


def test_root_in_a_fence_says_so_to_claude(wanted):
    assert ("IS_SANDBOX" in invocation("claude", wanted, fenced=True).env) == (os.geteuid() == 0)
    assert "IS_SANDBOX" not in invocation("claude", wanted).env


@pytest.mark.parametrize(
    ("name", "fenced", "expected"),
    [
        ("codex", False, ('exec resume --json -c sandbox_mode="workspace-write" -m m-1 ', " --extra T-1 -")),
        ("codex", True, ('exec resume --json -c sandbox_mode="danger-full-access" -m m-1 ', " T-1 -")),
        ("claude", True, ("-p --output-format stream-json --verbose --model m-1 ", " --resume T-1 --extra")),
        ("gemini", True, ("--output-format stream-json -m m-1 ", " --skip-trust --resume T-1 --extra")),
    ],
)
def test_a_thread_goes_on_by_its_clis_own_words(wanted, name, fenced, expected):
    fields = {"thread": "T-1", "model": "m-1", "mode": "write", "fenced": fenced}
    said = " ".join(invocation(name, wanted, settings=AgentSettings(args=("--extra",)), **fields).argv[1:])
    assert said.startswith(expected[0])
    assert said.endswith(expected[1])
    assert "--sandbox" not in said
    assert "--color" not in said
    afresh = invocation(name, wanted, **fields | {"thread": None}).argv
    assert {"resume", "--resume", "T-1"}.isdisjoint(afresh)


@each_cli
@pytest.mark.parametrize("text", ["", " \n\t\n"])
def test_an_empty_prompt_is_refused(wanted, name, text):
    wanted.prompt.write_text(text)
    with pytest.raises(WorkerError, match="empty"):
        invocation(name, wanted)


@each_cli
def test_a_prompt_that_the_cli_would_cut_is_refused(wanted, name):
    wanted.prompt.write_text("x" * (agent_named(name).LARGEST_PROMPT + 1))
    with pytest.raises(WorkerError, match="shorten it"):
        invocation(name, wanted)


@pytest.mark.parametrize("text", ["/clear\n", "\n  /help me", "\ufeff/x"])
def test_a_prompt_that_claude_takes_for_a_command_is_refused(wanted, text):
    wanted.prompt.write_text(text)
    with pytest.raises(WorkerError, match="begins with '/'"):
        invocation("claude", wanted)
    assert invocation("codex", wanted)


@each_cli
def test_a_budget_reaches_the_cli_that_has_one(wanted, name):
    assert ("--max-budget-usd" in invocation(name, wanted, budget_usd=0.5).argv) == (name == "claude")


def test_codex_is_given_the_server_that_its_variable_names_and_it_does_not_read(wanted):
    server = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    environ = {**server, "OPENAI_API_KEY": "sk-test-not-real"}
    argv = invocation("codex", wanted, environ=environ).argv
    assert options_of_codex(argv)["model_provider"] == "by_base_url"
    (provider,) = (tomllib.loads(one) for one in argv if one.startswith("model_providers."))
    assert provider["model_providers"]["by_base_url"] == {
        "name": "OPENAI_BASE_URL", "base_url": "http://127.0.0.1:9/v1", "env_key": "OPENAI_API_KEY",
        "wire_api": "responses",
    }  # fmt: skip
    with_login = options_of_codex(invocation("codex", wanted, environ=server).argv)
    assert with_login["openai_base_url"] == "http://127.0.0.1:9/v1"
    assert "model_provider" not in with_login
    assert "model_provider" not in options_of_codex(invocation("codex", wanted, environ={}).argv)


def test_codex_is_told_the_instructions_that_it_does_not_read_itself(wanted):
    text = 'Say "heron" \\ \x7f 🪶\nand\ttab.'
    for name in ("AGENTS.md", "CLAUDE.md", "GEMINI.md"):
        (wanted.worktree / name).write_text(text if name == "GEMINI.md" else f"for {name}")
    options = options_of_codex(
        invocation("codex", wanted, instructions=("AGENTS.md", "CLAUDE.md", "GEMINI.md")).argv
    )
    assert options["project_doc_fallback_filenames"] == ["CLAUDE.md", "GEMINI.md"]
    assert text in options["developer_instructions"]
    assert "for CLAUDE.md" in options["developer_instructions"]
    assert "for AGENTS.md" not in options["developer_instructions"]


def test_instructions_too_long_for_an_argument_are_pointed_at(wanted):
    (wanted.worktree / "AGENTS.md").write_text("short")
    (wanted.worktree / "CLAUDE.md").write_text("é" * 100_000)
    argv = invocation("codex", wanted, instructions=("AGENTS.md", "CLAUDE.md")).argv
    assert max(len(part.encode()) for part in argv) < 1000
    assert "read CLAUDE.md" in options_of_codex(argv)["developer_instructions"]


def test_claude_is_told_each_instruction_once(wanted):
    (wanted.worktree / "AGENTS.md").write_text("Say heron.\n")
    (wanted.worktree / "CLAUDE.md").symlink_to("AGENTS.md")
    call = invocation("claude", wanted, instructions=("AGENTS.md", "CLAUDE.md"))
    assert call.files["instructions.md"].decode().count("Say heron.") == 1
    assert call.argv[call.argv.index("--append-system-prompt-file") + 1] == str(
        wanted.home / "instructions.md"
    )


def test_a_committed_link_to_a_private_file_is_not_sent_to_a_provider(wanted, tmp_path):
    (tmp_path / "private").write_text("a secret of the user's")
    (wanted.worktree / "AGENTS.md").symlink_to(tmp_path / "private")
    os.mkfifo(wanted.worktree / "GEMINI.md")
    assert invocation("claude", wanted, instructions=("AGENTS.md", "CLAUDE.md", "GEMINI.md")).files == {}


def test_gemini_reads_the_instructions_and_its_settings_from_a_file(wanted):
    call = invocation(
        "gemini", wanted, instructions=("AGENTS.md",), environ={"GEMINI_API_KEY": "sk-test-not-real"}
    )
    settings = json.loads(call.files[".gemini/settings.json"])
    assert settings["context"]["fileName"] == ["AGENTS.md"]
    assert settings["security"]["auth"]["selectedType"] == "gemini-api-key"
    assert "sk-test-not-real" not in json.dumps(settings)
    call = invocation("gemini", wanted)
    assert call.env["GEMINI_CLI_SYSTEM_DEFAULTS_PATH"] == str(wanted.home / "gemini-defaults.json")
    assert "security" not in json.loads(call.files["gemini-defaults.json"])


MAIL = Mail(
    ("/py", "-I", "/it's/mail_server.py", "--log", "/l"),
    "after 'x'",
    "stop",
    1771254514,
    1860,
    ("TMPDIR", "X"),
)
KEYED = {name: {key: "sk-test-not-real"} for name, key in KEYS.items()}


def test_codex_gets_the_server_by_options_and_hooks_in_a_directory_of_ours_alone(wanted):
    call = invocation("codex", wanted, mail=MAIL, environ=KEYED["codex"])
    options = options_of_codex(call.argv)
    assert {key: value for key, value in options.items() if key.startswith("mcp_servers")} == {
        "mcp_servers.orchestrate.command": "/py",
        "mcp_servers.orchestrate.args": [*MAIL.server[1:], "--deadline", "1771254514"],
        "mcp_servers.orchestrate.env_vars": ["TMPDIR", "X"],
        "mcp_servers.orchestrate.default_tools_approval_mode": "approve",
        "mcp_servers.orchestrate.tool_timeout_sec": 1860,
    }
    after, stop = ([{"type": "command", "command": run}] for run in ("after 'x'", "stop"))
    assert options["hooks.PostToolUse"] == [{"matcher": "*", "hooks": after}]
    assert options["hooks.Stop"] == [{"hooks": stop}]
    assert "--dangerously-bypass-hook-trust" in call.argv
    # The user's own directory may hold hooks that nobody has reviewed.
    argv = invocation("codex", wanted, mail=MAIL).argv
    assert options_of_codex(argv)["mcp_servers.orchestrate.command"] == "/py"
    assert "hooks" not in " ".join(argv)
    assert "--dangerously-bypass-hook-trust" not in argv


def test_claude_gets_the_server_and_the_hooks_and_no_other_server_in_a_directory_of_ours(wanted):
    call = invocation("claude", wanted, mail=MAIL, environ=KEYED["claude"])
    said = dict(itertools.pairwise(call.argv))
    assert json.loads(said["--mcp-config"]) == {
        "mcpServers": {
            "orchestrate": {
                "type": "stdio",
                "command": "/py",
                "args": [*MAIL.server[1:], "--deadline", "1771254514"],
                "alwaysLoad": True,
            }
        }
    }
    after, stop = ([{"type": "command", "command": run}] for run in ("after 'x'", "stop"))
    called = [{"matcher": "*", "hooks": after}]
    hooks = {"PostToolUse": called, "PostToolUseFailure": called, "Stop": [{"hooks": stop}]}
    assert json.loads(said["--settings"]) == {"hooks": hooks}
    assert call.env["MCP_TOOL_TIMEOUT"] == "1860000"
    assert "--strict-mcp-config" in call.argv
    for fields in ({}, {"environ": KEYED["claude"], "trust_repository": True}):
        assert "--strict-mcp-config" not in invocation("claude", wanted, mail=MAIL, **fields).argv


def test_gemini_gets_the_server_and_the_hooks_by_its_settings(wanted):
    for environ in ({}, KEYED["gemini"]):
        call = invocation("gemini", wanted, mail=MAIL, environ=environ)
        settings = json.loads(*call.files.values())
        # A later attempt finds the file of the first one.
        assert call.env["ORCHESTRATE_DEADLINE"] == "1771254514"
        assert settings["mcpServers"]["orchestrate"] == {
            "command": "/py",
            "args": [*MAIL.server[1:], "--deadline", "$ORCHESTRATE_DEADLINE"],
            "trust": True,
            "timeout": 1860000,
        }
        (after,), (stop,) = settings["hooks"]["AfterTool"], settings["hooks"]["AfterAgent"]
        assert (after["matcher"], after["hooks"][0]["command"]) == (".*", "after 'x'")
        assert stop["hooks"][0]["command"] == "stop"


@each_cli
@pytest.mark.parametrize("thread", [None, "01a2"])
def test_without_messages_no_agent_is_told_of_a_server(wanted, name, thread):
    call = invocation(name, wanted, environ=KEYED[name], thread=thread)
    assert "orchestrate" not in repr((call.argv, call.env, call.files))


@pytest.mark.parametrize("mode", ["read-only", "write"])
def test_claude_may_call_our_tools_in_each_mode_of_permissions(wanted, mode):
    said = dict(itertools.pairwise(invocation("claude", wanted, mail=MAIL, mode=mode).argv))
    assert said["--allowedTools"] == ("mcp__orchestrate" if mode == "read-only" else "Bash,mcp__orchestrate")


def executable(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", CLIS)
def test_an_executable_is_found_on_the_given_path_only(tmp_path, name):
    found = executable(tmp_path / "bin" / name)
    agent = agent_named(name)
    assert agent.locate(AgentSettings(), str(tmp_path / "bin")) == str(found)
    assert agent.locate(AgentSettings(), str(tmp_path)) is None
    assert agent.locate(AgentSettings(executable=str(found)), "") == str(found)
    assert agent.locate(AgentSettings(executable="other"), str(tmp_path / "bin")) is None


@pytest.mark.parametrize("nested", [False, True])
def test_the_program_of_codex_is_preferred_to_its_launcher(tmp_path, nested, monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    scope = tmp_path / "node_modules" / "@openai"
    launcher = executable(scope / "codex" / "bin" / "codex.js")
    (tmp_path / "codex").symlink_to(launcher)
    codex = agent_named("codex")
    assert codex.locate(AgentSettings(), str(tmp_path)) == str(tmp_path / "codex")
    place = scope / "codex" / "node_modules" / "@openai" if nested else scope
    program = executable(place / "codex-linux-x64" / "vendor" / "x86_64-unknown-linux-musl" / "bin" / "codex")
    assert codex.locate(AgentSettings(), str(tmp_path)) == str(program)


def test_a_command_worker_runs_its_own_arguments(wanted):
    call = invocation("command", wanted)
    assert call.argv == ("make", "check")
    assert call.env == {"ORCHESTRATE_TICKET": str(wanted.prompt)}
    with pytest.raises(WorkerError, match="without a command"):
        invocation("command", wanted, command=None)
    assert agent_named("command").locate(AgentSettings(), "") == "command"


@pytest.mark.parametrize("name", AGENTS)
def test_each_agent_says_what_it_is(name):
    assert name == agent_named(name).NAME


@pytest.mark.parametrize(
    ("lines", "exit_code", "expected"),
    [
        (["noise", 'ORCHESTRATE-RESULT {"status": "complete", "summary": "All green."}', ""],
         0, ("success", "All green.", "", (), "complete")),
        (['\x1b[0mORCHESTRATE-RESULT {"status":"blocked","summary":"no disk"}'],
         0, ("success", "no disk", "", (), "blocked")),
        (['ORCHESTRATE-RESULT {"status": "needs_clarification", "summary": 7}'],
         0, ("success", "", "", (), "needs_clarification")),
        (['ORCHESTRATE-RESULT {"status": "complete"}', "chatter after it"], 0, ("success", "", "", (), None)),
        (["ORCHESTRATE-RESULT {half"], 0, ("success", "", "", ("unreadable_result",), None)),
        (['ORCHESTRATE-RESULT {"status": "great"}'], 0, ("success", "", "", ("unreadable_result",), None)),
        ([], 0, ("success", "", "", ("silent",), None)),
        (["", "  "], 2, ("error", "", "exit code 2: bad option", ("silent",), None)),
        (["half"], None, ("none", "", "bad option", (), None)),
    ],
)  # fmt: skip
def test_a_command_is_judged_by_its_exit_code_and_its_last_line(lines, exit_code, expected):
    reader = agent_named("command").new_reader()
    for line in lines:
        reader.feed(line.encode())
    answer = reader.answer(exit_code=exit_code, stderr_tail="bad option\n" if exit_code != 0 else "")
    assert (answer.ended, answer.text, answer.error, answer.flags, answer.status) == expected
