"""Work in a child process of the test in which one operation on files, or one call of git, fails."""

import builtins
import contextlib
import errno
import importlib
import io
import os
import pkgutil
import re
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import NamedTuple

import git

import orchestrator
from orchestrator.store import _placing, _replace

KILLED = 9
"""The exit code of a child that ended without output."""
DEADLY = ("killed before", "killed after", "torn")
"""The faults that end the process in the middle; with the others it lives, and reports."""
STORES = frozenset(("open", "write", "fsync", "mkdir", "rename", "replace", "link", "git"))
"""The operations that need space on the disk."""

_write, _exit, _popen = os.write, os._exit, subprocess.Popen

# Children import nothing: that takes longer than what they are made for.
for module in pkgutil.walk_packages(orchestrator.__path__, "orchestrator."):
    if "__main__" not in module.name:
        importlib.import_module(module.name)


PLAN = """\
### Phase 2: Core

**Status:** NOT STARTED
**Milestone:** It works

**Deliverables:**
- [ ] Parser (PLANNED)

---

## Progress
"""
FILES = ("STATUS.md", "DECISIONS.md", "docs/backlog.md")
"""The changes at the end of a phase."""


def on_the_eve(lab):
    """Bring a project to where `phase complete phase-1` changes three files: a TODO item is removed."""
    text = (lab.root / "STATUS.md").read_text()
    plan, rest = text.split("---\n\n## Progress\n", 1)
    plan = re.sub(r"- \[ \] (.*) \(\w+\)", r"- [x] \1 (COMPLETE)", plan).replace("- [ ]", "- [x]")
    rest = rest.replace("### P0 (Critical)\n", "### P0 (Critical)\n- [x] Done with\n")
    lab.commit({"STATUS.md": plan + PLAN + rest})
    assert lab.call("approve", "phase-2", "--by", "Ada").code == 0


class Fault(NamedTuple):
    """A fault, and the number (from 1) of the operation that it hits."""

    mode: str
    at: int


class Outcome(NamedTuple):
    """The result of the work: an exit code, its output, and the operations that it reached."""

    code: int
    out: str
    err: str
    steps: tuple[str, ...]

    @property
    def killed(self):
        return self.code == KILLED


def faults_of(step, at):
    """Yield all faults of an operation: `write …`, `git …`."""
    name = step.partition(" ")[0]
    yield Fault("killed before", at)
    yield Fault("killed after", at)
    if name in ("write", "git"):
        yield Fault("torn", at)
    if name in STORES:
        yield Fault("no space", at)
    yield Fault("refused", at)


def done_in_child(work, fault=None, *, env=None, cwd=None, meddle=None):
    """Run the work in a child, with one fault or none; return the result.

    `meddle` is called before each operation with its number and name: a hand that is in between.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as log:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
                sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), write_through=True)
                if env is not None:
                    os.environ.clear()
                    os.environ.update(env)
                if cwd is not None:
                    os.chdir(cwd)
                _Operations(fault, log.fileno(), meddle).watch()
                code = work() or 0
            except BaseException:  # noqa: BLE001 - a child must not come back into the test
                with contextlib.suppress(BaseException):
                    traceback.print_exc()
            finally:
                _exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = []
        for file in (out, err, log):
            file.seek(0)
            texts.append(file.read().decode(errors="surrogateescape"))
        return Outcome(code, texts[0], texts[1], tuple(texts[2].splitlines()))


class _Operations:
    """Counts operations that change something on the disk, and makes one of them fail."""

    def __init__(self, fault, log, meddle):
        self.fault, self.log, self.meddle, self.count = fault, log, meddle, 0

    def watch(self):
        """Wrap the calls of the operating system; they stay wrapped until the process ends."""
        for name in ("mkdir", "rmdir", "unlink", "remove", "replace", "rename", "link", "fsync"):
            setattr(os, name, self._plain(name, getattr(os, name)))
        # It moves a file over another one, too.
        _replace.exchange = _placing.exchange = self._plain("replace", _replace.exchange)
        os.open = self._opening(os.open, lambda flags: flags & (os.O_WRONLY | os.O_RDWR))
        io.open = builtins.open = self._opening(open, lambda mode="r", *_: set(str(mode)) & set("wax+"))
        os.write = self._writing
        subprocess.Popen = git.cmd.safer_popen = self._starting

    def _step(self, name, on, plain, torn):
        self.count += 1
        if self.meddle is not None:
            meddle, self.meddle = self.meddle, None  # what it does is not an operation of ours
            fault, self.fault, count = self.fault, None, self.count
            meddle(count, f"{name} {on}")
            self.meddle, self.fault, self.count = meddle, fault, count
        _write(self.log, os.fsencode(f"{name} {on}".replace("\n", " ")) + b"\n")
        if self.fault is None or self.count != self.fault.at:
            return plain()
        if self.fault.mode == "killed before":
            _exit(KILLED)
        if self.fault.mode == "killed after":
            with contextlib.suppress(OSError):
                plain()
            _exit(KILLED)
        if self.fault.mode == "torn":
            torn()
            _exit(KILLED)
        code = errno.ENOSPC if self.fault.mode == "no space" else errno.EACCES
        raise OSError(code, os.strerror(code), str(on))

    def _plain(self, name, function):
        def step(*args, **kwargs):
            on = args[0] if isinstance(args[0], int) else Path(os.fsdecode(args[0])).name
            return self._step(name, on, lambda: function(*args, **kwargs), None)

        return step

    def _opening(self, function, writes):
        def step(path, *args, **kwargs):
            mode = kwargs.get("mode", args[0] if args else None)
            # A descriptor, an opener that is counted itself, and what is no file.
            is_file = not isinstance(path, int) and "opener" not in kwargs and path != os.devnull
            if not is_file or mode is None or not writes(mode):
                return function(path, *args, **kwargs)
            plain = lambda: function(path, *args, **kwargs)  # noqa: E731 - a call put off
            return self._step("open", Path(os.fsdecode(path)).name, plain, None)

        return step

    def _writing(self, descriptor, data):
        half = bytes(data)[: len(data) // 2]
        return self._step(
            "write", descriptor, lambda: _write(descriptor, data), lambda: _write(descriptor, half)
        )

    def _starting(self, command, *args, **kwargs):
        words = [os.fsdecode(word) for word in command]
        name = next((word for word in words[1:] if word.isalpha() or "-" in word[1:]), "")
        began = []

        def plain():
            began.append(_popen(command, *args, **kwargs))
            if self.fault and self.fault.at == self.count and self.fault.mode == "killed after":
                began[0].wait()
            return began[0]

        if self.fault and self.fault.at == self.count + 1:
            if self.fault.mode == "killed after" and kwargs.get("stdin") == subprocess.PIPE:
                # It ends when it has been fed, and that is done by whoever asked for it.
                fault, self.fault = self.fault, None
                process = self._step("git", name, plain, None)
                self.fault, process.communicate = fault, _then_killed(process.communicate)
                return process
            if self.fault.mode == "torn":
                # Git itself is gone, and we live on.
                command = ["sh", "-c", f"kill -{signal.SIGKILL} $$"]
                plain_fault, self.fault = self.fault, None
                found = self._step("git", name, plain, None)
                self.fault = plain_fault
                return found
            if self.fault.mode == "no space":
                said = f"fatal: unable to write: {os.strerror(errno.ENOSPC)}"
                command, self.fault = ["sh", "-c", f"echo '{said}' >&2; exit 128"], None
        return self._step("git", name, plain, None)


def _then_killed(function):
    def last(*args, **kwargs):
        function(*args, **kwargs)
        _exit(KILLED)

    return last
