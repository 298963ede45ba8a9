"""What an attempt left, looked at: its changes, the verdict on them by rule, and the record that stays."""

import contextlib
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import anyio.to_thread

from orchestrator.budget.prices import priced
from orchestrator.execute._claims import claims_of, kept_claims
from orchestrator.execute.command import CheckResult, run_check
from orchestrator.execute.judgement import (
    CANCELLED,
    Judgement,
    harm_at,
    in_words,
    judge,
    landable,
    verdict_of,
    violations_of,
)
from orchestrator.execute.runtime import Runtime
from orchestrator.execute.workspace import is_shared
from orchestrator.runs.events import AcceptanceChecked, Evidence, Try, Usage, Violation, WorkerEnded
from tickets.ticket import Ticket
from workers.agents.agent import Answer, agent_named
from workers.agents.agent import Usage as AgentUsage
from workers.engine.launch import keep_text
from workers.errors import WorkerError
from workers.files.durable import create_file
from workers.files.exit_record import Exit
from workers.files.run_dir import AttemptFiles, is_empty, json_lines
from workers.worktree.changes import Found
from workers.worktree.worktree import Place, left_its_base, remove_place

TOKENS = ("input_tokens", "cached_tokens", "output_tokens")


class Tried(NamedTuple):
    """How an attempt's process ended, and what its output amounts to."""

    ended: Exit
    answer: Answer


class Judged(NamedTuple):
    """What one attempt amounts to."""

    judgement: Judgement
    ended: Exit
    answer: Answer
    found: Found | None
    violations: tuple[Violation, ...] = ()


Choose = Callable[[bool | None], Tried]
"""Picks the answer that counts, by whether files were changed (None: no change was asked for)."""


async def judged_attempt(
    runtime: Runtime, ticket: Ticket, number: int, tried: Tried, place: Place, *, choose: Choose
) -> Judged:
    """Take the worker's changes and decide what its attempt amounts to."""
    files = runtime.run.attempt(ticket.worker, number)
    git_writes = [*await _git_writes(runtime, ticket), *([left] if (left := left_its_base(place)) else [])]
    try:
        found = await _found(runtime, ticket, place)
    except WorkerError as error:
        _keep(runtime, ticket, files, tried.answer.text)
        return Judged(Judgement("failed", error.reason), *tried, None)
    ended, answer = choose(bool(found.changes) if ticket.mode == "write" else None)
    _keep(runtime, ticket, files, answer.text)
    if found.changes:
        if runtime.guard is not None:
            runtime.guard.writes(ticket.worker, files.patch)
        if not files.patch.exists():
            await anyio.to_thread.run_sync(runtime.checker.write_patch, place, found, files.patch)
        # Also where one stood there: what lands is what was found, whoever has written that.
        runtime.patches[runtime.run.relative(files.patch)] = found.changes
    judgement = judge(ticket, ended, answer, found.changes)
    scope, state_files = runtime.manifest.scopes[ticket.id], runtime.manifest.rules.reserved_scope
    violations = violations_of(ticket, found, scope, state_files, git_writes)
    return Judged(judgement, ended, answer, found, violations)


async def conclude(runtime: Runtime, ticket: Ticket, number: int, judged: Judged, place: Place) -> None:
    """Run the acceptance commands, write the record, close the ticket, and only then take its tree away."""
    files = runtime.run.attempt(ticket.worker, number)
    judgement, found = judged.judgement, judged.found
    checks: list[CheckResult] = []
    if judgement.outcome == "complete" and found is not None:
        checks = await _accept(runtime, ticket, found, place)
        judged = await _after_its_code_ran(runtime, ticket, judged) if checks else judged
        failed = next((check for check in checks if not check.passed), None)
        if failed is not None and failed.end == "cancelled":
            if runtime.stopping:
                return  # stopped with us, not failed: the next runtime asks again
            judgement = judgement._replace(outcome="cancelled", reason=CANCELLED)
        elif failed is not None:
            why = "; ".join(one for one in (f"acceptance failed: {failed.in_words()}", failed.fenced) if one)
            judgement = judgement._replace(outcome="failed", reason=why)
    scope = runtime.manifest.scopes[ticket.id]
    landing = [change.path for change in landable(ticket, found.changes, scope)] if found else []
    # No patch holds what is in a submodule: its tree is the only copy.
    is_kept = found is None or bool(found.inside)
    # One that stands there beside a tree without a change is somebody else's.
    patch = files.patch if (found is None or found.changes) and files.patch.exists() else None
    changed = [change.path for change in found.changes] if found else []
    tries = (
        # Its own line stands there already where nobody could be asked for what its report lacks.
        *(one for one in runtime.of(ticket).tries if one.attempt != number),
        account(runtime, ticket, number, judged._replace(judgement=judgement)),
    )
    claims = None if ticket.agent == "command" else kept_claims(claims_of(judged.answer.text, changed))
    evidence = Evidence(
        fence=runtime.of(ticket).fence,
        exit_code=judged.ended.exit_code,
        signal=judged.ended.signal,
        end=judged.ended.end,
        attempts=number,
        seconds=judged.ended.seconds,
        files=tuple(landing),
        violations=judged.violations,
        usage=total([one.usage for one in tries]),
        tries=tries,
        claims=claims,
        output=runtime.run.relative(files.text),
        patch=runtime.run.relative(patch) if patch else None,
        thread=judged.answer.thread,
        ignored=(*found.ignored, *found.special) if found else (),
        worktree=runtime.run.relative(place.path) if is_kept else None,
        acceptance=tuple(check.recorded() for check in checks),
        started_at=judged.ended.started,
        ended_at=judged.ended.ended,
        max_rss_kb=judged.ended.max_rss_kb,
    )
    end(runtime, ticket, judgement, evidence)
    if runtime.guard is not None and is_kept:
        await anyio.to_thread.run_sync(runtime.guard.settled, ticket.worker, place.path)
    elif runtime.guard is not None:
        runtime.guard.settled(ticket.worker, None)
    if judgement.outcome not in ("cancelled", "interrupted") and not is_kept:
        await _clear(runtime, ticket, place)


def account(runtime: Runtime, ticket: Ticket, number: int, judged: Judged) -> Try:
    """Return the account of an attempt, with what it alone used."""
    worker, judgement, ended, answer = runtime.of(ticket), judged.judgement, judged.ended, judged.answer
    earlier = [one for one in worker.tries if one.attempt < number]
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
    )


def so_far(runtime: Runtime, ticket: Ticket) -> Evidence:
    """Return what is known of a ticket that ends between two attempts, or before its first."""
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
    """Return what an attempt itself used: some CLIs report the sum of the whole thread that they resume."""
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
    """Add up what the attempts of a worker used; USD are None where no attempt told of any."""
    costs = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    by = {usage.cost_by for usage in usages if usage.cost_usd is not None}
    return Usage(
        sum(usage.input_tokens for usage in usages),
        sum(usage.output_tokens for usage in usages),
        round(sum(costs), 6) if costs else None,
        sum(usage.cached_tokens for usage in usages),
        "table" if "table" in by else "agent" if by else "unpriced",
    )


def _keep(runtime: Runtime, ticket: Ticket, files: AttemptFiles, text: str) -> None:
    if runtime.guard is not None:
        runtime.guard.writes(ticket.worker, files.text)
    keep_text(files, text)


async def _found(runtime: Runtime, ticket: Ticket, place: Place) -> Found:
    if is_shared(runtime, ticket, place):
        # It is looked into when its last reader has gone: until then nobody could say whose a change is.
        return Found((), ())
    return await anyio.to_thread.run_sync(runtime.checker.look, place, runtime.settings.limits.patch_cap)


async def _git_writes(runtime: Runtime, ticket: Ticket) -> tuple[str, ...]:
    """Look at the user's repository, and give what this worker alone can have changed there."""
    if runtime.guard is None:
        return ()
    forged = runtime.forged_paths()
    # Who ran by now: until the look has its turn, others may have been looked after and let go.
    running = runtime.running() if forged else ()
    for found in await runtime.guard.look_after(ticket.worker, forged, running):
        runtime.note_tampering(found)
    return runtime.guard.blamed(ticket.worker)


async def _after_its_code_ran(runtime: Runtime, ticket: Ticket, judged: Judged) -> Judged:
    """Look again when acceptance commands have run what the worker wrote."""
    known = {violation.path for violation in judged.violations}
    new = [path for path in await _git_writes(runtime, ticket) if path not in known]
    return judged._replace(violations=(*judged.violations, *map(harm_at, new)))


async def _clear(runtime: Runtime, ticket: Ticket, place: Place) -> None:
    """Take away what the patch and the record have made superfluous; a CLI's own sessions stay."""
    if not is_shared(runtime, ticket, place):
        await anyio.to_thread.run_sync(remove_place, place)
    # An empty one goes with those of the whole run: ext4 looks at each inode that went in the last seconds
    # before it makes a file, and a thousand short workers would wait for that.
    if not is_empty(scratch := runtime.run.scratch(ticket.worker)):
        await anyio.to_thread.run_sync(partial(shutil.rmtree, scratch, ignore_errors=True))
    if ticket.agent != "command":
        with contextlib.suppress(OSError):
            runtime.run.home(ticket.worker).rmdir()


async def _accept(runtime: Runtime, ticket: Ticket, found: Found, place: Place) -> list[CheckResult]:
    """Run the acceptance commands in a fresh tree: the base, and the part that would land."""
    if not ticket.acceptance:
        return []
    if runtime.guard is not None:
        runtime.guard.entered(ticket.worker, runtime.of(ticket).attempts)
    inside = landable(ticket, found.changes, runtime.manifest.scopes[ticket.id])
    tree = await anyio.to_thread.run_sync(runtime.checker.tree_with, place.base, inside)
    results: list[CheckResult] = []
    for at, command in enumerate(ticket.acceptance, 1):
        result = await run_check(runtime, f"{ticket.worker}.acceptance-{at}", command, tree, place.base)
        runtime.note(AcceptanceChecked(ticket.worker, command, result.passed))
        results.append(result)
        if not result.passed:
            break
    return results


def end(runtime: Runtime, ticket: Ticket, judgement: Judgement, evidence: Evidence) -> None:
    """Write a worker's record and close its ticket; a record that an earlier runtime wrote stays."""
    violations = evidence.violations
    verdict, why = verdict_of(judgement.outcome, violations, runtime.settings.integration.on_violation)
    ended = WorkerEnded(
        ticket.worker,
        judgement.outcome,
        verdict,
        ticket.id,
        ticket.agent,
        judgement.reason or why or in_words(violations),
        judgement.flags,
        evidence,
    )
    record = runtime.run.attempt(ticket.worker, max(1, evidence.attempts)).record
    facts = ended.as_facts()
    # The lead may decide on another verdict; this file is written once.
    del facts["verdict"]
    data = json_lines({"schema": 1, **facts})
    if runtime.guard is not None:
        runtime.guard.gone(ticket.worker)
        runtime.guard.writes(ticket.worker, record, data)
    # What another process has put there stays too, and is told: the journal has ours.
    with contextlib.suppress(FileExistsError):
        create_file(record, data)
    if runtime.guard is not None and not runtime.of(ticket).started:
        runtime.guard.settled(ticket.worker, None)
    runtime.note(ended)
