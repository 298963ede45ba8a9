"""Texts, outputs and values of JSON without their secrets."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from tickets.redact.known import SHORTEST, Known, spellings
from tickets.redact.shapes import MARK, Secret, shapes_in

SEARCHED = 1 << 22
"""Bytes of an output that are searched: of a longer one the first and the last half of them."""

Counts = Mapping[str, int]
"""How many secrets of each kind were replaced."""


class Redactor:
    """Replaces secrets; `allowed` are the digests of what only looks like one."""

    def __init__(self, known: Known = (), allowed: Collection[str] = ()) -> None:
        # A part of our own mark would be found in each, again and again.
        needles = {one: name for name, value in known for one in spellings(value) if one not in MARK}
        # The longest first: a value may be a part of another one.
        self._needles = sorted(needles.items(), key=lambda pair: (-len(pair[0]), pair))
        self._allowed = frozenset(digest.removeprefix("sha256:") for digest in allowed)

    def text(self, text: str) -> tuple[str, Counts]:
        """Return a text without its secrets, and how many of each kind were replaced."""
        if len(text) < SHORTEST:
            return text, {}
        data = text.encode("utf-8", "surrogatepass")
        found = self.secrets(data)
        if not found:
            return text, {}
        return without(data, found).decode("utf-8", "surrogatepass"), counted(found)

    def clean(self, text: str) -> str:
        """Return a text without its secrets."""
        return self.text(text)[0]

    def output(self, data: bytes) -> tuple[bytes, Counts]:
        """Return an output without its secrets; of a long one only the beginning and the end are searched."""
        tail = max(0, len(data) - SEARCHED // 2)
        if len(data) <= SEARCHED:
            found = self.secrets(data)
        else:
            found = self.secrets(data[: SEARCHED // 2])
            late = self.secrets(data[tail:])
            found += [one._replace(start=one.start + tail, end=one.end + tail) for one in late]
        return (without(data, found), counted(found)) if found else (data, {})

    def value(self, value: Any) -> tuple[Any, Counts]:
        """Return a value as JSON has it, or a Value, without the secrets of its texts; else itself."""
        # In one search: most have none.
        if not self.secrets("\n\n".join(_texts_of(value)).encode("utf-8", "surrogatepass")):
            return value, {}
        counts: dict[str, int] = {}
        return self._value(value, counts), counts

    def secrets(self, data: bytes) -> list[Secret]:
        """Return the secrets of a text in UTF-8, in order; none overlaps another."""
        found = [*self._known_in(data)]
        found += [one for one in shapes_in(data) if one.digest not in self._allowed]
        return _apart(found) if len(found) > 1 else found

    def _known_in(self, data: bytes) -> Iterator[Secret]:
        for needle, name in self._needles:
            at = data.find(needle)
            while at >= 0:
                if not data.endswith(MARK, 0, at):
                    yield Secret(name, at, at + len(needle), "")
                at = data.find(needle, at + len(needle))

    def _value(self, value: Any, counts: dict[str, int]) -> Any:
        if isinstance(value, str):
            made, found = self.text(value)
            add(counts, found)
            return made
        if isinstance(value, Mapping):
            return {self._value(name, counts): self._field(name, one, counts) for name, one in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self._value(one, counts) for one in value))
        if isinstance(value, list | tuple):
            return type(value)(self._value(one, counts) for one in value)
        return value

    def _field(self, name: Any, value: Any, counts: dict[str, int]) -> Any:
        """Return the value of a field; with an upper-case name it is what a variable's assignment is."""
        made = self._value(value, counts)
        if isinstance(made, str) and isinstance(name, str) and name.isupper():
            made = self._value(f"{name}={made}", counts).removeprefix(f"{name}=")
        return made


def _texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, one in value.items():
            if isinstance(name, str) and isinstance(one, str):
                yield from (f"{name}={one}",) if name.isupper() else (name, one)
            else:
                yield from _texts_of(name)
                yield from _texts_of(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts_of(one)


def without(data: bytes, found: Iterable[Secret]) -> bytes:
    """Return a text with its secrets replaced by their kinds."""
    parts, at = [], 0
    for one in found:
        parts += [data[at : one.start], MARK, one.kind.encode("utf-8", "surrogateescape"), b"]"]
        at = one.end
    return b"".join((*parts, data[at:]))


def counted(found: Iterable[Secret]) -> Counts:
    """Count secrets by their kinds."""
    counts: dict[str, int] = {}
    for one in found:
        add(counts, {one.kind: 1})
    return counts


def add(counts: dict[str, int], more: Counts) -> None:
    """Add counts to others."""
    for kind, number in more.items():
        counts[kind] = counts.get(kind, 0) + number


def added(all_counts: Iterable[Counts]) -> dict[str, int]:
    """Add up counts."""
    total: dict[str, int] = {}
    for counts in all_counts:
        add(total, counts)
    return total


def larger(one: Counts, other: Counts) -> Counts:
    """Return the larger count of each kind: both may have counted the same secrets."""
    return {kind: max(one.get(kind, 0), other.get(kind, 0)) for kind in {**one, **other}}


_ORDER = (
    "anthropic-key", "openai-key", "google-key", "github-token", "gitlab-token", "aws-key", "slack-token",
    "stripe-key", "registry-token", "jwt", "private-key", "url-password", "authorization", "named",
)  # fmt: skip
"""Where one is inside another, the kind is the first of these; known values come before all."""
_RANK = {kind: at for at, kind in enumerate(_ORDER)}


def _apart(found: list[Secret]) -> list[Secret]:
    """Join secrets that overlap: nothing is left of either."""
    kept: list[Secret] = []
    for one in sorted(found, key=lambda one: (one.start, _rank(one), -one.end)):
        if not kept or one.start >= kept[-1].end:
            kept.append(one)
            continue
        before = kept[-1]
        first = min(before, one, key=_rank)
        kept[-1] = first._replace(start=before.start, end=max(before.end, one.end))
    return kept


def _rank(one: Secret) -> int:
    return _RANK[one.kind] if one.digest else -1
