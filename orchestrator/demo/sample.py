"""The sample repository: a package with faults, its tests, its plan, and eight tickets that mend it."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from orchestrator.refusal import Refusal
from orchestrator.state.canonical import decisions, rules, status
from orchestrator.state.facts import Facts, minute
from orchestrator.store import Store
from tickets.problems import Problem
from workers.git import GitError, Repository, git

PHASE = "phase-1"
LEAD = "Demo Lead"
PROGRAM = "tools/mend.py"
SUFFIX = ".txt"
"""Ends every name in `files/`: neither linters nor test runners shall take faulty code for ours."""
SETTINGS = b"""# Settings of orchestrate; what is not here has its default.

families = ["canonical", "checkpoints"]

[integration]
on_violation = "hold"
"""
STATE_COMMIT = "Set up orchestrate"


def make_sample(folder: Path, facts: Facts, environ: Mapping[str, str]) -> Repository:
    """Make the repository with its two commits: the package, then the state files. Raises Refusal."""
    refuse_taken(folder)
    folder.mkdir(parents=True, exist_ok=True)
    words = {"@NOW@": minute(facts.at), "@LEAD@": facts.lead, "@PYTHON@": python_for_workers(environ)}
    texts = {path: _filled(text, words) for path, text in _shipped()}
    plan = texts.pop("STATUS.md")
    templates = {path: texts.pop(path) for path in list(texts) if path.startswith("docs/")}
    try:
        _commit_package(folder, texts)
    except GitError as error:
        do = "look at what git says; it must be 2.28 or newer"
        raise Refusal(Problem(str(folder), str(error), do)) from error
    repository = Repository(folder, folder / ".git")
    state = {
        "STATUS.md": status.complete(plan, facts),
        "DECISIONS.md": decisions.initial(facts).encode(),
        "AGENTS.md": rules.initial(facts).encode(),
        "orchestrate.toml": SETTINGS,
        ".gitignore": texts[".gitignore"] + b".taskers/\n",
    }
    Store(repository).write(state | templates, message=STATE_COMMIT, commit=True)
    return repository


def refuse_taken(folder: Path) -> None:
    """Refuse a place that holds something already; nothing there is ever written over. Raises Refusal."""
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists() or folder.is_symlink():
        what = "is not empty" if folder.is_dir() else "is not a folder"
        raise Refusal(Problem(str(folder), what, "name another folder: orchestrate demo DIR"))


def python_for_workers(environ: Mapping[str, str]) -> str:
    """Name a Python as the workers' own PATH finds it, so that the committed tickets hold no path of ours."""
    path = environ.get("PATH", os.defpath)
    for name in ("python3", Path(sys.executable).name):
        if shutil.which(name, path=path):
            return name
    return sys.executable


def _shipped() -> Iterator[tuple[str, bytes]]:
    """Give each file of the sample: its path in the repository and its bytes."""
    here = files("orchestrator.demo")
    yield PROGRAM, (here / "mend.py").read_bytes()
    yield ".gitignore", b"__pycache__/\n"
    yield from _below(here / "files", "")


def _below(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _below(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(SUFFIX):
            yield path + entry.name.removesuffix(SUFFIX), entry.read_bytes()


def _filled(text: bytes, words: Mapping[str, str]) -> bytes:
    for word, meant in words.items():
        text = text.replace(word.encode(), meant.encode())
    return text


def _commit_package(folder: Path, texts: Mapping[str, bytes]) -> None:
    # Templates of the user's could bring hooks and files of theirs along.
    git("init", "--quiet", "--template=", "--initial-branch=main", cwd=folder)
    git("config", "user.name", LEAD, cwd=folder)
    git("config", "user.email", "demo@example.invalid", cwd=folder)
    for path, text in texts.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            file.write(text)
    # The user's own ignore patterns and signing key are not meant for this repository.
    git("add", "--force", "--all", cwd=folder)
    message = "A corner shop, with a few faults in it"
    git("-c", "commit.gpgsign=false", "commit", "--quiet", "--message", message, cwd=folder)
