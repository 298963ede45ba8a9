"""What the checkpoint of a worker says at each stage of its work. Pure: facts of a run in, an event out."""

import re
from datetime import datetime

from orchestrator.runs.continued import Continued
from orchestrator.runs.cut_off import kept
from orchestrator.runs.events import WorkerStarted
from orchestrator.runs.worker_state import WorkerState
from orchestrator.state.checkpoints.checkpoint import NOTE
from orchestrator.state.checkpoints.form import STAGES
from orchestrator.state.events import CheckpointWritten, Stage, Standing
from tickets.markdown import one_line, plain
from tickets.ticket import Ticket
from tickets.value import Value
from tickets.wording import count_of
from workers.engine.command import describe_end

_FAILED = {"failed": "Failed", "over_budget": "Over budget", "cancelled": "Cancelled"}


_OWN_LINE = re.compile(r"CHECKPOINT(?: \[(?P<marks>[^\]]*)\])?: *(?P<text>\S.*)")


GONE = "Cut off: its runtime stopped"


class OwnLine(Value):
    """A worker's own words about how far it has come."""

    text: str
    stage: Stage | None
    is_blocked: bool

    @property
    def standing(self) -> Standing:
        """How its work stands: that it is complete is never a worker's to say."""
        return "blocked" if self.is_blocked else "in_progress"


def own_line(line: str) -> OwnLine | None:
    """Read `CHECKPOINT: TEXT`, `CHECKPOINT [STAGE]: TEXT` or `CHECKPOINT [STAGE, blocked]: TEXT`."""
    found = _OWN_LINE.match(line)
    if found is None:
        return None
    words = [word.strip().lower() for word in (found["marks"] or "").split(",")]
    stage = next((one for one in STAGES if one in words), None)
    return OwnLine(plain(one_line(found["text"]))[:NOTE], stage, "blocked" in words)


class Stages:
    """The stages of one worker's work, as its checkpoint shows them."""

    def __init__(self, run: str, ticket: Ticket, phase: str, continued: Continued | None = None) -> None:
        self.run, self.ticket, self._phase, self._continued = run, ticket, phase, continued

    def written(
        self, status: Standing, action: str, at: datetime, stage: Stage | None = None, *, begins: bool = True
    ) -> CheckpointWritten:
        """Return the event; `begins`: also where there is no checkpoint yet."""
        return CheckpointWritten(
            self.ticket.deliverable or self.ticket.title, self.ticket.id, status, action, at,
            team=self._phase, stage=stage, is_run=True, begins=begins,
        )  # fmt: skip

    def started(self, event: WorkerStarted, worker: WorkerState, at: datetime) -> CheckpointWritten:
        """Return what an attempt begins with."""
        if event.attempt <= 1 and (found := self._continued) is not None:
            left = {
                "thread": "its thread",
                "patch": f"its patch ({count_of(len(found.files), 'file')})",
                "notes": "its notes",
            }[found.origin]
            return self.written("in_progress", f"Taken up by {event.worker} (run {self.run}) from {left}", at)
        if event.attempt <= 1:
            stage: Stage = "research" if self.ticket.mode == "read-only" else "implementation"
            return self.written("in_progress", f"Claimed by {event.worker} (run {self.run})", at, stage)
        begin = worker.begin
        why = (begin.answer and "answered by the lead") or begin.reason if begin else ""
        thread = ", in its own thread" if begin and begin.thread else ""
        action = f"Attempt {event.attempt} by {event.worker}{': ' * bool(why)}{why}{thread}"
        return self.written("in_progress", action, at)

    def gone(self, at: datetime, last: str, count: int) -> CheckpointWritten:
        """Return what is known of a worker whose runtime is gone: `resume RUN` goes on with it."""
        did = f"; last: {last}" if last else ""
        return self.written("in_progress", f"{GONE}{did}; {kept(count)}", at)

    def said(self, line: OwnLine, at: datetime) -> CheckpointWritten:
        """Return what a worker has said of its own work."""
        return self.written(line.standing, line.text, at, line.stage)

    def ended(
        self, worker: WorkerState, at: datetime, *, last: str = "", needs: str = "", is_new: bool = True
    ) -> CheckpointWritten | None:
        """Return what the last attempt ended with; `last` is what it did, `needs` what it reports to need.

        `is_new`: its changes differ from those that an earlier run had left. None where there was nothing
        to do.
        """
        evidence, outcome, reason = worker.evidence, worker.ended_as, worker.found
        files = evidence.files
        left = kept(len(files))
        failed = next((one for one in evidence.acceptance if not one.passed), None)
        said = evidence.summary
        match outcome:
            case "skipped":
                return None
            case "complete":
                action = f"Reported COMPLETE{': ' * bool(said)}{said}"
                return self.written("awaiting_review", action, at, "review")
            case "blocked":
                action = f"Blocked: {reason}{'; needs ' * bool(needs)}{needs}"
                return self.written("blocked", action, at)
            case "needs_clarification":
                return self.written("blocked", f"Asks: {reason}", at)
            case "timed_out" | "rate_limited" | "interrupted":
                in_vain = worker.was_cut_off_before and not (files and is_new)
                status: Standing = "blocked" if in_vain else "in_progress"
                did = f"; last: {last}" if last else ""
                return self.written(status, f"Cut off: {reason}{did}; {left}", at)
        if failed is not None and outcome == "failed":
            how = (
                f"exited with {failed.exit_code}"
                if failed.end == "exited"
                else describe_end(failed.end, None)
            )
            return self.written("blocked", f"Acceptance failed: {failed.command} {how}", at, "testing")
        return self.written("blocked", f"{_FAILED[outcome]}: {reason}; {left}", at)

    def judged(
        self, worker: WorkerState, at: datetime, landed: str | None, *, is_new: bool = True
    ) -> CheckpointWritten | None:
        """Return what was decided about a complete worker; `landed` is the commit of its work.

        None where its outcome has decided it, and for a command whose work is accepted: that begins no
        checkpoint, and completes the one of an earlier run.
        """
        begins, run = self.ticket.agent != "command", f"run {self.run}"
        match worker.verdict:
            case "accepted":
                as_what = f", landed as {landed[:10]}" if landed else ""
                return self.written("complete", f"Accepted ({run}){as_what}", at, "review", begins=begins)
            case "partial":
                action = f"Accepted in part ({run}): {worker.reason}"
                return self.written("complete", action, at, "review", begins=begins)
            case "pending":
                return self.written("awaiting_review", f"Waits for the lead: {worker.reason}", at, "review")
            case "rejected" if worker.outcome == "complete":
                return self.written("blocked", f"Rejected: {worker.reason}", at)
        return self.ended(worker, at, is_new=is_new) if self.ticket.agent == "command" else None
