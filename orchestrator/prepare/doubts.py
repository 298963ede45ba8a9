"""Names in templates and settings that read well and mean nothing here: probably slips of the pen.

None of them stops a run: a file, a folder or a program may come into being before its worker starts.
"""

import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from orchestrator.settings.settings import Settings
from orchestrator.settings.toml_text import FILE
from orchestrator.state.canonical.status.read import Status, phase_matches, spelled
from tickets.problems import Problem
from tickets.scopes.scope import Scope
from tickets.templates.jinja import nearest
from tickets.ticket import Ticket
from workers.fence.places import ENVIRONMENTS
from workers.git.run import Repository

_WILD = re.compile(r"[*?\[{]")
_ALIKE = 0.8
"""How alike two names of folders are of which one is probably the other, misspelled."""


def doubts(
    root: Path,
    tickets: Sequence[Ticket],
    plan: Status | None,
    settings: Settings,
    environ: Mapping[str, str],
) -> list[Problem]:
    """List the doubtful names of some tickets, each with its place, as warnings."""
    found = [*_settings(root, settings), *_unlinked(root, tickets, settings)]
    for ticket in tickets:
        is_made = bool(ticket.setup or settings.worktree.setup or ticket.depends_on)
        found += _deliverable(ticket, plan)
        found += _folders(root, ticket)
        found += _unused(ticket)
        if not is_made:
            found += _start(root, ticket, environ)
    return list(dict.fromkeys(found))


def unlinked_environments(settings: Settings, root: Path) -> dict[str, Problem]:
    """Warn of the environments in the checkout, by name, that the trees of workers do not get."""
    brought = Scope.of((*settings.worktree.copy, *settings.worktree.link))
    found = {}
    for name in () if settings.worktree.setup else ENVIRONMENTS:
        if (root / name).is_dir() and not (brought.covers(name) or brought.covers(f"{name}/x")):
            what = f"your checkout has `{name}`, and the trees of workers and checks have none"
            do = f'`[worktree] link = ["{name}"]` in {FILE} gives them yours'
            found[name] = Problem("environment", what, do, "warning")
    return found


def unwritable(repository: Repository) -> list[Problem]:
    """Name the folders that a run writes to and that this user, or this mount, does not let it write to."""
    # Those in git's own are looked at with git.
    folders = [repository.root, *(repository.root / name for name in (".taskers", ".taskers/runs"))]
    do = "make it writable, or work in a clone that is"
    return [
        Problem(str(folder), "cannot be written to, and a run keeps its files there", do)
        for folder in folders
        if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK)
    ]


def _warning(ticket: Ticket, key: str, what: str, do: str) -> Problem:
    return Problem(ticket.place(key), f"`{key}`: {what}", do, "warning")


def _settings(root: Path, settings: Settings) -> Iterator[Problem]:
    cwd = settings.checks.cwd
    if cwd and not (root / cwd).is_dir() and not settings.worktree.setup:
        what = f"`[checks] cwd`: there is no folder `{cwd}`, and each check fails without it"
        yield Problem(FILE, what, "correct it, or make the folder", "warning")


def _deliverable(ticket: Ticket, plan: Status | None) -> Iterator[Problem]:
    """Doubt a deliverable that the ticket's phase does not have: its end completes nothing."""
    title = phase_matches(plan, ticket.phase) if plan else None
    known = plan.phases if plan and title else ()
    phase = next((one for one in known if title in (spelled(one.number, one.name), one.title)), None)
    if phase is None or not phase.deliverables or "deliverable" not in ticket.lines:
        return
    names = [one.name for one in phase.deliverables]
    if ticket.deliverable and ticket.deliverable not in names:
        do = (
            nearest(ticket.deliverable, names) or "`orchestrate deliverable add` adds it to the current phase"
        )
        yield _warning(ticket, "deliverable", f"{phase.title} has none called `{ticket.deliverable}`", do)


def _folders(root: Path, ticket: Ticket) -> Iterator[Problem]:
    """Doubt a pattern below a folder that is not there, where another one has nearly that name."""
    for pattern in ticket.owns if ticket.mode == "write" else ():
        parts = pattern.strip("/").split("/")
        for at, name in enumerate(parts[:-1]):
            folder = root / "/".join(parts[:at])
            if _WILD.search(name) or not folder.is_dir():
                break
            if (folder / name).is_dir():
                continue
            if near := _misspelled(name, [one.name for one in os.scandir(folder) if one.is_dir()]):
                meant = "/".join([*parts[:at], near, *parts[at + 1 :]])
                what = f"`{pattern}` is below a folder that is not there"
                yield _warning(ticket, "owns", what, f"did you mean `{meant}`?")
            break


def _misspelled(name: str, known: Collection[str]) -> str:
    """Return the name that was probably meant; empty where another number makes the difference."""
    from difflib import get_close_matches  # noqa: PLC0415 - for start-up time: few folders are missing

    near = get_close_matches(name, known, n=1, cutoff=_ALIKE)
    is_next = near and re.sub(r"\d", "", near[0]) == re.sub(r"\d", "", name)
    return near[0] if near and not is_next else ""


def _unused(ticket: Ticket) -> Iterator[Problem]:
    """Doubt what has no effect for a command."""
    if ticket.agent != "command" or ticket.fallback:
        return
    for key, value in (("budget_usd", ticket.budget_usd), ("budget_tokens", ticket.budget_tokens)):
        if value is not None:
            yield _warning(
                ticket, key, "what a command costs is not known, so it limits nothing", "take it out"
            )
    if ticket.model is not None:
        yield _warning(ticket, "model", "a command has no model", "take it out")


def _start(root: Path, ticket: Ticket, environ: Mapping[str, str]) -> Iterator[Problem]:
    """Doubt a folder or a program without which the worker cannot start."""
    if ticket.cwd and not (root / ticket.cwd).is_dir():
        what = f"there is no folder `{ticket.cwd}`, and the worker cannot start without it"
        yield _warning(ticket, "cwd", what, "correct it, or make the folder")
        return
    program = ticket.command[0] if ticket.agent == "command" and ticket.command else ""
    if not program or "PATH" in ticket.env:
        return
    if "/" in program and not os.path.lexists(root / ticket.cwd / program):
        yield _warning(ticket, "command", f"there is no program `{program}`", "correct it, or add the file")
    elif "/" not in program and shutil.which(program, path=environ.get("PATH")) is None:
        do = "correct it, or install it where PATH leads"
        yield _warning(ticket, "command", f"there is no program `{program}` on PATH", do)


def _unlinked(root: Path, tickets: Sequence[Ticket], settings: Settings) -> Iterator[Problem]:
    """Doubt a command that names an environment of the checkout, which no tree has."""
    own = [*settings.integration.gate, *(text for one in tickets for text in (*one.acceptance, *one.setup))]
    own += [" ".join(one.command) for one in tickets if one.command]
    for name, problem in unlinked_environments(settings, root).items():
        used = re.compile(rf"(?<![\w./-]){re.escape(name)}/")
        if any(used.search(text) for text in own):
            yield problem
