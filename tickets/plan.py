"""The plan of a phase: the order in which its tickets run, and the proof that no two of them share a file."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Literal

from tickets.problems import Problem
from tickets.scopes.rules import NESTED_GIT, PathRules
from tickets.scopes.scope import Overlap, PatternError, Scope, collector_at_rest, find_overlaps
from tickets.templates.fan_out import stem_of
from tickets.templates.jinja import nearest
from tickets.ticket import Ticket
from tickets.value import Value
from tickets.wording import count_of

OnOverlap = Literal["refuse", "serialize"]


class Plan(Value):
    """What would run. It may run only if `problems` is empty."""

    tickets: tuple[Ticket, ...]
    """Each ticket after those that it depends on; otherwise in the order in which they were passed."""
    scopes: Mapping[str, Scope]
    """By ticket; reserved paths are excluded."""
    dependencies: Mapping[str, tuple[str, ...]]
    """By ticket, the tickets that it directly waits for, with those that `serialize` added."""
    overlaps: tuple[Overlap, ...]
    """Unordered pairs that share a path; `serialize` has since put them in an order."""
    notes: tuple[Problem, ...]
    problems: tuple[Problem, ...]


def make_plan(
    tickets: Sequence[Ticket],
    rules: PathRules,
    *,
    on_overlap: OnOverlap = "refuse",
    done: Mapping[str, Sequence[str]] = {},
    others: Collection[str] = (),
) -> Plan:
    """Plan tickets and list every problem. Never raises for the content of a ticket.

    `done` are others of the phase, with those that they depended on: nobody waits for them, and who depends
    on one still comes after what that depended on. `others` are the names of all templates, for messages.
    """
    problems: list[Problem] = []
    notes: list[Problem] = []
    scopes: dict[str, Scope] = {}
    # Any folder may hold a repository, so `**/.git/` would be noted of every ticket.
    noted = Scope(
        tuple(one for one in rules.reserved_scope.owns if one.text != NESTED_GIT), (), rules.ignore_case
    )
    with collector_at_rest():
        for ticket in tickets:
            scope, wrong, told = _proved(ticket, rules, noted)
            problems += wrong
            notes += told
            if scope is not None:
                scopes[ticket.id] = scope
    order = _Order(tickets, done, others)
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
        problems += _collisions(pairs, by_id)
    else:
        notes += _waits([each for each in pairs if order.added(each.first, each.second)], by_id)
    dependencies = {id_: tuple(before) for id_, before in order.before.items()}
    planned = (by_id[id_] for id_ in order.sorted())
    return Plan(
        tuple(
            ticket._replace(
                depends_on=(*(id_ for id_ in ticket.depends_on if id_ in done), *dependencies[ticket.id])
            )
            for ticket in planned
        ),
        scopes,
        dependencies,
        tuple(overlaps),
        tuple(notes),
        tuple(problems),
    )


def idle_keys(fan_out: Sequence[Ticket]) -> list[str]:
    """List the keys of a matrix that make no difference to what its tickets own."""
    keys: Mapping[str, str] = fan_out[0].matrix if fan_out else {}
    found = []
    for key in keys:
        if len({ticket.matrix.get(key) for ticket in fan_out}) < 2:
            continue
        owned: dict[tuple[tuple[str, str], ...], set[tuple[tuple[str, ...], ...]]] = {}
        for ticket in fan_out:
            rest = tuple(pair for pair in ticket.matrix.items() if pair[0] != key)
            owned.setdefault(rest, set()).add((ticket.owns, ticket.excludes))
        if all(len(each) == 1 for each in owned.values()):
            found.append(key)
    return found


class _Order:
    """Which ticket waits for which. Sets of tickets are the bits of an integer: every pair is tested."""

    def __init__(
        self, tickets: Sequence[Ticket], done: Mapping[str, Sequence[str]], others: Collection[str]
    ) -> None:
        self.problems: list[Problem] = []
        self.number = {ticket.id: at for at, ticket in enumerate(tickets)}
        self.before: dict[str, list[str]] = {ticket.id: [] for ticket in tickets}
        known = {*self.number, *map(stem_of, self.number)}
        for ticket in tickets:
            for id_ in _through(ticket.depends_on, done):
                if id_ in self.number:
                    self.before[ticket.id].append(id_)
                elif id_ in ticket.depends_on:
                    what, do = f"there is no ticket `{id_}` here", "name a ticket of this phase"
                    if stem_of(id_) in others:
                        what = f"`{id_}` is a ticket of another phase, and nobody waits for one of those"
                    else:
                        do = nearest(id_, known - {ticket.id, stem_of(ticket.id)}) or do
                    self.problems.append(Problem(ticket.place("depends_on"), what, do))
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
        """Whether one of two tickets waits for the other, directly or through others."""
        one, two = self.number[first], self.number[second]
        return bool(self.above[one] >> two & 1 or self.above[two] >> one & 1)

    def added(self, first: str, second: str) -> bool:
        """Let the second wait for the first if the two are in no order yet, so that no cycle can arise."""
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
        """Order tickets after those they wait for, otherwise as they came; those of a cycle come last."""
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
        """Yield cycles until every ticket in one has been named, or waits for a ticket that has."""
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


def _through(named: Sequence[str], done: Mapping[str, Sequence[str]]) -> list[str]:
    """Replace tickets that are done by those that they depended on."""
    found, left = dict[str, None](), list(reversed(named))
    while left:
        id_ = left.pop()
        if id_ in found:
            continue
        found[id_] = None
        left += reversed(done.get(id_, ()))
    return [id_ for id_ in found if id_ not in done]


def _proved(
    ticket: Ticket, rules: PathRules, noted: Scope
) -> tuple[Scope | None, list[Problem], list[Problem]]:
    """Check one ticket's patterns: its scope, problems and notes. No scope if a pattern is bad."""
    ignore_case = rules.ignore_case
    problems: list[Problem] = []
    notes: list[Problem] = []
    try:
        scope, excludes = rules.scope_of(ticket), rules.read(ticket.excludes).owns
        rules.read(ticket.reads)
    except PatternError:
        return None, _bad_patterns(ticket, rules), []
    try:
        for pattern in scope.owns:
            if Scope((pattern,), (), ignore_case).within(rules.reserved_scope):
                reached = _reached(Scope((pattern,), (), ignore_case), noted) or [NESTED_GIT]
                what = f"`{pattern.text}` lies in what no ticket owns ({_listed(reached)})"
                problems.append(Problem(ticket.place("owns"), what, "take it out of `owns`"))
            elif reached := _reached(Scope((pattern,), excludes, ignore_case), noted):
                what = f"`{pattern.text}` reaches what no ticket owns ({_listed(reached)})"
                notes.append(Problem(ticket.place("owns"), what, "it is excluded, nothing to do", "info"))
        if not problems and ticket.mode == "write" and scope.is_empty():
            what = (
                "writes but owns nothing" if not ticket.owns else "owns nothing: its excludes take all of it"
            )
            problems.append(Problem(ticket.place("owns"), what, "own what the ticket is to change"))
    except PatternError as error:
        return None, [_placed(ticket, "owns", problem) for problem in error.problems], notes
    return scope, problems, notes


def _bad_patterns(ticket: Ticket, rules: PathRules) -> list[Problem]:
    """List every unreadable pattern of a ticket, at the key that holds it."""
    problems: list[Problem] = []
    for key, patterns in (("owns", ticket.owns), ("excludes", ticket.excludes), ("reads", ticket.reads)):
        try:
            rules.read(patterns)
        except PatternError as error:
            problems += [_placed(ticket, key, problem) for problem in error.problems]
    return problems


def _placed(ticket: Ticket, key: str, problem: Problem) -> Problem:
    """Move a problem from its pattern to the line of the template that holds the pattern."""
    return problem._replace(place=ticket.place(key), what=f"`{key}`: `{problem.place}`: {problem.what}")


def _reached(scope: Scope, noted: Scope) -> list[str]:
    """List the reserved patterns, without those of nested repositories, that share a path with a scope."""
    if scope.overlaps(noted) is None:
        return []
    each = (pattern for pattern in noted.owns if scope.overlaps(Scope((pattern,), (), noted.ignore_case)))
    return list(dict.fromkeys(pattern.text for pattern in each))


def _listed(patterns: Sequence[str]) -> str:
    return ", ".join(f"`{pattern}`" for pattern in patterns)


def _collisions(pairs: Sequence[Overlap], tickets: Mapping[str, Ticket]) -> Iterator[Problem]:
    """Describe which tickets own the same path: one problem for all pairs of two templates."""
    for group in _by_template(pairs, tickets):
        first, second, witness = tickets[group[0].first], tickets[group[0].second], group[0].witness
        if first.template == second.template:
            fan_out = _made_by(first.template, tickets)
            what = f"`{second.id}` and `{first.id}` both own `{witness}`"
            if len(group) > 1:
                count = len({id_ for pair in group for id_ in pair[:2]})
                what = f"{count} of {len(fan_out)} tickets of `{stem_of(first.id)}` collide: {what}"
            do = f"{_way_out(fan_out)}, or `--on-overlap serialize`"
        else:
            what = f"`{second.id}` and `{first.id}` ({first.place('owns')}) both own `{witness}`"
            what += _more(group, first, second)
            do = "narrow one, let one `depends_on` the other, or use `--on-overlap serialize`"
        yield Problem(second.place("owns"), what, do, witness=witness)


def _waits(pairs: Sequence[Overlap], tickets: Mapping[str, Ticket]) -> Iterator[Problem]:
    """Describe which tickets run one after another because they own the same path."""
    for group in _by_template(pairs, tickets):
        first, second, witness = tickets[group[0].first], tickets[group[0].second], group[0].witness
        what = f"`{second.id}` waits for `{first.id}` ({first.place('owns')}): both own `{witness}`"
        do = "narrow one to run them together"
        if first.template == second.template:
            fan_out = _made_by(first.template, tickets)
            do = f"{_way_out(fan_out)} to run them together"
            if len(group) > 1:
                count = len({pair.second for pair in group})
                what = (
                    f"{count} of {len(fan_out)} tickets of `{stem_of(first.id)}` wait for another of them, "
                    f"as `{second.id}` for `{first.id}`: both own `{witness}`"
                )
        else:
            what += _more(group, first, second)
        yield Problem(second.place("owns"), what, do, "info", witness)


def _by_template(pairs: Sequence[Overlap], tickets: Mapping[str, Ticket]) -> list[list[Overlap]]:
    groups: dict[tuple[str, str], list[Overlap]] = {}
    for pair in pairs:
        key = (tickets[pair.first].template, tickets[pair.second].template)
        groups.setdefault(key, []).append(pair)
    return list(groups.values())


def _made_by(template: str, tickets: Mapping[str, Ticket]) -> list[Ticket]:
    return [ticket for ticket in tickets.values() if ticket.template == template]


def _way_out(fan_out: Sequence[Ticket]) -> str:
    keys = [f"`{{{{ matrix.{key} }}}}`" for key in idle_keys(fan_out)]
    return f"use {' and '.join(keys)} in `owns`" if keys else "narrow its `owns`"


def _more(group: Sequence[Overlap], first: Ticket, second: Ticket) -> str:
    more = len(group) - 1
    pairs = count_of(more, "more pair")
    return f", as do {pairs} of `{stem_of(second.id)}` and `{stem_of(first.id)}`" if more else ""
