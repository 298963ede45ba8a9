"""`session start|note|end|list`: the history of a lead's sessions, in ai_memory/session_history/."""

from typing import Any, Literal

from orchestrator.commands._record import Writer, given, read_back, record, shortened, writer_of
from orchestrator.commands._sessions import FAMILY, busy_leads
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller
from orchestrator.errors import Refusal
from orchestrator.settings.recording import read_recording
from orchestrator.state.ai_memory.session_read import Session, count_in, id_of, path_of, read
from orchestrator.state.ai_memory.tasks import is_task_id
from orchestrator.state.events import LeadEvent, SessionBegun, SessionEnded, SessionNoted
from orchestrator.store.sessions import VARIABLE, open_session, session_ids
from tickets.problems import Problem, ProblemError
from tickets.value import Value
from tickets.wording import count_of

NEXT = "orchestrate status"


class Arguments(Value):
    """The arguments of `session`."""

    action: Literal["start", "note", "end", "list"]
    text: str = ""
    task: str = ""
    """The id of the session's task; empty: that of the active context."""
    title: str = ""
    summary: str = ""
    for_next: str = ""
    session: str = ""
    """The id of a session; empty: the lead's open one."""


def call(caller: Caller, arguments: Arguments) -> Answer[None]:
    """Begin, note in, end or list sessions."""
    writer = writer_of(caller)
    if FAMILY not in read_recording(writer.repository.root).families:
        what, do = f"the family `{FAMILY}` is off", f"`orchestrate init --with {FAMILY}` turns it on"
        raise Refusal(Problem("session", what, do), next_action=f"orchestrate init --with {FAMILY}")
    if arguments.action == "list":
        return _list(writer)
    if arguments.action == "start":
        return _start(writer, arguments)
    if arguments.action == "note":
        return _note(writer, arguments)
    return _end(writer, arguments)


def _list(writer: Writer) -> Answer[None]:
    problems: list[Problem] = []
    found = [_shown(one) for one in reversed(_sessions(writer, problems))]
    for one in found:
        del one["notes"]
    return answer(problems, NEXT, sessions=found)


def _start(writer: Writer, arguments: Arguments) -> Answer[None]:
    task = arguments.task.strip()
    if task and not is_task_id(task):
        raise Refusal(Problem("--task", f"`{read_back(task)}` is no task id", "write it as PARSER-001"))
    mine = [one for one in _sessions(writer, []) if one.is_open and one.lead == writer.lead]
    warnings = [_still_open(mine[-1])] if mine else []
    event = SessionBegun(writer.at, writer.lead, task, busy_leads(writer.repository.root))
    return _recorded(writer, event, "Session started", "", warnings)


def _note(writer: Writer, arguments: Arguments) -> Answer[None]:
    text = given("session note", arguments.text)
    chosen = _chosen(writer, arguments)
    event = SessionNoted(
        text, writer.at, writer.lead, _optional("--title", arguments.title),
        _optional("--summary", arguments.summary), _optional("--for-next", arguments.for_next), chosen,
    )  # fmt: skip
    return _recorded(writer, event, f"Session: {shortened(text)}", chosen, [])


def _end(writer: Writer, arguments: Arguments) -> Answer[None]:
    chosen = _chosen(writer, arguments)
    if not chosen:
        problem = Problem("session end", f"{writer.lead} has no open session", "there is none to end")
        raise Refusal(problem, next_action="orchestrate session list")
    summary = _optional("--summary", arguments.summary)
    event = SessionEnded(writer.at, writer.lead, summary, chosen, busy_leads(writer.repository.root))
    return _recorded(writer, event, f"Session {chosen} closed", chosen, [])


def _recorded(
    writer: Writer, event: LeadEvent, subject: str, chosen: str, warnings: list[Problem]
) -> Answer[None]:
    """Record an event; `chosen` is the session that it belongs to, empty for the one that it begins."""
    root = writer.repository.root
    before = set(session_ids(root))
    done = record(writer, event, f"{subject}\n\n- Updated the history of sessions\n", warnings=warnings)
    changed = [id_ for path in done.document["changed"] if (id_ := id_of(path))]
    there = set(session_ids(root))
    begun = [id_ for id_ in changed if id_ in there - before]
    id_ = chosen or next(iter(begun), "")
    text = writer.text(path_of(id_)) if id_ else None
    if text is None:
        raise Refusal(
            Problem("session", "its file is gone again", "`orchestrate session list` shows what is")
        )
    closed = [one for one in changed if one in there and one not in (id_, *begun)]
    archived = [one for one in changed if one not in there]
    said = done.document
    return answer(
        done.problems, done.step, session=_shown(read(path_of(id_), text)), closed=closed, archived=archived,
        changed=said["changed"], commit=said["commit"],
    )  # fmt: skip


def _chosen(writer: Writer, arguments: Arguments) -> str:
    """Return the id of the session that a command belongs to; empty where none is open. Raises StateError."""
    asked = arguments.session.strip() or writer.environ.get(VARIABLE, "").strip()
    found = open_session(_sessions(writer, []), writer.lead, asked)
    return found.id if found else ""


def _sessions(writer: Writer, problems: list[Problem]) -> list[Session]:
    """Read the sessions, oldest first; what cannot be read is among the problems."""
    found = []
    for path in map(path_of, session_ids(writer.repository.root)):
        try:
            text = writer.text(path)
            found += [read(path, text)] if text is not None else []
        except ProblemError as error:
            problems += (one._replace(severity="warning") for one in error.problems)
    return found


def _still_open(one: Session) -> Problem:
    what = f"{one.lead} has another open session, `{one.id}`"
    do = f"`orchestrate session end --session {one.id}` ends it; else set `{VARIABLE}` in each shell"
    return Problem("session start", what, do, "warning")


def _optional(place: str, text: str) -> str:
    return given(place, text) if text else ""


def _shown(one: Session) -> dict[str, Any]:
    return {
        "id": one.id,
        "path": one.path,
        "started": one.started,
        "last_updated": one.last_updated,
        "task_id": one.task_id,
        "status": one.status,
        "files_changed": count_in(one.files_changed),
        "commits": count_in(one.commits),
        "summary": one.summary,
        "notes": list(one.notes),
    }


def told(one: dict[str, Any]) -> str:
    """Return a session on one line."""
    counts = f"{count_of(one['files_changed'], 'file')}, {count_of(one['commits'], 'commit')}"
    return f"{one['id']} ({one['task_id']}, {one['status']}, {counts}): {one['summary']}"
