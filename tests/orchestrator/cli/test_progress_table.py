"""The live table: what fits, what is shown first, and how a terminal sees it."""

import io
import os
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.cli.terminal.painter import Painter, can_paint, has_colour
from orchestrator.cli.terminal.table import table_lines
from orchestrator.cli.terminal.width import cells, elapsed
from orchestrator.runs.live import LiveRun
from orchestrator.runs.state import RunState, sound_roster
from workers.files.run_dir import RunDir

AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
NOW = AT + timedelta(seconds=75)
WIDE, NARROW = os.terminal_size((132, 40)), os.terminal_size((80, 24))


def run_of(tmp_path, count, agent="codex", titles=None):
    """Make a run of so many workers of which none has started."""
    run = RunDir(tmp_path, "20260216_142834")
    run.path.mkdir(parents=True, exist_ok=True)
    (run.path / "shims").mkdir(exist_ok=True)
    workers = [
        {
            "worker": f"{agent.title()}-Worker-{number}", "ticket": f"{agent}-{number}", "agent": agent,
            "title": titles[number - 1] if titles else f"Part {number}", "skipped": False,
        }
        for number in range(1, count + 1)
    ]  # fmt: skip
    return LiveRun(RunState(run, sound_roster({"phase": "phase-1", "workers": workers})))


def start(live, *numbers, agent="Codex"):
    for number in numbers:
        record = {"event": "started", "attempt": 1, "base": "0" * 40, "at": AT.isoformat()}
        live.state.take_all([{**record, "worker": f"{agent}-Worker-{number}"}])


def end(live, number, **facts):
    usage = {"input_tokens": 12_000, "output_tokens": 345, "cost_usd": 0.25}
    found = {"outcome": "complete", "verdict": "accepted", "seconds": 61.0, "usage": usage, "reason": ""}
    record = {"event": "ended", "worker": f"Codex-Worker-{number}", "facts": {**found, **facts}}
    live.state.take_all([record])


def table(live, size=NARROW, *, colour=False):
    return table_lines([live], NOW, size, colour=colour)


def test_a_worker_has_its_ticket_state_time_tokens_cost_and_last_words(tmp_path):
    live = run_of(tmp_path, 3)
    start(live, 1, 2)
    end(live, 1, reason="two tests were flaky")
    head, names, running, waiting, ended = table(live, WIDE)
    assert head == "run 20260216_142834 of phase-1, interrupted, $0.25: 1 stopped, 1 queued, 1 accepted"
    assert names.split() == ["WORKER", "TICKET", "STATE", "TIME", "TOKENS", "USD", "LAST"]
    assert running.split() == ["Codex-Worker-2", "codex-2", "lost", "1:15", "Part", "2"]
    assert waiting.split()[:3] == ["Codex-Worker-3", "codex-3", "waiting"]
    assert ended.split()[:6] == ["Codex-Worker-1", "codex-1", "accepted", "1:01", "12.3k", "0.25"]
    # One below the other.
    assert len({line.index(word) for line, word in ((names, "LAST"), (running, "Part"), (ended, "two"))}) == 1


def test_where_room_is_short_the_counts_have_a_line_and_what_is_said_has_the_room_of_the_ticket(tmp_path):
    live = run_of(tmp_path, 4)
    start(live, 1, 2)
    end(live, 1, outcome="blocked", verdict="rejected", reason="no permission for run_shell_command: cat")
    live.state.take_all(
        [{"event": "held", "worker": "Codex-Worker-3", "reason": "room in the run's budget of $6.00"}]
    )
    head, counts, names, *_, ended = table(live)
    assert head == "run 20260216_142834 of phase-1, interrupted, $0.25"
    assert counts == "  1 stopped, 2 queued, 1 blocked"
    assert names.split() == ["WORKER", "STATE", "TIME", "TOKENS", "USD", "LAST"]
    assert "blocked" in ended
    assert "no permission for run_shell_comm" in ended


def test_a_ticket_whose_worker_does_not_tell_it_keeps_its_column(tmp_path):
    live = run_of(tmp_path, 2)
    live.state.workers["Codex-Worker-1"].ticket = "sweep[package=api]"
    start(live, 1, 2)
    end(live, 2)
    assert "sweep[package=api]" in "\n".join(table(live))


def test_who_ended_in_trouble_stands_above_who_ended_well(tmp_path):
    live = run_of(tmp_path, 40)
    start(live, *range(1, 41))
    for number in range(1, 41):
        bad = number % 20 == 0
        facts = {"outcome": "blocked", "verdict": "rejected"} if bad else {}
        end(live, number, ended_at=(AT + timedelta(seconds=number)).isoformat(), **facts)
    head, _, *rows = table(live)
    assert head.endswith(": 2 blocked, 38 accepted")
    assert [row.split()[0] for row in rows[:3]] == [f"Codex-Worker-{n}" for n in (40, 20, 39)]


def test_another_attempt_is_said_in_a_word(tmp_path):
    live = run_of(tmp_path, 1)
    start(live, 1)
    live.state.workers["Codex-Worker-1"].retrying = True
    assert table(live)[-1].split()[2:5] == ["to", "retry", "1:15"]


def test_tokens_that_nobody_priced_are_labelled(tmp_path):
    live = run_of(tmp_path, 2)
    start(live, 1)
    end(live, 1, usage={"input_tokens": 12_000, "output_tokens": 345, "cost_usd": None})
    head, _, _, ended = table(live, WIDE)
    assert head.startswith("run 20260216_142834 of phase-1, interrupted, 12.3k tokens: ")
    assert ended.split()[4:6] == ["12.3k", "unpriced"]


def test_fields_that_nobody_fills_take_no_room(tmp_path):
    live = run_of(tmp_path, 2)
    start(live, 1, 2)
    assert table(live)[1].split() == ["WORKER", "TICKET", "STATE", "TIME", "LAST"]


def test_those_that_run_come_first_and_the_rest_is_counted(tmp_path):
    live = run_of(tmp_path, 10_000)
    start(live, *range(1, 31))
    for number in range(1, 16):
        end(live, number)
    lines = table(live)
    assert len(lines) <= 23
    assert [line.split()[0] for line in lines[3:18]] == [f"Codex-Worker-{n}" for n in range(16, 31)]
    assert lines[-1] == f"  and {10_000 - len(lines) + 4:,} more"
    assert "9970 queued" in lines[1]


def test_colour_comes_in_addition_and_changes_no_text(tmp_path):
    live = run_of(tmp_path, 3)
    start(live, 1, 2)
    end(live, 1)
    end(live, 2, outcome="failed", verdict="rejected", reason="exit code 1")
    coloured = "\n".join(table(live, colour=True))
    assert "\x1b[32maccepted" in coloured
    assert "\x1b[31mfailed" in coloured
    for code in ("\x1b[32m", "\x1b[31m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert [line.rstrip() for line in coloured.split("\n")] == table(live)


HOSTILE = st.text(
    st.sampled_from("ab \x1b[2J\x9b\x07\r\n\t\u202e\u2066\u200b日本語é\u0301\ud800\U0001f600"), max_size=60
)


@settings(max_examples=40, deadline=None)
@given(
    titles=st.lists(HOSTILE, min_size=1, max_size=20),
    columns=st.integers(10, 140),
    rows=st.integers(1, 40),
    data=st.data(),
)
def test_whatever_is_said_the_table_fits_and_acts_on_no_terminal(
    tmp_path_factory, titles, columns, rows, data
):
    live = run_of(tmp_path_factory.mktemp("table"), len(titles), titles=titles)
    started = data.draw(st.sets(st.integers(1, len(titles))))
    start(live, *started)
    for number in data.draw(st.sets(st.sampled_from(sorted(started) or [1]))) & started:
        end(live, number, reason=data.draw(HOSTILE))
    lines = table(live, os.terminal_size((columns, rows)))
    assert len(lines) <= max(1, rows - 1)
    assert all(line.isprintable() for line in lines)
    assert all(cells(line) <= columns for line in lines)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.9, "0:59"), (61, "1:01"), (3600, "1:00:00"), (90061, "25:01:01")]
)
def test_a_span_reads_as_a_clock(seconds, text):
    assert elapsed(seconds) == text


class Terminal(io.StringIO):
    """A terminal of a certain size that keeps what it is given, and can play it."""

    def __init__(self, columns=20, rows=8):
        super().__init__()
        self.columns, self.rows = columns, rows

    def isatty(self):
        return True

    def screen(self):
        """Play what was written: the lines that a person would see, those that scrolled off included."""
        lines, row = [""], 0
        text = self.getvalue()
        at = 0
        while at < len(text):
            if text.startswith("\x1b[", at):
                stop = next(i for i in range(at + 2, len(text)) if text[i].isalpha())
                code, at = text[at + 2 : stop + 1], stop + 1
                if code.endswith("A"):
                    row = max(0, row - int(code[:-1]))
                elif code == "2K":
                    lines[row] = ""
                elif code == "J":
                    del lines[row + 1 :]
                    lines[row] = ""
                continue
            if text[at] == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            elif text[at] != "\r":
                lines[row] += text[at]
            at += 1
        return lines


class Sized(Painter):
    """A painter whose terminal reports a size."""

    @property
    def size(self):
        return os.terminal_size((self._stream.columns, self._stream.rows))


def test_a_picture_takes_the_place_of_the_one_before():
    terminal = Terminal()
    painter = Sized(terminal)
    painter.draw(["one", "two", "three"])
    painter.draw(["four"])
    assert terminal.screen() == ["four", ""]
    painter.draw(["five", "six"])
    assert terminal.screen() == ["five", "six", ""]


def test_lines_above_stay_and_the_picture_moves_down():
    terminal = Terminal()
    painter = Sized(terminal)
    painter.above("first event")
    painter.draw(["one", "two"])
    painter.above("second event")
    painter.write("a log ")
    painter.write("line\n")
    painter.flush()
    assert terminal.screen() == ["first event", "second event", "a log line", "one", "two", ""]
    painter.erase()
    painter.erase()
    assert terminal.screen() == ["first event", "second event", "a log line", ""]


def test_a_terminal_that_became_narrower_is_taken_to_have_wrapped():
    terminal = Terminal(columns=20)
    painter = Sized(terminal)
    painter.draw(["x" * 20, "y" * 5])
    terminal.columns = 8
    terminal.truncate(0)
    terminal.seek(0)
    painter.draw(["z"])
    # Three lines that were one, and one: the way back is four.
    assert terminal.getvalue().startswith("\r\x1b[4A")


def test_colours_are_not_counted_as_columns():
    terminal = Terminal(columns=5)
    painter = Sized(terminal)
    painter.draw(["\x1b[32mabcde\x1b[0m"])
    painter.draw(["b"])
    assert "\x1b[1A" in terminal.getvalue()
    assert "\x1b[2A" not in terminal.getvalue()


def test_the_other_screen_is_left_with_the_last_picture_in_sight():
    terminal = Terminal()
    painter = Sized(terminal, alone=True)
    painter.draw(["one"])
    painter.draw(["two"])
    painter.leave()
    painter.leave()
    text = terminal.getvalue()
    assert text.count("\x1b[?1049h") == text.count("\x1b[?1049l") == 1
    assert text.partition("\x1b[?1049l")[2] == "two\n"


@pytest.mark.parametrize(
    ("environ", "paints"),
    [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({}, False), ({"TERM": ""}, False)],
)
def test_only_a_terminal_that_can_move_its_cursor_is_painted(environ, paints):
    assert can_paint(Terminal(), environ) is paints
    assert not can_paint(io.StringIO(), environ)


def test_no_color_with_any_value_is_no_colour():
    assert has_colour({})
    assert has_colour({"NO_COLOR": ""})
    assert not has_colour({"NO_COLOR": "0"})
