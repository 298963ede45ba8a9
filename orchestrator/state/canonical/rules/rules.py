"""AGENTS.md: the rules. The home of the worker pool and of the approval gates."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from orchestrator.errors import StateError
from orchestrator.state.document import doubled, opened, parsed, refuse_open_fence, state_errors
from orchestrator.state.facts import Facts, new_file
from tickets.markdown import (
    Document,
    MarkdownError,
    append_section,
    field,
    fields,
    front_problems,
    header,
    insert,
    key_of,
    sections,
)
from tickets.markdown.sections import Part
from tickets.problems import Problem
from tickets.types import AGENTS, SLOTS, AgentName
from tickets.value import Value

if TYPE_CHECKING:
    from orchestrator.state.events import Event

PATH = "AGENTS.md"
OWNS: tuple[str, ...] = (PATH,)
LIMIT = 15
"""A larger pool needs an approval on record."""
SECTIONS = ("Lead Conductor Role", "Worker Orchestration", "Status Report Protocol", "Approval Gates")

_NEW = Path(__file__).with_name("new.md")
"""Workers read the file too, so each section names its reader."""

_AGENT = re.compile(rf"\b({'|'.join(SLOTS)})\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\d.\u2212-])\d+(?![.\d])")
_SHORT = 3
"""Words of a value that is meant as a number; a longer one is prose about an agent."""
_OFF = re.compile(r"\b(?:disabled|off|optional)\b|\bnot enabled\b", re.IGNORECASE)
_ON = re.compile(r"\b(?:enabled|on|active)\b", re.IGNORECASE)
_TOTAL = frozenset(
    ("maximum workers", "max workers", "maximum concurrent workers", "max concurrent workers",
     "total workers", "maximum", "total", "pool size", "worker pool", "worker pool size")
)  # fmt: skip
_COUNT = frozenset(("pool size", "workers", "maximum workers", "max workers", "count", "size", "limit"))
_STATE = frozenset(("status", "state", "enabled", "default"))
_ASK = "orchestrate approve pool-"
_ENABLED = {name: AGENTS[name].enabled for name in SLOTS}


class Pool(Value):
    """How many workers may run at once, in all and of each agent; and which agents are enabled."""

    total: int = 15
    agents: Mapping[AgentName, int] = SLOTS
    enabled: Mapping[AgentName, bool] = _ENABLED
    by_default: tuple[AgentName, ...] = tuple(SLOTS)
    """The agents of which the file does not say whether they are enabled."""

    def as_json(self) -> dict[str, int | bool]:
        """Return the pool as JSON documents show it: `total`, then `AGENT`, then `AGENT_enabled` of each."""
        return {
            "total": self.total,
            **self.agents,
            **{f"{name}_enabled": is_on for name, is_on in self.enabled.items()},
        }


def read_pool(text: bytes | None, *, approved: int = LIMIT) -> tuple[Pool, list[Problem]]:
    """Return the pool as the file states it, with its problems.

    What is not stated has its default. `approved` is the largest approved pool; more than that is an
    error, and the pool returned is cut to it. The smaller of two contradicting numbers holds.
    """
    if text is None:
        return Pool(), [_default("the file is missing", "`orchestrate init` writes it")]
    try:
        document = parsed(text, PATH)
    except MarkdownError as error:
        return Pool(), list(error.problems)
    said: dict[str, int] = {}
    found: list[Problem] = []
    missed: dict[str, Problem] = {}
    for name, worth, line, words in _statements(document):
        if worth is None:
            missed[name] = _not_counted(name, words, line)
            continue
        if name in said and said[name] != worth:
            what = f"`{name}` is stated twice ({said[name]} and {worth})"
            found.append(
                Problem(f"{PATH}:{line}", what, "keep it once; the smaller holds until then", "warning")
            )
        said[name] = min(said.get(name, worth), worth)
        if name == "total" and worth > approved:
            what = f"a pool of {worth} workers needs an approval, {approved} are approved"
            do = f"when the user agrees, run `{_ASK}{worth} --by NAME`, or lower the number"
            found.append(Problem(f"{PATH}:{line}", what, do))
    found += [problem for name, problem in missed.items() if name not in said]
    if not said:
        try:
            refuse_open_fence(document)
        except StateError as error:
            return Pool(), list(error.problems)
        return Pool(), [
            *found,
            _default("no worker pool is stated", "`orchestrate init` appends the section"),
        ]
    default = Pool()
    agents = {name: said.get(name, most) for name, most in default.agents.items()}
    total = min(said.get("total", default.total), approved)
    found += [
        Problem(
            PATH,
            f"{most} {name} workers are more than the whole pool of {total}, which holds",
            "lower it, or raise the number of all",
            "warning",
        )
        for name, most in agents.items()
        if name in said and most > total
    ]
    enabled = {name: bool(said.get(f"{name} enabled", is_on)) for name, is_on in default.enabled.items()}
    by_default = tuple(name for name in default.enabled if f"{name} enabled" not in said)
    return Pool(total, agents, enabled, by_default), found


def asks_approval(problem: Problem) -> str:
    """Return the command that records the approval of a larger pool; empty for other problems."""
    found = re.search(rf"`({_ASK}[^`]*)`", problem.do)
    return found[1] if found else ""


def needs(tree: Mapping[str, bytes | None], event: "Event") -> tuple[str, ...]:
    """Return nothing: no event concerns the rules."""
    del tree, event
    return ()


def changes(tree: Mapping[str, bytes | None], event: "Event") -> dict[str, bytes]:
    """Return nothing: no event changes the rules."""
    del tree, event
    return {}


def problems(text: bytes, *, approved: int = LIMIT) -> list[Problem]:
    """Return the problems of the file: missing sections, a doubtful pool, one larger than is approved."""
    try:
        document = opened(PATH, text)
    except StateError as error:
        return list(error.problems)
    found = [*front_problems(document), *read_pool(text, approved=approved)[1]]
    for title in SECTIONS:
        same = [part for part in sections(document) if key_of(part.title) == key_of(title)]
        if not same:
            do = "`orchestrate init` appends what is missing"
            found.append(Problem(PATH, f"section `{title}` is missing", do, "warning"))
        elif twice := doubled(document, title):
            found.append(twice)
    return found


def initial(facts: Facts) -> str:
    """Return the text of a new file."""
    return new_file(_NEW, facts).text


def complete(text: bytes, facts: Facts) -> bytes:
    """Return the file with its missing sections added at the end; existing text stays.

    Raises StateError where the file cannot be read, or would read differently afterwards.
    """
    if not text.strip():
        return initial(facts).encode()
    document = opened(PATH, text)
    new = new_file(_NEW, facts)
    with state_errors():
        for title, section in new.sections.items():
            if not any(key_of(part.title) == key_of(title) for part in sections(document)):
                document = append_section(document, section)
        top = header(document)
        if top.title == new.title.removeprefix("# "):
            wanted = new.fields.items()
            lines = [f"**{key}:** {said}" for key, said in wanted if field(document, top, key) is None]
            document = insert(document, top.body, "\n" + "\n".join(lines) + "\n\n") if lines else document
    return document.data


def _default(why: str, do: str) -> Problem:
    most = {name: f"{number} {name.capitalize()}" for name, number in SLOTS.items()}
    on = ", ".join([f"{Pool().total} in all", *(most[name] for name in most if _ENABLED[name])])
    off = [f"; {most[name]} where `orchestrate.toml` enables it" for name in most if not _ENABLED[name]]
    what = f"{why}, so the defaults hold ({on}{''.join(off)})"
    return Problem(PATH, what, do, "warning")


def _not_counted(name: str, text: str, line: int) -> Problem:
    """Describe a statement whose number cannot be read; the default holds in its place."""
    default = Pool().total if name == "total" else dict[str, int](Pool().agents)[name]
    what = f"`{text}` states no number of workers, so {default} hold"
    return Problem(f"{PATH}:{line}", what, "write it in digits", "warning")


class _Statement(NamedTuple):
    """What a line says of the pool; the name is `total`, `AGENT` or `AGENT enabled`."""

    name: str
    worth: int | None
    """None where a number is meant, and there is none."""
    line: int
    text: str


def _statements(document: Document) -> Iterator[_Statement]:
    for title, part in _pool_parts(document):
        of_title = _AGENT.search(title)
        for one in fields(document, part):
            agent = _AGENT.search(one.key)
            key, number = key_of(one.key), _NUMBER.search(one.value)
            text = f"{one.key}: {one.value}".strip()
            count = int(number[0]) if number else None
            name = agent[1].lower() if agent else of_title[1].lower() if of_title else None
            if name is None:
                if key in _TOTAL and (number or (key != "worker pool" and _is_meant(one.value))):
                    yield _Statement("total", count, one.line, text)
                continue
            is_off, is_on = _OFF.search(one.value), _ON.search(one.value)
            is_named = agent is not None and key in {
                name,
                f"{name} workers",
                f"max {name}",
                f"maximum {name}",
            }
            is_missed = is_named and not (is_off or is_on) and _is_meant(one.value)
            if (number and (agent or key in _COUNT)) or (not number and is_missed):
                yield _Statement(name, count, one.line, text)
            if is_off:
                yield _Statement(f"{name} enabled", False, one.line, text)
            elif is_on or (agent and number) or (key == "enabled" and one.value.lower() in {"yes", "true"}):
                yield _Statement(f"{name} enabled", True, one.line, text)
        if of_title and (_OFF.search(title) or _ON.search(title)):
            yield _Statement(f"{of_title[1].lower()} enabled", not _OFF.search(title), part.line, title)


def _is_meant(value: str) -> bool:
    """Return whether a value without a number looks as if it was meant as one."""
    return len(value.split()) <= _SHORT


def _pool_parts(document: Document) -> Iterator[tuple[str, Part]]:
    """Yield the sections about the pool: Worker Orchestration, else those that mention it, with all below."""
    tops = sections(document)
    chosen = [part for part in tops if key_of(part.title) == "worker orchestration"]
    chosen = chosen or [
        part for part in tops if re.search(r"\bpool\b|\bworkers?\b", part.title, re.IGNORECASE)
    ]
    waiting = list(chosen)
    while waiting:
        part = waiting.pop(0)
        yield part.title, part
        waiting += sections(document, part)
