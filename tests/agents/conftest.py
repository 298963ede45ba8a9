"""Real agent CLIs from npm, run against the scripted model: nothing else is reachable, no key is real."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import NamedTuple

import pytest
from support import stub_model
from support.real_phase import AGENTS, MODELS, Project, arguments_of, environ_of, found_clis
from support.runtimes import wait_until

from workers.agents.agent import AgentSettings, InvocationRequest, agent_named
from workers.engine.launch import common_environment

PATIENCE = 200.0  # seconds; a slow machine is no reason to fail


class Ran(NamedTuple):
    """What one run of a CLI left."""

    answer: object
    progress: list
    exit_code: int | None
    stdout: bytes
    stderr: str


@pytest.fixture
def model_server(tmp_path):
    """Serve a scripted model: `.url`, `.requests()`, `.wait_for(do, timeout)`."""
    with stub_model.serving(tmp_path / "requests.jsonl") as server:
        yield server


@pytest.fixture(scope="session")
def agent_clis():
    """Find the pinned CLIs."""
    return found_clis()


@pytest.fixture
def lab(tmp_path, model_server, agent_clis):
    """Make a repository, a home and the scripted model, in which an agent can be let loose."""
    return Lab(tmp_path, model_server, agent_clis)


@pytest.fixture
def project(lab):
    """Make a repository with state files, settings for the three CLIs, and no templates yet."""
    environ = lab.runtime | {"ORCHESTRATE_LEAD": "Ada"}
    for name in AGENTS:
        environ |= lab.environ(name)
    return Project(lab, environ)


def holds(folder, text):
    """Return whether a file below a folder has a text."""
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # the CLI moves its files about
            if path.is_file() and text in path.read_bytes():
                return True
    return False


class Lab:
    """One place for real CLIs to work in, with an environment that holds nothing of this machine's user."""

    def __init__(self, folder, server, clis):
        self.server, self.clis = server, clis
        self.repo, self.scratch, self.user = (folder / name for name in ("repo", "scratch", "user"))
        self.homes = folder / "homes"
        for made in (self.repo, self.scratch, self.user):
            made.mkdir()
        self.path = f"{Path(shutil.which('node')).parent}:/usr/local/bin:/usr/bin:/bin"
        self.runtime = {"PATH": self.path, "HOME": str(self.user), "LANG": "C.UTF-8"}
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("commit", "--quiet", "--allow-empty", "--message=base")

    def git(self, *args):
        who = {
            f"GIT_{role}_{what}": "lab@localhost"
            for role in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        env = {**self.runtime, **who, "GIT_CONFIG_NOSYSTEM": "1"}
        ran = subprocess.run(
            ["git", *args], cwd=self.repo, env=env, check=True, capture_output=True, text=True
        )
        return ran.stdout

    def commit(self, name, text):
        """Commit one file."""
        (self.repo / name).write_text(text)
        self.git("add", name)
        self.git("commit", "--quiet", f"--message={name}")

    def changes(self):
        """Return the differences from the last commit, as git prints them."""
        return self.git("status", "--porcelain", "--untracked-files=all")

    def environ(self, name):
        """Make the runtime's environment: where this agent finds the model, and a key that is none."""
        return {**self.runtime, **environ_of(name, self.server.url)}

    def settings(self, name, *args):
        """Return settings as a user would write them."""
        args = (*arguments_of(name, self.server.url), *args)
        return AgentSettings(executable=str(self.clis / name), args=args, model=MODELS[name])

    def request(self, name, prompt, *, args=(), home=None, **fields):
        """Describe one attempt; the prompt becomes a file, as in a run. `home` is that of an earlier one."""
        home = home or self.homes / f"{name}-{uuid.uuid4().hex[:8]}"
        home.mkdir(parents=True, exist_ok=True)
        file = self.homes / f"{home.name}.{uuid.uuid4().hex[:8]}.md"
        file.write_text(prompt)
        settings = self.settings(name, *args)
        executable = agent_named(name).locate(settings, self.path)
        defaults = {"mode": "read-only", "model": None, "environ": self.environ(name)}
        return InvocationRequest(
            worker=f"{name.title()}-Worker-1",
            executable=executable,
            settings=settings,
            worktree=self.repo,
            prompt=file,
            home=home,
            **{**defaults, **fields},
        )

    def run(self, name, prompt, *, until=None, kept=None, **fields):
        """Run one attempt to its end; with `until` (a step), until the model has played it, then kill it.

        With `kept` (a text) not before a file of its home has that: a CLI writes its thread by the way.
        """
        request = self.request(name, f"Do as the script says.\n\n{prompt}\n", **fields)
        call = agent_named(name).invocation(request)
        for place, content in call.files.items():
            path = request.home / place
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                path.write_bytes(content)
        mark = f"ORCHESTRATE_TEST_MARK={uuid.uuid4().hex}"
        env = {
            **common_environment(request.environ, request.settings.env),
            **call.env,
            "TMPDIR": str(self.scratch),
        }
        env.update([mark.split("=")])
        out, err = request.prompt.with_suffix(".stdout"), request.prompt.with_suffix(".stderr")
        with request.prompt.open("rb") as stdin, out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                call.argv,
                cwd=self.repo,
                env=env,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
            try:
                if until is None:
                    process.wait(PATIENCE)
                else:
                    assert self.server.wait_for(until, PATIENCE), err.read_text()
                    if kept is not None:
                        wait_until(lambda: holds(request.home, kept.encode()), PATIENCE)
                    assert process.poll() is None, "it ended although the model had not answered"
            finally:
                process.kill()
                process.wait()
                see_dead(mark)
        return self.read(name, process.returncode, out.read_bytes(), err.read_text(errors="replace"))

    @staticmethod
    def read(name, returncode, stdout, stderr):
        """Read a stream as the runtime does."""
        reader = agent_named(name).new_reader()
        progress = [said for line in stdout.split(b"\n") if (said := reader.feed(line))]
        exit_code = returncode if returncode >= 0 else None
        return Ran(
            reader.answer(exit_code=exit_code, stderr_tail=stderr[-4096:]),
            progress,
            exit_code,
            stdout,
            stderr,
        )


def see_dead(mark):
    """Kill whatever carries the mark in its environment, also in sessions of its own, until nothing does."""
    end = time.monotonic() + PATIENCE
    while found := _marked(mark.encode()):
        assert time.monotonic() < end, f"still alive: {found}"
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)  # between two looks, not in the hope of anything


def _marked(mark):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environ = (folder / "environ").read_bytes()
        except OSError:
            continue
        if mark in environ.split(b"\0"):
            found.append(int(folder.name))
    return found
