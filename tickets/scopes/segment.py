"""One segment of a path pattern: the names that it matches, and the names that several segments share.

A segment is plain text, a `Glob`, or `ANY_DEPTH` (`**` alone). What a class or `?` matches is a set of
code points; a name is never empty, `.` or `..`.
"""

import bisect
import functools
import unicodedata
from typing import Final, TypeAlias

CharSet: TypeAlias = tuple[tuple[int, int], ...]
"""Sorted ranges of code points, both ends included."""

ANY_CHAR: Final[CharSet] = ((1, 0x10FFFF),)
NOT_NAMES: Final = frozenset({"", ".", ".."})
LONGEST_GLOB: Final = 255


class SegmentError(ValueError):
    """Raised for text that is not a segment: what is wrong, and what to write instead."""

    def __init__(self, what: str, do: str) -> None:
        self.what, self.do = what, do
        super().__init__(f"{what}; {do}")


class Glob:
    """A segment with wildcards. `None` among the tokens is `*`; all else matches one code point.

    `one_star`: the tokens are just head, `*` and tail. `sample` is a name that it matches; empty where only
    the automaton can find one.
    """

    __slots__ = ("head", "ignore_case", "one_star", "sample", "spelling", "tail", "tokens")

    def __init__(
        self,
        spelling: str,
        *,
        ignore_case: bool,
        tokens: tuple[CharSet | None, ...],
        head: str,
        tail: str,
        one_star: bool,
        sample: str = "",
    ) -> None:
        self.spelling, self.ignore_case, self.tokens = spelling, ignore_case, tokens
        self.head, self.tail, self.one_star, self.sample = head, tail, one_star, sample

    def __eq__(self, other: object) -> bool:
        """Return whether the other one has the same spelling and the same case rule."""
        if not isinstance(other, Glob):
            return NotImplemented
        return (self.spelling, self.ignore_case) == (other.spelling, other.ignore_case)

    def __hash__(self) -> int:
        """Return the hash of what is compared."""
        return hash((self.spelling, self.ignore_case))

    def __repr__(self) -> str:
        """Return what is compared, as text."""
        return f"Glob({self.spelling!r}, ignore_case={self.ignore_case})"

    def matches(self, name: str) -> bool:
        """Return whether the glob matches a name (folded, if case is ignored)."""
        if not (name.startswith(self.head) and name.endswith(self.tail)):
            return False
        if self.one_star:
            return len(name) >= len(self.head) + len(self.tail)
        tokens, at, here, star, mark = self.tokens, 0, 0, -1, 0
        # Going back to the last star alone is enough, and keeps `*a*a*a*` from taking exponential time.
        while here < len(name):
            if at < len(tokens) and (wanted := tokens[at]) is None:
                star, mark, at = at, here, at + 1
            elif at < len(tokens) and wanted is not None and _holds(wanted, ord(name[here])):
                at, here = at + 1, here + 1
            elif star >= 0:
                mark += 1
                at, here = star + 1, mark
            else:
                return False
        return all(token is None for token in tokens[at:])


Segment: TypeAlias = str | Glob

ANY_NAME: Final = Glob("*", ignore_case=False, tokens=(None,), head="", tail="", one_star=True)
ANY_DEPTH: Final = Glob("**", ignore_case=False, tokens=(None,), head="", tail="", one_star=True)
"""Zero or more segments. Compare with `is`; its tokens match a single one of them."""


def fold(text: str) -> str:
    """Fold the case of text one code point at a time, as a case-insensitive file system does."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", "".join(_fold_char(char) for char in text))


@functools.lru_cache(maxsize=1 << 16)
def parse_segment(raw: str, *, ignore_case: bool = False) -> Segment:
    """Read the text between two slashes, its braces expanded already. Raises SegmentError."""
    if raw == "**":
        return ANY_DEPTH
    tokens: list[CharSet | None] = []
    wild, at = False, 0
    while at < len(raw):
        char = raw[at]
        if char == "*":
            wild, at = True, at + 1
            if not tokens or tokens[-1] is not None:
                tokens.append(None)
        elif char == "?":
            wild, at = True, at + 1
            tokens.append(ANY_CHAR)
        elif char == "[":
            wild = True
            chars, at = _read_class(raw, at, ignore_case=ignore_case)
            tokens.append(chars)
        else:
            char, at = _read_char(raw, at)
            code = ord(_fold_char(char) if ignore_case else char)
            tokens.append(((code, code),))
    if not wild:
        return "".join(chr(chars[0][0]) for chars in tokens if chars)
    if len(tokens) > LONGEST_GLOB:
        raise SegmentError(
            "a segment is longer than any file name", f"keep it below {LONGEST_GLOB} characters"
        )
    return _glob(raw, tuple(tokens), ignore_case=ignore_case)


def segment_matches(segment: Segment, name: str) -> bool:
    """Return whether a name is the segment's text or one of its matches."""
    return segment == name if isinstance(segment, str) else segment.matches(name)


def char_sets(segment: Segment) -> tuple[CharSet | None, ...]:
    """Return the tokens of a segment, plain text included."""
    return (
        tuple(((ord(char), ord(char)),) for char in segment) if isinstance(segment, str) else segment.tokens
    )


def _glob(raw: str, tokens: tuple[CharSet | None, ...], *, ignore_case: bool) -> Glob:
    head = _plain_run(tokens)
    tail = _plain_run(tokens[::-1])[::-1]
    one_star = len(tokens) == len(head) + len(tail) + 1 and tokens[len(head)] is None
    sample = _sample(tokens, ignore_case=ignore_case)
    return Glob(
        raw, ignore_case=ignore_case, tokens=tokens, head=head, tail=tail, one_star=one_star, sample=sample
    )


def _sample(tokens: tuple[CharSet | None, ...], *, ignore_case: bool) -> str:
    if len(tokens) < 3 and None not in tokens:
        return ""  # it may come to `.` or `..`
    chars = ["x" if chars is None else _plain_char(chars, ignore_case=ignore_case) for chars in tokens]
    return "".join(chars) if all(chars) else ""


def _plain_char(chars: CharSet, *, ignore_case: bool) -> str:
    """Return a character of a set that occurs in file names and combines with no other."""
    for wanted in "x0":
        if _holds(chars, ord(wanted)):
            return wanted
    low = chars[0][0] if chars else 0
    usable = ord("!") <= low <= ord("~") and low != ord("/")
    return chr(low) if usable and not (ignore_case and chr(low).isupper()) else ""


def _plain_run(tokens: tuple[CharSet | None, ...]) -> str:
    run = []
    for chars in tokens:
        if chars is None or len(chars) != 1 or chars[0][0] != chars[0][1]:
            break
        run.append(chr(chars[0][0]))
    return "".join(run)


def _read_char(raw: str, at: int) -> tuple[str, int]:
    if raw[at] != "\\":
        return raw[at], at + 1
    if at + 1 == len(raw):
        raise SegmentError("a backslash has nothing to escape", r"drop it, or write \\ for a backslash")
    return raw[at + 1], at + 2


def _read_class(raw: str, start: int, *, ignore_case: bool) -> tuple[CharSet, int]:
    at = start + 1
    negated = raw[at : at + 1] in {"!", "^"}
    at = first = at + negated
    ranges: list[tuple[int, int]] = []
    while at < len(raw):
        if raw[at] == "]" and at > first:
            folded = [*ranges, *_folded(ranges)] if ignore_case else ranges
            return _merged(folded, negated=negated), at + 1
        if raw[at : at + 2] in {"[:", "[.", "[="}:
            raise SegmentError("named classes are not known", "write ranges, such as [a-z0-9]")
        low, at = _read_char(raw, at)
        high = low
        if raw[at : at + 1] == "-" and raw[at + 1 : at + 2] not in {"", "]"}:
            high, at = _read_char(raw, at + 1)
        if high < low:
            raise SegmentError(f"the range {low}-{high} runs backwards", f"write {high}-{low}")
        ranges.append((ord(low), ord(high)))
    raise SegmentError("a [ is never closed", r"close it with ] in the same segment, or write \[")


def _merged(ranges: list[tuple[int, int]], *, negated: bool) -> CharSet:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    if not negated:
        return tuple(merged)
    ends = [0, *(high for _, high in merged)]
    starts = [*(low for low, _ in merged), 0x110000]
    return tuple((end + 1, start - 1) for end, start in zip(ends, starts, strict=True) if end + 1 < start)


def _folded(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    changed = _changed_by_folding()
    found = []
    for low, high in ranges:
        first = bisect.bisect_left(changed, (low, 0))
        last = bisect.bisect_left(changed, (high + 1, 0))
        found += [(to, to) for _, to in changed[first:last]]
    return found


@functools.cache
def _changed_by_folding() -> list[tuple[int, int]]:
    # Nothing changes above the last cased script (Adlam); going on to the end takes a tenth of a second.
    return [(code, ord(to)) for code in range(0x1E960) if (to := _fold_char(chr(code))) != chr(code)]


def _fold_char(char: str) -> str:
    # A full fold turns one code point into two (`ß` into `ss`), and then `?` would not match it.
    folded = char.casefold()
    if len(folded) == 1:
        return folded
    lowered = char.lower()
    return lowered if len(lowered) == 1 else char


def _holds(chars: CharSet, code: int) -> bool:
    return any(low <= code <= high for low, high in chars)
