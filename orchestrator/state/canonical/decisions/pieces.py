"""DECISIONS.md read piece by piece: of many versions of one log, an entry that they share is read once."""

import re
from functools import lru_cache
from typing import NamedTuple

from orchestrator.state.canonical.decisions.read import PATH, dated, spans
from orchestrator.state.document import state_errors
from tickets.markdown import Heading, parse

# Behind a blank line nothing goes on but a fence or HTML, and whether one does is seen for each piece.
_BORDER = re.compile(rb"(?<=\n)\r?\n(?=#{2,6}[ \t]+[^\w\r\n]*\d{4}-\d\d-\d\d)")
_FRONT = re.compile(rb"(?:\xef\xbb\xbf)?---")
_NEXT = b"\n\n## The next piece\n"


class _Piece(NamedTuple):
    """What stands between two borders."""

    headings: tuple[Heading, ...]
    """Those that have a date."""
    ended: bool
    """Whether what follows is read apart from it."""
    linked: bool
    """Whether a definition elsewhere may change how its headings read."""


def spans_by_piece(text: bytes) -> list[tuple[str, str]]:
    """Give what `decision_reading.spans` gives. Raises StateError where the log cannot be read."""
    borders = [match.end() for match in _BORDER.finditer(text)]
    starts = [0, *borders]
    with state_errors():
        pieces = [_piece(text[start:end]) for start, end in zip(starts, [*borders, len(text)], strict=True)]
    is_linked = b"]:" in text and any(piece.linked for piece in pieces)
    if not borders or _FRONT.match(text) or is_linked or not all(piece.ended for piece in pieces):
        return spans(text)
    found = [(one, start) for piece, start in zip(pieces, starts, strict=True) for one in piece.headings]
    entries = [(one, start) for one, start in found if one.level == found[0][0].level]
    ends = [*(start + one.start for one, start in entries[1:]), len(text)]
    return [
        (one.title, text[min(start + one.end, end) : end].decode())
        for (one, start), end in zip(entries, ends if entries else (), strict=True)
    ]


@lru_cache(maxsize=4096)
def _piece(text: bytes) -> _Piece:
    headings = parse(text + _NEXT, PATH).headings
    found = tuple(one for one in headings if dated(one))
    ended = bool(headings) and headings[-1].start == len(text) + _NEXT.index(b"#")
    return _Piece(found, ended, linked=any(b"[" in text[one.start : one.end] for one in found))
