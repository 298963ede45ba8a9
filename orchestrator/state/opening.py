"""How every document opens its file: what is empty or unreadable is a clear stop, never `nothing there`."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from orchestrator.state.errors import StateError
from tickets.markdown import Document, MarkdownError, parse
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
