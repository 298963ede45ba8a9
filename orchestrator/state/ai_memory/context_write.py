"""Edits of the active context: a key's text, the runtime's items of a list, a section in its place."""

from collections.abc import Iterable, Mapping, Sequence

from orchestrator.state.ai_memory.context_keys import BY_TITLE, NONE, SECTION_OF, Section
from orchestrator.state.ai_memory.context_read import ARROW, ContextItem, read
from tickets.markdown import Document, insert, one_line, plain, set_lines, set_text
from tickets.value import Value


class ContextEdit(Value):
    """One thing that was changed."""

    section: str
    key: str
    what: str
    """`added`, `changed`, `dropped` or `moved`."""
    text: str


def said(text: str) -> str:
    """Return the words of others as one line of the file."""
    return one_line(" ".join(text.split()))


def with_text(document: Document, name: str, value: str) -> Document:
    """Set the text of a key; a missing one stands in its place in its section, where that is there."""
    found = read(document.data).key(name)
    if found is None:
        return _with_key(document, name, f"- {name}: {value}")
    if found.value == plain(value):
        return document
    gap = "" if document.data[found.value_start - 1 : found.value_start] in (b" ", b"\t") else " "
    return set_text(document, found.value_start, found.value_end, f"{gap}{value}")


def with_items(document: Document, name: str, ours: Sequence[str], *, all_of_it: bool = False) -> Document:
    """Set the runtime's items of a key, before its author's; `all_of_it`: the key has no others."""
    found = read(document.data).key(name)
    lines = [f"  - {text}" for text in ours]
    if found is None:
        return _with_key(document, name, _listed(name, lines))
    theirs = [] if all_of_it else [one for one in found.items if not one.source]
    if _texts(found.items) == [*ours, *(one.text for one in theirs)] and (ours or theirs or found.value):
        return document
    kept = _chunks(document, theirs)
    head = document.text(found.start, _line_end(document, found.start)).rstrip("\r\n")
    colon = head.index(":") + 1
    has_bold = head[colon : colon + 2] == "**"
    stem = head[: colon + (2 if has_bold else 0)]
    new = [stem if lines or kept else f"{stem} {NONE}", *lines]
    return _replaced(document, found.start, found.end, "\n".join([*new, *kept]))


def with_section_items(
    document: Document, title: str, ours: Sequence[str], *, first: bool, theirs: Sequence[str] | None = None
) -> Document:
    """Set the runtime's items of a section without keys, `first` or behind its author's.

    `theirs` are the author's items as they are to be; None: as they are.
    """
    section = read(document.data).section(title)
    if section is None:
        return document
    part = section.part
    own = [one for one in section.items if not one.source]
    kept = _chunks(document, own) if theirs is None else [f"- {text}" for text in theirs]
    lines = [f"- {text}" for text in ours]
    if _texts(section.items) == [
        *(ours if first else ()), *([one.text for one in own] if theirs is None else theirs),
        *(() if first else ours),
    ] and section.items:  # fmt: skip
        return document
    new = "\n".join([*lines, *kept] if first else [*kept, *lines]) or f"- {NONE}"
    every = [one for one in document.items if part.body <= one.start < part.own_end]
    if not every:
        gap = "" if part.own_content_end > part.body else "\n"
        return insert(document, part.own_content_end, f"{gap}{new}")
    start = min(_line_start(document, one.start) for one in every)
    return _replaced(document, start, max(one.end for one in every), new)


def with_section(document: Document, title: str, lines: Iterable[str]) -> Document:
    """Add a section before the next one of the order that is there."""
    context, number = read(document.data), BY_TITLE[title].number
    text = "\n".join([f"## {title}", "", *lines])
    after = next((one.part for one in context.sections if one.section.number > number), None)
    if after is None:
        return insert(document, len(document.data), f"\n{text}")
    return insert(document, after.start, f"{text}\n\n")


def body_of(
    section: Section, texts: Mapping[str, str], lists: Mapping[str, Sequence[str]], *, full: bool
) -> list[str]:
    """Return the lines of a new section: its mandatory keys and those that are known; `full`: all keys."""
    if not section.keys:
        return [f"- {text}" for text in lists.get(section.title, ())] or [f"- {NONE}"]
    lines: list[str] = []
    for key in section.keys:
        if key.is_list:
            items = lists.get(key.name, ())
            if items or key.mandatory or full:
                lines += _listed(key.name, [f"  - {text}" for text in items]).split("\n")
        elif texts.get(key.name) or key.mandatory or full:
            lines.append(f"- {key.name}: {texts.get(key.name) or NONE}")
    return lines


def _listed(name: str, lines: Sequence[str]) -> str:
    return "\n".join([f"- {name}:", *lines]) if lines else f"- {name}: {NONE}"


def _with_key(document: Document, name: str, text: str) -> Document:
    """Insert a key behind the one before it in its section; nothing where the section is missing."""
    context, section = read(document.data), SECTION_OF[name]
    found = context.section(section.title)
    if found is None:
        return document
    names = [key.name for key in section.keys]
    there = {key.name: key for key in found.keys}
    before = [there[one] for one in names[: names.index(name)] if one in there]
    if before:
        return insert(document, before[-1].end, text)
    at = found.keys[0].start if found.keys else found.part.own_content_end
    gap = "" if found.keys or at > found.part.body else "\n"
    return insert(document, at, f"{gap}{text}")


def _replaced(document: Document, start: int, end: int, text: str) -> Document:
    """Replace whole lines; the last one keeps its end."""
    has_end = document.data[end - 1 : end] in (b"\n", b"\r")
    return set_lines(document, start, end, text.rstrip("\n") + ("\n" if has_end else ""))


def _chunks(document: Document, found: Sequence[ContextItem]) -> list[str]:
    """Return items as they are spelled, with all that is nested below them."""
    return [document.text(one.start, one.end).replace("\r\n", "\n").rstrip("\n") for one in found]


def _texts(found: Sequence[ContextItem]) -> list[str]:
    return [line_of(one) for one in found]


def line_of(one: ContextItem) -> str:
    """Return an item with its source, as it stands in the file."""
    return f"{one.text}{ARROW}{one.source}" if one.source else one.text


def _line_start(document: Document, offset: int) -> int:
    return document.lines[document.line_at(offset) - 1].start


def _line_end(document: Document, offset: int) -> int:
    return document.lines[document.line_at(offset) - 1].end
