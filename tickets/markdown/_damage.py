"""Damage that makes an edit unsafe: a NUL byte, an open fence or comment, fences that open inside others."""

import re

from tickets.markdown.document import Block, Document, parse
from tickets.problems import MarkdownError, Problem

_MARKER = re.compile(rb"^(?:<{7}|\|{7}|>{7})(?: .*)?\r?$", re.MULTILINE)
_FENCE = re.compile(rb"(`{3,}|~{3,})")


def unclosed(document: Document) -> Block | None:
    """Return the code fence, comment or raw tag that is never closed: all text below belongs to it."""
    data = document.data
    last = next((block for block in reversed(document.blocks) if block.kind in {"code", "html"}), None)
    if last is None or data[last.end :].strip():
        return None
    start = max(document.body, document.lines[document.lines.number_at(last.start)].start)
    held = any(item.start < last.start < item.end for item in document.items)
    if held or data[start : last.start].strip():
        return None  # the end of its list or quote closes it
    # Asking the parser is exact; to look for a closing fence means to know its width, indent and container.
    return None if parse(data[start:].rstrip() + b"\n\n# end\n", document.place).headings else last


def doubtful_from(document: Document) -> int | None:
    """Return where text and code can no longer be told apart.

    That is the fence which is never closed, or the first one that holds the opening line of another: from
    there on, what was meant as code and what was not may have changed places.
    """
    last = unclosed(document)
    if last is None:
        return None
    for block in document.blocks:
        fence = _FENCE.match(document.data, block.start) if block.kind == "code" else None
        inner = fence and re.compile(rb"[\r\n] {0,3}" + fence[1] + rb"+[ \t]*\w").search(
            document.data, block.start, block.end
        )
        if inner:
            return block.start
    return last.start


def doubt(document: Document, name: str = "what follows") -> Problem | None:
    """Return the problem with a document that ends inside a fence or comment, if it does."""
    start = doubtful_from(document)
    if start is None:
        return None
    fenced = _FENCE.match(document.data, start)
    what, kind = ("a code fence", "code") if fenced else ("a comment or raw HTML", "HTML")
    place = f"{document.place}:{document.line_at(start)}"
    return Problem(place, f"{what} is never closed, so {name} cannot be told from {kind}", "close it")


def absent(document: Document, line: int | None, name: str, what: str, do: str = "add it") -> MarkdownError:
    """Return the error for a missing element (below `line`), or for the damage that may hide it."""
    if not document.data[document.body :].strip(b"\xef\xbb\xbf\0 \t\r\n") and document.front is None:
        return MarkdownError(Problem(f"{document.place}:1", f"the file is empty, so {what}", "restore it"))
    found = doubt(document, name)
    place = document.place if line is None else f"{document.place}:{line}"
    return MarkdownError(found or Problem(place, what, do))


def check_place(document: Document, start: int, end: int) -> None:
    """Refuse an edit of `start` to `end` where the bytes are damaged or the span may be code."""
    check_bytes(document)
    found = doubt(document)
    begin = doubtful_from(document) if found else None
    if found and begin is not None and (start >= begin or end > begin):
        raise MarkdownError(found)


def check_bytes(document: Document) -> None:
    """Refuse to edit a file that holds a NUL byte: it is damaged, and each tool reads it differently."""
    found = nul_problem(document)
    if found is not None:
        raise MarkdownError(found)


def nul_problem(document: Document) -> Problem | None:
    """Return the problem of a document that holds a NUL byte: the text around it may be lost already."""
    at = document.data.find(b"\0")
    if at < 0:
        return None
    place = f"{document.place}:{document.line_at(at)}"
    return Problem(place, "holds a NUL byte", "restore the file from git")


def conflict_problem(document: Document) -> Problem | None:
    """Return the problem of a document in which a merge has left its markers; in code they are an example."""
    codes = [(block.start, block.end) for block in document.blocks if block.kind == "code"]
    for match in _MARKER.finditer(document.data):
        if not any(start <= match.start() < end for start, end in codes):
            place = f"{document.place}:{document.line_at(match.start())}"
            do = "finish the merge: choose what stays, and remove the markers"
            return Problem(place, "holds both sides of a conflict", do)
    return None


def open_fence(document: Document) -> int | None:
    """Return where a code fence opens that is never closed: all text below becomes code."""
    found = unclosed(document)
    return found.start if found is not None and found.kind == "code" else None
