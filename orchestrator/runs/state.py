"""What a run looks like from outside: its manifest and journal, folded. Light, since `status` reads it."""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.runs.pending import pending_of, settles
from orchestrator.runs.records import is_roster, is_sound
from orchestrator.runs.rerun import again_with_fallen, undone
from tickets.problems import Problem
from workers.files.journal import read_journal
from workers.files.locks import is_locked
from workers.files.run_dir import RunDir, read_json, runs_of

JOURNAL = "events.jsonl"
FINAL = ("accepted", "partial", "rejected", None)
WENT_WRONG = ("failed", "timed_out", "blocked", "needs_clarification", "rate_limited", "interrupted")
"""Outcomes that the lead reads up on before the ticket is run again."""
_AGAIN = re.compile(r"(/checks/[\w.-]+?)\.\d+(?=\.std(?:out|err)\b)")
_UNSTARTED: dict[str, Any] = {
    "worker": "",
    "ticket": "",
    "agent": "",
    "outcome": None,
    "reason": "",
    "verdict": None,
    "flags": [],
    "fence": None,
    "exit_code": None,
    "attempts": 0,
    "seconds": 0.0,
    "files": [],
    "violations": [],
    "usage": {
        "input_tokens": 0, "cached_tokens": 0, "output_tokens": 0, "cost_usd": None, "cost_by": "unpriced",
    },
    "output": None,
    "started": False,
    "ended": False,
}  # fmt: skip
"""What is known of a worker before it starts. Facts are replaced and never changed in place."""


class RunState:
    """A run as its journal tells it; the runtime keeps one in step with what it appends."""

    def __init__(self, run: RunDir, roster: Mapping[str, Any]) -> None:
        """Take the roster as `roster.json` has it."""
        self.run = run
        self.phase: str = roster["phase"]
        self.titles: dict[str, str] = {}
        self.waits_for: dict[str, list[str]] = {}
        """Worker to those workers, if any, that must have ended before it starts."""
        self.workers: dict[str, dict[str, Any]] = {}
        self.landings: dict[str, str] = {}
        """Worker to the commit that its work landed in."""
        self.landing: str | None = None
        self.state_commit: str | None = None
        self.gate = "none"
        self.gate_fenced = ""
        """What the fence keeps from it, where that may be why it failed."""
        self.recorded: dict[str, tuple[Any, ...]] = {}
        """What the state files were last told, by worker."""
        self.closed: str | None = None
        self.parked: dict[str, str] = {}
        """Agent to the time (UTC) until which its provider was last left alone."""
        self.unavailable = {one["worker"] for one in roster["workers"] if one["skipped"]}
        """Workers whose agent is off or missing: a warning, not a failure."""
        for one in roster["workers"]:
            worker = one["worker"]
            self.titles[worker] = one["title"]
            self.workers[worker] = _unstarted(one)
            if "waits_for" in one:
                self.waits_for[worker] = one["waits_for"]
        self._known = {"", *self.workers}

    def take(self, record: Mapping[str, Any]) -> None:
        """Fold in one record of the journal."""
        facts = self.workers.get(record.get("worker", ""), {})
        match record.get("event"):
            case "started":
                facts.update(started=True, attempts=record["attempt"], base=record["base"])
                facts.update(started_at=record["at"], retrying=False, fence=record.get("fence"))
                facts.update(kind=record.get("kind", "first"), agent=record.get("agent", facts["agent"]))
                facts.pop("held", None)
            case "ended":
                facts.update(record["facts"])
                # A word of the lead takes the place of the reason; why it was needed stays known.
                facts.update(ended=True, found=record["facts"].get("reason", ""))
            case "skipped":
                facts.update(outcome="skipped", reason=record["reason"], verdict=None, ended=True)
            case "retry" | "afresh" | "asked" | "lost" as event:
                again = facts.get("retries", 0) + (event == "retry")
                tried = [record["tried"]] if "tried" in record else []
                facts.update(retries=again, retrying=True, tries=[*facts.get("tries", ()), *tried])
                facts.update(begin=record.get("begin"))
            case "moved":
                facts.update(agent=record["agent"])
            case "parked":
                self.parked[record["agent"]] = record["until"]
            case "held":
                if not _is_same_wait(facts.get("held", ""), record["reason"]):
                    facts.update(held_news=(*facts.get("held_news", ()), record.get("at")))
                facts.update(held=record["reason"])
            case "settled":
                facts.update(verdict=record["verdict"], reason=record["reason"], settled_by=record["by"])
                if record["by"] == "lead":
                    facts["lead_said"] = (record["verdict"], record["reason"])
            case "gate":
                self.gate, self.gate_fenced = record["result"], record.get("fenced", "")
            case "landed":
                self.landing = record["commit"]
                self.landings.update(dict.fromkeys(record["workers"], record["commit"]))
            case "recorded":
                self.state_commit = record["commit"] or self.state_commit
                self.recorded = {name: _told(told) for name, told in record["told"].items()}
            case "closed":
                self.closed = record["status"]
            case "opened":
                self.closed = None
            case _:
                return

    def take_all(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Fold in what was read from a journal, and pass over what makes no sense."""
        for record in records:
            # Half of a record may stand there as a whole one, where a disk was full: what it said is lost.
            if is_sound(record) and record.get("worker", "") in self._known:
                self.take(record)

    @property
    def has_ended(self) -> bool:
        """Tell whether every worker has an outcome."""
        return all(facts["ended"] for facts in self.workers.values())

    def forgotten(self) -> list[str]:
        """Name the workers with an attempt that the journal does not know: its records are lost."""
        # Listed once: of ten thousand workers most have not begun, and each would be asked for.
        there = self.run.started_attempts()
        return [
            name
            for name, facts in self.workers.items()
            if there.get(name, 0) > (facts["attempts"] if facts["started"] else 0)
        ]

    @property
    def is_integrated(self) -> bool:
        """Tell whether every verdict is final, landed where it is to land, and stands in the state files."""
        return self.has_ended and all(
            facts["verdict"] in FINAL
            and self.recorded.get(name) == told_of(facts)
            and (name in self.landings or not self.is_to_land(name))
            for name, facts in self.workers.items()
        )

    @property
    def has_failures(self) -> bool:
        """Tell whether a worker's work was not accepted; one whose agent is off or missing is no failure."""
        return any(
            facts["verdict"] not in ("accepted", "partial") and name not in self.unavailable
            for name, facts in self.workers.items()
        )

    @property
    def failed(self) -> tuple[str, ...]:
        """Name the workers that were started and did not end as they should: what they printed says why."""
        return tuple(
            name
            for name, facts in self.workers.items()
            if facts["started"] and facts["outcome"] in WENT_WRONG
        )

    @property
    def to_read_up_on(self) -> tuple[str, ...]:
        """Name those of them whose work the lead has not accepted all the same."""
        return tuple(
            name for name in self.failed if self.workers[name]["verdict"] not in ("accepted", "partial")
        )

    @property
    def pending(self) -> tuple[str, ...]:
        """Name the workers whose verdict is still to be found."""
        return tuple(name for name, facts in self.workers.items() if facts["verdict"] == "pending")

    @property
    def held_up(self) -> tuple[str, ...]:
        """Name those of them whom a gate, a hook, a conflict or another worker keeps from landing."""
        return pending_of(self.workers).held_up

    @property
    def is_unfinished(self) -> bool:
        """Tell whether anything more can come of it: an interrupted run goes on, a cancelled one does not."""
        return not self.is_integrated and self.closed != "cancelled"

    def mark_end(self) -> None:
        """Leave word whether anything more can come of the run: nobody looks into a thousand old journals."""
        if self.is_unfinished:
            self.run.closed_path.unlink(missing_ok=True)
        else:
            self.run.closed_path.touch()

    def is_to_land(self, worker: str) -> bool:
        """Tell whether a worker has accepted changes."""
        facts = self.workers[worker]
        return facts["verdict"] in ("accepted", "partial") and bool(facts["files"])

    def status(self) -> str:
        """Say where the run is, in the words of the outside contract."""
        if self.is_integrated:
            return "integrated"
        if is_locked(self.run.path / "run.lock"):
            return "running"
        if self.closed == "cancelled":
            return "cancelled"
        return "finished" if self.has_ended else "interrupted"

    def next_action(self) -> str:
        """Give the command that takes this run further."""
        match self.status():
            case "integrated":
                if failed := self.to_read_up_on:
                    return f"orchestrate logs {self.run.id} {failed[0]}"
                if left := undone(self.workers, self.waits_for):
                    return again_with_fallen(self.phase, left, self.workers, self.waits_for)
                return "orchestrate status"
            case "running":
                return f"orchestrate wait {self.run.id}"
            case "cancelled" | "finished":
                return settles(self.run.id, self.workers)
            case _:
                return f"orchestrate resume {self.run.id}"

    def document(self, *, status: str | None = None) -> dict[str, Any]:
        """Give the run in the form of the outside contract."""
        return {
            "schema": 1,
            "run": self.run.id,
            "phase": self.phase,
            "status": status or self.status(),
            "workers": [_shown(facts) for facts in self.workers.values()],
            "commit": {"landing": self.landing, "state": self.state_commit},
            "problems": [],
            "next_action": self.next_action(),
        }


def _is_same_wait(before: str, now: str) -> bool:
    """Tell whether just the figures behind a reason have changed: many wait, and each change is an event."""
    return before.partition(" (")[0] == now.partition(" (")[0]


def told_of(facts: Mapping[str, Any]) -> tuple[Any, ...]:
    """Give what the state files show of a worker: told once, it need not be told again."""
    # Which of a check's outputs it was is no news: each look at a red gate makes another.
    return _told((facts["outcome"], facts["verdict"], facts["reason"]))


def _told(told: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(
        _AGAIN.sub(r"\1", one) if isinstance(one, str) and "/checks/" in one else one for one in told
    )


def read_run(run: RunDir, problems: list[Problem] | None = None) -> RunState | None:
    """Read a run; None where its files cannot be read, with the reason among `problems`."""
    state = read_roster(run, problems)
    if state is not None:
        try:
            state.take_all(read_journal(run.path / JOURNAL))
        except OSError as error:
            _add(problems, unreadable(run, JOURNAL, error))
            return None
    return state


def read_roster(run: RunDir, problems: list[Problem] | None = None) -> RunState | None:
    """Read who is in a run, and nothing yet of what happened; None where that cannot be read."""
    try:
        roster = read_json(run.roster_path)
        # Not as a runtime checks it: `status` has no time to import pydantic.
        if roster is not None and roster.get("schema") == 1 and is_roster(roster):
            return RunState(run, roster)
        why: OSError | str = "it is damaged, or of another version"
    except OSError as error:
        why = error
    # Without a journal it never began: nobody lacks anything of it.
    if os.path.lexists(run.path / JOURNAL):
        goes_on = f"put it back; `orchestrate resume {run.id}` goes on without it"
        _add(problems, unreadable(run, run.roster_path.name, why)._replace(do=goes_on))
    return None


def unreadable(run: RunDir, name: str, why: OSError | str) -> Problem:
    """Say that a run is left out, since nobody can know what became of its workers."""
    said = why if isinstance(why, str) else (why.strerror or "unknown reason").lower()
    what = f"cannot be read: {said}; so nothing is known of this run"
    return Problem(f"{run.relative(run.path)}/{name}", what, "put it back, or take the run's folder away")


def unfinished_runs(root: Any, problems: list[Problem] | None = None) -> list[RunState]:
    """List the runs that are not integrated, oldest first; why others cannot be read is among `problems`."""
    found = (read_run(run, problems) for run in runs_of(root, closed=False))
    return [state for state in found if state is not None and state.is_unfinished]


def _add(problems: list[Problem] | None, problem: Problem) -> None:
    if problems is not None:
        problems.append(problem)


def _unstarted(one: Mapping[str, Any]) -> dict[str, Any]:
    # One pattern for all: of ten thousand that wait, each would make its own empty lists.
    return {**_UNSTARTED, "worker": one["worker"], "ticket": one["ticket"], "agent": one["agent"]}


def _shown(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: facts[name] for name in (
        "worker", "ticket", "agent", "outcome", "reason", "verdict", "flags", "fence", "exit_code",
        "attempts", "seconds", "files", "violations", "usage", "output",
    )}  # fmt: skip
