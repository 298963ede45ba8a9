"""All messages of some runs for an audit: from the logs, the runtimes' copies, packed runs and chat logs."""

import json
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from orchestrator.state.events import ChatMessage
from tickets.value import Value
from workers.files.read import read_whole
from workers.files.run_dir import ARCHIVE, MESSAGES, RUNS
from workers.messages.logs import Logs
from workers.messages.record import Record, decode, sender_of, split
from workers.messages.standing import ACK_LIMIT, Book, Message

COPY = "messages.jsonl"
"""The runtime's copy in a run's folder."""
_NO_CHAT = ("ack", "task_progress", "report")
Stored = Literal["same", "altered", "missing", "unseen"]
"""A log's line against the copy; `missing`: the log lacks it, `unseen`: no runtime has copied it."""


class Audited(Value):
    """One message, as an audit shows it."""

    message: Message
    record: Stored


class Selection(Value):
    """Which messages are meant; a part that is None or empty means all."""

    named: tuple[str, ...] = ()
    """From or to each of them."""
    type: str | None = None
    standing: str | None = None
    since: str | None = None
    """A time as records have it."""


class Audit(Value):
    """The messages of some runs, oldest first."""

    messages: tuple[Audited, ...]
    void: dict[str, int]
    """By participant, how many lines of its log are no records, or receipts that count for nothing."""


def audit(root: Path, run: str | None) -> Audit:
    """Read all that is left of the messages of one run, or of all."""
    logs = Logs(str(root / MESSAGES))
    seen = logs.read_all().records
    logged = {(one.record.id, one.record.tries): one.line for one in seen}
    copied = {(record.id, record.tries): line for record, line in _copies(root, run)}
    book = Book()
    # The copy first: what it has stands, whatever became of a log since.
    for record in (*(record for record, _ in _copies(root, run)), *(one.record for one in seen)):
        book.add(record)
    there = {split(sender_of(id_))[0] for id_, _ in (*logged, *copied)}
    found = [
        Audited(message, _stored(message.record, logged, copied))
        for message in book
        if run is None or run in (split(message.record.sender)[0], split(message.record.to)[0])
    ]
    found += [Audited(one, "unseen") for one in _chats(root, run, there)]
    found.sort(key=lambda one: (one.message.record.at, one.message.record.sender, one.message.record.number))
    return Audit(tuple(found), dict(Counter(logs.void_counts()) + Counter(book.void_acks())))


def chat_of(root: Path, run: str, now: float) -> tuple[ChatMessage, ...]:
    """Return what the participants of a run said to each other, as the chat log keeps it."""
    found = []
    for one in audit(root, run).messages:
        record, message = one.message.record, one.message
        if record.type not in _NO_CHAT:
            where = record.id, record.at, record.sender, record.to, record.type
            about = record.phase, record.plan, record.re, record.body, message.stands(now)
            found.append(ChatMessage(*where, *about, tuple(answer.id for answer in message.answers)))
    return tuple(found)


def decoded_copy(line: bytes) -> Record | None:
    """Return the record of a copied line; None where it is none."""
    # In its log the sender is known by the file's name; here only the id can tell it.
    head = line[: line.find(b'","')].rpartition(b'"')[2]
    found = decode(line, sender_of(head.decode("ascii", "replace")))
    return found if isinstance(found, Record) else None


def _stored(record: Record, logged: dict[Any, bytes], copied: dict[Any, bytes]) -> Stored:
    key = record.id, record.tries
    if key not in copied:
        return "unseen"
    if key not in logged:
        return "missing"
    return "same" if logged[key] == copied[key] else "altered"


def _copies(root: Path, run: str | None) -> Iterator[tuple[Record, bytes]]:
    folders = [root / RUNS / run] if run else sorted((root / RUNS).glob("*_*"))
    texts = [_text(folder / COPY) for folder in folders]
    if run and not (root / RUNS / run).is_dir():
        texts += _packed(root / ARCHIVE / f"{run}.tar.gz", run)
    for line in (line for text in texts for line in text.split(b"\n") if line):
        record = decoded_copy(line)
        if record is not None:
            yield record, line


def _text(path: Path) -> bytes:
    try:
        return read_whole(path)
    except OSError:
        return b""


def _packed(path: Path, run: str) -> Iterator[bytes]:
    with suppress(OSError, tarfile.TarError), tarfile.open(path) as pack:
        for member in pack:
            is_copy = member.name == f"{run}/{COPY}"
            is_log = member.name.startswith(f"{run}/messages/") and member.name.endswith(".jsonl")
            if (is_copy or is_log) and (file := pack.extractfile(member)):
                yield file.read()


def _chats(root: Path, run: str | None, there: set[str]) -> Iterator[Message]:
    """Yield what chat logs have of runs of which nothing else is left."""
    for path in sorted(root.glob(f"phases/*/chat/{run or '*'}.jsonl")):
        if path.stem in there:
            continue
        for line in _text(path).splitlines():
            with suppress(ValueError, KeyError, TypeError):
                found = json.loads(line)
                keys = ("id", "at", "from", "to", "type", "phase", "plan", "re")
                id_, at, sender, to, type_, phase, plan, re = (found[key] for key in keys)
                yield Message(Record(id_, at, sender, to, type_, phase, plan, re, 1, found["body"]))


def selected(found: Iterable[Audited], by: Selection, now: float) -> list[Audited]:
    """Return the messages that a selection means; `now` is in epoch seconds."""
    chosen = []
    for one in found:
        record = one.message.record
        names = (record.sender, record.to, split(record.sender)[1], split(record.to)[1])
        if (
            all(name in names for name in by.named)
            and by.type in (None, record.type)
            and (by.since is None or record.at >= by.since)
            and by.standing in (None, one.message.stands(now, ACK_LIMIT))
        ):
            chosen.append(one)
    return chosen
