"""The result of an attempt: judged by `judgement`, its acceptance commands run, its permanent record kept."""

import contextlib
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio.to_thread

from orchestrator.budget.prices import priced
from orchestrator.execute._claims import claims_of, kept_claims, result_line
from orchestrator.execute.begin import answered
from orchestrator.execute.command import run_check
from orchestrator.execute.judgement import (
    CANCELLED,
    Judgement,
    harm_at,
    in_words,
    judge,
    verdict_of,
    violations_of,
)
from orchestrator.execute.landable import landable
from orchestrator.execute.runtime import Runtime
from orchestrator.log import warning
from orchestrator.runs.events import (
    TOKENS,
    AcceptanceChecked,
    AcceptanceResult,
    Evidence,
    Try,
    Usage,
    Violation,
    WorkerEnded,
)
from orchestrator.schedule.availability import outdated_build
from tickets.redact import Counts, added, larger
from tickets.ticket import Ticket
from workers.agents.agent import Answer, agent_named
from workers.agents.agent import Usage as AgentUsage
from workers.agents.follow import read_tail
from workers.engine.check import CheckResult, full_disk, hidden_path
from workers.engine.job import Ended, Result
from workers.engine.launch import common_environment, keep_text
from workers.fence.policy import worker_walls
from workers.files.durable import create_file
from workers.files.run_dir import AttemptFiles, is_empty, json_lines
from workers.worktree.change import Change
from workers.worktree.changes import Found
from workers.worktree.environments import CACHES, files_in
from workers.worktree.worktree import remove_place


class Judged(NamedTuple):
    """The judgement of one attempt."""

    judgement: Judgement
    result: Result
    """With the exit and the answer that count."""
    violations: tuple[Violation, ...] = ()
    redacted: Counts = {}  # noqa: RUF012 - it is never changed
    """The secrets of what is kept of it for people."""


async def judge_attempt(
    runtime: Runtime, ticket: Ticket, number: int, result: Result, before: Ended | None = None
) -> Judged:
    """Judge an attempt; `before` is the one whose report it was asked to complete."""
    files = runtime.run.attempt(ticket.worker, number)
    git_writes = [*await _git_writes(runtime, ticket), *([result.left_base] if result.left_base else [])]
    found = result.found
    if found is None:
        result, redacted = _keep(runtime, ticket, files, result)
        return Judged(Judgement("failed", result.error), result, redacted=redacted)
    if before is not None:
        changed = bool(found.changes) if ticket.mode == "write" else None
        ended = answered(before, Ended(result.exit, result.answer), changed=changed)
        result = result._replace(exit=ended.exit, answer=ended.answer)
    result, redacted = _keep(runtime, ticket, files, result)
    if result.answer.ended == "success" and result.answer.error:
        warning("error after the answer", worker=ticket.worker, error=result.answer.error)
    if result.patch is not None:
        # Also over an existing one: the found changes land, whatever process has written a patch there.
        runtime.patches[runtime.run.relative(result.patch)] = found.changes
    judgement = judge(ticket, result.exit, result.answer, found.changes)
    if judgement.outcome == "failed" and (lacked := _lacked_by(runtime, ticket, files)):
        judgement = judgement._replace(reason=f"{judgement.reason}; {lacked}")
    scope, state_files = runtime.manifest.scopes[ticket.id], runtime.manifest.rules.reserved_scope
    violations = violations_of(ticket, found, scope, state_files, git_writes)
    return Judged(judgement, result, violations, redacted)


def _lacked_by(runtime: Runtime, ticket: Ticket, files: AttemptFiles) -> str:
    """Name the path that a failed worker missed because of its fence, or a full disk; `""` without a sign."""
    run, site, home = runtime.run, runtime.site, runtime.environ.get("HOME", "")
    environ = common_environment(runtime.environ)
    walls = worker_walls(
        run, site.repository, ticket.worker, mode=ticket.mode, environ=environ, readable=site.readable
    )
    printed = "\n".join(map(read_tail, (files.stderr, files.stdout)))
    return full_disk(printed) or hidden_path(site.fence.level, run.root, home, walls.shown, printed)


async def conclude(runtime: Runtime, ticket: Ticket, number: int, judged: Judged) -> None:
    """Run the acceptance commands, write the record, close the ticket, and only then remove its tree."""
    judgement, result = judged.judgement, judged.result
    checks: list[CheckResult] = []
    if judgement.outcome == "complete" and result.found is not None and result.tree is not None:
        checks = await _accept(runtime, ticket, result.found, result.tree.base)
        judged = await _after_its_code_ran(runtime, ticket, judged) if checks else judged
        failed = next((check for check in checks if not check.passed), None)
        if failed is not None and failed.end == "cancelled":
            if runtime.stopping:
                return  # stopped with the runtime, not failed: the next runtime runs it again
            judgement = judgement._replace(outcome="cancelled", reason=CANCELLED)
        elif failed is not None:
            why = "; ".join(one for one in (f"acceptance failed: {failed.in_words()}", failed.hint) if one)
            judgement = judgement._replace(outcome="failed", reason=why)
    # A patch has no changes inside submodules: its tree is the only copy.
    holds_more = result.found is None or bool(result.found.inside)
    kept = result.tree.path if result.tree is not None and holds_more else None
    judged = judged._replace(judgement=judgement)
    doubt = _doubt(runtime, ticket, result.found.changes) if result.found and checks else ""
    evidence = _evidence(runtime, ticket, number, judged, checks, kept=kept)
    if evidence.left_out:
        judgement = judgement._replace(flags=(*judgement.flags, "ignored_files"))
    end(runtime, ticket, judgement, evidence, doubt)
    if runtime.guard is not None and kept is not None:
        await anyio.to_thread.run_sync(runtime.guard.judged, ticket.worker, kept)
    if judgement.outcome not in ("cancelled", "interrupted") and kept is None:
        await clear(runtime, ticket, result)


def _doubt(runtime: Runtime, ticket: Ticket, changes: Sequence[Change]) -> str:
    """Return why the success of a ticket's checks is no evidence; empty where it is."""
    changed = () if ticket.setup else [one.path for one in changes]
    outdated = outdated_build(runtime.settings, runtime.repository.root, changed)
    return runtime.environments.doubt or outdated


def _evidence(
    runtime: Runtime,
    ticket: Ticket,
    number: int,
    judged: Judged,
    checks: Sequence[CheckResult],
    *,
    kept: Path | None,
) -> Evidence:
    """Return the findings for a worker's record when its last attempt had ended."""
    run, worker, (_, result, violations, redacted) = runtime.run, runtime.of(ticket), judged
    ended, answer, found = result.exit, result.answer, result.found
    changes = found.changes if found else ()
    landing = landable(ticket, changes, runtime.manifest.scopes[ticket.id])
    tries = (
        # An attempt that could not be asked for missing report parts has its own line already.
        *(one for one in worker.tries if one.attempt != number),
        account(runtime, ticket, number, judged),
    )
    paths = [change.path for change in changes]
    claims = None if ticket.agent == "command" else kept_claims(claims_of(answer.text, paths))
    return Evidence(
        fence=worker.fence,
        exit_code=ended.exit_code,
        signal=ended.signal,
        end=ended.end,
        attempts=number,
        seconds=ended.seconds,
        files=tuple(change.path for change in landing),
        violations=violations,
        usage=total([one.usage for one in tries]),
        tries=tries,
        claims=claims,
        output=run.relative(run.attempt(ticket.worker, number).text),
        patch=run.relative(result.patch) if result.patch else None,
        thread=answer.thread,
        ignored=(*found.ignored, *found.special) if found else (),
        left_out=_left_out(runtime, ticket, result),
        worktree=run.relative(kept) if kept else None,
        acceptance=tuple(map(_recorded, checks)),
        started_at=ended.started,
        ended_at=ended.ended,
        max_rss_kb=ended.max_rss_kb,
        summary=result_line(ticket.agent, answer) if judged.judgement.outcome == "complete" else "",
        redacted=redacted,
    )


def _left_out(runtime: Runtime, ticket: Ticket, result: Result) -> tuple[str, ...]:
    """Return what a worker wrote in its scope and git ignores, but for what tools make by the way."""
    if ticket.mode != "write" or result.found is None or result.tree is None:
        return ()
    scope, tree = runtime.manifest.scopes[ticket.id], result.tree.path
    named = [path for path in result.found.ignored if CACHES.isdisjoint(path.split("/"))]
    return tuple(path for path in named if any(map(scope.covers, files_in(tree, path))))


def _recorded(check: CheckResult) -> AcceptanceResult:
    return AcceptanceResult(
        check.command, check.passed, check.exit_code, check.end, check.seconds, check.output
    )


def account(runtime: Runtime, ticket: Ticket, number: int, judged: Judged) -> Try:
    """Return the account of an attempt, with what it alone used."""
    worker, judgement = runtime.of(ticket), judged.judgement
    ended, answer = judged.result.exit, judged.result.answer
    earlier = [one for one in worker.tries if one.attempt < number]
    if (before := worker.continues) is not None and before.thread:
        # What its thread had used in another run counts there.
        earlier.append(Try(0, before.used, agent=ticket.agent, thread=before.thread))
    return Try(
        attempt=number,
        usage=_priced(runtime, ticket, used(ticket, answer, earlier)),
        kind=worker.kind,
        agent=ticket.agent,
        outcome=judgement.outcome,
        reason=judgement.reason,
        exit_code=ended.exit_code,
        signal=ended.signal,
        seconds=ended.seconds,
        thread=answer.thread,
        models=tuple(one.model for one in answer.usage.models) if answer.usage else (),
        version=runtime.versions.of(ticket, number),
    )


def so_far(runtime: Runtime, ticket: Ticket) -> Evidence:
    """Return the known facts of a ticket that ends between two attempts, or before its first."""
    worker = runtime.of(ticket)
    files = runtime.run.attempt(ticket.worker, max(1, worker.attempts))
    evidence = Evidence(
        fence=worker.fence,
        attempts=worker.attempts,
        output=runtime.run.relative(files.text) if files.text.exists() else None,
        patch=runtime.run.relative(files.patch) if files.patch.exists() else None,
    )
    if not worker.tries:
        return evidence
    last = worker.tries[-1]
    return evidence._replace(
        exit_code=last.exit_code,
        signal=last.signal,
        seconds=last.seconds,
        thread=last.thread,
        usage=total([one.usage for one in worker.tries]),
        tries=worker.tries,
    )


def used(ticket: Ticket, answer: Answer, tries: Sequence[Try]) -> AgentUsage:
    """Return the use of one attempt alone: some CLIs report the sum of the whole resumed thread."""
    usage = answer.usage or AgentUsage()
    is_sum = agent_named(ticket.agent).SUMS_THREAD_USAGE and answer.thread is not None
    for one in tries:
        if is_sum and (one.agent, one.thread) == (ticket.agent, answer.thread):
            less = {name: max(0, getattr(usage, name) - getattr(one.usage, name)) for name in TOKENS}
            usage = usage._replace(**less)
    return usage


def _priced(runtime: Runtime, ticket: Ticket, usage: AgentUsage) -> Usage:
    model = ticket.model or runtime.settings.agent(ticket.agent).model
    cost = priced(usage, model, runtime.settings.prices)
    return Usage(usage.input_tokens, usage.output_tokens, cost.usd, usage.cached_tokens, cost.by)


def total(usages: Sequence[Usage]) -> Usage:
    """Sum up the use of a worker's attempts; USD are None where no attempt reported any."""
    costs = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    by = {usage.cost_by for usage in usages if usage.cost_usd is not None}
    return Usage(
        sum(usage.input_tokens for usage in usages),
        sum(usage.output_tokens for usage in usages),
        round(sum(costs), 6) if costs else None,
        sum(usage.cached_tokens for usage in usages),
        "table" if "table" in by else "agent" if by else "unpriced",
    )


def _keep(runtime: Runtime, ticket: Ticket, files: AttemptFiles, result: Result) -> tuple[Result, Counts]:
    """Write the file for a person, and return the result without secrets, with their counts."""
    if runtime.guard is not None:
        runtime.guard.writing(ticket.worker, files.text)
    # A program's output is all that it printed: its result line is but the last of it.
    text, counts = runtime.redactor.text("" if ticket.agent == "command" else result.answer.text)
    answer = runtime.redactor.value(result.answer)[0]
    more = keep_text(files, text, runtime.redactor)
    return result._replace(answer=answer), added((counts, more))


async def _git_writes(runtime: Runtime, ticket: Ticket) -> tuple[str, ...]:
    """Check the user's repository; return the changes that only this worker can have made."""
    if runtime.guard is None:
        return ()
    forged = runtime.forged_paths()
    running = runtime.running() if forged else ()
    for found in await runtime.guard.ended(ticket.worker, forged, running):
        runtime.note_tampering(found)
    return runtime.guard.blamed(ticket.worker)


async def _after_its_code_ran(runtime: Runtime, ticket: Ticket, judged: Judged) -> Judged:
    """Check the repository again, after acceptance commands have run the worker's code."""
    known = {violation.path for violation in judged.violations}
    new = [path for path in await _git_writes(runtime, ticket) if path not in known]
    return judged._replace(violations=(*judged.violations, *map(harm_at, new)))


async def clear(runtime: Runtime, ticket: Ticket, result: Result) -> None:
    """Remove what the patch and the record have made superfluous; a CLI's own sessions stay."""
    if result.tree is not None and not result.is_shared:
        await anyio.to_thread.run_sync(remove_place, result.tree)
    # An empty one goes with those of the whole run: ext4 looks at each inode that went in the last seconds
    # before it makes a file, and a thousand short workers would wait for that.
    if not is_empty(scratch := runtime.run.scratch(ticket.worker)):
        await anyio.to_thread.run_sync(partial(shutil.rmtree, scratch, ignore_errors=True))
    if ticket.agent != "command":
        with contextlib.suppress(OSError):
            runtime.run.home(ticket.worker).rmdir()


async def _accept(runtime: Runtime, ticket: Ticket, found: Found, base: str) -> list[CheckResult]:
    """Run the acceptance commands in a fresh tree: the base, and the part that would land."""
    if not ticket.acceptance:
        return []
    if runtime.guard is not None:
        runtime.guard.entered(ticket.worker, runtime.of(ticket).attempts)
    inside = landable(ticket, found.changes, runtime.manifest.scopes[ticket.id])
    tree = await anyio.to_thread.run_sync(runtime.checker.tree_with, base, inside)
    results: list[CheckResult] = []
    for at, command in enumerate(ticket.acceptance, 1):
        name = f"{ticket.worker}.acceptance-{at}"
        cwd = ticket.cwd or runtime.settings.checks.cwd
        result = await run_check(runtime, name, command, tree, base, ticket=ticket, cwd=cwd)
        runtime.note(AcceptanceChecked(ticket.worker, command, result.passed))
        results.append(result)
        if not result.passed:
            break
    return results


def end(runtime: Runtime, ticket: Ticket, judgement: Judgement, evidence: Evidence, doubt: str = "") -> None:
    """Write a worker's record and close its ticket; a record that an earlier runtime wrote stays.

    `doubt` is why its checks are no evidence: their success alone accepts nothing.
    """
    violations = evidence.violations
    verdict, why = verdict_of(judgement.outcome, violations, runtime.settings.integration.on_violation)
    if doubt and verdict == "accepted":
        verdict, why = "pending", f"its checks passed, but may have tested your checkout: {doubt}"
    flags = judgement.flags
    # The same secret may be in its text, and in a reason that is made of it.
    if redacted := larger(evidence.redacted, runtime.redactor.value((judgement, evidence, why))[1]):
        evidence = evidence._replace(redacted=redacted)
        flags = (*flags, "redacted")
    ended = WorkerEnded(
        ticket.worker,
        judgement.outcome,
        verdict,
        ticket.id,
        ticket.agent,
        judgement.reason or why or in_words(violations),
        flags,
        evidence,
    )
    record = runtime.run.attempt(ticket.worker, max(1, evidence.attempts)).record
    facts = runtime.redactor.value(ended.as_facts())[0]
    # The lead may decide on another verdict; this file is written once.
    del facts["verdict"]
    data = json_lines({"schema": 1, **facts})
    if runtime.guard is not None:
        runtime.guard.gone(ticket.worker)
        runtime.guard.writing(ticket.worker, record)
    # A file of another process stays too, and is reported: the journal has our record.
    with contextlib.suppress(FileExistsError):
        create_file(record, data)
    if runtime.guard is not None:
        runtime.guard.judged(ticket.worker)
    runtime.note(ended)
