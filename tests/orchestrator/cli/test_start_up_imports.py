"""What is asked for often must start fast: held by what is imported, which no busy machine can blur."""

import json
import os
import subprocess
import sys

import pytest
from support.repository import shell, template

from orchestrator import __version__

PROBE = """
import sys, json
before = set(sys.modules)
from orchestrator.cli.main import main
try:
    code = main(sys.argv[1:])
except SystemExit as stop:
    code = stop.code or 0
rooms = {name for name, one in sys.modules.items() if hasattr(one, "__path__") and name.split(".")[0] in
         ("orchestrator", "workers", "tickets") and name not in ("tickets.markdown", "orchestrator.state")}
print(json.dumps([code, sorted(set(sys.modules) - before - rooms)]), file=sys.stderr)
"""
SLOW = {
    "pydantic", "pydantic_core", "anyio", "asyncio", "jinja2", "git", "structlog", "filelock", "yaml",
    "tempfile", "ssl", "logging", "concurrent", "multiprocessing", "hashlib", "inspect", "dataclasses",
    "tomllib", "difflib", "subprocess", "signal", "threading", "textwrap", "traceback", "ast", "uuid",
    "random", "email", "http", "socket",
}  # fmt: skip
OURS = {
    "--version": set(),
    "--help": {
        "orchestrator.commands.table",
        "orchestrator.cli.arguments",
        "orchestrator.cli.terminal.terminal",
        "tickets.value",
    },
}


def imported(lab, *arguments, **env):
    """Call the command line in a fresh interpreter; return its exit code and the modules it imported."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ORCHESTRATE_")}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        cwd=lab.root,
        env={**kept, **env},
        capture_output=True,
        text=True,
        check=True,
    )
    code, modules = json.loads(done.stderr.splitlines()[-1])
    return code, set(modules), done.stdout


@pytest.mark.parametrize("option", OURS)
def test_version_and_help_import_argparse_at_most(lab, option):
    code, modules, said = imported(lab, option)
    assert code == 0
    assert __version__ in said or "commands:" in said
    ours = {name for name in modules if name.startswith(("orchestrator", "workers", "tickets"))}
    assert ours == {"orchestrator.cli.main"} | OURS[option]
    # `shutil` brings three compressors, for the width of a terminal.
    slow = SLOW | {"pathlib", "json", "shutil", "subprocess"}
    slow = slow | {"argparse", "re"} if option == "--version" else slow - {"textwrap"}
    assert not {name.partition(".")[0] for name in modules} & slow


def test_status_imports_nothing_slow(lab):
    lab.templates(command_1=template())
    assert lab.call("run", "phase-1", "--json").code == 0
    code, modules, said = imported(lab, "status", "--json")
    assert code == 0
    assert json.loads(said)["runs"][0]["status"] == "integrated"
    assert not {name.partition(".")[0] for name in modules} & (SLOW | {"argparse", "gettext", "locale"})
    ours = {name for name in modules if name.startswith(("orchestrator", "workers", "tickets"))}
    assert ours == {
        "orchestrator.cli.main", "orchestrator.cli.status", "orchestrator.cli.step", "orchestrator.cli.text",
        "orchestrator.step",
        "orchestrator.redaction", "tickets.redact.known", "tickets.redact.redactor", "tickets.redact.shapes",
        "orchestrator.commands.answer", "orchestrator.commands.caller", "orchestrator.commands.invoke",
        "orchestrator.commands.status", "orchestrator.commands.table", "orchestrator.cli.terminal.terminal",
        "orchestrator.store.intent", "orchestrator.store.read",
        "orchestrator.runs.inbox", "orchestrator.runs.letters", "workers.messages.log_reader",
        "workers.messages.ids",
        "workers.messages.logs", "workers.messages.record", "workers.messages.standing",
        "orchestrator.runs.next_action", "orchestrator.runs._shapes", "orchestrator.runs.events",
        "orchestrator.runs.project_step",
        "orchestrator.runs.worker_state", "orchestrator.runs.continued", "orchestrator.runs.cut_off",
        "orchestrator.errors", "orchestrator.money", "orchestrator.runs.state",
        "orchestrator.report.situation", "orchestrator.budget.totals",
        "orchestrator.state", "orchestrator.state.canonical.decisions.read",
        "orchestrator.state.canonical.status.read",
        "orchestrator.state.facts",
        "orchestrator.state.document", "tickets.markdown",
        "tickets.markdown._damage",
        "tickets.markdown.document",
        "tickets.markdown._edits", "tickets.markdown._front_matter",
        "tickets.markdown._entries", "tickets.markdown._replacing",
        "tickets.markdown._text", "tickets.markdown._lines", "tickets.markdown.sections",
        "tickets.markdown._tables", "tickets.problems", "tickets.types", "tickets.wording",
        "tickets.value", "workers.git.run", "workers.files.journal",
        "workers.files.run_dir",
        "workers.files.locks", "workers.files.read",
        "orchestrator.report.phase_list",
        "orchestrator.settings.recording", "orchestrator.settings.toml_text",
    }  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [
        ("ps", "--json"), ("wait", "last", "--json"), ("logs", "last", "command-1", "--json"),
        ("cancel", "last", "--json"), ("watch", "--json"),
    ],
)  # fmt: skip
def test_what_looks_at_a_run_imports_nothing_slow(lab, arguments):
    lab.templates(command_1=shell("echo done"))
    assert lab.call("run", "phase-1", "--json").code == 0
    code, modules, _ = imported(lab, *arguments)
    assert code == 0
    slow = SLOW | {"shutil", "platform"}
    assert not {name.partition(".")[0] for name in modules} & slow


@pytest.mark.parametrize(
    ("arguments", "may_import"),
    [
        (("resume",), set()), (("report",), set()), (("handoff", "--check"), set()),
        (("doctor",), {"hashlib", "random", "tempfile"}), (("validate",), {"hashlib", "yaml"}),
    ],
)  # fmt: skip
def test_what_a_new_lead_asks_imports_nothing_slow_but_for_its_work(lab, arguments, may_import):
    lab.templates(command_1='---\nphase: phase-1\ntitle: First\ncommand: ["true"]\n---\nNo marks.\n')
    assert lab.call("run", "phase-1", "--json").code == 0
    code, modules, said = imported(lab, *arguments, "--json")
    assert (code, json.loads(said)["ok"]) == (0, True)
    # They ask git, and nobody waits for anything but its answer.
    slow = (SLOW | {"argparse", "gettext"}) - {"subprocess", "signal", "threading"} - may_import
    assert not {name.partition(".")[0] for name in modules} & slow
    assert not {name for name in modules if name.startswith(("orchestrator.execute", "workers.engine"))}


def test_options_may_stand_before_the_command(lab):
    for arguments in (("--json", "status"), ("--project", ".", "status", "--json"), ("status", "--json")):
        called = lab.call(*arguments)
        assert (called.code, called.document["ok"]) == (0, True)


def test_an_option_is_never_abbreviated(lab):
    called = lab.call("status", "--js")
    assert called.code == 2
    assert "unrecognized arguments: --js" in called.err


def test_a_slip_in_a_command_is_answered_with_the_nearest_one(lab):
    called = lab.call("stauts", "--json")
    assert called.says() == ["orchestrate: there is no command `stauts`; did you mean `orchestrate status`?"]


def test_help_names_every_command_within_eighty_columns(lab):
    called = lab.call("--help", env={"COLUMNS": "80"})
    assert called.code == 0
    assert max(map(len, called.out.splitlines())) <= 80
    for name in ("plan", "integrate", "doctor", "handoff"):
        assert name in called.out


def test_no_command_at_all_is_help_for_a_person_and_a_refusal_for_a_program(lab):
    assert (lab.call().code, lab.call("--json").code) == (2, 2)
    assert "commands:" in lab.call().out
    assert lab.call("--json").document["ok"] is False


COUNT = """
import sys
started = []
sys.addaudithook(lambda name, given: started.append(given) if name == "subprocess.Popen" else None)
from orchestrator.cli.main import main
code = main(sys.argv[1:])
print(code, len(started), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        (("todo", "add", "Look"), 4),
        (("deliverable", "add", "Parser"), 4),
        # One more, which compares the log with the last commit.
        (("decide", "Use X", "--context", "c", "--decision", "d"), 5),
    ],
)
def test_one_state_change_starts_few_git_processes(lab, arguments, most):
    done = subprocess.run(
        [sys.executable, "-c", COUNT, *arguments],
        cwd=lab.root, env=lab.env(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    code, started = map(int, done.stderr.split()[-2:])
    assert code == 0
    assert 1 <= started <= most
    assert lab.git("log", "--format=%s", "-1").strip() != "files"  # it was committed
