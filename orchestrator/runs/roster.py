"""The roster of STATUS.md compared with the existing runs: what became of workers whose run is gone.

A run is gone if `.taskers/` has it no more: its workers have landed, are started again, or are
lost. The lines of a run that is there are committed with it, so they count as no change of the file's own.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from orchestrator.runs.landings import LandingCommit, landings_of
from orchestrator.state.canonical.status.read import PATH, ActiveWorker, Status, active_workers, read
from orchestrator.state.document import opened
from orchestrator.state.events import Completion, RosterEntry, RunClosed, RunIntegrated
from orchestrator.store.read import bytes_of, read_state
from tickets.markdown import field, header, plain
from tickets.problems import ProblemError, TicketError
from workers.files.run_dir import runs_of
from workers.git.run import Repository, git
from workers.pool.slots import holders


class LostWorker(NamedTuple):
    """One worker of a run that left nothing behind."""

    worker: str
    title: str
    scope: str
    run: str
    lives: bool
    """Its process still holds a slot: it must not be started a second time."""
    phase: str
    ticket: str
    """The ticket that reruns it; empty where no template makes one."""


def lost_workers(
    repository: Repository, gone: Iterable[ActiveWorker], status: Status, texts: Mapping[str, bytes | None]
) -> tuple[LostWorker, ...]:
    """Return workers on the roster whose runs are gone, with the tickets that rerun them."""
    living = {
        (taken.holder.get("run"), taken.holder.get("worker"))
        for taken in holders(repository.own / "slots")
        if not taken.dirty
    }
    tickets = _tickets(repository.root, status, texts)
    found = []
    for one in gone:
        exact = [(phase, ticket) for phase, ticket, worker, title in tickets
                 if (worker, title) == (one.worker, one.title)]  # fmt: skip
        alike = exact or [(phase, ticket) for phase, ticket, _, title in tickets if title == one.title]
        phase, ticket = alike[0] if len(alike) == 1 else ("", "")
        lives = (one.run, one.worker) in living
        found.append(LostWorker(one.worker, one.title, one.scope, one.run, lives, phase, ticket))
    return tuple(found)


def landed_meanwhile(
    repository: Repository, gone: Sequence[ActiveWorker], at: datetime, lead: str
) -> tuple[RunIntegrated, ...]:
    """Return what the history tells of missing runs: landed work is done, and is recorded.

    Otherwise a run that was lost between its landing and its record would be done twice.
    """
    events = []
    for run in dict.fromkeys(one.run for one in gone):
        done: list[Completion] = []
        landings = landings_of(repository.root, run)
        for landing in reversed(landings):
            mine = [one for one in gone if one.run == run and one.worker in landing.workers]
            files = _files_of(repository.root, landing.commit) if mine else ()
            done += [_completion(one, landing, files) for one in mine]
        if done:
            newest = landings[0]
            events.append(RunIntegrated(run, newest.phase, at, lead, tuple(done), newest.commit))
    return tuple(events)


def superseded(
    repository: Repository, roster: Iterable[RosterEntry], at: datetime, lead: str
) -> tuple[RunClosed, ...]:
    """Return the end of each missing run whose workers are all started again."""
    text = read_state(repository.root, "STATUS.md")
    there = {run.id for run in runs_of(repository.root)}
    active = read(text).active if text else ()
    gone = [one for one in active if one.run and one.run not in there]
    again = {entry.title for entry in roster}
    runs = dict.fromkeys(one.run for one in gone)
    # Cancelled and not interrupted: nothing of it waits any more.
    return tuple(
        RunClosed(run, at, lead, "cancelled")
        for run in runs
        if all(one.title in again for one in gone if one.run == run)
    )


def shown_runs(repository: Repository, text: bytes) -> tuple[str, ...] | None:
    """Return the runs whose workers are the only change of STATUS.md since its commit; None for more changes.

    Changes for a missing run count as more: no run is left to commit them.
    """
    known = {run.id for run in runs_of(repository.root)}
    committed = git("cat-file", "blob", f"HEAD:{PATH}", cwd=repository.root, check=False)
    try:
        (before, _), (now, shown) = _without_roster(committed, known), _without_roster(text, known)
    except ProblemError:
        return None
    return shown if before == now else None


def _files_of(root: Path, commit: str) -> tuple[str, ...]:
    changed = git("show", "--format=", "--name-only", "-z", "--no-renames", commit, cwd=root)
    return tuple(os.fsdecode(path) for path in changed.split(b"\0") if path.strip())


def _completion(one: ActiveWorker, landing: LandingCommit, changed: Sequence[str]) -> Completion:
    reason = f"landed as {landing.commit[:10]}; what the run left is gone"
    files = tuple(changed) if len(landing.workers) == 1 else _inside(one.scope, changed)
    return Completion(one.worker, one.title, "complete", "accepted", reason, files)


def _inside(scope: str, files: Iterable[str]) -> tuple[str, ...]:
    from tickets.scopes.scope import Scope  # noqa: PLC0415 - only for a run that landed and was lost

    try:
        owned = Scope.of(tuple(scope.split(", ")))
    except TicketError:
        return ()
    return tuple(path for path in files if owned.covers(path))


def _tickets(
    root: Path, status: Status, texts: Mapping[str, bytes | None]
) -> list[tuple[str, str, str, str]]:
    """Render all templates: (phase, ticket, worker, title); a broken phase has none."""
    # For start-up time: only after a loss of `.taskers/` are the templates needed.
    from tickets.templates.render import FOLDER, Values, is_template, phase_of, read_templates, render_tickets  # noqa: PLC0415

    files = {f"{FOLDER}/{name}": text for name, text in _texts(root / FOLDER, is_template)}
    said = [(texts.get(path) or b"").decode("utf-8", "replace") for path in ("STATUS.md", "DECISIONS.md")]
    found = []
    try:
        templates, problems = read_templates(files)
        if problems:
            return []
        start = Values(root.name, status.phase_slug, status.deliverable.name, said[0], said[1])
        phases = {template.path: phase_of(template, start) for template in templates}
    except TicketError:
        return []
    for phase in sorted(set(phases.values())):
        chosen = [template for template in templates if phases[template.path] == phase]
        try:
            tickets = render_tickets(chosen, start._replace(phase=phase))
        except TicketError:
            continue
        found += [(phase, ticket.id, ticket.worker, plain(ticket.title)) for ticket in tickets]
    return found


def _texts(folder: Path, is_one: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Read the readable templates by name: `plan` reports the faults of the others."""
    names = sorted(entry.name for entry in os.scandir(folder)) if folder.is_dir() else []
    for name in filter(is_one, names):
        with suppress(OSError):
            yield name, bytes_of(folder / name)


def _without_roster(text: bytes, known: Collection[str]) -> tuple[list[bytes], tuple[str, ...]]:
    """Return the lines with content, without the date and the roster of known runs; and those runs."""
    document = opened(PATH, text)
    roster = [one for one in active_workers(document) if one.run in known]
    stamp = field(document, header(document), "Last Updated")
    left_out = {one.item.line for one in roster} | ({stamp.line} if stamp else set())
    lines = [document.data[line.start : line.end].rstrip() for line in document.lines]
    kept = [line for number, line in enumerate(lines, start=1) if line and number not in left_out]
    return kept, tuple(dict.fromkeys(one.run for one in roster))
