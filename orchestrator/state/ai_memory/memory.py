"""ai_memory/memory.md: what outlived its task and its session."""

from collections.abc import Mapping

from orchestrator.state.ai_memory.session_read import NO_TASK, id_of
from orchestrator.state.ai_memory.sessions import TEXT, cut
from orchestrator.state.document import damage, doubled, editable, inert, needed, opened, section_like
from orchestrator.state.document import state_errors as refusing
from orchestrator.state.events import Event, SessionRetired
from orchestrator.state.facts import Facts
from tickets.markdown import Document, add_items, append_section, insert, items, plain, set_section
from tickets.problems import Problem
from tickets.wording import count_of

PATH = "ai_memory/memory.md"
OWNS: tuple[str, ...] = (PATH, "ai_memory/memory-*.md")
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
    return (PATH,) if isinstance(event, SessionRetired) else ()


def changes(tree: Mapping[str, bytes | None], event: Event) -> dict[str, bytes]:
    """Return the memory with the line of a session that retires. Raises StateError."""
    if not isinstance(event, SessionRetired):
        return {}
    with refusing():
        document = _with_sections(editable(PATH, {PATH: tree.get(PATH) or _NEW}))
        document = _with_session(document, event)
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
