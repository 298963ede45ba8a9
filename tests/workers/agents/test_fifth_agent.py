"""An agent is one module and one line in a table: with both added, and nothing else, a phase runs with it."""

import ast
import filecmp
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.repository import TEMPLATES, Called, template

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("orchestrator", "tickets", "workers")
TABLE, LINE = Path("tickets/types.py"), '    "heron": PoolDefault(),\n'
MODULE = Path("workers/agents/heron.py")
REPORT = {
    "summary": "Wrote the file.",
    "analysis": "It was not there.",
    "proposal": {"text": "Keep it.", "affected_files": [], "sketch": "-", "testing": "-",
                 "integration_notes": "-"},
    "risks_and_alternatives": "None.",
    "status": "COMPLETE",
}  # fmt: skip
CLI = f"""#!/bin/sh
[ "$1" = --version ] && echo "heron 1.0" && exit
cat > "$TMPDIR/prompt"
mkdir "$HOME/.heron/busy" || exit 3
echo "flight f-$ORCHESTRATE_WORKER"
sleep 0.5
case "$*" in *HERON.md) echo "$1" > "src/$ORCHESTRATE_WORKER" ;; esac
rmdir "$HOME/.heron/busy"
echo 'say {json.dumps(REPORT)}'
echo "done 100 20 0.25"
"""
"""Fails where it runs twice at the same time, and does nothing without its instructions."""

START = "import sys; sys.path.insert(0, {!r}); from orchestrator.cli.main import main; sys.exit(main())"
"""Starts the copy; by PYTHONPATH it would come after the installed one."""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Copy the three packages, and add the agent to the copy."""
    folder = tmp_path_factory.mktemp("source")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(__file__).with_name("heron.py"), folder / MODULE)
    table = (folder / TABLE).read_text()
    before = '    "command": PoolDefault('
    assert table.count(before) == 1
    (folder / TABLE).write_text(table.replace(before, LINE + before))
    return folder


@pytest.fixture
def flock(lab, source, tmp_path):
    """Return a repository with two tickets of the agent, and a function that calls the copy in it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "heron").write_text(CLI)
    (folder / "heron").chmod(0o755)
    (lab.home / ".heron").mkdir()
    rules, claude = (lab.root / "AGENTS.md").read_text(), "  - Claude: 5 workers\n"
    lab.commit({
        "AGENTS.md": rules.replace(claude, f"{claude}  - Heron: 1 workers\n"),
        "HERON.md": "Fish at dawn.\n",
        **{
            f"{TEMPLATES}/heron-{at}.md": template(
                None, agent="heron", mode="write", owns=[f"src/Heron-Worker-{at}"], retries=0
            )
            for at in (1, 2)
        },
    })  # fmt: skip

    def call(*arguments):
        path = f"{folder}:{os.environ['PATH']}"
        done = subprocess.run(
            [sys.executable, "-P", "-c", START.format(str(source)), *arguments],
            cwd=lab.root, env=lab.env(PATH=path, PYTHONDONTWRITEBYTECODE="1"),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return Called(done.returncode, done.stdout, done.stderr)

    return lab, call


def files_below(folder):
    found = (path for package in PACKAGES for path in (folder / package).rglob("*") if path.is_file())
    return {path.relative_to(folder) for path in found if "__pycache__" not in path.parts}


def test_a_phase_runs_with_a_fifth_agent_and_its_use_is_counted(flock):
    lab, call = flock
    ran = call("run", "phase-1", "--json")
    assert ran.code == 0, ran.out + ran.err
    assert [(one["worker"], one["agent"], one["verdict"]) for one in ran.document["workers"]] == [
        ("Heron-Worker-1", "heron", "accepted"),
        ("Heron-Worker-2", "heron", "accepted"),
    ]
    for at in (1, 2):
        assert lab.git("show", f"HEAD:src/Heron-Worker-{at}") == "work\n"
    assert not lab.git("status", "--porcelain")
    for one in ran.document["workers"]:
        usage = one["usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (100, 20)
        assert (usage["cost_usd"], usage["cost_by"]) == (0.25, "agent")
    budget = call("plan", "phase-1", "--json").document["budget"]
    assert (budget["today"]["usd"], budget["today"]["tokens"]) == (0.5, 240)


def test_its_slots_are_limited_by_the_rules_and_shown(flock):
    lab, call = flock
    assert call("plan", "phase-1", "--json").document["slots"]["heron"] == 1
    pool = call("resume", "--json").document["rules"]["pool"]
    assert (pool["heron"], pool["heron_enabled"]) == (1, True)
    lab.commit({"orchestrate.toml": "[agents.heron]\nenabled = false\n"})
    assert "heron off" in call("resume").out
    skipped = call("plan", "phase-1", "--json").document["tickets"][0]["skipped"]
    assert skipped.startswith("heron is disabled (by `[agents.heron] enabled`")


def test_doctor_shows_its_version_and_its_login(flock):
    _, call = flock
    (found,) = (one for one in call("doctor", "--json").document["agents"] if one["agent"] == "heron")
    assert (found["enabled"], found["usable"], found["version"]) == (True, True, "heron 1.0")
    assert "all workers use ~/.heron as it is" in found["config"]


def test_nothing_but_its_module_and_its_line_was_added(source):
    ours, theirs = files_below(ROOT), files_below(source)
    assert theirs - ours == {MODULE}
    assert ours <= theirs
    changed = {path for path in ours if not filecmp.cmp(ROOT / path, source / path, shallow=False)}
    assert changed == {TABLE}
    assert (source / TABLE).read_text().replace(LINE, "") == (ROOT / TABLE).read_text()


def test_no_other_module_names_an_agent():
    """What depends on which CLI it is stands in the CLI's module."""
    named = {"codex", "claude", "gemini"}
    own = {Path(f"workers/agents/{name}.py") for name in named}
    # Examples of what a template may say; the fakes that stand in for these CLIs.
    excused = {
        *own, TABLE, Path("tickets/templates/_keys.py"),
        Path("orchestrator/commands/fake_agent.py"),
        Path("workers/messages/hook_answer.py"),  # a program of its own, for each CLI's hooks
    }  # fmt: skip
    for path in sorted(files_below(ROOT) - excused):
        if path.suffix == ".py" and "rehearsal" not in path.parts:
            nodes = ast.walk(ast.parse((ROOT / path).read_text()))
            assert named.isdisjoint(node.value for node in nodes if isinstance(node, ast.Constant)), path
