"""Templates to tickets: rendered string by string, refused with every problem at once."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import product
from typing import Any

from tickets.problems import Problem, TicketError
from tickets.templates._front_matter import Fields, Items, Scalar
from tickets.templates._keys import AGENTS, KEYS, WrongValueError
from tickets.templates._quoting import FanOutOutput
from tickets.templates.fan_out import stem_of
from tickets.templates.jinja import Choices, fill, has_marks, unknown_names
from tickets.templates.template import (
    BODY_NAMES,
    FOLDER,
    Template,
    Values,
    agent_of,
    is_template,
    problem_at,
    read_template,
    read_templates,
    wrong_values,
)
from tickets.ticket import AssignedPlan, Ticket, plan_lines, plan_named
from tickets.wording import some_of

__all__ = [
    "FOLDER",
    "Template",
    "Values",
    "is_template",
    "phase_of",
    "read_template",
    "read_templates",
    "render_body",
    "render_phase",
    "render_read",
    "render_tickets",
]

MAX_FAN_OUT = 1000  # tickets of one template; a matrix of three long lists is a mistake

_BODY_ONLY = {
    "worker": "it is known in the body only",
    "outputs": "they are known in the body only",
}
_WORKER = re.compile(r"([a-z]+)-([1-9][0-9]*)")


def render_phase(files: Mapping[str, bytes], values: Values) -> tuple[list[Ticket], list[Problem]]:
    """Read all templates and render those of the phase. Returns tickets only where no template has a fault.

    A template of another phase that cannot be read is a problem too: its phase cannot be known.
    """
    return render_read(*read_templates(files), values)


def render_read(
    templates: Sequence[Template], faults: Sequence[Problem], values: Values
) -> tuple[list[Ticket], list[Problem]]:
    """Render the templates of the phase among all that were read; `faults` are those of the others."""
    problems = list(faults)
    phases: dict[str, str] = {}
    for template in templates:
        try:
            phases[template.path] = phase_of(template, values)
        except TicketError as error:
            problems += error.problems
    chosen = [template for template in templates if phases.get(template.path) == values.phase]
    if not (chosen or problems):
        known = sorted(set(phases.values()))
        do = f"write one, or name another phase; phases here: {', '.join(known)}"
        if alike := [path for path, phase in phases.items() if _bare(phase) == _bare(values.phase)]:
            do = f"write `phase: {values.phase}` in {some_of(alike)}, where it is `{phases[alike[0]]}`"
        problems.append(Problem(f"{FOLDER}/", f"no template is of `{values.phase}`", do))
    tickets: list[Ticket] = []
    try:
        tickets = render_tickets(chosen, values, is_whole=not problems)
    except TicketError as error:
        problems += error.problems
    return ([] if problems else tickets), list(dict.fromkeys(problems))


def _bare(phase: str) -> str:
    """Return what two spellings of one phase have in common: `5`, `Phase 5` and `phase-05`."""
    words = re.sub(r"[\W_]+", "-", phase.casefold()).strip("-")
    return re.sub(r"(?<!\d)0+(?=\d)", "", words.removeprefix("phase").strip("-"))


def phase_of(template: Template, values: Values) -> str:
    """Return the phase that a template belongs to. Raises TicketError."""
    node = template.fields.values.get("phase")
    if not isinstance(node, Scalar) or node.is_null:
        return values.phase
    draft = _Draft(template, {}, values)
    phase = draft.one("phase")
    if draft.problems:
        raise TicketError(*draft.problems)
    return str(phase)


def render_tickets(templates: Sequence[Template], values: Values, *, is_whole: bool = True) -> list[Ticket]:
    """Render the templates of one phase, in the natural order of their names.

    Raises TicketError with every problem of every template. Bodies are rendered too, with stand-ins
    for outputs, so that no undefined variable is found after workers have started. `is_whole` is False
    where other templates could not be read: whose outputs a body may use is then not known.
    """
    ordered = sorted(templates, key=lambda template: (_natural(template.stem), template.path))
    problems: list[Problem] = list(_twins(ordered))
    drafts: list[_Draft] = []
    for template in ordered:
        drafts += _drafts_of(template, values, problems)
    for draft in drafts:
        draft.fill()
        problems += draft.problems
    problems += _phase_workers(drafts)
    is_whole = is_whole and not problems
    # The bodies of valid tickets are read nevertheless: a second try should not find further faults.
    drafts = [draft for draft in drafts if not draft.problems]
    fan_outs: dict[str, list[str]] = {}
    for draft in drafts:
        fan_outs.setdefault(draft.template.stem, []).append(draft.id)
    workers = _name_workers(drafts)
    tickets = [draft.ticket(worker, fan_outs) for draft, worker in zip(drafts, workers, strict=True)]
    for ticket in tickets:
        problems += _body_problems(ticket, values, is_whole=is_whole)
    if problems:
        # Nobody proves the scopes of these: what is wrong with a pattern alone is reported now.
        problems += (one for template in ordered for one in wrong_values(template.path, template.fields))
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


def _body_problems(ticket: Ticket, values: Values, *, is_whole: bool) -> list[Problem]:
    """List the faults of a body, without those that only missing outputs may cause."""
    uses_outputs = "outputs" in ticket.body
    if uses_outputs and not is_whole:
        return []
    stand_ins = {id_: f"(the output of {id_})" for id_ in ticket.depends_on}
    found = _fill_body(ticket, values, stand_ins)[1]
    return [problem for problem, is_certain in found if is_certain or not uses_outputs]


def _fill_body(
    ticket: Ticket, values: Values, outputs: Mapping[str, str]
) -> tuple[str, list[tuple[Problem, bool]]]:
    """Render a body; each problem comes with whether it holds for any outputs."""
    if not has_marks(ticket.body):
        return ticket.body, _empty(ticket, ticket.body)
    seen = {id_: outputs[id_] for id_ in ticket.depends_on if id_ in outputs}
    families: dict[str, list[str]] = {}
    for id_ in seen:
        families.setdefault(stem_of(id_), []).append(id_)
    for stem, ids in families.items():
        # `depends_on: codex-3` means all of a fan-out, so outputs["codex-3"] is all of theirs.
        seen.setdefault(stem, FanOutOutput.of((id_, seen[id_]) for id_ in ids))
    names = {
        **values._asdict(),
        "plans": _Plans(ticket.named_plans if values.plans is None else values.plans),
        "phase": ticket.phase,
        "deliverable": ticket.deliverable or "",
        "worker": ticket.worker,
        "matrix": Choices("matrix", ticket.matrix, otherwise="add it to `matrix`"),
        "outputs": Choices("outputs", seen, otherwise="add it to `depends_on`"),
        "ticket": Choices("ticket", _shown(ticket)),
    }
    filled = fill(ticket.body, names, is_prompt=True)
    line = ticket.lines.get("body", 1)
    found = [
        (Problem(f"{ticket.template}:{line + fault.line - 1}", fault.what, fault.do), fault.certain)
        for fault in filled.faults
    ]
    return filled.text, found or _empty(ticket, filled.text)


class _Plans(tuple[AssignedPlan, ...]):
    """Plans to go through in a prompt, or to insert as a list."""

    __slots__ = ()

    def __str__(self) -> str:
        return plan_lines(self)


def _shown(ticket: Ticket) -> dict[str, Any]:
    """Return the values of its own ticket that a prompt may use."""
    keys = {
        name: value for name, value in ticket._asdict().items() if name not in ("body", "digest", "lines")
    }
    return {name: list(value) if isinstance(value, tuple) else value for name, value in keys.items()}


def _empty(ticket: Ticket, text: str) -> list[tuple[Problem, bool]]:
    """Return the problem of a prompt that renders to nothing; a command needs no prompt."""
    if text.strip() or (ticket.agent == "command" and not ticket.fallback):
        return []
    line = ticket.lines.get("body", 1)
    return [(Problem(f"{ticket.template}:{line}", "the prompt renders to nothing", "write it"), False)]


def _twins(templates: Sequence[Template]) -> Iterator[Problem]:
    first: dict[str, Template] = {}
    for template in templates:
        other = first.setdefault(template.stem, template)
        if other is not template:
            yield Problem(template.path, f"has the same id as {other.path}", "rename one of them")


def _phase_workers(drafts: Sequence["_Draft"]) -> Iterator[Problem]:
    """Yield a problem for each phase worker after the first: a phase has one."""
    found = [draft for draft in drafts if draft.fields.get("phase_worker")]
    for draft in found[1:]:
        if draft.template is not found[0].template:
            what = f"the phase has a phase worker already: {found[0].template.path}"
            line = draft.template.fields.values["phase_worker"].line
            yield Problem(f"{draft.template.path}:{line}", what, "keep one of them")


def _natural(stem: str) -> list[Any]:
    """Return a sort key that puts `codex-2` before `codex-10`."""
    return [int(part) if at % 2 else part for at, part in enumerate(re.split(r"([0-9]{1,18})", stem))]


class _Draft:
    """An unfinished ticket: the strings of its template, rendered for one combination of the matrix."""

    def __init__(self, template: Template, matrix: dict[str, str], values: Values) -> None:
        self.template = template
        self.matrix = matrix
        self.values = values
        pairs = ",".join(f"{name}={value}" for name, value in matrix.items())
        self.id = f"{template.stem}[{pairs}]" if matrix else template.stem
        self.problems: list[Problem] = []
        self.fields: dict[str, Any] = {}
        """What each key says, by its name; None, or a None among its items, where it could not be read."""

    def fill(self) -> None:
        """Read every key, then check what no key can decide alone."""
        for name, node in self.template.fields.values.items():
            if isinstance(node, Scalar) and node.is_null:
                continue
            if KEYS[name].shape == "one":
                self.fields[name] = self.one(name)
            elif KEYS[name].shape == "many":
                self.fields[name] = self.many(name)
            elif KEYS[name].shape == "variables" and isinstance(node, Fields):
                pairs = node.values.items()
                self.fields[name] = {
                    key: self.read(name, one) for key, one in pairs if isinstance(one, Scalar)
                }
        self._check_together()
        for fault in unknown_names(self.template.body, BODY_NAMES):
            self.problems.append(problem_at(self.template, self.template.body_line, fault, "the body"))

    def one(self, name: str) -> Any:
        """Render and read a key that has one value; None where that fails."""
        node = self.template.fields.values[name]
        return self.read(name, node) if isinstance(node, Scalar) else None

    def many(self, name: str) -> tuple[Any, ...]:
        """Render and read a key that has a list; None for each item where that fails."""
        node = self.template.fields.values[name]
        items = node.values if isinstance(node, Items) else ()
        read = [self.read(name, item) for item in items if isinstance(item, Scalar)]
        # An argument may stand twice in a command; anywhere else a repetition says nothing.
        return tuple(read if name == "command" else dict.fromkeys(read))

    def ticket(self, worker: str, fan_outs: Mapping[str, list[str]]) -> Ticket:
        """Make the ticket, once the other tickets of the run are known."""
        named = self.fields.get("depends_on", ())
        written = [id_ for name in named for id_ in fan_outs.get(name, [name])]
        written_keys = self.template.fields.values.items()
        lines = {name: node.line for name, node in written_keys if getattr(node, "is_null", False) is False}
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
            "digest": self._digest(),
            "lines": {**lines, "body": self.template.body_line},
        }
        return Ticket(**known).shared()

    def _digest(self) -> str:
        """Return the digest of the work: what each run changes, as the text of STATUS.md, does not count."""
        template, phase = self.template, self.fields.get("phase") or self.values.phase
        named = self.fields.get("deliverable") or self.values.deliverable
        deliverable = named if template.uses_deliverable else ""
        return sha256(repr((template.digest, self.id, phase, deliverable)).encode()).hexdigest()[:16]

    def read(self, name: str, node: Scalar) -> Any:
        """Render and read one string of a key; None, and a problem noted, where that fails."""
        names = {
            **self.values._asdict(),
            "plans": _Plans(self.values.plans or ()),
            "matrix": Choices("matrix", self.matrix, otherwise="add it to `matrix`"),
            "ticket": Choices("ticket", {"id": self.id, "template": self.template.path}),
        }
        filled = fill(node.text, names, elsewhere=_BODY_ONLY)
        self.problems += [problem_at(self.template, node.line, fault, f"`{name}`") for fault in filled.faults]
        if filled.faults:
            return None
        try:
            return KEYS[name].read(filled.text)
        except WrongValueError as error:
            self.problems.append(Problem(self._place(node.line), f"`{name}`: {error.what}", error.do))
            return None

    def _check_together(self) -> None:
        """Check what no key can decide alone. An unreadable key is not reported twice."""
        fields = self.fields
        if "agent" not in fields:
            fields["agent"] = agent_of(self.template.stem)
            if fields["agent"] is None:
                what = f"names no agent, and `{self.template.stem}` does not begin with one"
                self._note("agent", what, "add `agent: codex` (or " + ", ".join(AGENTS[1:]) + ")")
        agent, command = fields["agent"], fields.get("command")
        if fields.get("mode") == "write" and not fields.get("owns"):
            self._note("mode", "writes but owns nothing", 'add `owns: ["src/…/**"]`')
        if agent == "command" and not command:
            self._note("agent", "an agent `command` needs a command", 'add `command: ["make", "docs"]`')
        if agent is not None and agent != "command" and command:
            self._note("command", f"`{agent}` takes no command", "take it out, or write `agent: command`")
        if command and command[0] == "":
            self._note("command", "the program's name is empty", "write the program first")
        self._check_phase_worker()
        for other in fields.get("fallback", ()):
            if other == "command" or (other is not None and other == agent):
                self._note("fallback", f"`{other}` cannot replace `{agent}`", "name another agent")

    def _check_phase_worker(self) -> None:
        fields = self.fields
        if fields.get("phase_worker") and self.matrix:
            what = "a phase has one phase worker, and `matrix` makes more"
            self._note("matrix", what, "take one of the two out")
        if fields.get("plans") and fields.get("phase_worker", False) is False:
            self._note("plans", "only a phase worker has plans", "add `phase_worker: true`")
        seen: set[str] = set()
        for plan in filter(None, fields.get("plans", ())):
            id_ = (plan_named(plan) or ("", ""))[0]
            if id_ in seen:
                self._note("plans", f"there are two plans `{id_}`", "give one of them another id")
            seen.add(id_)

    def _title(self) -> str:
        """Return a title that is unique among the tickets of a fan-out."""
        title = _title_of(self.template.body)
        return f"{title} {self.id[len(self.template.stem) :]}".strip() if title else self.id

    def _note(self, key: str, what: str, do: str) -> None:
        node = self.template.fields.values.get(key)
        self.problems.append(Problem(self._place(node.line if node else 1), what, do))

    def _place(self, line: int) -> str:
        return f"{self.template.path}:{line}"


def _drafts_of(template: Template, values: Values, problems: list[Problem]) -> Iterator[_Draft]:
    """Make one draft for each combination of the matrix, and note the faults of the matrix."""
    node = template.fields.values.get("matrix")
    if not isinstance(node, Fields):
        yield _Draft(template, {}, values)
        return
    whole = _Draft(template, {}, values)
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
            yield _Draft(template, dict(zip(lists, combination, strict=True)), values)


def _wrong_values(key: str, values: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the faults of values that would give two tickets one id, or an id that cannot be parsed."""
    seen: set[str] = set()
    for value in values:
        # Two spellings of one accented letter look the same to a reader of the tickets' names.
        looks = unicodedata.normalize("NFC", value)
        if looks in seen:
            yield f"`{key}` holds `{value}` twice", "write each value once"
        seen.add(looks)
        if bad := [char for char in "[]," if char in value]:
            what = f"`{key}`: `{value}` cannot be part of a ticket's id"
            yield what, f"write it without `{'` and `'.join(bad)}`"


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


def _title_of(body: str) -> str | None:
    """Return the first plain line of a prompt."""
    for line in body.splitlines():
        text = " ".join(line.strip().strip("#*").split())
        if text and "{" not in text and not text.startswith(("-", "`", "<", ">", "|")):
            return text if len(text) <= 80 else text[:79] + "…"
    return None
