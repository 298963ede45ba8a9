"""Repositories whose workers are fenced, as root and as an ordinary user, where nothing else hides them."""

import contextlib
import json
import os
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

LAB = runpy.run_path(str(Path(__file__).with_name("cli_lab.py")))
FENCES = runpy.run_path(str(Path(__file__).parents[1] / "workers" / "fence_lab.py"))
Called, Lab, shell, template, _pattern = (
    LAB[name] for name in ("Called", "Lab", "shell", "template", "_pattern")
)
people, python_path, refusing, place_of, unfit = (
    FENCES[name] for name in ("people", "python_path", "refusing", "place_of", "unfit")
)
PLACES = {"root": "/tmp", "ordinary": "/var/tmp"}
"""A fence hides what lies below /tmp, and shows the project again; elsewhere nothing is hidden around it."""


class Walled(Lab):
    """A repository that belongs to somebody, and the command line as they call it."""

    def __init__(self, folder, somebody):
        super().__init__(folder / "project", folder / "home")
        self.folder, self.somebody = folder, somebody
        self.refused = ""
        """What the system refuses them: `namespaces`, `landlock`, both with a comma."""

    def call(self, *arguments, cwd=None, env=None):
        """Call `orchestrate` as its owner."""
        argv = [self.somebody.python, "-P", "-m", "orchestrator", *arguments]
        if self.refused:
            argv = refusing(self.refused, *argv, python=self.somebody.python)
        env = self.env(PYTHONPATH=python_path(), TMPDIR=str(self.folder / "temporary"), **(env or {}))
        # Where programs are is seen behind a fence, also below /tmp; workers of ours call the command line.
        env["PATH"] = os.pathsep.join([env["PATH"], *python_path().split(os.pathsep)])
        done = self.somebody.run(argv, cwd=cwd or self.root, env=env, stdin=subprocess.DEVNULL)
        return Called(done.returncode, done.stdout, done.stderr)

    def git(self, *arguments, check=True):
        """Call git as its owner."""
        done = self.somebody.run(["git", *arguments], cwd=self.root, env=self.env())
        assert done.returncode == 0 or not check, done
        return done.stdout

    def write(self, path, text):
        """Write a file that is theirs."""
        super().write(path, text)
        self.somebody.owns(self.folder)

    def settings(self, text):
        """Commit settings."""
        self.commit({"orchestrate.toml": text})

    def run(self, code=0):
        """Run the phase; give its workers by ticket, each with what it printed under `printed`."""
        called = self.call("run", "phase-1", "--json")
        assert called.code == code, called
        found = {}
        for one in called.document["workers"]:
            path = self.root / (one["output"] or "none")
            one["printed"] = path.with_suffix(".stdout").read_text() if one["output"] else ""
            found[one["ticket"]] = one
        return found


@contextlib.contextmanager
def walled_for(pattern, somebody):
    """Give a repository of somebody's for the block."""
    if why := unfit(somebody):
        pytest.skip(why)
    folder = place_of(somebody, PLACES[somebody.name])
    try:
        shutil.copytree(pattern, folder, symlinks=True, dirs_exist_ok=True)
        (folder / "temporary").mkdir()
        somebody.owns(folder)
        yield Walled(folder, somebody)
    finally:
        shutil.rmtree(folder)


@pytest.fixture(params=people(), ids=lambda one: one.name)
def walled(request, _pattern):
    """Give a repository of root's, then one of an ordinary user's."""
    with walled_for(_pattern, request.param) as lab:
        yield lab


@pytest.fixture
def mine(_pattern):
    """Give a repository of whoever runs the tests."""
    with walled_for(_pattern, people()[0]) as lab:
        yield lab


def attempt(name, command):
    """Write a line of shell that says `name` if a command succeeds, and nothing if it does not."""
    return f"if ( {command} ) >/dev/null 2>&1; then echo {json.dumps(name)}; fi"


def journal(lab):
    """Read the newest run's journal."""
    path = max(lab.root.glob(".taskers/runs/2*/events.jsonl"))
    return [json.loads(line) for line in path.read_text().splitlines()]


def listening():
    """Open a server on loopback that nobody answers at; a context manager."""
    import socket

    return socket.create_server(("127.0.0.1", 0))


def is_root():
    """Tell whether the tests run as root."""
    return os.geteuid() == 0
