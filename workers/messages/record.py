"""Records of message logs: one JSON object a line; who may be named in them, and which are valid.

Standard library only, as all of this room: each worker pays for what its server and its hooks import.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, NamedTuple, NoReturn

VERSION = 1
MAX_LINE = 262_144
MAX_BODY = 16_384
MAX_FACTS = 65_536
"""The most bytes of a line, of a body in UTF-8, of facts as written."""
MAX_TRIES = 99
LEAD, COORDINATOR, ALL = "lead", "coordinator", "all"
"""Names that no worker has."""
TYPES = frozenset((
    "plan_started", "plan_complete", "error", "phase_complete", "state_change", "task_progress", "blocker",
    "question", "chat", "answer", "cancel", "report", "ack",
))  # fmt: skip
KEYS = ("v", "id", "at", "from", "to", "type", "phase", "plan", "re", "try", "body", "facts")

_RUN = "[0-9]{8}_[0-9]{6}(?:_[0-9]+)?"
_NAME = "[A-Za-z0-9][A-Za-z0-9-]*"
_PARTICIPANT = re.compile(rf"({_RUN})\.({_NAME})")
_ID = re.compile(rf"({_RUN}\.{_NAME}):([1-9][0-9]{{0,8}})")
_AT = re.compile(
    "[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}[.][0-9]{3}Z"
)
_UNSAFE = "[\ud800-\udfff\0]"
_EPOCH = datetime.fromtimestamp(0, UTC)
_DEEPEST = 32


class Record(NamedTuple):
    """One record. `v` is always 1 and no field; `sender` is the key `from`, `tries` the key `try`."""

    id: str
    at: str
    sender: str
    to: str
    type: str
    phase: str | None = None
    plan: str | None = None
    re: str | None = None
    tries: int = 1
    body: str = ""
    facts: Mapping[str, Any] = {}

    @property
    def number(self) -> int:
        """Return N of the id `PARTICIPANT:N`."""
        return int(self.id.rpartition(":")[2])

    def as_json(self) -> dict[str, Any]:
        """Return the record with the keys of its line, in their order."""
        return dict(zip(KEYS, (VERSION, *self), strict=True))


class Void(NamedTuple):
    """Why a line is no valid record: a sentence about the line; `detail` is the part that may be anything."""

    reason: str
    detail: str = ""

    def __str__(self) -> str:
        """Return the whole sentence."""
        return f"{self.reason} {self.detail}".rstrip()


def participant(run: str, name: str) -> str:
    """Return the participant of a name in a run."""
    return f"{run}.{name}"


def split(participant: str) -> tuple[str, str]:
    """Return the run and the name of a participant."""
    run, _, name = participant.partition(".")
    return run, name


def is_participant(text: str) -> bool:
    """Return whether a text names a participant; `RUN.all` is none."""
    found = _PARTICIPANT.fullmatch(text)
    return found is not None and found[2] != ALL


def is_worker(participant: str) -> bool:
    """Return whether a participant is a worker."""
    return split(participant)[1] not in (LEAD, COORDINATOR, ALL)


def everyone(participant: str) -> str:
    """Return the receiver that means all participants of the same run."""
    return f"{split(participant)[0]}.{ALL}"


def lead_of(participant: str) -> str:
    """Return the lead of a participant's run."""
    return f"{split(participant)[0]}.{LEAD}"


def coordinator_of(participant: str) -> str:
    """Return the coordinator of a participant's run."""
    return f"{split(participant)[0]}.{COORDINATOR}"


def sender_of(id_: str) -> str:
    """Return the participant that an id belongs to."""
    return id_.rpartition(":")[0]


def log_name(participant: str) -> str:
    """Return the file name of a participant's log."""
    return f"{participant}.jsonl"


def participant_of(file_name: str) -> str | None:
    """Return the participant whose log has this file name; None where it is no log's."""
    name = file_name.removesuffix(".jsonl")
    return name if name != file_name and is_participant(name) else None


def short(participant: str, run: str) -> str:
    """Return a participant's name as it reads in a run: without the run where it is the same."""
    return participant.removeprefix(f"{run}.")


def stamp(milliseconds: int) -> str:
    """Return a time as records have it."""
    text = (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def milliseconds(at: str) -> int:
    """Return a record's time in milliseconds since 1970; the last of a short month's days runs over."""
    days = (datetime(int(at[:4]), int(at[5:7]), 1, tzinfo=UTC) - _EPOCH).days + int(at[8:10]) - 1
    return (
        ((days * 24 + int(at[11:13])) * 60 + int(at[14:16])) * 60_000 + int(at[17:19]) * 1000 + int(at[20:23])
    )


def clean(text: str) -> str:
    """Return a text as records hold it: no lone surrogate, no NUL, and LF alone as the end of a line."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isascii() and "\0" not in text else re.sub(_UNSAFE, "\ufffd", text)


def clean_facts(value: Any) -> Any:
    """Return a JSON value with all of its texts cleaned."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(name)): clean_facts(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [clean_facts(one) for one in value]
    return value


def encode(record: Record) -> bytes:
    """Return the line of a record, without its LF. Raises ValueError for facts that JSON cannot hold."""
    return _write(record.as_json()).encode("ascii")


def decode(line: bytes, participant: str) -> Record | Void:
    """Read a line, without its LF, of a participant's log; return why where it is no valid record."""
    if len(line) > MAX_LINE:
        return Void(f"has more than {MAX_LINE:,} bytes")
    try:
        found = _read(line.decode())
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return Void("is not a JSON object")
    if (version := found.get("v")) != VERSION or type(version) is not int:
        return Void("has another version than 1")
    if not found.keys() >= _KEYS:
        return Void("lacks a key:", next(key for key in KEYS if key not in found))
    record = Record(*_values(found))
    if wrong := wrong_key(record):
        return Void("has an invalid value:", wrong)
    if record.sender != participant:
        return Void("says it is from", short(record.sender, split(participant)[0])[:80])
    if sender_of(record.id) != participant:
        return Void("has an id of", short(sender_of(record.id), split(participant)[0])[:80])
    # A text that has to be cleaned cannot be written without an escape.
    return _cleaned(record) if b"\\" in line else record


def wrong_key(record: Record) -> str:
    """Return the first key whose value is none that the format allows; empty where all are."""
    for key, is_right, value in zip(KEYS[1:], _RIGHT, record, strict=True):
        if not is_right(value):
            return key
    return ""


def body_bytes(body: str) -> int:
    """Return the size of a body in UTF-8."""
    return len(body) if body.isascii() else len(body.encode("utf-8", "surrogatepass"))


def facts_bytes(facts: Mapping[str, Any]) -> int:
    """Return the size of facts as they are written. Raises ValueError where JSON cannot hold them."""
    return len(_write(facts)) if facts else 2


def are_facts(value: Any) -> bool:
    """Return whether a value is what a record may have as its facts."""
    if not isinstance(value, Mapping):
        return False
    if not value:
        return True
    try:
        return _is_shallow(value, _DEEPEST) and facts_bytes(value) <= MAX_FACTS
    except (ValueError, TypeError):
        return False


def _cleaned(record: Record) -> Record:
    phase, plan = (text and clean(text) for text in (record.phase, record.plan))
    facts = clean_facts(record.facts) if record.facts else record.facts
    return record._replace(phase=phase, plan=plan, body=clean(record.body), facts=facts)


def _text_of_at_most(count: int) -> Callable[[Any], bool]:
    return lambda value: value is None or (isinstance(value, str) and len(value) <= count)


def _matching(form: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and form.fullmatch(value) is not None


def _is_shallow(value: Any, deepest: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return deepest > 0 and all(_is_shallow(one, deepest - 1) for one in inner)


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


_is_id = _matching(_ID)
_RIGHT: tuple[Callable[[Any], bool], ...] = (
    _is_id,
    _matching(_AT),
    lambda value: isinstance(value, str) and is_participant(value),
    _matching(_PARTICIPANT),
    lambda value: isinstance(value, str) and value in TYPES,
    _text_of_at_most(64),
    _text_of_at_most(32),
    lambda value: value is None or _is_id(value),
    lambda value: type(value) is int and 1 <= value <= MAX_TRIES,
    lambda value: isinstance(value, str) and body_bytes(value) <= MAX_BODY,
    are_facts,
)
"""What is allowed, in the order of the fields."""
_KEYS = frozenset(KEYS)
_values = itemgetter(*KEYS[1:])
_write = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_read = json.JSONDecoder(parse_constant=_no_number).decode
