"""The tables of `orchestrate.toml` as NamedTuples: each annotation describes the valid values of a key.

`_plain.py` makes them of well-formed input; `_explain.py` makes pydantic models of the same annotations,
which explain what is wrong with any other.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from orchestrator.money import dollars, thousands
from orchestrator.state import ALWAYS, Family
from tickets.types import AGENTS, BlockerMode, Frequency, Reporting
from tickets.value import Value
from workers.agents.agent import AgentSettings, FenceWanted

_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_TIMES = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_YEAR = 365 * 86400
"""Seconds; the clock cannot compute with much longer times."""
_MOST = 10**15
"""Bytes, tokens, USD: more than exists; a typing error, and too long to be shown."""


class Number(Value):
    """The spelling and the bounds of a number."""

    read: Callable[[object], object]
    """Returns a number. Raises ValueError: `what is wrong; what to do`."""
    most: float
    least: float | None = None
    above: float | None = None

    def within(self, found: object) -> bool:
        """Return whether a number is within the bounds."""
        if not isinstance(found, (int, float)) or (self.least is not None and not found >= self.least):
            return False
        return found <= self.most and (self.above is None or found > self.above)


class Text(Value):
    """A further condition on a text, or on a table of texts."""

    check: Callable[[Any], Any]
    """Raises ValueError."""


class ByName(Value):
    """Tables under known names, each of its own kind."""

    kinds: Mapping[str, type[tuple[Any, ...]]]


def _number(value: object) -> object:
    """Refuse `true`, which would count as 1."""
    if isinstance(value, bool):
        raise ValueError("not a number; write a number")  # noqa: TRY004 - pydantic wants a ValueError
    return value


def _size(value: object) -> object:
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", value)
        if found and found[2].lower() in _SIZES:
            from decimal import Decimal  # noqa: PLC0415 - for start-up time

            # Not by a float, which has no room for a text of four hundred digits.
            return int(Decimal(found[1]) * _SIZES[found[2].lower()])
        raise ValueError("not a size; write it as 64 MB or 500 KiB")
    return _number(value)


def _pattern(value: str) -> str:
    from tickets.scopes.scope import PatternError, parse_pattern  # noqa: PLC0415 - for start-up time

    try:
        parse_pattern(value)
    except PatternError as error:
        raise ValueError("; ".join(f"{one.what}; {one.do}" for one in error.problems)) from None
    if ".git" in value.lower().split("/"):
        raise ValueError("names git's own files; leave it out")
    return value


def _variables(value: Mapping[str, str]) -> Mapping[str, str]:
    from tickets.ticket import variable_fault  # noqa: PLC0415 - for start-up time

    faults = [fault for fault in map(variable_fault, value) if fault]
    if len(faults) == 1:
        raise ValueError("; ".join(faults[0]))
    if faults:
        said = ", ".join(f"{what} ({do})" for what, do in faults)
        raise ValueError(f"{said}; correct each of them")
    return value


def _folder(value: str) -> str:
    from tickets.ticket import folder_fault  # noqa: PLC0415 - for start-up time

    if value and (fault := folder_fault(value)):
        raise ValueError("; ".join(fault))
    return value


def _digest(value: str) -> str:
    if not re.fullmatch(r"sha256:[0-9a-f]{16}", value):
        raise ValueError("not a digest; write it as the warning does: sha256:9f86d081884c7d65")
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


Size = Annotated[int, Number(_size, _MOST, above=0)]
Seconds = Annotated[float, Number(_seconds, _YEAR, least=0)]
Pause = Annotated[float, Number(_seconds, 900, above=0)]
Percent = Annotated[float, Number(_percent, 100, least=0)]
Usd = Annotated[float, Number(_usd, _MOST, above=0)]
Rate = Annotated[float, Number(_usd, _MOST, least=0)]
Tokens = Annotated[int, Number(_tokens, _MOST, above=0)]
Pattern = Annotated[str, Text(_pattern)]
Variables = Annotated[Mapping[str, str], Text(_variables)]
Folder = Annotated[str, Text(_folder)]
Digest = Annotated[str, Text(_digest)]


def read_size(text: str) -> int:
    """Read a number of bytes as the command line has it. Raises ValueError."""
    found = _size(int(text) if text.isdecimal() else text)
    if not isinstance(found, int) or not Number(_size, _MOST, above=0).within(found):
        raise ValueError("not a possible size")
    return found


class OutputLimits(Value):
    """`[limits]`: bytes and seconds."""

    output_cap: Size = 64 * 10**6
    patch_cap: Size = 256 * 10**6
    grace: Seconds = 5.0
    acceptance_timeout: Seconds = 1800.0


class PoolSettings(Value):
    """`[pool]`: how workers are started; how many there may be stands in AGENTS.md."""

    start_interval: Seconds = 0.3
    max_memory: Percent = 90.0
    fallback_after: Seconds = 600.0
    provider_pause: Pause = 15.0
    retry_pause: Seconds = 2.0


class BudgetSettings(Value):
    """`[budget]`: the most that a run and a day (UTC) may cost; None is counted and not limited."""

    run_usd: Usd | None = None
    day_usd: Usd | None = None
    run_tokens: Tokens | None = None
    day_tokens: Tokens | None = None
    worker_usd: Usd | None = None
    """What is reserved for a worker whose ticket has no `budget_usd`; None: nothing."""


class SpendingLimits(Value):
    """The part of `[budget]` that a start is checked against."""

    run_usd: float | None = None
    day_usd: float | None = None
    run_tokens: int | None = None
    day_tokens: int | None = None

    def in_words(self) -> str:
        """Describe all limits that are set on one line."""
        amounts = {"run": (self.run_usd, self.run_tokens), "day": (self.day_usd, self.day_tokens)}
        said = []
        for whose, (usd, tokens) in amounts.items():
            said += [f"{dollars(usd)} a {whose}"] if usd is not None else []
            said += [f"{thousands(tokens)} tokens a {whose}"] if tokens is not None else []
        return ", ".join(said) or "not limited"


class Price(Value):
    """`[prices."MODEL"]`: USD for a million tokens."""

    input: Rate
    output: Rate
    cached_input: Rate | None = None
    """None: as any other input."""


class FenceSettings(Value):
    """`[fence]`, or its level alone as `fence = "auto"`: what confines workers and checks."""

    level: FenceWanted = "auto"
    read: tuple[str, ...] = ()
    """Files and folders that they may read besides those that every worker needs; `~` is the home."""


class WorktreeSettings(Value):
    """`[worktree]`: what is added to a worker's tree that a fresh checkout lacks."""

    setup: tuple[str, ...] = ()
    setup_timeout: Seconds = 600.0
    copy: tuple[Pattern, ...] = ()
    link: tuple[Pattern, ...] = ()
    shared: Literal["auto", "always", "never"] = "auto"


class IntegrationSettings(Value):
    """`[integration]`: how the results of workers are integrated."""

    on_violation: Literal["hold", "reject", "land-in-scope"] = "hold"
    gate: tuple[str, ...] = ()
    bisect: bool = True
    commits: Literal["worker", "run"] = "worker"


class MessageSettings(Value):
    """`[messages]`: what phase workers report, what a blocked one does, how long who waits."""

    events: Reporting = "transitions"
    on_blocker: BlockerMode = "skip"
    pause_limit: Seconds = 1800.0
    ack_limit: Seconds = 900.0


class CheckpointSettings(Value):
    """`[checkpoints]`: how often the checkpoint of an agent is written."""

    frequency: Frequency = "every-step"


class ContextSettings(Value):
    """`[context]`: the active context, with the family `ai_memory`."""

    budget: Tokens = 2000
    language: str = ""
    versions: tuple[str, ...] = ("git --version", "python3 --version", "node --version")


class GitSettings(Value):
    """`[git]`: what is committed."""

    commit: Literal["integration", "never"] = "integration"
    hooks: bool = False


class Checks(Value):
    """`[checks]`: the project's own commands, run by `sh -c`, and how they and those in trees are run."""

    smoke: str = ""
    unit: str = ""
    integration: str = ""
    test: str = ""
    env: Variables = {}  # noqa: RUF012 - it is never changed
    cwd: Folder = ""


class SecretsSettings(Value):
    """`[secrets]`: what is not redacted (see `orchestrator.redaction`, which reads it by itself)."""

    allow: tuple[Digest, ...] = ()


class NetworkedAgent(Value):
    """`[agents.NAME]` of an agent that cannot work without a network."""

    enabled: bool | None = None
    executable: str | None = None
    args: tuple[str, ...] = ()
    model: str | None = None
    env: tuple[str, ...] = ()


AGENT_TABLES: Mapping[str, type[tuple[Any, ...]]] = {
    name: AgentSettings if name == "command" else NetworkedAgent for name in AGENTS
}


class Tables(NamedTuple):
    """The whole of `orchestrate.toml`."""

    families: tuple[Family, ...] = ALWAYS
    fence: FenceSettings = FenceSettings()
    on_runtime_death: Literal["continue", "stop"] = "continue"
    trust_repository: bool = False
    pool: PoolSettings = PoolSettings()
    budget: BudgetSettings = BudgetSettings()
    prices: Mapping[str, Price] = {}
    limits: OutputLimits = OutputLimits()
    worktree: WorktreeSettings = WorktreeSettings()
    integration: IntegrationSettings = IntegrationSettings()
    messages: MessageSettings = MessageSettings()
    checkpoints: CheckpointSettings = CheckpointSettings()
    context: ContextSettings = ContextSettings()
    git: GitSettings = GitSettings()
    checks: Checks = Checks()
    secrets: SecretsSettings = SecretsSettings()
    agents: Annotated[Mapping[str, AgentSettings | NetworkedAgent], ByName(AGENT_TABLES)] = {}
