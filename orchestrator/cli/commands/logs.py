"""`orchestrate logs RUN [WORKER]`: what a worker printed, as a person reads it. Imports little."""

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from orchestrator.cli.answer import Answer, envelope, problem_lines
from orchestrator.cli.calling import repository_of
from orchestrator.cli.commands._log_notes import earlier, notes_on
from orchestrator.cli.terminal.terminal import columns, say
from orchestrator.cli.terminal.width import cut
from orchestrator.commands._names import live_named, workers_named
from orchestrator.errors import Refusal
from orchestrator.runs.live import LiveRun, doing_of
from tickets.problems import Problem
from workers.agents.follow import Follower
from workers.agents.stream import Lines, plain
from workers.files.read import opened

LOOK = 0.1
"""Seconds between two looks at what a worker printed."""
LONGEST = 1 << 20
"""Bytes of one line that are shown; what is longer is cut, and says so."""
CHUNK = 1 << 16
SHOWN = 5
"""Workers of a fan-out that are named to whoever did not say which."""
MARKS = {"tool": "$ ", "error": "! ", "retry": "! ", "session": "session ", "end": "end "}

Piece = tuple[str, str]
"""Kind and text of one thing that a worker said."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `logs` takes."""
    parser.add_argument("run", metavar="RUN", help="a run's id, or `last`")
    parser.add_argument("worker", nargs="?", metavar="WORKER",
                        help="a worker, or its ticket (default: list them)")  # fmt: skip
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the worker has ended")
    parser.add_argument("--stderr", action="store_true", help="its standard error instead")
    parser.add_argument("--raw", action="store_true", help="the bytes as they are; beware on a terminal")
    parser.add_argument("--attempt", type=int, metavar="N", help="an earlier attempt (default: the last)")


def answer(arguments: argparse.Namespace) -> Answer:
    """Print it, as far as it goes or until it ends."""
    live = live_named(repository_of(arguments), arguments.run)
    if arguments.worker is None:
        return _listed(live)
    worker, *others = workers_named(live.state, [arguments.worker])
    if others:
        tickets = [live.state.workers[name].ticket for name in (worker, *others)][:SHOWN]
        do = f"name one of them: {', '.join(tickets)}{', ...' * (len(others) >= SHOWN)}"
        problem = Problem(arguments.worker, f"is a fan-out of {len(others) + 1} workers", do)
        raise Refusal(problem, next_action=f"orchestrate logs {arguments.run} {shlex.quote(tickets[0])}")
    number = _wait_started(live, worker, arguments)
    while True:
        read = _source(live, worker, number, arguments)
        while True:
            # Asked before it is read: what was printed in between is read all the same.
            over = not arguments.follow or _has_gone(live, worker, number)
            if not _printed(read(over), arguments):
                return Answer(1, {}, streamed=True)
            if over:
                break
            time.sleep(LOOK)
        _told(notes_on(live.state, worker, number, stderr=arguments.stderr), arguments)
        if not arguments.follow or arguments.attempt or not _goes_on(live, worker, number):
            if not arguments.attempt:
                _told(earlier(live.state, worker, number), arguments)
            return Answer(0, {}, streamed=True)
        number = live.state.workers[worker].attempts
        print(f"-- attempt {number}", file=sys.stderr)


def _listed(live: LiveRun) -> Answer:
    """Name the workers of a run to whoever does not know them."""
    state, lives = live.state, live.is_running
    shown = [
        {
            "worker": name,
            "ticket": worker.ticket,
            "title": state.titles[name],
            "state": doing_of(state, name, lives=lives),
            "outcome": worker.outcome,
            "verdict": worker.verdict,
            "attempts": worker.attempts,
            "reason": worker.reason,
        }
        for name, worker in state.workers.items()
    ]
    begun = [name for name, worker in state.workers.items() if worker.started]
    first = next(iter((*state.failed, *begun)), None)
    next_action = f"orchestrate logs {state.run.id} {first}" if first else "orchestrate ps"
    lines = []
    for one in shown:
        words = ", ".join(str(one[key]) for key in ("outcome", "verdict") if one[key]) or one["state"]
        lines.append(cut(f"{one['worker']:<18} {words:<20} {one['ticket']}: {one['title']}", columns()))
    document = envelope((), next_action, run=state.run.id, workers=shown)
    return Answer(0, document, (*lines, *problem_lines((), next_action)))


def _told(notes: Iterator[Piece], arguments: argparse.Namespace) -> None:
    """Say what the worker itself did not: beside its words for a person, among them for a program."""
    if arguments.json and not arguments.raw:
        _printed(notes, arguments)
        return
    for kind, text in notes:
        say(f"{'   ' if kind == 'check' else '--'} {text}".rstrip(), sys.stderr)


def _wait_started(live: LiveRun, worker: str, arguments: argparse.Namespace) -> int:
    """Give the attempt to show, once there is one. Raises Refusal where there is none."""
    known = live.state.workers[worker]
    while not known.started and not known.ended and arguments.follow and live.is_running:
        time.sleep(LOOK)
        live.look()
    number = int(arguments.attempt or known.attempts)
    if not known.started and known.ended:
        raise Refusal(Problem(worker, f"was never started: {known.reason}"), exit_code=1)
    if not known.started:
        do = "`orchestrate ps` says what it waits for"
        raise Refusal(Problem(worker, "has not started yet", do), exit_code=1)
    if not 1 <= number <= known.attempts:
        raise Refusal(Problem("--attempt", f"{worker} has made {known.attempts}", "name one of them"))
    return number


def _has_gone(live: LiveRun, worker: str, number: int) -> bool:
    """Tell whether an attempt prints nothing more."""
    live.look()
    known = live.state.workers[worker]
    if known.ended or known.attempts > number:
        return True
    return doing_of(live.state, worker, lives=live.is_running) not in ("running", "starting")


def _goes_on(live: LiveRun, worker: str, number: int) -> bool:
    """Wait for the attempt after one that has ended; false where none comes."""
    known = live.state.workers[worker]
    while live.is_running and not known.ended and known.attempts == number:
        time.sleep(LOOK)
        live.look()
    return known.attempts > number


def _source(
    live: LiveRun, worker: str, number: int, arguments: argparse.Namespace
) -> Callable[[bool], Iterator[Piece] | Iterator[bytes]]:
    """Give the function that reads what is new; it is told whether nothing more will come."""
    known, files = live.state.workers[worker], live.state.run.attempt(worker, number)
    path = files.stderr if arguments.stderr else files.stdout
    if arguments.raw:
        chunks = _Chunks(path)
        return lambda _: chunks.read()
    if arguments.stderr or known.agent == "command":
        return _Text(path).read
    with suppress(FileNotFoundError):
        os.close(
            opened(path)
        )  # a follower passes over what is no file, and nobody would know why it is quiet
    follower = Follower(known.agent, path)
    return lambda _: _progress(follower, whole=arguments.json)


def _progress(follower: Follower, *, whole: bool) -> Iterator[Piece]:
    """Give what an agent CLI said and did; a tool call's end says nothing that its beginning did not.

    Unless `whole`, an end that only repeats what was said last does without it.
    """
    before = -1
    while follower.offset != before:
        before = follower.offset
        for one in follower.read_more():
            if one.kind == "tool_end" or (not one.text and one.kind != "end"):
                continue
            is_echo = one.kind == "end" and not whole and follower.said.startswith(one.text)
            yield one.kind, "" if is_echo else one.text


class _Chunks:
    """Reads a file that grows, as bytes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> Iterator[bytes]:
        """Give what is new."""
        try:
            descriptor = opened(self._path)
        except FileNotFoundError:
            return
        try:
            while chunk := os.pread(descriptor, CHUNK, self._offset):
                self._offset += len(chunk)
                yield chunk
        finally:
            os.close(descriptor)


class _Text:
    """Reads a file that grows, line by line."""

    def __init__(self, path: Path) -> None:
        self._chunks = _Chunks(path)
        self._lines = Lines(LONGEST)

    def read(self, over: bool) -> Iterator[Piece]:  # noqa: FBT001 - it is called as the other sources are
        """Give the lines that are new; the last one too, without its end, where nothing more will come."""
        for chunk in self._chunks.read():
            for line in self._lines.add(chunk):
                yield "text", _shown(line)
        if over and (rest := self._lines.rest()):
            yield "text", _shown(rest)


def _shown(line: bytes) -> str:
    text = plain(line[:LONGEST].decode("utf-8", "replace"))
    return text + " [cut here]" if len(line) > LONGEST else text


def _printed(pieces: Iterator[Piece] | Iterator[bytes], arguments: argparse.Namespace) -> bool:
    """Print what was read; false once nobody listens any more."""
    for piece in pieces:
        if isinstance(piece, bytes):
            try:
                sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()
            except OSError:
                return say("", sys.stdout)
            continue
        kind, text = piece
        line = json.dumps({"kind": kind, "text": text}) if arguments.json else MARKS.get(kind, "") + text
        line = line.rstrip()
        if not say(line, sys.stdout):
            return False
    return True
