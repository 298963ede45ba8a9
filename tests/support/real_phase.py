"""A project whose tickets go to real agent CLIs."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import ROOT

ORCHESTRATE = Path(sys.executable).parent / "orchestrate"
AGENTS = ("codex", "claude", "gemini")
BIN = ROOT / "tests" / "agents" / "node_modules" / ".bin"
KEY = "sk-test-not-real"
MODELS = {"codex": "gpt-5.5", "claude": "claude-sonnet-4-5", "gemini": "gemini-2.5-pro"}
REPORT = "\n\n".join(
    f"## {title}\n\n{text}"
    for title, text in (
        ("Summary", "Done."),
        ("Analysis", "Read it."),
        ("Proposal", "### Affected Files\n\n- none"),
        ("Risks and Alternatives", "None."),
        ("Status", "COMPLETE"),
    )
)


def found_clis():
    """Find the pinned CLIs; without them the tests are skipped, or fail where they are required."""
    missing = [name for name in MODELS if not (BIN / name).exists()]
    if shutil.which("node") is None:
        missing.append("node")
    if missing:
        message = f"{', '.join(missing)} missing: run `make agents` (needs npm) to test the real CLIs"
        if os.environ.get("ORCHESTRATE_REQUIRE_AGENTS") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return BIN


def environ_of(name, url):
    """Return the variables by which an agent finds the scripted model, and a key that is none."""
    return {
        "codex": {"CODEX_API_KEY": KEY},
        "claude": {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url},
        "gemini": {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url},
    }[name]


def arguments_of(name, url):
    """Return the arguments by which an agent finds the scripted model: codex gets its provider so."""
    if name != "codex":
        return ()
    at = f'name="scripted",base_url="{url}/v1",env_key="CODEX_API_KEY"'
    less = 'wire_api="responses",request_max_retries=0,stream_max_retries=0'
    return ("-c", 'model_provider="scripted"', "-c", f"model_providers.scripted={{{at},{less}}}")


class Project:
    def __init__(self, lab, environ):
        self.lab, self.environ = lab, environ
        self.step = lab.server.step
        lab.git("config", "user.name", "Ada")
        lab.git("config", "user.email", "ada@localhost")
        self.call("init")
        lab.commit("README", "A project.\n")
        self.templates = lab.repo / "docs" / "worker-ticket-templates"
        for shipped in self.templates.glob("*-*.md"):
            shipped.unlink()
        text = [f"[agents.{name}]" + self._settings(name) for name in AGENTS]
        (lab.repo / "orchestrate.toml").write_text("\n".join(text))

    def _settings(self, name):
        found = self.lab.settings(name)
        args = json.dumps(list(found.args))
        return (
            f'\nenabled = true\nexecutable = "{found.executable}"\nmodel = "{found.model}"\nargs = {args}\n'
        )

    def ticket(self, stem, front, *steps):
        text = f"---\nphase: phase-1\ntitle: {stem}\n{front}\n---\n{''.join(steps)}\n"
        (self.templates / f"{stem}.md").write_text(text)

    def commit(self):
        self.lab.git("add", "-A")
        self.lab.git("commit", "-qm", "tickets")

    def call(self, *arguments):
        done = subprocess.run(
            [ORCHESTRATE, *arguments, "--json"],
            cwd=self.lab.repo,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, json.loads(done.stdout)


def survivors(run):
    """Return the processes that still carry the run's name in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environ = (process / "environ").read_bytes()
        except OSError:
            continue
        if f"ORCHESTRATE_RUN={run}".encode() in environ.split(b"\0") and int(process.name) != os.getpid():
            found.append(process.name)
    return found
