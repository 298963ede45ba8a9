"""`msg send|inbox|ack|log`: the lead's messages. Imports little: a worker may wait for an answer."""

import time
from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from typing import Any, Literal

from orchestrator.commands._names import run_named
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller, lead_of, repository_of
from orchestrator.errors import Refusal
from orchestrator.runs.inbox import letter_of, read_inboxes
from orchestrator.runs.letters import Letter
from orchestrator.runs.message_log import Audited, Selection, audit, selected
from orchestrator.runs.next_action import wait_of
from orchestrator.runs.state import RunState, read_run
from orchestrator.step import Step, Waits
from tickets.problems import Problem
from tickets.value import Value
from workers.files.locks import is_locked
from workers.files.run_dir import MESSAGES, runs_of
from workers.messages.delivery import receipt
from workers.messages.logs import Logs
from workers.messages.own_log import NotSentError, OwnLog
from workers.messages.record import ALL, COORDINATOR, LEAD, TYPES, Record, log_name, participant, split
from workers.messages.roster import read_roster
from workers.messages.standing import Book, Message

NEWEST = 20
"""How many runs are looked through: what older ones asked is over."""
RECEIPT, LOOK = 1.0, 0.02
"""Seconds to wait for a receipt, and between two looks for it."""
LIMIT = 1_000
SENT = ("question", "chat", "cancel")
INBOX = "orchestrate msg inbox"
_KEYS = ("id", "at", "from", "to", "type", "phase", "plan", "re")


class Arguments(Value):
    """The arguments of `msg`."""

    action: Literal["send", "inbox", "ack", "log"]
    text: str = ""
    """The body of a message."""
    to: str | None = None
    """A worker, `all`, a participant, or a phase: its phase worker."""
    re: str | None = None
    """The message that is answered: its id, or a unique end of it."""
    type: str | None = None
    """What is sent, `chat` unless stated otherwise; or what `log` shows."""
    plan: str | None = None
    run: str | None = None
    ids: tuple[str, ...] = ()
    """The messages that are acknowledged."""
    note: str = ""
    peek: bool = False
    """Show what is new, and let it stay new."""
    named: tuple[str, ...] = ()
    """`log` shows what these participants sent to each other."""
    standing: str | None = None
    since: str | None = None
    limit: int = LIMIT


def call(caller: Caller, arguments: Arguments) -> Answer[None]:
    """Send, show, acknowledge or list messages. Raises Refusal."""
    office = _Office(caller, arguments)
    match arguments.action:
        case "send":
            return office.send()
        case "inbox":
            return office.inbox()
        case "ack":
            return office.acknowledge()
        case _:
            return office.log()


class _Office:
    """The messages of the newest runs, for one call."""

    def __init__(self, caller: Caller, arguments: Arguments) -> None:
        self.arguments = arguments
        self.repository = repository_of(caller)
        self.root = self.repository.root
        self.folder = self.root / MESSAGES
        self.now, self.say = caller.now, caller.say
        self.by = lead_of(caller, self.repository)
        self.run = self._named_run(arguments)
        runs = [run for run in runs_of(self.root) if self.run in (None, run.id)]
        self.states = [state for run in runs[-NEWEST:] if (state := read_run(run)) is not None]

    def _named_run(self, arguments: Arguments) -> str | None:
        """Return the run of an id, `last` or a beginning; of one that is gone the log may be left."""
        if arguments.run is None:
            return None
        try:
            return run_named(self.repository, arguments.run).id
        except Refusal:
            if arguments.action != "log" or arguments.run == "last":
                raise
            return arguments.run

    # Sending

    def send(self) -> Answer[None]:
        """Send one message, and wait a moment for its receipt."""
        said, book = self.arguments, self.book()
        if not said.text.strip():
            raise _refusal("msg send", "there is no text", "write it behind the options")
        if said.type not in (None, *SENT):
            raise _refusal("--type", f"`{said.type}` cannot be sent", f"write one of: {', '.join(SENT)}")
        asked = self.named(book, said.re) if said.re else None
        if asked is None and said.to is None:
            raise _refusal("msg send", "nobody is named", "name `--to NAME`, or `--re ID`")
        state, to, type_ = self._answered(asked) if asked else self._receiver(str(said.to))
        name = split(to)[1]
        worker = state.workers.get(name)
        about = _resumes(state, asked) if asked else False
        if worker is not None and worker.ended and not about:
            why = worker.why_not_answered(asks=bool(asked and asked.is_open))
            raise _refusal(name, why or "it has ended", "run its ticket again: `orchestrate plan PHASE`")
        problems = _answered_before(asked) if asked else []
        record = self._append(
            state.run.id, type_ if asked is None else "answer", to, said.text, asked.record if asked else None
        )
        stands = self._receipt(record)
        step: Step = INBOX if about is False else wait_of(state)
        if about and not is_locked(state.run.path / "run.lock"):
            step = f"orchestrate resume {state.run.id} --detach"
        shown = {key: value for key, value in record.as_json().items() if key not in ("v", "try", "facts")}
        return answer(problems, step, message=shown, stands=stands, resumes=about)

    def _answered(self, asked: Message) -> tuple[RunState, str, str]:
        """Return the run whose lead answers a message, and who gets the answer."""
        record = asked.record
        run = split(record.to)[0]
        state = next((one for one in self.states if one.run.id == run), None)
        if state is None:
            raise _refusal(record.id, "its run is over", "nobody can hear the answer any more")
        return state, record.sender, "answer"

    def _receiver(self, to: str) -> tuple[RunState, str, str]:
        """Return the run, the participant and the type of a message to somebody."""
        type_ = self.arguments.type or "chat"
        alive = [state for state in self.states if state.is_unfinished]
        run, name = split(to)
        if name:
            found = [state for state in self.states if state.run.id == run]
        else:
            found, name = [state for state in alive if self._has(state, to)], self._spelled(alive, to)
        if not found:
            known = sorted({one for state in alive for one in state.workers})
            near = get_close_matches(to, known, 3) or known[:5]
            raise _refusal(to, "takes part in no run that is on", f"there are: {', '.join(near) or 'none'}")
        if len(found) > 1:
            ids = ", ".join(state.run.id for state in found)
            raise _refusal(to, f"takes part in several runs: {ids}", "name one of them by `--run`")
        state = found[0]
        if not self._has(state, name):
            near = get_close_matches(name, list(state.workers), 3) or list(state.workers)[:5]
            raise _refusal(to, f"run {state.run.id} has no worker {name}", f"there are: {', '.join(near)}")
        return state, participant(state.run.id, name), type_

    def _has(self, state: RunState, name: str) -> bool:
        return name in state.workers or name in (ALL, COORDINATOR) or name == self._phase_worker(state, name)

    def _spelled(self, states: Sequence[RunState], to: str) -> str:
        """Return the name of a receiver; a phase means its phase worker."""
        workers = (self._of_phase(state, to) for state in reversed(states))
        return next((one for one in workers if one), to)

    def _of_phase(self, state: RunState, phase: str) -> str:
        roster = read_roster(str(self.folder), state.run.id) if state.phase == phase else None
        return (roster.phase_worker or "") if roster else ""

    def _phase_worker(self, state: RunState, phase: str) -> str | None:
        return phase if self._of_phase(state, phase) else None

    def _append(self, run: str, type_: str, to: str, body: str, re: Record | None) -> Record:
        log = self.lead_log(run)
        try:
            phase = re.phase if re else None
            plan = self.arguments.plan or (re.plan if re else None)
            return log.append(type_, to, body, facts={"by": self.by}, phase=phase, plan=plan, re=re)
        except NotSentError as error:
            raise Refusal(Problem("msg send", str(error), "nothing was sent")) from None

    def _receipt(self, record: Record) -> str:
        """Return how a message stands after a moment."""
        logs, book, until = Logs(str(self.folder), concerning=record.to), Book(), time.monotonic() + RECEIPT
        book.add(record)
        while True:
            for seen in logs.read_all().records:
                book.add(seen.record)
            message = book.get(record.id)
            stands = message.stands(self.now().timestamp()) if message else "new"
            if stands != "new" or time.monotonic() > until:
                return stands
            time.sleep(LOOK)

    # What waits

    def inbox(self) -> Answer[None]:
        """Show what waits for the lead; its logs say so once it was printed."""
        now = self.now().timestamp()
        letters = read_inboxes(self.root, self.states, now)
        shown = [_item(one, now) for one in letters]
        new = [one.message.record for one in letters if one.is_new and not self.arguments.peek]
        step: Step = "orchestrate status"
        if open_ := [one for one in letters if one.is_open]:
            step = Waits("lead", f"answer {open_[0].id}, or close it by `orchestrate msg ack`")
        elif running := [one for one in self.states if one.is_unfinished]:
            step = wait_of(running[-1])
        counts = [state.inbox.counts() for state in self.states]
        found = answer(
            (), step, messages=shown,
            **{name: sum(one[name] for one in counts) for name in ("new", "open", "unacknowledged")},
        )  # fmt: skip
        return found._replace(then=partial(self._show, new))

    def _show(self, new: Sequence[Record]) -> None:
        try:
            for run in dict.fromkeys(split(one.to)[0] for one in new):
                acks = [receipt(one) for one in new if split(one.to)[0] == run]
                with self.lead_log(run).held() as log:
                    log.append(*acks)
        except NotSentError as error:
            if self.say:
                self.say(f"warning: {error}; these messages stay new")

    def acknowledge(self) -> Answer[None]:
        """Close messages without an answer; all of them, or none."""
        book, chosen = self.book(), []
        for id_ in self.arguments.ids:
            message = self.named(book, id_)
            leads = [participant(split(one)[0], LEAD) for one in message.receivers()]
            if not any(lead in message.receivers() for lead in leads):
                raise _refusal(id_, "is not for the lead", f"`{INBOX}` shows what is")
            chosen.append(message)
        acked = []
        for message in chosen:
            run = split(message.record.to)[0]
            draft = receipt(message.record, "handled", self.arguments.note, by=self.by)
            try:
                with self.lead_log(run).held() as log:
                    (ack,) = log.append(draft)
            except NotSentError as error:
                raise _refusal(message.record.id, str(error), "it stays open") from None
            acked.append({"id": message.record.id, "stands": "handled", "ack": ack.id})
        return answer((), INBOX, acked=acked)

    # The audit

    def log(self) -> Answer[None]:
        """List messages, oldest first."""
        said, now = self.arguments, self.now().timestamp()
        if said.type not in (None, *TYPES):
            raise _refusal("--type", f"`{said.type}` is no type", f"write one of: {', '.join(sorted(TYPES))}")
        found = audit(self.root, self.run)
        by = Selection(said.named, said.type, said.standing, said.since)
        chosen = selected(found.messages, by, now)
        shown = chosen[-said.limit :] if said.limit else chosen
        records = [one.message.record for one in chosen]
        names = sorted({name for one in records for name in (one.sender, one.to)})
        people = [_participant(name, chosen, found.void.get(name, 0), now) for name in names]
        listed = [_audited(one, now) for one in shown]
        left = len(chosen) - len(shown)
        return answer((), "orchestrate status", messages=listed, participants=people, left_out=left)

    # Shared

    def lead_log(self, run: str) -> OwnLog:
        name = participant(run, LEAD)
        self.folder.mkdir(parents=True, exist_ok=True)
        return OwnLog(str(self.folder / log_name(name)), name, lambda: self.now().timestamp())

    def book(self) -> Book:
        book = Book()
        for seen in Logs(str(self.folder)).read_all().records:
            book.add(seen.record)
        return book

    def named(self, book: Book, id_: str) -> Message:
        """Return the message of an id, or of a unique end of one. Raises Refusal."""
        exact = book.get(id_)
        found = [exact] if exact else [one for one in book if one.record.id.endswith(id_)]
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(one.record.id for one in found[:5])
            raise _refusal(id_, "ends the ids of several messages", f"write one of: {ids}")
        raise _refusal(id_, "there is no such message", f"`{INBOX}` shows the ids")


def _refusal(place: str, what: str, do: str) -> Refusal:
    return Refusal(Problem(place, what, do), next_action=Waits("lead", f"{place}: {what}; {do}"))


def _resumes(state: RunState, asked: Message) -> bool:
    """Return whether an answer lets a worker go on that has ended."""
    return letter_of(state, asked, is_new=False).resumes


def _answered_before(asked: Message) -> list[Problem]:
    if not asked.answers:
        return []
    first = asked.answers[0]
    by = first.facts.get("by") or first.sender
    what = f"was answered already, by {by}: {first.body.splitlines()[0] if first.body else ''}"
    return [Problem(asked.record.id, what, "both answers stand, and the first counts", "warning")]


def _item(letter: Letter, now: float) -> dict[str, Any]:
    record = letter.message.record
    sent = datetime.fromisoformat(record.at).timestamp()
    return {
        **_record(record),
        "facts": dict(record.facts),
        "stands": letter.message.stands(now),
        "open": letter.is_open,
        "seconds": round(max(0.0, now - sent), 1),
        "worker_state": letter.worker_state,
        "answer_with": f'orchestrate msg send --re {record.id} "..."' if letter.is_open else None,
    }


def _record(record: Record) -> dict[str, Any]:
    found = record.as_json()
    return {key: found[key] for key in (*_KEYS, "body")}


def _audited(one: Audited, now: float) -> dict[str, Any]:
    message = one.message
    acks = [{"id": ack.id, "at": ack.at, "how": ack.how, "reason": ack.reason} for ack in message.acks]
    return {
        **_record(message.record),
        "facts": dict(message.record.facts),
        "stands": message.stands(now),
        "sent": message.sent,
        "record": one.record,
        "acks": acks,
        "answered_by": [answer.id for answer in message.answers],
    }


def _participant(name: str, found: Sequence[Audited], void: int, now: float) -> dict[str, Any]:
    sent = [one.message for one in found if one.message.record.sender == name]
    return {
        "name": name,
        "sent": len(sent),
        "received": sum(one.message.record.to == name for one in found),
        "unacknowledged": sum(one.stands(now) == "unacknowledged" for one in sent),
        "void": void,
    }
