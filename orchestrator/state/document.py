"""State files as documents: how each is opened, its damage, and where in it an edit goes.

An empty, unreadable, missing or repeated part stops an edit; it never counts as having no content.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from orchestrator.errors import StateError
from tickets.markdown import (
    Document,
    Item,
    MarkdownError,
    Part,
    conflict_problem,
    field,
    header,
    insert,
    key_of,
    nul_problem,
    one_line,
    open_fence,
    parse,
    plain,
    sections,
)
from tickets.problems import Problem

# Left as text until words are written: readers need none of it.
_FORMS = (
    r"(?i)\((?=scope:|complete\b|done\b|in progress\b|next\b|planned\b|blocked\b|\d+% complete)"
    r"|\((?=[a-z_ ]+, [a-z ,]*integrated )|(?<=owner):|(?<=pending):|:(?= (?:approved|rejected) by )"
    r"|(?<=run \d{8}_\d{6})\)|(?<=run \d{8}_\d{6}_\d)\)"
    r"|(?<=integrated run \d{8}_\d{6} )\(|(?<=integrated run \d{8}_\d{6}_\d )\("
)
"""The marks by which the lines of state files are read, where others have written them: each is escaped."""
_KEPT = 8
_parsed: dict[tuple[str, bytes], Document] = {}
"""The documents that were opened or made last: one command asks many questions of the same few texts."""


def parsed(text: bytes, path: str) -> Document:
    """Parse a text, once while it is among the last ones. Raises MarkdownError."""
    found = _parsed.get((path, text))
    return kept(parse(text, path)) if found is None else found


def kept(document: Document) -> Document:
    """Keep a document for whoever opens its text next: what an edit has made need not be parsed again."""
    while len(_parsed) >= _KEPT:
        _parsed.pop(next(iter(_parsed), ("", b"")), None)
    _parsed[document.place, document.data] = document
    return document


def opened(path: str, text: bytes) -> Document:
    """Parse a state file. Raises StateError where it is empty, all NUL, or not UTF-8."""
    if not text.strip(b"\0 \t\r\n\xef\xbb\xbf"):
        raise StateError(
            Problem(path, "the file is empty", f"`git restore {path}` brings its last commit back")
        )
    with state_errors():
        return parsed(text, path)


def present(path: str, text: bytes | None) -> bytes:
    """Return the text of a file that must be there. Raises StateError."""
    if text is None:
        raise StateError(Problem(path, "the file is missing", "`orchestrate init` writes it"))
    return text


def damage(path: str, text: bytes) -> list[Problem]:
    """List the damage that makes a file unfit for any edit, though it may be readable in part."""
    try:
        document = opened(path, text)
    except StateError:
        return []  # the document's own check reports it
    found = (nul_problem(document), fence_problem(document), conflict_problem(document))
    return [problem for problem in found if problem is not None]


def merge_conflicts(texts: Mapping[str, bytes | None]) -> list[Problem]:
    """List the files in which a merge has left its markers: nothing of ours resolves a conflict."""
    found = []
    for path, text in texts.items():
        if text and (b"<<<<<<<" in text or b">>>>>>>" in text):
            with suppress(StateError):
                found.append(conflict_problem(opened(path, text)))
    return [problem for problem in found if problem is not None]


def refuse_open_fence(document: Document) -> None:
    """Raise StateError where a code fence is never closed."""
    found = fence_problem(document)
    if found is not None:
        raise StateError(found)


def fence_problem(document: Document, hidden: str = "") -> Problem | None:
    """Return the problem with a code fence that is never closed; `hidden` names what it may hide."""
    at = open_fence(document)
    if at is None:
        return None
    follows = f"`{hidden}` cannot be told from code" if hidden else "what follows is code"
    place = f"{document.place}:{document.line_at(at)}"
    return Problem(place, f"a code fence is never closed, so {follows}", "close it")


@contextmanager
def state_errors() -> Iterator[None]:
    """Turn refusals of the document layer into StateError."""
    try:
        yield
    except MarkdownError as error:
        raise StateError(*error.problems) from error


def inert(text: str, *, spans: bool = True) -> str:
    """Make the words of others one line of a state file, in which none is read as a part of our own forms.

    All titles, names and reasons go through it; `plain` reads them back. `spans` is as for `one_line`.
    """
    line = one_line(text, spans=spans)
    return re.sub(_FORMS, r"\\\g<0>", one_line(text, spans=False)) if re.search(_FORMS, line) else line


_HOLDS = {"TODO": ("P0", "P1", "P2")}
"""By title of a section: what is below it, and not below others whose titles begin alike."""


def section_like(document: Document, title: str, parent: Part | None = None) -> Part | None:
    """Return the one section of that title, or whose title begins with it; None where two do."""
    found = sections_like(document, title, parent)
    same = [part for part in found if key_of(part.title) == key_of(title)] or found
    if len(same) > 1 and title in _HOLDS:
        same = [part for part in same if any(sections_like(document, one, part) for one in _HOLDS[title])]
    return same[0] if len(same) == 1 else None


def sections_like(document: Document, title: str, parent: Part | None = None) -> list[Part]:
    """Return the sections whose title is, or begins with, that one."""
    wanted = f"{key_of(title)} "
    return [part for part in sections(document, parent) if f"{key_of(part.title)} ".startswith(wanted)]


def doubled(document: Document, title: str, parent: Part | None = None) -> Problem | None:
    """Return the problem with a repeated section: an edit could not choose one."""
    same = sections_like(document, title, parent)
    if len(same) < 2 or section_like(document, title, parent) is not None:
        return None
    lines = " and ".join(f"line {part.line}" for part in same)
    what = f"section `{_named(title, parent)}` is there {len(same)} times ({lines})"
    return Problem(document.place, what, "keep one of them")


def _named(title: str, parent: Part | None) -> str:
    return f"{parent.title} > {title}" if parent else title


def editable(path: str, tree: Mapping[str, bytes | None]) -> Document:
    """Open a state file for a change. Raises StateError where it is missing or damaged."""
    document = opened(path, present(path, tree.get(path)))
    found = nul_problem(document) or conflict_problem(document)
    if found is not None:
        raise StateError(found)
    return document


def needed(document: Document, title: str, parent: Part | None = None) -> Part:
    """Return the section of an edit. Raises StateError where it is missing, repeated or hidden by code."""
    found = section_like(document, title, parent)
    fence = open_fence(document)
    if fence is not None and (found is None or fence >= found.start):
        raise StateError(*filter(None, [fence_problem(document, title)]))
    if found is not None:
        return found
    do = "`orchestrate init` appends what is missing"
    missing = Problem(document.place, f"section `{_named(title, parent)}` is missing", do)
    raise StateError(doubled(document, title, parent) or missing)


def the_item(document: Document, found: Sequence[Item], text: str, where: str) -> Item:
    """Return the item of exactly that text. Raises StateError where it is missing or repeated."""
    same = [item for item in found if plain(item.text) == text]
    if len(same) == 1:
        return same[0]
    if same:
        lines = " and ".join(f"line {item.line}" for item in same)
        what = f"`{text}` is there {len(same)} times under {where} ({lines})"
        raise StateError(Problem(document.place, what, "keep one, or give them different texts"))
    raise StateError(Problem(document.place, f"`{text}` is not under {where}", "read the file"))


def below(document: Document, item: Item) -> str:
    """Return the lines that belong to an item below its own text, as they are to stand below `- `."""
    first = document.lines[document.line_at(item.start) - 1].start
    width = (item.text_start if item.box is None else item.box - 1) - first
    lines = document.text(item.text_end, item.end).replace("\r\n", "\n").replace("\r", "\n").split("\n")[1:]
    kept = [line[min(max(0, width - 2), len(line) - len(line.lstrip(" "))) :] for line in lines]
    return "\n".join(kept).rstrip("\n")


def with_fields(document: Document, title: str, wanted: Mapping[str, str]) -> Document:
    """Add the fields that the header of a document lacks, and a title where it has none."""
    top = header(document)
    lines = [f"**{key}:** {text}" for key, text in wanted.items() if field(document, top, key) is None]
    if not lines:
        return document
    if top.title:
        after = document.data[top.body :][:2]
        gap = "" if not after or after[:1] in {b"\n", b"\r"} else "\n"
        return insert(document, top.body, "\n" + "\n".join(lines) + f"\n{gap}")
    return insert(document, document.body, "\n".join([title, "", *lines, "", ""]))
