"""Tickets that own the same path, said once for all that two templates made and not once a pair."""

from collections.abc import Iterator, Mapping, Sequence

from tickets.problems import Problem
from tickets.scopes.scope import Overlap
from tickets.templates.fan_out import idle_keys, stem_of
from tickets.ticket import Ticket


def collisions(pairs: Sequence[Overlap], tickets: Mapping[str, Ticket]) -> Iterator[Problem]:
    """Say which tickets own the same path, the first pair as the example. `pairs` are earlier, later."""
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


def waits(pairs: Sequence[Overlap], tickets: Mapping[str, Ticket]) -> Iterator[Problem]:
    """Say which tickets run one after the other since they own the same path."""
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
    pairs = f"{more} more pair{'s' * (more > 1)}"
    return f", as do {pairs} of `{stem_of(second.id)}` and `{stem_of(first.id)}`" if more else ""
