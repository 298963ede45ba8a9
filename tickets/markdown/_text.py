"""Foreign text as one safe line of a document, and back."""

import re

# Left as text until a line needs them: a reader of documents writes none.
_ANSI = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])|\x9b[0-?]*[ -/]*[@-~]"
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
# Overrides of the writing direction make a line show another text than it holds.
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
_OPENS_HTML = r"<[A-Za-z/!?]"
_MAY_NEED_ESCAPES = re.compile(r"[`\\<]")
_OPENS_BLOCK = (
    r"[#>=|~+-]"
    r"|\*(?:\s|$)|(?:\*\s*){3,}$|_\s*(?:_\s*){2,}$"
    r"|\[[ xX]\]|\[[^\]]*\]:"
)
_OPENS_NUMBER = r"(\d{1,9})([.)])(?=\s|$)"
_CLOSES_HEADING = r"(?<=\s)#+$"


def one_line(text: str, *, spans: bool = True) -> str:
    """Make `text` one harmless line: no control characters, and nothing that opens a block or HTML.

    `plain` reads it back: only white space, control characters and direction overrides are lost. Without
    `spans` the marks of code spans are escaped too, so that a caller can escape what is inside them.
    """
    flat = " ".join(_printable(text).split())
    if not flat:
        return ""
    flat = _escaped(flat, spans=spans)
    if re.match(_OPENS_BLOCK, flat):
        flat = "\\" + flat
    elif flat.startswith("```"):
        # A whole code span at the very start would open a fence; a zero escape cannot help inside it.
        flat = re.sub(r"`", r"\\`", flat)
    flat = re.sub(_OPENS_NUMBER, r"\1\\\2", flat, count=1) if re.match(_OPENS_NUMBER, flat) else flat
    closing = re.search(_CLOSES_HEADING, flat)
    return flat if closing is None else flat[: closing.start()] + "\\" + closing.group()


def plain(text: str) -> str:
    """Remove the backslash escapes from a line, except in code spans."""
    if "\\" not in text:
        return text
    out = []
    at = 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text) and text[at + 1] in _PUNCTUATION:
            out.append(text[at + 1])
            at += 2
        elif text[at] == "`":
            end = span_end(text, at) or _run_end(text, at)
            out.append(text[at:end])
            at = end
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


def _printable(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    import unicodedata  # noqa: PLC0415 - for start-up time: most text is plain

    kept = []
    for char in re.sub(_ANSI, "", text):
        kind = unicodedata.category(char)
        if kind == "Cs":
            kept.append("\ufffd")  # a lone surrogate cannot be encoded
        elif kind in {"Zl", "Zp"} or char in "\t\n\r\v\f\x1c\x1d\x1e\x1f\x85":
            kept.append(" ")
        elif kind != "Cc" and char not in _BIDI:
            kept.append(char)
    return "".join(kept)


def _escaped(text: str, *, spans: bool) -> str:
    if not _MAY_NEED_ESCAPES.search(text):
        return text
    out = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == "`":
            span = span_end(text, at) if spans else None
            end = span or _run_end(text, at)
            out.append(text[at:end] if span else "\\`" * (end - at))
            at = end
            continue
        follows = text[at + 1] if at + 1 < len(text) else None
        is_escape = char == "\\" and (follows is None or follows in _PUNCTUATION)
        if is_escape or re.match(_OPENS_HTML, text[at : at + 2]):
            out.append("\\")
        out.append(char)
        at += 1
    return "".join(out)


def _run_end(text: str, at: int) -> int:
    while at < len(text) and text[at] == "`":
        at += 1
    return at


def span_end(text: str, at: int) -> int | None:
    """Return the end of the code span that opens at `at`, or None where it is never closed."""
    width = _run_end(text, at) - at
    seek = at + width
    while (seek := text.find("`", seek)) >= 0:
        end = _run_end(text, seek)
        if end - seek == width:
            return end
        seek = end
    return None
