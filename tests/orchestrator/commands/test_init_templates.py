"""The templates that `init` writes: that they plan, and what the three commands report of real trees."""

import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from support.repository import seen_in

from orchestrator.commands.init import shipped_templates
from orchestrator.state.canonical.status import status
from orchestrator.state.facts import Facts
from tickets.plan import make_plan
from tickets.scopes.rules import PathRules, reserved_paths
from tickets.templates.render import FOLDER, Values, is_template, render_phase
from tickets.ticket import Ticket
from workers.agents.command import new_reader

FACTS = Facts("project", "Ada", datetime(2026, 2, 16, 14, 28, tzinfo=UTC))
PYTHON = f'env PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 "{sys.executable}"'


@pytest.fixture
def tools(tmp_path):
    """Return a folder for PATH with the system's own tools, and a way to add more."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("sh", "cat", "cp", "env", "find", "grep", "head", "ln", "sed", "tail", "tee", "tr", "xargs"):
        (folder / name).symlink_to(shutil.which(name))

    def add(name, script):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    add("python3", f'exec {PYTHON} "$@"')
    return folder, add


@pytest.fixture(scope="module")
def tickets():
    files = {f"{FOLDER}/{name}": text for name, text in shipped_templates().items()}
    found, problems = render_phase(files, Values("project", "phase-1"))
    assert not problems
    assert len(found) == len([path for path in files if is_template(path)])
    return {ticket.id: ticket for ticket in found}


def test_the_templates_are_eight_read_only_tickets_that_share_no_path(tickets):
    plan = make_plan(list(tickets.values()), PathRules(reserved_paths(())))
    assert (plan.problems, plan.notes) == ((), ())
    counts = {}
    for ticket in plan.tickets:
        counts[ticket.agent] = counts.get(ticket.agent, 0) + 1
        assert (ticket.mode, ticket.phase, ticket.owns) == ("read-only", "phase-1", ())
    assert counts == {"codex": 2, "claude": 2, "gemini": 1, "command": 3}


def test_every_template_counts_under_a_deliverable_of_the_first_phase(tickets):
    (phase,) = status.read(status.initial(FACTS).encode()).phases
    listed = {deliverable.name for deliverable in phase.deliverables}
    assert {ticket.deliverable for ticket in tickets.values()} == listed


def test_the_readme_explains_every_key_and_names_every_template(tickets):
    text = shipped_templates()["README.md"].decode()
    rows = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    internal = {"id", "template", "worker", "body", "digest", "lines"}
    assert set(Ticket._fields) - internal <= set(rows)
    assert all(f"`{id_}.md`" in text for id_ in tickets)


@pytest.fixture
def result(tickets, tools, tmp_path):
    """Run one of the command tickets on some files; returns its answer, its exit code and what it printed."""

    def run(ticket, files, project=None):
        tree, scratch = tmp_path / "tree", tmp_path / "scratch"
        for path, text in {"README.md": "# Project\n", **files}.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text)
        scratch.mkdir()
        before = seen_in(tree)
        done = subprocess.run(
            tickets[ticket].command,
            cwd=tree,
            env={"PATH": str(tools[0]), "TMPDIR": str(scratch), "HOME": str(tmp_path),
                 "ORCHESTRATE_PROJECT": str(project or tree),
                 "PYTHONPYCACHEPREFIX": str(scratch / "pycache")},
            input="the ticket",
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        # A read-only worker that changes its tree is held for the lead, whatever it found.
        assert seen_in(tree) == before
        reader = new_reader()
        for line in done.stdout.splitlines():
            reader.feed(line.encode())
        return reader.answer(exit_code=done.returncode, stderr_tail=done.stderr), done.stdout

    return run


@pytest.mark.parametrize(
    ("ticket", "said"),
    [
        ("command-tests", "no test suite found"),
        ("command-lint", "no linter found"),
        ("command-dependencies", "no dependencies declared"),
    ],
)
def test_where_there_is_nothing_to_check_the_command_says_so(result, ticket, said):
    answer, _ = result(ticket, {})
    assert (answer.status, answer.flags) == ("skipped", ())
    assert answer.text.startswith(said)


CASES = {"test_sum.py": "def test_sum():\n    assert 1 + 1 == 2\n"}
UNITS = """\
import unittest

class Sums(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(1 + 1, 2)
"""


def test_python_tests_are_run_and_leave_nothing_behind(result):
    answer, _ = result("command-tests", {f"tests/{name}": text for name, text in CASES.items()})
    assert answer.status == "complete"
    assert re.fullmatch(r"passed: pytest: 1 passed in [\d.]+s", answer.text)


def test_a_test_that_fails_fails_the_ticket(result):
    answer, out = result("command-tests", {"tests/test_sum.py": "def test_sum():\n    assert 1 == 2\n"})
    assert (answer.ended, answer.error) == ("error", "exit code 1: failed: pytest (exit 1)")
    assert "1 failed" in out


def test_the_sources_of_the_tree_are_tested_and_not_an_installed_copy(result, tmp_path):
    installed = tmp_path / "project" / ".venv" / "bin"
    installed.mkdir(parents=True)
    (installed / "python3").write_text(f'#!/bin/sh\nBORROWED=1 exec {PYTHON} "$@"\n')
    (installed / "python3").chmod(0o755)
    text = "import os, thing\ndef test_it():\n    assert thing.WHERE + os.environ['BORROWED'] == 'src1'\n"
    files = {"src/thing.py": "WHERE = 'src'\n", "tests/test_it.py": text}
    answer, _ = result("command-tests", files, project=tmp_path / "project")
    assert answer.text.startswith("passed: pytest: 1 passed in ")


def test_without_pytest_its_tests_are_blocked_and_others_are_run(result, tools):
    tools[1]("python3", f'exec {PYTHON} -S "$@"')
    answer, _ = result("command-tests", {"tests/test_sum.py": UNITS})
    assert answer.text == "passed: unittest: OK"


def test_tests_that_need_a_tool_that_is_missing_are_blocked(result, tools):
    tools[1]("python3", f'exec {PYTHON} -S "$@"')
    answer, _ = result("command-tests", {"test_it.py": "import pytest\n", "go.mod": "module x\n"})
    assert answer.status == "blocked"
    assert answer.text.endswith("not installed: pytest, go")


def test_a_make_target_is_the_projects_own_word(result, tools):
    tools[1]("make", 'echo "made $1"')
    answer, out = result("command-tests", {"Makefile": "all:\n\ntest: all\n\ttrue\n", **CASES})
    assert answer.text == "passed: make test: made test"
    assert "made test" in out
    assert "pytest" not in out


def test_a_make_variable_is_no_target(result):
    answer, _ = result("command-lint", {"Makefile": "lint := ruff\nlinting:\n\ttrue\n"})
    assert answer.text.startswith("no linter found")


def test_every_part_of_a_mixed_project_is_tested(result, tools):
    node = 'case "$2" in *includes*) grep -q vitest package.json;; *) true;; esac'
    tools[1]("node", node)
    tools[1]("pnpm", 'echo "pnpm $*"')
    tools[1]("cargo", "exit 7")
    tools[1]("go", 'echo "go $*"')
    files = {
        "package.json": '{"scripts": {"test": "vitest"}}',
        "pnpm-lock.yaml": "",
        "Cargo.toml": "",
        "go.mod": "",
    }
    answer, out = result("command-tests", files)
    assert answer.error == "exit code 1: failed: cargo test (exit 7)"
    assert "pnpm run test" in out
    assert "go test ./..." in out


def test_only_linters_that_the_project_configures_are_run(result, tools):
    tools[1]("ruff", 'echo "ruff $*"; exit 1')
    answer, out = result("command-lint", {"pyproject.toml": "[tool.ruff]\nline-length = 100\n", "a.py": ""})
    assert answer.error == "exit code 1: failed: ruff (exit 1)"
    assert "ruff check --no-cache ." in out


def test_a_linter_that_is_configured_and_missing_is_blocked(result):
    answer, _ = result("command-lint", {".flake8": "[flake8]\n"})
    assert (answer.status, answer.text) == ("blocked", "linters are configured, but not installed: flake8")


def test_manifests_without_a_lock_file_are_named(result):
    files = {
        "pyproject.toml": "[project]\nname = 'x'\n",
        "package.json": "{}",
        "package-lock.json": "{}",
        "go.mod": "module x\n",
    }
    answer, out = result("command-dependencies", files)
    assert answer.text == (
        "declared in: pyproject.toml, package.json, go.mod; checks passed: none; "
        "without a lock file: pyproject.toml"
    )
    assert "package.json: pinned by package-lock.json" in out


def test_a_lock_file_that_contradicts_its_manifest_fails_the_ticket(result, tools):
    tools[1]("npm", 'echo "npm error missing: left-pad@1"; exit 1')
    answer, _ = result("command-dependencies", {"package.json": "{}", "package-lock.json": "{}"})
    assert answer.error == "exit code 1: failed: npm ls --package-lock-only (exit 1)"
