"""Fan-outs by name: which tickets one template made, said in one word where there are many."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from tickets.ticket import Ticket


def stem_of(ticket_id: str) -> str:
    """Give the name of the template that a ticket was made from, which is that of all its fan-out."""
    return ticket_id.partition("[")[0]


def members(name: str, ids: Iterable[str]) -> list[str]:
    """List the tickets that a name means: the one of that id, or all of a fan-out."""
    return [id_ for id_ in ids if name in (id_, stem_of(id_))]


def named(some: Collection[str], among: Iterable[str]) -> dict[str, list[str]]:
    """Give the fewest names that mean these tickets, each with its ids: a whole fan-out has one name."""
    sizes: dict[str, int] = {}
    for id_ in among:
        sizes[stem_of(id_)] = sizes.get(stem_of(id_), 0) + 1
    here: dict[str, list[str]] = {}
    for id_ in some:
        here.setdefault(stem_of(id_), []).append(id_)
    found: dict[str, list[str]] = {}
    for stem, ids in here.items():
        found |= {stem: ids} if len(ids) == sizes.get(stem) else {id_: [id_] for id_ in ids}
    return found


def gathered(some: Collection[str], among: Iterable[str]) -> list[str]:
    """Say which tickets in few words: a fan-out of which all are there is `codex-3 (40 tickets)`."""
    return [
        f"{name} ({len(ids)} tickets)" if len(ids) > 1 else ids[0] for name, ids in named(some, among).items()
    ]


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
