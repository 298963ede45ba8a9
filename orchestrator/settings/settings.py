"""`orchestrate.toml` and the pool in AGENTS.md, as one value."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator.errors import Refusal
from orchestrator.settings._plain import UnclearError, plain
from orchestrator.settings.toml_text import FILE, read_toml
from orchestrator.settings.values import SpendingLimits, Tables
from orchestrator.state.canonical.rules import rules
from orchestrator.store.read import read_file, read_state
from tickets.problems import Problem, ProblemError
from tickets.types import AgentName
from workers.agents.agent import AgentSettings

_DEFAULT = Path(__file__).with_name("default.toml")


class Settings(Tables):
    """All settings of a run, from both files; `warnings` are for the reader of the output."""

    slots: rules.Pool
    warnings: tuple[Problem, ...]
    unapproved: Problem | None
    """A pool larger than the user has approved; `slots` is cut to what is approved."""

    @classmethod
    def of(
        cls,
        tables: Tables,
        slots: rules.Pool,
        warnings: tuple[Problem, ...] = (),
        unapproved: Problem | None = None,
    ) -> "Settings":
        """Make one value from the content of both files."""
        made = cls(*tables)
        made.slots, made.warnings, made.unapproved = slots, warnings, unapproved
        return made

    def agent(self, name: AgentName) -> AgentSettings:
        """Return `[agents.NAME]`."""
        return self._agents_by_name.get(name, _UNSET)

    @cached_property
    def _agents_by_name(self) -> dict[str, AgentSettings]:
        # Made once: it is asked for several times for each worker.
        return {name: AgentSettings(**table._asdict()) for name, table in self.agents.items()}

    @property
    def spending_limits(self) -> SpendingLimits:
        """Return the part of `[budget]` that a start is checked against."""
        return SpendingLimits(
            self.budget.run_usd, self.budget.day_usd, self.budget.run_tokens, self.budget.day_tokens
        )

    def is_enabled(self, name: AgentName) -> bool:
        """Return whether an agent may run: as `[agents.NAME] enabled` states, else as AGENTS.md does."""
        stated = self.agent(name).enabled
        if name == "command":
            return stated is not False
        if not self.slots.agents[name]:
            return False
        return self.slots.enabled[name] if stated is None else stated


_UNSET = AgentSettings()


def default_settings() -> str:
    """Return the text of a new orchestrate.toml: every key with its meaning and default."""
    return _DEFAULT.read_text("utf-8")


def read_settings(root: Path) -> Settings:
    """Read both files from the work tree. Raises Refusal with every problem of both."""
    problems: list[Problem] = []
    text = _read(root, FILE, problems) or b""
    values = read_toml(FILE, text, problems)
    if isinstance(values.get("fence"), str):
        values["fence"] = {"level": values["fence"]}
    slots, found = _pool(_read(root, rules.PATH, problems), root)
    asked = next((problem for problem in found if rules.asks_approval(problem)), None)
    problems += [problem for problem in found if problem.severity == "error" and problem is not asked]
    warnings = tuple(problem._replace(severity="warning") for problem in found if problem not in problems)
    tables = _tables(values, text, problems)
    if problems:
        raise Refusal(*problems)
    return Settings.of(tables, slots, warnings, asked)


def _tables(values: Mapping[str, Any], text: bytes, problems: list[Problem]) -> Tables:
    """Return the content of the file; the defaults, with problems noted, where something is wrong with it."""
    try:
        return plain(Tables, values)
    except UnclearError:
        from orchestrator.settings._explain import checked  # noqa: PLC0415 - imports pydantic

        found, wrong = checked(values, text.decode())
        problems += wrong
        return plain(Tables, found)


def _pool(text: bytes | None, root: Path) -> tuple[rules.Pool, list[Problem]]:
    """Read the pool; a larger one than usual is valid where DECISIONS.md has the user's approval."""
    slots, found = rules.read_pool(text)
    if not any(problem.severity == "error" for problem in found):
        return slots, found
    from orchestrator.state.canonical.decisions import gates  # noqa: PLC0415 - for start-up time
    from orchestrator.state.canonical.decisions.read import PATH  # noqa: PLC0415 - as above

    try:
        approved = gates.approved_pool(read_state(root, PATH) or b"")
    except ProblemError:
        return slots, found
    return rules.read_pool(text, approved=max(approved, rules.LIMIT))


def _read(root: Path, path: str, problems: list[Problem]) -> bytes | None:
    try:
        return read_file(root, path)
    except Refusal as refusal:
        problems += refusal.problems
        return None
