"""The change of the current task: its sections are put aside byte for byte, and those of another return."""

from collections.abc import Mapping, Sequence

from orchestrator.errors import StateError
from orchestrator.state.ai_memory.context_keys import NONE, SECONDARY, SECTIONS, STAY, UNSTATED, Section
from orchestrator.state.ai_memory.context_read import Context, SecondaryTask, read
from orchestrator.state.ai_memory.context_write import body_of, said
from orchestrator.state.checkpoints.names import slug
from orchestrator.state.document import opened
from tickets.markdown import Document, Part, sections
from tickets.problems import Problem
from tickets.value import Value

FOLDER = "ai_memory"
MOST = 8
"""Secondary tasks."""
_TASK = 2


class Chunk(Value):
    """One section as bytes, with what belongs to nobody behind it."""

    number: int
    data: bytes


class Split(Value):
    """A context in two: what is the project's, and what is the task's."""

    head: bytes
    stays: tuple[Chunk, ...]
    task: tuple[Chunk, ...]
    secondary: bytes
    """The section of the secondary tasks; empty where there is none."""


def file_of(task_id: str) -> str:
    """Return the path of the file that holds the sections of a task which is not the current one."""
    return f"{FOLDER}/{slug(task_id)}_ctx.md"


def split(document: Document) -> Split:
    """Divide a context; joined again, no byte is lost."""
    context = read(document.data)
    known = sorted(context.sections, key=lambda one: one.part.start)
    starts = [one.part.start for one in known]
    first = starts[0] if starts else len(document.data)
    chunks: list[Chunk] = []
    secondary = b""
    for at, one in enumerate(known):
        end = starts[at + 1] if at + 1 < len(known) else len(document.data)
        data = document.data[one.part.start : end]
        if one.section.number == _TASK and (part := _secondary_part(document, one.part)) is not None:
            secondary = document.data[part.start : part.end]
            data = document.data[one.part.start : part.start] + document.data[part.end : end]
        chunks.append(Chunk(one.section.number, data))
    stays = tuple(one for one in chunks if one.number in STAY)
    task = tuple(one for one in chunks if one.number not in STAY)
    return Split(document.data[:first], stays, task, secondary)


def aside(task_id: str, parts: Split) -> bytes:
    """Return the file that holds the sections of a task."""
    return f"# Context of {task_id}\n\n".encode() + _joined([one.data for one in parts.task])


def returned(path: str, text: bytes) -> tuple[Chunk, ...]:
    """Return the sections of a task from its file. Raises StateError where it holds none."""
    document = opened(path, text)
    found = split(document)
    if not found.task:
        raise StateError(Problem(path, "holds no section of a task", "name another task, or `new`"))
    return found.task


def begun(texts: Mapping[str, str], lists: Mapping[str, Sequence[str]]) -> tuple[Chunk, ...]:
    """Return the sections of a new task, as `init` makes them."""
    return tuple(
        Chunk(section.number, _text(section, body_of(section, texts, lists, full=False)))
        for section in SECTIONS
        if section.mandatory and section.number not in STAY
    )


def _text(section: Section, lines: Sequence[str]) -> bytes:
    return "\n".join([f"## {section.title}", "", *lines, ""]).encode()


def joined(parts: Split, task: Sequence[Chunk], secondary: bytes) -> bytes:
    """Return a context with the sections of another task, each in its place."""
    chunks = list(parts.stays)
    for one in task:
        data = one.data
        if one.number == _TASK and secondary.strip():
            data = _joined([data, secondary])
        at = next((at for at, other in enumerate(chunks) if other.number > one.number), len(chunks))
        chunks.insert(at, Chunk(one.number, data))
    return parts.head + _joined([one.data for one in chunks])


def with_secondary(context: Context, gone: str, new: SecondaryTask | None) -> bytes:
    """Return the section of the secondary tasks without one, and with another, in its author's bytes."""
    data = context.document.data
    kept = [data[one.start : one.end] for one in context.secondary if one.task_id != gone]
    if new is not None:
        lines = (
            f"- task_id: {new.task_id}", f"  - goal: {said(new.goal) or UNSTATED}",
            f"  - status: {new.status}", f"  - next: {said(new.next) or UNSTATED}",
        )  # fmt: skip
        kept.append("".join(f"{line}\n" for line in lines).encode())
    if not kept:
        return b""
    return f"### {SECONDARY}\n\n".encode() + b"".join(one.rstrip(b"\r\n") + b"\n" for one in kept) + b"\n"


def old_task(context: Context) -> SecondaryTask | None:
    """Return the current task as a secondary one; None where there is none."""
    task_id = context.text("task_id")
    if task_id in ("", NONE):
        return None
    own = [one.text for one in context.list("next") if not one.source]
    return SecondaryTask(task_id, context.text("goal"), "paused", own[0] if own else "", 0, 0, ())


def _secondary_part(document: Document, task: Part) -> Part | None:
    found = (part for part in sections(document, task) if part.title.casefold() == SECONDARY.casefold())
    return next(found, None)


def _joined(parts: Sequence[bytes]) -> bytes:
    """Join sections with a blank line between them, and one line end behind the last."""
    filled = [part.rstrip(b"\r\n") for part in parts if part.strip()]
    return b"\n\n".join(filled) + (b"\n" if filled else b"")
