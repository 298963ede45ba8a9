"""Complete plans: a commit of the worker's scope, held by a ref, on which the plan's check has passed."""

from typing import NamedTuple

import anyio.to_thread

from orchestrator.execute.attempt import started_job
from orchestrator.execute.command import run_check
from orchestrator.execute.landable import landable
from orchestrator.execute.runtime import Runtime
from orchestrator.state.phases.phase_status.moves import failed_check
from orchestrator.state.phases.plan_file import PhasePlan
from tickets.ticket import Ticket
from workers.engine.check import CheckResult
from workers.errors import WorkerError
from workers.git.run import GitError, git

REFS = "refs/orchestrate/plans"
LAST = 40
"""Lines of a failed check that its worker finds in its scratch folder."""


class Snapshot(NamedTuple):
    """The result of completing a plan."""

    commit: str | None = None
    verified: bool = False
    refused: str = ""
    """Why the plan is not complete."""


async def complete(runtime: Runtime, ticket: Ticket, phase: str, plan: PhasePlan) -> Snapshot:
    """Commit what a worker's scope holds now, and run the plan's check on that commit."""
    try:
        commit, tree = await anyio.to_thread.run_sync(_committed, runtime, ticket, phase, plan)
    except (WorkerError, GitError) as error:
        return Snapshot(refused=f"{plan.id} could not be committed: {error}")
    if plan.verify is None:
        return Snapshot(commit)
    name, base = f"{ticket.worker}.plan-{plan.id}", runtime.of(ticket).base
    try:
        cwd = ticket.cwd or runtime.settings.checks.cwd
        result = await run_check(runtime, name, plan.verify, tree, base, ticket=ticket, cwd=cwd)
    except (WorkerError, GitError, OSError) as error:
        return Snapshot(commit, refused=f"{plan.id} could not be checked: {error}")
    if result.passed:
        return Snapshot(commit, verified=True)
    return Snapshot(commit, refused=_refusal(runtime, ticket, plan, result))


def hold(runtime: Runtime, phase: str, plan: str, commit: str) -> None:
    """Hold the commit of a plan by a ref, as long as its row names it. Raises GitError."""
    where = f"--git-dir={runtime.repository.common}"
    git(where, "update-ref", f"{REFS}/{phase}/{plan}", commit, cwd=runtime.repository.root)


def _committed(runtime: Runtime, ticket: Ticket, phase: str, plan: PhasePlan) -> tuple[str, str]:
    """Return the commit of a worker's scope, and its tree; the base where nothing has changed."""
    base = runtime.of(ticket).base
    found = runtime.engine.look(started_job(runtime, ticket))
    changes = landable(ticket, found.changes, runtime.manifest.scopes[ticket.id]) if found else ()
    tree = runtime.checker.tree_with(base, changes)
    if not changes:
        return base, tree
    return runtime.checker.commit(tree, base, f"Plan {plan.id} of {phase}: {plan.title}"), tree


def _refusal(runtime: Runtime, ticket: Ticket, plan: PhasePlan, result: CheckResult) -> str:
    """Return why a plan is not complete; its worker finds the last lines in its scratch folder."""
    lines, scratch = result.tail.splitlines()[-LAST:], runtime.run.scratch(ticket.worker)
    scratch.mkdir(parents=True, exist_ok=True)
    (scratch / f"plan-{plan.id}.txt").write_text("\n".join(lines) + "\n")
    return failed_check(plan.id, result.command, result.exit_code or result.end, lines)
