"""Harm that the gate's commands did: whom it keeps from landing, until the lead says a word.

All of it stands in the run's journal, so that the next command knows it, whoever calls it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from orchestrator.execute.runtime import Deployment
from orchestrator.tamper.guard import Tampering, told
from tickets.problems import Problem
from workers.files.journal import read_journal

HARM = "harm"
"""Who has settled a verdict that waits for the lead because of it."""
BEGUN, SEEN = "gate_begun", "gate_seen"
"""Events: an unfenced gate begins, which may kill its runtime; what it did has been looked for."""
SHOWN = 3
"""Paths that a line names before it counts the rest."""
Excused = Mapping[str, frozenset[str]]


def excused(d: Deployment) -> Excused:
    """Give what the lead has accepted workers in spite of: worker to paths.

    To be asked before the gate runs: what it writes into the journal excuses nobody.
    """
    return _read(d)[1]


def accepted_harm(d: Deployment) -> dict[str, str]:
    """Describe by worker what changed while the gate ran, where the lead has accepted the worker."""
    return {
        name: f"while the gate ran, {_shown(paths)} changed" for name, paths in excused(d).items() if paths
    }


def _shown(paths: Collection[str]) -> str:
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return f"{', '.join(sorted(paths)[:SHOWN])}{more}"


def is_unseen(d: Deployment) -> bool:
    """Tell whether a runtime went while its gate ran, and so nobody has looked for what that did."""
    steps = [one["event"] for one in _journal(d) if one.get("event") in (BEGUN, SEEN)]
    return steps[-1:] == [BEGUN]


def note_harm(d: Deployment, found: Iterable[Tampering], known: Excused) -> str:
    """Note what the gate did to the user's repository; say why all has to wait, where there is harm in it."""
    found = tuple(found)
    fresh = [
        path
        for one in found
        if one.is_harm
        for path in one.paths
        if not all(path in known.get(worker, ()) for worker in one.candidates)
    ]
    why = f"the gate ran what they wrote, and meanwhile {', '.join(fresh[:SHOWN])} changed" if fresh else ""
    for one in found:
        d.note("unattributed", **told(one), **({"holds": why} if why and one.is_harm else {}))
    d.note(SEEN)
    return why


def held_by_harm(d: Deployment) -> dict[str, str]:
    """Name the workers that may not land before the lead has said a word, and say why."""
    waiting = [
        name
        for name, facts in d.state.workers.items()
        if facts["verdict"] not in ("rejected", None) and name not in d.state.landings
    ]
    held = _read(d)[0] if waiting else {}
    return {name: held[name][-1]["holds"] for name in waiting if name in held}


def harm_problems(d: Deployment) -> list[Problem]:
    """Say what was done, as often as somebody asks, and which words of the lead end it."""
    names = [
        name
        for name, facts in d.state.workers.items()
        if (facts["verdict"], facts.get("settled_by")) == ("pending", HARM)
    ]
    if not names:
        return []
    held = _read(d)[0]
    done = [_found(record).as_problem() for name in names for record in held.get(name, ())]
    whys = dict.fromkeys(d.state.workers[name]["reason"] for name in names)
    do = f"look at what they wrote, then: orchestrate integrate {d.run.id} --accept {' '.join(names)}"
    return [*done, *(Problem("gate", why, f"{do} (or --reject)") for why in whys)]


def _read(d: Deployment) -> tuple[dict[str, list[dict[str, Any]]], dict[str, frozenset[str]]]:
    """Give what holds up each worker, oldest first, and what each was accepted in spite of."""
    held: dict[str, list[dict[str, Any]]] = {}
    despite: dict[str, frozenset[str]] = {}
    for record in _journal(d):
        match record:
            case {"event": "unattributed", "holds": str(), "paths": [*_], "candidates": [*names]}:
                for name in names:
                    held.setdefault(str(name), []).append(record)
            case {"event": "settled", "by": "lead", "worker": str(name), "verdict": verdict}:
                paths = (path for one in held.pop(name, ()) for path in one["paths"])
                if verdict != "rejected":
                    despite[name] = despite.get(name, frozenset()).union(paths)
    return held, despite


def _journal(d: Deployment) -> Sequence[dict[str, Any]]:
    return read_journal(d.run.path / "events.jsonl")


def _found(record: Mapping[str, Any]) -> Tampering:
    paths, candidates = tuple(record["paths"]), tuple(record["candidates"])
    return Tampering(paths, candidates, is_harm=True, during=record.get("during", ""))
