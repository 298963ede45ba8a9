"""PLAN.md: which plans a phase has, read as people write them and extended by command."""

import pytest
from support.phases import PLAN_FILE, PLAN_PATH, RUN, at
from support.plans import PLAN

from orchestrator.errors import StateError
from orchestrator.state.events import NewPlan, PhaseTaken, PlanAdded
from orchestrator.state.phases import plan_file
from orchestrator.state.phases.plan_file import changes, next_id, read

STATUS = {"STATUS.md": PLAN.encode()}
NOW = at("14:28:34")


def plans(text):
    return read(PLAN_PATH, text.encode())


def one(text):
    return plans(f"# P - Plan\n\n## Plans\n\n{text}")[0]


def added(text, plan):
    tree = {**STATUS, PLAN_PATH: None if text is None else text.encode()}
    return changes(tree, PlanAdded("phase-2", plan, NOW, "Ada"))


def test_the_plans_are_read_in_the_order_of_work():
    first, second, third = plans(PLAN_FILE)
    assert (first.id, first.title, first.verify) == ("02-01", "Lexer", "python -m pytest tests/lexer -q")
    assert first.tasks == ("Token kinds", "Positions and line ends")
    assert (second.id, second.verify, second.tasks) == ("02-02", None, ("Left recursion",))
    assert (third.id, third.verify, third.tasks) == ("02-03", None, ())


@pytest.mark.parametrize(
    ("heading", "named"),
    [
        ("02-01: Lexer", ("02-01", "Lexer")), ("02-01 - Lexer", ("02-01", "Lexer")),
        ("02.1-03 \u2014 Lexer", ("02.1-03", "Lexer")), ("A: b: c", ("A", "b: c")),
        ("lex : The lexer - again", ("lex", "The lexer - again")),
    ],
)  # fmt: skip
def test_a_plan_is_named_in_two_forms(heading, named):
    assert (one(f"### {heading}").id, one(f"### {heading}").title) == named


@pytest.mark.parametrize(
    "said", ["", "**Verify:** none", "**Verify:** None", "**Verify:** `none`", "**Verify:** -"]
)
def test_a_plan_may_have_no_check(said):
    assert one(f"### 1: x\n\n{said}\n").verify is None


@pytest.mark.parametrize(
    ("said", "command"),
    [
        ("`make test`", "make test"),
        ("``a `b` c``", "a `b` c"),
        ("`` `a` ``", "`a`"),
        ("`a | b`", "a | b"),
        ("`x`", "x"),
    ],
)
def test_the_check_is_what_the_code_span_holds(said, command):
    assert one(f"### 1: x\n\n**Verify:** {said}\n").verify == command


@pytest.mark.parametrize("said", ["make test", "`make` and `test`", "`make` first"])
def test_a_check_that_is_no_command_is_refused_with_its_line(said):
    with pytest.raises(StateError, match=r"PLAN.md:7: `Verify` is no command"):
        one(f"### 1: x\n\n**Verify:** {said}\n")


def test_a_doubled_id_is_named_with_both_lines():
    text = PLAN_FILE.replace("### 02-03", "### 02-01")
    (found,) = plan_file.problems(text.encode())
    assert str(found) == "PLAN.md:26: there is a plan `02-01` already, on line 9; give it another id"
    with pytest.raises(StateError, match="already, on line 9"):
        plans(text)


def test_ids_are_compared_literally():
    text = PLAN_FILE.replace("### 02-02", "### 02-1").replace("### 02-03", "### 02-10")
    assert [plan.id for plan in plans(text)] == ["02-01", "02-1", "02-10"]
    assert plan_file.problems(text.encode()) == []


@pytest.mark.parametrize("id_", ["02..1", "x.lock", "x.", "-1", "a" * 33, "é1", "a/b", "_x"])
def test_an_id_that_cannot_end_a_ref_is_refused(id_):
    (found,) = plan_file.problems(f"# P\n\n## Plans\n\n### {id_}: Lexer\n".encode())
    assert found.place == "PLAN.md:5"
    assert "is no id" in found.what


def test_a_heading_without_an_id_is_no_plan():
    (found,) = plan_file.problems(b"# P\n\n## Plans\n\n### Lexer\n")
    assert str(found) == "PLAN.md:5: `Lexer` is no plan; write it as `ID: TITLE`"


def test_a_file_without_plans_has_a_problem_and_may_get_one():
    text = "# P - Plan\n\n## Plans\n\n---\n\n**Plan File End**\n"
    assert [found.what for found in plan_file.problems(text.encode())] == ["there is no plan"]
    after = added(text, NewPlan("02-01", "Lexer"))[PLAN_PATH].decode()
    assert after == text.replace("## Plans\n", "## Plans\n\n### 02-01: Lexer\n\n**Verify:** none\n")


def test_a_file_without_the_section_is_refused():
    (found,) = plan_file.problems(b"# P\n\nwords\n")
    assert str(found) == "PLAN.md: section `Plans` is missing; put the plans below `## Plans`"
    with pytest.raises(StateError, match="section `Plans` is missing"):
        added("# P\n\nwords\n", NewPlan("02-01", "Lexer"))


def test_a_pipe_in_a_title_is_a_warning():
    (found,) = plan_file.problems(PLAN_FILE.replace("02-01: Lexer", "02-01: a | b").encode())
    assert (found.severity, "holds a `|`" in found.what) == ("warning", True)
    assert plans(PLAN_FILE.replace("02-01: Lexer", "02-01: a | b"))[0].title == "a | b"


def test_a_plan_is_appended_and_every_other_byte_stays():
    plan = NewPlan("02-04", "Printer", "make print", ("Widths", "Colours"))
    after = added(PLAN_FILE, plan)[PLAN_PATH].decode()
    new = "\n### 02-04: Printer\n\n**Verify:** `make print`\n\n**Tasks:**\n- Widths\n- Colours\n"
    at_ = PLAN_FILE.index("\n---\n\n**Plan File End**")
    assert after == PLAN_FILE[:at_] + new + PLAN_FILE[at_:]
    assert plans(after)[3][:4] == ("02-04", "Printer", "make print", ("Widths", "Colours"))


def test_the_first_plan_begins_the_file():
    after = added(None, NewPlan("02-01", "Lexer", "python -m pytest tests/lexer -q"))[PLAN_PATH].decode()
    assert after == (
        "# Phase 2: Core - Plan\n\n**Phase:** phase-2\n\n---\n\n## Plans\n\n### 02-01: Lexer\n\n"
        "**Verify:** `python -m pytest tests/lexer -q`\n\n---\n\n**Plan File End**\n"
    )


def test_a_plan_that_is_there_is_not_added_again():
    assert added(PLAN_FILE, NewPlan("02-02", "Grammar")) == {}
    with pytest.raises(StateError, match="there is a plan `02-02` already"):
        added(PLAN_FILE, NewPlan("02-02", "Another"))


@pytest.mark.parametrize(
    "title",
    [
        "a | b",
        "# x",
        "`x",
        "<!-- x",
        "*x* **y**",
        "x ###",
        "02-02: y",
        "a\\b",
        "- x",
        "--- x",
        "| x | y |",
        "(COMPLETE)",
    ],
)
def test_any_title_and_task_is_written_as_it_reads(title):
    plan = NewPlan("02-04", title, "x `y` | z", (title, title))
    after = added(PLAN_FILE, plan)
    read_again = read(PLAN_PATH, after[PLAN_PATH])
    assert [found.id for found in read_again] == ["02-01", "02-02", "02-03", "02-04"]
    assert read_again[3].tasks == (title, title)
    assert read_again[3].verify == "x `y` | z"
    assert changes({**STATUS, **after}, PlanAdded("phase-2", plan, NOW, "Ada")) == {}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_stay(end):
    after = added(PLAN_FILE.replace("\n", end), NewPlan("02-04", "Printer"))[PLAN_PATH].decode()
    assert after.replace(end, "\n") == added(PLAN_FILE, NewPlan("02-04", "Printer"))[PLAN_PATH].decode()


def test_plans_of_a_template_begin_a_file_and_never_change_one():
    event = PhaseTaken(
        RUN,
        "phase-2",
        "Claude-Worker-1",
        "4e44",
        NOW,
        "Ada",
        (NewPlan("02-01", "Lexer"), NewPlan("02-02", "B")),
    )
    made = changes({**STATUS, PLAN_PATH: None}, event)
    assert [plan.id for plan in read(PLAN_PATH, made[PLAN_PATH])] == ["02-01", "02-02"]
    assert changes({**STATUS, PLAN_PATH: PLAN_FILE.encode()}, event) == {}
    assert changes({**STATUS, PLAN_PATH: None}, event._replace(plans=())) == {}


@pytest.mark.parametrize(
    ("name", "known", "next_"),
    [
        ("phase-2", (), "02-01"), ("phase-2", ("02-01", "x"), "02-02"), ("phase-2", ("02-9",), "02-10"),
        ("phase-12", ("12-99",), "12-100"), ("phase-2.1", ("02-07",), "02.1-01"), ("core", ("03",), "04"),
    ],
)  # fmt: skip
def test_the_next_id_has_the_number_of_its_phase(name, known, next_):
    assert next_id(name, known) == next_
