"""The text of `orchestrate.toml` parsed to values, before they are checked as settings."""

import re
from typing import Any

from tickets.problems import Problem

FILE = "orchestrate.toml"


def read_toml(path: str, text: bytes, problems: list[Problem]) -> dict[str, Any]:
    """Parse the file; return nothing, and note a problem, where it is not TOML."""
    text = text.removeprefix(b"\xef\xbb\xbf")  # some editors begin a file with a byte order mark
    tables = _tables_alone(text)
    if tables is not None:
        return tables
    import tomllib  # noqa: PLC0415 - for start-up time: many a project sets nothing

    try:
        return tomllib.loads(text.decode())
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        problems.append(Problem(f"{path}:{line}", "is not UTF-8", "save it as UTF-8"))
    except tomllib.TOMLDecodeError as error:
        said, _, where = str(error).partition(" (at ")
        at = re.search(r"line (\d+)", where)
        line = int(at[1]) if at else text.count(b"\n") + 1
        do = "fix that line"
        # Nothing is wrong with that line by itself: what is in the way stands somewhere above.
        if names := re.search(r"Cannot declare \((.*?),?\) twice", said):
            table = names[1].replace("'", "").replace(", ", ".")
            said = f"`{table}` is declared twice"
            do = f"write all its keys as `{table}.KEY = ...`, or all below one line `[{table}]`"
        if said == "Cannot overwrite a value" and re.search(rb"(?m)^\s*fence\s*=", text):
            said = "`fence` is set twice"
            form = "`fence.level`" if re.search(rb"(?m)^\s*fence\.", text) else "`level` below `[fence]`"
            do = f'write {form} in place of `fence = "..."`'
        problems.append(Problem(f"{path}:{line}", f"is not valid TOML: {said}", do))
    return {}


def _tables_alone(text: bytes) -> dict[str, Any] | None:
    """Return the tables of a file that sets keys to words, as `init` writes it; None for any other."""
    found: dict[str, Any] = {}
    table = found
    headers: set[str] = set()
    for line in text.decode("utf-8", "replace").split("\n"):
        if not line or (line[0] == "#" and line.isprintable() and "\ufffd" not in line):
            continue
        if key := re.fullmatch(r'([a-z_]+) = (?:"([a-z]+)"|\[("[a-z_]+"(?:, "[a-z_]+")*)\])', line):
            if key[1] in table:
                return None
            table[key[1]] = key[2] or re.findall(r"[a-z_]+", key[3])
            continue
        header = re.fullmatch(r"\[([a-z]+)(?:\.([a-z]+))?\]", line)
        if header is None or line in headers:
            return None
        headers.add(line)
        table = found.setdefault(header[1], {})
        if header[2] and isinstance(table, dict):
            table = table.setdefault(header[2], {})
        if not isinstance(table, dict):
            return None  # a key of that name has a value already
    return found
