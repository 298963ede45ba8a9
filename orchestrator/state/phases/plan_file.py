"""phases/PHASE/PLAN.md: the plans of a phase, in the order of work. It holds no state."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from orchestrator.errors import StateError
from orchestrator.state.canonical.status.read import PATH as STATUS
from orchestrator.state.document import editable, inert, needed, opened, present, section_like, state_errors
from orchestrator.state.events import Event, NewPlan, PhaseTaken, PlanAdded
from orchestrator.state.facts import Facts
from orchestrator.state.phases.paths import name_of, plan_path, planned
from tickets.markdown import (
    Document,
    MarkdownError,
    Part,
    field,
    front_problems,
    insert,
    items,
    labelled,
    parse,
    plain,
    sections,
)
from tickets.problems import Problem
from tickets.ticket import plan_id_fault, plan_named
from tickets.value import Value

OWNS: tuple[str, ...] = ("phases/*/PLAN.md",)

PLANS = "Plans"
_SPAN = re.compile(r"(?P<marks>`+)(?P<code>[^`](?:.*[^`])?)(?P=marks)$")
_FORM = "write it as `ID: TITLE`"
_Planned = PhaseTaken | PlanAdded


class PhasePlan(Value):
    """One plan of a phase."""

    id: str
    title: str
    verify: str | None
    """The command that shows that it is complete; None: there is none."""
    tasks: tuple[str, ...]
    line: int


# Each event of a phase asks for it, and it hardly ever changes.
@lru_cache(maxsize=8)
def read(path: str, text: bytes) -> tuple[PhasePlan, ...]:
    """Read the file; it may have no plan yet. Raises StateError where one of its plans cannot be told."""
    document = opened(path, text)
    found = [one for one in _problems(document) if one.severity == "error"]
    if found:
        raise StateError(*found)
    with state_errors():
        return tuple(_plan(document, part) for part in _plan_parts(document))


def needs(tree: Mapping[str, bytes | None], event: Event) -> tuple[str, ...]:
    """Return the PLAN.md that the event may begin or extend, and STATUS.md, which has the phase's title."""
    return (plan_path(name_of(tree, event.phase)), STATUS) if isinstance(event, _Planned) else ()


def changes(tree: Mapping[str, bytes | None], event: Event) -> dict[str, bytes]:
    """Return PLAN.md with the plans that the event adds; a template's plans only where there is no file.

    Raises StateError where the file cannot be read, or its plans have changed meanwhile.
    """
    if not isinstance(event, _Planned):
        return {}
    name = name_of(tree, event.phase)
    path = plan_path(name)
    if isinstance(event, PhaseTaken):
        is_new = tree.get(path) is None and event.plans
        return {path: _new_file(tree, name, event.plans)} if is_new else {}
    if tree.get(path) is None:
        return {path: _new_file(tree, name, (event.plan,))}
    plans = read(path, present(path, tree.get(path)))
    known = next((one for one in plans if one.id == event.plan.id), None)
    if known is not None and _heading_of(known) == _title_of(event.plan):
        return {}
    if known is not None:
        what = f"the file has changed meanwhile: there is a plan `{known.id}` already"
        raise StateError(Problem(f"{path}:{known.line}", what, "run the command again"))
    with state_errors():
        return {path: _with_plan(editable(path, tree), event.plan).data}


def problems(text: bytes) -> list[Problem]:
    """Return the problems of the file: no plan, a plan without an id, an id that is there twice."""
    try:
        document = opened("PLAN.md", text)
    except StateError as error:
        return list(error.problems)
    found = [*front_problems(document), *_problems(document)]
    return found or ([] if _plan_parts(document) else [no_plan(document.place)])


def no_plan(path: str) -> Problem:
    """Return the problem of a file that holds no plan."""
    return Problem(path, "there is no plan", "`orchestrate phase plan TITLE` adds one")


def complete(text: bytes, _: Facts) -> bytes:
    """Return the file as it is: its first plan begins it."""
    return text


def next_id(name: str, known: Collection[str]) -> str:
    """Return the id of a further plan: `02-03` in `phase-2`, where `02-02` is the last of the known ones."""
    number = re.fullmatch(r"phase-(\d+)((?:\.\d+)*)", name)
    prefix = f"{int(number[1]):02}{number[2]}-" if number else ""
    found = (re.fullmatch(rf"{re.escape(prefix)}(\d{{1,9}})", one) for one in known)
    last = max((int(one[1]) for one in found if one), default=0)
    return f"{prefix}{last + 1:02}"


def _plan_parts(document: Document) -> Sequence[Part]:
    part = section_like(document, PLANS)
    return sections(document, part) if part else ()


def _plan(document: Document, part: Part) -> PhasePlan:
    id_, title = plan_named(part.title) or ("", part.title)
    return PhasePlan(id_, title, _verify(document, part), _tasks(document, part), part.line)


def _verify(document: Document, part: Part) -> str | None:
    """Return the command of a plan. Raises MarkdownError where it is no command in a code span."""
    found = field(document, part, "Verify")
    if found is None or found.value.strip("`").strip().casefold() in ("", "none", "-"):
        return None
    span = _SPAN.match(found.value)
    if span is None or re.search(rf"(?<!`){span['marks']}(?!`)", span["code"]):
        what = f"`Verify` is no command: {found.value}"
        do = "write one command in a code span, or `none`"
        raise MarkdownError(Problem(f"{document.place}:{found.line}", what, do))
    code = span["code"]
    padded = code.startswith(" ") and code.endswith(" ") and bool(code.strip())
    return code[1:-1] if padded else code


def _tasks(document: Document, part: Part) -> tuple[str, ...]:
    below = labelled(document, part, "Tasks")
    return tuple(plain(item.text) for item in items(document, below) if item.depth == 0) if below else ()


def _problems(document: Document) -> list[Problem]:
    path = document.place
    if section_like(document, PLANS) is None:
        try:
            needed(document, PLANS)
        except StateError as error:
            return [one._replace(do="put the plans below `## Plans`") for one in error.problems]
    found: list[Problem] = []
    seen: dict[str, int] = {}
    for part in _plan_parts(document):
        place = f"{path}:{part.line}"
        named = plan_named(part.title)
        if named is None:
            found.append(Problem(place, f"`{part.title}` is no plan", _FORM))
            continue
        id_, title = named
        if fault := plan_id_fault(id_):
            found.append(Problem(place, f"`{id_}` {fault}", "give it another"))
        if id_ in seen:
            what = f"there is a plan `{id_}` already, on line {seen[id_]}"
            found.append(Problem(place, what, "give it another id"))
        seen.setdefault(id_, part.line)
        if "|" in title:
            what = f"the title of `{id_}` holds a `|`, which divides the cells of a table"
            found.append(Problem(place, what, "leave it out: STATUS.md has to escape it", "warning"))
        try:
            _plan(document, part)
        except MarkdownError as error:
            found += error.problems
    return found


def _new_file(tree: Mapping[str, bytes | None], name: str, plans: Iterable[NewPlan]) -> bytes:
    phase = planned(tree, name)
    written = "\n\n".join(_lines_of(plan, 3) for plan in plans)
    title = inert(phase.title) if phase else name
    return (
        f"# {title} - Plan\n\n**Phase:** {name}\n\n---\n\n## {PLANS}\n\n{written}\n\n---\n\n"
        "**Plan File End**\n"
    ).encode()


def _with_plan(document: Document, plan: NewPlan) -> Document:
    part = needed(document, PLANS)
    inside = sections(document, part)
    level = inside[-1].level if inside else part.level + 1
    return insert(document, part.content_end, f"\n{_lines_of(plan, level)}")


def _heading_of(plan: PhasePlan) -> str:
    return f"{plan.id}: {plan.title}"


def _title_of(plan: NewPlan) -> str:
    """Return the heading of a plan as it will be read: a heading's words are its text without markup."""
    return parse(f"# {plan.id}: {inert(plan.title)}\n".encode(), "").headings[0].title


def _lines_of(plan: NewPlan, level: int) -> str:
    lines = [f"{'#' * level} {plan.id}: {inert(plan.title)}", "", f"**Verify:** {_spanned(plan.verify)}"]
    if plan.tasks:
        lines += ["", "**Tasks:**", *(f"- {inert(task)}" for task in plan.tasks)]
    return "\n".join(lines)


def _spanned(command: str) -> str:
    """Return a command as a code span; `none` where there is none."""
    flat = command.strip().replace("\n", " ")
    if not flat:
        return "none"
    longest = max((len(run) for run in re.findall(r"`+", flat)), default=0)
    marks = "`" * (longest + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{marks}{pad}{flat}{pad}{marks}"
