"""A phase's STATUS.md: plans that move, tasks, blockers, decisions, context; every other byte stays."""

import re

import pytest
from support.phases import (
    BASE,
    PHASE_STATUS,
    PLAN_FILE,
    PLAN_PATH,
    RUN,
    SHA,
    STATUS_PATH,
    STORY,
    TAKEN,
    WORKER,
    at,
    begun,
    said,
    shown,
    status_of,
    told,
)

from orchestrator.errors import StateError
from orchestrator.state.events import (
    BlockerAnswered,
    BlockerClosed,
    BlockerRaised,
    Completion,
    Decision,
    NewPlan,
    PhaseNoted,
    PhaseReported,
    PhaseTaken,
    PlanAdded,
    PlanMoved,
    RunClosed,
    RunIntegrated,
    TaskMoved,
)
from orchestrator.state.phases.phase_status.phase_status import changes, differences, needs, problems
from tickets.markdown import parse, sections

LANDING = "b" * 40
LATER = "20260217_090000"
NOW = at("15:00:00")


def plan(number, to, by, **more):
    return PlanMoved("phase-2", f"02-0{number}", to, by, NOW, **more)


def rows(tree):
    return {row.plan: row for row in status_of(tree).plans}


def text(tree):
    return tree[STATUS_PATH].decode()


def log(tree):
    return [line.split(" ", 2)[2] for line in re.findall(r"(?m)^- 2026\S+ .*$", text(tree)) if "->" in line]


def integrated(verdict="accepted", landing=LANDING, worker="Claude-Worker-1", **more):
    outcome = "complete" if verdict in ("accepted", "partial") else "failed"
    done = Completion(worker, "Lead the core phase", outcome, verdict, "", ())
    return RunIntegrated(RUN, "phase-2", NOW, "Ada", (done,), landing, **more)


# The story as a whole


def test_the_story_of_a_run_is_shown_as_the_format_has_it():
    assert text(told()) == PHASE_STATUS


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_a_byte_order_mark_stay(end, mark):
    tree = {
        path: (mark + one.decode().replace("\n", end)).encode() if one else one
        for path, one in begun().items()
    }
    after = shown(tree, *STORY)
    assert text(after) == mark + PHASE_STATUS.replace("\n", end)


def test_each_event_that_is_recorded_again_changes_nothing():
    tree = begun()
    for event in STORY:
        tree = shown(tree, event)
        assert changes(tree, event) == {}, event
    for event in (TAKEN, *STORY):
        if not isinstance(event, TaskMoved):  # a task may have gone on since
            assert changes(tree, event) == {}, event


def test_an_event_needs_the_files_of_its_phase_only():
    assert needs({}, STORY[0]) == (STATUS_PATH, PLAN_PATH, "STATUS.md")
    assert needs({}, PhaseNoted("", NOW, text="x")) == ()
    assert needs({}, RunClosed(RUN, NOW, "Ada", "cancelled")) == ()


def test_what_a_person_wrote_stays():
    tree = told()
    by_hand = text(tree).replace("## Tasks\n", "Words by hand.\n\n## Tasks\n", 1)
    by_hand = by_hand.replace("| Landed |", "| Landed | Note |").replace("|---|\n", "|---|---|\n", 1)
    by_hand = re.sub(r"(?m)^(\| 02-.*)$", r"\1 mine |", by_hand)
    after = text(shown({**tree, STATUS_PATH: by_hand.encode()}, plan(2, "complete", said(8), commit=SHA)))
    assert "Words by hand.\n" in after
    assert f"| complete | 2026-02-16T14:31:09Z | 2026-02-16T15:00:00Z | {SHA} | - | - | mine |" in after


# Plans


def test_a_plan_that_is_complete_has_its_times_and_commits():
    row = rows(told())["02-01"]
    assert row[2:] == (
        "complete", "2026-02-16T14:29:02Z", "2026-02-16T14:31:07Z", SHA, SHA, None,
    )  # fmt: skip


def test_a_failed_plan_has_no_commit_and_may_be_started_again():
    failed = shown(told(), plan(2, "failed", said(8), reason="no licence"))
    assert rows(failed)["02-02"][2:] == (
        "failed",
        "2026-02-16T14:31:09Z",
        "2026-02-16T15:00:00Z",
        None,
        None,
        None,
    )
    assert log(failed)[-1] == f"02-02 in progress -> failed: no licence ({said(8)})"
    again = shown(failed, plan(2, "in progress", said(9)))
    assert rows(again)["02-02"][2:] == ("in progress", "2026-02-16T15:00:00Z", None, None, None, None)
    assert log(again)[-1] == f"02-02 failed -> in progress ({said(9)})"


def test_a_snapshot_that_came_late_says_so():
    after = shown(told(), plan(2, "complete", said(8), commit=SHA, reason="done", late=184))
    assert log(after)[-1] == f"02-02 in progress -> complete: done; commit taken 184 s later ({said(8)})"


def test_a_long_reason_is_cut_and_the_lateness_stays():
    after = shown(told(), plan(2, "complete", said(8), commit=SHA, reason="x" * 300, late=184))
    reason = log(after)[-1].partition(": ")[2].removesuffix(f" ({said(8)})")
    assert len(reason) == 200
    assert reason.endswith("x…; commit taken 184 s later")


def test_the_end_of_a_plan_closes_its_blockers():
    for to in ("complete", "failed"):
        assert [one.state for one in status_of(shown(told(), plan(2, to, said(8)))).blockers] == ["closed"]
    assert [one.state for one in status_of(shown(told(), plan(3, "in progress", said(8)))).blockers] == [
        "answered"
    ]


def test_milestones_come_without_a_start():
    after = shown(told(), plan(3, "complete", said(8), commit=SHA))
    assert rows(after)["02-03"][2:5] == ("complete", None, "2026-02-16T15:00:00Z")
    assert log(after)[-1] == f"02-03 not started -> complete ({said(8)})"


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (plan(1, "in progress", said(9)), "02-01 is complete already"),
        (plan(2, "in progress", said(9)), "02-02 is in progress already"),
        (plan(9, "in progress", said(9)), "phase-2 has no plan 02-09; there are 02-01, 02-02, 02-03"),
        (plan(2, "complete", f"{RUN}.Codex-Worker-1:1"), f"phase-2 belongs to {WORKER}"),
        (TaskMoved("phase-2", "02-09", "x", "done", said(9), NOW), "phase-2 has no plan 02-09"),
        (
            PhaseReported("phase-2", said(9), NOW, "done"),
            "not complete: 02-02 in progress, 02-03 not started",
        ),
    ],
)
def test_what_the_file_does_not_allow_any_more_changes_nothing(event, reason):
    with pytest.raises(StateError, match=re.escape(f"{STATUS_PATH}: {reason}")):
        changes(told(), event)


def test_a_worker_that_ends_leaves_no_plan_in_progress():
    why = "its worker ended (timed_out) without a word on it"
    event = plan(2, "failed", f"{RUN}.coordinator", reason=why)
    after = shown(told(), event)
    assert log(after)[-1] == f"02-02 in progress -> failed: {why} ({RUN}.coordinator)"
    assert changes(after, event) == {}
    assert changes(told(), plan(1, "failed", f"{RUN}.coordinator", reason=why)) == {}


def test_a_phase_is_complete_when_its_worker_says_so():
    done = shown(told(), plan(2, "complete", said(8)), plan(3, "complete", said(9)))
    assert status_of(done).state == "in progress"
    after = shown(done, PhaseReported("phase-2", said(10), NOW, "all of it"))
    assert status_of(after).state == "complete"
    assert log(after)[-1] == f"phase in progress -> complete: all of it ({said(10)})"
    more = shown(
        after, PlanAdded("phase-2", NewPlan("02-04", "More"), NOW, "Ada"), plan(4, "in progress", said(11))
    )
    assert status_of(more).state == "in progress"


# The rows are copies of PLAN.md


def test_a_new_plan_gets_its_row_in_the_order_of_the_plans():
    tree = told()
    tree[PLAN_PATH] = PLAN_FILE.replace("### 02-02", "### 02-1: Between\n\n### 02-02").encode()
    after = shown(tree, plan(3, "in progress", said(8)))
    assert list(rows(after)) == ["02-01", "02-1", "02-02", "02-03"]
    assert rows(after)["02-1"][1:] == ("Between", "not started", None, None, None, None, None)


def test_a_new_title_is_copied_and_the_row_of_a_plan_that_left_stays():
    tree = told()
    plans = PLAN_FILE.replace("02-01: Lexer", "02-01: Scanner")
    tree[PLAN_PATH] = plans[: plans.index("### 02-03")].encode()
    after = rows(shown(tree, plan(2, "failed", said(8))))
    assert [row.title for row in after.values()] == ["Scanner", "Grammar", "Errors"]


@pytest.mark.parametrize("title", ["a | b", "a \\| b", "`x|y` z", "# x", "-", "**b** `c`", "\\", "x | |"])
def test_any_title_has_its_cell(title):
    tree = shown(begun(), PlanAdded("phase-2", NewPlan("02-04", title), NOW, "Ada"))
    assert list(rows(tree)) == ["02-01", "02-02", "02-03", "02-04"]
    assert problems(tree[STATUS_PATH]) == []
    assert changes(tree, plan(4, "failed", f"{RUN}.coordinator")) == {}


@pytest.mark.parametrize("damage", [None, b"", b"\xff", b"# P\n\n## Plans\n\n### 1: a\n\n### 1: b\n"])
def test_a_plan_file_that_is_lost_or_damaged_stops_no_plan(damage):
    after = shown({**told(), PLAN_PATH: damage}, plan(2, "complete", said(8), commit=SHA))
    assert rows(after)["02-02"].state == "complete"
    with pytest.raises(StateError, match="there are 02-01, 02-02, 02-03"):
        changes({**told(), PLAN_PATH: damage}, plan(9, "in progress", said(8)))


# Who has the phase


def test_a_phase_is_begun_by_the_worker_that_takes_it():
    status = status_of(begun())
    assert (status.state, status.worker, status.base) == ("not started", WORKER, BASE)
    assert [row.state for row in status.plans] == ["not started"] * 3
    assert text(begun()).count("None.") == 5


def test_another_run_begins_what_did_not_land_once_more():
    tree = shown(told(), plan(2, "failed", said(8)), plan(3, "in progress", said(9)))
    landed = text(tree).replace(f"| {SHA} | - |", f"| {SHA} | {LANDING} |", 1)
    event = PhaseTaken(LATER, "phase-2", "Codex-Worker-1", "c" * 40, NOW, "Ada")
    after = shown({**tree, STATUS_PATH: landed.encode()}, event)
    found = rows(after)
    assert [row.state for row in found.values()] == ["complete", "not started", "not started"]
    assert found["02-02"][3:] == (None, None, None, None, None)
    assert log(after)[-2:] == [
        f"02-02 failed -> not started: its run did not land it ({LATER}.coordinator)",
        f"02-03 in progress -> not started: its run did not land it ({LATER}.coordinator)",
    ]
    status = status_of(after)
    assert (status.worker, status.base, status.state) == (f"{LATER}.Codex-Worker-1", "c" * 40, "in progress")
    assert all(one.is_closed for one in status.blockers)
    assert changes(after, event) == {}


def test_a_phase_without_landed_plans_is_not_started_for_the_next_run():
    after = shown(told(), PhaseTaken(LATER, "phase-2", "Claude-Worker-1", BASE, NOW, "Ada"))
    assert status_of(after).state == "not started"
    assert status_of(after).counts["not started"] == 3


# The end of a run


@pytest.mark.parametrize("verdict", ["accepted", "partial"])
def test_complete_plans_land_with_their_run(verdict):
    after = shown(told(), integrated(verdict))
    assert rows(after)["02-01"].landed == LANDING
    assert [row.landed for row in rows(after).values()] == [LANDING, None, None]
    assert [one.state for one in status_of(after).blockers] == ["closed"]
    assert changes(after, integrated(verdict)) == {}


def test_a_plan_without_a_change_has_landed_with_its_own_commit():
    assert rows(shown(told(), integrated(landing=None)))["02-01"].landed == SHA


@pytest.mark.parametrize("verdict", ["rejected", None])
def test_plans_of_a_run_that_does_not_land_have_failed(verdict):
    after = shown(told(), integrated(verdict, landing=None))
    assert rows(after)["02-01"].state == "failed"
    assert f"02-01 complete -> failed: nothing of run {RUN} landed ({RUN}.coordinator)" in log(after)
    assert log(after)[-1] == (
        f"phase in progress -> failed: run {RUN} ended with 0 of 3 plans complete ({RUN}.coordinator)"
    )
    assert status_of(after).state == "failed"
    assert changes(after, integrated(verdict, landing=None)) == {}


def test_what_the_lead_accepts_after_all_has_landed():
    tree = shown(told(), integrated("rejected", landing=None), integrated("accepted"))
    row = rows(tree)["02-01"]
    assert (row.state, row.commit, row.landed) == ("complete", SHA, LANDING)
    assert log(tree)[-1] == f"02-01 failed -> complete: run {RUN} landed ({RUN}.coordinator)"


def test_nothing_is_settled_while_the_verdict_is_pending():
    assert changes(told(), integrated("pending", landing=None)) == {}


def test_the_blockers_of_a_worker_that_an_answer_resumes_stay_open():
    event = integrated("rejected", landing=None, can_resume=("Claude-Worker-1",))
    assert [one.state for one in status_of(shown(told(), event)).blockers] == ["answered"]
    assert status_of(shown(told(), event)).state == "in progress"


def test_a_worker_that_goes_on_with_an_answer_has_its_complete_plans_again():
    event = integrated("rejected", landing=None, can_resume=("Claude-Worker-1",))
    ended = shown(told(), event)
    again = shown(ended, TAKEN)
    assert (rows(ended)["02-01"].state, rows(again)["02-01"].state) == ("failed", "complete")
    assert rows(again)["02-01"].verified == SHA
    assert log(again)[-1] == f"02-01 failed -> complete: run {RUN} goes on ({RUN}.coordinator)"
    assert changes(again, TAKEN) == {}
    assert rows(shown(again, integrated()))["02-01"].landed == LANDING


def test_a_phase_whose_plans_are_all_complete_has_not_failed():
    done = shown(told(), plan(2, "complete", said(8), commit=SHA), plan(3, "complete", said(9), commit=SHA))
    after = shown(done, PhaseReported("phase-2", said(10), NOW, ""), integrated())
    assert status_of(after).state == "complete"
    assert {row.landed for row in rows(after).values()} == {LANDING}


@pytest.mark.parametrize("worker", ["Codex-Worker-1", "Claude-Worker-11"])
def test_other_workers_end_without_a_word_on_plans(worker):
    assert changes(told(), integrated(worker=worker)) == {}


def test_a_run_without_a_phase_worker_begins_no_file():
    tree = {**told(), STATUS_PATH: None}
    assert changes(tree, integrated()) == {}
    assert changes(tree, RunClosed(RUN, NOW, "Ada", "cancelled", "phase-2")) == {}


def test_a_cancelled_run_leaves_nothing_in_progress():
    event = RunClosed(RUN, NOW, "Ada", "cancelled", "phase-2")
    after = shown(told(), event)
    assert [row.state for row in rows(after).values()] == ["complete", "failed", "not started"]
    assert f"02-02 in progress -> failed: its run was cancelled ({RUN}.coordinator)" in log(after)
    status = status_of(after)
    assert (status.worker, status.state, status.blockers[0].state) == (None, "failed", "closed")
    assert changes(after, event) == {}
    # What it had completed may be integrated nevertheless.
    assert rows(shown(after, integrated()))["02-01"].landed == LANDING


@pytest.mark.parametrize(
    "event",
    [
        RunClosed(RUN, NOW, "Ada", "interrupted", "phase-2"),
        RunClosed(LATER, NOW, "Ada", "cancelled", "phase-2"),
        RunClosed(RUN, NOW, "Ada", "cancelled", "phase-1"),
    ],
)
def test_an_interrupted_run_and_another_one_change_nothing(event):
    assert changes(told(), event) == {}


# Tasks and blockers


def task(number, name, to, by=30):
    return TaskMoved("phase-2", f"02-0{number}", name, to, said(by), NOW)


def lines_of(tree, title):
    document = parse(tree[STATUS_PATH], "F")
    part = next(one for one in sections(document) if one.title == title)
    return document.text(part.body, part.content_end).strip().splitlines()


def test_tasks_stand_below_their_plans_in_the_order_of_these():
    tree = shown(
        begun(), task(3, "c", "todo"), task(1, "a", "doing"), task(2, "b", "dropped"), task(1, "d", "done")
    )
    assert lines_of(tree, "Tasks") == [
        "### 02-01", "", "- [ ] a (doing)", "- [x] d (done)", "", "### 02-02", "", "- [ ] b (dropped)", "",
        "### 02-03", "", "- [ ] c (todo)",
    ]  # fmt: skip


def test_a_task_that_is_reported_again_moves_in_its_place():
    tree = shown(
        begun(), task(1, "a", "done"), task(1, "b", "doing"), task(1, "a", "doing"), task(1, "b", "done")
    )
    assert lines_of(tree, "Tasks")[2:] == ["- [ ] a (doing)", "- [x] b (done)"]
    assert changes(tree, task(1, "b", "done")) == {}


def test_a_blocked_task_names_its_blocker_where_there_is_one():
    assert lines_of(told(), "Tasks")[-1] == "- [ ] Left recursion (blocked: B1)"
    assert lines_of(shown(begun(), task(2, "a", "blocked")), "Tasks")[-1] == "- [ ] a (blocked)"


@pytest.mark.parametrize(("to", "state"), [("doing", "closed"), ("done", "closed"), ("todo", "answered")])
def test_a_task_that_goes_on_closes_its_blocker(to, state):
    after = shown(told(), task(2, "Left recursion", to))
    assert [one.state for one in status_of(after).blockers] == [state]
    assert lines_of(after, "Tasks")[-1].endswith(f" Left recursion ({to})")


def raised(title="Why?", by=40, **more):
    return BlockerRaised("phase-2", title, said(by), NOW, "pause", **more)


def test_blockers_are_numbered_and_the_newest_is_last():
    tree = shown(told(), raised(), raised("And?", 41, plan="02-03", task="New"))
    assert [(one.name, one.title, one.mode) for one in status_of(tree).blockers[1:]] == [
        ("B2", "Why?", "pause"), ("B3", "And?", "pause"),
    ]  # fmt: skip
    assert lines_of(tree, "Tasks")[-3:] == ["### 02-03", "", "- [ ] New (blocked: B3)"]
    expected = (
        "### B2\n\n**Title:** Why?\n**State:** open\n**Plan:** -\n**Task:** -\n**Mode:** pause\n"
        f"**Raised:** 2026-02-16T15:00:00Z\n**Message:** {said(40)}\n**Attempted:** -\n**Needs:** -\n"
        "**Answer:** -\n**Answered:** -\n**Answered By:** -\n\n### B3\n"
    )
    assert expected in text(tree)


def test_the_first_answer_counts():
    second = BlockerAnswered("phase-2", said(7), "No.", f"{RUN}.lead:4", NOW)
    assert changes(told(), second) == {}
    assert "**Answer:** Yes: MIT.\n" in text(told())


def test_an_answer_to_a_closed_blocker_stands_beside_it():
    tree = shown(told(), raised(), BlockerClosed("phase-2", said(40), NOW))
    after = shown(tree, BlockerAnswered("phase-2", said(40), "Yes.", f"{RUN}.lead:9", NOW))
    assert status_of(after).blockers[1].state == "closed"
    assert "**Answer:** Yes.\n" in text(after)


def test_a_blocker_is_closed_by_the_message_that_raised_it():
    tree = shown(told(), raised())
    after = shown(tree, BlockerClosed("phase-2", said(40), NOW))
    assert [one.state for one in status_of(after).blockers] == ["answered", "closed"]
    assert changes(after, BlockerClosed("phase-2", said(40), NOW)) == {}
    assert changes(after, BlockerClosed("phase-2", said(99), NOW)) == {}


def test_a_long_field_is_cut():
    tree = shown(begun(), raised("x" * 120, attempted="y" * 501, needs="z" * 500))
    assert f"**Attempted:** {'y' * 500}…\n**Needs:** {'z' * 500}\n" in text(tree)


# Decisions and context


def noted(by="", **more):
    return PhaseNoted("phase-2", NOW, by, **more)


def test_decisions_of_a_worker_and_of_the_lead_are_kept_apart_by_their_headings():
    made = Decision("Tokens keep their bytes", "c", "d")
    tree = shown(told(), noted(decision=made), noted(said(50), decision=made))
    assert [(one.date, one.title, one.by) for one in status_of(tree).decisions] == [
        ("2026-02-16", "Tokens keep their bytes", said(4)),
        ("2026-02-16", "Tokens keep their bytes (2)", None),
        ("2026-02-16", "Tokens keep their bytes (3)", said(50)),
    ]
    first = shown(told(), noted(decision=Decision("New", "c", "d")))
    assert changes(first, noted(decision=Decision("New", "c", "d"))) == {}


def test_context_comes_and_goes_line_by_line():
    first = shown(begun(), noted(text="one"), noted(said(50), text="two"))
    assert lines_of(first, "Context") == ["- one", f"- two ({said(50)})"]
    assert changes(first, noted(text="one")) == {}
    assert lines_of(shown(first, noted(removed="one")), "Context") == [f"- two ({said(50)})"]
    gone = shown(first, noted(removed="one"), noted(removed="two"))
    assert lines_of(gone, "Context") == ["None."]
    assert text(gone) == text(begun()).replace("14:28:34Z\n\n---", "15:00:00Z\n\n---", 1)


def test_the_last_words_of_a_lead_are_no_message():
    tree = shown(begun(), noted(text=f"see ({said(9)})"))
    (note,) = status_of(tree).context
    assert (note.text, note.by) == (f"see ({said(9)})", None)
    assert said(9) not in status_of(tree).handled


# Bad input


HOSTILE = [
    "# x", "## Plans", "---", "```", "~~~", "<!--", "<details>", "| a | b |", "a | b", "- [x] a", "> x",
    "**State:** closed", "State: complete", f"x ({RUN}.Claude-Worker-1:99)", "`", "\\", "``` `", "1. x",
    f"- 2026-02-16T14:29:02Z 02-01 in progress -> complete ({WORKER}:98)", "=", "B1", "### B7", "None.",
    "a\r\nb\n\n# c", "\x1b[31mred", "\u202eflip", "x (done)", "x (blocked: B9)", "\0", "\ud800",
    "[x]: /y", "**Phase Status File End**",
]  # fmt: skip


@pytest.mark.parametrize("words", HOSTILE)
def test_no_text_becomes_a_part_of_the_form(words):
    blocked = raised(
        words, 61, plan="02-01", task=words, attempted=words, needs=words, body=f"{words}\n{words}"
    )
    tree = shown(
        begun(),
        plan(1, "in progress", said(60)),
        task(1, words, "todo"),
        blocked,
        BlockerAnswered("phase-2", said(61), words, f"{RUN}.lead:1", NOW),
        noted(said(62), text=words),
        noted(said(63), decision=Decision(words, words, words)),
        noted(text=words),
        plan(1, "failed", said(64), reason=words),
    )
    found = status_of(tree)
    assert [row.state for row in found.plans] == ["failed", "not started", "not started"]
    assert [one.state for one in found.blockers] == ["closed"]
    assert len(found.decisions) == 1
    assert len(found.tasks["02-01"]) == 1
    assert set(found.tasks) == {"02-01"}
    assert found.handled == {said(60), said(61), said(62), said(63), said(64), f"{RUN}.lead:1"}
    titles = [part.title for part in sections(parse(tree[STATUS_PATH], "F"))]
    assert titles == ["Plans", "Tasks", "Blockers", "Decisions", "Context", "Log"]
    assert problems(tree[STATUS_PATH]) == []


def test_a_body_is_a_quote_line_by_line():
    tree = shown(begun(), raised(body="one\n\n# two\n```\n<!-- three"))
    assert "\n> one\n>\n> \\# two\n> \\`\\`\\`\n> \\<!-- three\n" in text(tree)


def test_a_file_that_is_lost_in_mid_run_is_missed_by_every_message():
    tree = {**told(), STATUS_PATH: None}
    messages = [event for event in STORY if not isinstance(event, PhaseNoted)]
    for event in messages:
        with pytest.raises(StateError, match="the file is missing; `git restore"):
            changes(tree, event)
    assert status_of(shown(tree, TAKEN)).worker == WORKER


@pytest.mark.parametrize("event", [PlanAdded("phase-2", NewPlan("02-04", "X"), NOW, "Ada"), noted(text="x")])
def test_a_lead_may_begin_the_file_of_a_phase(event):
    tree = shown({**begun(), STATUS_PATH: None}, event)
    assert (status_of(tree).worker, status_of(tree).state) == (None, "not started")
    assert text(tree).startswith("# Phase 2: Core - Status\n\n**Phase:** phase-2\n")


def test_a_ragged_row_is_refused_and_named():
    ragged = text(told()).replace("| 02-02 | Grammar |", "| 02-02 | Gram|mar |")
    tree = {**told(), STATUS_PATH: ragged.encode()}
    with pytest.raises(StateError, match=rf"{STATUS_PATH}:16: the row has 9 cells where the header has 8"):
        changes(tree, plan(2, "failed", said(8)))
    assert rows(shown(tree, plan(3, "in progress", said(8))))["02-03"].state == "in progress"
    assert [(one.place, one.severity) for one in problems(ragged.encode())] == [("STATUS.md:16", "error")]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("## Log", "## Diary", "section `Log` is missing"),
        ("**Worker:** ", "**Who:** ", "field `Worker` is missing"),
        ("**State:** in progress\n", "**State:** x\n**State:** y\n", "field `State` is there 2 times"),
        ("| Landed |", "| Gone |", "the table of `Plans` has no column `Landed`"),
        ("| 02-03 |", "| 02-02 |", "there is a row of `02-02` already, on line 16"),
        ("## Tasks", "## Plans", "section `Plans` is there 2 times"),
    ],
)
def test_a_damaged_part_is_named(old, new, what):
    found = problems(text(told()).replace(old, new, 1).encode())
    assert [one.severity for one in found if what in one.what] == ["error"]


def test_an_unknown_state_is_a_warning():
    (found,) = problems(text(told()).replace("| in progress |", "| 50% |").encode())
    assert str(found) == (
        "STATUS.md:16: `50%` is no state of a plan; write one of: not started, in progress, complete, failed"
    )
    assert found.severity == "warning"


@pytest.mark.parametrize("data", [b"", b"\0\0", b"\xff"])
def test_an_unreadable_file_is_never_written(data):
    assert [one.severity for one in problems(data)] == ["error"]
    for event in (TAKEN, *STORY):
        with pytest.raises(StateError):
            changes({**begun(), STATUS_PATH: data}, event)


def test_rows_that_differ_from_the_plans_are_named():
    assert differences(told(), "phase-2") == []
    plans = PLAN_FILE.replace("02-01: Lexer", "02-01: Scanner").replace("### 02-02", "### 02-04")
    found = differences({**told(), PLAN_PATH: plans.encode()}, "phase-2")
    assert [(one.place, one.what, one.severity) for one in found] == [
        (f"{STATUS_PATH}:15", "`02-01` is `Lexer`, and `Scanner` in PLAN.md", "warning"),
        (f"{STATUS_PATH}:16", "the plan `02-02` has left PLAN.md", "warning"),
        (f"{STATUS_PATH}:13", "the plan `02-04` has no row", "warning"),
    ]
    (lost,) = differences({**told(), PLAN_PATH: None}, "phase-2")
    assert (lost.place, lost.severity) == (STATUS_PATH, "error")
    assert differences({**told(), STATUS_PATH: None}, "phase-2") == []
