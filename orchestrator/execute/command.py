"""The project's own commands on a tree that may land: acceptance, gate, hooks; each by the run's engine."""

from collections.abc import Mapping

from orchestrator.execute.runtime import Runtime
from orchestrator.execute.workspace import set_up_of
from orchestrator.runs.events import TreeSetUp
from tickets.ticket import Ticket
from workers.engine.check import EVIDENCE, Check, CheckResult
from workers.engine.job import EngineEvent, SetUpRan
from workers.shim.spec import Limits


async def run_check(
    runtime: Runtime,
    name: str,
    command: str,
    tree: str,
    parent: str,
    *,
    ticket: Ticket | None = None,
    cwd: str = "",
    head: str = "",
    files: Mapping[str, bytes] | None = None,
) -> CheckResult:
    """Run one command by `sh -c` in a fresh worktree of `tree`, set up like a worker's, without any key.

    `name`, `cwd`, `head` and `files` as in `Check`; `ticket` is the one whose work is checked. A command that
    did not get to run, or whose shim is gone, is no evidence about the work: it is run once more.
    """
    limits = runtime.settings.limits
    check = Check(
        name,
        command,
        tree,
        parent,
        set_up_of(runtime.settings, ticket),
        Limits(limits.acceptance_timeout, limits.grace, limits.output_cap),
        network=runtime.settings.agent("command").network == "open",
        worker=ticket.worker if ticket else "",
        head=head,
        files=files or {},
        env=ticket.env if ticket else {},
        cwd=cwd,
    )

    def note(event: EngineEvent) -> None:
        if isinstance(event, SetUpRan):
            runtime.note(TreeSetUp(*event))

    result = await runtime.engine.check(check, note)
    if result.end not in (*EVIDENCE, "cancelled") and not runtime.stopping:
        result = await runtime.engine.check(check, note)
    return result
