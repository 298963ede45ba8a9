"""How every document opens its file: what is empty or unreadable is a clear stop, never `nothing there`."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from orchestrator.state.errors import StateError
from tickets.markdown import Document, MarkdownError, parse
from tickets.problems import Problem


# One command asks many questions of the same few texts, and a document never changes.
@lru_cache(maxsize=4)
def opened(path: str, text: bytes) -> Document:
    """Parse a state file. Raises StateError where it is empty, all NUL, or not UTF-8."""
    if not text.strip(b"\0 \t\r\n\xef\xbb\xbf"):
        raise StateError(
            Problem(path, "the file is empty", "run `orchestrate repair`, or restore it from git")
        )
    with state_errors():
        return parse(text, path)


def present(path: str, text: bytes | None) -> bytes:
    """Give the text of a file that must be there. Raises StateError."""
    if text is None:
        raise StateError(Problem(path, "the file is missing", "`orchestrate init` writes it"))
    return text


@contextmanager
def state_errors() -> Iterator[None]:
    """Turn what the document layer refuses into StateError."""
    try:
        yield
    except MarkdownError as error:
        raise StateError(*error.problems) from error
