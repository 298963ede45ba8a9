"""The command line: arguments to calls, answers to text or JSON, and the exit codes of the contract."""

import atexit
import gc
import os
import sys
from io import TextIOWrapper

from orchestrator import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from orchestrator.cli.answer import Answer

_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"

# What is not imported up here is imported where it is needed: `--version` and `--help` have no time for it.


def main(argv: list[str] | None = None) -> int:
    """Run one command and give its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    # To look for garbage at the very end takes as long as to import half of what we do.
    atexit.register(gc.freeze)
    if arguments == ["--version"]:
        print(f"orchestrate {__version__}")
        return 0
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A name that the terminal's encoding cannot spell must not end a run.
            stream.reconfigure(errors="backslashreplace")
    as_json = "--json" in arguments
    try:
        return _main(arguments)
    except KeyboardInterrupt:
        return _interrupted(as_json=as_json)
    except Exception as error:  # noqa: BLE001 - the last line of defence: a bug becomes a file and a line
        return _bug(error, as_json=as_json)


def _main(arguments: list[str]) -> int:
    from orchestrator.cli.arguments import UsageError, parser_for  # noqa: PLC0415 - for start-up time
    from orchestrator.cli.registry import COMMANDS  # noqa: PLC0415 - for start-up time

    as_json = "--json" in arguments
    # For start-up time: an import leaves no garbage to look for, and no plugin of pydantic's is for us.
    gc.disable()
    has_word = _PLUGINS in os.environ
    os.environ.setdefault(_PLUGINS, "__all__")
    name = next((word for word in arguments if word in COMMANDS), "")
    place = f"orchestrate {name}".strip()
    try:
        parser = parser_for(arguments)
        found = parser.parse_args(arguments)
    except UsageError as error:
        # What no command takes, the parser of all of them finds: the command's own help says more.
        do = error.do.replace("`orchestrate --help`", f"`{place} --help`") if name else error.do
        return _refuse(place, error.what, do, as_json=as_json, name=name)
    finally:
        # What was imported stays: to go through it again and again finds nothing.
        gc.freeze()
        gc.enable()
        if not has_word:
            del os.environ[_PLUGINS]
    if found.command is None and not found.json:
        parser.print_help()
        return 2
    if found.command is None:
        return _refuse(place, "no command was given", "see `orchestrate --help`", as_json=True, name=name)
    name, command = found.command, COMMANDS[found.command]
    if command.module is None:
        what, do = "this command is not built yet", "`orchestrate --help` lists those that are"
        return _refuse(place, what, do, as_json=as_json, name=name)
    if command.of_lead and "ORCHESTRATE_WORKER" in os.environ:
        what, do = "this is a worker, and workers report to the lead", "end with your report"
        return _refuse(place, what, do, as_json=as_json, name=name)
    from importlib import import_module  # noqa: PLC0415 - for start-up time

    from orchestrator.cli.calling import call  # noqa: PLC0415 - for start-up time

    answer = call(command, import_module(f"orchestrator.cli.commands.{command.module}"), found)
    return _told(answer, as_json=found.json)


def _told(answer: "Answer", *, as_json: bool) -> int:
    """Print an answer; give its exit code, or 1 where all was well and nobody could be told."""
    from orchestrator.cli.terminal.terminal import say  # noqa: PLC0415 - for start-up time

    if answer.streamed:
        return answer.exit_code
    if as_json:
        import json  # noqa: PLC0415 - for start-up time

        heard = say(json.dumps(answer.document), sys.stdout)
    else:
        from orchestrator.cli.terminal.width import laid_out  # noqa: PLC0415 - for start-up time

        text = "\n".join(laid_out(answer.lines))
        heard = not text or say(text, sys.stderr if answer.refusal else sys.stdout)
    return answer.exit_code if heard else answer.exit_code or 1


def _refuse(place: str, what: str, do: str, *, as_json: bool, name: str) -> int:
    from orchestrator.cli.answer import refused  # noqa: PLC0415 - for start-up time
    from orchestrator.cli.registry import COMMANDS  # noqa: PLC0415 - for start-up time
    from tickets.problems import Problem  # noqa: PLC0415 - for start-up time

    of_run = name in COMMANDS and COMMANDS[name].of_run
    # A slip in an argument is mended by what the command takes: the parser has named whose help that is.
    see = do.removeprefix("see `").removesuffix("`") if do.startswith("see `") else "orchestrate --help"
    answer = refused([Problem(place, what, do)], see, 2, of_run=of_run)
    return _told(answer, as_json=as_json)


def _interrupted(*, as_json: bool) -> int:
    """Answer a Ctrl-C that came before a command listened for it, or that one does not listen for."""
    from orchestrator.cli.answer import Answer, envelope  # noqa: PLC0415 - only then
    from tickets.problems import Problem  # noqa: PLC0415 - only then

    problem = Problem("orchestrate", "interrupted", "`orchestrate status` shows where things stand")
    return _told(Answer(130, envelope([problem], "orchestrate status", ok=False)), as_json=as_json)


def _bug(error: Exception, *, as_json: bool) -> int:
    import tempfile  # noqa: PLC0415 - only for a bug
    import traceback  # noqa: PLC0415 - only for a bug

    with tempfile.NamedTemporaryFile("w", prefix="orchestrate-bug-", suffix=".txt", delete=False) as file:
        traceback.print_exception(error, file=file)
    from orchestrator.cli.answer import Answer, envelope  # noqa: PLC0415 - only for a bug
    from orchestrator.cli.terminal.terminal import say  # noqa: PLC0415 - only for a bug
    from tickets.problems import Problem  # noqa: PLC0415 - only for a bug

    kind = type(error).__name__
    say(f"orchestrate: a bug of ours ({kind}); the traceback is in {file.name}", sys.stderr)
    problem = Problem("orchestrate", f"a bug of ours: {kind}", f"see {file.name}")
    document = envelope([problem], "orchestrate doctor", ok=False)
    return _told(Answer(3, document), as_json=as_json)
