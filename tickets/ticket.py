"""A ticket: what one worker is asked to do, and what it owns while it does it."""

import re
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from tickets.types import AgentName, Mode, Priority

_OURS = frozenset({
    "HOME", "TMPDIR", "PYTHONPYCACHEPREFIX", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME",
    "CODEX_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN",
    "GEMINI_API_KEY", "GOOGLE_API_KEY",
})  # fmt: skip
"""Variables that the runtime sets for each worker, and the keys of agents."""
_OUR_PREFIXES = ("ORCHESTRATE_", "GIT_")


def variable_fault(name: str) -> tuple[str, str] | None:
    """Return what is wrong with a name in a table of variables, and what to do; None where nothing is."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return f"`{name}` is not the name of a variable", "use letters, digits and `_`"
    if name in _OURS or name.startswith(_OUR_PREFIXES):
        return f"`{name}` is set by orchestrate, or is a key of an agent", "leave it out"
    return None


def folder_fault(path: str) -> tuple[str, str] | None:
    """Return what is wrong with a folder of the repository, as `variable_fault` does."""
    names = path.lower().split("/")
    if not path.strip() or path.startswith("/") or {"..", ".git", ".taskers"} & set(names):
        return f"`{path}` is not a folder of the repository", "write one like packages/api"
    return None


_PLAN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,31}")
_PLAN = re.compile(r"(?P<id>\S+?)(?:\s*:(?:\s+|$)|\s+[-\u2013\u2014]\s+)(?P<title>.*)")


def plan_named(text: str) -> tuple[str, str] | None:
    """Return id and title of a plan, which is named `ID: TITLE` or `ID - TITLE`; None for another form."""
    found = _PLAN.fullmatch(text)
    return (found["id"], found["title"].strip()) if found and found["title"].strip() else None


def plan_id_fault(plan: str) -> str:
    """Return what is wrong with the id of a plan; empty where nothing is."""
    if not _PLAN_ID.fullmatch(plan):
        return "is no id: it needs 1 to 32 letters, digits, `.`, `_` and `-`, the first a letter or a digit"
    # It is the end of a ref's name.
    if ".." in plan or plan.endswith((".", ".lock")):
        return "is no id: it holds `..`, or ends in `.` or `.lock`"
    return ""


class AssignedPlan(NamedTuple):
    """One plan of a phase that has not landed, as its worker is told of it."""

    id: str
    title: str
    verify: str = ""
    """The command that must pass; empty: there is none."""
    tasks: tuple[str, ...] = ()


def plan_lines(plans: Iterable[AssignedPlan]) -> str:
    """Return plans as a list in Markdown."""
    lines = []
    for plan in plans:
        check = f"; complete when `{plan.verify}` passes" if plan.verify else ""
        lines += [f"- `{plan.id}`: {plan.title}{check}", *(f"  - {task}" for task in plan.tasks)]
    return "\n".join(lines) or "None."


class Ticket(NamedTuple):
    """One rendered template for one worker. Times are seconds, money is USD.

    `body` is the Jinja2 source of the prompt and stays unrendered here: what a dependency printed
    is known only when the ticket's turn has come. Every other string is rendered.
    """

    id: str
    """The template's stem, with `[key=value]` for a fan-out."""
    template: str
    """The template's path, relative to the repository's root."""
    worker: str
    agent: AgentName
    phase: str
    title: str
    body: str
    deliverable: str | None = None
    mode: Mode = "read-only"
    priority: Priority = "P1"
    """Which of several tickets that could start goes first."""
    owns: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    """Ids of tickets; fan-outs are expanded already."""
    acceptance: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    """Commands that make its trees ready, after those of all tickets."""
    env: Mapping[str, str] = {}
    """Variables for its worker, its setup and its acceptance commands."""
    cwd: str = ""
    """The folder of its trees in which they start; empty: the root."""
    timeout: float = 1800.0
    idle_timeout: float = 900.0
    retries: int = 1
    fallback: tuple[AgentName, ...] = ()
    model: str | None = None
    budget_usd: float | None = None
    budget_tokens: int | None = None
    max_files_changed: int | None = None
    matrix: Mapping[str, str] = {}
    command: tuple[str, ...] | None = None
    phase_worker: bool = False
    """Whether it owns the plans of its phase."""
    plans: tuple[str, ...] = ()
    """`ID: TITLE` of the plans that begin PLAN.md where there is none."""
    digest: str = ""
    """Equal for equal work: of the template's bytes and the values of one ticket (`docs/templates.md`)."""
    lines: Mapping[str, int] = {}
    """The place of each key in the template, and where `body` begins: for messages only."""

    @property
    def named_plans(self) -> tuple[AssignedPlan, ...]:
        """The plans that its template names."""
        return tuple(AssignedPlan(*named) for plan in self.plans if (named := plan_named(plan)))

    def shared(self) -> "Ticket":
        """Return a copy that shares equal parts with the other tickets of a fan-out, which may be many."""
        return self._replace(body=sys.intern(self.body), lines=_one_of(tuple(self.lines.items())))

    def done_by(self, agent: AgentName) -> "Ticket":
        """Return the ticket for a fallback agent, which does not know the first agent's model."""
        return self if agent == self.agent else self._replace(agent=agent, model=None)

    def place(self, key: str) -> str:
        """Return the place of a key, as messages name it."""
        return f"{self.template}:{self.lines[key]}" if key in self.lines else self.template


@lru_cache(maxsize=1_000)
def _one_of(lines: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    return dict(lines)
