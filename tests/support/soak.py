"""A repository that is used for a long time, in two work trees by three leads, while faults strike."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from support.repository import SCRIPT, TEMPLATES
from support.soak_tickets import phase_of, settings_with

from orchestrator.runs.state import read_run
from workers.files.locks import is_locked
from workers.files.run_dir import RunDir

MARK, TRACE = "ORCHESTRATE_MARK", "LC_SOAK"
"""The variables of a worker's process tree, which our allow-lists pass on to shims and workers alike."""
RUNTIMES = {b"run", b"deploy", b"resume", b"integrate", b"_runtime"}
NOISE = ("Traceback", "a bug in orchestrate", "never retrieved")
EXPECTED = {0, 1, 5, 129, 130, 143}
"""Exit codes of a command in a soak; any below 0 is a signal of ours."""
CHECK = re.compile(r"[/.](?:acceptance|setup|gate)-")
"""Part of the mark of commands run for a worker or on its work, which have no slot of the pool."""
DEADLINE = 240.0
"""Seconds after which a command counts as hanging, however busy the machine is."""


class Process(NamedTuple):
    """A living process of the soak."""

    pid: int
    parent: int
    words: list[bytes]
    mark: str


class Called(NamedTuple):
    """The result of one command."""

    code: int
    document: dict | None
    err: str


class World:
    """The repository, its second work tree, and every process that was started for either."""

    def __init__(self, folder, pattern, fakes, seed):
        shutil.copytree(pattern, folder / "soak", symlinks=True)
        self.place = (folder / "soak").resolve()
        self.root, self.second = self.place / "project", self.place / "second"
        self.fakes, self.seed = fakes, seed
        self.tally, self.strikes, self.written = Counter(), [], {}
        self.guard, self.over, self.ended = threading.Lock(), threading.Event(), threading.Event()
        (self.place / "tmp").mkdir()
        self._write(self.root / "orchestrate.toml", settings_with(fakes, fence="auto"))
        self._write(self.root / "docs/worker-ticket-templates/README.md", "Templates.\n")
        self.git(self.root, "add", "--all")
        self.git(self.root, "commit", "--quiet", "--message=settings")
        self.git(self.root, "worktree", "add", "-q", "-b", "second", str(self.second))
        self._write(self.second / "orchestrate.toml", settings_with(fakes, fence="off"))
        self.git(self.second, "commit", "-q", "--all", "--message=without a fence")

    def env(self):
        """Return the environment of every command."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.place / "home"),
            "TMPDIR": str(self.place / "tmp"),
            "GIT_CONFIG_NOSYSTEM": "1",
            TRACE: str(self.place),
        }

    def count(self, what, more=1):
        """Add to the figures."""
        with self.guard:
            self.tally[what] += more

    def git(self, root, *arguments, check=True):
        """Call git as the user would."""
        done = subprocess.run(
            ["git", *arguments], cwd=root, env=self.env(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 or not check, (arguments, done.stderr)
        return done.stdout

    def call(self, root, *arguments):
        """Call `orchestrate` and check the guarantees of every command, whatever fault strikes it."""
        process = subprocess.Popen(
            [SCRIPT, *arguments, "--json"], cwd=root, env=self.env(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(self.said("hangs", arguments, process.returncode, out, err)) from None
        if err.rstrip().endswith("KeyboardInterrupt") or (process.returncode == 130 and not out):
            self.count("interrupted before it was listening")
            return Called(130, None, err)
        if any(word in err for word in NOISE):
            raise AssertionError(self.said("is a bug", arguments, process.returncode, out, err))
        if process.returncode < 0:
            return Called(process.returncode, None, err)
        if process.returncode not in EXPECTED:
            raise AssertionError(self.said("exit code", arguments, process.returncode, out, err))
        try:
            return Called(process.returncode, json.loads(out), err)
        except ValueError:
            raise AssertionError(self.said("no JSON", arguments, process.returncode, out, err)) from None

    def said(self, what, arguments, code, out, err):
        """Return what is needed to find the cause of a failure."""
        last = "\n".join(self.strikes[-20:])
        bugs = "\n".join(path.read_text() for path in (self.place / "tmp").glob("orchestrate-bug-*"))
        return f"seed {self.seed}: {what}: {arguments} {code}\n{out}\n{err}\n{bugs}\nlast strikes:\n{last}"

    def processes(self):
        """List the living processes of the soak; one that only waits to be reaped is not listed."""
        found, trace = [], f"{TRACE}={self.place}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                environ = (folder / "environ").read_bytes().split(b"\0")
                if trace not in environ:
                    continue
                state, parent = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:2]
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if state in (b"Z", b"X"):
                continue
            marks = [pair for pair in environ if pair.startswith(MARK.encode() + b"=")]
            mark = marks[0].decode().partition("=")[2] if marks else ""
            found.append(Process(int(folder.name), int(parent), words, mark))
        return found

    def see_dead(self):
        """End all processes after a failure."""
        while found := self.processes():
            for one in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one.pid, signal.SIGKILL)
            time.sleep(0.05)

    def write_by_hand(self, root, line):
        """Save STATUS.md as an editor does that checks whether the file is still the one it read."""
        path, aside = root / "STATUS.md", root / "STATUS.md~"
        for _ in range(50):
            before = path.stat()
            aside.write_text(re.sub(r"(?m)^(### P1.*)$", rf"\1\n- [ ] {line}", path.read_text(), count=1))
            if (after := path.stat()).st_ino == before.st_ino and after.st_mtime_ns == before.st_mtime_ns:
                aside.replace(path)
                with self.guard:
                    self.written.setdefault(root, []).append(line)
                return True
        aside.unlink()
        return False

    def _write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class Lane:
    """One lead: a phase in a work tree, run after run, each to its end whatever fault strikes."""

    def __init__(self, world, name, root, phase, first):
        self.world, self.name, self.root, self.phase, self.first = world, name, root, phase, first
        self.rng = random.Random(f"{world.seed}-{name}")
        self.round, self.current, self.known = 0, None, set()
        self.books = []

    def live(self, count, keep_books):
        """Run until the time is over; then check that nothing is unfinished."""
        while not self.world.over.is_set() or not self.books:
            self.round += 1
            texts = phase_of(self.rng, self.phase, f"out/{self.name}/{self.round}", self.first, count)
            self.commit(texts)
            run = self.begin()
            if run is not None:
                self.current = run
                self.finish(run)
                self.books.append(keep_books(self, run))
                self.current = None
                self.world.count("runs")
            else:
                self.world.count("runs killed before anything was decided")
            if self.rng.random() < 0.3:
                self.world.call(self.root, "archive", "--runs", "--keep", "3")
                self.world.count("archived")

    def commit(self, texts):
        """Replace this lead's templates, and commit them as a user does."""
        folder = self.root / TEMPLATES
        for path in folder.glob("*.md"):
            if path.stem[-1].isdigit() and self.first <= int(path.stem.rpartition("-")[2]) < self.first + 50:
                path.unlink()
        for stem, text in texts.items():
            (folder / f"{stem}.md").write_text(text)
        until = time.monotonic() + DEADLINE
        while True:
            self.world.git(self.root, "add", "--all", TEMPLATES, check=False)
            said = self.world.git(self.root, "status", "--porcelain", TEMPLATES, check=False)
            self.world.git(
                self.root, "commit", "-q", f"--message=round {self.round}", "--", TEMPLATES, check=False
            )
            if not self.world.git(self.root, "status", "--porcelain", TEMPLATES):
                return
            assert time.monotonic() < until, f"seed {self.world.seed}: git is locked: {said}"
            time.sleep(0.2)

    def begin(self):
        """Start a run in one of the possible ways; None where it was killed before it was written down."""
        how = self.rng.choice((("run",), ("run",), ("deploy",), ("deploy", "--detach")))
        called = self.world.call(self.root, *how, self.phase)
        states = [
            state
            for path in sorted((self.root / ".taskers/runs").glob("2*"))
            if path.name not in self.known and (state := read_run(RunDir(self.root, path.name)))
        ]
        mine = [state for state in states if state.phase == self.phase]
        self.known |= {state.run.id for state in mine}
        if mine:
            assert len(mine) == 1, [state.run.id for state in mine]
            return mine[0].run
        if called.code >= 0 and called.code not in (130, 143, 129):
            raise AssertionError(self.world.said("no run", how, called.code, called.document, called.err))
        return None

    def finish(self, run):
        """Continue a run until every verdict of it is final and in the state files."""
        called = None
        until = time.monotonic() + 2 * DEADLINE
        while time.monotonic() < until:
            state = read_run(run)
            match state.status():
                case "running":
                    self.world.call(self.root, "wait", run.id, "--timeout", "60")
                    continue
                case "integrated" if is_locked(run.path / "run.lock"):
                    time.sleep(0.05)  # it clears up
                case "integrated":
                    break
                case "interrupted":
                    out = {
                        (name, facts.attempts)
                        for name, facts in state.workers.items()
                        if facts.started and not facts.ended and not facts.retrying
                    }
                    called = self.world.call(self.root, "resume", run.id)
                    self.world.count("resumed")
                    self.note_adopted(run, out)
                case "finished" | "cancelled":
                    called = self.integrate(state)
        else:
            said = [called.document, called.err] if called else []
            raise AssertionError(self.world.said("is never over", (run.id,), state.status(), *said))
        if self.rng.random() < 0.2:
            before = self.world.git(self.root, "log", "--format=%H", f"--grep=^Orchestrate-Run: {run.id}$")
            self.world.call(self.root, "integrate", run.id)
            after = self.world.git(self.root, "log", "--format=%H", f"--grep=^Orchestrate-Run: {run.id}$")
            assert before == after, (self.world.seed, run.id)

    def integrate(self, state):
        """Judge what is left to the lead, accepting or rejecting."""
        pending = [name for name, facts in state.workers.items() if facts.verdict == "pending"]
        word = self.rng.choice(("--accept", "--reject"))
        more = [word, *pending, *(["--reason", "as drawn"] if word == "--reject" else [])] if pending else []
        return self.world.call(self.root, "integrate", state.run.id, *more)

    def note_adopted(self, run, out):
        """Count the attempts that an earlier runtime had started, and a later one finished."""
        lost = {(one["worker"], one["attempt"]) for one in journal(run) if one["event"] == "lost"}
        over = {(one["worker"], one["tried"]["attempt"]) for one in journal(run) if "tried" in one} | {
            (one["worker"], one["facts"]["attempts"]) for one in journal(run) if one["event"] == "ended"
        }
        with self.world.guard:
            self.world.tally["adopted"] += len((out & over) - lost)


def journal(run):
    """Return a run's journal; a run that was killed before its first record has none."""
    path = run.path / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


class Striker:
    """The faults, one after another at random moments, from a generator of their own."""

    def __init__(self, world, lanes):
        self.world, self.lanes, self.rng = world, lanes, random.Random(f"{world.seed}-strikes")
        self.kinds = {
            "runtime": 3, "fork server": 2, "shim": 3, "worker": 3, "child": 3, "fence": 1, "interrupt": 1,
            "terminate": 1, "hangup": 0.5, "interrupt twice": 0.5, "cancel worker": 1, "cancel run": 0.3,
            "manual edit": 4, "query": 3,
        }  # fmt: skip
        self.most, self.samples = 0, []

    def live(self):
        """Strike until all runs have ended; kills stop when the time is over, so that they can."""
        while not self.world.ended.wait(self.rng.uniform(0.1, 2.0)):
            if self.world.over.is_set():
                continue
            self.sample()
            (kind,) = self.rng.choices(list(self.kinds), list(self.kinds.values()))
            at = time.strftime("%H:%M:%S")
            if what := self.strike(kind):
                self.world.count(f"struck: {kind}")
                self.world.strikes.append(f"{at} {kind} {what}")

    def strike(self, kind):
        """Cause one fault; return what it hit, empty where there was nothing to hit."""
        lane = self.rng.choice(self.lanes)
        match kind:
            case "manual edit":
                line = f"Written by hand {self.rng.randrange(10**9)}"
                return line if self.world.write_by_hand(lane.root, line) else ""
            case "query":
                command = self.rng.choice((("status",), ("ps",), ("resume",), ("report",)))
                self.world.call(lane.root, *command)
                return command[0]
            case "cancel run" | "cancel worker":
                return self.cancel(lane, whole=kind == "cancel run")
        number = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM, "hangup": signal.SIGHUP}
        signals = [number.get(kind, signal.SIGKILL)]
        role = "runtime" if kind in number else kind
        if kind == "interrupt twice":
            role, signals = "runtime", [signal.SIGINT] * 2
        found = [one for one in self.world.processes() if role == self.role(one)]
        if not found:
            return ""
        hit = self.rng.choice(found)
        try:
            for one in signals:
                os.kill(hit.pid, one)
                time.sleep(0.2 if len(signals) > 1 else 0)
        except ProcessLookupError:
            return ""
        return f"{hit.pid} {b' '.join(hit.words)[:100]!r} {hit.mark}"

    def cancel(self, lane, *, whole):
        """Cancel a run or one of its workers, as the lead may do from another terminal."""
        run = lane.current
        state = run and read_run(run)
        left = [name for name, facts in state.workers.items() if not facts.ended] if state else []
        if not left:
            return ""
        names = [] if whole else [self.rng.choice(left)]
        called = self.world.call(lane.root, "cancel", run.id, *names)
        return f"{run.id} {names} -> {called.code}"

    def role(self, one):
        """Return the role of a process: a runtime, fork server, shim, worker or a child of its tools."""
        if any(word.endswith(b"fork_server.py") for word in one.words):
            return "fork server" if self.is_runtime(one.parent) else "shim"
        if one.mark:
            if one.words[0].endswith(b"/bwrap") or b"workers.shim.init" in b" ".join(one.words):
                return "fence"
            return "child" if one.words[0].endswith(b"sleep") else "worker"
        return "runtime" if RUNTIMES & set(one.words) and b"orchestrat" in b" ".join(one.words) else "other"

    def is_runtime(self, pid):
        """Return whether a process is a command of ours."""
        try:
            words = set(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"))
        except OSError:
            return False
        return bool(RUNTIMES & words)

    def sample(self):
        """Count the living workers: never more than fifteen."""
        marks = {one.mark for one in self.world.processes() if one.mark and not CHECK.search(one.mark)}
        self.samples.append(len(marks))
        if len(marks) > 15:  # a look takes a while, and its first may be gone when its last has come
            again = {one.mark for one in self.world.processes()}
            assert len(marks & again) <= 15, (self.world.seed, sorted(marks & again))
