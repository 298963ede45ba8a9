"""The project's own checks, run by commands that were asked to."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from orchestrator.errors import Refusal
from tickets.problems import Problem
from workers.git.run import Repository

if TYPE_CHECKING:
    from orchestrator.checks.figures import Figure
    from orchestrator.settings.values import Tables

NAMES = ("smoke", "unit", "integration", "test")
"""All checks, in the order in which they run."""
TIMED_OUT = "timed out"
TIMEOUT = 300.0
"""Seconds for one check, where no other limit is stated."""


def run_checks(
    repository: Repository, settings: "Tables", names: Sequence[str], *, at: datetime, timeout: float,
    environ: Mapping[str, str], say: "Callable[[str], None] | None",
) -> list[Problem]:  # fmt: skip
    """Run the named checks that are set; return their problems. Raises Refusal, WorkerError."""
    if not timeout > 0:
        raise Refusal(Problem("--timeout", f"{timeout:g} is not a valid timeout", "write more than 0"))
    stated = settings.checks._asdict()
    commands = {name: stated[name] for name in names if stated[name]}
    if not commands:
        what = f"nothing is set to verify with ({', '.join(names)})"
        return [Problem("orchestrate.toml", what, "set it below `[checks]`", "warning")]
    from orchestrator.checks.run import verify  # noqa: PLC0415 - for start-up time: it imports anyio
    from orchestrator.store.repo import UserRepo  # noqa: PLC0415 - as above

    repo = UserRepo(repository)
    figures = verify(
        repository.root, commands, commit=repo.head().sha or "", changed=bool(repo.uncommitted()), at=at,
        environ=environ, timeout=timeout, checks=settings.checks, say=say,
    )  # fmt: skip
    return failures(repository, figures)


def failures(
    repository: Repository, figures: "Sequence[Figure]", then: str = "", also: str = ""
) -> list[Problem]:
    """Return a problem for each check that failed: how many tests did, and the line that tells most."""
    from orchestrator.runs.check_output import telling_line  # noqa: PLC0415 - for start-up time

    more = ", or give it longer by `--timeout S`"
    return [
        Problem(
            f"[checks] {one.name}",
            f"`{one.command}` failed ({one.how()}){then}" + (f": {line}" if line else ""),
            f"see {one.output}{more if one.ended == TIMED_OUT else ''}{also}",
        )
        for one in figures
        if not one.passed
        for line in (telling_line(repository.root, one.output),)
    ]
