"""What a worker prints: long, cut, split, noisy, too much; all of it is kept, and records are found in it."""

import contextlib
import hashlib
import json
import time
from pathlib import Path

import pytest
from support.faults import AGENTS, step, ticket

from workers.agents.stream import MAX_RECORD

pytestmark = pytest.mark.hardening
MB = 1_000_000


def is_whole(rehearsal, one):
    """Return whether the log is what the worker reports to have printed, byte for byte."""
    printed = rehearsal.stdout(one)
    said = rehearsal.stdout(one, ".stderr").decode().splitlines()[-1]
    return said == f"sha256 {hashlib.sha256(printed).hexdigest()} of {len(printed)} bytes"


@pytest.mark.parametrize("size", [200_000, 10 * MB])
def test_a_record_of_any_length_on_one_line_is_kept_and_read(rehearsal, size):
    """T08: the records before and after it are read, too."""
    steps = [
        step("sum"),
        step("say"),
        step("long", bytes=size),
        step("say", text="After it."),
        step("answer"),
    ]
    rehearsal.prepare({f"{name}-1": ticket(*steps, agent=name) for name in AGENTS})
    for one in rehearsal.run()["workers"]:
        assert (one["outcome"], one["usage"]["output_tokens"]) == ("complete", 10)
        assert is_whole(rehearsal, one)
        longest = max(rehearsal.stdout(one).splitlines(), key=len)
        assert len(json.dumps(json.loads(longest))) > size
        # Claude shows what a tool printed twice: one of ten megabytes is more than is read of a record.
        assert one["flags"] == (["oversize_record"] if len(longest) > MAX_RECORD else [])


def test_a_last_record_that_is_cut_is_an_incomplete_output_and_tried_again(rehearsal):
    """T09: the first 65,536 bytes of a longer answer, and exit 0."""
    rehearsal.prepare({
        f"{name}-1": ticket(step("cut", bytes=65536), agent=name, retries=1) for name in AGENTS
    })  # fmt: skip
    for one in rehearsal.run()["workers"]:
        assert (one["outcome"], one["exit_code"], one["attempts"]) == ("failed", 0, 2)
        assert "incomplete output" in one["reason"]
        assert len(rehearsal.stdout(one)) == 65536
    assert len(rehearsal.journal("retry")) == 3


def test_characters_that_come_in_parts_are_put_together(rehearsal):
    """T10: one record byte by byte, then 150,000 characters of two, three and four bytes at full speed."""
    letters, times = "\u00e9\u20ac\U0001f600", 50_000
    steps = [
        step("sum"),
        step("split", text=letters, gap=0.002),
        step("say", text=letters, times=times),
        step("answer", text=letters, times=times),
    ]
    rehearsal.prepare({f"{name}-1": ticket(*steps, agent=name) for name in AGENTS})
    for one in rehearsal.run()["workers"]:
        assert one["outcome"] == "complete"
        assert is_whole(rehearsal, one)
        answer = (rehearsal.root / one["output"]).read_text()
        # Gemini's answer is all that it said since its last tool.
        said = times + (times + 1 if one["agent"] == "gemini" else 0)
        assert [answer.count(letter) for letter in letters] == [said] * 3
        assert "\ufffd" not in answer + rehearsal.stdout(one).decode()


def test_noise_around_records_stays_in_the_raw_log(rehearsal):
    """T11: escapes in front of the first record, log lines, a blank line, chatter after the last."""
    query = "\x1b[6n\x1b]11;?\x07"
    steps = [
        step("raw", stdout=query),
        step("say", text="First."),
        step("noise"),
        step("say", text="Second."),
        step("raw", stdout="[WARN] nearly done: {not a record}\n"),
        step("answer", text=f"All {query} done."),
        step("raw", stdout=f"Bye. {query}\n"),
    ]
    rehearsal.prepare({f"{name}-1": ticket(*steps, agent=name) for name in AGENTS})
    document = rehearsal.run()
    for one in document["workers"]:
        assert (one["outcome"], one["flags"]) == ("complete", [])
        raw = rehearsal.stdout(one)
        assert raw.startswith(query.encode() + b"{")
        assert raw.endswith(query.encode() + b"\n")
        assert b"\x1b" not in (rehearsal.root / one["output"]).with_suffix(".json").read_bytes()
    for name in ("STATUS.md", "DECISIONS.md", "AGENTS.md"):
        assert b"\x1b" not in (rehearsal.root / name).read_bytes()
    for command in (("status",), ("resume",), ("integrate", "last")):
        shown = rehearsal.lab.call(*command)
        assert "\x1b" not in shown.out + shown.err


def test_both_outputs_are_taken_however_full_they_are(rehearsal):
    """T12: a megabyte on standard error, then one on standard output, then the answer."""
    line = "x" * 99 + "\n"
    steps = [
        step("sum"),
        step("raw", stderr=line, times=10_000),
        step("raw", stdout=line, times=10_000),
        step("answer"),
    ]
    fill = "i=0; while [ $i -lt 2000 ]; do echo {0}; i=$((i+1)); done"
    piped = [fill.format("x" * 499 + " >&2"), fill.format("x" * 499)]
    rehearsal.prepare({
        **{f"{name}-1": ticket(*steps, agent=name) for name in AGENTS},
        "command-1": ticket(*piped, agent="command"),
    })  # fmt: skip
    document = rehearsal.run()
    for one in document["workers"]:
        assert one["outcome"] == "complete"
        errors, printed = rehearsal.stdout(one, ".stderr"), rehearsal.stdout(one)
        if one["agent"] == "command":
            assert (len(errors), len(printed)) == (MB, MB)
        else:
            assert is_whole(rehearsal, one)
            assert errors.startswith(line.encode() * 10_000 + b"sha256 ")


def test_a_flood_is_cut_at_its_cap_and_drowns_nobody(rehearsal):
    """T13: as fast as it can for five seconds, beside fourteen others that do their work."""
    cap = 10 * MB
    good = {
        **{f"codex-{number}": ticket(agent="codex") for number in range(1, 6)},
        **{f"claude-{number}": ticket() for number in range(2, 6)},
        **{f"gemini-{number}": ticket(agent="gemini") for number in range(1, 6)},
    }
    rehearsal.prepare(good, cap="10 MB")
    quiet = peak(rehearsal.begin("run", "phase-1"))
    rehearsal.prepare({"claude-1": ticket(step("flood", seconds=5))}, cap="10 MB")
    loud = peak(rehearsal.begin("run", "phase-1", "--again"))
    print(f"peak of the runtime: {quiet / MB:.0f} MB, beside a flood {loud / MB:.0f} MB")
    assert loud - quiet < 50 * MB
    document = rehearsal.run("integrate", "last")
    outcomes = {one["ticket"]: one["outcome"] for one in document["workers"]}
    assert outcomes == {"claude-1": "failed", **dict.fromkeys(good, "complete")}
    one = rehearsal.worker(document, "claude-1")
    assert "output_cap" in one["reason"]
    assert "output_cut" in one["flags"]
    printed = rehearsal.stdout(one)
    mark = printed[cap:]
    assert mark.startswith(b"\n[orchestrate: output cut here")
    assert len(mark) < 100


def peak(runtime):
    """Wait for a command to end; return the most memory that it had, in bytes."""
    # Not from its resource usage: that begins with what its parent, the test's own process, had.
    most = 0
    while runtime.poll() is None:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{runtime.pid}/status").read_text().splitlines():
                most = max(most, int(line.split()[1]) * 1024 if line.startswith("VmHWM:") else 0)
        time.sleep(0.01)
    assert most
    return most
