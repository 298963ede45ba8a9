"""`logs RUN [WORKER]`: a worker's output, and with it the cause of its failure, checks, earlier attempts.

Imports little: asked often.
"""

import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from orchestrator.commands._names import live_named, workers_named
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller, repository_of
from orchestrator.errors import Refusal
from orchestrator.redaction import redactor_of
from orchestrator.runs.check_output import named_outputs
from orchestrator.runs.live import LiveRun, doing_of
from orchestrator.runs.state import RunState
from orchestrator.runs.worker_state import WENT_WRONG
from tickets.problems import Problem
from tickets.redact.stream import Stream
from tickets.value import Value
from tickets.wording import some_of
from workers.agents.follow import Follower
from workers.agents.stream import Lines, plain
from workers.files.read import opened

LOOK = 0.1
"""Seconds between two polls of a worker's output."""
LONGEST = 1 << 20
"""Bytes of one line that are shown; a longer line is cut, and marked so."""
CHUNK = 1 << 16
SHOWN = 5
"""How many workers of a fan-out are named where the call does not choose one."""


class Arguments(Value):
    """The arguments of `logs`."""

    run: str
    worker: str | None = None
    """A worker, or its ticket; None: list them."""
    follow: bool = False
    """Continue until the worker has ended."""
    stderr: bool = False
    """Its standard error instead."""
    raw: bool = False
    """The bytes as they are."""
    attempt: int | None = None
    """None: the last."""


class Piece(Value):
    """One part of a worker's output; as `note`, `check` or `attempt`, a remark that is not its own."""

    kind: str
    text: str
    is_echo: bool = False
    """Whether it repeats the last piece."""


def call(caller: Caller, arguments: Arguments) -> Answer[None]:
    """List the workers of a run, or return the output of one, up to now or until it ends."""
    if arguments.worker is None:
        return _listed(live_named(repository_of(caller), arguments.run))
    said = [
        piece._asdict() for piece in pieces(caller, arguments._replace(raw=False)) if isinstance(piece, Piece)
    ]
    return answer((), "orchestrate status", run=arguments.run, worker=arguments.worker, said=said)


def pieces(caller: Caller, arguments: Arguments) -> Iterator[Piece | bytes]:
    """Yield a worker's output, up to now or until it ends, without secrets but for bytes. Raises Refusal."""
    live = live_named(repository_of(caller), arguments.run)
    shown = Stream(redactor_of(live.state.run.root, caller.environ))
    for piece in _exact_pieces(live, arguments):
        if isinstance(piece, bytes):
            yield piece
        elif (text := shown.line(piece.text)) is not None:
            yield piece._replace(text=text)


def _exact_pieces(live: LiveRun, arguments: Arguments) -> Iterator[Piece | bytes]:
    worker, *others = workers_named(live.state, [arguments.worker or ""])
    if others:
        tickets = [live.state.workers[name].ticket for name in (worker, *others)][:SHOWN]
        do = f"name one of them: {', '.join(tickets)}{', ...' * (len(others) >= SHOWN)}"
        problem = Problem(arguments.worker or "", f"is a fan-out of {len(others) + 1} workers", do)
        raise Refusal(problem, next_action=f"orchestrate logs {arguments.run} {shlex.quote(tickets[0])}")
    number = _wait_started(live, worker, arguments)
    while True:
        read = _source(live, worker, number, arguments)
        while True:
            # Asked before reading: output printed in between is still read.
            over = not arguments.follow or _has_gone(live, worker, number)
            yield from read(over)
            if over:
                break
            time.sleep(LOOK)
        yield from _notes_on(live.state, worker, number, stderr=arguments.stderr)
        if not arguments.follow or arguments.attempt or not _goes_on(live, worker, number):
            if not arguments.attempt:
                yield from _earlier(live.state, worker, number)
            return
        number = live.state.workers[worker].attempts
        yield Piece("attempt", f"attempt {number}")


def _listed(live: LiveRun) -> Answer[None]:
    """Answer with the workers of a run, for a call that names none."""
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
            "summary": worker.evidence.summary,
        }
        for name, worker in state.workers.items()
    ]
    return answer((), "orchestrate status", run=state.run.id, workers=shown)


def _wait_started(live: LiveRun, worker: str, arguments: Arguments) -> int:
    """Return the attempt to show, once it has started. Raises Refusal where there is none."""
    known = live.state.workers[worker]
    while not known.started and not known.ended and arguments.follow and live.is_running:
        time.sleep(LOOK)
        live.look()
    number = int(arguments.attempt or known.attempts)
    if not known.started and known.ended:
        raise Refusal(Problem(worker, f"was never started: {known.reason}"), exit_code=1)
    if not known.started:
        do = "`orchestrate ps` shows what it waits for"
        raise Refusal(Problem(worker, "has not started yet", do), exit_code=1)
    if not 1 <= number <= known.attempts:
        raise Refusal(Problem("--attempt", f"{worker} has made {known.attempts}", "name one of them"))
    return number


def _has_gone(live: LiveRun, worker: str, number: int) -> bool:
    """Return whether an attempt prints nothing more."""
    live.look()
    known = live.state.workers[worker]
    if known.ended or known.attempts > number:
        return True
    return doing_of(live.state, worker, lives=live.is_running) not in ("running", "starting")


def _goes_on(live: LiveRun, worker: str, number: int) -> bool:
    """Wait for the next attempt after one that has ended; return whether there is one."""
    known = live.state.workers[worker]
    while live.is_running and not known.ended and known.attempts == number:
        time.sleep(LOOK)
        live.look()
    return known.attempts > number


def _source(
    live: LiveRun, worker: str, number: int, arguments: Arguments
) -> Callable[[bool], Iterator[Piece] | Iterator[bytes]]:
    """Return the function that reads new output; its argument is whether nothing more will come."""
    known, files = live.state.workers[worker], live.state.run.attempt(worker, number)
    path = files.stderr if arguments.stderr else files.stdout
    if arguments.raw:
        chunks = _Chunks(path)
        return lambda _: chunks.read()
    if arguments.stderr or known.agent == "command":
        return _Text(path).read
    with suppress(FileNotFoundError):
        # A follower skips all but regular files, and its silence would be unexplained.
        os.close(opened(path))
    follower = Follower(known.agent, path)
    return lambda _: _progress(follower)


def _progress(follower: Follower) -> Iterator[Piece]:
    """Yield an agent CLI's messages and tool calls; the end of a tool call adds nothing."""
    before = -1
    while follower.offset != before:
        before = follower.offset
        for one in follower.read_more():
            if one.kind == "tool_end" or (not one.text and one.kind != "end"):
                continue
            yield Piece(one.kind, one.text, one.kind == "end" and follower.said.startswith(one.text))


class _Chunks:
    """Reads a growing file, as bytes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> Iterator[bytes]:
        """Yield new bytes."""
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
    """Reads a growing file, line by line."""

    def __init__(self, path: Path) -> None:
        self._chunks = _Chunks(path)
        self._lines = Lines(LONGEST)

    def read(self, over: bool) -> Iterator[Piece]:  # noqa: FBT001 - it is called as the other sources are
        """Yield new lines; the last one without its line end too, if nothing more will come."""
        for chunk in self._chunks.read():
            for line in self._lines.add(chunk):
                yield Piece("text", _shown(line))
        if over and (rest := self._lines.rest()):
            yield Piece("text", _shown(rest))


def _shown(line: bytes) -> str:
    text = plain(line[:LONGEST].decode("utf-8", "replace"))
    return text + " [cut here]" if len(line) > LONGEST else text


def _notes_on(state: RunState, worker: str, number: int, *, stderr: bool) -> Iterator[Piece]:
    """Yield remarks about an attempt that its output lacks; none for one that printed and ended well."""
    known, files = state.workers[worker], state.run.attempt(worker, number)
    size = {path: path.stat().st_size if path.exists() else 0 for path in (files.stdout, files.stderr)}
    if not any(size.values()):
        yield Piece("note", f"{worker} printed nothing")
    elif not stderr and not size[files.stdout]:
        yield Piece("note", f"{worker} printed nothing here; `--stderr` shows {size[files.stderr]:,} bytes")
    elif not stderr and size[files.stderr] and known.outcome in WENT_WRONG:
        yield Piece("note", f"`--stderr` shows {size[files.stderr]:,} bytes more")
    if number < known.attempts or not known.ended:
        return
    if left := known.evidence.left_out:
        yield Piece("note", f"left out of its work, since git ignores it: {some_of(left)}")
    if known.outcome in WENT_WRONG or known.verdict in ("rejected", "pending"):
        verdict = f", {known.verdict}" if known.verdict else ""
        why = f": {known.reason}" if known.reason else ""
        yield Piece("note", f"{worker} ended as {known.outcome}{verdict}{why}")
        for name, lines in named_outputs(state.run.root, known.reason):
            yield Piece("note", f"{name} ends with:")
            yield from (Piece("check", line) for line in lines)


def _earlier(state: RunState, worker: str, number: int) -> Iterator[Piece]:
    """Yield the remark that there were attempts before the shown one."""
    if number > 1:
        of = state.workers[worker].attempts
        yield Piece(
            "note", f"this is attempt {number} of {of}; `--attempt {number - 1}` shows the one before"
        )
