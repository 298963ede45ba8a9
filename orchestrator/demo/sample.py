"""The sample repository: a package with faults, its tests, its plan, and eight tickets that fix it."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import count
from pathlib import Path
from typing import NamedTuple

from orchestrator.checks.run import verify
from orchestrator.errors import Refusal
from orchestrator.settings.settings import default_settings
from orchestrator.state.facts import Facts, minute
from tickets.markdown import one_line
from tickets.problems import Problem
from tickets.templates.render import FOLDER
from workers.errors import WorkerError
from workers.git.run import GitError, Repository, git, git_line

GITIGNORE = ".gitignore"
PLAN = "STATUS.md"
PHASE = "phase-1"
LEAD = "Demo Lead"
PROGRAM = "tools/fix_faults.py"
SUFFIX = ".txt"
"""Suffix of every name in `files/`, so that neither linters nor test runners take faulty code for ours."""
TESTS = "-m unittest -q"
_LONGEST = 60.0
"""Seconds; the tests take less than one."""


class Sample(NamedTuple):
    """A committed sample repository, and what the set-up adds to it."""

    repository: Repository
    there: dict[str, bytes]
    """Texts of the files that `init` completes."""
    templates: dict[str, bytes]
    settings: bytes
    """The text of orchestrate.toml."""


def make_sample(folder: Path, facts: Facts, environ: Mapping[str, str]) -> Sample:
    """Make the repository, and commit the package. Raises Refusal.

    Nothing that is in the folder already is written over: it must be empty, or not be there yet.
    """
    python = python_for_workers(environ)
    words = {"@NOW@": minute(facts.at), "@LEAD@": one_line(facts.lead), "@PYTHON@": python}
    texts = {path: _filled(text, words) for path, text in _shipped()}
    plan = texts.pop(PLAN)
    paths = [path for path in texts if path.startswith(f"{FOLDER}/")]
    templates = {path.removeprefix(f"{FOLDER}/"): texts.pop(path) for path in paths}
    try:
        _take(folder)
        _commit_package(folder, texts)
        tests = _counted(folder, f"{python} {TESTS}", facts, environ)
    except OSError as error:
        what = f"cannot be made: {error.strerror or error}"
        raise Refusal(Problem(str(folder), what, "name another folder: orchestrate demo DIR")) from error
    except GitError as error:
        raise Refusal(Problem(str(folder), str(error), "fix that, and delete the folder")) from error
    except WorkerError as error:
        raise Refusal(Problem("tests", str(error), "fix that, and delete the folder")) from error
    repository = Repository(folder, folder / ".git")
    there = {PLAN: _filled(plan, {"@TESTS@": tests}), GITIGNORE: texts[GITIGNORE]}
    return Sample(repository, there, templates, _settings(f"{python} {TESTS}"))


def _take(folder: Path) -> None:
    """Create the folder, or use an empty one. Raises Refusal for any other, OSError."""
    if folder.is_dir():
        what = "is not empty" if any(folder.iterdir()) else ""
    else:
        what = "is not a folder" if folder.exists() or folder.is_symlink() else ""
    if what:
        other = next(one for n in count(2) if not os.path.lexists(one := Path(f"{folder}-{n}")))
        raise Refusal(
            Problem(str(folder), what, "name another folder: orchestrate demo DIR"),
            next_action=f"orchestrate demo {shlex.quote(str(other))}",
        )
    folder.mkdir(parents=True, exist_ok=True)


def python_for_workers(environ: Mapping[str, str]) -> str:
    """Return a Python as the workers' PATH finds it, so that the committed tickets hold no path of ours."""
    path = environ.get("PATH", os.defpath)
    for name in ("python3", Path(sys.executable).name):
        if shutil.which(name, path=path):
            return name
    return sys.executable


def _settings(tests: str) -> bytes:
    """Return the settings that `init` writes, with the tests as the gate and as the project's check."""
    text, said = default_settings(), json.dumps(tests)
    return text.replace("# gate = []", f"gate = [{said}]").replace('# test = ""', f"test = {said}").encode()


def _counted(folder: Path, tests: str, facts: Facts, environ: Mapping[str, str]) -> str:
    """Run the tests of the package, and describe the result: STATUS.md states only measured figures."""
    commit = git_line("rev-parse", "HEAD", cwd=folder)
    [figure] = verify(
        folder, {"test": tests}, commit=commit, changed=False, at=facts.at, environ=environ, timeout=_LONGEST
    )
    return figure.in_words()


def _shipped() -> Iterator[tuple[str, bytes]]:
    """Yield each file of the sample: its path in the repository and its bytes."""
    here = files("orchestrator.demo")
    yield PROGRAM, (here / "fix_faults.py").read_bytes()
    yield GITIGNORE, b"__pycache__/\n"
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
    git("init", "--quiet", "--template=", cwd=folder)
    git("symbolic-ref", "HEAD", "refs/heads/main", cwd=folder)
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
