"""Names of fan-outs: all tickets of one template are named together by the template's name."""

from collections.abc import Collection, Iterable, Mapping, Sequence

NAMED_EACH = 3
"""Workers of a fan-out that a command names one by one; more of them go by the name of the fan-out."""


def stem_of(ticket_id: str) -> str:
    """Return the name of the template that a ticket was made from, which names its fan-out."""
    return ticket_id.partition("[")[0]


def members(name: str, ids: Iterable[str]) -> list[str]:
    """Return the tickets that a name means: the one with that id, or all of a fan-out."""
    return [id_ for id_ in ids if name in (id_, stem_of(id_))]


def named(some: Collection[str], among: Iterable[str]) -> dict[str, list[str]]:
    """Return the fewest names that mean these tickets, each with its ids: a whole fan-out has one name."""
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
    """Return tickets in a short form: a complete fan-out is `codex-3 (40 tickets)`."""
    return [
        f"{name} ({len(ids)} tickets)" if len(ids) > 1 else ids[0] for name, ids in named(some, among).items()
    ]


def short_names(workers: Sequence[str], pending: Mapping[str, str], known: Collection[str]) -> dict[str, int]:
    """Return the fewest names that mean exactly these workers, each with how many it means.

    `pending` has, by worker, the ticket of each that the name of a fan-out could mean; `known` are the names
    of all workers, which come before those of fan-outs.
    """
    meant = frozenset(workers)
    fan_outs: dict[str, list[str]] = {}
    for worker, ticket in pending.items():
        if ticket != stem_of(ticket):
            fan_outs.setdefault(stem_of(ticket), []).append(worker)
    found: dict[str, int] = {}
    for worker in workers:
        stem = stem_of(pending.get(worker, ""))
        together = fan_outs.get(stem, [])
        if len(together) > NAMED_EACH and meant.issuperset(together) and _is_one_word(stem, known):
            found[stem] = len(together)
        else:
            found[worker] = 1
    return found


def _is_one_word(stem: str, known: Collection[str]) -> bool:
    """Return whether a fan-out's name needs no quotes in a shell, and means nothing else."""
    return stem not in known and stem.replace("-", "").replace("_", "").replace(".", "").isalnum()
