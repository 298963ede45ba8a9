"""One ticket in the making: the strings of a template, rendered for one combination of its matrix."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from tickets.problems import Problem
from tickets.templates._front_matter import Fields, Items, Scalar
from tickets.templates._keys import AGENTS, KEYS, WrongValueError
from tickets.templates.jinja import Choices, faults_of, fill, has_marks, unknown_names
from tickets.templates.template import Template, agent_of, problem_at
from tickets.ticket import Ticket

MAX_FAN_OUT = 1000  # tickets of one template; a matrix of three long lists is a slip of the pen


class Values(NamedTuple):
    """What a template may ask about the project."""

    project: str
    phase: str
    """The phase that is to run; a template that names none belongs to it."""
    deliverable: str = ""
    """The current one, for templates that name none."""
    status: str = ""
    """The text of STATUS.md."""
    decisions: str = ""
    """The text of DECISIONS.md."""


class Draft:
    """One ticket in the making: the strings of its template, rendered for one combination of the matrix."""

    def __init__(self, template: Template, matrix: dict[str, str], values: Values) -> None:
        self.template = template
        self.matrix = matrix
        self.values = values
        pairs = ",".join(f"{name}={value}" for name, value in matrix.items())
        self.id = f"{template.stem}[{pairs}]" if matrix else template.stem
        self.problems: list[Problem] = []
        self.fields: dict[str, Any] = {}
        self.unsure = set(template.unsure)
        """Keys that could not be read, or not wholly."""

    def fill(self) -> None:
        """Read every key, then what no key can say by itself."""
        for name, node in self.template.fields.values.items():
            if isinstance(node, Scalar) and node.is_null:
                continue
            if KEYS[name].shape == "one":
                self.fields[name] = self.one(name)
            elif KEYS[name].shape == "many":
                self.fields[name] = self.many(name)
        self.fields.setdefault("agent", None if "agent" in self.unsure else agent_of(self.template.stem))
        self._check_together()
        for fault in unknown_names(self.template.body, _BODY_NAMES):
            self.problems.append(problem_at(self.template, self.template.body_line, fault, "the body"))
            self.unsure.add("body")

    def one(self, name: str) -> Any:
        """Render and read a key that holds one value; None where that fails."""
        node = self.template.fields.values[name]
        return self.read(name, node) if isinstance(node, Scalar) and not faults_of(node.text) else None

    def many(self, name: str) -> tuple[Any, ...]:
        """Render and read a key that holds a list."""
        node = self.template.fields.values[name]
        items = node.values if isinstance(node, Items) else ()
        sound = (item for item in items if isinstance(item, Scalar) and not item.is_null)
        read = [self.read(name, item) for item in sound if not faults_of(item.text)]
        # An argument may stand twice in a command; anywhere else a repetition says nothing.
        return tuple(read if name == "command" else dict.fromkeys(read))

    def ticket(self, worker: str, fan_outs: Mapping[str, list[str]]) -> Ticket:
        """Make the ticket, now that the other tickets of the run are known."""
        named = self.fields.get("depends_on", ())
        written = [id_ for name in named for id_ in fan_outs.get(name, [name])]
        lines = {name: node.line for name, node in self.template.fields.values.items()}
        known = {
            **self.fields,
            "id": self.id,
            "template": self.template.path,
            "worker": worker,
            "phase": self.fields.get("phase") or self.values.phase,
            "deliverable": self.fields.get("deliverable") or self.values.deliverable or None,
            "title": self.fields.get("title") or self._title(),
            "body": self.template.body,
            "depends_on": tuple(dict.fromkeys(written)),
            "matrix": self.matrix,
            "lines": {**lines, "body": self.template.body_line},
        }
        return Ticket(**known).shared()

    def read(self, name: str, node: Scalar) -> Any:
        """Render and read one string of a key; None, and a problem noted, where that fails."""
        if "matrix" in self.unsure and "matrix" in node.text and has_marks(node.text):
            self.unsure.add(name)
            return None
        names = {
            **self.values._asdict(),
            "matrix": Choices("matrix", self.matrix, otherwise="add it to `matrix`"),
            "ticket": Choices("ticket", {"id": self.id, "template": self.template.path}),
        }
        filled = fill(node.text, names, elsewhere=_BODY_ONLY)
        self.problems += [problem_at(self.template, node.line, fault, f"`{name}`") for fault in filled.faults]
        if filled.faults:
            self.unsure.add(name)
            return None
        try:
            return KEYS[name].read(filled.text)
        except WrongValueError as error:
            self.unsure.add(name)
            self.problems.append(Problem(self._place(node.line), f"`{name}`: {error.what}", error.do))
            return None

    def _check_together(self) -> None:
        fields, agent, unsure = self.fields, self.fields["agent"], self.unsure
        if agent is None and "agent" not in unsure and "agent" not in self.template.fields.values:
            what = f"names no agent, and `{self.template.stem}` does not begin with one"
            self._note("agent", what, "add `agent: codex` (or " + ", ".join(AGENTS[1:]) + ")")
        if fields.get("mode") == "write" and not fields.get("owns") and "owns" not in unsure:
            self._note("mode", "writes but owns nothing", 'add `owns: ["src/…/**"]`')
        if agent == "command" and not fields.get("command") and "command" not in unsure:
            self._note("agent", "an agent `command` needs a command", 'add `command: ["make", "docs"]`')
        if agent is not None and agent != "command" and fields.get("command"):
            self._note("command", f"`{agent}` takes no command", "take it out, or write `agent: command`")
        if fields.get("command") and not fields["command"][0] and "command" not in unsure:
            self._note("command", "the program's name is empty", "write the program first")
        for other in fields.get("fallback", ()):
            if other == "command" or (other is not None and other == agent):
                self._note("fallback", f"`{other}` cannot stand in for `{agent}`", "name another agent")

    def _title(self) -> str:
        """Make a title that tells the tickets of a fan-out apart."""
        title = _title_of(self.template.body)
        return f"{title} {self.id[len(self.template.stem) :]}".strip() if title else self.id

    def _note(self, key: str, what: str, do: str) -> None:
        node = self.template.fields.values.get(key)
        self.problems.append(Problem(self._place(node.line if node else 1), what, do))

    def _place(self, line: int) -> str:
        return f"{self.template.path}:{line}"


def drafts_of(template: Template, values: Values, problems: list[Problem]) -> Iterator[Draft]:
    """Make one draft for each combination of the matrix, and note what is wrong with the matrix."""
    node = template.fields.values.get("matrix")
    if not isinstance(node, Fields):
        yield Draft(template, {}, values)
        return
    whole = Draft(template, {}, values)
    lists: dict[str, list[str]] = {}
    for name, items in node.values.items():
        scalars = [item for item in getattr(items, "values", ()) if isinstance(item, Scalar)]
        lists[name] = [str(value) for item in scalars if (value := whole.read("matrix", item)) is not None]
        place = f"{template.path}:{items.line}"
        whole.problems += [Problem(place, *wrong) for wrong in _wrong_values(f"matrix.{name}", lists[name])]
    problems += whole.problems
    size = 1
    for each in lists.values():
        size *= len(each)
    if size > MAX_FAN_OUT:
        what = f"`matrix` makes {size} tickets"
        problems.append(Problem(f"{template.path}:{node.line}", what, f"keep it to {MAX_FAN_OUT}"))
    elif not whole.problems:
        for combination in product(*lists.values()):
            yield Draft(template, dict(zip(lists, combination, strict=True)), values)


def _wrong_values(key: str, values: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Find the values that give two tickets one id, or one that nobody could take apart."""
    seen: set[str] = set()
    for value in values:
        # Two spellings of one accented letter look the same to whoever is to tell the tickets apart.
        looks = unicodedata.normalize("NFC", value)
        if looks in seen:
            yield f"`{key}` holds `{value}` twice", "write each value once"
        seen.add(looks)
        if bad := [char for char in "[]," if char in value]:
            what = f"`{key}`: `{value}` cannot stand in a ticket's id"
            yield what, f"write it without `{'` and `'.join(bad)}`"


def name_workers(drafts: Sequence[Draft]) -> list[str]:
    """Name `codex-3` Codex-Worker-3; all others take the lowest number that is free for their agent."""
    names: dict[str, str] = {}
    for draft in drafts:
        parts = _WORKER.fullmatch(draft.id)
        if parts and parts[1] == draft.fields["agent"]:
            names[draft.id] = f"{parts[1].capitalize()}-Worker-{parts[2]}"
    taken = set(names.values())
    numbers: dict[str, int] = {}
    for draft in drafts:
        if draft.id in names:
            continue
        agent = draft.fields["agent"].capitalize()
        number = numbers.get(agent, 1)
        while f"{agent}-Worker-{number}" in taken:
            number += 1
        numbers[agent] = number + 1
        names[draft.id] = f"{agent}-Worker-{number}"
    return [names[draft.id] for draft in drafts]


_BODY_NAMES = (*Values._fields, "worker", "matrix", "outputs", "ticket")
_BODY_ONLY = {
    "worker": "it is known in the body only",
    "outputs": "they are known in the body only",
}
_WORKER = re.compile(r"([a-z]+)-([1-9][0-9]*)")


def _title_of(body: str) -> str | None:
    """Take the first plain line of a prompt as its title."""
    for line in body.splitlines():
        text = " ".join(line.strip().strip("#*").split())
        if text and "{" not in text and not text.startswith(("-", "`", "<", ">", "|")):
            return text if len(text) <= 80 else text[:79] + "…"
    return None
