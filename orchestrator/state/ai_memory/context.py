"""ai_memory/active_context.md: the state of the current task, sufficient for a lead with an empty context.

Copies of the state files change with their home, in every event; the rest when a lead synchronizes it.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from orchestrator.errors import StateError
from orchestrator.state import Tree
from orchestrator.state.ai_memory.context_copies import Copies, blocked_line, copies_of, started
from orchestrator.state.ai_memory.context_keys import (
    BY_TITLE,
    NONE,
    SECTION_OF,
    SECTIONS,
    UNSTATED,
    WORDS,
    key_named,
    section_named,
)
from orchestrator.state.ai_memory.context_read import ARROW, PATH, Context, read
from orchestrator.state.ai_memory.context_tasks import (
    aside,
    begun,
    file_of,
    joined,
    old_task,
    returned,
    split,
    with_secondary,
)
from orchestrator.state.ai_memory.context_write import (
    body_of,
    line_of,
    said,
    with_items,
    with_section,
    with_section_items,
    with_text,
)
from orchestrator.state.canonical.decisions.read import PATH as DECISIONS
from orchestrator.state.canonical.status.read import PATH as STATUS
from orchestrator.state.checkpoints import checkpoint
from orchestrator.state.checkpoints.read import read as read_checkpoint
from orchestrator.state.document import damage, editable, opened, state_errors
from orchestrator.state.events import (
    CheckpointWritten,
    ContextArchived,
    ContextSwitched,
    ContextSynced,
    Event,
)
from orchestrator.state.facts import Facts
from tickets.markdown import Document, plain, sections
from tickets.problems import Problem

OWNS: tuple[str, ...] = (PATH, "ai_memory/*_ctx.md")

HEAD = """\
# Active Context

State as of now. `orchestrate resume` has it live, `orchestrate context sync` brings this file up to date.
"""
KNOWN_AT_FIRST = ("Verification", "Environment Snapshot", "Git State Snapshot")
"""Sections that `init` writes where it knows something of them."""
DECISIONS_TITLE = "Decisions"
BLOCKERS = "Open Questions / Blockers"
_TIME = "%Y-%m-%dT%H:%M:%SZ"
BEGUN = (11, 15)
"""Sections that a synchronization begins where it has something to say in them."""
_PLACES = ("docs/progress/", "phases/")
_CUTS = (
    ("last_terminal_sessions", 0), ("related_code", 0), ("active_files", 3), ("failing_tests", 3),
    (DECISIONS_TITLE, 2), ("done", 2),
)  # fmt: skip
"""What a file above its budget loses of the runtime's items, in this order, down to how many."""
TOKEN = 3
"""Bytes that count as one token."""


def needs(tree: Tree, event: Event) -> tuple[str, ...]:
    """Return the file, and the homes of what it copies; none where there is no context to keep."""
    if isinstance(event, ContextSynced):
        return (PATH, STATUS, DECISIONS)
    if isinstance(event, ContextArchived):
        event = event.switch
    if isinstance(event, ContextSwitched):
        files = tuple(file_of(task) for task in (event.old, event.to) if task)
        return (PATH, STATUS, DECISIONS, *files)
    if not tree.get(PATH):
        return ()
    if isinstance(event, CheckpointWritten):
        return (PATH, *checkpoint.needs(tree, event))
    return (PATH, STATUS, DECISIONS)


def changes(tree: Tree, event: Event) -> dict[str, bytes | None]:
    """Return the context with what the event changes. Raises StateError where it cannot be edited.

    `tree` holds the homes as they are after the event.
    """
    text = tree.get(PATH)
    if isinstance(event, ContextSynced):
        return {**_written(text, synced(tree, event), event.at)}
    if isinstance(event, ContextArchived):
        return _switched(tree, event.switch, keeps=False)
    if isinstance(event, ContextSwitched):
        return _switched(tree, event, keeps=True)
    if is_empty(text):
        return {}
    before = editable(PATH, tree)
    with state_errors():
        if isinstance(event, CheckpointWritten):
            after = _with_checkpoint(before, tree, event)
        else:
            after = _with_copies(before, copies_of(tree, _since(read(before.data))))
    return {**_written(text, after, event.at)}


def synced(tree: Tree, event: ContextSynced) -> Document:
    """Return the context brought up to date; a missing or empty one is rebuilt. Raises StateError."""
    text = tree.get(PATH)
    copies = copies_of(tree, "")
    with state_errors():
        if is_empty(text):
            document = _begun(event, copies, is_lost=event.is_lost)
        else:
            document = _completed(editable(PATH, tree), event, copies)
        context = read(document.data)
        document = _with_edits(_with_facts(document, event), event)
        document = _with_copies(document, copies_of(tree, _since(context)), event)
        return _fitted(document, event.budget)


def _switched(tree: Tree, event: ContextSwitched, *, keeps: bool) -> dict[str, bytes | None]:
    """Return the context with another task, and the file with the old one's sections.

    `keeps`: the old task becomes a secondary one. Raises StateError.
    """
    before = synced(tree, event.sync)
    context, parts = read(before.data), split(before)
    files: dict[str, bytes | None] = {}
    old = old_task(context)
    if old is not None and old.task_id == event.old:
        files[file_of(old.task_id)] = aside(old.task_id, parts)
    path = file_of(event.to) if event.to else ""
    text = tree.get(path) if path else None
    if text is not None:
        task = returned(path, text)
        files[path] = None
    else:
        texts = {**dict(event.sync.once), "task_id": event.to or NONE, "goal": event.goal or UNSTATED}
        task = begun(texts, {})
    secondary = with_secondary(context, event.to, old if keeps else None)
    with state_errors():
        document = opened(PATH, joined(parts, task, secondary))
        if old is not None and event.to:
            line = f"current task is {event.to} instead of {old.task_id} \u2192 {event.reason}"
            document = _added(document, "decisions", line, event.at)
        lists = tuple(one for one in event.sync.lists if one[0] != "related_docs")
        facts = event.sync._replace(sets=(), adds=(), drops=(), lists=lists)
        document = _with_facts(document, facts._replace(once=()))
        document = _with_copies(document, copies_of(tree, _since(read(document.data))), facts)
        kept = [one for one in files if files[one] is not None]
        now = read(document.data).list("related_docs")
        listed = [line_of(one) for one in now if one.source and not (path and path in one.text)]
        ours = [f"{one}{ARROW}{event.old}" for one in kept]
        if ours or listed:
            document = with_items(document, "related_docs", [*listed, *ours])
        document = _fitted(document, event.sync.budget)
        stamped = with_text(document, "last_updated", f"{event.at.astimezone(UTC):{_TIME}}")
    return {**files, PATH: stamped.data}


def copies_behind(tree: Tree, since: str = "") -> bytes:
    """Return the context with its copies as their homes have them. Raises StateError."""
    with state_errors():
        document = editable(PATH, tree)
        return _with_copies(document, copies_of(tree, since or _since(read(document.data)))).data


def is_empty(text: bytes | None) -> bool:
    """Return whether there is nothing in the file: it is missing, blank, or NUL bytes."""
    return not (text or b"").strip(b"\0 \t\r\n\xef\xbb\xbf")


def problems(text: bytes) -> list[Problem]:
    """Return the problems that keep the file from being edited, and sections that are there twice."""
    try:
        document = opened(PATH, text)
    except StateError as error:
        return list(error.problems)
    found = list(damage(PATH, text))
    seen: dict[str, int] = {}
    for part in sections(document):
        section = section_named(part.title)
        if section is None:
            continue
        if section.title in seen:
            what = (
                f"section `{section.title}` is there twice (line {seen[section.title]} and line {part.line})"
            )
            found.append(Problem(f"{PATH}:{part.line}", what, "make one of both"))
        seen.setdefault(section.title, part.line)
    with suppress(StateError), state_errors():
        names = [(key.name, key.line) for one in read(text).sections for key in one.keys]
        lines: dict[str, int] = {}
        for name, line in names:
            if name in lines and name in SECTION_OF and SECTION_OF[name].number != 17:
                what = f"`{name}` is there twice (line {lines[name]} and line {line})"
                found.append(Problem(f"{PATH}:{line}", what, "keep one of them"))
            lines.setdefault(name, line)
    return found


def complete(text: bytes, _: Facts) -> bytes:
    """Return the file as it is: `context init` and `context sync` begin and complete it."""
    return text


def tokens_of(data: bytes) -> int:
    """Return the tokens of a text, of three bytes each."""
    return -(-len(data) // TOKEN)


def _written(text: bytes | None, after: Document, at: datetime) -> dict[str, bytes]:
    """Return the file, with the time of the change, where anything else changed."""
    if text is not None and _without_time(opened_or_none(text)) == _without_time(after):
        return {}
    with state_errors():
        return {PATH: with_text(after, "last_updated", f"{at.astimezone(UTC):{_TIME}}").data}


def opened_or_none(text: bytes) -> Document | None:
    """Parse a text that may be empty."""
    return None if is_empty(text) else opened(PATH, text)


def _without_time(document: Document | None) -> bytes | None:
    if document is None:
        return None
    key = read(document.data).key("last_updated")
    return document.data if key is None else document.data[: key.start] + document.data[key.end :]


def _since(context: Context) -> str:
    return started([context.text("task_started")])


def _begun(event: ContextSynced, copies: Copies, *, is_lost: bool) -> Document:
    texts = {**dict(event.texts), **dict(event.once), "plan": copies.plan}
    lists: dict[str, Sequence[str]] = dict(event.lists)
    lists |= {"done": copies.done, "in_progress": copies.in_progress, "next": copies.next}
    blockers = (*copies.blockers, *event.blocked)
    if is_lost:
        told = f"This file was missing on {event.at.astimezone(UTC):%Y-%m-%d} and was rebuilt"
        blockers = (f"{told}; confirm goal and scope{ARROW}sync", *blockers)
    lists |= {DECISIONS_TITLE: copies.decisions, BLOCKERS: blockers}
    wanted = [one for one in SECTIONS if one.mandatory or event.full or one.title in KNOWN_AT_FIRST]
    parts = [HEAD]
    for section in wanted:
        known = any(texts.get(key.name) or lists.get(key.name) for key in section.keys)
        if section.mandatory or event.full or known:
            lines = body_of(section, texts, lists, full=event.full)
            parts.append("\n".join([f"## {section.title}", "", *lines, ""]))
    return opened(PATH, "\n".join(parts).encode())


def _completed(document: Document, event: ContextSynced, copies: Copies) -> Document:
    """Add the mandatory sections and keys that a context lacks, where that is asked for."""
    if not event.begins:
        return document
    texts = {**dict(event.texts), **dict(event.once), "plan": copies.plan}
    lists: dict[str, Sequence[str]] = dict(event.lists)
    for section in SECTIONS:
        there = read(document.data).section(section.title)
        if there is None and (section.mandatory or event.full):
            document = with_section(document, section.title, body_of(section, texts, lists, full=event.full))
        elif there is not None:
            names = {key.name for key in there.keys}
            for key in section.keys:
                if key.name in names or not (key.mandatory or event.full):
                    continue
                if key.is_list:
                    document = with_items(document, key.name, lists.get(key.name, ()))
                else:
                    document = with_text(document, key.name, texts.get(key.name) or NONE)
    return document


def _with_facts(document: Document, event: ContextSynced) -> Document:
    for name, value in event.texts:
        document = with_text(document, name, value)
    for name, value in event.once:
        found = read(document.data).key(name)
        if found is None or not found.value:
            document = with_text(document, name, value)
    for name, lines in event.lists:
        found = read(document.data).key(name)
        keeper = key_named(name).keeper
        if keeper == "once" and found is not None and (found.items or found.value):
            continue
        if found is None and not lines:
            continue
        section = SECTION_OF[name]
        if section.number in BEGUN and read(document.data).section(section.title) is None:
            known = body_of(section, dict(event.texts), {}, full=False)
            document = with_section(document, section.title, known)
        document = with_items(document, name, lines, all_of_it=keeper == "runtime")
    return document


def _with_copies(document: Document, copies: Copies, event: ContextSynced | None = None) -> Document:
    context = read(document.data)
    plan = context.text("plan")
    if not plan or plan.startswith(STATUS) or plan in (NONE, UNSTATED):
        document = with_text(document, "plan", copies.plan)
    for name, lines in (("done", copies.done), ("in_progress", copies.in_progress), ("next", copies.next)):
        document = with_items(document, name, lines)
    if context.section("Guardrails") is not None:
        document = with_items(document, "definition_of_done", copies.criteria)
    document = with_section_items(document, DECISIONS_TITLE, copies.decisions, first=False)
    # Those of checkpoints and phases have homes of their own, and come with a synchronization.
    now = context.list(BLOCKERS)
    kept = [line_of(one) for one in now if one.source.startswith(_PLACES)]
    told = [line_of(one) for one in now if one.source == "sync"]
    others = kept if event is None else list(event.blocked)
    return with_section_items(document, BLOCKERS, [*told, *copies.blockers, *others], first=False)


def _with_checkpoint(document: Document, tree: Tree, event: CheckpointWritten) -> Document:
    """Return the context with, or without, the item about one checkpoint."""
    tried = checkpoint.needs(tree, event)
    text = tree.get(tried[-1]) if tried else None
    found = read_checkpoint(tried[-1], text) if text else None
    if found is None:
        return document
    now = [one for one in read(document.data).list(BLOCKERS) if one.source]
    lines = [line_of(one) for one in now if one.source != found.path]
    if found.status == "blocked":
        lines.append(blocked_line(found))
    return with_section_items(document, BLOCKERS, lines, first=False)


def _with_edits(document: Document, event: ContextSynced) -> Document:
    for name, text in event.sets:
        if key_named(name).is_list:
            document = _with_own(document, name, [] if not text else [said(text)])
        else:
            document = _there(document, name)
            document = with_text(document, name, said(text) or NONE)
    for name, text in event.adds:
        document = _added(document, name, said(text), event.at)
    for name, text in event.drops:
        document = _dropped(document, name, text)
    return document


def _there(document: Document, name: str) -> Document:
    """Return a document with the section of a key."""
    section = SECTION_OF[name]
    if read(document.data).section(section.title) is None:
        return with_section(document, section.title, [f"- {name}: {NONE}"])
    return document


def _with_own(document: Document, name: str, texts: Sequence[str]) -> Document:
    """Set the author's items of a key; the runtime's stay."""
    document = _there(document, name)
    ours = [line_of(one) for one in read(document.data).list(name) if one.source]
    document = with_items(document, name, ours, all_of_it=True)
    return with_items(document, name, [*ours, *texts], all_of_it=True)


def _added(document: Document, name: str, text: str, at: datetime) -> Document:
    if name in WORDS:
        title = WORDS[name].title
        if read(document.data).section(title) is None:
            document = with_section(document, title, [f"- {NONE}"])
        context = read(document.data)
        theirs = [line_of(one) for one in context.list(title) if not one.source]
        ours = [line_of(one) for one in context.list(title) if one.source]
        line = f"{at.astimezone(UTC):{_TIME}} \u2192 {text}" if name == "decisions" else text
        new = [line, *theirs] if name == "decisions" else [*theirs, line]
        return with_section_items(document, title, ours, first=False, theirs=new)
    document = _there(document, name)
    found = read(document.data).list(name)
    theirs = [one.text for one in found if not one.source]
    document = _with_own(document, name, [*theirs, text])
    if name == "done":
        for other in ("in_progress", "next"):
            left = [one.text for one in read(document.data).list(other) if not one.source]
            if text in left:
                document = _with_own(document, other, [one for one in left if one != text])
    return document


def _dropped(document: Document, name: str, text: str) -> Document:
    """Return the document without one item of its author's. Raises StateError where it is not there."""
    title = WORDS[name].title if name in WORDS else ""
    found = read(document.data).list(title or name)
    wanted = plain(said(text)).casefold()
    same = [one for one in found if not one.source and wanted in one.text.casefold()]
    exact = [one for one in same if one.text.casefold() == wanted] or same
    if len(exact) != 1:
        what = (
            f"no item of `{name}` reads `{text}`"
            if not exact
            else f"`{text}` may be {len(exact)} items of `{name}`"
        )
        do = "an item with a source goes with it" if not exact else "name more of it"
        raise StateError(Problem(PATH, what, do))
    rest = [one.text for one in found if not one.source and one != exact[0]]
    if title:
        ours = [line_of(one) for one in found if one.source]
        return with_section_items(document, title, ours, first=False, theirs=rest)
    return _with_own(document, name, rest)


def _fitted(document: Document, budget: int) -> Document:
    """Cut the runtime's items until the file has its budget; its author's words stay."""
    for name, most in _CUTS:
        if not budget or tokens_of(document.data) <= budget:
            return document
        found = read(document.data).list(name)
        ours = [line_of(one) for one in found if one.source or (name in SECTION_OF and _is_runtime(name))]
        if len(ours) <= most:
            continue
        if name in BY_TITLE:
            document = with_section_items(document, name, ours[:most], first=False)
        else:
            document = with_items(document, name, ours[:most], all_of_it=_is_runtime(name))
    return document


def _is_runtime(name: str) -> bool:
    return key_named(name).keeper == "runtime"
