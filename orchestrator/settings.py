"""`orchestrate.toml` and the pool in AGENTS.md, as one frozen value."""

import difflib
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from orchestrator.refusal import Refusal
from orchestrator.state.canonical import rules
from tickets.problems import Problem
from tickets.ticket import AgentName
from workers.agents import AgentSettings

FILE = "orchestrate.toml"
_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_TIMES = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def _size(value: object) -> object:
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", value)
        if found and found[2].lower() in _SIZES:
            return int(float(found[1]) * _SIZES[found[2].lower()])
        raise ValueError("not a size; write it as 64 MB or 500 KiB")
    return value


def _seconds(value: object) -> object:
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", value)
        if found:
            return float(found[1]) * _TIMES[found[2]]
        raise ValueError("not a time; write it as 30m, 90s or 1h")
    return value


Size = Annotated[int, BeforeValidator(_size)]
Seconds = Annotated[float, BeforeValidator(_seconds)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Limits(_Section):
    """`[limits]`: bytes and seconds."""

    output_cap: Size = 64 * 10**6
    patch_cap: Size = 256 * 10**6
    grace: Seconds = 5.0
    acceptance_timeout: Seconds = 1800.0


class PoolSettings(_Section):
    """`[pool]`: how workers are started; how many there may be stands in AGENTS.md."""

    start_interval: Seconds = 0.3
    slot_wait: Seconds = 0.0


class IntegrationSettings(_Section):
    """`[integration]`: what is done with what comes back."""

    on_violation: Literal["hold", "reject", "land-in-scope"] = "hold"
    gate: tuple[str, ...] = ()


class GitSettings(_Section):
    """`[git]`: what is committed."""

    commit: Literal["integration", "never"] = "integration"
    hooks: bool = False


class Checks(_Section):
    """`[checks]`: the project's own commands, run by `sh -c`."""

    smoke: str = ""
    test: str = ""


class _Agent(_Section):
    enabled: bool | None = None
    executable: str | None = None
    args: tuple[str, ...] = ()
    model: str | None = None
    env: tuple[str, ...] = ()


class _File(_Section):
    families: tuple[str, ...] = ("canonical", "checkpoints")
    fence: Literal["auto", "required", "off"] = "auto"
    trust_repository: bool = False
    pool: PoolSettings = PoolSettings()
    limits: Limits = Limits()
    integration: IntegrationSettings = IntegrationSettings()
    git: GitSettings = GitSettings()
    checks: Checks = Checks()
    agents: dict[AgentName, _Agent] = {}


class Settings(_File):
    """All that a run needs to know, from both files; `warnings` are for the person who reads the output."""

    slots: rules.Pool
    warnings: tuple[Problem, ...] = ()

    def agent(self, name: AgentName) -> AgentSettings:
        """Give `[agents.NAME]`."""
        found = self.agents.get(name, _Agent())
        return AgentSettings(**dict(found))

    def is_enabled(self, name: AgentName) -> bool:
        """Tell whether an agent may run: `[agents.NAME] enabled` where it is set, else as AGENTS.md says."""
        stated = self.agents.get(name, _Agent()).enabled
        if name == "command":
            return stated is not False
        if not getattr(self.slots, name):
            return False
        return bool(getattr(self.slots, f"{name}_enabled")) if stated is None else stated


def read_settings(root: Path) -> Settings:
    """Read both files as they stand in the work tree. Raises Refusal with every problem of both."""
    problems: list[Problem] = []
    values = _read_toml(root / FILE, problems)
    slots, found = rules.read_pool(_read_bytes(root / "AGENTS.md"))
    problems += [problem for problem in found if problem.severity == "error"]
    warnings = tuple(problem for problem in found if problem.severity != "error")
    try:
        if not problems:
            return Settings(**values, slots=slots, warnings=warnings)
    except ValidationError as error:
        problems += [_problem(dict(one), values) for one in error.errors()]
    raise Refusal(*problems)


def _read_bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _read_toml(path: Path, problems: list[Problem]) -> dict[str, Any]:
    try:
        return tomllib.loads((_read_bytes(path) or b"").decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(Problem(FILE, f"cannot be read: {error}", "mend that line"))
        return {}


def _problem(error: dict[str, Any], values: dict[str, Any]) -> Problem:
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        *above, name = error["loc"]
        known = _keys_at(above)
        near = difflib.get_close_matches(str(name), known, 1)
        do = f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(known)}"
        return Problem(FILE, f"unknown key `{where}`", do)
    given = values
    for part in error["loc"]:
        given = given.get(part, given) if isinstance(given, dict) else given
    message = str(error["msg"]).removeprefix("Value error, ")
    what, _, do = message.partition("; ")
    return Problem(FILE, f"`{where}` is {given!r}: {what}", do or "mend that value")


def _keys_at(above: Sequence[object]) -> list[str]:
    model: Any = _File
    for part in above:
        if model is _File and part == "agents":
            return list(_Agent.model_fields) if len(above) > 1 else ["codex", "claude", "gemini", "command"]
        model = model.model_fields[part].annotation
    return list(model.model_fields)
