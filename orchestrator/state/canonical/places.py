"""Where an edit goes: the one section of a name, whole and readable, or a stop that says what is wrong."""

from collections.abc import Mapping, Sequence

from orchestrator.state.canonical.status_reading import section_like
from orchestrator.state.errors import StateError
from orchestrator.state.opening import opened, present, refuse_nul, unclosed_fence
from tickets.markdown import Document, Item, Part, insert, items, key_of, plain, sections
from tickets.problems import Problem


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
