"""Whose configuration the workers of an agent use is said as it is: by what their command lines would do."""

import subprocess
from pathlib import Path

import pytest

from orchestrator.report.doctor import config_of
from tickets.types import SLOTS
from workers.agents.agent import AgentSettings, InvocationRequest, agent_named
from workers.fence.policy import worker_walls
from workers.files.run_dir import RunDir
from workers.git.run import find_repository

AGENTS = tuple(SLOTS)


def invocation(tmp_path, name, environ):
    """Build the call of a worker as a run would."""
    for folder in ("tree", "own"):
        (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / "prompt.md").write_text("Look at this.\n")
    request = InvocationRequest(
        "W-1", "read-only", "/bin/agent", AgentSettings(), None, tmp_path / "tree", tmp_path / "prompt.md",
        tmp_path / "own", environ,
    )  # fmt: skip
    return agent_named(name).invocation(request)


@pytest.mark.parametrize("name", AGENTS)
def test_with_a_key_each_worker_has_a_directory_of_its_own(tmp_path, name):
    for key in agent_named(name).KEYS:
        environ = {"HOME": str(tmp_path), key: "sk-test-not-real"}
        made = invocation(tmp_path, name, environ)
        assert Path(made.env[agent_named(name).CONFIG_VARIABLE]).is_relative_to(tmp_path / "own")
        said = config_of(name, environ)
        assert said.startswith(
            f"{key} is set: each worker has a {agent_named(name).CONFIG_VARIABLE} of its own"
        )
        assert all(f"~/{place}" in said for place in agent_named(name).LOGIN.folders)


@pytest.mark.parametrize("name", AGENTS)
def test_without_a_key_all_use_the_users_own(tmp_path, name):
    place = agent_named(name).LOGIN.folders[0]
    (tmp_path / place).mkdir()
    kept = agent_named(name).LOGIN.locked[0]
    (tmp_path / place / kept).write_text("")
    environ = {"HOME": str(tmp_path)}
    assert agent_named(name).CONFIG_VARIABLE not in invocation(tmp_path, name, environ).env
    said = config_of(name, environ)
    assert said.startswith(f"no key is set: all workers use ~/{place} as it is; nothing is linked or copied")
    assert said.endswith(f"but for {kept}, which a fence keeps read-only")


@pytest.mark.parametrize("name", AGENTS)
def test_who_is_logged_in_nowhere_is_told_so(tmp_path, name):
    said = config_of(name, {"HOME": str(tmp_path)})
    assert said.startswith(f"no key is set ({', '.join(agent_named(name).KEYS)}), and there is no ~/")


def test_a_command_worker_has_none():
    assert config_of("command", {}) == ""


@pytest.mark.parametrize("name", AGENTS)
def test_what_is_said_to_be_shared_is_what_the_fence_lets_them_write(tmp_path, name):
    home, root = tmp_path / "home", tmp_path / "shop"
    (home / agent_named(name).LOGIN.folders[0]).mkdir(parents=True)
    subprocess.run(["git", "init", "-q", root], check=True)
    repository = find_repository(root)
    environ = {"HOME": str(home)}
    run = RunDir(repository.root, "20260216_142834")
    walls = worker_walls(
        run, repository, "W-1", mode="read-only", environ=environ, login=agent_named(name).LOGIN
    )
    assert home / agent_named(name).LOGIN.folders[0] in walls.writable
