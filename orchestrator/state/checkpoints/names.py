"""The names of checkpoints: one file for each feature and agent, both compared by their slugs."""

import itertools
import re
import unicodedata
from collections.abc import Iterator

FOLDER = "docs/progress"
LONGEST = 60
"""Bytes of UTF-8 that a slug may have; a longer one is cut, and ends in a digest of the whole."""
_CUT = 51
_DIGEST = 8


def slug(text: str) -> str:
    """Return a text as a part of a file's name: letters, marks and numbers, divided by `-`."""
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).lower())
    kept = "".join(char if unicodedata.category(char)[0] in "LMN" else "-" for char in folded)
    whole = re.sub("-+", "-", kept).strip("-") or "unnamed"
    if len(whole.encode()) <= LONGEST:
        return whole
    import hashlib  # noqa: PLC0415 - for start-up time: hardly any name is so long

    digest = hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST]
    return f"{whole.encode()[:_CUT].decode(errors='ignore').rstrip('-')}-{digest}"


def same_pair(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Return whether two pairs of feature and agent share their checkpoint."""
    return (slug(one[0]), slug(one[1])) == (slug(other[0]), slug(other[1]))


def paths_of(feature: str, agent: str) -> Iterator[str]:
    """Yield the paths that the checkpoint of a pair may have, in the order in which they are tried."""
    stem = f"{FOLDER}/{slug(feature)}-{slug(agent)}"
    yield f"{stem}.md"
    yield from (f"{stem}_{number}.md" for number in itertools.count(2))
