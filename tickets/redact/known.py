"""Known secrets: the values of variables whose names say so, from an environment or a `.env` file."""

import os
from collections.abc import Callable, Iterator, Mapping

from tickets.redact.shapes import is_placeholder

WORDS = frozenset(("KEY", "TOKEN", "SECRET", "PASS", "PASSWORD", "CREDENTIAL", "DSN"))
"""Words of a name by which its value is a secret."""
SHORTEST = 8
"""Characters of a known value; a shorter one would be found in ordinary words."""

Known = tuple[tuple[str, str], ...]
"""Variables and their values, sorted."""


def known_values(variables: Mapping[str, str], exists: Callable[[str], bool] = os.path.exists) -> Known:
    """Return the variables whose values are secrets: no number, no path that exists, no placeholder."""
    return tuple(sorted((name, value) for name, value in variables.items() if _is_known(name, value, exists)))


def dotenv(text: str) -> dict[str, str]:
    """Read the variables of a `.env` file: `NAME=value`, also quoted, also after `export`."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            found[name.strip()] = _unquoted(value.strip())
    return found


def spellings(value: str) -> Iterator[bytes]:
    """Yield a value as it is in a text, and in JSON."""
    yield value.encode("utf-8", "surrogateescape")
    if value.isascii() and value.isprintable() and not {'"', "\\"} & set(value):
        return  # JSON has it as it is
    import json  # noqa: PLC0415 - for start-up time: see above

    for is_ascii in (True, False):
        yield json.dumps(value, ensure_ascii=is_ascii)[1:-1].encode("utf-8", "surrogateescape")


def _unquoted(value: str) -> str:
    quote = value[:1]
    if quote in ("'", '"') and (end := value.find(quote, 1)) > 0:
        return value[1:end]
    return value.partition(" #")[0].rstrip()


def _is_known(name: str, value: str, exists: Callable[[str], bool]) -> bool:
    if len(value) < SHORTEST or WORDS.isdisjoint(_words_of(name)) or "\0" in value:
        return False
    # A password may well hold a `$` or `12345678`, as no value of a shape does: it is known all the same.
    is_none = is_placeholder(value.encode("utf-8", "surrogateescape"))
    return not (is_none or _is_number(value) or exists(value))


def _words_of(name: str) -> list[str]:
    return "".join(char if char.isalnum() else " " for char in name.upper()).split()


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
