"""When to ask again, from the words of providers and CLIs: a table of them with what they mean."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.agents._retry_after import LONGEST, Reset, delay_in, reset_in

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC).timestamp()
DAY = 86400


def said(text):
    return reset_in(text, now=NOW, zone=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("retry after 7", 7),
        ("Retry-After: 7", 7),
        ("429 {'retry_after': 12.5}", 12.5),
        ("scripted error 429\nSuggested retry after 7s.", 7),
        ("Please try again in 1.242s. Visit https://x.test/429", 1.242),
        ("Rate limit reached. Please try again in 6m0s", 360),
        ("Please retry in 16.2s.", 16.2),
        ("Please retry in 850ms.", 0.85),
        ("You've hit your usage limit. Try again in 3 hours 5 minutes.", 3 * 3600 + 300),
        ("try again in 2 days 3 hours 1 minute", 2 * DAY + 3 * 3600 + 60),
        ("try again in 1 hour, 2 minutes and 3 seconds", 3723),
        ("Your quota will reset after 3h21m4s.", 3 * 3600 + 21 * 60 + 4),
        ('{"type":"usage_limit_reached","resets_in_seconds":3600}', 3600),
        ('"retryDelay": "16s"', 16),
        ("  retryDelayMs: 7000,", 7),
        ('"retry_delay_ms": 514.5', 0.5145),
        ("retry-after-ms: 1500", 1.5),
        ("It will be available again in about 20 minutes", 1200),
        ("Too many requests: wait for 30 seconds", 30),
        ("retry after 2s, then retry after 9s", 9),
        ("try again in 30 days", LONGEST),
        ("retry after 999999999999", LONGEST),
    ],
)
def test_a_span_is_understood(text, seconds):
    found = said(text)
    assert found.at is None
    assert found.after == pytest.approx(seconds)
    assert reset_in(text) == found


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("Claude AI usage limit reached|1796000000", "2026-11-30 00:53:20"),
        ('{"resets_at": 1796000000, "x": 1}', "2026-11-30 00:53:20"),
        ('"resetsAt":1796000000000', "2026-11-30 00:53:20"),
        ("You've hit your session limit · resets 3pm (Europe/Berlin)", "2026-11-28 14:00"),
        ("You've hit your limit · resets 3:30pm (America/New_York)", "2026-11-28 20:30"),
        ("resets 11am (UTC)", "2026-11-29 11:00"),
        ("resets 12am (UTC)", "2026-11-29 00:00"),
        ("resets 12pm (Asia/Tokyo)", "2026-11-29 03:00"),
        ("weekly limit · resets Dec 1, 5pm (Europe/Berlin)", "2026-12-01 16:00"),
        ("weekly limit · resets Dec 1 at 5:15pm (Europe/Berlin)", "2026-12-01 16:15"),
        ("You've hit your usage limit. Upgrade to Pro, or try again at 3:05 PM.", "2026-11-28 15:05"),
        ("Try again at 5 PM.", "2026-11-28 17:00"),
        ("Try again at Nov 30th, 2026 9:41 AM.", "2026-11-30 09:41"),
        ("Access resets at 3:05 PM GMT+1.", "2026-11-28 14:05"),
        ("Access resets at 3:05 PM PST.", "2026-11-28 23:05"),
        ("resets at 2026-11-28T15:00:00Z", "2026-11-28 15:00"),
        ("resets at 2026-11-28T15:00:00+02:00", "2026-11-28 13:00"),
        ("retry after 3pm", "2026-11-28 15:00"),
        ("try again at 15:05", "2026-11-28 15:05"),
        ("Retry-After: Sat, 28 Nov 2026 13:28:00 GMT", "2026-11-28 13:28"),
        ("resets Jan 2, 5pm (UTC)", "2026-12-05 12:00"),
    ],
)
def test_a_time_is_understood(text, time):
    found = said(text)
    assert found.after is None
    assert datetime.fromtimestamp(found.at, UTC) == datetime.fromisoformat(time).replace(tzinfo=UTC)
    assert reset_in(text) == Reset()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Please wait and try again later.",
        "try again in a moment",
        "retry after 0",
        "retry after -5",
        "retryDelayMs: undefined",
        "usage limit reached|1767225600",
        "resets_at: 12",
        "resets at 25:00",
        "resets 13pm (UTC)",
        "resets 3pm (Middle/Nowhere)",
        "resets at 11:59 AM UTC",
        "resets Nov 31, 3pm (UTC)",
        "try again at Nov 2nd, 2026 9:41 AM",
        "resets at 2020-01-01T00:00:00Z",
        "resets at 2026-99-99T00:00:00Z",
        "exceeded retry limit, last status: 429 Too Many Requests",
        "Reconnecting... 1/5 (429)",
        "resets 5 counters",
    ],
)
def test_nonsense_and_what_is_past_name_no_time(text):
    assert said(text) == Reset()


def test_a_time_without_a_zone_is_meant_where_the_machine_is():
    berlin = ZoneInfo("Europe/Berlin")
    assert reset_in("try again at 3:05 PM", now=NOW, zone=berlin).at == NOW + 2 * 3600 + 5 * 60
    here = reset_in("try again at 3:05 PM", now=NOW).at
    assert datetime.fromtimestamp(here).strftime("%H:%M") == "15:05"  # noqa: DTZ006 - the machine's own


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Attempt 1 failed: slow down. Retrying after 16245ms...", 16.245),
        ("Retrying in 5 seconds", 5),
        ("Attempt 1 failed with status 429. Retrying with backoff...", None),
        ("Reconnecting... 2/5 (try again in 20s)", 20),
    ],
)
def test_the_pause_before_another_request_is_understood(text, seconds):
    assert delay_in(text) == seconds


WORDS = [
    *("resets", "retry", "after", "try", "again", "in", "at", "3pm", "7", "11:59", "Dec", "31st", "2026"),
    *("|1796000000", "(UTC)", "GMT+99", "ms", "s", "h", ",", "Z"),
]


@settings(max_examples=150)
@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=12).map(" ".join))
def test_no_words_name_a_time_that_is_past_or_out_of_reach(text):
    found = said(text)
    assert found.after is None or 0 < found.after <= LONGEST
    assert found.at is None or NOW < found.at <= NOW + LONGEST
