"""The command line: arguments to calls, answers to text or JSON, and the exit codes of the contract."""

import argparse
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, NoReturn

from orchestrator import __version__


class Command(NamedTuple):
    """Where a command lives, and what it is for; one without a module is not built yet."""

    module: str | None
    help: str
    of_run: bool = False
    """It answers with the document of a run."""
    of_lead: bool = True
    """A worker must not call it."""


COMMANDS = {
    "init": Command("init", "write state files, settings, templates; changes nothing that is there"),
    "plan": Command("plan", "show what would run: tickets, order, scopes, overlaps", of_lead=False),
    "run": Command("run", "deploy a phase, wait, integrate", of_run=True),
    "deploy": Command(None, "render, prove and start a phase, without integrating it", of_run=True),
    "ps": Command(None, "what is running", of_lead=False),
    "watch": Command(None, "what is running, live", of_lead=False),
    "logs": Command(None, "what a worker printed", of_lead=False),
    "wait": Command(None, "wait until a run ends or something new happens", of_run=True),
    "cancel": Command(None, "stop a run, or some of its workers"),
    "integrate": Command("integrate", "judge, gate, land, record, commit", of_run=True),
    "resume": Command("resume", "after any stop: what is true and what is next; with RUN: go on with it"),
    "status": Command("status", "the state at a glance", of_lead=False),
    "report": Command(None, "the seven-section status report"),
    "todo": Command(None, "add, finish, move TODO items"),
    "decide": Command(None, "record a decision"),
    "deliverable": Command(None, "start, finish or block a deliverable"),
    "phase": Command(None, "start or complete a phase"),
    "approve": Command(None, "record the user's approval"),
    "handoff": Command(None, "write what a new lead needs"),
    "checkpoint": Command(None, "the last step of an agent on a feature"),
    "context": Command(None, "the active context"),
    "session": Command(None, "the history of sessions"),
    "msg": Command(None, "messages between participants"),
    "team": Command(None, "the team roster"),
    "alert": Command(None, "alerts"),
    "backup": Command(None, "back the state files up"),
    "validate": Command(None, "graded problems of the state files"),
    "repair": Command(None, "mend state files from backup, history or logs"),
    "archive": Command(None, "move what is old out of the way"),
    "doctor": Command("doctor", "agents, fence, git, locks, disk", of_lead=False),
    "mcp": Command(None, "the same calls as an MCP server"),
    "demo": Command("demo", "a sample project, one phase, no account needed", of_run=True),
}


class UsageError(Exception):
    """An argument that cannot be taken."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def main(argv: list[str] | None = None) -> int:
    """Run one command and give its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    as_json = "--json" in arguments
    name = next((word for word in arguments if not word.startswith("-")), "")
    try:
        return _main(arguments)
    except UsageError as error:
        return _refuse(f"orchestrate {name}".strip(), str(error), as_json=as_json, name=name)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read us has seen enough; flushing at exit would only complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001 - the last line of defence: a bug becomes a file and a line
        return _bug(error, as_json=as_json)


def _main(arguments: list[str]) -> int:
    parser = _parser(arguments)
    found = parser.parse_args(arguments)
    if found.command is None:
        parser.print_help()
        return 2
    command = COMMANDS[found.command]
    if command.module is None:
        what = f"`orchestrate {found.command}` is not built yet"
        return _refuse("orchestrate", f"{what}; see the table of commands in README.md",
                       as_json=found.json, name=found.command)  # fmt: skip
    if command.of_lead and "ORCHESTRATE_WORKER" in os.environ:
        return _refuse(f"orchestrate {found.command}",
                       "this is a worker, and workers report to the lead; end with your report",
                       as_json=found.json, name=found.command)  # fmt: skip
    from orchestrator.cli.calling import call  # noqa: PLC0415 - `--help` and `--version` need none of it

    answer = call(command, import_module(f"orchestrator.cli.{command.module}"), found)
    if found.json:
        print(json.dumps(answer.document))
    elif answer.lines:
        print("\n".join(answer.lines), file=sys.stderr if answer.refusal else sys.stdout)
    return answer.exit_code


def _parser(arguments: list[str]) -> _Parser:
    common = _Parser(add_help=False)
    common.add_argument("--project", type=Path, default=argparse.SUPPRESS, metavar="DIR",
                        help="the repository (default: the one around the current folder)")  # fmt: skip
    common.add_argument("--json", action="store_true", default=argparse.SUPPRESS,
                        help="answer with one JSON document")  # fmt: skip
    parser = _Parser(
        prog="orchestrate", parents=[common], description="Lead teams of coding agents from files."
    )
    parser.set_defaults(project=None, json=False)
    parser.add_argument("--version", action="version", version=f"orchestrate {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for name, command in COMMANDS.items():
        note = "" if command.module else " (not yet)"
        sub = commands.add_parser(name, parents=[common], help=command.help + note, description=command.help)
        # The others' arguments are not needed, and importing their modules would cost more than all the rest.
        if name in arguments and command.module:
            import_module(f"orchestrator.cli.{command.module}").add_arguments(sub)
        elif not command.module:
            sub.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _refuse(place: str, what: str, *, as_json: bool, name: str) -> int:
    from orchestrator.cli.answer import refused  # noqa: PLC0415 - for start-up time
    from tickets.problems import Problem  # noqa: PLC0415 - for start-up time

    what, _, do = what.partition("; ")
    of_run = name in COMMANDS and COMMANDS[name].of_run
    answer = refused([Problem(place, what, do or "see `orchestrate --help`")], "", 2, of_run=of_run)
    if as_json:
        print(json.dumps(answer.document))
    else:
        print("\n".join(answer.lines), file=sys.stderr)
    return 2


def _bug(error: Exception, *, as_json: bool) -> int:
    import tempfile  # noqa: PLC0415 - only for a bug
    import traceback  # noqa: PLC0415 - only for a bug

    with tempfile.NamedTemporaryFile("w", prefix="orchestrate-bug-", suffix=".txt", delete=False) as file:
        traceback.print_exception(error, file=file)
    line = f"orchestrate: a bug of ours ({type(error).__name__}); the traceback is in {file.name}"
    print(line, file=sys.stderr)
    if as_json:
        from orchestrator.cli.answer import envelope  # noqa: PLC0415 - only for a bug
        from tickets.problems import Problem  # noqa: PLC0415 - only for a bug

        problem = Problem("orchestrate", f"a bug of ours: {type(error).__name__}", f"see {file.name}")
        print(json.dumps(envelope([problem], ok=False)))
    return 3
