"""The directory of one run: files are created there, never replaced; the journal is only appended to."""

import contextlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from tickets.value import Value
from workers.files.read import NotRegularError, read_whole

RUNS = ".taskers/runs"
MESSAGES = ".taskers/messages"
"""The folder of the message logs of all runs."""
ARCHIVE = ".taskers/archive"
"""The folder of packed runs."""
STARTED = ".started.json"
"""Suffix of the file by which a shim reports that it has begun."""
LARGEST = 1 << 26
"""The most bytes of a record: as values it takes many times its size."""
_encoded = json.JSONEncoder().encode


class AttemptFiles(Value):
    """The files of one attempt of one worker."""

    text: Path
    stdout: Path
    stderr: Path
    record: Path
    patch: Path
    started: Path
    exit: Path
    busy: Path
    """Exists while a tool call of the worker is open: it is not idle then, however quiet."""
    done: Path
    """Created when the terminal record came and the worker did not exit."""


class RunDir(Value):
    """One run's directory below `.taskers/runs/`."""

    root: Path
    """The repository's root."""
    id: str

    @property
    def path(self) -> Path:
        """Return the directory itself."""
        return _folder_of(self)

    @property
    def manifest_path(self) -> Path:
        """Return the path of `run.json`."""
        return self.path / "run.json"

    @property
    def roster_path(self) -> Path:
        """Return the path of `roster.json`: the workers of the run, for commands that need no more."""
        return self.path / "roster.json"

    @property
    def closed_path(self) -> Path:
        """Return the file that exists once nothing more can happen in the run."""
        return self.path / "closed"

    @property
    def stopping_path(self) -> Path:
        """Return the file that stops all workers with their runtime; the next runtime removes it."""
        return _cancel_of(self, ".runtime")

    def cancelled(self) -> list[str]:
        """List the workers that the lead has cancelled; `all` among them is the whole run."""
        try:
            names = [entry.name for entry in os.scandir(self.path / "cancel")]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [name for name in names if not name.startswith(".")]

    def cancel(self, names: Sequence[str]) -> None:
        """Request that these workers stop: their runtime and their shims both see it, if alive."""
        folder = self.path / "cancel"
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / name).touch()

    def attempt(self, worker: str, number: int) -> AttemptFiles:
        """Return an attempt's files: the first has the plain names, the second `Codex-Worker-3.2.*`."""
        return _attempt_of(self, worker, number)

    def started_attempts(self) -> dict[str, int]:
        """Return the newest attempt of each worker that a shim has begun, from the files that shims leave."""
        try:
            names = [entry.name for entry in os.scandir(self.path / "shims")]
        except (FileNotFoundError, NotADirectoryError):
            return {}
        found: dict[str, int] = {}
        for stem in (name.removesuffix(STARTED) for name in names if name.endswith(STARTED)):
            worker, _, number = stem.partition(".")
            found[worker] = max(found.get(worker, 0), int(number) if number.isdigit() else 1)
        return found

    def ticket(self, worker: str, number: int = 1) -> Path:
        """Return the path of a worker's rendered ticket, or of a later attempt's message."""
        return _ticket_of(self, worker, number)

    def earlier_patch(self, worker: str) -> Path:
        """Return the path of the changes of an earlier run that a worker goes on from."""
        return self.path / f"{worker}.earlier.patch"

    def worktree(self, worker: str) -> Path:
        """Return the path of a worker's worktree."""
        return _below(self, "worktrees", worker)

    def scratch(self, worker: str) -> Path:
        """Return the directory that is a worker's TMPDIR."""
        return _below(self, "scratch", worker)

    def home(self, worker: str) -> Path:
        """Return the private directory for a worker's CLI configuration; codex refuses one below TMPDIR."""
        return _below(self, "homes", worker)

    def cancel_path(self, name: str) -> Path:
        """Return the file that stops a worker, or `all` of them."""
        return _cancel_of(self, name)

    def relative(self, path: Path) -> str:
        """Return a path as people and JSON see it: relative to the root."""
        return path.relative_to(self.root).as_posix()


# Called a dozen times for each worker: to make these values takes longer than to use them.


@lru_cache(maxsize=16)
def _folder_of(run: RunDir) -> Path:
    return run.root / RUNS / run.id


@lru_cache(maxsize=256)
def _below(run: RunDir, kind: str, worker: str) -> Path:
    return run.root / f".taskers/{kind}/{run.id}/{worker}"


@lru_cache(maxsize=256)
def _ticket_of(run: RunDir, worker: str, number: int) -> Path:
    return run.path / f"tickets/{worker}{'' if number == 1 else f'.{number}'}.md"


@lru_cache(maxsize=64)
def _cancel_of(run: RunDir, name: str) -> Path:
    return run.path / f"cancel/{name}"


@lru_cache(maxsize=256)
def _attempt_of(run: RunDir, worker: str, number: int) -> AttemptFiles:
    stem = worker if number == 1 else f"{worker}.{number}"
    shims = run.path / "shims"
    return AttemptFiles(
        text=run.path / f"{stem}.txt",
        stdout=run.path / f"{stem}.stdout",
        stderr=run.path / f"{stem}.stderr",
        record=run.path / f"{stem}.json",
        patch=run.path / f"{stem}.patch",
        started=shims / f"{stem}{STARTED}",
        exit=shims / f"{stem}.exit.json",
        busy=shims / f"{stem}.busy",
        done=shims / f"{stem}.done",
    )


def new_run_dir(root: Path, at: datetime, taken: Collection[str] = ()) -> RunDir:
    """Create the directory of a new run, named by the second (UTC); a second one of that time gets `_2`.

    `taken` are the ids of runs in the repository's other work trees.
    """
    from workers.files.durable import create_file  # noqa: PLC0415 - as in `create_json`

    stem = at.astimezone(UTC).strftime("%Y%m%d_%H%M%S")
    (root / RUNS).mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        # A repository that `init` never saw must not show our files as its own.
        create_file(root / ".taskers" / ".gitignore", b"*\n")
    number = 1
    while True:
        run = RunDir(root, stem if number == 1 else f"{stem}_{number}")
        number += 1
        if run.id in taken:
            continue
        try:
            run.path.mkdir()
        except FileExistsError:
            continue
        for name in ("tickets", "shims", "checks"):
            (run.path / name).mkdir()
        return run


def runs_of(root: Path, *, closed: bool = True) -> list[RunDir]:
    """List the runs that have a manifest, oldest first; one without it never started anything.

    With `closed=False`, only those in which something can still happen.
    """
    try:
        names = sorted((entry.name for entry in os.scandir(root / RUNS)), key=age)
    except (FileNotFoundError, NotADirectoryError):
        return []
    # A thousand old runs are listed each time: path objects would take longer than all else.
    prefix = f"{root}/{RUNS}/"
    return [
        RunDir(root, name)
        for name in names
        if (closed or not os.access(f"{prefix}{name}/closed", os.F_OK))
        # A run with a journal has begun: a lost manifest must be reported, and not hide the run.
        and any(os.access(f"{prefix}{name}/{one}", os.F_OK) for one in ("run.json", "events.jsonl"))
    ]


def later_runs(run: RunDir) -> list[RunDir]:
    """List the runs that are younger than one, oldest first; only their names are read."""
    try:
        names = [entry.name for entry in os.scandir(run.root / RUNS)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [RunDir(run.root, name) for name in sorted(names, key=age) if age(name) > age(run.id)]


def age(name: str) -> tuple[str, int]:
    """Return what sorts the ids of runs by their age."""
    # `_10` is younger than `_2`, which plain sorting gets wrong.
    stem, _, rest = name[:15], name[15:16], name[16:]
    return stem, int(rest) if rest.isdigit() else 1


def create_json(path: Path, value: Mapping[str, Any]) -> None:
    """Create a JSON file whole or not at all, one field a line."""
    from workers.files.durable import create_file  # noqa: PLC0415 - for start-up time: readers write nothing

    create_file(path, json_lines(value))


def json_lines(value: Mapping[str, Any]) -> bytes:
    """Format an object as JSON, one field a line."""
    # Not by `indent`, with which the encoder walks through the whole value in Python.
    fields = ",\n".join([f" {_as_json(name)}: {_as_json(field)}" for name, field in value.items()])
    return f"{{\n{fields}\n}}\n".encode()


def _as_json(value: object) -> str:
    # The types of most fields, without the encoder, which is made anew for each value.
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case [] | ():
            return "[]"
        case _:
            return _encoded(value)


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None where there is no such file, or an incomplete one."""
    try:
        found = json.loads(read_whole(path, LARGEST))
    except (FileNotFoundError, NotADirectoryError, NotRegularError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def is_empty(folder: Path) -> bool:
    """Return whether a folder is empty; one that cannot be listed counts as full."""
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError:
        return False
