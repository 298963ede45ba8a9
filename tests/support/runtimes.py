"""Runtimes, shims and workers as processes that a test observes, kills, and waits for."""

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

from support.repository import SCRIPT

UNFENCED = 'fence = "off"\n'
"""Settings for workers that wait for a token of the test's, and leave traces outside of their trees."""
PATIENCE = 200.0
"""Seconds; a busy machine must not fail a test."""


def wait_until(condition, seconds=PATIENCE):
    """Poll until a condition holds."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came so far"
        time.sleep(0.01)
    return found


class Lives:
    """A repository, and all its processes."""

    def __init__(self, lab):
        self.lab, self.root, self.call = lab, lab.root, lab.call
        self.outside = lab.root.parent / "outside"
        self.outside.mkdir()
        self.tokens = lab.root.parent / "tokens"
        os.mkfifo(self.tokens)
        # Both ends, so that nobody waits for the other end to be opened; gone with us, it lets all go on.
        self._tokens = os.open(self.tokens, os.O_RDWR | os.O_CLOEXEC)
        self.begun = []
        lab.commit({"orchestrate.toml": UNFENCED})

    @property
    def waits(self):
        """Return a line of shell that waits for a token."""
        return f"dd if={self.tokens} bs=1 count=1 of=/dev/null 2>/dev/null"

    def let_go(self, count):
        """Release so many of the waiting workers."""
        os.write(self._tokens, b"x" * count)

    def pool_of(self, total):
        """Set the size of the pool."""
        rules = (self.root / "AGENTS.md").read_text()
        self.lab.write("AGENTS.md", rules.replace("15", str(total), 1))

    def begin(self, *arguments, **more):
        """Start a command in the background; in a session of its own, as on a terminal."""
        process = subprocess.Popen(
            [SCRIPT, *arguments, "--json"],
            cwd=self.root,
            env=self.lab.env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **more,
        )
        self.begun.append(process)
        return process

    def detached(self, *arguments):
        """Deploy a phase detached; return the run's folder and its runtime's process id."""
        told = self.call("deploy", "phase-1", "--detach", *arguments, "--json")
        assert told.code == 0, told
        run = self.root / ".taskers" / "runs" / told.document["run"]
        return run, self.runtime_of(run.name)

    def stopped(self, *options):
        """Stop a run of a phase in the middle of its first worker; return its id."""
        shims = len(self.shims())
        runtime = self.begin("run", "phase-1", *options)
        wait_until(lambda: len(self.shims()) > shims)
        runtime.terminate()
        out, _ = runtime.communicate()
        assert runtime.returncode == 143, out
        return json.loads(out)["run"]

    def shims(self):
        """List the records of all shims that have started their workers."""
        return list(self.root.glob(".taskers/runs/*/shims/*.started.json"))

    def runtime_of(self, run):
        """Return the process of a run's detached runtime."""
        wanted = b"\0_runtime\0" + run.encode()
        found = {
            pid: parent_of(pid)
            for pid in pids()
            if wanted in read(pid, "cmdline") and str(self.root).encode() in read(pid, "cmdline")
        }
        # A program that it starts has its command line for an instant.
        (first,) = (pid for pid, parent in found.items() if parent not in found)
        return first

    def living(self):
        """List the processes of the workers and checks of this repository."""
        wanted = f"ORCHESTRATE_PROJECT={self.root}".encode()
        return [pid for pid in pids() if wanted in read(pid, "environ").split(b"\0")]

    def executed(self):
        """Return the traces of workers outside of git: name to lines."""
        return {path.name: path.read_text().split() for path in sorted(self.outside.iterdir())}

    def landed(self):
        """List the workers whose work has landed, one for each commit of it."""
        return sorted(self.lab.git("log", "--format=%(trailers:key=Orchestrate-Worker,valueonly)").split())

    def end(self):
        """End all remaining processes and wait for them: runtimes, then workers."""
        os.close(self._tokens)
        for process in self.begun:
            process.kill()
            process.communicate()
        place = str(self.root.parent).encode()
        while found := [pid for pid in pids() if place in read(pid, "environ")]:
            for pid in found:
                kill(pid)
            time.sleep(0.01)


def pids():
    """List the living processes; one that only waits to be reaped is not listed."""
    found = []
    for pid in (int(path.name) for path in Path("/proc").glob("[0-9]*")):
        state = read(pid, "stat").rpartition(b")")[2].split()
        if pid != os.getpid() and state and state[0] not in (b"Z", b"X"):
            found.append(pid)
    return found


def read(pid, what):
    """Read a file of a process below /proc; empty once it is gone."""
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""


def parent_of(pid):
    """Return a process's parent; 0 once it is gone."""
    fields = read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else 0


def kill(pid, number=signal.SIGKILL):
    """Send a signal to a process that may be gone already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def kill_and_see_dead(pid):
    """Kill a process that is not our child, and wait until it has exited."""
    kill(pid)
    wait_until(lambda: pid not in pids())


def journal(run):
    """Return a run's journal so far."""
    try:
        lines = (run / "events.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines if line.endswith("}")]


def started(run):
    """Return the records of the shims that have started their workers: name to record."""
    found = {}
    for path in (run / "shims").glob("*.started.json"):
        if text := path.read_text():
            found[path.name.removesuffix(".started.json")] = json.loads(text)
    return found
