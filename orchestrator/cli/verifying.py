"""What the commands share that can run the project's own checks: their options, and the call."""

import argparse
import os
from collections.abc import Sequence

from orchestrator.errors import Refusal
from tickets.problems import Problem

TIMEOUT = 300.0
"""Seconds for one check, where nobody says otherwise."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

    from orchestrator.settings.settings import Settings
    from workers.git.run import Repository


def add_verify_arguments(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare how the checks are asked for."""
    parser.add_argument("--verify", action="store_true", help=f"{what} (`[checks]` in orchestrate.toml)")
    parser.add_argument("--timeout", type=float, default=TIMEOUT, metavar="S",
                        help=f"most seconds for one check (default: {TIMEOUT:g})")  # fmt: skip


def run_checks(
    repository: "Repository", settings: "Settings", names: Sequence[str], at: "datetime", timeout: float
) -> list[Problem]:
    """Run the named checks that are set; give what is wrong. Raises Refusal, WorkerError."""
    from orchestrator.checks.run import verify  # noqa: PLC0415 - only if asked
    from orchestrator.store.repo import UserRepo  # noqa: PLC0415 - only if asked

    if not timeout > 0:
        raise Refusal(Problem("--timeout", f"{timeout:g} is no time to wait", "write more than 0"))
    stated = settings.checks._asdict()
    commands = {name: stated[name] for name in names if stated[name]}
    if not commands:
        keys = ", ".join(names)
        what = f"nothing is set to verify with ({keys})"
        return [Problem("orchestrate.toml", what, "set it below `[checks]`", "warning")]
    repo = UserRepo(repository)
    head = repo.head()
    figures = verify(
        repository.root,
        commands,
        commit=head.sha or "",
        changed=bool(repo.uncommitted()),
        at=at,
        environ=dict(os.environ),
        timeout=timeout,
    )
    return [
        Problem(f"[checks] {one.name}", f"`{one.command}` failed ({one.ended})", f"see {one.output}")
        for one in figures
        if not one.passed
    ]
