"""`orchestrate.toml` and the pool in AGENTS.md, as one frozen value."""

import difflib
import re
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
    create_model,
)

from orchestrator.errors import Refusal
from orchestrator.settings.toml_text import read_toml
from orchestrator.settings.values import Price, SpendingLimits
from orchestrator.state.canonical.decisions import gates
from orchestrator.state.canonical.decisions import read as decision_reading
from orchestrator.state.canonical.rules import rules
from orchestrator.store.read import read_file, read_state
from tickets.problems import Problem, ProblemError
from tickets.scopes.scope import PatternError, parse_pattern
from tickets.types import AGENTS, AgentName
from workers.agents.agent import AgentSettings, FenceWanted

FILE = "orchestrate.toml"
_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_TIMES = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_YEAR = 365 * 86400
"""Seconds; with much longer ones the clock cannot reckon."""
_MOST = 10**15
"""Bytes, tokens, USD: more than there is; a slip of the key, and too long to be shown."""


def _number(value: object) -> object:
    """Refuse `true`, which would count as 1."""
    if isinstance(value, bool):
        raise ValueError("not a number; write a number")  # noqa: TRY004 - pydantic wants a ValueError
    return value


def _size(value: object) -> object:
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", value)
        if found and found[2].lower() in _SIZES:
            # Not by a float, which has no room for a text of four hundred digits.
            return int(Decimal(found[1]) * _SIZES[found[2].lower()])
        raise ValueError("not a size; write it as 64 MB or 500 KiB")
    return _number(value)


def _pattern(value: str) -> str:
    try:
        parse_pattern(value)
    except PatternError as error:
        raise ValueError("; ".join(f"{one.what}; {one.do}" for one in error.problems)) from None
    if ".git" in value.lower().split("/"):
        raise ValueError("names git's own files; leave it out")
    return value


def _seconds(value: object) -> object:
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", value)
        if found:
            return float(found[1]) * _TIMES[found[2]]
        raise ValueError("not a time; write it as 30m, 90s or 1h")
    return _number(value)


def _usd(value: object) -> object:
    if isinstance(value, str):
        raise ValueError("not an amount in USD; write it as 5.00, without quotes")  # noqa: TRY004 - as above
    return _number(value)


def _tokens(value: object) -> object:
    if isinstance(value, str):
        raise ValueError("not a number of tokens; write it as 2_000_000, without quotes")  # noqa: TRY004 - as above
    return _number(value)


def _percent(value: object) -> object:
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%?\s*", value)
        if found:
            return float(found[1])
        raise ValueError("not a percentage; write it as 90")
    return _number(value)


Size = Annotated[int, BeforeValidator(_size), Field(gt=0, le=_MOST)]
Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0, le=_YEAR, allow_inf_nan=False)]
Pause = Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=900, allow_inf_nan=False)]
Percent = Annotated[float, BeforeValidator(_percent), Field(ge=0, le=100, allow_inf_nan=False)]
Usd = Annotated[float, BeforeValidator(_usd), Field(gt=0, le=_MOST, allow_inf_nan=False)]
Rate = Annotated[float, BeforeValidator(_usd), Field(ge=0, le=_MOST, allow_inf_nan=False)]
Tokens = Annotated[int, BeforeValidator(_tokens), Field(gt=0, le=_MOST)]
Pattern = Annotated[str, AfterValidator(_pattern)]
Family = Literal["canonical", "checkpoints", "ai_memory", "phases", "chief_of_staff"]
FAMILIES: tuple[Family, ...] = get_args(Family)


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
    max_memory: Percent = 90.0
    fallback_after: Seconds = 600.0
    provider_pause: Pause = 15.0
    retry_pause: Seconds = 2.0


class BudgetSettings(_Section):
    """`[budget]`: the most that a run and a day (UTC) may cost; None is counted and not limited."""

    run_usd: Usd | None = None
    day_usd: Usd | None = None
    run_tokens: Tokens | None = None
    day_tokens: Tokens | None = None
    worker_usd: Usd | None = None
    """What is reserved for a worker whose ticket has no `budget_usd`; None: nothing."""


class _Price(_Section):
    input: Rate
    cached_input: Rate | None = None
    output: Rate


_Prices = dict[str, _Price]


class WorktreeSettings(_Section):
    """`[worktree]`: what is brought into a worker's tree that a fresh checkout lacks."""

    setup: tuple[str, ...] = ()
    setup_timeout: Seconds = 600.0
    copied: tuple[Pattern, ...] = Field((), alias="copy")
    link: tuple[Pattern, ...] = ()
    shared: Literal["auto", "always", "never"] = "auto"


class IntegrationSettings(_Section):
    """`[integration]`: what is done with what comes back."""

    on_violation: Literal["hold", "reject", "land-in-scope"] = "hold"
    gate: tuple[str, ...] = ()
    bisect: StrictBool = True


class GitSettings(_Section):
    """`[git]`: what is committed."""

    commit: Literal["integration", "never"] = "integration"
    hooks: StrictBool = False


class Checks(_Section):
    """`[checks]`: the project's own commands, run by `sh -c`."""

    smoke: str = ""
    unit: str = ""
    integration: str = ""
    test: str = ""


class _Agent(_Section):
    enabled: StrictBool | None = None
    executable: str | None = None
    args: tuple[str, ...] = ()
    model: str | None = None
    env: tuple[str, ...] = ()


class _Command(_Agent):
    network: Literal["open", "none"] = "open"


def _agent_table(name: AgentName) -> _Agent:
    return _Command() if name == "command" else _Agent()


if TYPE_CHECKING:

    class _Agents(_Section):
        """`[agents]`: one table for each agent."""
else:
    _Agents = create_model(
        "_Agents",
        __base__=_Section,
        **{name: (type(table), table) for name in AGENTS if (table := _agent_table(name))},
    )


class _File(_Section):
    families: tuple[Family, ...] = ("canonical", "checkpoints")
    fence: FenceWanted = "auto"
    on_runtime_death: Literal["continue", "stop"] = "continue"
    trust_repository: StrictBool = False
    pool: PoolSettings = PoolSettings()
    budget: BudgetSettings = BudgetSettings()
    prices: _Prices = {}
    limits: Limits = Limits()
    worktree: WorktreeSettings = WorktreeSettings()
    integration: IntegrationSettings = IntegrationSettings()
    git: GitSettings = GitSettings()
    checks: Checks = Checks()
    agents: _Agents = _Agents()


class Settings(_File):
    """All that a run needs to know, from both files; `warnings` are for the person who reads the output."""

    slots: rules.Pool
    warnings: tuple[Problem, ...] = ()
    unapproved: Problem | None = None
    """A pool that is larger than the user has agreed to; `slots` is cut to what is approved."""

    def agent(self, name: AgentName) -> AgentSettings:
        """Give `[agents.NAME]`."""
        return self._agents_by_name[name]

    @cached_property
    def _agents_by_name(self) -> dict[str, AgentSettings]:
        # Made once: they are asked for several times for each worker.
        return {name: AgentSettings(**dict(section)) for name, section in self.agents}

    @property
    def spending_limits(self) -> SpendingLimits:
        """Give `[budget]` as a start is held against it."""
        return SpendingLimits(**self.budget.model_dump(exclude={"worker_usd"}))

    @property
    def price_list(self) -> dict[str, Price]:
        """Give `[prices]`, by the names of models."""
        return {model: Price(**dict(price)) for model, price in self.prices.items()}

    def is_enabled(self, name: AgentName) -> bool:
        """Return whether an agent may run: as `[agents.NAME] enabled` states, else as AGENTS.md does."""
        stated = self.agent(name).enabled
        if name == "command":
            return stated is not False
        if not self.slots.agents[name]:
            return False
        return self.slots.enabled[name] if stated is None else stated


def read_settings(root: Path) -> Settings:
    """Read both files as they stand in the work tree. Raises Refusal with every problem of both."""
    problems: list[Problem] = []
    text = _read(root, FILE, problems) or b""
    values = read_toml(FILE, text, problems)
    slots, found = _pool(_read(root, rules.PATH, problems), root)
    asked = next((problem for problem in found if rules.asks_approval(problem)), None)
    problems += [problem for problem in found if problem.severity == "error" and problem is not asked]
    warnings = tuple(problem._replace(severity="warning") for problem in found if problem not in problems)
    try:
        checked = _File.model_validate(values)
        if not problems:
            return Settings(**dict(checked), slots=slots, warnings=warnings, unapproved=asked)
    except ValidationError as error:
        lines = text.decode().splitlines()
        problems += [_problem(dict(one), values, lines) for one in error.errors()]
    raise Refusal(*problems)


def _pool(text: bytes | None, root: Path) -> tuple[rules.Pool, list[Problem]]:
    """Read the pool; one that is larger than usual holds where DECISIONS.md has the user's approval."""
    slots, found = rules.read_pool(text)
    if not any(problem.severity == "error" for problem in found):
        return slots, found
    try:
        approved = gates.approved_pool(read_state(root, decision_reading.PATH) or b"")
    except ProblemError:
        return slots, found
    return rules.read_pool(text, approved=max(approved, rules.LIMIT))


def _read(root: Path, path: str, problems: list[Problem]) -> bytes | None:
    try:
        return read_file(root, path)
    except Refusal as refusal:
        problems += refusal.problems
        return None


_LONGEST = 80
"""Characters of a value that a message repeats."""
_SAID = {
    "tuple_type": ("not a list", 'write it in brackets: `["..."]`'),
    "string_type": ("not text", "put it in quotes"),
    "bool_type": ("neither true nor false", "write `true` or `false`, without quotes"),
    "dict_type": ("not a table", 'write one for each model: `[prices."MODEL"]`'),
    "model_type": ("not a table", "write its keys below a line `[{name}]`"),
    "greater_than": ("too small", "write more than 0"),
    "greater_than_equal": ("too small", "write 0 or more"),
    "less_than_equal": ("too large", "write {most:_} or less"),
    "finite_number": ("without an end", "write a number"),
    "int_parsing_size": ("too large", "write a smaller number"),
    "int_type": ("not a whole number", "write a number"),
    "int_from_float": ("not a whole number", "write a whole number"),
    "float_type": ("not a number", "write a number"),
}
"""What a person reads for the faults that pydantic names by a word."""


def _problem(error: dict[str, Any], values: dict[str, Any], lines: Sequence[str]) -> Problem:
    *above, name = error["loc"]
    where = ".".join(f'"{part}"' if "." in str(part) else str(part) for part in (*above, name))
    place = _place((*above, name), lines)
    if error["type"] == "missing":
        return Problem(place, f"`{where}` is missing", f"write `{name} = ...` there as well")
    if error["type"] == "extra_forbidden":
        known = _keys_at(above)
        if above[0:1] == ["prices"] and isinstance(values["prices"][above[1]][name], dict):
            do = f'put the whole name of the model in quotes: `[prices."{above[1]}.{name}"]`'
            return Problem(place, f"`{where}` is a table of its own", do)
        return Problem(place, f"unknown key `{where}`", _nearest(name, known) or f"known: {', '.join(known)}")
    given: Any = values
    for part in (*above, name):
        given = given[part]
    if error["type"] == "literal_error":
        known = re.findall(r"'([^']*)'", error["ctx"]["expected"])
        do = _nearest(given, known) or f"write one of: {', '.join(known)}"
        return Problem(place, f"`{where}` is {given!r}: not a word that is known here", do)
    what, _, do = str(error["msg"]).removeprefix("Value error, ").partition("; ")
    what, do = _SAID.get(error["type"], (what, do or "mend that value"))
    do = do.format(name=where, most=int(error.get("ctx", {}).get("le", 0)))
    return Problem(place, f"`{where}` is {_shown(given)}: {what}", do)


def _shown(given: object) -> str:
    said = repr(given)
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"


def _nearest(word: object, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(word), known, 1)
    return f"did you mean `{near[0]}`?" if near else ""


def _place(path: Sequence[object], lines: Sequence[str]) -> str:
    """Find the line of a key, or else that of the nearest table around it."""
    names = [str(part) for part in path if not isinstance(part, int)]
    table: list[str] = []
    best, number = 0, 0
    for at, line in enumerate(lines, 1):
        head = re.match(r"\s*\[+([^\]]+)\]", line)
        if head:
            table = _keys_in(head[1])
            here = table
        else:
            key = re.match(r"\s*([\w.\"'-]+)\s*=", line)
            here = [*table, *_keys_in(key[1])] if key else []
        if len(here) > best and names[: len(here)] == here:
            best, number = len(here), at
    return f"{FILE}:{number}" if number else FILE


def _keys_in(dotted: str) -> list[str]:
    """Split a key of TOML; the name of a model has dots of its own, within quotes."""
    parts = re.findall(r"""\"([^"]*)"|'([^']*)'|([^\s."']+)""", dotted)
    return ["".join(part) for part in parts]


def _keys_at(above: Sequence[object]) -> list[str]:
    model: Any = _File
    for part in above:
        model = _Price if model == _Prices else model.model_fields[part].annotation
    return [field.alias or name for name, field in model.model_fields.items()]
