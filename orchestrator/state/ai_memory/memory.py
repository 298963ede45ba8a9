"""ai_memory/memory.md: what outlived its task and its session."""

from collections.abc import Mapping
from datetime import UTC

from orchestrator.state.ai_memory.session_read import NO_TASK, id_of
from orchestrator.state.ai_memory.sessions import TEXT, cut
from orchestrator.state.document import damage, doubled, editable, inert, needed, opened, section_like
from orchestrator.state.document import state_errors as refusing
from orchestrator.state.events import ContextArchived, Event, SessionRetired
from orchestrator.state.facts import Facts
from tickets.markdown import Document, add_items, append_section, insert, items, plain, sections, set_section
from tickets.problems import Problem
from tickets.wording import count_of

PATH = "ai_memory/memory.md"
OWNS: tuple[str, ...] = (PATH,)
TASKS, SESSIONS = "Tasks", "Sessions"
_NEW = f"""# Memory

What outlived its task. The state as of now is in `ai_memory/active_context.md`.

## {TASKS}

none

## {SESSIONS}

none
""".encode()


def needs(tree: Mapping[str, bytes | None], event: Event) -> tuple[str, ...]:
    """Return the memory where something is to be remembered."""
    del tree
    return (PATH,) if isinstance(event, SessionRetired | ContextArchived) else ()


def changes(tree: Mapping[str, bytes | None], event: Event) -> dict[str, bytes]:
    """Return the memory with a session that retires, or a task that is done. Raises StateError."""
    if not isinstance(event, SessionRetired | ContextArchived):
        return {}
    with refusing():
        document = _with_sections(editable(PATH, {PATH: tree.get(PATH) or _NEW}))
        document = (
            _with_session(document, event)
            if isinstance(event, SessionRetired)
            else _with_task(document, event)
        )
    return {} if document.data == tree.get(PATH) else {PATH: document.data}


def problems(text: bytes) -> list[Problem]:
    """Return the problems of the memory: what prevents the next line in it."""
    document = opened(PATH, text)
    with refusing():
        found = [doubled(document, title) for title in (TASKS, SESSIONS)]
    return [*filter(None, found), *damage(PATH, text)]


def complete(text: bytes, _: Facts) -> bytes:
    """Return the file as it is: the first that retires begins it."""
    return text


def _with_sections(document: Document) -> Document:
    """Add the sections that a memory of another shape lacks; all its bytes stay."""
    for title in (TASKS, SESSIONS):
        if section_like(document, title) is None and doubled(document, title) is None:
            document = append_section(document, f"## {title}\n\nnone")
    return document


def _with_task(document: Document, event: ContextArchived) -> Document:
    """Add a task that is done, the newest first."""
    part, old = needed(document, TASKS), event.switch.old
    if any(one.title.startswith(f"{old}:") for one in sections(document, part)):
        return document  # remembered before a crash
    lines = [
        f"### {old}: {inert(cut(event.goal, TEXT)) or 'no goal was stated'}",
        "",
        f"- finished: {event.finished.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        f"- done: {inert(cut(event.summary, TEXT)) or 'none stated'}",
        f"- where: {inert(cut(event.where, TEXT)) or 'none stated'}",
        f"- verified: {inert(cut(event.verified, TEXT)) or 'not verified'}",
    ]
    if event.lessons:
        lines += ["- lessons:", *(f"  - {inert(cut(one, TEXT))}" for one in event.lessons)]
    if event.sessions:
        lines.append(f"- sessions: {', '.join(event.sessions)}")
    text = "\n".join([*lines, f"- context: {event.context}"])
    if document.text(part.body, part.content_end).strip() in ("", "none", "None."):
        return set_section(document, part, text)
    first = next(iter(sections(document, part)), None)
    return insert(
        document, first.start if first else part.content_end, f"{text}\n\n" if first else f"\n{text}"
    )


def _with_session(document: Document, event: SessionRetired) -> Document:
    part = needed(document, SESSIONS)
    own = [one for one in items(document, part) if one.depth == 0]
    head = f"{id_of(event.path)} ("
    if any(plain(one.text).startswith(head) for one in own):
        return document  # remembered before a crash
    task = "" if event.task_id in ("", NO_TASK) else f"{inert(event.task_id)}, "
    counts = f"{count_of(event.files_changed, 'file')}, {count_of(event.commits, 'commit')}"
    line = f"- {head}{task}{counts}): {inert(cut(event.summary, TEXT)) or 'none stated'}"
    if own:
        # The newest first.
        return insert(document, document.lines[document.line_at(own[0].start) - 1].start, line)
    if document.text(part.body, part.content_end).strip() in ("", "none", "None."):
        return set_section(document, part, line)
    return add_items(document, part, [line])
