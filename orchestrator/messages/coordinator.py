"""The coordinator of a run: it handles what workers report, answers for those who have ended, keeps a copy.

A message is handled once: its effect is recorded first, then it is acknowledged. There are no cursors. What
was handled stands in the coordinator's own log, so a runtime that takes over reads its copy, then all logs.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio

from orchestrator.execute.reopen import reopen
from orchestrator.execute.runtime import Runtime
from orchestrator.log import warning
from orchestrator.messages._copy import Copy
from orchestrator.runs.events import MessageNoted, MessageUnacknowledged
from orchestrator.runs.message_log import COPY
from tickets.problems import Problem
from tickets.ticket import Ticket
from workers.files.run_dir import MESSAGES
from workers.messages.log_reader import Seen
from workers.messages.logs import Logs, Poll
from workers.messages.own_log import Draft, NotSentError, OwnLog
from workers.messages.record import ALL, COORDINATOR, LEAD, Record, log_name, participant, short, split
from workers.messages.roster import Roster, write_roster
from workers.messages.standing import Book, Message, Resends

POLL, SOON = 0.05, 0.02
"""Seconds between two polls; between those in the second after a message."""
AWAKE = 1.0
UNTOLD = ("ack", "task_progress")
"""Types that the journal does not have."""
FOR_LEAD = ("question", "blocker", "error", "plan_started", "plan_complete", "phase_complete", "state_change")
"""Types that a lead who waits for news is told, where they go to the coordinator."""
_LONGEST = 300
"""Characters of a message that the journal keeps."""


class Receipt(NamedTuple):
    """A receipt that the coordinator owes for a message."""

    message: Record
    how: str
    reason: str = ""


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
        self._folder = runtime.run.root / MESSAGES
        self._logs = Logs(str(self._folder), clock=self._now)
        self._log = OwnLog(self._path(self._name), self._name, self._now)
        self._copy = Copy(runtime.run.path / COPY, self._run)
        self._book = Book()
        self._resends = Resends(self._name)
        self._taking = anyio.Lock()
        self._awake_until = 0.0
        self._late: set[str] = set()
        self._reported: set[Problem] = set()

    @property
    def problems(self) -> list[Problem]:
        """Return what was wrong with messages."""
        return sorted(self._reported)

    async def begin(self) -> None:
        """Write down who takes part, and read what was written while no runtime lived. Raises OSError."""
        manifest = self._runtime.manifest
        self._folder.mkdir(parents=True, exist_ok=True)
        titles = {ticket.worker: ticket.title for ticket in manifest.tickets}
        write_roster(str(self._folder), Roster(self._run, manifest.phase, manifest.lead, None, titles))
        for record in self._copy.read():
            self._book.add(record)
        await self.take()
        # What an earlier runtime had copied and was killed before it handled.
        await self._handle([message.record for message in self._book])

    async def follow(self) -> None:
        """Take in what comes, as long as this runs."""
        while True:
            await self.take()
            await anyio.sleep(SOON if anyio.current_time() < self._awake_until else POLL)

    async def take(self) -> None:
        """Take in what the logs have, to the end."""
        async with self._taking:
            while True:
                poll = self._logs.poll()
                await self._take(poll)
                if not poll.is_behind:
                    return

    async def ended(self, ticket: Ticket) -> None:
        """Ask the lead what a worker has ended with, where it asked nothing itself: so it can be answered."""
        worker, name = self._runtime.of(ticket), participant(self._run, ticket.worker)
        if worker.outcome in ("blocked", "needs_clarification") and not self._asks(name):
            phase = self._runtime.manifest.phase
            self._append([Draft("question", self._lead, worker.reason, {"about": name}, phase)])
            await self.take()

    async def _take(self, poll: Poll) -> None:
        for line in poll.void:
            self._report(line.participant, str(line))
        for change in poll.changes:
            self._report(change.participant, f"the log {change.what}")
        fresh = [seen for seen in poll.records if self._add(seen)]
        if fresh:
            self._awake_until = anyio.current_time() + AWAKE
            self._keep(fresh)
            await self._handle([seen.record for seen in fresh])
        self._note_late()
        self._send_again()

    def _add(self, seen: Seen) -> bool:
        """Add a record to the book; return whether it is new: a resend is not."""
        is_new = self._book.get(seen.record.id) is None
        self._book.add(seen.record)
        return is_new

    def _keep(self, fresh: Sequence[Seen]) -> None:
        try:
            self._copy.add(one.line for one in fresh if split(one.record.sender)[0] == self._run)
        except OSError as error:
            warning("messages not copied", run=self._run, reason=str(error))

    # What messages bring about

    async def _handle(self, records: Sequence[Record]) -> None:
        """Make messages effective, then acknowledge them."""
        mine = [one for one in records if one.type != "ack" and self._concerns_us(one)]
        for record in mine:
            self._note(record)
        for record in mine:
            if record.type == "answer" and record.sender == self._lead:
                await self._answer(record)
        receipts = (self._receipt_for(record) for record in mine)
        self._append([_draft(one) for one in receipts if one is not None])

    def _concerns_us(self, record: Record) -> bool:
        return self._run in (split(record.sender)[0], split(record.to)[0])

    def _note(self, record: Record) -> None:
        """Note a message in the journal, where an earlier runtime has not."""
        if record.type in UNTOLD or record.id in self._runtime.state.messages:
            return
        names = [split(one) for one in (record.sender, record.to)]
        workers = (name for run, name in names if run == self._run and name in self._runtime.state.workers)
        told = record.to == self._lead or (record.to == self._name and record.type in FOR_LEAD)
        line = _line(str(record.facts.get("title") or record.body))
        where = record.phase, record.plan, record.re
        sent = record.id, record.sender, record.to, record.type
        self._runtime.note(MessageNoted(next(workers, ""), *sent, *where, line, told))

    def _receipt_for(self, record: Record) -> Receipt | None:
        """Return the receipt that the coordinator owes for a message; None where it owes none."""
        message = self._book.get(record.id)
        if message is None or any(ack.sender == self._name for ack in message.acks):
            return None
        if record.to == self._name:
            return Receipt(record, "handled")
        why = self._why_undeliverable(message)
        return Receipt(record, "undeliverable", why) if why else None

    def _why_undeliverable(self, message: Message) -> str:
        run, name = split(message.record.to)
        if run != self._run or name in (LEAD, ALL, COORDINATOR) or message.acks or message.answers:
            return ""
        worker = self._runtime.state.workers.get(name)
        if worker is None:
            return f"run {self._run} has no worker {name}"
        return f"{name} has ended: {worker.outcome}" if worker.ended else ""

    def _append(self, drafts: Sequence[Draft], log: OwnLog | None = None) -> None:
        if not drafts:
            return
        try:
            with (log or self._log).held() as held:
                held.append(*drafts)
        except NotSentError as error:
            self._report(self._name, str(error))

    # Answers to workers that have ended

    def _asks(self, name: str) -> bool:
        """Return whether a worker waits for the lead's answer to a message of its own."""
        return any(
            one.is_open and one.record.sender == name and one.record.to in (self._lead, self._name)
            for one in self._book
        )

    async def _answer(self, record: Record) -> None:
        """Let a worker that has ended go on with the lead's answer, where that is an answer to it."""
        asked = self._book.get(record.re) if record.re else None
        if asked is None:
            return
        name = split(str(asked.record.facts.get("about") or asked.record.sender))[1]
        ticket = next((one for one in self._runtime.manifest.tickets if one.worker == name), None)
        if ticket is None or not self._runtime.of(ticket).ended:
            return
        worker, mine = self._runtime.of(ticket), participant(self._run, name)
        answer = self._book.get(record.id)
        was_seen = answer is not None and any(ack.sender == mine for ack in answer.acks)
        if was_seen or asked.record.id in worker.answered:
            return  # it had seen it before its end, or has gone on with it already
        if not worker.why_not_answered(asks=asked.record.sender == mine):
            self._reported.update(await reopen(self._runtime, ticket, asked.record.id, record.body))
            if record.to == mine:
                # Its prompt has it: nothing else is to show it again.
                self._append([_draft(Receipt(record, "shown"))], OwnLog(self._path(mine), mine, self._now))

    # What stays without a receipt

    def _note_late(self) -> None:
        """Note, once, each message of the run that nobody has acknowledged in time."""
        for sender in (one for one in self._logs.participants() if split(one)[0] == self._run):
            for message in self._book.unacknowledged(sender, self._now()):
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
    facts = {"how": receipt.how}
    return Draft("ack", record.sender, receipt.reason, facts, record.phase, record.plan, record)


def _line(text: str) -> str:
    """Return the first line with text, as far as the journal keeps it."""
    return next((one.strip() for one in text.splitlines() if one.strip()), "")[:_LONGEST]
