"""A call whose tests may outlast a tool call: made in the background, and the same call waits for it."""

import errno
import hashlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from orchestrator.commands.answer import Answer, answer
from workers.files.locks import is_locked, take_lock
from workers.files.read import read_whole
from workers.git.run import Repository

DETACH = "--detach"
_POLL = 0.05
_SHELL = ("sh", "-c", 'end=$1; shift; "$@"; echo $? > "$end.new" && mv "$end.new" "$end"', "sh")
"""Runs a command, and keeps its exit code in a file that is there as a whole or not at all."""
_OLD = 3600.0
"""Seconds after which an answer that nobody has asked for is about another state of the project."""


def relayed(repository: Repository, words: Sequence[str], limit: float) -> int | Answer[None]:
    """Make a call in the background, print what it printed, and return its exit code.

    Where it is not over after `limit` seconds, return an answer whose next step is the same call: that waits
    for the one which is on, and several that wait get one answer. A call that was killed is made anew by the
    next one. Raises OSError.
    """
    until = time.monotonic() + limit
    bare = [word for word in words if word != DETACH]
    key = hashlib.sha256("\0".join((str(repository.root), *bare)).encode("utf-8", "surrogateescape"))
    files = _Files(repository.own / "background", key.hexdigest()[:16])
    files.folder.mkdir(parents=True, exist_ok=True)
    files.drop_old()
    if not files.end.exists() and (lock := take_lock(files.lock)) is not None:
        _start(files, bare, lock)
    while is_locked(files.lock):
        if time.monotonic() > until:
            return _still_on(words)
        time.sleep(_POLL)
    return files.tell()


class _Files:
    """The files of one call that is made in the background."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder = folder
        self.lock, self.end = folder / f"{key}.lock", folder / f"{key}.end"
        self.out, self.err = folder / f"{key}.out", folder / f"{key}.err"
        self.told = folder / f"{key}.told"
        """What `end` becomes with the first caller who is told: for those who wait with it."""

    def tell(self) -> int:
        """Print what the call printed, and return its exit code. Raises OSError."""
        with suppress(FileNotFoundError):
            self.end.rename(self.told)
        if not self.told.exists():
            raise OSError(errno.EIO, "the call was killed, or the disk is full", str(self.out))
        for path, stream in ((self.out, sys.stdout), (self.err, sys.stderr)):
            stream.write(read_whole(path).decode("utf-8", "replace"))
            stream.flush()
        return int(read_whole(self.told))

    def drop_old(self) -> None:
        """Remove an answer that is too old to be told."""
        with suppress(FileNotFoundError):
            if time.time() - self.end.stat().st_mtime > _OLD:
                self.end.unlink()


def _start(files: _Files, words: Sequence[str], lock: int) -> None:
    """Start a call that holds the lock until it ends, unless another has just done so."""
    try:
        if not files.end.exists():
            files.told.unlink(missing_ok=True)
            with files.out.open("wb") as out, files.err.open("wb") as err:
                subprocess.Popen(
                    [*_SHELL, str(files.end), sys.executable, "-P", "-m", "_orchestrate", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                    pass_fds=(lock,),
                )
    finally:
        os.close(lock)


def _still_on(words: Sequence[str]) -> Answer[None]:
    """Answer about a call that is not over."""
    again = f"orchestrate {shlex.join(word for word in words if word != '--json')}"
    return answer((), again, running=True)


def lines_of(said: Answer[None]) -> list[str]:
    """Return the answer as text."""
    return ["its tests are still running; the same call waits for them", f"next: {said.step}"]
