"""The answer of `resume`: the state of a project, stale facts, and the next command."""

import json
from collections.abc import Callable
from typing import Any

from orchestrator.checks.figures import Figure
from orchestrator.errors import Refusal
from orchestrator.report.checkpoints import facts_of, updated_of
from orchestrator.report.situation import Situation
from orchestrator.runs.live import doing_of
from orchestrator.runs.next_action import next_of_run, quoted
from orchestrator.runs.project_step import Rerun, open_todo
from orchestrator.runs.state import RunState
from orchestrator.state.canonical.rules.rules import Pool
from orchestrator.state.checkpoints.form import Checkpoint
from orchestrator.step import step_keys
from tickets.value import Value
from tickets.wording import some_of
from workers.files.locks import is_locked

OLD = 7
"""Days after which STATUS.md counts as out of date."""
TOKEN = 3
"""Bytes that count as one token: fewer than tokenizers need on average, so a budget is kept."""
_SHOWN = 10
_LOOKED_AT = 3
"""How many checkpoints are compared with the branch."""


class Stale(Value):
    """A statement that is no longer true."""

    kind: str
    """`worker`, `state`, `status`, `checkpoint` or `context`."""
    what: str
    do: str


def stale_of(found: Situation) -> tuple[Stale, ...]:
    """Return the outdated statements, or those that may be."""
    stale = []
    for one in found.lost:
        if one.lives:
            what = f"{one.worker} of run {one.run} still runs, and the run's directory is gone"
            do = "wait for its end; its work cannot be judged"
        else:
            what = f"{one.worker} ({one.title}) is on the roster, and run {one.run} is gone"
            do = f"`{Rerun(one.phase, (one.ticket,)).command}`" if one.ticket else "no template recreates it"
        stale.append(Stale("worker", what, do))
    known = {(state.run.id, name) for state in found.runs for name in state.workers}
    for run in (state for state in found.runs if state.is_integrated or state.closed == "cancelled"):
        for active in found.status.active if found.status else ():
            if active.run == run.run.id and (active.run, active.worker) in known:
                what = f"{active.worker} is on the roster, and run {active.run} is {run.status()}"
                stale.append(Stale("worker", what, f"`orchestrate integrate {active.run}`"))
    # What cannot be read, such as a link out of the repository, a handoff refuses.
    if changed := [path for path in found.changed if not found.unread(path)]:
        what = f"not committed: {', '.join(changed)}"
        stale.append(Stale("state", what, "`orchestrate handoff` commits it"))
    return (*stale, *_old(found), *_old_checkpoints(found), *_old_context(found))


def standing(found: Situation) -> dict[str, Any]:
    """Return the summary for a new lead, as keys of a JSON document."""
    status, said = found.status, found.rules.said
    return {
        "project": found.repository.root.name,
        "lead": status.lead if status else "",
        "last_updated": status.last_updated if status else "",
        "phase": status.phase if status else "",
        "milestone": status.milestone if status else "",
        "deliverable": _deliverable(found),
        "progress": dict(status.progress) if status else {},
        "next": found.step.as_json(),
        "todo": {grade: list(open_todo(status, grade)) for grade in ("P0", "P1", "P2")},
        "phases": found.phases,
        "stale": [one._asdict() for one in stale_of(found)],
        "checkpoints": [facts_of(one) for one in found.checkpoints.open],
        "context": _context(found),
        "session": _session(found),
        "active_workers": [
            {"worker": one.worker, "title": one.title, "scope": one.scope, "run": one.run}
            for one in (status.active if status else ())
        ],
        "git": {
            "branch": (found.head.branch or "").removeprefix("refs/heads/"),
            "commit": found.head.sha,
            "uncommitted": len(found.not_committed),
            "paths": list(found.not_committed[:_SHOWN]),
            "roster_of": list(found.roster_of),
        },
        "checks": [_check(one) for one in found.figures],
        "rules": {
            "version": said.version,
            "last_updated": said.last_updated,
            "pool": _as_settings_say(found, said.pool).as_json(),
            "gates": list(said.gates),
        } if said else None,
        "decisions_since": found.decisions_since,
        "decisions": [one._asdict() for one in found.log.recent],
    }  # fmt: skip


def run_standing(run: RunState) -> dict[str, Any]:
    """Return a run that is not integrated, with the state of each worker, from its files alone."""
    lives = is_locked(run.run.path / "run.lock")
    workers = [
        {
            "worker": name, "ticket": worker.ticket, "state": doing_of(run, name, lives=lives),
            "outcome": worker.outcome, "verdict": worker.verdict,
        }
        for name, worker in run.workers.items()
    ]  # fmt: skip
    return {
        "run": run.run.id,
        "phase": run.phase,
        "status": run.status(),
        "workers": workers,
        **step_keys(next_of_run(run)),
    }


def fitted(document: dict[str, Any], tokens: int) -> dict[str, Any]:
    """Cut a document to a budget, the least important parts first; it names those in `left_out`.

    The next step, stale facts and repairs are never cut.
    """
    for name, cut in _CUTS:
        if tokens_of(document) <= tokens:
            break
        document = dict(document)
        if cut(document):
            # Their names are a part of the answer, and count.
            document["left_out"] = [*document["left_out"], name]
    return document


def tokens_of(document: dict[str, Any]) -> int:
    """Estimate an upper bound of a document's tokens."""
    return -(-len(json.dumps(document).encode()) // TOKEN)


def _old(found: Situation) -> list[Stale]:
    status = found.status
    if status is None:
        return []
    if found.updated is None:
        what = (
            f"Last Updated says `{status.last_updated}`" if status.last_updated else "Last Updated is missing"
        )
        return [Stale("status", f"STATUS.md: {what}", "write it as 2026-02-16 14:28 (UTC)")]
    days = (found.at.date() - found.updated.date()).days
    if days < OLD:
        return []
    behind = f", and {found.behind} commits are younger" if found.behind else ""
    what = f"STATUS.md was last updated {days} days ago{behind}"
    return [Stale("status", what, "`orchestrate resume --verify` runs the smoke tests; then update it")]


def _old_checkpoints(found: Situation) -> list[Stale]:
    """Return the checkpoints of work that is to go on, and that was left alone or overtaken."""
    stale: list[Stale] = []
    going = [one for one in found.checkpoints.open if one.status == "in_progress"]
    # Of a run that goes on, its own tree says more.
    open_ = {run.run for run in found.unfinished}
    ended = {one.ticket for run in found.runs if run.run not in open_ for one in run.workers.values()}
    for at, one in enumerate(going):
        show = f"`orchestrate checkpoint show {quoted(one.feature)} --agent {quoted(one.agent)}`"
        days = (found.at - updated_of(one, found.at)).days
        if days >= OLD:
            stale.append(Stale("checkpoint", f"{one.path} is in progress, untouched for {days} days", show))
        elif at < _LOOKED_AT and one.agent in ended and (changed := _changed_since(found, one)):
            what = f"{one.path}: since then {some_of(changed, 2)} changed, which it owns or reads"
            stale.append(Stale("checkpoint", what, show))
    return stale


def _context(found: Situation) -> dict[str, Any] | None:
    if "ai_memory" not in found.families:
        return None
    from orchestrator.report.context_summary import context_of  # noqa: PLC0415 - for start-up time: off in most projects

    return context_of(found)


def _session(found: Situation) -> dict[str, Any] | None:
    if "ai_memory" not in found.families:
        return None
    from orchestrator.report.sessions import session_summary  # noqa: PLC0415 - as above

    return session_summary(found)


def _old_context(found: Situation) -> list[Stale]:
    if "ai_memory" not in found.families:
        return []
    from orchestrator.report.context_summary import stale_context  # noqa: PLC0415 - as above

    said = stale_context(found)
    return [Stale("context", *said)] if said else []


def _changed_since(found: Situation, one: Checkpoint) -> tuple[str, ...]:
    from orchestrator.prepare.continuing import left_of  # noqa: PLC0415 - for start-up time: few are in progress

    left = left_of(found.repository, one.team, one.agent, found.head.sha or "")
    return left.changed_since if left else ()


def _deliverable(found: Situation) -> dict[str, str]:
    if found.status is None:
        return {"name": "", "status": "", "owner": ""}
    one = found.status.deliverable
    return {"name": one.name, "status": one.status, "owner": one.owner}


def _as_settings_say(found: Situation, pool: Pool) -> Pool:
    """Return the pool with the agents enabled that a run would use."""
    try:
        settings = found.settings
    except Refusal:
        return pool  # nothing runs with such settings; the command that needs them reports the problem
    return pool._replace(enabled={name: settings.is_enabled(name) for name in pool.enabled})


def _check(one: Figure) -> dict[str, Any]:
    kept = ("name", "passed", "good", "total", "commit", "changed", "at", "output")
    return {name: value for name, value in one._asdict().items() if name in kept}


def _shorter_decisions(document: dict[str, Any]) -> bool:
    long = [one for one in document["decisions"] if one["decision"]]
    document["decisions"] = [{**one, "decision": ""} for one in document["decisions"]]
    return bool(long)


def _emptied(*path: str, keep: int = 0) -> Callable[[dict[str, Any]], bool]:
    def cut(document: dict[str, Any]) -> bool:
        *above, last = path
        inside = document
        for name in above:
            if not inside.get(name):
                return False
            inside[name] = dict(inside[name])
            inside = inside[name]
        kept = inside.get(last)
        if not kept or len(kept) <= keep:
            return False
        inside[last] = type(kept)(list(kept)[:keep]) if isinstance(kept, list) else {}
        return True

    return cut


_CUTS: tuple[tuple[str, Callable[[dict[str, Any]], bool]], ...] = (
    ("the text of the decisions", _shorter_decisions),
    ("P2", _emptied("todo", "P2")),
    ("decisions but the newest five", _emptied("decisions", keep=5)),
    ("approval gates", _emptied("rules", "gates")),
    ("notes of the session", _emptied("session", "notes")),
    ("guardrails", _emptied("context", "guardrails")),
    ("the context's next but the first", _emptied("context", "next", keep=1)),
    ("checkpoints but the newest three", _emptied("checkpoints", keep=3)),
    ("uncommitted paths", _emptied("git", "paths")),
    ("P1", _emptied("todo", "P1")),
    ("P0 but the first three", _emptied("todo", "P0", keep=3)),
    ("decisions", _emptied("decisions")),
    ("active workers", _emptied("active_workers")),
    ("checks", _emptied("checks")),
    ("the pool", _emptied("rules", "pool")),
    ("progress", _emptied("progress")),
    ("P0", _emptied("todo", "P0")),
    ("checkpoints", _emptied("checkpoints")),
)
"""The parts that may be omitted, in this order."""
