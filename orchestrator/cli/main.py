"""The command line: parsed arguments to calls, answers to text or JSON, and exit codes."""

import atexit
import gc
import os
import sys
from contextlib import suppress
from io import TextIOWrapper

from orchestrator import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from datetime import datetime
    from pathlib import Path
    from types import SimpleNamespace
    from typing import Any, TypeVar

    from orchestrator.commands.answer import Answer
    from orchestrator.commands.caller import Caller
    from tickets.redact import Redactor
    from workers.git.run import Repository

    Arguments = TypeVar("Arguments")

_NO_MEMORY = ("can't start new thread", "failed to map segment", "Cannot allocate memory")
"""What errors of other kinds say where the system gives no more memory."""
_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"

LEAST_ROOM = 128_000_000
"""Bytes of address space, twice as many as a run of a full pool takes where it spares them."""
LEAST_FILES = 128
"""Open files of one process: a runtime with a full pool was seen to have 89."""
_BUG = 3
_STACK = 1 << 20
_ONE_HEAP = -8, 1
"""M_ARENA_MAX of glibc's malloc.h, and its value."""
_NO_ROOM_LEFT = "the system gives no more memory", "raise the limit (`ulimit -v`), or end other programs"
_LAST_WORDS = "error: orchestrate: {}; {}\nnext: orchestrate resume\n".format(*_NO_ROOM_LEFT).encode()
_LAST_JSON = (
    (
        '{{"schema": 1, "ok": false, "problems": [{{"place": "orchestrate", "what": "{}", "do": "{}", '
        '"severity": "error"}}], "next_action": "orchestrate resume"}}\n'
    )
    .format(*_NO_ROOM_LEFT)
    .encode()
)
"""What is said where there is no memory to put an answer together."""

# Other imports are inside functions: they would slow down `--version` and `--help`.


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    _begin_clean()
    # Imports leave no garbage, and a quick command ends before a collection would pay.
    gc.disable()
    # A garbage collection at exit takes as long as importing half of our modules.
    atexit.register(gc.freeze)
    if arguments == ["--version"]:
        print(f"orchestrate {__version__}")
        return 0
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A name that the terminal's encoding cannot spell must not end a run.
            stream.reconfigure(encoding=_encoding_of_streams(), errors="backslashreplace")
    as_json = "--json" in arguments
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = lambda told: _unraisable(told, as_json=as_json)
    try:
        return _main(arguments)
    except KeyboardInterrupt:
        return _interrupted(as_json=as_json)
    except Exception as error:  # noqa: BLE001 - the last line of defence: a bug becomes a file and a line
        if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY):
            return _without_memory(as_json=as_json)
        return _bug(error, as_json=as_json)


def _begin_clean() -> None:
    """Undo what a parent process may have left us: closed standard streams, blocked or ignored signals."""
    # The built-in module: the one around it takes longer to import than all else here.
    import _signal  # type: ignore[import-not-found]  # noqa: PLC0415 - as said

    # A worker's end would never be heard of, nor a request to stop.
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The lowest free number is that of the stream; no file of ours may get it.
            stream = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(stream, "w" if number else "r", closefd=False))


def _encoding_of_streams() -> str | None:
    """Return the terminal's encoding where it is not that of paths (see `_orchestrate`); None: as it is."""
    found = sys._xoptions.get("orchestrate_streams")  # noqa: SLF001 - documented by that name
    return found if isinstance(found, str) else None


def _main(arguments: list[str]) -> int:
    from orchestrator.commands.table import COMMANDS  # noqa: PLC0415 - for start-up time

    # For start-up time: no plugin of pydantic's is for us.
    has_word = _PLUGINS in os.environ
    os.environ.setdefault(_PLUGINS, "__all__")
    name = next((word for word in arguments if word in COMMANDS), "")
    try:
        plain = _by_itself(arguments, name) or _without_parser(arguments, name)
        found = plain or _by_parser(arguments, name)
    finally:
        if not has_word:
            del os.environ[_PLUGINS]
    return found if isinstance(found, int) else _run(found, arguments)


def _by_itself(arguments: list[str], name: str) -> "SimpleNamespace | None":
    """Return what a call says to a command that reads it by itself; None where argparse has to explain it."""
    from orchestrator.commands.table import COMMANDS  # noqa: PLC0415 - for start-up time

    if not name or not COMMANDS[name].is_quick:
        return None
    from importlib import import_module  # noqa: PLC0415 - for start-up time

    found: SimpleNamespace | None = import_module(f"orchestrator.cli.{COMMANDS[name].module}").read_words(
        arguments
    )
    return found


def _without_parser(arguments: list[str], name: str) -> "SimpleNamespace | None":
    """Return what a call says that has no values, as most have; None for another: argparse is slow."""
    from orchestrator.commands.table import COMMANDS  # noqa: PLC0415 - for start-up time

    given = [word for word in arguments if word != name]
    known = COMMANDS[name].switches if name else None
    if known is None or len(given) != len(arguments) - 1:
        return None
    # Only what every command has may be before its name.
    if not set(given) <= {"--json", *(known if arguments[0] == name else ())}:
        return None
    from types import SimpleNamespace  # noqa: PLC0415 - for start-up time

    said = {word[2:].replace("-", "_"): True for word in given}
    return SimpleNamespace(**{"command": name, "json": False, "project": None, **said})


def _by_parser(arguments: list[str], name: str) -> "argparse.Namespace | int":
    """Return parsed arguments; an exit code where that is all there is to do."""
    from orchestrator.cli.arguments import UsageError, parser_for  # noqa: PLC0415 - for start-up time

    place = f"orchestrate {name}".strip()
    try:
        parser = parser_for(arguments)
        found = parser.parse_args(arguments)
    except UsageError as error:
        # The parser of all commands finds unknown arguments: the command's own help is more useful.
        do = error.do.replace("`orchestrate --help`", f"`{place} --help`") if name else error.do
        return _refuse(place, error.what, do, as_json="--json" in arguments, name=name)
    if found.command is None and not found.json:
        parser.print_help()
        return 2
    if found.command is None:
        return _refuse(place, "no command was given", "see `orchestrate --help`", as_json=True, name=name)
    return found


def _run(found: "argparse.Namespace | SimpleNamespace", words: list[str]) -> int:
    from orchestrator.commands.table import COMMANDS  # noqa: PLC0415 - for start-up time

    name, command = found.command, COMMANDS[found.command]
    as_json, place = found.json, f"orchestrate {name}"
    if command.module is None:
        what, do = "this command is not built yet", "`orchestrate --help` lists those that are"
        return _refuse(place, what, do, as_json=as_json, name=name)
    if command.of_lead and "ORCHESTRATE_WORKER" in os.environ:
        what, do = "this is a worker, and workers report to the lead", "end with your report"
        return _refuse(place, what, do, as_json=as_json, name=name)
    if _is_nowhere(found):
        what, do = "the current folder is no more", "change to another, or give `--project DIR`"
        return _refuse(place, what, do, as_json=as_json, name=name)
    if command.of_run and command.lasts and (files := _open_files()) < LEAST_FILES:
        what = f"allows {files} open files, and a run needs {LEAST_FILES}"
        return _refuse("ulimit -n", what, "raise it, as by `ulimit -n 1024`", as_json=as_json, name=name)
    if command.lasts and (limit := _room()):
        if command.of_run and limit < LEAST_ROOM:
            what = f"limits memory to {limit // 10**6} MB, and a run needs {LEAST_ROOM // 10**6} MB"
            do = "raise it, as by `ulimit -v unlimited`"
            return _refuse("ulimit -v", what, do, as_json=as_json, name=name)
        _spare_room()
    from functools import partial  # noqa: PLC0415 - for start-up time
    from importlib import import_module  # noqa: PLC0415 - for start-up time

    from orchestrator.commands.invoke import Invocation, invoke  # noqa: PLC0415 - for start-up time

    twin = import_module(f"orchestrator.cli.{command.module}")
    module = import_module(f"orchestrator.commands.{command.module}")
    asked = typed(module.Arguments, found)
    caller = _caller(found)
    _redact_output(caller)
    if getattr(found, "background", False) and (repository := _repository_of(caller.folder)) is not None:
        from orchestrator.cli.background import lines_of, relayed  # noqa: PLC0415 - for start-up time
        from orchestrator.cli.step import LIMIT  # noqa: PLC0415 - for start-up time
        from orchestrator.commands.answer import refused  # noqa: PLC0415 - for start-up time
        from orchestrator.commands.invoke import problem_of_machine, waits_by  # noqa: PLC0415 - for start-up time

        try:
            said = relayed(repository, words, LIMIT)
        except OSError as error:
            if (problem := problem_of_machine(error, place)) is None:
                raise
            said = refused([problem], waits_by([problem], "outside"), 1, of_run=False)
        return said if isinstance(said, int) else _print(said, lines_of(said), as_json=as_json)
    if hasattr(twin, "call"):
        function = partial(twin.call, caller, asked, as_json=found.json)
    else:
        function = partial(module.call, caller, asked)
    if command.lasts:
        gc.freeze()  # what was imported stays: to go through it again and again finds nothing
        gc.enable()
    answer = invoke(Invocation(name, command, asked), function)
    if not command.is_quick:
        from orchestrator.cli.step import called, with_callable_step  # noqa: PLC0415 - for start-up time

        answer = with_callable_step(answer, called(words, vars(found)))
    return _print(answer, [] if answer.refusal else twin.lines(answer, asked), as_json=found.json)


def _is_nowhere(found: "argparse.Namespace | SimpleNamespace") -> bool:
    """Return whether the current folder is gone and no other is named; a named one is where we are then."""
    try:
        os.getcwd()  # noqa: PTH109 - pathlib is not imported yet
    except FileNotFoundError:
        if found.project is None or not found.project.is_absolute():
            return True
        with suppress(OSError):  # such a project is refused by its command
            os.chdir(found.project)
    return False


def _room() -> int:
    """Return the limit of the address space in bytes; 0 where there is none."""
    from resource import RLIMIT_AS, getrlimit  # noqa: PLC0415 - for start-up time

    return max(0, getrlimit(RLIMIT_AS)[0])


def _open_files() -> int:
    """Return how many files a process may have open."""
    from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit  # noqa: PLC0415 - for start-up time

    limit = getrlimit(RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == RLIM_INFINITY else limit


def _spare_room() -> None:
    """Reserve less address space for threads: a stack is 8 MB, and a thread's own heap 64 MB.

    Where a thread gets no memory, Python itself hangs or is killed.
    """
    import threading  # noqa: PLC0415 - for start-up time
    from ctypes import CDLL  # noqa: PLC0415 - for start-up time

    threading.stack_size(_STACK)
    with suppress(OSError, AttributeError):  # another C library has one heap anyway
        CDLL(None).mallopt(*_ONE_HEAP)


def typed(kind: "type[Arguments]", found: "argparse.Namespace | SimpleNamespace") -> "Arguments":
    """Return a command's typed arguments from parsed ones, field by field; words make one text."""
    values: dict[str, Any] = {}
    for name, declared in kind.__annotations__.items():
        value = getattr(found, name, None)
        if isinstance(value, list):
            value = " ".join(value) if declared is str else tuple(value)
        if value is not None:
            values[name] = value
    return kind(**values)


def _caller(found: "argparse.Namespace | SimpleNamespace") -> "Caller":
    from pathlib import Path  # noqa: PLC0415 - for start-up time

    from orchestrator.commands.caller import Caller  # noqa: PLC0415 - for start-up time

    folder = (found.project or Path.cwd()).absolute()
    return Caller(folder, _now, os.environ, getattr(found, "lead", None), say=_say)


def _redact_output(caller: "Caller") -> None:
    """Print no secret of the caller's environment or project from here on."""
    from orchestrator.redaction import redact_output, redactor_of  # noqa: PLC0415 - for start-up time

    def redactor() -> "Redactor":
        found = _repository_of(caller.folder)
        return redactor_of(found.root if found else None, caller.environ)

    redact_output(redactor)


def _repository_of(folder: "Path") -> "Repository | None":
    from workers.git.run import find_repository  # noqa: PLC0415 - for start-up time

    try:
        return find_repository(folder)
    except (OSError, ValueError):
        return None


def _say(line: str) -> None:
    from orchestrator.cli.terminal.terminal import say  # noqa: PLC0415 - for start-up time

    say(line, sys.stderr)


def _now() -> "datetime":
    from datetime import UTC, datetime  # noqa: PLC0415 - for start-up time

    return datetime.now(UTC)


def _print(answer: "Answer[Any]", lines: "list[str]", *, as_json: bool) -> int:
    """Print an answer; return its exit code, or 1 where it is 0 and printing failed."""
    from orchestrator.cli.terminal.terminal import say  # noqa: PLC0415 - for start-up time
    from orchestrator.redaction import output_redactor, printable  # noqa: PLC0415 - for start-up time

    if as_json and answer.document:
        import json  # noqa: PLC0415 - for start-up time

        heard = say(json.dumps(output_redactor().value(answer.document)[0]), sys.stdout)
    elif as_json:
        heard = True  # all of it was printed on the way
    else:
        from orchestrator.cli.terminal.width import laid_out  # noqa: PLC0415 - for start-up time
        from orchestrator.cli.text import problem_lines  # noqa: PLC0415 - for start-up time

        said = problem_lines(answer.problems, answer.step) if answer.refusal else lines
        # Before a line is wrapped, which would cut a secret in two.
        text = "\n".join(laid_out([printable(line) for line in said]))
        heard = not text or say(text, sys.stderr if answer.refusal and answer.exit_code else sys.stdout)
    if heard and answer.then is not None:
        answer.then()
    return answer.exit_code if heard else answer.exit_code or 1


def _refuse(place: str, what: str, do: str, *, as_json: bool, name: str) -> int:
    from orchestrator.commands.answer import refused  # noqa: PLC0415 - for start-up time
    from orchestrator.commands.invoke import waits_by  # noqa: PLC0415 - for start-up time
    from orchestrator.commands.table import COMMANDS  # noqa: PLC0415 - for start-up time
    from tickets.problems import Problem  # noqa: PLC0415 - for start-up time

    of_run = name in COMMANDS and COMMANDS[name].of_run
    problem = Problem(place, what, do)
    answer = refused([problem], waits_by([problem], "lead"), 2, of_run=of_run)
    return _print(answer, [], as_json=as_json)


def _stop(what: str, do: str, next_action: str, exit_code: int, *, as_json: bool) -> int:
    """Answer an interruption from outside of a command: a signal, or a bug."""
    from orchestrator.commands.answer import answer  # noqa: PLC0415 - only then
    from tickets.problems import Problem  # noqa: PLC0415 - only then

    stopped = answer([Problem("orchestrate", what, do)], next_action)
    # Where a bug is told, the file with its traceback was named already.
    return _print(stopped._replace(exit_code=exit_code, refusal=exit_code != _BUG), [], as_json=as_json)


def _interrupted(*, as_json: bool) -> int:
    """Answer a Ctrl-C that came before a command handled it, or that it does not handle."""
    do = "`orchestrate status` shows the state of the project"
    return _stop("interrupted", do, "orchestrate status", 130, as_json=as_json)


def _without_memory(*, as_json: bool) -> int:
    """Answer the end of the memory that the system gives us, if need be without any."""
    try:
        return _stop(*_NO_ROOM_LEFT, "orchestrate resume", 1, as_json=as_json)
    except Exception:  # noqa: BLE001 - whatever fails for want of memory
        os.write(1 if as_json else 2, _LAST_JSON if as_json else _LAST_WORDS)
        return 1


def _unraisable(told: "sys.UnraisableHookArgs", *, as_json: bool) -> None:
    """End where a thread had no memory to begin with: whoever started it would wait for it without end."""
    if told.exc_type is not MemoryError or "thread" not in (told.err_msg or ""):
        sys.__unraisablehook__(told)
        return
    try:
        _without_memory(as_json=as_json)
        sys.stdout.flush()
    finally:
        os._exit(1)


def _bug(error: Exception, *, as_json: bool) -> int:
    """Write the traceback of a bug into a file, and name the file."""
    import tempfile  # noqa: PLC0415 - only for a bug
    import traceback  # noqa: PLC0415 - only for a bug

    from orchestrator.cli.terminal.terminal import say  # noqa: PLC0415 - only for a bug
    from orchestrator.redaction import printable  # noqa: PLC0415 - only for a bug

    with tempfile.NamedTemporaryFile("w", prefix="orchestrate-bug-", suffix=".txt", delete=False) as file:
        file.write(printable("".join(traceback.format_exception(error))))
    kind = type(error).__name__
    say(f"orchestrate: a bug in orchestrate ({kind}); the traceback is in {file.name}", sys.stderr)
    return _stop(
        f"a bug in orchestrate: {kind}", f"see {file.name}", "orchestrate doctor", _BUG, as_json=as_json
    )
