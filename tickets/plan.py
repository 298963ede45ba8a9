"""A phase's tickets to a plan: the order they run in, and the proof that none touches another's files."""

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import heapify, heappop, heappush
from typing import Literal, NamedTuple

from tickets.collisions import collisions, waits
from tickets.problems import Problem
from tickets.scopes.collector import collector_at_rest
from tickets.scopes.pattern import NO_LINKS, Links
from tickets.scopes.scope import Overlap, Pattern, PatternError, Scope, find_overlaps, parse_pattern
from tickets.scopes.segment import ANY_DEPTH
from tickets.templates.fan_out import stem_of
from tickets.templates.jinja import nearest
from tickets.ticket import Ticket

OnOverlap = Literal["refuse", "serialize"]

NESTED_GIT = (
    "**/.git/"  # every directory could hold one: excluded without a note, which would be on all tickets
)

# `.gitignore` and `.gitattributes` are not here: they are the project's own content, and may be owned.
RESERVED: Mapping[str, tuple[str, ...]] = {
    "always": (
        ".git/",
        "**/.git/",
        ".gitmodules",
        ".taskers/",
        "orchestrate.toml",
        "docs/worker-ticket-templates/",
    ),
    "canonical": (
        "STATUS.md",
        "DECISIONS.md",
        "AGENTS.md",
        "docs/history/",
        "docs/decisions/",
        "docs/backlog.md",
    ),
    "checkpoints": ("docs/progress/",),
    "phases": ("STATE.md", "phases/"),
    "ai_memory": ("ai_memory/",),
    "chief_of_staff": ("design/memory/",),
    "nested": (NESTED_GIT,),
}
"""What no ticket may own, by the family that it belongs to; a family that is off reserves nothing."""


class Plan(NamedTuple):
    """What would run. It may run only if `problems` is empty."""

    tickets: tuple[Ticket, ...]
    """Each after those that it depends on; otherwise in the order they came in."""
    scopes: Mapping[str, Scope]
    """By ticket; what is reserved is excluded."""
    dependencies: Mapping[str, tuple[str, ...]]
    """By ticket, those that it directly waits for, the ones that `serialize` added among them."""
    overlaps: tuple[Overlap, ...]
    """Pairs in no order that share a path; `serialize` has put them in an order since."""
    notes: tuple[Problem, ...]
    problems: tuple[Problem, ...]


def reserved_paths(families: Collection[str]) -> tuple[str, ...]:
    """List what no ticket may own while these families are on."""
    on = {"always", "nested", "canonical", "checkpoints", *families}
    return tuple(path for family, paths in RESERVED.items() if family in on for path in paths)


def plain_paths(tickets: Sequence[Ticket], links: Links = NO_LINKS) -> set[str]:
    """Give the paths that tickets name without wildcards, however spelled: those that may be single files."""
    found: set[str] = set()
    for text in {text for ticket in tickets for text in (*ticket.owns, *ticket.excludes)}:
        with suppress(PatternError):
            for route in parse_pattern(text, links=links).routes:
                names = route[:-1] if route[-1] is ANY_DEPTH else route
                if all(isinstance(name, str) for name in names):
                    found.add("/".join(map(str, names)))
    return found


def make_plan(
    tickets: Sequence[Ticket],
    *,
    reserved: Sequence[str],
    links: Links = NO_LINKS,
    ignore_case: bool = False,
    files: Container[str] = frozenset(),
    on_overlap: OnOverlap = "refuse",
) -> Plan:
    """Plan tickets, every problem listed. Never raises for what tickets say.

    `links`, `ignore_case` and `files` are facts about the repository, as `Scope.of` takes them.
    """
    problems: list[Problem] = []
    notes: list[Problem] = []
    fence = reserved_scope(reserved, links, ignore_case=ignore_case)
    # Any folder may hold a repository, so a look at these would find something for every ticket.
    named = Scope(tuple(one for one in fence.owns if one.text != NESTED_GIT), (), ignore_case)
    scopes: dict[str, Scope] = {}
    with collector_at_rest():
        for ticket in tickets:
            scope, wrong, told = _scope_of(ticket, fence, named, links, files)
            problems += wrong
            notes += told
            if scope is not None:
                scopes[ticket.id] = scope
    order = _Order(tickets)
    problems += order.problems
    overlaps: list[Overlap] = []
    try:
        overlaps = find_overlaps(scopes, order.holds)
    except PatternError as error:
        problems += error.problems
    by_id = {ticket.id: ticket for ticket in tickets}
    # The nearest before the farthest: a chain then needs one dependency a ticket, not one a pair.
    pairs = sorted(overlaps, key=lambda each: (order.number[each.second], -order.number[each.first]))
    if on_overlap == "refuse":
        problems += collisions(pairs, by_id)
    else:
        notes += waits([each for each in pairs if order.added(each.first, each.second)], by_id)
    dependencies = {id_: tuple(before) for id_, before in order.before.items()}
    planned = (by_id[id_] for id_ in order.sorted())
    return Plan(
        tuple(ticket.model_copy(update={"depends_on": dependencies[ticket.id]}) for ticket in planned),
        scopes,
        dependencies,
        tuple(overlaps),
        tuple(notes),
        tuple(problems),
    )


class _Order:
    """Which ticket waits for which; sets of tickets are bits of an integer, since every pair is asked for."""

    def __init__(self, tickets: Sequence[Ticket]) -> None:
        self.problems: list[Problem] = []
        self.number = {ticket.id: at for at, ticket in enumerate(tickets)}
        self.before: dict[str, list[str]] = {ticket.id: [] for ticket in tickets}
        known = {*self.number, *map(stem_of, self.number)}
        for ticket in tickets:
            for id_ in ticket.depends_on:
                if id_ in self.number:
                    self.before[ticket.id].append(id_)
                else:
                    do = nearest(id_, known) or "name a ticket of this phase"
                    self.problems.append(
                        Problem(ticket.place("depends_on"), f"there is no ticket `{id_}` here", do)
                    )
        self.above = [0] * len(tickets)
        ordered = self.sorted()
        places = {ticket.id: ticket.place("depends_on") for ticket in tickets}
        for cycle in self._cycles():
            text = " -> ".join([*cycle, cycle[0]])
            what = f"tickets wait for each other: {text}"
            self.problems.append(Problem(places[cycle[0]], what, "take one of these out of `depends_on`"))
        for id_ in ordered:
            for other in self.before[id_]:
                self.above[self.number[id_]] |= self.above[self.number[other]] | 1 << self.number[other]

    def holds(self, first: str, second: str) -> bool:
        """Whether one of two tickets waits for the other, if only by way of a third."""
        one, two = self.number[first], self.number[second]
        return bool(self.above[one] >> two & 1 or self.above[two] >> one & 1)

    def added(self, first: str, second: str) -> bool:
        """Let the second wait for the first if the two are in no order yet: so no cycle can come of it."""
        if self.holds(first, second):
            return False
        self.before[second].append(first)
        one, two = self.number[first], self.number[second]
        gained = self.above[one] | 1 << one
        for at, above in enumerate(self.above):
            if at == two or above >> two & 1:
                self.above[at] |= gained
        return True

    def sorted(self) -> list[str]:
        """Order tickets behind what they wait for, otherwise as they came; those of a cycle come last."""
        waiting = {id_: len(before) for id_, before in self.before.items()}
        after: dict[str, list[str]] = {id_: [] for id_ in self.before}
        for id_, before in self.before.items():
            for other in before:
                after[other].append(id_)
        ids = list(self.number)
        ready = [self.number[id_] for id_, count in waiting.items() if not count]
        heapify(ready)
        ordered: list[str] = []
        while ready:
            id_ = ids[heappop(ready)]
            ordered.append(id_)
            for other in after[id_]:
                waiting[other] -= 1
                if not waiting[other]:
                    heappush(ready, self.number[other])
        return ordered + [id_ for id_ in ids if waiting[id_]]

    def _cycles(self) -> Iterator[list[str]]:
        """Give cycles until each ticket that is in one has been named, or waits for one that has."""
        done: set[str] = set()
        for start in self.before:
            path: list[str] = []
            at: dict[str, int] = {}
            stack = [iter([start])]
            while stack:
                id_ = next(stack[-1], None)
                if id_ is None:
                    stack.pop()
                    if path and len(stack) == len(path):
                        done.add(path[-1])
                        del at[path.pop()]
                elif id_ in at:
                    yield path[at[id_] :]
                elif id_ not in done:
                    at[id_] = len(path)
                    path.append(id_)
                    stack.append(iter(self.before[id_]))


def reserved_scope(reserved: Sequence[str], links: Links, *, ignore_case: bool) -> Scope:
    """Reserve a state file that is a symlink twice: the link, and the file that it leads to."""
    named = Scope.of(reserved, ignore_case=ignore_case)
    real = Scope.of(reserved, ignore_case=ignore_case, links=links) if links else named
    return Scope(tuple(dict.fromkeys([*named.owns, *real.owns])), (), ignore_case)


def _scope_of(
    ticket: Ticket, fence: Scope, named: Scope, links: Links, files: Container[str]
) -> tuple[Scope | None, list[Problem], list[Problem]]:
    """Prove one ticket's patterns: its scope, problems and notes. No scope where a pattern is bad."""
    ignore_case = fence.ignore_case
    problems: list[Problem] = []
    notes: list[Problem] = []
    read: dict[str, tuple[Pattern, ...]] = {}
    for key, patterns in (("owns", ticket.owns), ("excludes", ticket.excludes), ("reads", ticket.reads)):
        try:
            read[key] = Scope.of(patterns, ignore_case=ignore_case, links=links, files=files).owns
        except PatternError as error:
            problems += [_placed(ticket, key, problem) for problem in error.problems]
    if problems:
        return None, problems, []
    try:
        for pattern in read["owns"]:
            if Scope((pattern,), (), ignore_case).within(fence):
                reached = _reached(Scope((pattern,), (), ignore_case), named) or [NESTED_GIT]
                what = f"`{pattern.text}` lies in what no ticket owns ({_listed(reached)})"
                problems.append(Problem(ticket.place("owns"), what, "take it out of `owns`"))
            elif reached := _reached(Scope((pattern,), read["excludes"], ignore_case), named):
                what = f"`{pattern.text}` reaches what no ticket owns ({_listed(reached)})"
                notes.append(Problem(ticket.place("owns"), what, "it is excluded, nothing to do", "info"))
        scope = Scope(read["owns"], (*read["excludes"], *fence.owns), ignore_case)
        if not problems and ticket.mode == "write" and scope.is_empty():
            what = (
                "writes but owns nothing" if not ticket.owns else "owns nothing: its excludes take all of it"
            )
            problems.append(Problem(ticket.place("owns"), what, "own what the ticket is to change"))
    except PatternError as error:
        return None, [_placed(ticket, "owns", problem) for problem in error.problems], notes
    return scope, problems, notes


def _placed(ticket: Ticket, key: str, problem: Problem) -> Problem:
    """Move a problem from its pattern to the template that holds the pattern."""
    return problem._replace(place=ticket.place(key), what=f"`{key}`: `{problem.place}`: {problem.what}")


def _reached(scope: Scope, named: Scope) -> list[str]:
    """List the reserved patterns, nested repositories aside, that a scope shares a path with."""
    if scope.overlaps(named) is None:
        return []
    each = (pattern for pattern in named.owns if scope.overlaps(Scope((pattern,), (), named.ignore_case)))
    return list(dict.fromkeys(pattern.text for pattern in each))


def _listed(patterns: Sequence[str]) -> str:
    return ", ".join(f"`{pattern}`" for pattern in patterns)
