"""Recovery after a stop: complete decided changes, and record what has landed of missing runs."""

from collections.abc import Callable

from orchestrator.errors import StateError
from orchestrator.report.situation import Situation
from tickets.problems import Problem, ProblemError, TicketError
from tickets.value import Value


class Recovered(Value):
    """The situation after the recovery."""

    situation: Situation
    repaired: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def completed(found: Situation) -> Recovered:
    """Complete changes that a killed command had decided."""
    if not found.interrupted:
        return Recovered(found)
    from orchestrator.store.store import Store  # noqa: PLC0415 - for start-up time: hardly ever needed

    store = Store(found.repository)
    repaired, problems = tuple(store.pending()), tuple(store.finish())
    return Recovered(Situation(found.repository, found.at), repaired, problems)


def _with_checkpoints(done: Recovered) -> Recovered:
    """Write the checkpoints of workers whose runtime is gone."""
    found = done.situation
    cut = [run for run in found.unfinished if run.status() == "interrupted"]
    if done.problems or not cut:
        return done
    from orchestrator.report.cut_off import note_cut_off  # noqa: PLC0415 - only after a crash

    try:
        noted = note_cut_off(found.repository, cut, found.families)
    except ProblemError as error:
        told = tuple(problem._replace(severity="warning") for problem in error.problems)
        return done._replace(problems=told)
    except OSError as error:
        why = (error.strerror or "the reason is not known").lower()
        what, do = f"cannot be written: {why}", "free space, or make the folder writable"
        return done._replace(problems=(Problem("docs/progress", what, do, "warning"),))
    if not noted:
        return done
    return Recovered(Situation(found.repository, found.at), (*done.repaired, *noted))


def recover(found: Situation, lead: Callable[[], str], *, commit: bool) -> Recovered:
    """Complete changes that a killed command had decided, and record what landed of missing runs."""
    done = _with_checkpoints(completed(found))
    found, repaired, problems = done
    if problems or not found.gone:
        return done
    from orchestrator.runs.roster import landed_meanwhile  # noqa: PLC0415 - only for a run that is gone
    from orchestrator.store.store import Store  # noqa: PLC0415 - as above

    # If it were lost before its record, it would be done a second time.
    try:
        events = landed_meanwhile(found.repository, found.gone, found.at, lead())
        if not events:
            return Recovered(found, repaired)
        runs = ", ".join(dict.fromkeys(event.run for event in events))
        trailers = "\n".join(f"Orchestrate-State: {event.run}" for event in events)
        message = f"Record what had landed of run {runs}\n\n{trailers}\n"
        written = Store(found.repository).record(
            events, families=found.families, message=message, commit=commit, is_run=True
        )
    except (StateError, TicketError) as error:
        told = tuple(problem._replace(severity="warning") for problem in error.problems)
        return Recovered(found, repaired, told)
    recorded = (
        f"run {event.run} had landed as {(event.landing or '')[:10]} and is gone; recorded for "
        + ", ".join(worker.worker for worker in event.workers)
        for event in events
    )
    return Recovered(Situation(found.repository, found.at), (*repaired, *recorded), written.problems)
