"""STATE.md: copies that change with their homes, and the context of the project; all else stays."""

import random
import re

import pytest
from support.phases import (
    BLOCKED,
    DEPLOYED,
    EVERYWHERE,
    LOG,
    PROJECT,
    RUN,
    STATE,
    STATUS_PATH,
    STORY,
    TAKEN,
    WORKER,
    at,
    begun,
    said,
    shown,
    told,
)

from orchestrator.errors import StateError
from orchestrator.state.events import (
    BlockerAnswered,
    BlockerClosed,
    BlockerRaised,
    Completion,
    Decided,
    Decision,
    MilestoneReached,
    NewPlan,
    PhaseAdded,
    PhaseMoved,
    PhaseNoted,
    PhaseReported,
    PlanAdded,
    PlanMoved,
    RunClosed,
    RunIntegrated,
    TaskMoved,
    TodoAdded,
)
from orchestrator.state.facts import Facts
from orchestrator.state.phases.project_state import (
    changes,
    complete,
    context_of,
    differences,
    homes,
    needs,
    problems,
    recounted,
)

NOW = at("15:00:00")
FACTS = Facts("Demo", "Ada", NOW)
STARTED = PlanMoved("phase-2", "02-03", "in progress", said(70), NOW)


def text(tree):
    return tree["STATE.md"].decode()


def row(tree, name):
    (line,) = re.findall(rf"(?m)^\| {re.escape(name)} \|.*$", text(tree))
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def listed(tree, title):
    below = text(tree).partition(f"## {title}\n")[2].partition("\n---")[0]
    return [line.removeprefix("- ") for line in below.splitlines() if line]


def raised(number, second=0, phase="phase-2", **more):
    time = at("15:00:00").replace(minute=number, second=second)
    return BlockerRaised(phase, f"Why {number}?", said(100 + number), time, "skip", **more)


def integrated(verdict, **more):
    done = Completion("Claude-Worker-1", "Lead", "complete", verdict, "waits", (), **more)
    return RunIntegrated(RUN, "phase-2", NOW, "Ada", (done,), "b" * 40)


def without_stamp(content):
    return re.sub(r"(?m)^\*\*Last Updated:.*$", "", content)


# Copies


def test_the_story_of_a_run_is_shown_as_the_format_has_it():
    assert text(told()) == STATE


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_stay(end):
    tree = {path: one.decode().replace("\n", end).encode() if one else one for path, one in begun().items()}
    assert text(shown(tree, *STORY)) == STATE.replace("\n", end)


def test_an_event_that_changes_no_copy_leaves_the_file_as_it_is():
    task = TaskMoved("phase-2", "02-02", "Left recursion", "todo", said(71), NOW)
    for event in (task, TodoAdded(("x",), "P0", NOW, "Ada"), PhaseNoted("phase-2", NOW, text="x")):
        assert shown(told(), event)["STATE.md"] == told()["STATE.md"], event


def test_the_counts_are_those_of_the_whole_table():
    tree = told()
    # Somebody moved two plans by hand: what is counted is the table, not the last move.
    tree[STATUS_PATH] = tree[STATUS_PATH].replace(b"| in progress |", b"| failed |")
    after = shown(tree, STARTED)
    assert row(after, "phase-2")[3:7] == ["0", "1", "1", "1"]
    assert differences(after) == []


def test_a_phase_without_plans_has_no_counts():
    assert row(told(), "phase-3")[3:] == ["-"] * 6


def test_the_worker_is_named_while_its_run_is_running_or_interrupted():
    assert row(told(), "phase-2")[7] == WORKER
    stopped = shown(told(), RunClosed(RUN, NOW, "Ada", "interrupted", "phase-2"))
    assert row(stopped, "phase-2")[7] == WORKER
    for event in (
        integrated("accepted"),
        integrated("pending"),
        RunClosed(RUN, NOW, "Ada", "cancelled", "phase-2"),
    ):
        after = shown(told(), event)
        assert row(after, "phase-2")[7] == "-", event
        assert differences(after) == []
    assert row(shown(stopped, DEPLOYED, TAKEN), "phase-2")[7] == WORKER


def test_the_lead_the_phase_and_the_milestone_are_those_of_the_project():
    moved = PhaseMoved("Phase 2: Core", "Phase 3: Command line", "", "", NOW, "Grace")
    after = shown(told(), moved)
    assert "**Lead:** Grace\n**Current Phase:** phase-3\n**Milestone:** Parser usable\n" in text(after)
    assert [row(after, name)[2] for name in ("phase-1", "phase-2", "phase-3")] == [
        "COMPLETE",
        "COMPLETE",
        "IN PROGRESS",
    ]
    assert "**Lead:** Grace\n" in text(shown(told(), TodoAdded(("x",), "P0", NOW, "Grace")))


def test_a_milestone_with_a_percentage_in_its_name_keeps_it():
    tree = told()
    tree["STATUS.md"] = PROJECT.replace("Parser usable (50%", "Reach 90% coverage (50%").encode()
    after = shown(tree, STARTED)
    assert "**Milestone:** Reach 90% coverage\n" in text(after)
    assert problems(after["STATE.md"]) == []


def test_a_new_phase_gets_its_row_at_its_place():
    added = PhaseAdded("4", "Polish", "Done", (), (), "", NOW, "Ada")
    assert (
        text(shown(told(), added)).count(
            "| PLANNED | - | - | - | - | - | - |\n| phase-4 | Polish | PLANNED |"
        )
        == 1
    )
    tree = told()
    tree["STATUS.md"] = PROJECT.replace(
        "### Phase 3", "### Phase 2.1: Between\n\n**Status:** NEXT\n\n### Phase 3"
    ).encode()
    after = shown(tree, STARTED)
    assert re.findall(r"(?m)^\| (phase-\S+)", text(after)) == ["phase-1", "phase-2", "phase-2.1", "phase-3"]


def test_many_phases_that_are_new_get_their_rows_at_their_places():
    tree = told()
    late = "".join(f"### Phase {number}: N{number}\n\n**Status:** PLANNED\n\n" for number in range(4, 60))
    between = "### Phase 2.1: A\n\n**Status:** NEXT\n\n### Phase 2.2: B\n\n**Status:** NEXT\n\n"
    plan = PROJECT.replace("### Phase 3", f"{between}### Phase 3").replace(
        "---\n\n## Progress", f"{late}---\n\n## Progress"
    )
    tree["STATUS.md"] = f"{plan}".replace(
        "### Phase 1", "### Phase 0: Zero\n\n**Status:** COMPLETE\n\n### Phase 1"
    ).encode()
    after = shown(tree, STARTED)
    numbers = re.findall(r"(?m)^\| phase-(\S+)", text(after))
    assert numbers == ["0", "1", "2", "2.1", "2.2", "3", *map(str, range(4, 60))]
    assert differences(after) == []


def test_a_phase_that_is_gone_keeps_its_row_and_no_row_is_moved():
    tree = told()
    first, second = PROJECT.index("### Phase 1"), PROJECT.index("### Phase 2")
    third, end = PROJECT.index("### Phase 3"), PROJECT.index("---\n\n## Progress")
    tree["STATUS.md"] = (
        PROJECT[:first] + PROJECT[third:end] + PROJECT[second:third] + PROJECT[end:]
    ).encode()
    after = shown(tree, STARTED)
    assert re.findall(r"(?m)^\| (phase-\S+)", text(after)) == ["phase-1", "phase-2", "phase-3"]
    assert row(after, "phase-1")[1:7] == ["Foundation", "-", "0", "0", "4", "0"]


def test_a_phase_that_the_plan_lacks_is_shown_while_it_has_plans():
    tree = {**told(), "phases/extra/PLAN.md": None, "phases/extra/STATUS.md": None}
    after = shown(tree, PlanAdded("extra", NewPlan("01", "More"), NOW, "Ada"))
    assert row(after, "extra") == ["extra", "-", "-", "1", "0", "0", "0", "-", "phases/extra/STATUS.md"]


# Blockers


def test_a_blocker_is_one_line_until_it_is_closed():
    assert listed(told(), "Blockers") == [BLOCKED]
    first = shown(begun(), *STORY[:-1])
    assert listed(first, "Blockers") == [BLOCKED.replace("(answered,", "(open,")]
    assert listed(shown(told(), BlockerClosed("phase-2", said(7), NOW)), "Blockers") == ["None."]


def test_the_newest_blocker_is_first_and_one_without_a_plan_names_none():
    after = shown(told(), raised(2), raised(1, plan="02-01"), raised(3))
    assert [line.split(" (")[0] for line in listed(after, "Blockers")] == [
        "phase-2 B4: Why 3?", "phase-2 B2: Why 2?", "phase-2 02-01 B3: Why 1?",
        "phase-2 02-02 B1: Which licence has the grammar?",
    ]  # fmt: skip


def test_above_twenty_they_are_counted_and_come_back():
    tree = shown(told(), *(raised(number) for number in range(12)))
    tree = shown(tree, *(raised(number, 30, "phase-1") for number in range(12)))
    lines = listed(tree, "Blockers")
    assert len(lines) == 22
    assert lines[0].startswith("phase-1 B12: Why 11?")
    assert lines[-2:] == ["and 2 more: phases/phase-1/STATUS.md", f"and 3 more: {STATUS_PATH}"]
    assert differences(tree) == []
    for number in range(5):
        event = BlockerClosed("phase-1", said(100 + 11 - number), NOW)
        assert set(needs(tree, event)) >= {STATUS_PATH, "phases/phase-1/STATUS.md"}
        tree = shown(tree, event)
        assert differences(tree) == [], number
    assert listed(tree, "Blockers")[-1] == BLOCKED
    assert len(listed(tree, "Blockers")) == 20


def test_one_phase_is_read_for_one_phase():
    assert needs(told(), STARTED) == ("STATE.md", "STATUS.md", STATUS_PATH)
    assert needs(told(), TodoAdded(("x",), "P0", NOW, "Ada")) == ("STATE.md", "STATUS.md")
    decided = Decided((Decision("a", "b", "c"),), NOW, "Ada")
    assert needs(told(), decided) == ("STATE.md", "STATUS.md", "DECISIONS.md")
    assert needs(told(), PhaseNoted("", NOW, text="x")) == ("STATE.md",)


# Decisions and context


def test_the_newest_ten_decisions_are_listed():
    made = [Decided((Decision(f"Choice {number}", "c", "d"),), NOW, "Ada") for number in range(11)]
    after = shown(told(), *made)
    assert listed(after, "Decisions") == [
        f"2026-02-16: Choice {number}: DECISIONS.md" for number in range(10, 0, -1)
    ]  # fmt: skip
    assert differences(after) == []


def test_whatever_the_log_gets_is_listed():
    after = shown(told(), MilestoneReached("Phase 2: Core", "Parser usable", NOW, "Ada"))
    assert listed(after, "Decisions")[0] == "2026-02-16: Milestone reached: Parser usable: DECISIONS.md"


def test_context_has_at_most_twenty_lines():
    notes = [PhaseNoted("", NOW, text=f"note {number}") for number in range(19)]
    tree = shown(told(), *notes)
    assert context_of(tree["STATE.md"]) == (EVERYWHERE, *(f"note {number}" for number in range(19)))
    with pytest.raises(StateError, match="the context holds 20 lines"):
        shown(tree, PhaseNoted("", NOW, text="one more"))
    assert changes(tree, notes[3]) == {}
    fewer = shown(tree, PhaseNoted("", NOW, removed=EVERYWHERE), PhaseNoted("", NOW, text="one more"))
    assert context_of(fewer["STATE.md"])[-1] == "one more"
    assert len(context_of(fewer["STATE.md"])) == 20


def test_the_context_may_be_empty():
    gone = shown(told(), PhaseNoted("", NOW, removed=EVERYWHERE))
    assert listed(gone, "Context") == ["None."]
    back = shown(gone, PhaseNoted("", NOW, text=EVERYWHERE))
    assert without_stamp(text(back)) == without_stamp(STATE)


# The whole file


def test_a_file_that_is_lost_comes_back_with_all_of_its_copies():
    after = shown({**told(), "STATE.md": None}, STARTED)
    kept = shown(told(), STARTED, PhaseNoted("", NOW, removed=EVERYWHERE))
    assert text(after) == text(kept)


def test_a_recount_finds_nothing_to_change():
    assert recounted(told(), NOW) == {}
    assert homes(told()) == (
        "STATUS.md", "DECISIONS.md", "phases/phase-1/STATUS.md", STATUS_PATH, "phases/phase-3/STATUS.md",
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_after_any_events_the_file_is_what_a_recount_makes(seed):
    rng = random.Random(seed)
    tree, number = begun(), 100
    for _ in range(40):
        number += 1
        event = any_event(rng, number)
        try:
            tree = shown(tree, event)
        except StateError:
            continue  # a move that is not allowed
        assert differences(tree) == [], event
        assert without_stamp(
            recounted(tree, NOW).get("STATE.md", tree["STATE.md"]).decode()
        ) == without_stamp(text(tree))
        assert problems(tree["STATE.md"]) == []


def any_event(rng, number):
    phase, plan = rng.choice(("phase-2", "phase-1")), f"0{rng.choice('12')}-0{rng.randint(1, 4)}"
    earlier = said(rng.randint(100, number))
    return rng.choice(
        (
            PlanMoved("phase-2", plan, rng.choice(("in progress", "complete", "failed")), said(number), NOW),
            BlockerRaised(phase, f"Why {number} | x?", said(number), NOW, "pause", plan),
            BlockerRaised(phase, "(open, skip, since x)", said(number), NOW, "skip", plan),
            BlockerAnswered(phase, earlier, "yes", f"{RUN}.lead:{number}", NOW),
            BlockerClosed(phase, earlier, NOW),
            TaskMoved("phase-2", plan, "a", rng.choice(("doing", "done", "blocked")), said(number), NOW),
            PhaseReported("phase-2", said(number), NOW, "done"),
            PlanAdded(phase, NewPlan(f"x-{number}", "a | b"), NOW, "Ada"),
            Decided((Decision(f"Choice {number}: x", "c", "d"),), NOW, rng.choice(("Ada", "Grace"))),
            PhaseNoted("", NOW, text=f"note {number}"),
            PhaseAdded("4", "Polish", "Done", (), (), "", NOW, "Ada"),
            integrated(rng.choice(("accepted", "rejected", "pending"))),
            RunClosed(RUN, NOW, "Ada", rng.choice(("cancelled", "interrupted")), "phase-2"),
            DEPLOYED,
            TAKEN,
        )
    )


# Files of others, and damage

FOREIGN = """\
# Project State

## Current Position

Phase: 3 of 5 (Core)
Progress: [####------] 40%

## Decisions

- [Phase 1]: One parser

## Session Continuity

Last session: 2026-01-02
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "old",
    [
        FOREIGN,
        FOREIGN.replace("# Project State\n\n", ""),
        FOREIGN + "\n## Phases\n\n| Phase | Done |\n|---|---|\n| 1 | x |\n",
    ],
)
def test_a_file_of_another_tool_keeps_its_bytes_and_gains_what_it_lacks(old, end):
    old = old.replace("\n", end)
    new = complete(old.encode(), FACTS).decode()
    assert complete(new.encode(), FACTS).decode() == new
    rest = new
    for line in filter(str.strip, old.split(end)):
        assert line in rest
        rest = rest.partition(line)[2]
    after = shown({**told(), "STATE.md": new.encode()}, *STORY[-1:], STARTED)
    filled = {"STATE.md": recounted(after, NOW)["STATE.md"]}
    assert row({"STATE.md": filled["STATE.md"].replace(b"\r\n", b"\n")}, "phase-1")[3:7] == [
        "0",
        "0",
        "4",
        "0",
    ]
    assert differences({**after, **filled}) == []
    assert "- [Phase 1]: One parser" in filled["STATE.md"].decode()


def test_a_file_that_lacks_our_parts_is_refused_with_what_adds_them():
    with pytest.raises(StateError, match="section `Phases` is missing; `orchestrate init` appends"):
        changes({**told(), "STATE.md": FOREIGN.encode()}, STARTED)
    assert {one.severity for one in problems(FOREIGN.encode())} == {"error", "warning"}


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("| 1 | 1 | 1 | 0 |", "| 33% | 1 | 1 | 0 |", 15),
        ("\n---\n\n## Blockers", "\nHalf done: 50 %\n\n---\n\n## Blockers", 18),
    ],
)
def test_a_percentage_is_a_warning(old, new, line):
    (found,) = problems(STATE.replace(old, new, 1).encode())
    assert (found.place, found.what, found.severity) == (f"STATE.md:{line}", "holds a percentage", "warning")


@pytest.mark.parametrize("where", ["| Core |", "Keep one parser", "Which licence has", "Everything must"])
def test_a_percentage_in_words_that_are_copied_is_none(where):
    assert problems(STATE.replace(where, f"{where[:-1]} 90% {where[-1]}", 1).encode()) == []


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("**Lead:** Ada", "**Lead:** Bob", "`Lead` is `Bob`, and `Ada` in STATUS.md"),
        (
            "| phase-2 | Core |",
            "| phase-2 | Heart |",
            "`Name` of `phase-2` is `Heart`, and `Core` in its home",
        ),
        ("| 1 | 1 | 1 | 0 |", "| 1 | 2 | 1 | 0 |", "`In Progress` of `phase-2` is `2`, and `1` in its home"),
        (
            "(answered, skip",
            "(open, skip",
            f"its home does not have it: {BLOCKED.replace('(answered', '(open')}",
        ),
        (
            "- 2026-02-16: Keep one parser: DECISIONS.md",
            "None.",
            "`Decisions` lacks: 2026-02-16: Keep one parser",
        ),
        ("| phase-3 | Command line | PLANNED | - | - | - | - | - | - |\n", "", "`phase-3` has no row"),
    ],
)
def test_a_copy_that_differs_is_named_and_copied_again(old, new, what):
    tree = {**told(), "STATE.md": STATE.replace(old, new, 1).encode()}
    found = differences(tree)
    assert any(what in one.what for one in found), found
    assert {(one.severity, one.do) for one in found} == {("warning", "`orchestrate init` copies it again")}
    assert without_stamp(recounted(tree, NOW)["STATE.md"].decode()) == without_stamp(STATE)


def test_a_ragged_row_stops_only_what_is_about_its_phase():
    tree = {
        **told(),
        "STATE.md": STATE.replace("| phase-3 | Command line |", "| phase-3 | Command | line |").encode(),
    }
    assert row(shown(tree, STARTED), "phase-2")[4] == "2"
    with pytest.raises(StateError, match=r"STATE.md:16: the row has 10 cells where the header has 9"):
        shown(
            {**tree, "phases/phase-3/PLAN.md": None}, PlanAdded("phase-3", NewPlan("03-01", "x"), NOW, "Ada")
        )
    assert [one.place for one in problems(tree["STATE.md"])] == ["STATE.md:16"]


@pytest.mark.parametrize("data", [b"", b"\xff", b"\0"])
def test_an_unreadable_file_is_never_written(data):
    with pytest.raises(StateError):
        changes({**told(), "STATE.md": data}, STARTED)
    assert [one.severity for one in problems(data)] == ["error"]


def test_other_columns_and_lines_stay():
    mine = STATE.replace("| Detail |", "| Detail | Owner |").replace("|---|\n", "|---|---|\n", 1)
    mine = re.sub(r"(?m)^(\| phase-.*)$", r"\1 me |", mine).replace(
        "## Blockers\n\n", "## Blockers\n\n- call Bob\n"
    )
    tree = {**told(), "STATE.md": mine.encode()}
    after = shown(tree, STARTED, raised(5), PhaseAdded("4", "Polish", "Done", (), (), "", NOW, "Ada"))
    assert row(after, "phase-2")[-1] == "me"
    assert row(after, "phase-4")[-1] == "-"
    assert listed(after, "Blockers") == ["call Bob", listed(after, "Blockers")[1], BLOCKED]
    assert after["DECISIONS.md"].decode() == LOG
