"""How every document opens its file, and where in it an edit goes.

What is empty, unreadable, missing or there twice is a clear stop, never `nothing there`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache

from orchestrator.state.errors import StateError
from tickets.markdown import (
    Document,
    Item,
    MarkdownError,
    Part,
    insert,
    items,
    key_of,
    parse,
    plain,
    sections,
)
from tickets.problems import Problem

_FENCE = re.compile(rb"[ \t>]*(`{3,}|~{3,})")


# One command asks many questions of the same few texts, and a document never changes.
@lru_cache(maxsize=4)
def opened(path: str, text: bytes) -> Document:
    """Parse a state file. Raises StateError where it is empty, all NUL, or not UTF-8."""
    if not text.strip(b"\0 \t\r\n\xef\xbb\xbf"):
        raise StateError(
            Problem(path, "the file is empty", f"`git restore {path}` brings its last commit back")
        )
    with state_errors():
        return parse(text, path)


def present(path: str, text: bytes | None) -> bytes:
    """Give the text of a file that must be there. Raises StateError."""
    if text is None:
        raise StateError(Problem(path, "the file is missing", "`orchestrate init` writes it"))
    return text


def refuse_nul(document: Document) -> None:
    """Raise StateError where a text holds a NUL byte: what stands around it may be lost already."""
    at = document.data.find(b"\0")
    if at >= 0:
        place = f"{document.place}:{document.line_at(at)}"
        raise StateError(Problem(place, "holds a NUL byte", "restore the file from git"))


def refuse_open_fence(document: Document) -> None:
    """Raise StateError where a code fence is never closed."""
    at = unclosed_fence(document)
    if at is not None:
        place = f"{document.place}:{document.line_at(at)}"
        raise StateError(Problem(place, "a code fence is never closed, so what follows is code", "close it"))


def unclosed_fence(document: Document) -> int | None:
    """Give where a code fence opens that nothing closes: it makes code of all that follows."""
    for block in document.blocks:
        opening = _FENCE.match(document.data, block.start) if block.kind == "code" else None
        if opening and not document.data[block.end :].strip():
            lines = document.data[block.start : block.end].rstrip().splitlines()
            last = lines[-1].strip(b" \t>") if len(lines) > 1 else b""
            if not last.startswith(opening[1]) or last.strip(opening[1][:1]):
                return block.start
    return None


@contextmanager
def state_errors() -> Iterator[None]:
    """Turn what the document layer refuses into StateError."""
    try:
        yield
    except MarkdownError as error:
        raise StateError(*error.problems) from error


def section_like(document: Document, title: str, parent: Part | None = None) -> Part | None:
    """Give the one section of that title, or whose title begins with it; None where two do."""
    wanted = key_of(title)
    inside = sections(document, parent)
    same = [part for part in inside if key_of(part.title) == wanted]
    found = same or [part for part in inside if key_of(part.title).startswith(f"{wanted} ")]
    return found[0] if len(found) == 1 else None


def editable(path: str, tree: Mapping[str, bytes | None]) -> Document:
    """Open a state file that is about to be changed. Raises StateError where it is missing or damaged."""
    text = present(path, tree.get(path))
    document = opened(path, text)
    refuse_nul(document)
    return document


def needed(document: Document, title: str, parent: Part | None = None) -> Part:
    """Give the section that an edit is for. Raises StateError where it is missing, doubled or swallowed."""
    found = section_like(document, title, parent)
    fence = unclosed_fence(document)
    if fence is not None and (found is None or fence >= found.start):
        place = f"{document.place}:{document.line_at(fence)}"
        what = f"a code fence is never closed, so `{title}` cannot be told from code"
        raise StateError(Problem(place, what, "close it"))
    if found is not None:
        return found
    wanted = key_of(title)
    same = [one for one in sections(document, parent) if f"{key_of(one.title)} ".startswith(f"{wanted} ")]
    name = f"{parent.title} > {title}" if parent else title
    if same:
        lines = " and ".join(f"line {part.line}" for part in same)
        what = f"section `{name}` is there {len(same)} times ({lines})"
        raise StateError(Problem(document.place, what, "leave one of them"))
    do = "`orchestrate init` appends what is missing"
    raise StateError(Problem(document.place, f"section `{name}` is missing", do))


def the_item(document: Document, found: Sequence[Item], text: str, where: str) -> Item:
    """Give the item of exactly that text. Raises StateError where it is gone, or there twice."""
    same = [item for item in found if plain(item.text) == text]
    if len(same) == 1:
        return same[0]
    if same:
        lines = " and ".join(f"line {item.line}" for item in same)
        what = f"`{text}` stands {len(same)} times under {where} ({lines})"
        raise StateError(Problem(document.place, what, "leave one, or tell them apart"))
    raise StateError(Problem(document.place, f"`{text}` is not under {where}", "look at what is there"))


def with_items(document: Document, part: Part, lines: Sequence[str]) -> Document:
    """Add list lines behind the last item of a section, else below what it says; `- ` becomes its mark."""
    if not lines:
        return document
    own = [item for item in items(document, part) if item.depth == 0]
    mark = document.text(own[-1].start, own[-1].start + 1) if own else "-"
    if mark in "*+":
        lines = [mark + line[1:] if line.startswith("- ") else line for line in lines]
    at = max((item.end for item in own), default=part.own_content_end)
    gap = "\n" if not own and at > part.body else ""
    starts = {document.lines[document.line_at(item.start) - 1].start for item in document.items}
    below = document.data[at:].splitlines()[:1]
    # A paragraph right below would read on as the last line's own text.
    tail = "\n\n" if below and below[0].strip() and at not in starts and at < part.own_end else ""
    return insert(document, at, gap + "\n".join(lines) + tail)
