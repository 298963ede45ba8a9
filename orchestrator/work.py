"""One ticket's life: wait for its turn, slot, worktree, worker, output, judgement; again where that helps."""

import contextlib
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.to_thread

from orchestrator.checks import CheckResult, run_check
from orchestrator.deployment import Deployment
from orchestrator.judgement import (
    Judgement,
    Violation,
    in_words,
    judge,
    landable,
    verdict_of,
    violations_of,
)
from orchestrator.prompts import write_prompt
from tickets.problems import TicketError
from tickets.ticket import Ticket
from workers.agents import Answer, WorkerError
from workers.attempt import find_agent, keep_text, mark_of, prepare_launch, read_answer
from workers.changes import Change, Found
from workers.git import GitError
from workers.output import create_json, read_json
from workers.pool import Slot
from workers.process import Exit, Limits, wait_adopted
from workers.worktree import Place, found_place, left_its_base, make_place, remove_place

RETRY_PAUSE = 2.0
"""Seconds before the second attempt; each further one waits twice as long."""


async def work(d: Deployment) -> None:
    """See every ticket of the run to its end, each when those that it depends on have ended."""
    done = {ticket.id: anyio.Event() for ticket in d.manifest.tickets}
    async with anyio.create_task_group() as group:
        for ticket in d.manifest.tickets:
            if d.facts(ticket)["ended"]:
                done[ticket.id].set()
            else:
                group.start_soon(_see_to, d, ticket, done)


async def _see_to(d: Deployment, ticket: Ticket, done: dict[str, anyio.Event]) -> None:
    with d.waiting():
        for before in d.manifest.dependencies.get(ticket.id, ()):
            await done[before].wait()
    why = d.manifest.skipped.get(ticket.id) or _fallen(d, ticket)
    if d.stopping:
        return
    if why:
        d.note("skipped", worker=ticket.worker, reason=why)
    else:
        try:
            await _do(d, ticket)
        except (WorkerError, GitError, TicketError, OSError) as error:
            # One worker's trouble is that worker's: the others go on.
            if not d.facts(ticket)["ended"]:
                reason = getattr(error, "reason", None) or str(error).partition("\n")[0]
                end(d, ticket, Judgement("failed", reason), {})
    if d.facts(ticket)["ended"]:
        done[ticket.id].set()


def _fallen(d: Deployment, ticket: Ticket) -> str | None:
    """Say which dependency took a ticket down with it."""
    for before in d.manifest.dependencies.get(ticket.id, ()):
        facts = d.facts(d.manifest.by_id(before))
        if facts["verdict"] not in ("accepted", "partial"):
            word = facts["verdict"] or facts["outcome"]
            return f"depends on {before}, which was {word}"
    return None


async def _do(d: Deployment, ticket: Ticket) -> None:
    """Go through the attempts of one ticket, an earlier runtime's first."""
    facts = d.facts(ticket)
    number, retries = facts["attempts"], facts.get("retries", 0)
    place, ended = await _inherited(d, ticket, number) if number else (None, None)
    while not d.stopping:
        if ended is None:
            async with d.slot(ticket) as slot:
                if slot is None:
                    return
                place = place or await _placed(d, ticket)
                number += 1
                d.note("started", worker=ticket.worker, attempt=number, base=place.base)
                ended = await _attempt(d, ticket, number, slot)
                again = await _settle(d, ticket, number, ended, place, retry=retries < ticket.retries)
        else:
            # Its slot went with its shim, and an earlier runtime's worker is judged without one.
            again = await _settle(d, ticket, number, ended, place, retry=retries < ticket.retries)
        if not again:
            return
        retries, ended = retries + 1, None
        with d.waiting():
            await anyio.sleep(RETRY_PAUSE * 2 ** (retries - 1))


async def _settle(
    d: Deployment, ticket: Ticket, number: int, ended: Exit, place: Place | None, *, retry: bool
) -> bool:
    """Judge an attempt and close its ticket; true where another attempt is to be made instead."""
    if place is None or (d.stopping and ended.end == "cancelled"):
        return False
    judged = await _judged(d, ticket, number, ended, place)
    if judged.judgement.retryable and retry and not d.stopping:
        d.note("retry", worker=ticket.worker, attempt=number, reason=judged.judgement.reason)
        return True
    await _conclude(d, ticket, number, judged, place)
    return False


async def _inherited(d: Deployment, ticket: Ticket, number: int) -> tuple[Place | None, Exit | None]:
    """Take over what an earlier runtime had started: wait for it if it lives, never start it twice."""
    facts, files = d.facts(ticket), d.run.attempt(ticket.worker, number)
    place = found_place(d.repository.common, d.run.worktree(ticket.worker), facts["base"], _index(d, ticket))
    # Also where nothing is to be seen of it: its launch may have been on the way when the runtime died.
    mark = mark_of(d.run.id, ticket.worker)
    ended = await wait_adopted(ticket.worker, files.exit, files.started, mark=mark)
    if ended.end in ("cancelled", "lost") or place is None:
        # It was stopped with its runtime, not by its own fault: the next attempt goes on in its tree.
        return place, None
    return place, ended


def _index(d: Deployment, ticket: Ticket) -> Path:
    return d.checker.directory / f"{ticket.worker}.index"


async def _placed(d: Deployment, ticket: Ticket) -> Place:
    async with d.trees:
        return await anyio.to_thread.run_sync(_make_place, d, ticket)


def _make_place(d: Deployment, ticket: Ticket) -> Place:
    base = _base_of(d, ticket)
    path = d.run.worktree(ticket.worker)
    return make_place(d.repository.root, d.repository.common, path, base, _index(d, ticket))


def _base_of(d: Deployment, ticket: Ticket) -> str:
    """Give the run's base with the accepted work of all that a ticket depends on."""
    wanted = set(d.manifest.dependencies.get(ticket.id, ()))
    for earlier in reversed(d.manifest.tickets):
        if earlier.id in wanted:
            wanted.update(d.manifest.dependencies.get(earlier.id, ()))
    merged: dict[str, Change] = {}
    for earlier in d.manifest.tickets:
        if earlier.id in wanted:
            merged.update({change.path: change for change in d.landable_changes(earlier)})
    if not merged:
        return d.manifest.base
    tree = d.checker.tree_with(d.manifest.base, merged.values())
    return d.checker.commit(tree, d.manifest.base, f"orchestrate: base of {ticket.worker}")


async def _attempt(d: Deployment, ticket: Ticket, number: int, slot: Slot) -> Exit:
    executable = find_agent(ticket.agent, d.settings.agent(ticket.agent), d.environ)
    if executable is None:
        raise WorkerError(f"{ticket.agent} is not installed any more")
    write_prompt(d, ticket)
    limits = Limits(
        ticket.timeout, d.settings.limits.grace, d.settings.limits.output_cap, ticket.idle_timeout
    )
    launch = prepare_launch(
        d.run,
        ticket,
        d.run.attempt(ticket.worker, number),
        settings=d.settings.agent(ticket.agent),
        executable=executable,
        limits=limits,
        environ=d.environ,
        trust_repository=d.settings.trust_repository,
    )
    return await d.nursery.run(launch, slot.fds)


class Judged(NamedTuple):
    """What one attempt amounts to."""

    judgement: Judgement
    ended: Exit
    answer: Answer
    found: Found | None
    violations: tuple[Violation, ...] = ()


async def _judged(d: Deployment, ticket: Ticket, number: int, ended: Exit, place: Place) -> Judged:
    files = d.run.attempt(ticket.worker, number)
    answer = await read_answer(ticket.agent, files, ended)
    keep_text(files, answer.text)
    left = left_its_base(place)
    try:
        found = await anyio.to_thread.run_sync(d.checker.look, place, d.settings.limits.patch_cap)
    except WorkerError as error:
        return Judged(Judgement("failed", error.reason), ended, answer, None)
    if found.changes and not files.patch.exists():
        await anyio.to_thread.run_sync(d.checker.write_patch, place.base, found.tree, files.patch)
    judgement = judge(ticket, ended, answer, found.changes)
    scope, state_files = d.manifest.scopes[ticket.id], d.manifest.state_files
    violations = violations_of(ticket, found.changes, scope, state_files, left)
    return Judged(judgement, ended, answer, found, violations)


async def _conclude(d: Deployment, ticket: Ticket, number: int, judged: Judged, place: Place) -> None:
    """Run the acceptance commands, write the record, close the ticket, and only then take its tree away."""
    files = d.run.attempt(ticket.worker, number)
    judgement, found = judged.judgement, judged.found
    checks: list[CheckResult] = []
    if judgement.outcome == "complete" and found is not None:
        checks = await _accept(d, ticket, found, place)
        if d.stopping and any(check.end == "cancelled" for check in checks):
            return  # stopped with us, not failed: the next runtime asks again
        failed = next((check for check in checks if not check.passed), None)
        if failed is not None:
            judgement = judgement._replace(outcome="failed", reason=f"acceptance failed: {failed.in_words()}")
    scope = d.manifest.scopes[ticket.id]
    landing = [change.path for change in landable(ticket, found.changes, scope)] if found else []
    usage, patch = judged.answer.usage, files.patch if files.patch.exists() else None
    evidence: dict[str, Any] = {
        "fence": d.manifest.fence,
        "exit_code": judged.ended.exit_code,
        "signal": judged.ended.signal,
        "end": judged.ended.end,
        "attempts": number,
        "seconds": judged.ended.seconds,
        "files": landing,
        "violations": [violation._asdict() for violation in judged.violations],
        "usage": {
            "input_tokens": usage.input_tokens if usage else 0,
            "output_tokens": usage.output_tokens if usage else 0,
            "cost_usd": usage.cost_usd if usage else None,
        },
        "output": d.run.relative(files.text),
        "patch": d.run.relative(patch) if patch else None,
        "thread": judged.answer.thread,
        "ignored": list(found.ignored) if found else [],
        "worktree": None if found else d.run.relative(place.path),
        "acceptance": [check.as_json() for check in checks],
        "started_at": judged.ended.started,
        "ended_at": judged.ended.ended,
        "max_rss_kb": judged.ended.max_rss_kb,
    }
    end(d, ticket, judgement, evidence, judged.violations)
    if judgement.outcome not in ("cancelled", "interrupted") and found is not None:
        await anyio.to_thread.run_sync(_clear, d, ticket, place)


def _clear(d: Deployment, ticket: Ticket, place: Place) -> None:
    """Take away what the patch and the record have made superfluous; a CLI's own sessions stay."""
    remove_place(place)
    shutil.rmtree(d.run.scratch(ticket.worker), ignore_errors=True)
    with contextlib.suppress(OSError):
        d.run.home(ticket.worker).rmdir()


async def _accept(d: Deployment, ticket: Ticket, found: Found, place: Place) -> list[CheckResult]:
    """Run the acceptance commands in a fresh tree: the base, and the part that would land."""
    if not ticket.acceptance:
        return []
    inside = landable(ticket, found.changes, d.manifest.scopes[ticket.id])
    tree = await anyio.to_thread.run_sync(d.checker.tree_with, place.base, inside)
    results: list[CheckResult] = []
    for at, command in enumerate(ticket.acceptance, 1):
        result = await run_check(d, f"{ticket.worker}.acceptance-{at}", command, tree, place.base)
        d.note("checked", worker=ticket.worker, command=command, passed=result.passed)
        results.append(result)
        if not result.passed:
            break
    return results


def end(
    d: Deployment,
    ticket: Ticket,
    judgement: Judgement,
    evidence: dict[str, Any],
    violations: tuple[Violation, ...] = (),
) -> None:
    """Write a worker's record and close it; a record that an earlier runtime wrote stands."""
    verdict, why = verdict_of(judgement.outcome, violations, d.settings.integration.on_violation)
    number = max(1, int(evidence.get("attempts", d.facts(ticket)["attempts"])))
    record = d.run.attempt(ticket.worker, number).record
    reason = judgement.reason or why or in_words(violations)
    facts = {
        "worker": ticket.worker,
        "ticket": ticket.id,
        "agent": ticket.agent,
        "outcome": judgement.outcome,
        "reason": reason,
        "verdict": verdict,
        "flags": list(judgement.flags),
        **evidence,
    }
    stands = read_json(record)
    if stands is None:
        create_json(record, {"schema": 1, **{name: facts[name] for name in facts if name != "verdict"}})
    d.note("ended", worker=ticket.worker, facts=facts)
