"""Templates to tickets: read strictly, rendered string by string, refused with every problem at once."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from tickets.fields import AGENTS, KEYS, WrongValueError
from tickets.frontmatter import Fields, Items, Node, Scalar, read_source
from tickets.jinja import Choices, Fault, faults_of, fill, nearest, unknown_names
from tickets.problems import Problem, TicketError
from tickets.ticket import Ticket

FOLDER = "docs/worker-ticket-templates"
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


class Template(NamedTuple):
    """One template file, read and checked as far as that goes without values."""

    path: str
    stem: str
    fields: Fields
    body: str
    body_line: int


def is_template(path: str) -> bool:
    """Whether a file of the templates' folder is a template: Markdown, but neither README nor hidden."""
    name = PurePosixPath(path).name.lower()
    return name.endswith(".md") and name != "readme.md" and not name.startswith(".")


def read_template(path: str, data: bytes) -> Template:
    """Read one template; `path` is relative to the repository's root. Raises TicketError, all problems in it."""
    source = read_source(path, data)
    template = Template(path, PurePosixPath(path).stem, source.fields, source.body, source.body_line)
    problems = list(_stem_problems(template))
    for name, node in source.fields.values.items():
        problems += _key_problems(path, name, node)
    problems += [_problem(template, source.body_line, fault, "the body") for fault in faults_of(source.body)]
    if not source.body.strip() and not _may_be_empty(template):
        problems.append(
            Problem(f"{path}:{source.body_line}", "there is no prompt", "write it below the front matter")
        )
    if problems:
        raise TicketError(*problems)
    return template


def read_templates(files: Mapping[str, bytes]) -> list[Template]:
    """Read the templates among some files, by path. Raises TicketError with the problems of all of them."""
    templates: list[Template] = []
    problems: list[Problem] = []
    for path in filter(is_template, files):
        try:
            templates.append(read_template(path, files[path]))
        except TicketError as error:
            problems += error.problems
    if problems:
        raise TicketError(*problems)
    return templates


def phase_of(template: Template, values: Values) -> str:
    """Tell which phase a template belongs to, so that those of other phases can be left out."""
    node = template.fields.values.get("phase")
    if not isinstance(node, Scalar) or node.is_null:
        return values.phase
    draft = _Draft(template, {}, values)
    phase = draft.one("phase")
    if draft.problems:
        raise TicketError(*draft.problems)
    return str(phase)


def render_tickets(templates: Sequence[Template], values: Values) -> list[Ticket]:
    """Render the templates of one phase, in the natural order of their names.

    Raises TicketError with every problem of every template. Bodies are rendered too, with stand-ins
    for outputs, so that no undefined variable is found after workers have started.
    """
    ordered = sorted(templates, key=lambda template: (_natural(template.stem), template.path))
    problems: list[Problem] = list(_twins(ordered))
    drafts: list[_Draft] = []
    for template in ordered:
        drafts += _drafts(template, values, problems)
    for draft in drafts:
        draft.fill()
        problems += draft.problems
    # Tickets that are well are looked into all the same: a second run should not find a second lot of problems.
    drafts = [draft for draft in drafts if not draft.problems]
    fan_outs: dict[str, list[str]] = {}
    for draft in drafts:
        fan_outs.setdefault(draft.template.stem, []).append(draft.id)
    workers = _name_workers(drafts)
    tickets = [draft.ticket(worker, fan_outs) for draft, worker in zip(drafts, workers, strict=True)]
    for ticket in tickets:
        stand_ins = {id_: f"(the output of {id_})" for id_ in ticket.depends_on}
        _, found = _fill_body(ticket, values, stand_ins)
        problems += [problem for problem, certain in found if certain or "outputs" not in ticket.body]
    if problems:
        raise TicketError(*dict.fromkeys(problems))
    return tickets


def render_body(ticket: Ticket, values: Values, outputs: Mapping[str, str]) -> str:
    """Render a ticket's prompt. `outputs` are texts by ticket id; only those of `depends_on` are seen.

    Raises TicketError.
    """
    text, found = _fill_body(ticket, values, outputs)
    if found:
        raise TicketError(*(problem for problem, _ in found))
    return text


def _fill_body(
    ticket: Ticket, values: Values, outputs: Mapping[str, str]
) -> tuple[str, list[tuple[Problem, bool]]]:
    """Render a body; problems come with whether they hold whatever the outputs are."""
    seen = {id_: outputs[id_] for id_ in ticket.depends_on if id_ in outputs}
    families: dict[str, list[str]] = {}
    for id_ in seen:
        families.setdefault(id_.partition("[")[0], []).append(id_)
    for stem, ids in families.items():
        # `depends_on: codex-3` means all of a fan-out, so outputs["codex-3"] is all of theirs.
        seen.setdefault(stem, "\n\n".join(f"{id_}:\n\n{seen[id_]}" for id_ in ids))
    names = {
        **values._asdict(),
        "phase": ticket.phase,
        "deliverable": ticket.deliverable or "",
        "worker": ticket.worker,
        "matrix": Choices("matrix", ticket.matrix, otherwise="add it to `matrix`"),
        "outputs": Choices("outputs", seen, otherwise="add it to `depends_on`"),
        "ticket": Choices("ticket", ticket.model_dump(mode="json", exclude={"body", "lines"})),
    }
    filled = fill(ticket.body, names)
    line = ticket.lines.get("body", 1)
    found = [
        (Problem(f"{ticket.template}:{line + fault.line - 1}", fault.what, fault.do), fault.certain)
        for fault in filled.faults
    ]
    if not found and not filled.text.strip() and (ticket.agent != "command" or ticket.fallback):
        found.append(
            (Problem(f"{ticket.template}:{line}", "the prompt renders to nothing", "write it"), False)
        )
    return filled.text, found


class _Draft:
    """One ticket in the making: the strings of its template, rendered for one combination of the matrix."""

    def __init__(self, template: Template, matrix: dict[str, str], values: Values) -> None:
        self.template = template
        self.matrix = matrix
        self.values = values
        pairs = ",".join(f"{name}={value}" for name, value in matrix.items())
        self.id = f"{template.stem}[{pairs}]" if matrix else template.stem
        self.problems: list[Problem] = []
        self.fields: dict[str, Any] = {}

    def fill(self) -> None:
        """Read every key, then what no key can say by itself."""
        for name, node in self.template.fields.values.items():
            if isinstance(node, Scalar) and node.is_null:
                continue
            if KEYS[name].shape == "one":
                self.fields[name] = self.one(name)
            elif KEYS[name].shape == "many":
                self.fields[name] = self.many(name)
        self.fields.setdefault("agent", _agent_of(self.template.stem))
        self._check_together()
        for fault in unknown_names(self.template.body, _BODY_NAMES):
            self.problems.append(_problem(self.template, self.template.body_line, fault, "the body"))

    def one(self, name: str) -> Any:
        """Render and read a key that holds one value; None where that fails."""
        node = self.template.fields.values[name]
        return self._read(name, node) if isinstance(node, Scalar) else None

    def many(self, name: str) -> tuple[Any, ...]:
        """Render and read a key that holds a list."""
        node = self.template.fields.values[name]
        items = node.values if isinstance(node, Items) else ()
        read = [self._read(name, item) for item in items if isinstance(item, Scalar)]
        # An argument may stand twice in a command; anywhere else a repetition says nothing.
        return tuple(read if name == "command" else dict.fromkeys(read))

    def ticket(self, worker: str, fan_outs: Mapping[str, list[str]]) -> Ticket:
        """Make the ticket, now that the other tickets of the run are known."""
        named = self.fields.get("depends_on", ())
        written = [id_ for name in named for id_ in fan_outs.get(name, [name])]
        lines = {name: node.line for name, node in self.template.fields.values.items()}
        return Ticket.model_validate({
            **self.fields,
            "id": self.id,
            "template": self.template.path,
            "worker": worker,
            "phase": self.fields.get("phase") or self.values.phase,
            "deliverable": self.fields.get("deliverable") or self.values.deliverable or None,
            "title": self.fields.get("title") or _title_of(self.template.body) or self.id,
            "body": self.template.body,
            "depends_on": tuple(dict.fromkeys(written)),
            "matrix": self.matrix,
            "lines": {**lines, "body": self.template.body_line},
        })  # fmt: skip

    def _read(self, name: str, node: Scalar) -> Any:
        names = {
            **self.values._asdict(),
            "matrix": Choices("matrix", self.matrix, otherwise="add it to `matrix`"),
            "ticket": Choices("ticket", {"id": self.id, "template": self.template.path}),
        }
        filled = fill(node.text, names, elsewhere=_BODY_ONLY)
        self.problems += [_problem(self.template, node.line, fault, f"`{name}`") for fault in filled.faults]
        if filled.faults:
            return None
        try:
            return KEYS[name].read(filled.text)
        except WrongValueError as error:
            self.problems.append(Problem(self._place(node.line), f"`{name}`: {error.what}", error.do))
            return None

    def _check_together(self) -> None:
        fields, agent = self.fields, self.fields["agent"]
        if agent is None and "agent" not in self.template.fields.values:
            what = f"names no agent, and `{self.template.stem}` does not begin with one"
            self._note("agent", what, "add `agent: codex` (or " + ", ".join(AGENTS[1:]) + ")")
        if fields.get("mode") == "write" and not fields.get("owns"):
            self._note("mode", "writes but owns nothing", 'add `owns: ["src/…/**"]`')
        if agent == "command" and not fields.get("command"):
            self._note("agent", "an agent `command` needs a command", 'add `command: ["make", "docs"]`')
        if agent is not None and agent != "command" and fields.get("command"):
            self._note("command", f"`{agent}` takes no command", "take it out, or write `agent: command`")
        if fields.get("command") and not fields["command"][0]:
            self._note("command", "the program's name is empty", "write the program first")
        for other in fields.get("fallback", ()):
            if other == "command" or (other is not None and other == agent):
                self._note("fallback", f"`{other}` cannot stand in for `{agent}`", "name another agent")

    def _note(self, key: str, what: str, do: str) -> None:
        node = self.template.fields.values.get(key)
        self.problems.append(Problem(self._place(node.line if node else 1), what, do))

    def _place(self, line: int) -> str:
        return f"{self.template.path}:{line}"


_BODY_NAMES = (*Values._fields, "worker", "matrix", "outputs", "ticket")
_BODY_ONLY = {
    "worker": "it is known in the body only",
    "outputs": "they are known in the body only",
}
_STEM = re.compile(r"\w[\w.+-]*")
_WORKER = re.compile(r"([a-z]+)-([1-9][0-9]*)")
_MATRIX_NAME = re.compile(r"[A-Za-z_]\w*")


def _drafts(template: Template, values: Values, problems: list[Problem]) -> Iterator[_Draft]:
    """Make one draft for each combination of the matrix, and note what is wrong with the matrix."""
    node = template.fields.values.get("matrix")
    if not isinstance(node, Fields):
        yield _Draft(template, {}, values)
        return
    whole = _Draft(template, {}, values)
    lists: dict[str, list[str]] = {}
    for name, items in node.values.items():
        scalars = [item for item in getattr(items, "values", ()) if isinstance(item, Scalar)]
        lists[name] = [str(value) for item in scalars if (value := whole._read("matrix", item)) is not None]  # noqa: SLF001 - the matrix is read before there are tickets of it
        for value in lists[name]:
            if lists[name].count(value) > 1 or set(value) & set("[],"):
                do = "write each value once, without brackets and commas"
                whole.problems.append(
                    Problem(f"{template.path}:{items.line}", f"`{value}` cannot name a ticket", do)
                )
    problems += whole.problems
    size = 1
    for each in lists.values():
        size *= len(each)
    if size > MAX_FAN_OUT:
        what = f"`matrix` makes {size} tickets"
        problems.append(Problem(f"{template.path}:{node.line}", what, f"keep it to {MAX_FAN_OUT}"))
    elif not whole.problems:
        for combination in product(*lists.values()):
            yield _Draft(template, dict(zip(lists, combination, strict=True)), values)


def _name_workers(drafts: Sequence[_Draft]) -> list[str]:
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


def _stem_problems(template: Template) -> Iterator[Problem]:
    if not _STEM.fullmatch(template.stem):
        do = "name the file with letters, digits, `-`, `_` and `.`"
        yield Problem(template.path, f"`{template.stem}` cannot be a ticket's id", do)


def _twins(templates: Sequence[Template]) -> Iterator[Problem]:
    first: dict[str, Template] = {}
    for template in templates:
        other = first.setdefault(template.stem, template)
        if other is not template:
            yield Problem(template.path, f"has the same id as {other.path}", "rename one of them")


def _key_problems(path: str, name: str, node: Node) -> list[Problem]:
    """Check one key without values: whether there is such a key, its shape, the syntax of its strings."""
    place = f"{path}:{node.line}"
    if name not in KEYS:
        do = nearest(name, KEYS) or "known are " + ", ".join(KEYS)
        return [Problem(place, f"`{name}` is not a key of a template", do)]
    key = KEYS[name]
    wrong = Problem(place, f"`{name}` {_WANTED[key.shape]}", f"write `{name}: {key.example}`")
    if isinstance(node, Scalar):
        if node.is_null:
            return []
        return _syntax(path, name, [node]) if key.shape == "one" else [wrong]
    if isinstance(node, Items):
        scalars = [item for item in node.values if isinstance(item, Scalar) and not item.is_null]
        if key.shape != "many" or len(scalars) < len(node.values):
            return [wrong]
        return _syntax(path, name, scalars)
    if key.shape != "matrix":
        return [wrong]
    problems: list[Problem] = []
    for each, items in node.values.items():
        scalars = [item for item in getattr(items, "values", ()) if isinstance(item, Scalar)]
        if not isinstance(items, Items) or not scalars or len(scalars) < len(items.values):
            what = f"`matrix.{each}` must be a list of at least one value"
            problems.append(Problem(f"{path}:{items.line}", what, f"write `matrix: {key.example}`"))
        elif not _MATRIX_NAME.fullmatch(each):
            what = f"`{each}` cannot be used as `matrix.NAME`"
            problems.append(Problem(f"{path}:{items.line}", what, "use letters, digits and `_`"))
        problems += _syntax(path, name, scalars)
    return problems


_WANTED = {
    "one": "must be a single value",
    "many": "must be a list of strings",
    "matrix": "must be a mapping of lists",
}


def _syntax(path: str, name: str, scalars: Sequence[Scalar]) -> list[Problem]:
    return [
        Problem(f"{path}:{scalar.line + fault.line - 1}", f"`{name}` {fault.what}", fault.do)
        for scalar in scalars
        for fault in faults_of(scalar.text)
    ]


def _problem(template: Template, line: int, fault: Fault, where: str) -> Problem:
    return Problem(f"{template.path}:{line + fault.line - 1}", f"{where}: {fault.what}", fault.do)


def _may_be_empty(template: Template) -> bool:
    """Whether a template can do without a prompt: only one whose command says it all."""
    agent = template.fields.values.get("agent")
    named = agent.text if isinstance(agent, Scalar) else _agent_of(template.stem)
    return named == "command" and "fallback" not in template.fields.values


def _agent_of(stem: str) -> str | None:
    word = re.split(r"[-_. +]", stem, maxsplit=1)[0].lower()
    return word if word in AGENTS else None


def _title_of(body: str) -> str | None:
    """Take the first plain line of a prompt as its title."""
    for line in body.splitlines():
        text = " ".join(line.strip().strip("#*").split())
        if text and "{" not in text and not text.startswith(("-", "`", "<", ">", "|")):
            return text if len(text) <= 80 else text[:79] + "…"
    return None


def _natural(stem: str) -> list[Any]:
    """Order `codex-2` before `codex-10`."""
    return [int(part) if at % 2 else part for at, part in enumerate(re.split(r"([0-9]{1,18})", stem))]
