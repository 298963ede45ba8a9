"""`context switch` and `context archive`: another task becomes the current one, or none."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from orchestrator.commands._record import Writer, given, read_back
from orchestrator.errors import HELD, Refusal
from orchestrator.state.ai_memory.context_keys import NONE, UNSTATED
from orchestrator.state.ai_memory.context_read import PATH, Context
from orchestrator.state.ai_memory.context_tasks import MOST, file_of
from orchestrator.state.ai_memory.session_read import OPEN, Session, moment
from orchestrator.state.events import ContextArchived, ContextSwitched, ContextSynced
from orchestrator.step import Waits
from tickets.problems import Problem
from tickets.wording import some_of

AWAKE = timedelta(hours=12)
"""How long after its last entry a session counts as one that somebody works in."""
NEW = "new"


def switched(
    writer: Writer, context: Context, sync: ContextSynced, words: dict[str, Any], sessions: Sequence[Session]
) -> ContextSwitched:
    """Return the event that makes another task the current one. Raises Refusal."""
    asked = read_back(words["task"]).strip()
    reason = given("--reason", words["reason"])
    old = _current(context)
    target = words["id"] if asked == NEW else asked
    known = {one.task_id: one for one in context.secondary}
    if target == old:
        raise Refusal(Problem("TASK_ID", f"{target} is the current task", "name another"))
    if asked != NEW and target not in known and writer.text(file_of(target)) is None:
        there = some_of([*known], MOST) or "there is none"
        raise Refusal(Problem("TASK_ID", f"there is no task `{target}`", f"there are: {there}; or `{NEW}`"))
    left = len([one for one in known if one != target]) + bool(old)
    if left > MOST:
        what = f"{old} would be the {left}th secondary task, {MOST} at most"
        raise Refusal(Problem("TASK_ID", what, "`orchestrate context archive`, or remove one from the file"))
    if not words["force"] and (other := _at_work(writer, target, sessions)):
        what = f"{other.lead or 'another lead'} works on {target} in session {other.id}"
        raise Refusal(
            Problem("TASK_ID", what, "`--force` takes it over"),
            exit_code=HELD,
            next_action=Waits("lead", f"{what}; `--force` takes it over"),
        )
    goal = read_back(words["goal"]).strip() or (known[target].goal if target in known else "")
    return ContextSwitched(sync, old, target, reason, writer.at, writer.lead, goal)


def archived(
    writer: Writer, context: Context, sync: ContextSynced, words: dict[str, Any], sessions: Sequence[Session]
) -> ContextArchived:
    """Return the event that puts the current task away for good. Raises Refusal."""
    old = _current(context)
    if not old:
        raise Refusal(Problem(PATH, "no task is current", "`orchestrate context switch new` begins one"))
    following = read_back(words["following"]).strip()
    known = {one.task_id for one in context.secondary}
    if following and following not in known:
        there = some_of(sorted(known), MOST) or "there is none"
        raise Refusal(Problem("--next", f"there is no secondary task `{following}`", f"there are: {there}"))
    done = "; ".join(one.text for one in context.list("done") if not one.source)
    landings = dict.fromkeys(
        one.source.removeprefix("landed ")
        for one in context.list("active_files")
        if one.source.startswith("landed ")
    )
    scope = context.text("scope_in")
    where = "" if scope in ("", NONE, UNSTATED) else scope
    commits = f" ({', '.join(landings)})" if landings else ""
    reason = f"{old} is done"
    switch = ContextSwitched(sync, old, following, reason, writer.at, writer.lead)
    return ContextArchived(
        switch,
        writer.at,
        context.text("goal"),
        read_back(words["summary"]).strip() or done,
        f"{where}{commits}".strip(),
        read_back(words["verified"]).strip() or context.text("last_green_build").replace(NONE, ""),
        tuple(one.text for one in context.list("Lessons Learned")),
        tuple(one.id for one in sessions if one.task_id == old),
        file_of(old),
        writer.at,
        writer.lead,
    )


def _current(context: Context) -> str:
    found = context.text("task_id")
    return "" if found in ("", NONE) else found


def _at_work(writer: Writer, task: str, sessions: Sequence[Session]) -> Session | None:
    """Return the open session of another lead who works on a task."""
    for one in sessions:
        at = moment(one.last_updated)
        is_awake = at is not None and _utc(writer.at) - _utc(at) < AWAKE
        if one.status == OPEN and one.task_id == task and one.lead != writer.lead and is_awake:
            return one
    return None


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
