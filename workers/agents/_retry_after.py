"""When a provider allows the next request, in the various wordings of the CLIs."""

import re
from datetime import datetime, timedelta, timezone, tzinfo

from tickets.value import Value

LONGEST = 7 * 86400.0
"""Seconds; a later time is cut to this one."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = (
    r"(\d{1,12}(?:\.\d{1,12})?)\s*"
    r"(milliseconds?|msecs?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)(?![a-z])"
)
_SPAN = rf"{_PART}(?:[\s,]*(?:and\s+)?{_PART})*"
_LEAD = (
    r"(?:\bretry[-_ ]?after|\b(?:re)?try (?:it )?(?:again )?in|\bretry[-_ ]?delay|\bresets?[-_ ]?(?:after|in)"
    r"|\bavailable (?:again )?in|\bwait(?: for)?(?: at least)?)"
)
_AROUND = r"[\s\"':=]*(?:about |approximately )?\"?"
# Kept as text until something is read: to compile them takes a tenth of a `ps`.
_WORDED = rf"{_LEAD}{_AROUND}({_SPAN})"
_BARE = rf"{_LEAD}{_AROUND}(\d{{1,12}}(?:\.\d{{1,12}})?)(?![\w.:-]|\s*[ap]\.?m|\s\d)"
_FIELD = (
    r"\b(?:retry[-_]?(?:after|delay)|resets?[-_]?(?:after|in))[-_]?(ms|seconds|secs?|s)"
    r"\b[\s\"':=]*(\d{1,12}(?:\.\d{1,12})?)(?![\w.])"
)
_EPOCH = r"(?:\||\bresets?[-_ ]?(?:at|time)\b[\s\"':=]*)(\d{10}|\d{13})(?!\d)"
_NAMED = r"(?:\bresets?\b(?:[-_ ]?(?:at|on))?|\b(?:try|retry) again (?:at|on)|\bretry[-_ ]?after\b)[\s\"':=]*"
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_ISO = _NAMED + r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:?\d\d)?)"
_HTTP = (
    _NAMED + r"[a-z]{3}, (?P<day>\d\d) (?P<month>[a-z]{3}) (?P<year>\d{4})"
    r" (?P<hour>\d\d):(?P<minute>\d\d):\d\d (?P<zone>GMT)"
)
_CLOCK = (
    _NAMED + rf"(?:(?P<month>{'|'.join(_MONTHS)})[a-z]* (?P<day>\d{{1,2}})(?:st|nd|rd|th)?"
    r"(?:,? (?P<year>\d{4}))?,?(?: at)? )?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s?(?P<half>[ap]\.?m\b\.?)?(?![\d:])"
    r"(?: \(?(?P<zone>[a-z]+(?:/[a-z_+-]+\d*)*(?:[+-]\d{1,2}(?::?\d\d)?)?)\)?)?"
)
_OFFSET = r"(?:GMT|UTC)(?:([+-])(\d{1,2}):?(\d\d)?)?"
_SHORT = {"PST": -8, "PDT": -7, "MST": -7, "MDT": -6, "CST": -6, "CDT": -5, "EST": -5, "EDT": -4}
"""JavaScript's names of the zones of the United States; it writes all others as `GMT+1`."""


class Reset(Value):
    """The time of the next allowed request, as far as it is known."""

    after: float | None = None
    """Seconds, counted from the time of the message."""
    at: float | None = None
    """Epoch seconds, where a time was named."""


def reset_in(text: str, *, now: float | None = None, zone: tzinfo | None = None) -> Reset:
    """Return when `text` allows the next request: the latest time in it, at most `LONGEST` away.

    `now` is the time of the message, in epoch seconds: without it, no time of day and no date is read. `zone`
    is the zone of a time without one; None is the machine's own. Nonsense and past times give None.
    """
    spans = [_seconds(found[1]) for found in re.finditer(_WORDED, text, re.IGNORECASE)]
    spans += [float(found[1]) for found in re.finditer(_BARE, text, re.IGNORECASE)]
    fields = re.findall(_FIELD, text, re.IGNORECASE)
    spans += [float(number) * (0.001 if unit.lower() == "ms" else 1) for unit, number in fields]
    after = max((min(span, LONGEST) for span in spans if span > 0), default=None)
    if now is None:
        return Reset(after)
    epochs = re.findall(_EPOCH, text, re.IGNORECASE)
    times = [float(found) / (1000 if len(found) == 13 else 1) for found in epochs]
    for pattern, reading in ((_ISO, _of_iso), (_HTTP, _of_clock), (_CLOCK, _of_clock)):
        named = re.finditer(pattern, text, re.IGNORECASE)
        times += [at for found in named if (at := reading(found, now, zone)) is not None]
    return Reset(after, max((min(at, now + LONGEST) for at in times if at > now), default=None))


def delay_in(text: str) -> float | None:
    """Return how long a CLI announces to wait before it repeats a failed request, in seconds."""
    found = re.search(rf"\bretrying (?:in|after){_AROUND}({_SPAN})", text, re.IGNORECASE)
    return _seconds(found[1]) if found else reset_in(text).after


def _seconds(span: str) -> float:
    parts = re.findall(_PART, span, re.IGNORECASE)
    return sum(float(number) * _UNITS[_unit(unit.lower())] for number, unit in parts)


def _unit(word: str) -> str:
    return "ms" if word.startswith(("ms", "milli")) else word[0]


def _of_iso(found: re.Match[str], _now: float, zone: tzinfo | None) -> float | None:
    try:
        at = datetime.fromisoformat(found[1])
    except ValueError:
        return None
    return _epoch(at if at.tzinfo else at.replace(tzinfo=zone))


def _of_clock(found: re.Match[str], now: float, zone: tzinfo | None) -> float | None:
    """Return the time that a clock time means: the next such time, where the day is left open."""
    parts = found.groupdict()
    half = (parts.get("half") or "").lower()
    if not half and parts["minute"] is None:
        return None  # a bare number is a count of something
    zone = _zone(parts["zone"], zone)
    if zone is _UNKNOWN:
        return None
    hour, minute = int(parts["hour"]), int(parts["minute"] or 0)
    if half and not 1 <= hour <= 12:
        return None
    if half:
        hour = hour % 12 + (12 if half[0] == "p" else 0)
    today = datetime.fromtimestamp(now, zone)
    try:
        at = datetime(today.year, today.month, today.day, hour, minute, tzinfo=zone)
        if parts.get("month"):
            month = _MONTHS.index(parts["month"].lower()) + 1
            at = at.replace(int(parts.get("year") or today.year), month, int(parts["day"]))
            if not parts.get("year") and _epoch(at, now) < now - 180 * 86400:
                at = at.replace(year=at.year + 1)  # said in December of January
        elif (past := now - _epoch(at, now)) >= 0:
            # Seconds are cut off: a time that has just passed means today, not tomorrow.
            at = at + timedelta(days=1) if past > 120 else at
    except ValueError:
        return None
    return _epoch(at)


def _epoch(at: datetime, default: float = 0.0) -> float:
    try:
        return at.timestamp()
    except (OverflowError, OSError, ValueError):
        return default


_UNKNOWN = timezone(timedelta(hours=23, minutes=59), "unknown")


def _zone(name: str | None, zone: tzinfo | None) -> tzinfo | None:
    """Return the zone of a name; without a name `zone`, and `_UNKNOWN` where no zone has that name."""
    if not name or name.lower() in ("and", "or", "on", "to", "for", "if", "when", "local", "time"):
        return zone
    if name.upper() == "Z":
        return timezone.utc  # noqa: UP017 - beside `timedelta` the short name says less
    if offset := re.fullmatch(_OFFSET, name, re.IGNORECASE):
        sign, hours, minutes = offset.groups()
        span = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        return timezone(-span if sign == "-" else span) if span < timedelta(hours=24) else _UNKNOWN
    if name.upper() in _SHORT:
        return timezone(timedelta(hours=_SHORT[name.upper()]))
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - for start-up time: few texts name a zone

    try:
        return ZoneInfo(name)
    except (ValueError, OSError):
        return _UNKNOWN
    except KeyError:  # no such zone: most likely the next word of the sentence
        return _UNKNOWN if "/" in name else zone
