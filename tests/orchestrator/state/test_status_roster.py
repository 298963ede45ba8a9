"""The roster in STATUS.md: who runs, who waits, who has ended, said once however often it is recorded."""

import sys
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.status import LATER, LITERAL, RUN, after, completion, deployed, entry, integrated, roster

from orchestrator.errors import StateError
from orchestrator.state.canonical.status import status
from orchestrator.state.events import RosterEntry, RunClosed
from tickets.markdown import parse


def test_a_deployed_run_stands_on_the_roster_word_for_word(start):
    text = after(start, deployed(entry(), entry("Claude-Worker-1", "Judge it", ())))
    assert roster(text.replace(b"\r\n", b"\n")).startswith(
        "**Active Workers:**\n"
        "- Codex-Worker-1: Port the parser (Scope: src/parser/**, run 20260216_142834)\n"
        "- Claude-Worker-1: Judge it (Scope: none, run 20260216_142834)\n"
        "\n**Recent Completions:**\n"
    )
    found = status.read(text)
    assert (found.last_updated, found.lead) == ("2026-02-16 14:28", "Ada")
    assert found.active[0][:5] == ("Codex-Worker-1", "Port the parser", "src/parser/**", RUN, "")


def test_an_event_changes_only_the_lines_it_is_about(start):
    text = after(start, deployed())
    gone = set(start.splitlines(keepends=True)) - set(text.splitlines(keepends=True))
    assert {line.split(b":**")[0] for line in gone} == {b"**Last Updated"}
    assert len(text.splitlines()) == len(start.splitlines()) + 1


def test_an_integrated_run_moves_to_the_top_of_the_completions(start):
    text = after(start, deployed(), integrated())
    assert roster(text.replace(b"\r\n", b"\n")) == (
        "**Active Workers:**\n\n**Recent Completions:**\n"
        f"- Codex-Worker-1: Port the parser (COMPLETE, accepted, integrated 2026-02-17, run {RUN}, phase-2)\n"
        "- Codex-Worker-3: Old task (COMPLETE, integrated 2026-02-15)"
    )
    assert status.read(text).lead == "Grace"


def test_what_was_not_accepted_leaves_the_roster_and_is_no_completion():
    failed = completion(outcome="timed_out", verdict="rejected")
    text = after(LITERAL.encode(), deployed(), integrated(failed, completion("B-1", "skipped", None)))
    read = status.read(text)
    assert [one.worker for one in read.active] == [one.worker for one in status.read(LITERAL.encode()).active]
    assert [one.worker for one in read.completions] == ["Codex-Worker-3"]


def test_an_accepted_result_that_the_lead_rejects_is_no_completion_any_more():
    accepted = after(LITERAL.encode(), deployed(), integrated())
    rejected = after(accepted, integrated(completion(verdict="rejected")))
    assert len(status.read(rejected).completions) == len(status.read(accepted).completions) - 1
    assert after(rejected, integrated(completion(verdict="rejected"))) == rejected
    partial = after(rejected, integrated(completion(verdict="partial")))
    assert status.read(partial).completions[0].verdict == "partial"


@pytest.mark.parametrize(
    "events",
    [
        (deployed(),),
        (deployed(), integrated()),
        (deployed(), integrated(completion(verdict="pending"))),
        (integrated(completion(verdict="pending")),),
        (deployed(), integrated(*(completion(f"Codex-Worker-{n}") for n in range(1, 30)))),
        (deployed(), RunClosed(RUN, LATER, "Ada", "cancelled")),
    ],
)
def test_an_event_recorded_twice_changes_nothing(start, events):
    once = after(start, *events)
    again = events[-1]._replace(at=LATER + timedelta(days=3))
    assert status.changes({"STATUS.md": once}, events[-1]) == {}
    assert status.changes({"STATUS.md": once}, again) == {}


def test_a_deployment_recorded_after_its_integration_changes_nothing():
    once = after(LITERAL.encode(), deployed(), integrated())
    assert status.changes({"STATUS.md": once}, deployed()) == {}


def test_a_pending_worker_stays_active_until_it_is_settled():
    text = after(
        LITERAL.encode(), deployed(), integrated(completion(verdict="pending", reason="wrote\n# a.py"))
    )
    line = f"- Codex-Worker-1: Port the parser (Scope: src/parser/**, run {RUN}) — pending: wrote # a.py"
    assert line in roster(text).splitlines()
    assert status.read(text).active[0].pending == "wrote # a.py"
    text = after(text, integrated(completion(verdict="rejected")))
    assert status.read(text).active == ()
    assert [one.worker for one in status.read(text).completions] == ["Codex-Worker-3"]


def test_a_closed_run_leaves_the_roster_and_others_stay():
    text = after(
        LITERAL.encode(),
        deployed(),
        deployed(run="20260216_150000"),
        RunClosed(RUN, LATER, "Ada", "cancelled"),
    )
    assert [one.run for one in status.read(text).active] == ["20260216_150000"]


def test_an_interrupted_runs_workers_wait_on_the_roster_until_it_goes_on():
    sent = after(LITERAL.encode(), deployed())
    waiting = after(sent, RunClosed(RUN, LATER, "Ada", "interrupted"))
    said = f"interrupted, `orchestrate resume {RUN}` goes on"
    assert [one.pending for one in status.read(waiting).active if one.run == RUN] == [said]
    assert status.changes({"STATUS.md": waiting}, RunClosed(RUN, LATER, "Ada", "interrupted")) == {}
    assert roster(after(waiting, deployed())) == roster(sent)


def test_a_long_queue_stops_and_goes_on_by_as_many_reads_of_the_file_as_a_short_one():
    spent = []
    for count in (3, 60):
        entries = tuple(RosterEntry(f"Codex-Worker-{n}", f"T{n}", (f"src/{n}/",)) for n in range(count))
        begun = deployed()._replace(workers=entries)
        sent = after(LITERAL.encode(), begun)
        waiting, stop = parses(lambda sent=sent: after(sent, RunClosed(RUN, LATER, "Ada", "interrupted")))
        again, resume = parses(lambda waiting=waiting, begun=begun: after(waiting, begun))
        assert sum(one.pending.startswith("interrupted") for one in status.read(waiting).active) == count
        assert roster(again) == roster(sent)
        spent.append((stop, resume))
    assert spent[0] == spent[1]


def parses(act):
    """Return the result of an act, and how often it parsed a file."""
    calls = []

    def seen(frame, event, _):
        if event == "call" and frame.f_code is parse.__code__:
            calls.append(event)

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        return act(), len(calls)
    finally:
        sys.setprofile(before)


def test_the_same_worker_name_in_another_run_is_another_worker():
    text = after(LITERAL.encode(), deployed(), deployed(run=f"{RUN}_2"), integrated(run=f"{RUN}_2"))
    assert [one.run for one in status.read(text).active] == [RUN]


def test_the_newest_twenty_completions_stay_and_a_line_by_hand_too():
    text = LITERAL.replace("integrated 2026-02-15)", "integrated 2026-02-15)\n- by hand").encode()
    for n in range(25):
        text = after(text, integrated(run=f"20260216_1428{n:02}"))
    runs = [one.run for one in status.read(text).completions]
    assert runs == [f"20260216_1428{n:02}" for n in range(24, 4, -1)]
    assert "- by hand" in roster(text)
    assert status.changes({"STATUS.md": text}, integrated(run="20260216_142800")) == {}


def test_the_newest_completion_of_a_phase_that_is_not_complete_outlasts_the_twenty():
    text = LITERAL.encode()
    for n in range(50):
        phase = {0: "phase-3", 1: "phase-3", 2: "phase-1"}.get(n, "phase-2")
        text = after(text, integrated(run=f"20260216_1428{n:02}")._replace(phase=phase))
    found = [(one.run[-2:], one.phase) for one in status.read(text).completions]
    assert found == [*((f"{n}", "phase-2") for n in range(49, 29, -1)), ("01", "phase-3")]
    # One that has left the list is not put back, although an older one is on it.
    assert status.changes({"STATUS.md": text}, integrated(run="20260216_142805")) == {}
    told = integrated(run="20260216_142801")._replace(phase="phase-3")
    assert status.changes({"STATUS.md": text}, told) == {}


@pytest.mark.parametrize("phase", ["phase-2", "core (v2)", "a, b"])
def test_a_completion_tells_its_phase_and_one_of_an_old_version_tells_none(phase):
    text = after(LITERAL.encode(), integrated()._replace(phase=phase))
    assert [one.phase for one in status.read(text).completions] == [phase, ""]
    old = text.replace(f", {phase})".encode(), b")")
    assert [(one.run, one.phase) for one in status.read(old).completions] == [(RUN, ""), ("", "")]
    assert status.changes({"STATUS.md": old}, integrated()) == {}


def test_a_placeholder_gives_way_to_the_first_worker():
    text = LITERAL.replace("**Active Workers:**\n", "**Active Workers:**\n- None\n").encode()
    text = after(text, deployed())
    assert roster(text).startswith("**Active Workers:**\n- Codex-Worker-1:")


def test_a_paragraph_below_the_label_is_not_drawn_into_the_list():
    before = LITERAL.replace("**Active Workers:**\n", "**Active Workers:**\nnobody, ask Ada\n").encode()
    text = after(before, deployed())
    assert [one.run for one in status.read(text).active] == [RUN]
    assert b"\nnobody, ask Ada\n" in after(text, integrated())


HOSTILE = st.text(alphabet=st.sampled_from(list("#`<!->[x]:()., \n\x1b*_|ab\u2028")), min_size=1, max_size=16)


@settings(max_examples=60, deadline=None)
@given(HOSTILE, HOSTILE)
def test_no_title_or_reason_breaks_the_file(title, reason):
    worker = completion(verdict="pending", reason=reason)._replace(title=title)
    text = after(LITERAL.encode(), deployed(entry(title=title)), integrated(worker))
    found = status.read(text)
    assert [(one.worker, one.run) for one in found.active] == [("Codex-Worker-1", RUN)]
    assert [one.title for one in found.phases] == [one.title for one in status.read(LITERAL.encode()).phases]
    text = after(text, integrated(worker._replace(verdict="accepted")))
    assert status.read(text).active == ()
    assert status.read(text).completions[0].run == RUN


def test_a_file_that_lacks_the_roster_says_what_to_do():
    text = LITERAL.replace("## Worker Roster", "## Something").encode()
    with pytest.raises(
        StateError, match=r"STATUS\.md: section `Worker Roster` is missing; `orchestrate init`"
    ):
        status.changes({"STATUS.md": text}, deployed())
    with pytest.raises(StateError, match="the file is missing"):
        status.changes({"STATUS.md": None}, deployed())


def test_two_rosters_are_an_error_that_lists_both():
    text = LITERAL.replace("## Resume Checklist", "## Worker Roster").encode()
    with pytest.raises(StateError, match=r"2 times \(line 65 and line 74\)"):
        status.changes({"STATUS.md": text}, deployed())
