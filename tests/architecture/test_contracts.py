"""The import contracts of pyproject.toml hold, and catch the wrong import when somebody writes it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import ROOT

LINT = Path(sys.executable).with_name("lint-imports")
PLANTED = {
    "a shared room reaches up": ("orchestrator/store/repo.py", "from orchestrator.runs import state"),
    "a fast answer imports models": ("orchestrator/runs/state.py", "import pydantic"),
    "the shim needs a library": ("workers/shim/shim.py", "import anyio"),
    "a message log needs a library": ("workers/messages/record.py", "import pydantic"),
    "a message log knows tickets": ("workers/messages/standing.py", "from tickets import wording"),
    "git knows worktrees": ("workers/git/run.py", "from workers.worktree import worktree"),
    "a document starts a process": ("orchestrator/state/canonical/rules/rules.py", "import subprocess"),
    "scopes know templates": ("tickets/scopes/scope.py", "from tickets.templates import render"),
    "a package reaches up": ("workers/pool/slots.py", "from orchestrator import money"),
    "tickets know workers": ("tickets/report.py", "from workers.agents import agent"),
    "a second writer has the lock": ("orchestrator/runs/manifest.py", "import filelock"),
    "two modules need each other": ("workers/shim/landlock.py", "from workers.shim import start"),
    "a module has no room": ("orchestrator/helpers.py", ""),
    "a command knows the command line": (
        "orchestrator/commands/todo.py",
        "from orchestrator.cli import text",
    ),
    "a fast command imports models": (
        "orchestrator/commands/ps.py",
        "from orchestrator.settings import settings",
    ),
    "a command parses arguments": ("orchestrator/commands/decide.py", "import argparse"),
    "a lower room calls a command": (
        "orchestrator/prepare/prepare.py",
        "from orchestrator.commands import plan",
    ),
    "an agent knows the fence": ("workers/agents/codex.py", "from workers.fence import policy"),
}
"""What is planted: the file, and the import that is added to it; each is caught."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Copy what the contracts are about."""
    folder = tmp_path_factory.mktemp("sources")
    shutil.copy2(ROOT / "pyproject.toml", folder)
    for package in ("orchestrator", "workers", "tickets"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def lint(folder):
    """Check the contracts of a source tree; return exit code and output."""
    env = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run([LINT], cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_every_contract_holds(sources):
    code, said = lint(sources)
    assert code == 0, said
    assert "0 broken" in said


@pytest.mark.parametrize("planted", PLANTED)
def test_a_wrong_import_breaks_a_contract(sources, planted):
    name, line = PLANTED[planted]
    path = sources / name
    before = path.read_text() if path.exists() else None
    path.write_text(f"{before or ''}\n{line}\n")
    try:
        code, said = lint(sources)
    finally:
        path.unlink() if before is None else path.write_text(before)
    assert code == 1, said
    assert "BROKEN" in said
