"""The coordinator of a run: it handles what workers report, answers for those who have ended, keeps a copy.

A message is handled once: its effect is recorded first, then it is acknowledged. There are no cursors. What
was handled stands in the coordinator's own log, so a runtime that takes over reads its copy, then all logs.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio
from anyio.abc import TaskGroup

from orchestrator.execute.reopen import reopen
from orchestrator.execute.runtime import Runtime
from orchestrator.log import warning
from orchestrator.messages._copy import Copy
from orchestrator.messages._retries import Retries
from orchestrator.messages.effects import Effect, open_plans, reported_by, time_of
from orchestrator.messages.phase_files import PhaseFiles
from orchestrator.messages.plans import Snapshot, complete, hold
from orchestrator.runs.events import MessageNoted, MessageUnacknowledged
from orchestrator.runs.inbox import inbox_of
from orchestrator.runs.message_log import COPY
from orchestrator.state import Tree
from orchestrator.state.events import PhaseEvent, PlanMoved
from tickets.problems import Problem, ProblemError
from tickets.ticket import Ticket
from workers.files.run_dir import MESSAGES
from workers.messages.logs import Logs, Poll
from workers.messages.own_log import Draft, NotSentError, OwnLog
from workers.messages.record import (
    ALL,
    COORDINATOR,
    LEAD,
    Record,
    log_name,
    participant,
    sender_of,
    short,
    split,
)
from workers.messages.roster import Roster, write_roster
from workers.messages.standing import Book, Resends

POLL, SOON = 0.05, 0.02
"""Seconds between two polls; between those in the second after a message."""
AWAKE = 1.0
WAITED = 25.0
"""Seconds after which a worker waits no longer for the receipt of a complete plan: it gets a message."""
UNTOLD = ("ack", "task_progress")
"""Types that the journal does not have."""
TRANSITIONS = ("plan_started", "state_change")
"""Types that it has only where each transition is reported."""
FOR_LEAD = ("question", "blocker", "error", "plan_started", "plan_complete", "phase_complete", "state_change")
"""Types that a lead who waits for news is told, where they go to the coordinator."""
_LONGEST = 300
"""Characters of a message that the journal keeps."""


class Receipt(NamedTuple):
    """A receipt that the coordinator owes for a message."""

    message: Record
    how: str
    reason: str = ""
    facts: Mapping[str, str] = {}  # it is never changed


@asynccontextmanager
async def coordinating(runtime: Runtime) -> AsyncIterator["Coordinator"]:
    """Be the coordinator of a run, whose lock is held, for the block; first catch up with its messages."""
    coordinator = Coordinator(runtime)
    await coordinator.begin()
    runtime.mail = coordinator
    try:
        yield coordinator
    finally:
        runtime.mail = None


class Coordinator:
    """A runtime as a participant of its run."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime, self._run = runtime, runtime.run.id
        self._name, self._lead = participant(self._run, COORDINATOR), participant(self._run, LEAD)
        self._settings = runtime.manifest.messages
        self._folder = runtime.run.root / MESSAGES
        self._copy = Copy(runtime.run.path / COPY, self._run)
        concerning, known = f"{self._run}.", self._copy.lines
        self._logs = Logs(str(self._folder), concerning=concerning, clock=self._now, known=known)
        self._log = OwnLog(self._path(self._name), self._name, self._now)
        self._book = Book(is_brief=True)
        self._resends = Resends(self._name, self._settings.ack_limit)
        self._files = PhaseFiles(runtime)
        self._retries = Retries()
        self._taking = anyio.Lock()
        self._group: TaskGroup | None = None
        self._completing: dict[str, anyio.Event] = {}
        """Messages whose plan is being completed."""
        self._began = self._now()
        self._awake_until = 0.0
        self._said: set[str] = set()
        """Ids of own records that were not read back yet, and so are in neither the copy nor the journal."""
        self._late: set[str] = set()
        self._reported: set[Problem] = set()

    @property
    def problems(self) -> list[Problem]:
        """Return what was wrong with messages."""
        return sorted(self._reported)

    async def begin(self) -> None:
        """Write down who takes part, and read what was written while no runtime lived. Raises OSError."""
        manifest, owner = self._runtime.manifest, self._files.ticket
        self._folder.mkdir(parents=True, exist_ok=True)
        titles = {ticket.worker: ticket.title for ticket in manifest.tickets}
        name = owner.worker if owner else None
        write_roster(str(self._folder), Roster(self._run, manifest.phase, manifest.lead, name, titles))
        for records in self._copy.read():
            self._note([record for record in records if self._add(record)])
        async with self._taking:
            closed = self._catch_up()
            # Among them what an earlier runtime had copied, and was killed before it handled.
            waiting = sorted((message.record for message in self._book), key=_order)
            found = await self._handle([*waiting, *closed])
        await self._begin_to_complete(found)
        for ticket in manifest.tickets:
            # An earlier runtime may have been killed between the end of its worker and this.
            if self._runtime.of(ticket).ended:
                await self.ended(ticket)

    def _catch_up(self) -> list[Record]:
        """Read all logs, a part at a time; return the receipts of the lead, which may close a blocker."""
        closed: list[Record] = []
        while True:
            poll = self._logs.poll()
            fresh = self._read(poll)
            closed += [one for one in fresh if one.type == "ack" and one.sender == self._lead]
            if not poll.is_behind:
                return closed

    async def follow(self) -> None:
        """Take in what comes, as long as this runs."""
        async with anyio.create_task_group() as self._group:
            while True:
                await self.take()
                await anyio.sleep(SOON if anyio.current_time() < self._awake_until else POLL)

    async def take(self) -> None:
        """Take in what the logs have, to the end."""
        async with self._taking:
            poll = self._logs.poll()
            found = await self._take(poll)
            while poll.is_behind:
                poll = self._logs.poll()
                found += await self._take(poll)
        await self._begin_to_complete(found)

    async def before_judging(self, ticket: Ticket) -> None:
        """Take in all that a worker has written, and finish the plans that it has called complete."""
        await self.take()
        mine = participant(self._run, ticket.worker)
        for id_, done in list(self._completing.items()):
            if id_.startswith(f"{mine}:"):
                await done.wait()

    async def ended(self, ticket: Ticket) -> None:
        """Leave no plan of an ended worker in progress; ask the lead what it has ended with.

        The lead is asked only where the worker has asked nothing itself: an answer lets it go on.
        """
        worker, name = self._runtime.of(ticket), participant(self._run, ticket.worker)
        if name == self._files.owner:
            await self._close_plans(f"its worker ended ({worker.outcome}) without a word on it")
        if worker.outcome in ("blocked", "needs_clarification") and not self._asks(name):
            phase = self._runtime.manifest.phase
            self._append([Draft("question", self._lead, worker.reason, {"about": name}, phase)])
            await self.take()

    async def _take(self, poll: Poll) -> list[Record]:
        """Take in one poll; return the messages whose plan is to be completed."""
        fresh = self._read(poll)
        records = [*self._retries.due(self._now()), *fresh]
        completes = await self._handle(records) if records else []
        if fresh:
            self._awake_until = anyio.current_time() + AWAKE
            state = self._runtime.state
            state.inbox = inbox_of(state, self._book, self._now(), self._settings.ack_limit)
        self._note_late()
        self._send_again()
        return completes

    def _read(self, poll: Poll) -> list[Record]:
        """Add the records of a poll to the book and to the copy; return the new ones."""
        for line in poll.void:
            self._report(line.participant, str(line))
        for change in poll.changes:
            self._report(change.participant, f"the log {change.what}")
        fresh = [seen for seen in poll.records if self._add(seen.record)]
        try:
            self._copy.add(one.line for one in fresh if split(one.record.sender)[0] == self._run)
        except OSError as error:
            warning("messages not copied", run=self._run, reason=str(error))
        records = [seen.record for seen in fresh]
        self._note(records)
        return records

    def _add(self, record: Record) -> bool:
        """Add a record to the book; return whether it is new: a resend is not."""
        is_new = record.id not in self._book or record.id in self._said
        self._said.discard(record.id)
        self._book.add(record)
        return is_new

    # What messages bring about

    async def _handle(self, records: Sequence[Record]) -> list[Record]:
        """Make messages effective as one change, then acknowledge them.

        Returns those whose plan is to be completed. One whose effect a file cannot take is tried again.
        """
        mine = [one for one in records if self._concerns_run(one)]
        for record in mine:
            if record.type == "answer" and record.sender == self._lead:
                await self._answer(record)
        receipts: list[Receipt] = []
        effects: list[tuple[Record, PhaseEvent]] = []
        completes: list[Record] = []
        tree = self._files.tree()
        for record in mine:
            effect = self._effect(record, tree)
            if effect is None:
                continue
            if effect.completes:
                self._completing[record.id] = anyio.Event()
                completes.append(record)
            elif effect.event is None:
                receipts += self._receipt(record, effect.refused)
            else:
                effects.append((record, effect.event))
                tree = self._after(tree, record, effect.event)
        failed = await self._files.record([event for _, event in effects])
        for at, (record, _) in enumerate(effects):
            if at in failed:
                self._try_again(record, failed[at])
            else:
                receipts += self._receipt(record)
        self._append([_draft(one) for one in receipts])
        return completes

    def _effect(self, record: Record, tree: Tree) -> Effect | None:
        """Return what a message brings about; None where it was handled, or waits for another one."""
        try:
            if record.to != self._name or record.type == "ack":
                asked = self._book.get(record.re) if record.re else None
                return self._files.effect_of_answer(record, asked.record if asked else None, tree)
            if self._is_acknowledged(record) or record.id in self._completing:
                return None
            if self._waits(record):
                self._retries.soon(record, self._now())
                return None
            return self._files.effect_of(record, tree)
        except ProblemError as error:
            self._try_again(record, error.problems[0])
            return None

    def _waits(self, record: Record) -> bool:
        """Return whether a message has to wait until a plan is completed, or refused."""
        if reported_by(record) is None:
            return False
        others = [self._book.get(id_) for id_ in self._completing]
        mine = [one.record for one in others if one and one.record.sender == record.sender]
        return any(record.type == "phase_complete" or one.plan == record.plan for one in mine)

    def _after(self, tree: Tree, record: Record, event: PhaseEvent) -> Tree:
        try:
            return self._files.after(tree, event)
        except ProblemError as error:
            self._report(record.sender, str(error.problems[0]))
            return tree

    def _is_acknowledged(self, record: Record) -> bool:
        message = self._book.get(record.id)
        if message is None:
            return self._book.is_settled(record.id)
        return any(ack.sender == self._name for ack in message.acks)

    def _receipt(self, record: Record, refused: str = "") -> list[Receipt]:
        """Return the receipt that is owed for a message, once it is effective."""
        if record.type == "ack":
            return []
        if record.to == self._name:
            is_shown = record.type in ("blocker", "plan_complete") and not refused
            facts = self._files.shown_of(record) if is_shown else {}
            return [Receipt(record, "refused" if refused else "handled", refused, facts)]
        why = self._why_undeliverable(record)
        return [Receipt(record, "undeliverable", why)] if why else []

    def _why_undeliverable(self, record: Record) -> str:
        run, name = split(record.to)
        message = self._book.get(record.id)
        if run != self._run or name in (LEAD, ALL) or message is None or message.acks or message.answers:
            return ""
        worker = self._runtime.state.workers.get(name)
        if worker is None:
            return f"run {self._run} has no worker {name}"
        return f"{name} has ended: {worker.outcome}" if worker.ended else ""

    def _note(self, records: Iterable[Record]) -> None:
        """Note new messages in the journal, where an earlier runtime has not."""
        known = self._runtime.state.messages
        told = (one for one in records if self._is_told(one) and one.id not in known)
        self._runtime.note(*map(self._noted, told))

    def _is_told(self, record: Record) -> bool:
        is_lean = self._settings.events == "milestones" and record.type in TRANSITIONS
        return record.type not in UNTOLD and not is_lean and self._concerns_run(record)

    def _noted(self, record: Record) -> MessageNoted:
        names = [split(one) for one in (record.sender, record.to)]
        workers = (name for run, name in names if run == self._run and name in self._runtime.state.workers)
        told = record.to == self._lead or (record.to == self._name and record.type in FOR_LEAD)
        line = _line(str(record.facts.get("title") or record.body))
        where = record.phase, record.plan, record.re
        sent = record.id, record.sender, record.to, record.type
        return MessageNoted(next(workers, ""), *sent, *where, line, told)

    def _concerns_run(self, record: Record) -> bool:
        return self._run in (split(record.sender)[0], split(record.to)[0])

    def _append(self, drafts: Sequence[Draft], log: OwnLog | None = None) -> None:
        if not drafts:
            return
        try:
            with (log or self._log).held() as held:
                # Known at once, and not with the next poll: until then it would be said once more.
                for record in held.append(*drafts):
                    self._book.add(record)
                    self._said.add(record.id)
        except NotSentError as error:
            self._report(self._name, str(error))

    def _try_again(self, record: Record, problem: Problem) -> None:
        self._retries.later(record, self._now())
        self._reported.update(_as_warnings([problem]))

    # Plans that are called complete

    async def _begin_to_complete(self, records: Iterable[Record]) -> None:
        for record in records:
            if self._group is None:
                await self._complete(record)
            else:
                self._group.start_soon(self._complete, record)

    async def _complete(self, record: Record) -> None:
        """Complete a plan: its commit, its check, its row, its receipt."""
        try:
            phase, ticket = self._files.phase(self._files.tree()), self._files.ticket
            plan = next((one for one in phase.plans if one.id == record.plan), None) if phase else None
            if phase is None or ticket is None or plan is None:
                return
            made = await complete(self._runtime, ticket, phase.name, plan)
            async with self._taking:
                await self._conclude(record, phase.name, made)
        except ProblemError as error:
            self._try_again(record, error.problems[0])
        finally:
            self._completing.pop(record.id).set()

    async def _conclude(self, record: Record, phase: str, made: Snapshot) -> None:
        receipt = Receipt(record, "refused", made.refused)
        if not made.refused and made.commit:
            hold(self._runtime, phase, record.plan or "", made.commit)
            late = self._now() - time_of(record).timestamp()
            event = PlanMoved(
                self._runtime.manifest.phase,
                record.plan or "",
                "complete",
                record.id,
                self._runtime.clock(),
                record.body,
                made.commit,
                made.verified,
                int(late) if time_of(record).timestamp() < self._began else 0,
            )
            if failed := await self._files.record([event]):
                self._try_again(record, failed[0])
                return
            facts = {"commit": made.commit, "verified": made.commit if made.verified else ""}
            receipt = Receipt(record, "handled", "", facts)
        drafts = [_draft(receipt)]
        if self._now() - time_of(record).timestamp() > WAITED:
            said = made.refused or f"{record.plan} is complete: {made.commit}"
            drafts.append(Draft("answer", record.sender, said, {}, record.phase, record.plan, record))
        self._append(drafts)

    async def _close_plans(self, why: str) -> None:
        """Let no plan be in progress of which nobody speaks any more."""
        try:
            phase = self._files.phase(self._files.tree())
        except ProblemError as error:
            self._reported.update(_as_warnings(error.problems))
            return
        name, at = self._runtime.manifest.phase, self._runtime.clock()
        plans = open_plans(phase) if phase else []
        moves = [PlanMoved(name, one, "failed", self._name, at, why) for one in plans]
        failed = await self._files.record(moves)
        self._reported.update(_as_warnings(failed.values()))

    # Answers to workers that have ended

    def _asks(self, name: str) -> bool:
        """Return whether the lead knows what a worker waits for: from itself, or from us about its end."""
        gone_on = self._runtime.state.workers[split(name)[1]].answered
        return any(
            (one.is_open and one.record.sender == name and one.record.to in (self._lead, self._name))
            or (one.record.facts.get("about") == name and one.record.id not in gone_on)
            for one in self._book
        )

    async def _answer(self, record: Record) -> None:
        """Let a worker that has ended go on with the lead's answer, where that is an answer to it."""
        if not record.re or record.re not in self._book:
            return
        asked = self._book.get(record.re)  # None of one that is settled, which asked for nothing
        about = asked.record.facts.get("about") if asked else None
        sender = sender_of(record.re)
        name = split(str(about or sender))[1]
        ticket = next((one for one in self._runtime.manifest.tickets if one.worker == name), None)
        if ticket is None or not self._runtime.of(ticket).ended:
            return
        worker, mine = self._runtime.of(ticket), participant(self._run, name)
        answer = self._book.get(record.id)
        was_seen = answer is not None and any(ack.sender == mine for ack in answer.acks)
        if was_seen or record.re in worker.answered:
            return  # it had seen it before its end, or has gone on with it already
        if not worker.why_not_answered(asks=sender == mine):
            self._reported.update(await reopen(self._runtime, ticket, record.re, record.body))
            if record.to == mine:
                # Its prompt has it: nothing else is to show it again.
                self._append([_draft(Receipt(record, "shown"))], OwnLog(self._path(mine), mine, self._now))

    # What stays without a receipt

    def _note_late(self) -> None:
        """Note, once, each message of the run that nobody has acknowledged in time."""
        for sender in (one for one in self._logs.participants() if split(one)[0] == self._run):
            for message in self._book.unacknowledged(sender, self._now(), self._settings.ack_limit):
                record = message.record
                if record.id not in self._late:
                    self._late.add(record.id)
                    self._runtime.note(MessageUnacknowledged(split(sender)[1], record.id, record.to))

    def _send_again(self) -> None:
        for record in self._resends.due(self._book, self._now()):
            try:
                self._log.resend(record)
            except NotSentError as error:
                self._report(self._name, str(error))

    def _path(self, name: str) -> str:
        return str(self._folder / log_name(name))

    def _report(self, sender: str, what: str) -> None:
        place = f"messages of {short(sender, self._run)}"
        self._reported.add(Problem(place, what, "the others are not concerned", "warning"))

    def _now(self) -> float:
        return self._runtime.clock().timestamp()


def _draft(receipt: Receipt) -> Draft:
    record = receipt.message
    facts = {"how": receipt.how, **receipt.facts}
    return Draft("ack", record.sender, receipt.reason, facts, record.phase, record.plan, record)


def _order(record: Record) -> tuple[str, str, int]:
    return record.at, record.sender, record.number


def _line(text: str) -> str:
    """Return the first line with text, as far as the journal keeps it."""
    return next((one.strip() for one in text.splitlines() if one.strip()), "")[:_LONGEST]


def _as_warnings(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield problems of files of a family: no run fails for them."""
    return (problem._replace(severity="warning") for problem in problems)
