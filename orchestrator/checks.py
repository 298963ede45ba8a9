"""The project's own checks: run below a shim, counted by what they printed or wrote, kept by commit."""

import re
import signal
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import anyio
import anyio.to_thread

from orchestrator.state.facts import percent
from workers.agents.follow import read_tail
from workers.engine.launch import common_environment
from workers.engine.process import open_nursery, stop
from workers.files.durable import create_file
from workers.files.exit_record import Exit
from workers.files.read import read_whole
from workers.files.run_dir import create_json, read_json
from workers.shim.spec import Launch, Limits
from workers.worktree.worktree import remove_tree

FOLDER = ".taskers/checks"
JUNIT = "ORCHESTRATE_JUNIT"
"""The variable that names the file in which a check may leave its results as JUnit XML."""
NAMES = ("smoke", "unit", "integration", "test")

_READ = 65536
_PATTERNS = (
    re.compile(r"^test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed", re.MULTILINE),
    re.compile(r"^Tests:.*?\b(?P<passed>\d+) passed, (?P<total>\d+) total", re.MULTILINE),
    re.compile(r"\b(?P<passed>\d+)\s*/\s*(?P<total>\d+) (?:tests? )?pass"),
)
_WORDS = re.compile(r"\b(\d+) (passed|failed|errors?|xfailed|xpassed)\b")
_PYTEST = re.compile(r"^(?:=+ )?(?=.*\b\d+ (?:passed|failed|error))(.*?) in [\d.]+", re.MULTILINE)
_UNITTEST = re.compile(r"^Ran (\d+) tests? in .*?^(OK|FAILED)\b(.*)$", re.MULTILINE | re.DOTALL)
_TAP = re.compile(r"^# (tests|pass) (\d+)$", re.MULTILINE)


class Figure(NamedTuple):
    """What one check came to, at one commit."""

    name: str
    command: str
    commit: str
    changed: bool
    """There were uncommitted changes: the commit alone may come to something else."""
    at: str
    passed: bool
    ended: str
    """How the command ended: `exit code 0`, `timed out`."""
    good: int
    total: int
    source: Literal["junit", "printed", "exit code"]
    seconds: float
    output: str

    def in_words(self) -> str:
        """Say it as a status report does."""
        text = f"{self.good}/{self.total} passing ({percent(self.good, self.total)}%)"
        # All that was counted may pass and the command fail all the same.
        text += f", failed: {self.ended}" if self.good == self.total and not self.passed else ""
        return f"{text}, {self.where()}"

    def where(self) -> str:
        """Describe what was tested."""
        return f"at {self.commit[:10] or 'no commit'}{' with changes' if self.changed else ''}"


def known_figures(root: Path) -> tuple[Figure, ...]:
    """Give the newest figure of each check that was run, in the order of NAMES."""
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
    """Give the commands that run the project's tests: all at once, else by kind, else the smoke test."""
    for names in (("test",), ("unit", "integration"), ("smoke",)):
        found = {name: commands[name] for name in names if commands.get(name)}
        if found:
            return found
    return {}


def total_of(figures: Sequence[Figure]) -> str:
    """Describe the result of all tests of one commit; empty where none were run."""
    good, total = sum(one.good for one in figures), sum(one.total for one in figures)
    return f"{good}/{total} passing ({percent(good, total)}%), {figures[0].where()}" if figures else ""


def verify(
    root: Path,
    commands: Mapping[str, str],
    *,
    commit: str,
    changed: bool,
    at: datetime,
    environ: Mapping[str, str],
    timeout: float,
) -> tuple[Figure, ...]:
    """Run checks one after the other in the work tree, each within `timeout` seconds, its whole tree dead.

    What they printed and how they ended is kept below `.taskers/checks/`. Raises WorkerError.
    """
    folder = _new_folder(root, at)

    async def all_of_them() -> list[Figure]:
        async with open_nursery(folder / "shims.log") as nursery:
            found = []
            for name, command in commands.items():
                launch = _launch(folder, root, name=name, command=command, environ=environ, timeout=timeout)
                ended: Exit | None = None
                try:
                    ended = await nursery.run(launch)
                finally:
                    if ended is None:
                        with anyio.CancelScope(shield=True):
                            await stop(launch)
                found.append(
                    await anyio.to_thread.run_sync(partial(_figure, root, folder, name, command, ended))
                )
            return found

    made = [one._replace(commit=commit, changed=changed, at=at.isoformat(timespec="seconds"))
            for one in anyio.run(all_of_them)]  # fmt: skip
    for one in made:
        create_json(folder / f"{one.name}.json", one._asdict())
    remove_tree(folder / "scratch")
    return tuple(made)


def counted(text: str) -> tuple[int, int] | None:
    """Read (passed, all) from what a test runner printed: the last summary counts."""
    best: tuple[int, tuple[int, int]] | None = None
    for at, found in _summaries(text):
        if best is None or at >= best[0]:
            best = at, found
    return best[1] if best else None


def counted_junit(text: bytes) -> tuple[int, int] | None:
    """Read (passed, all) from JUnit XML; what was skipped is neither. None where it cannot be read."""
    from xml.etree import ElementTree as ET  # noqa: PLC0415 - rarely needed; entities are refused below

    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
        return None
    try:
        cases = list(ET.fromstring(text).iter("testcase"))  # noqa: S314 - as above
    except ET.ParseError:
        return None
    kinds = [{child.tag for child in case} for case in cases]
    counting = [kind for kind in kinds if "skipped" not in kind]
    return sum(not kind & {"failure", "error"} for kind in counting), len(counting)


def _summaries(text: str) -> list[tuple[int, tuple[int, int]]]:
    found = []
    for pattern in _PATTERNS:
        matches = list(pattern.finditer(text))
        named = [match.groupdict() for match in matches]
        goods = [int(one["passed"]) for one in named]
        full = [int(one.get("total") or int(one["passed"]) + int(one.get("failed") or 0)) for one in named]
        sums = list(zip(goods, full, strict=True))
        if sums and "failed" in named[0]:
            # Cargo says it once for each crate, and all of them count.
            sums = [(sum(good for good, _ in sums), sum(total for _, total in sums))]
        found += [(matches[-1].start(), sums[-1])] if sums else []
    for match in _PYTEST.finditer(text):
        number = {word.rstrip("s"): int(count) for count, word in _WORDS.findall(match[1])}
        good = number.get("passed", 0) + number.get("xfailed", 0) + number.get("xpassed", 0)
        found.append((match.start(), (good, good + number.get("failed", 0) + number.get("error", 0))))
    for match in _UNITTEST.finditer(text):
        bad = sum(int(count) for count in re.findall(r"(?:failures|errors)=(\d+)", match[3]))
        found.append((match.start(), (int(match[1]) - bad, int(match[1]))))
    taps = {match[1]: (int(match[2]), match.start()) for match in _TAP.finditer(text)}
    if len(taps) == len(("tests", "pass")):
        found.append((taps["pass"][1], (taps["pass"][0], taps["tests"][0])))
    return found


def _new_folder(root: Path, at: datetime) -> Path:
    base = root / FOLDER
    base.mkdir(parents=True, exist_ok=True)
    ignore = root / ".taskers" / ".gitignore"
    if not ignore.exists():
        create_file(ignore, b"*\n")
    number = 1
    while True:
        stem = at.strftime("%Y%m%d_%H%M%S")
        folder = base / (stem if number == 1 else f"{stem}_{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
            continue
        (folder / "scratch").mkdir()
        (folder / "nothing").touch()
        return folder


def _launch(
    folder: Path, root: Path, *, name: str, command: str, environ: Mapping[str, str], timeout: float
) -> Launch:
    env = {
        **common_environment(environ),
        JUNIT: str(folder / f"{name}.xml"),
        "PYTHONPYCACHEPREFIX": str(folder / "scratch" / "pycache"),
        "GIT_OPTIONAL_LOCKS": "0",
    }
    return Launch(
        worker=f"check-{name}",
        argv=("sh", "-c", command),
        env=env,
        cwd=root,
        stdin=folder / "nothing",
        stdout=folder / f"{name}.stdout",
        stderr=folder / f"{name}.stderr",
        started_record=folder / f"{name}.started.json",
        exit_record=folder / f"{name}.exit.json",
        capture="pipe",
        limits=Limits(timeout, 5.0),
        cancel_paths=(folder / f"{name}.cancel",),
        soft_signal=signal.SIGTERM,
        # Nobody adopts a check: its answer is for who asked, and goes with it.
        stops_with_runtime=True,
        mark=f"{folder.name}/check-{name}",
    )


def _figure(root: Path, folder: Path, name: str, command: str, ended: Exit) -> Figure:
    passed = ended.end == "exited" and ended.exit_code == 0
    printed = read_tail(folder / f"{name}.stdout", _READ), read_tail(folder / f"{name}.stderr", _READ)
    junit = folder / f"{name}.xml"
    found = counted_junit(read_whole(junit)) if junit.is_file() else None
    source: Any = "junit"
    if found is None:
        found, source = counted(printed[0]) or counted(printed[1]), "printed"
    if found is None or not found[1]:
        found, source = (int(passed), 1), "exit code"
    how = f"exit code {ended.exit_code}" if ended.end == "exited" else ended.end.replace("_", " ")
    stream = "stdout" if printed[0] or not printed[1] else "stderr"
    output = (folder / f"{name}.{stream}").relative_to(root).as_posix()
    return Figure(name, command, "", False, "", passed, how, *found, source, round(ended.seconds, 3), output)
