"""`orchestrate logs` on the command line: prints pieces as they come."""

import argparse
import json
import sys

from orchestrator.cli.terminal.terminal import columns, say
from orchestrator.cli.terminal.width import cut
from orchestrator.cli.text import with_ending
from orchestrator.commands import logs
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.commands.logs import Arguments, Piece

MARKS = {"tool": "$ ", "error": "! ", "retry": "! ", "session": "session ", "end": "end "}
"""The prefix of a piece, by kind."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `logs`."""
    parser.add_argument("run", metavar="RUN", help="a run's id, or `last`")
    parser.add_argument("worker", nargs="?", metavar="WORKER",
                        help="a worker, or its ticket (default: list them)")  # fmt: skip
    parser.add_argument("-f", "--follow", action="store_true", help="follow until the worker has ended")
    parser.add_argument("--stderr", action="store_true", help="its standard error instead")
    parser.add_argument("--raw", action="store_true", help="the bytes as they are; beware on a terminal")
    parser.add_argument("--attempt", type=int, metavar="N", help="an earlier attempt (default: the last)")


def call(caller: Caller, arguments: Arguments, *, as_json: bool) -> Answer[None]:
    """Print a worker's output, until it ends or the reader has gone; or list the workers."""
    if arguments.worker is None:
        return logs.call(caller, arguments)
    for piece in logs.pieces(caller, arguments):
        if not _printed(piece, raw=arguments.raw, as_json=as_json):
            return Answer(1, {}, (), None)
    return Answer(0, {}, (), None)


def lines(answer: Answer[None], _: Arguments) -> list[str]:
    """Return the list of workers as text; a worker's output is printed already."""
    said = []
    for one in answer.document.get("workers", ()):
        words = ", ".join(one[key] for key in ("outcome", "verdict") if one[key]) or one["state"]
        result = f' "{one["summary"]}"' if one["summary"] else ""
        said.append(
            cut(f"{one['worker']:<18} {words:<20} {one['ticket']}: {one['title']}{result}", columns())
        )
    return with_ending(said, answer) if answer.document else []


def _printed(piece: Piece | bytes, *, raw: bool, as_json: bool) -> bool:
    """Print a piece; return whether it could be written."""
    if isinstance(piece, bytes):
        try:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        except OSError:
            return say("", sys.stdout)
        return True
    kind, text, is_echo = piece
    is_beside = kind == "attempt" or (kind in ("note", "check") and (raw or not as_json))
    if is_beside:
        # Apart from the worker's own output for a person, in line with it for a program.
        say(f"{'   ' if kind == 'check' else '--'} {text}".rstrip(), sys.stderr)
        return True
    if as_json:
        line = json.dumps({"kind": kind, "text": text})
    else:
        line = MARKS.get(kind, "") + ("" if is_echo else text)
    return say(line.rstrip(), sys.stdout)
