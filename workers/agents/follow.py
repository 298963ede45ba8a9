"""The output of a worker, read while it is written: by its runtime, and by commands that watch it."""

import contextlib
import os
import stat
from pathlib import Path

from tickets.types import AgentName
from workers.agents._failures import is_throttled, retry
from workers.agents.agent import Answer, Progress, agent_named
from workers.agents.stream import Lines, printable
from workers.files.read import NotRegularError, open_regular, opened

MOST = 1 << 20
"""Bytes of one read; larger steps are slower, and delay all other workers."""
_CHUNK = 1 << 16
GOES_ON = ("session", "text", "tool", "question")
"""Records that come after a closing record only where a further turn has begun."""
CHECKPOINT = "CHECKPOINT"
"""The beginning of a line in which an agent says how far it has come."""
_LONGEST_LINE = 4096
_TAIL = 1 << 16
"""Bytes of a program's output that are read where only its last lines matter."""


class Follower:
    """Follows the standard output of one attempt, in bounded memory.

    With `stderr`, also the repeated requests that some CLIs report there and nowhere else.
    """

    def __init__(self, agent: AgentName, stdout: Path, stderr: Path | None = None) -> None:
        cli = agent_named(agent)
        self._reader = cli.new_reader()
        self._retry_mark = cli.STDERR_RETRY
        self._stderr = stderr if self._retry_mark else None
        self._is_command = agent == "command"
        self._heard = 0
        self._lines = Lines()
        self._stdout = stdout
        self._offset: int | None = None if self._is_command else 0
        self.last = ""
        """Its last message or action, on one line."""
        self.said = ""
        """Its last message, on one line: no tool call, no end."""
        self.tools = 0
        """Tool calls that are open."""
        self.has_ended = False
        """Whether its terminal record has come."""
        self.checkpoint = ""
        """The newest line of its messages, of the last `read_more`, in which it says how far it has come."""
        self._open_line = ""
        self.throttled: float | None = None
        """Seconds that the newest failed request of the last `read_more` waits for its provider;
        0 where that is not said, None where the newest `read_more` came upon none."""

    @property
    def offset(self) -> int:
        """Return how much it has read, in bytes."""
        return self._offset or 0

    def read_more(self, most: int = MOST) -> list[Progress]:
        """Read new output, up to about `most` bytes."""
        found: list[Progress] = []
        self.throttled, self.checkpoint = None, ""
        self._listen(found)
        # One system call where nothing is new: it is polled ten times a second.
        descriptor = open_regular(self._stdout) if _size(self._stdout) > self.offset else None
        if descriptor is None:
            return found
        try:
            if self._offset is None:
                # Any program's output is judged by its last line; reading all of it would double the cost.
                self._offset = max(0, os.fstat(descriptor).st_size - _TAIL)
            while most > 0 and (chunk := os.pread(descriptor, _CHUNK, self._offset)):
                self._offset += len(chunk)
                most -= len(chunk)
                for line in self._lines.add(chunk):
                    self._take(line, found)
        finally:
            os.close(descriptor)
        return found

    def answer(self, *, exit_code: int | None, stderr: Path) -> Answer:
        """Read the rest and judge the whole, once the worker has exited."""
        before, told = -1, ""
        while before != (self._offset or 0):
            before = self._offset or 0
            self.read_more()
            told = self.checkpoint or told
        if rest := self._lines.rest():
            self._take(rest, [])
        self.checkpoint = self.checkpoint or told
        return self._reader.answer(
            exit_code=exit_code,
            stderr_tail=read_tail(stderr),
            # A command's output holds no message of a provider.
            now=None if self._is_command else _last_change(self._stdout, stderr),
        )

    def _listen(self, found: list[Progress]) -> None:
        """Read new lines of standard error, its last 64 KiB at most."""
        if self._stderr is None:
            return
        try:
            size = self._stderr.stat().st_size
            if size <= self._heard:
                return
            self._heard = max(self._heard, size - _TAIL)
            with os.fdopen(opened(self._stderr), "rb") as file:
                file.seek(self._heard)
                # A line without its end yet is read the next time.
                whole, end, _ = file.read(_TAIL).rpartition(b"\n")
        except (FileNotFoundError, NotRegularError):
            return
        self._heard += len(whole) + len(end)
        for line in whole.splitlines():
            if self._retry_mark in line:
                self._note(retry(line.decode("utf-8", "replace")), found)

    def _take(self, line: bytes, found: list[Progress]) -> None:
        progress = self._reader.feed(line)
        if progress is not None:
            self._note(progress, found)

    def _note(self, progress: Progress, found: list[Progress]) -> None:
        found.append(progress)
        if is_throttled(progress):
            self.throttled = progress.delay or 0.0
        self._look_for_checkpoint(progress)
        match progress.kind:
            case "text":
                self.said = printable(progress.text) or self.said
            case "tool":
                self.tools += 1
            case "tool_end":
                self.tools = max(0, self.tools - 1)
            case "end":
                self.has_ended = True
        if progress.kind in GOES_ON:
            self.has_ended = False
        if progress.text:
            self.last = printable(progress.text)

    def _look_for_checkpoint(self, progress: Progress) -> None:
        """Read the lines of its messages; one that comes in parts ends with what follows it."""
        is_text = progress.kind == "text"
        text = self._open_line + ((progress.part or f"{progress.text}\n") if is_text else "\n")
        *lines, rest = text.split("\n")
        self._open_line = rest[:_LONGEST_LINE]
        self.checkpoint = next(
            (one for one in reversed(lines) if one.startswith(CHECKPOINT)), self.checkpoint
        )


_NO_WORK = ("session", "end", "error", "retry")


def last_said(agent: AgentName, stdout: Path, *, is_work: bool = False) -> str:
    """Return the last message or action of a worker, on one line, from the last 64 KiB of its output.

    `is_work`: without what its CLI says of its end, or of its provider. Read from the end, since a caller
    that asks for fifteen workers cannot wait for all of it.
    """
    tail = _end_of(stdout, _TAIL)
    lines = tail.split(b"\n")
    if agent != "command":
        lines.pop()  # a record whose end has not come is none
    reader = agent_named(agent).new_reader()
    left_out = _NO_WORK if is_work else ("session",)
    for line in reversed(lines):
        if line and (progress := reader.feed(line)) and progress.text and progress.kind not in left_out:
            return printable(progress.text)
    return ""


def read_tail(path: Path, size: int = 4096) -> str:
    """Return the end of a text file, `""` where there is none."""
    return _end_of(path, size).decode("utf-8", "replace")


def _last_change(*paths: Path) -> float | None:
    """Return when a worker printed last: its provider's "in five minutes" counts from then."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            found.append(path.stat().st_mtime)
    return max(found, default=None)


def _size(path: Path) -> int:
    """Return the size of a regular file in bytes; 0 where there is none. Raises OSError."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _end_of(path: Path, size: int) -> bytes:
    descriptor = open_regular(path) if _size(path) else None
    if descriptor is None:
        return b""
    try:
        return os.pread(descriptor, size, max(0, os.fstat(descriptor).st_size - size))
    finally:
        os.close(descriptor)
