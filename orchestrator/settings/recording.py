"""What `orchestrate.toml` says of state files: all that commands need which record, or show what is recorded.

To check all settings would take longer than most of these commands.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from orchestrator.errors import Refusal
from orchestrator.settings.toml_text import FILE, read_toml
from orchestrator.state import ALWAYS, FAMILIES, Family
from orchestrator.store.read import read_file
from tickets.problems import Problem
from tickets.value import Value


class Recording(Value):
    """Which state files there are, and whether they are committed."""

    families: tuple[Family, ...] = ALWAYS
    commits: bool = True


def read_recording(root: Path) -> Recording:
    """Read these settings. Raises Refusal where one of them is wrong."""
    found = recording_of(read_file(root, FILE) or b"")
    if found is not None:
        return found
    from orchestrator.settings.settings import read_settings  # noqa: PLC0415 - says what is wrong, and where

    settings = read_settings(root)
    return Recording(settings.families, settings.git.commit == "integration")


def recording_of(text: bytes) -> Recording | None:
    """Return these settings of a text; None where one of them is wrong, or it is no TOML."""
    problems: list[Problem] = []
    tables = read_toml(FILE, text, problems)
    families, git = tables.get("families", list(ALWAYS)), tables.get("git", {})
    commit = git.get("commit", "integration") if isinstance(git, dict) else None
    known = isinstance(families, list) and all(family in FAMILIES for family in families)
    if problems or not known or commit not in ("integration", "never"):
        return None
    return Recording(tuple(cast("list[Family]", families)), commit == "integration")


def with_families(text: bytes, wanted: Sequence[Family]) -> bytes:
    """Return the file with families turned on, all other bytes as they were. Raises Refusal."""
    stated = recording_of(text)
    on = stated.families if stated else ()
    more = [family for family in FAMILIES if family in wanted and family not in (*ALWAYS, *on)]
    if not more:
        return text
    after = _with_line(text, on, more)
    found = recording_of(after)
    if stated is None or found is None or {*found.families} != {*on, *more} or _rest(after) != _rest(text):
        said = ", ".join(f'"{family}"' for family in (*(on or ALWAYS), *more))
        problem = Problem(FILE, "`families` cannot be changed here", f"write `families = [{said}]` by hand")
        raise Refusal(problem)
    return after


def _with_line(text: bytes, on: Sequence[Family], more: Sequence[Family]) -> bytes:
    """Return a text with families added to its list of them, or with a list of its own."""
    added = ", ".join(f'"{family}"' for family in more).encode()
    top = re.split(rb"(?m)^[ \t]*\[+[\w.\"'-]+\]+", text, maxsplit=1)[0]
    if found := re.search(rb"(?m)^[ \t]*families[ \t]*=[ \t]*\[[^\]]*", top):
        names = [*re.finditer(rb"([\"'])\w+\1", found[0])]
        at = found.start() + (names[-1].end() if names else len(found[0]))
        return text[:at] + (b", " if names else b"") + added + text[at:]
    line = b"families = [" + b", ".join(f'"{one}"'.encode() for one in on) + b", " + added + b"]"
    end = b"\r\n" if b"\r\n" in text else b"\n"
    default = re.search(rb"(?m)^#[ \t]*families[ \t]*=.*$", top)
    if default:
        at = default.end() - default[0].endswith(b"\r")
        return text[:at] + end + line + text[at:]
    mark = b"\xef\xbb\xbf" if text.startswith(b"\xef\xbb\xbf") else b""
    return mark + line + end + text.removeprefix(mark)


def _rest(text: bytes) -> dict[str, object]:
    return {key: value for key, value in read_toml(FILE, text, []).items() if key != "families"}
