"""A real repository in a temporary folder, and the real console script called in it."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from support.fork_server import Forked

SCRIPT = Path(sys.executable).with_name("orchestrate")
FORKED = Forked(SCRIPT)
TEMPLATES = "docs/worker-ticket-templates"
AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)


class Called(NamedTuple):
    """The result of one call of the command line."""

    code: int
    out: str
    err: str

    @property
    def document(self):
        """Read standard output as the one JSON document that it must be."""
        return json.loads(self.out)

    def says(self):
        """Return the document's problems as the lines that a person would read."""
        return [
            f"{one['place']}: {one['what']}" + (f"; {one['do']}" if one["do"] else "")
            for one in self.document["problems"]
        ]


class Lab:
    """One repository and the calls that are made in it."""

    def __init__(self, root, home):
        self.root, self.home = root, home

    def env(self, **more):
        """Return an environment without variables of ours; a hosting session's variables are `more`."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
        return {**kept, "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1", **more}

    def call(self, *arguments, cwd=None, env=None):
        """Call `orchestrate`; no exit code fails the test."""
        where, environment = cwd or self.root, self.env(**(env or {}))
        if FORKED.can(environment):
            code, out, err = FORKED.run(arguments, where, environment)
            return Called(code, out.decode(), err.decode())
        done = subprocess.run(
            [SCRIPT, *arguments],
            cwd=where,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Called(done.returncode, done.stdout, done.stderr)

    def git(self, *arguments, check=True):
        """Call git as the user would."""
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=self.env(), capture_output=True, text=True, check=check
        )
        return done.stdout

    def write(self, path, text):
        """Write a file, and make its folders."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def have_fake_claude(self, folder):
        """Install a fake Claude that does what its tickets ask, the settings committed."""
        called = self.call("fake-agent", str(folder), "--json")
        assert called.code == 0, called.err
        self.commit(
            {"orchestrate.toml": f'[agents.claude]\nenabled = true\nexecutable = "{folder}/claude"\n'}
        )

    def commit(self, files):
        """Write files and commit them."""
        for path, text in files.items():
            self.write(path, text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=files")

    def templates(self, **texts):
        """Commit templates; `command_1` is the stem `command-1`."""
        self.commit(
            {f"{TEMPLATES}/{stem.replace('_', '-')}.md": text for stem, text in texts.items()},
        )

    def everything(self):
        """Return everything on the disk below the repository: names, modes, bytes, git's own included."""
        return seen_in(self.root)


def seen_in(folder):
    """Return everything below a folder: path to mode and content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        content = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        found[path.relative_to(folder).as_posix()] = (path.lstat().st_mode, content)
    return found


def template(command=("true",), **front):
    """Format a template; values are spelled as JSON, which YAML reads."""
    said = {
        "agent": "command", "phase": "phase-1", "deliverable": "Code review", "title": "Look around",
        "command": command and list(command), **front,
    }  # fmt: skip
    lines = [f"{key}: {json.dumps(value)}" for key, value in said.items() if value is not None]
    return "\n".join(["---", *lines, "---", "# {{ worker }}", "", "Look around and report.", ""])


def shell(script, **front):
    """Format a template of a worker that runs a shell script."""
    return template(("sh", "-c", script), **front)
