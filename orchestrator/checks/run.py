"""Checks run below a shim, one after another, and counted by what they print or write."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread

from orchestrator.checks.figures import FOLDER, Figure
from orchestrator.errors import Refusal
from orchestrator.redaction import redactor_of
from orchestrator.settings.toml_text import FILE
from orchestrator.settings.values import Checks
from tickets.problems import Problem
from workers.engine.command import Command, Ran, describe_end, run_command
from workers.engine.launch import common_environment
from workers.engine.process import open_fork_server
from workers.files.durable import create_file
from workers.files.read import read_whole
from workers.files.run_dir import create_json
from workers.shim.spec import Limits
from workers.worktree.worktree import remove_tree

JUNIT = "ORCHESTRATE_JUNIT"
"""The variable that names the file in which a check may leave its results as JUnit XML."""

_CHECKS = Checks()
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


def verify(
    root: Path,
    commands: Mapping[str, str],
    *,
    commit: str,
    changed: bool,
    at: datetime,
    environ: Mapping[str, str],
    timeout: float,
    checks: Checks = _CHECKS,
    say: Callable[[str], None] | None = None,
) -> tuple[Figure, ...]:
    """Run checks one after another in the work tree, each within `timeout` seconds with its whole tree.

    `checks` are the settings that say with which variables, and in which folder; `say` gets a line as each
    begins and ends.
    Their output and results are kept below `.taskers/checks/`. Raises Refusal, WorkerError.
    """
    if not (root / checks.cwd).is_dir():
        what = f"`[checks] cwd`: there is no folder `{checks.cwd}`"
        raise Refusal(Problem(FILE, what, "write the path of one, relative to the root"))
    folder = _new_folder(root, at)
    tell = say or (lambda _: None)

    async def run_all() -> list[Figure]:
        async with open_fork_server(folder / "shims.log") as fork_server:
            found = []
            for name, text in commands.items():
                command = _command(folder, root, name, text, environ=environ, timeout=timeout)
                command = command._replace(cwd=root / checks.cwd, env={**command.env, **checks.env})
                tell(f"check {name}: `{text}` runs, {timeout:g} s at most (--timeout)")
                ran = await run_command(fork_server, command, tail=_READ)
                one = await anyio.to_thread.run_sync(partial(_figure, root, command, ran))
                tell(f"check {name}: {'passed' if one.passed else one.ended} in {one.seconds:.1f} s")
                found.append(one)
            return found

    made = [one._replace(commit=commit, changed=changed, at=at.isoformat(timespec="seconds"))
            for one in anyio.run(run_all)]  # fmt: skip
    redactor = redactor_of(root, environ)
    for one in made:
        create_json(folder / f"{one.name}.json", redactor.value(one._asdict())[0])
    remove_tree(folder / "scratch")
    return tuple(made)


def keep_figure(root: Path, figure: Figure, at: datetime) -> None:
    """Keep a figure that was found in another way with those of the checks. Raises OSError."""
    folder = _new_folder(root, at)
    create_json(folder / f"{figure.name}.json", figure._asdict())
    (folder / "scratch").rmdir()


def counted(text: str) -> tuple[int, int] | None:
    """Read (passed, all) from the output of a test runner: the last summary counts."""
    best: tuple[int, tuple[int, int]] | None = None
    for at, found in _summaries(text):
        if best is None or at >= best[0]:
            best = at, found
    return best[1] if best else None


def counted_junit(text: bytes) -> tuple[int, int] | None:
    """Read (passed, all) from JUnit XML; skipped tests are not counted. None where it cannot be read."""
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
            # Cargo prints one for each crate, and all of them count.
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
        return folder


def _command(
    folder: Path, root: Path, name: str, text: str, *, environ: Mapping[str, str], timeout: float
) -> Command:
    return Command(
        text,
        folder,
        name,
        cwd=root,
        env={
            **common_environment(environ),
            JUNIT: str(folder / f"{name}.xml"),
            "PYTHONPYCACHEPREFIX": str(folder / "scratch" / "pycache"),
            "GIT_OPTIONAL_LOCKS": "0",
        },
        limits=Limits(timeout, 5.0),
        cancel_paths=(folder / f"{name}.cancel",),
        mark=f"{folder.name}/check-{name}",
        # No process adopts a check: its answer is for the caller, and ends with it.
        stops_with_runtime=True,
    )


def _figure(root: Path, command: Command, ran: Ran) -> Figure:
    junit = Path(command.env[JUNIT])
    found = counted_junit(read_whole(junit)) if junit.is_file() else None
    source: Literal["junit", "printed", "exit code"] = "junit"
    if found is None:
        found, source = counted(ran.stdout) or counted(ran.stderr), "printed"
    if found is None or not found[1]:
        found, source = (int(ran.passed), 1), "exit code"
    how = describe_end(ran.ended.end, ran.ended.exit_code)
    output, seconds = ran.output.relative_to(root).as_posix(), round(ran.ended.seconds, 3)
    return Figure(command.stem, command.text, "", False, "", ran.passed, how, *found, source, seconds, output)
