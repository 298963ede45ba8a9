"""Whom a worker means: names of receivers and ends of ids, or what comes nearest to them."""

import re
from collections.abc import Iterable

from workers.messages.own_log import NotSentError
from workers.messages.record import (
    ALL,
    COORDINATOR,
    LEAD,
    everyone,
    is_participant,
    is_worker,
    participant,
    split,
)
from workers.messages.roster import Roster, read_roster, runs_with_roster

_LISTED = 12


def receiver_of(to: str, sender: str, folder: str, logged: Iterable[str]) -> str:
    """Return the receiver that a sender means; `logged` are the participants that have a log.

    Raises NotSentError, with the nearest names, where nobody is called so.
    """
    run = split(sender)[0]
    if to == ALL:
        return everyone(sender)
    own = _members(run, read_roster(folder, run), logged)
    found = participant(run, to) if to in own else _elsewhere(to, folder, logged) or _phase_worker(to, folder)
    if found is None:
        raise NotSentError(_unknown(to, (*own, ALL), folder, logged))
    if found == sender:
        raise NotSentError("this message is to yourself; name somebody else")
    return found


def id_of(end: str, ids: Iterable[str]) -> str:
    """Return the id that has an end. Raises NotSentError where none or several have it."""
    known = list(ids)
    if end in known:
        return end
    found = [id_ for id_ in known if re.search(rf"[.:-]{re.escape(end)}\Z", id_)]
    if len(found) == 1:
        return found[0]
    near = ", ".join((found or known)[-3:]) or "none"
    if found:
        raise NotSentError(f"{len(found)} messages end in `{end}`; write more of the id: {near}")
    raise NotSentError(f"you have sent or received no message `{end}`; the last are: {near}")


def _members(run: str, roster: Roster | None, logged: Iterable[str]) -> list[str]:
    """Return the names of those who take part in a run."""
    names = [LEAD, COORDINATOR, *(roster.workers if roster else ())]
    others = (split(one) for one in logged)
    return list(dict.fromkeys([*names, *(name for its_run, name in others if its_run == run)]))


def _elsewhere(to: str, folder: str, logged: Iterable[str]) -> str | None:
    """Return a participant that is named with its run."""
    if not is_participant(to):
        return None
    run, name = split(to)
    roster = read_roster(folder, run)
    is_known = to in set(logged) or (roster is not None and (name in roster.workers or not is_worker(to)))
    return to if is_known else None


def _phase_worker(phase: str, folder: str) -> str | None:
    """Return the phase worker of a phase, in the newest run that has one."""
    for run in runs_with_roster(folder):
        roster = read_roster(folder, run)
        if roster is not None and roster.phase == phase and roster.phase_worker:
            return participant(run, roster.phase_worker)
    return None


def _unknown(to: str, own: Iterable[str], folder: str, logged: Iterable[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only for a slip in a name

    names = list(own)
    wider = (
        [*names, *logged] if "." in to else [*names, *_phases(folder)] if to.startswith("phase") else names
    )
    lower = {name.lower(): name for name in wider}
    near = [lower[name] for name in get_close_matches(to.lower(), lower, 3, 0.5)]
    known = ", ".join(near or names[:_LISTED])
    return f"nobody is called `{to:.80}`; {'the nearest are' if near else 'there are'} {known}"


def _phases(folder: str) -> list[str]:
    rosters = (read_roster(folder, run) for run in runs_with_roster(folder))
    return list(dict.fromkeys(one.phase for one in rosters if one and one.phase_worker))
