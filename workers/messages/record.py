"""Records of message logs: one JSON object a line; who may be named in them, and which are valid.

Standard library only, as all of this room: each worker pays for what its server and its hooks import.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import itemgetter
from sys import intern
from typing import Any, NamedTuple, NoReturn

VERSION = 1
MAX_LINE = 262_144
MAX_BODY = 16_384
MAX_FACTS = 65_536
"""The most bytes of a line, of a body in UTF-8, of facts as written."""
MAX_TRIES = 99
MAX_PHASE, MAX_PLAN = 64, 32
"""The most characters."""
LEAD, COORDINATOR, ALL = "lead", "coordinator", "all"
"""Names that no worker has."""
TYPES = frozenset((
    "plan_started", "plan_complete", "error", "phase_complete", "state_change", "task_progress", "blocker",
    "question", "chat", "answer", "cancel", "report", "ack",
))  # fmt: skip
KEYS = ("v", "id", "at", "from", "to", "type", "phase", "plan", "re", "try", "body", "facts")

_RUN = "[0-9]{8}_[0-9]{6}(?:_[0-9]+)?"
_NAME = "[A-Za-z0-9][A-Za-z0-9-]*"
_WHO = rf"{_RUN}\.{_NAME}"
_NUMBER = "[1-9][0-9]{0,8}"
_AT = (
    "[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}[.][0-9]{3}Z"
)
_PLAIN = r"[ !#-\[\]-~]"
"""What JSON writes as it is."""
_is_receiver = re.compile(_WHO).fullmatch
_is_id = re.compile(f"{_WHO}:{_NUMBER}").fullmatch
_is_at = re.compile(_AT).fullmatch
_as_we_write = re.compile(
    rf'{{"v":1,"id":"(({_WHO}):{_NUMBER})","at":"({_AT})","from":"\2","to":"({_WHO})","type":"([a-z_]+)",'
    rf'"phase":(?:null|"({_PLAIN}{{0,{MAX_PHASE}}})"),"plan":(?:null|"({_PLAIN}{{0,{MAX_PLAN}}})"),'
    rf'"re":(?:null|"({_WHO}:{_NUMBER})"),"try":([1-9][0-9]?),"body":"({_PLAIN}{{0,{MAX_BODY}}})",'
    r'"facts":(?:{}|{"how":"([a-z]+)"}|({[ -\[\]-~]*}))}'
).fullmatch
"""Matches a valid line as `encode` writes it, without escapes; facts may be anything."""
_UNSAFE = "[\ud800-\udfff\0]"
_TO_ALL, _TO_COORDINATOR, _OF_LEAD = f".{ALL}", f".{COORDINATOR}", f".{LEAD}"
_EPOCH = datetime.fromtimestamp(0, UTC)
_DEEPEST = 32
_REMEMBERED = 1024
_written: dict[bytes, "Record"] = {}


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
    return _is_receiver(text) is not None and not text.endswith(_TO_ALL)


def is_to_all(receiver: str) -> bool:
    """Return whether a receiver means all participants of a run."""
    return receiver.endswith(_TO_ALL)


def is_to_coordinator(receiver: str) -> bool:
    """Return whether a receiver is the coordinator of a run."""
    return receiver.endswith(_TO_COORDINATOR)


def is_lead(participant: str) -> bool:
    """Return whether a participant is the lead of a run."""
    return participant.endswith(_OF_LEAD)


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
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_second(seconds)}.{rest:03}Z"


@lru_cache(8)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat().removesuffix("+00:00")


def milliseconds(at: str) -> int:
    """Return a record's time in milliseconds since 1970; the last of a short month's days runs over."""
    return _minute(at[:16]) + int(at[17:19]) * 1000 + int(at[20:23])


@lru_cache(8)
def _minute(at: str) -> int:
    days = (datetime(int(at[:4]), int(at[5:7]), 1, tzinfo=UTC) - _EPOCH).days + int(at[8:10]) - 1
    return ((days * 24 + int(at[11:13])) * 60 + int(at[14:16])) * 60_000


def clean(text: str) -> str:
    """Return a text as records hold it: no lone surrogate, no NUL, and LF alone as the end of a line."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isascii() and "\0" not in text else re.sub(_UNSAFE, "\ufffd", text)


def clean_facts(value: Any) -> Any:
    """Return a JSON value with all of its texts cleaned."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(name)): clean_facts(one) for name, one in value.items()}
    if isinstance(value, list):
        return [clean_facts(one) for one in value]
    return value


def encode(record: Record) -> bytes:
    """Return the line of a record, without its LF. Raises ValueError for facts that JSON cannot hold."""
    id_, at, sender, to, kind, phase, plan, re_, tries, body, facts = record
    # As `json.dumps` writes it, in a third of its time.
    return (
        f'{{"v":1,"id":"{id_}","at":"{at}","from":"{sender}","to":"{to}","type":"{kind}",'
        f'"phase":{"null" if phase is None else _quoted(phase)},'
        f'"plan":{"null" if plan is None else _quoted(plan)},'
        f'"re":{"null" if re_ is None else _quoted(re_)},"try":{tries},'
        f'"body":{_quoted(body)},"facts":{_write(facts) if facts else "{}"}}}'
    ).encode("ascii")


def remember(line: bytes, record: Record) -> None:
    """Remember a line that this process has written: it need not be decoded when its log is read."""
    if len(_written) >= _REMEMBERED:
        _written.clear()
    _written[line] = record


def decode(line: bytes, participant: str) -> Record | Void:
    """Read a line, without its LF, of a participant's log; return why where it is no valid record."""
    if (known := _written.pop(line, None)) is not None and known.sender == participant:
        return known
    if len(line) > MAX_LINE:
        return Void(f"has more than {MAX_LINE:,} bytes")
    if (plain := _plain(line, participant)) is not None:
        return plain
    try:
        found = _read(line.decode())
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return Void("is not a JSON object")
    if type(version := found.get("v")) is not int or version != VERSION:
        return Void("has another version than 1")
    try:
        record = Record._make(_values(found))
    except KeyError as missing:
        return Void("lacks a key:", missing.args[0])
    if record.sender != participant or wrong_key(record, len(line)):
        return _why_void(record, participant)
    if sender_of(record.id) != participant:
        return Void("has an id of", short(sender_of(record.id), split(participant)[0])[:80])
    # A text that has to be cleaned cannot be written without an escape.
    return _shared(_cleaned(record) if b"\\" in line else record, participant)


def _plain(line: bytes, participant: str) -> Record | None:
    """Read a line by one match, in a third of the time: most are as `encode` writes them, without escapes."""
    found = _as_we_write(line.decode("ascii", "replace"))
    if found is None:
        return None
    id_, sender, at, to, kind, phase, plan, re_, tries, body, how, more = found.groups()
    if sender != participant or kind not in TYPES or sender.endswith(_TO_ALL):
        return None
    facts = {"how": intern(how)} if how else {}
    if more:
        try:
            facts = _read(more)
        except (ValueError, RecursionError):
            return None
        if not are_facts(facts, len(line)):
            return None
    phase, plan = phase and intern(phase), plan and intern(plan)
    values = (id_, at, participant, intern(to), intern(kind), phase, plan, re_, int(tries), body, facts)
    return _new(Record, values)


def _why_void(record: Record, participant: str) -> Void:
    if wrong := wrong_key(record, MAX_LINE):
        return Void("has an invalid value:", wrong)
    return Void("says it is from", short(record.sender, split(participant)[0])[:80])


def wrong_key(record: Record, size: int) -> str:
    """Return the first key whose value is none that the format allows; empty where all are.

    Of a record that came from a line of so many bytes, or may have any.
    """
    id_, at, sender, to, kind, phase, plan, re_, tries, body, facts = record
    # By hand: of what a reader does, this is most.
    if type(id_) is not str or not _is_id(id_):
        return "id"
    if type(at) is not str or not _is_at(at):
        return "at"
    if type(sender) is not str or not is_participant(sender):
        return "from"
    if type(to) is not str or not _is_receiver(to):
        return "to"
    if type(kind) is not str or kind not in TYPES:
        return "type"
    if phase is not None and (type(phase) is not str or len(phase) > MAX_PHASE):
        return "phase"
    if plan is not None and (type(plan) is not str or len(plan) > MAX_PLAN):
        return "plan"
    if re_ is not None and (type(re_) is not str or not _is_id(re_)):
        return "re"
    if type(tries) is not int or not 1 <= tries <= MAX_TRIES:
        return "try"
    if type(body) is not str or (len(body) * 4 > MAX_BODY and body_bytes(body) > MAX_BODY):
        return "body"
    if facts and not are_facts(facts, size):
        return "facts"
    return "" if isinstance(facts, dict) else "facts"


def body_bytes(body: str) -> int:
    """Return the size of a body in UTF-8."""
    return len(body) if body.isascii() else len(body.encode("utf-8", "surrogatepass"))


def facts_bytes(facts: Mapping[str, Any]) -> int:
    """Return the size of facts as they are written. Raises ValueError where JSON cannot hold them."""
    return len(_write(facts)) if facts else 2


def are_facts(value: Any, size: int = MAX_LINE) -> bool:
    """Return whether a value is what a record may have as its facts; `size` is that of its line, if known."""
    if not isinstance(value, dict):
        return False
    try:
        if _are_short(value):
            return True
        # What has come in few bytes of JSON can be written in few.
        return _is_shallow(value, _DEEPEST) and (size * 6 <= MAX_FACTS or facts_bytes(value) <= MAX_FACTS)
    except (ValueError, TypeError):
        return False


def _shared(record: Record, participant: str) -> Record:
    """Return a record with one text for what most records say, in place of one for each of them."""
    id_, at, _, to, kind, phase, plan, re_, tries, body, facts = record
    phase, plan = phase and intern(phase), plan and intern(plan)
    return Record(id_, at, participant, intern(to), intern(kind), phase, plan, re_, tries, body, facts)


def _cleaned(record: Record) -> Record:
    phase, plan = (text and clean(text) for text in (record.phase, record.plan))
    facts = clean_facts(record.facts) if record.facts else record.facts
    return record._replace(phase=phase, plan=plan, body=clean(record.body), facts=facts)


def _are_short(facts: dict[str, Any]) -> bool:
    """Return whether facts are short texts alone: a character is written in 12 bytes at most."""
    size = 0
    for name, one in facts.items():
        if type(one) is not str or type(name) is not str:
            return False
        size += len(name) + len(one) + 1
    return size * 12 <= MAX_FACTS


def _is_shallow(value: dict[str, Any] | list[Any], deepest: int) -> bool:
    for one in value.values() if isinstance(value, dict) else value:
        if isinstance(one, (dict, list)) and not (deepest > 1 and _is_shallow(one, deepest - 1)):
            return False
    return True


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _finite(text: str) -> float:
    number = float(text)
    if abs(number) == float("inf"):
        raise ValueError(text)
    return number


_new = tuple.__new__
_values = itemgetter(*KEYS[1:])
_quoted = json.encoder.encode_basestring_ascii
_write = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_read = json.JSONDecoder(parse_constant=_no_number, parse_float=_finite).decode
