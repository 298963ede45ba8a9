"""The landing commits of runs: the trailers that prove, in any clone, whose work a commit holds."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tickets.ticket import Ticket
from tickets.types import AgentName
from workers.git.run import git

LOOKED_BACK = 5_000
"""How many commits are read from the newest one on to learn which tickets have landed."""
_SUBJECT = re.compile(r"Land run \S+ \((?P<phase>.*)\)$")
_REVERTS = re.compile(r"\bThis reverts commit ([0-9a-f]{40,64})\b")
_LINE = re.compile(r"Orchestrate-(?P<key>\w+): (?P<value>.*)")


class LandedTicket(NamedTuple):
    """One worker's work in a landing commit; an earlier version named the worker alone."""

    worker: str
    ticket: str = ""
    digest: str = ""
    """That of `tickets.ticket.Ticket`."""


class LandingCommit(NamedTuple):
    """A commit of a run's accepted work."""

    commit: str
    run: str
    phase: str
    tickets: tuple[LandedTicket, ...]

    @property
    def workers(self) -> tuple[str, ...]:
        """Return the workers whose work it holds."""
        return tuple(one.worker for one in self.tickets)


def trailers(run: str, phase: str, tickets: Iterable[tuple[Ticket, AgentName]]) -> list[str]:
    """Return the last lines of a landing commit's message; each ticket comes with the agent that did it."""
    return [
        f"Orchestrate-Run: {run}",
        f"Orchestrate-Phase: {phase}",
        *(
            line
            for ticket, agent in tickets
            for line in (
                f"Orchestrate-Worker: {ticket.worker}",
                f"Orchestrate-Ticket: {ticket.id} {ticket.digest}",
                f"Orchestrate-Agent: {agent}",
            )
        ),
    ]


def read_landing(commit: str, message: str) -> LandingCommit | None:
    """Read the message of a commit; None where it is no landing of ours."""
    found = [
        (line["key"], line["value"].strip()) for line in map(_LINE.fullmatch, message.splitlines()) if line
    ]
    run = next((value for key, value in found if key == "Run"), "")
    if not run:
        return None
    subject = _SUBJECT.match(message.partition("\n")[0])
    phase = next((value for key, value in found if key == "Phase"), subject["phase"] if subject else "")
    tickets: list[LandedTicket] = []
    for key, value in found:
        if key == "Workers":
            tickets += [LandedTicket(name) for name in value.split(", ") if name]
        elif key == "Worker":
            tickets.append(LandedTicket(value))
        elif key == "Ticket" and tickets:
            ticket, _, digest = value.rpartition(" ")
            tickets[-1] = tickets[-1]._replace(ticket=ticket, digest=digest)
    return LandingCommit(commit, run, phase, tuple(tickets))


def landings_of(root: Path, run: str) -> list[LandingCommit]:
    """Return the landing commits of one run in the history of HEAD, newest first."""
    return _landings(messages_of(root, f"--grep=^Orchestrate-Run: {run}$"))


def standing_landings(root: Path, tip: str = "HEAD") -> list[LandingCommit]:
    """Return the landing commits in the recent history of a tip that were not reverted, newest first."""
    undone: set[str] = set()
    standing = []
    for commit, message in messages_of(root, f"--max-count={LOOKED_BACK}", tip=tip):
        # Newest first: a revert that was itself reverted counts no more.
        if commit not in undone:
            undone.update(_REVERTS.findall(message))
            standing.append((commit, message))
    return _landings(standing)


def landed_tickets(root: Path, tip: str = "HEAD") -> dict[str, tuple[LandingCommit, str]]:
    """Return the tickets that these hold: digest to the newest commit, and the worker that did it."""
    found: dict[str, tuple[LandingCommit, str]] = {}
    for landing in standing_landings(root, tip):
        for one in landing.tickets:
            found.setdefault(one.digest, (landing, one.worker))
    found.pop("", None)  # of an earlier version
    return found


def messages_of(root: Path, *chosen: str, tip: str = "HEAD") -> Iterator[tuple[str, str]]:
    """Yield the chosen commits of a tip's history with their messages, newest first."""
    # Whatever the user's own log shows.
    plain = ("--no-show-signature", "--no-decorate", "--basic-regexp", "--format=%x00%H%n%B")
    said = git("log", *plain, *chosen, tip, cwd=root, check=False).decode("utf-8", "replace")
    for entry in said.split("\0")[1:]:
        commit, _, message = entry.partition("\n")
        yield commit, message


def _landings(messages: Iterable[tuple[str, str]]) -> list[LandingCommit]:
    found = (read_landing(commit, message) for commit, message in messages)
    return [landing for landing in found if landing is not None]
