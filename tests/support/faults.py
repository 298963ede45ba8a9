"""A repository whose agents are fakes that misbehave on request, and the invariants after every case."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import time
from pathlib import Path

from support.repository import SCRIPT, TEMPLATES, shell, template
from support.runtimes import PATIENCE

from orchestrator.state.canonical.status import status

AGENTS = ("codex", "claude", "gemini")
SETTINGS = """\
[pool]
start_interval = 0
[limits]
grace = {grace}
output_cap = {cap}
"""


def step(do, **fields):
    """Format one step of a fake agent, as it stands in a prompt."""
    return f"<<fake {json.dumps({'do': do, **fields})}>>"


class Rehearsal:
    """One repository with fake agents."""

    def __init__(self, lab, fakes):
        self.lab, self.root, self.fakes = lab, lab.root, fakes
        self.begun = []

    def prepare(self, tickets, *, grace=1, cap="64 MB", args=()):
        """Commit settings and templates: `{"claude-1": ticket(…)}`; `args` are passed to each fake."""
        text = SETTINGS.format(grace=grace, cap=json.dumps(cap))
        for name in AGENTS:
            text += f'[agents.{name}]\nenabled = true\nexecutable = "{self.fakes / name}"\n'
            text += f"args = {json.dumps(list(args))}\n"
        self.lab.commit({
            "orchestrate.toml": text,
            **{f"{TEMPLATES}/{stem}.md": body for stem, body in tickets.items()},
        })  # fmt: skip

    def prepare_with(self, tickets, more):
        """Do the same, with more settings at the end."""
        self.prepare(tickets)
        text = (self.root / "orchestrate.toml").read_text()
        self.lab.commit({"orchestrate.toml": text + more})
        return self

    def run(self, *arguments, **options):
        """Run the phase to its end; return its document, with the exit code checked by the worst outcome."""
        runtime = self.begin(*(arguments or ("run", "phase-1")), **options)
        return self.end(runtime)

    def begin(self, *arguments, **options):
        """Start a command that a test observes."""
        options = {"stdin": subprocess.DEVNULL, **options}
        runtime = subprocess.Popen(
            [SCRIPT, *arguments, "--json"], cwd=self.root, env=self.lab.env(),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
        )  # fmt: skip
        self.begun.append(runtime)
        return runtime

    def end(self, runtime, code=None):
        """Wait for a command; return its document with its standard error and its duration."""
        out, err = runtime.communicate(timeout=PATIENCE)
        document = json.loads(out)
        ill = [one for one in document["workers"] if one["verdict"] != "accepted"]
        assert runtime.returncode == (code if code is not None else int(bool(ill))), (document, err)
        for noise in ("Traceback", "never retrieved", "Warning"):
            assert noise not in err, err
        return document

    def worker(self, document, ticket):
        """Return the worker of a ticket."""
        return next(one for one in document["workers"] if one["ticket"] == ticket)

    def stdout(self, worker, name=".stdout"):
        """Return a worker's output, byte for byte."""
        return (self.root / worker["output"]).with_suffix(name).read_bytes()

    def run_folder(self):
        """Return the directory of the newest run; None before there is one."""
        found = sorted((self.root / ".taskers" / "runs").glob("2*"))
        return found[-1] if found else None

    def journal(self, event=None):
        """Return the records of a kind of event in the newest run's journal."""
        folder = self.run_folder()
        path = folder and folder / "events.jsonl"
        lines = path.read_text().splitlines() if path and path.exists() else []
        found = [json.loads(line) for line in lines if line.endswith("}")]
        return [one for one in found if event in (None, one["event"])]

    def wait_until(self, condition, seconds=PATIENCE):
        """Wait for a condition that must come true."""
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, "it never came"
            time.sleep(0.01)

    def survivors(self):
        """List the living processes that carry the mark of a run of this repository."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                environ = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue  # gone meanwhile; a zombie has nothing to read
            marked = any(pair.startswith(b"ORCHESTRATE_RUN=") for pair in environ)
            if marked and f"ORCHESTRATE_PROJECT={self.root}".encode() in environ:
                found.append(int(folder.name))
        return found

    def players(self):
        """List the living processes that are workers or their children, without those of a fence."""
        found = []
        for pid in self.survivors():
            with contextlib.suppress(OSError):
                if b"workers.shim.init" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    def lost_slots(self):
        """List the slots that a process holds, or is named in."""
        slots = self.root / ".git" / "orchestrate" / "slots"
        return [path.name for path in sorted(slots.glob("*.lock")) if path.read_text() or is_locked(path)]

    def see_dead(self):
        """End all processes, whatever the result of the case."""
        for runtime in self.begun:
            if runtime.poll() is None:
                runtime.kill()
            runtime.communicate()
        until = time.monotonic() + PATIENCE
        while found := self.survivors():
            assert time.monotonic() < until, f"still alive: {found}"
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.01)

    def is_clean(self):
        """Check the invariants after every case, except for survivors and slots, which are counted."""
        locks = [
            *(self.root / ".git/orchestrate").rglob("*.lock"),
            *self.root.glob(".taskers/runs/*/run.lock"),
        ]
        assert [path for path in locks if is_locked(path)] == []
        assert (
            self.lab.git("ls-files", "--others", "--exclude=.taskers", "--exclude=docs/progress").split()
            == []
        )
        found = status.problems((self.root / "STATUS.md").read_bytes())
        assert [one for one in found if one.severity == "error"] == []


def is_locked(path):
    """Return whether another process holds a lock file."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def ticket(*steps, agent="claude", retries=0, **front):
    """Write a template for a fake agent; a timeout of 20 s says that the test has gone wrong."""
    front = {"timeout": "20s", **front}
    if agent == "command":
        text = shell("\n".join(steps), retries=retries, **front)
    else:
        text = template(command=None, agent=agent, retries=retries, **front)
        text += "\n".join(["", *steps, ""])
    return text
