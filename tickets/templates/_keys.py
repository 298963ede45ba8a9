"""The allowed values of each key of a template's front matter, once its strings are rendered."""

import math
import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

from tickets.templates.jinja import nearest
from tickets.ticket import folder_fault, plan_id_fault, plan_named
from tickets.types import AgentName, Mode, Priority

AGENTS: tuple[str, ...] = get_args(AgentName)
MODES: tuple[str, ...] = get_args(Mode)
PRIORITIES: tuple[str, ...] = get_args(Priority)

Shape = Literal["one", "many", "matrix", "variables"]


class WrongValueError(ValueError):
    """Raised for a value that its key does not accept: what is wrong and what to do."""

    def __init__(self, what: str, do: str) -> None:
        self.what = what
        self.do = do
        super().__init__(f"{what}; {do}")


class Key(NamedTuple):
    """How one key is written, and how each of its strings is read."""

    shape: Shape
    read: Callable[[str], Any]
    example: str


def check_text(text: str) -> str:
    """Refuse characters that no file name, command line or UTF-8 text can hold."""
    if "\x00" in text:
        raise WrongValueError("holds a NUL character", "take it out")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WrongValueError("holds half of a surrogate pair", "write the whole character") from None
    return text


def read_seconds(text: str) -> float:
    """Read `90s`, `30m`, `1h30m` or a number of seconds; always finite and above zero."""
    parts = _DURATION.fullmatch(text.strip())
    if not _NUMBER.fullmatch(text.strip()) and (parts is None or not any(parts.groups())):
        raise WrongValueError(f"`{text}` is not a duration", "write 90s, 30m, 1h30m or a number of seconds")
    if parts is not None and any(parts.groups()):
        seconds = sum(
            float(part or 0) * unit for part, unit in zip(parts.groups(), (3600, 60, 1), strict=True)
        )
    else:
        seconds = float(text)
    if not 0 < seconds < math.inf:
        raise WrongValueError(f"`{text}` is not a limit", "write a finite time above zero")
    return seconds


def _read_folder(text: str) -> str:
    if fault := folder_fault(check_text(text)):
        raise WrongValueError(*fault)
    return text.strip("/")


def _read_line(text: str) -> str:
    # Titles and phases stand in single lines of state files: a line end in one would forge a second line.
    return _read_full(" ".join(check_text(text).split()))


def _read_full(text: str) -> str:
    if not check_text(text).strip():
        raise WrongValueError("is empty", "write a value, or take the key out")
    return text


def _read_word(kind: str, words: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            do = nearest(text, words) or "write one of " + ", ".join(words)
            raise WrongValueError(f"`{text}` is not {kind}", do)
        return text

    return read


def _read_count(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        # int() takes `1_000`, Arabic digits and, past 4300 digits, raises: none of them is meant here.
        if not re.fullmatch(r"-?[0-9]{1,9}", text):
            raise WrongValueError(f"`{text}` is not a whole number", f"write {least} or more")
        if int(text) < least:
            raise WrongValueError(f"{text} is too few", f"write {least} or more")
        return int(text)

    return read


def _read_money(text: str) -> float:
    amount = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not 0 < amount < math.inf:
        raise WrongValueError(f"`{text}` is not an amount in USD", "write one like 2.50")
    return amount


def _read_flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise WrongValueError(f"`{text}` is neither true nor false", "write `true` or `false`")
    return text == "true"


def _read_plan(text: str) -> str:
    line = _read_line(text)
    named = plan_named(line)
    if named is None:
        raise WrongValueError(f"`{line}` names no plan", 'write it as "02-01: Lexer"')
    if fault := plan_id_fault(named[0]):
        raise WrongValueError(f"`{named[0]}` {fault}", "give it another")
    return line


_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_DURATION = re.compile(r"(?:([0-9]+(?:\.[0-9]+)?)h)?(?:([0-9]+(?:\.[0-9]+)?)m)?(?:([0-9]+(?:\.[0-9]+)?)s)?")

KEYS: dict[str, Key] = {
    "agent": Key("one", _read_word("an agent", AGENTS), "codex"),
    "phase": Key("one", _read_line, "phase-2"),
    "deliverable": Key("one", _read_line, "Parser"),
    "title": Key("one", _read_line, "Port the parser"),
    "mode": Key("one", _read_word("a mode", MODES), "write"),
    "priority": Key("one", _read_word("a priority", PRIORITIES), "P0"),
    "owns": Key("many", _read_full, '["src/parser/**"]'),
    "excludes": Key("many", _read_full, '["src/parser/generated/**"]'),
    "reads": Key("many", _read_full, '["docs/spec.md"]'),
    "depends_on": Key("many", _read_line, "[claude-1]"),
    "acceptance": Key("many", _read_full, '["make test"]'),
    "setup": Key("many", _read_full, '["npm ci"]'),
    "env": Key("variables", check_text, "{NODE_ENV: test}"),
    "cwd": Key("one", _read_folder, "packages/api"),
    "timeout": Key("one", read_seconds, "30m"),
    "idle_timeout": Key("one", read_seconds, "15m"),
    "retries": Key("one", _read_count(0), "1"),
    "fallback": Key("many", _read_word("an agent", AGENTS), "[claude]"),
    "model": Key("one", _read_line, "null"),
    "budget_usd": Key("one", _read_money, "2.50"),
    "budget_tokens": Key("one", _read_count(1), "200000"),
    "max_files_changed": Key("one", _read_count(1), "20"),
    "matrix": Key("matrix", _read_line, "{module: [api, db]}"),
    "command": Key("many", check_text, '["make", "docs"]'),
    "phase_worker": Key("one", _read_flag, "true"),
    "plans": Key("many", _read_plan, '["02-01: Lexer"]'),
}
