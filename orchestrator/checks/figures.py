"""The results of checks, as kept below `.taskers/checks/`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from orchestrator.state.facts import percent
from workers.files.run_dir import read_json

FOLDER = ".taskers/checks"
NAMES = ("smoke", "unit", "integration", "test")


class Figure(NamedTuple):
    """The result of one check, at one commit."""

    name: str
    command: str
    commit: str
    changed: bool
    """There were uncommitted changes: the commit alone may give another result."""
    at: str
    passed: bool
    ended: str
    """How the command ended: `exit code 0`, `timed out`."""
    good: int
    total: int
    source: Literal["junit", "printed", "exit code"]
    seconds: float
    output: str

    def how(self) -> str:
        """Describe how the command ended, with its count of tests where it printed one."""
        return self.ended + (f", {self.good}/{self.total} passing" if self.source != "exit code" else "")

    def in_words(self) -> str:
        """Describe the result as a status report does."""
        text = f"{self.good}/{self.total} passing ({percent(self.good, self.total)}%)"
        # All counted tests may pass and the command still fail.
        text += f", failed: {self.ended}" if self.good == self.total and not self.passed else ""
        return f"{text}, {self.where()}"

    def where(self) -> str:
        """Describe what was tested."""
        return f"at {self.commit[:10] or 'no commit'}{' with changes' if self.changed else ''}"


def known_figures(root: Path) -> tuple[Figure, ...]:
    """Return the newest figure of each check, in the order of NAMES."""
    found: dict[str, Figure] = {}
    folder = root / FOLDER
    stamps = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    for stamp in stamps:
        for name in NAMES:
            record = read_json(stamp / f"{name}.json")
            if record is not None and set(record) == set(Figure._fields):
                found[name] = Figure(**record)
    return tuple(found[name] for name in NAMES if name in found)


def tests_among(commands: Mapping[str, str]) -> dict[str, str]:
    """Return the commands that run the project's tests: all at once, else by kind, else the smoke test."""
    for names in (("test",), ("unit", "integration"), ("smoke",)):
        found = {name: commands[name] for name in names if commands.get(name)}
        if found:
            return found
    return {}


def total_of(figures: Sequence[Figure]) -> str:
    """Describe the result of all tests of one commit; empty where none were run."""
    good, total = sum(one.good for one in figures), sum(one.total for one in figures)
    return f"{good}/{total} passing ({percent(good, total)}%), {figures[0].where()}" if figures else ""


def red_tests(root: Path) -> str:
    """Describe the tests that failed when they last ran, at the commit that HEAD still is; else empty.

    A command that runs them first would fail again.
    """
    known = {one.name: one for one in known_figures(root)}
    ran = [known[name] for name in tests_among({name: one.command for name, one in known.items()})]
    if all(one.passed for one in ran):
        return ""
    from workers.git.run import GitError, git_line  # noqa: PLC0415 - for start-up time: few have failed

    try:
        head = git_line("rev-parse", "HEAD", cwd=root)
    except GitError:
        return ""
    here = (one for one in ran if not one.passed and one.commit == head)
    return next((f"[checks] {one.name} failed ({one.how()}): see {one.output}" for one in here), "")
