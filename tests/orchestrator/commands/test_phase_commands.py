"""`phase show`, `plan`, `note`, `list` and `decide --phase`: the plans of a phase for a lead."""

import re

import pytest
from support.phases import BASE, EVERYWHERE, PLAN_PATH, RUN, SHA, STATUS_PATH, WORKER, said, told


@pytest.fixture
def phased(lab):
    """Return a project in the middle of the story, with the family on."""
    files = {path: text.decode() for path, text in told().items() if text is not None}
    lab.commit({**files, "orchestrate.toml": 'families = ["phases"]\n'})
    return lab


def phase(lab, *arguments, code=0):
    called = lab.call("phase", *arguments, "--json")
    assert called.code == code, called
    return called.document


def only_says(document):
    (problem,) = document["problems"]
    return f"{problem['place']}: {problem['what']}; {problem['do']}"


def text(lab, path):
    return (lab.root / path).read_text()


# show and list


def test_a_phase_is_shown_with_all_that_its_files_say(phased):
    shown = phase(phased, "show")
    rest = {key: shown.pop(key) for key in ("plans", "blockers", "decisions", "context", "problems")}
    assert shown == {
        "schema": 1, "ok": True, "phase": "phase-2", "title": "Phase 2: Core", "status": "IN PROGRESS",
        "state": "in progress", "milestone": "Parser usable", "worker": WORKER, "run": RUN,
        "counts": {"not_started": 1, "in_progress": 1, "complete": 1, "failed": 0},
        "next_action": "orchestrate status",
    }  # fmt: skip
    assert rest["plans"][0] == {
        "plan": "02-01", "title": "Lexer", "state": "complete", "started": "2026-02-16T14:29:02Z",
        "ended": "2026-02-16T14:31:07Z", "commit": SHA, "verified": SHA, "landed": None,
        "verify": "python -m pytest tests/lexer -q",
        "tasks": [
            {"task": "Token kinds", "state": "done", "blocker": None},
            {"task": "Positions and line ends", "state": "done", "blocker": None},
        ],
    }  # fmt: skip
    assert rest["plans"][1]["tasks"] == [{"task": "Left recursion", "state": "blocked", "blocker": "B1"}]
    assert (rest["plans"][2]["verify"], rest["plans"][2]["started"]) == (None, None)
    assert rest["blockers"] == [{
        "blocker": "B1", "title": "Which licence has the grammar?", "state": "answered", "plan": "02-02",
        "task": "Left recursion", "mode": "skip", "raised": "2026-02-16T14:33:40Z", "message": said(7),
        "pointer": f"{STATUS_PATH}#b1",
    }]  # fmt: skip
    assert rest["decisions"] == [{"date": "2026-02-16", "title": "Tokens keep their bytes"}]
    assert rest["context"] == ["the fixtures in tests/lexer are Latin-1"]
    assert BASE not in str(rest)


def test_a_phase_without_files_is_shown_with_what_is_known(phased):
    shown = phase(phased, "show", "3")
    assert (shown["phase"], shown["status"], shown["state"], shown["counts"]) == (
        "phase-3",
        "PLANNED",
        None,
        None,
    )
    assert (shown["plans"], shown["blockers"], shown["worker"], shown["run"]) == ([], [], None, None)


def test_plans_that_nobody_has_begun_are_not_started(phased):
    phase(phased, "plan", "First", "--phase", "3")
    (phased.root / "phases/phase-3/STATUS.md").unlink()
    shown = phase(phased, "show", "phase-3")
    assert (shown["state"], shown["counts"]["not_started"]) == (None, 1)


def test_a_person_reads_the_same(phased):
    lines = phased.call("phase", "show").out
    assert f"plan          02-01 Lexer: complete, commit {SHA[:10]}, verified\n" in lines
    assert "              - Left recursion: blocked (B1)\n" in lines
    assert f"blocker       B1 Which licence has the grammar? (answered): {STATUS_PATH}#b1\n" in lines
    assert "context 1     the fixtures in tests/lexer are Latin-1\n" in lines
    listed = phased.call("phase", "list").out
    plans = "1 not started, 1 in progress, 1 complete, 1 blocker"
    assert f"phase-2    IN PROGRESS  Phase 2: Core (0/1 deliverables, 1/2 criteria, {plans})\n" in listed


def test_the_list_gains_states_counts_and_blockers(phased):
    listed = phase(phased, "list")
    first, second, third = listed["phases"]
    assert (first["state"], first["worker"], first["counts"]["complete"]) == ("in progress", None, 4)
    assert (second["worker"], second["counts"]["in_progress"]) == (WORKER, 1)
    assert [one["blocker"] for one in second["blockers"]] == ["B1"]
    assert (third["state"], third["counts"], third["blockers"]) == (None, None, [])
    assert listed["context"] == [EVERYWHERE]


def test_without_the_family_the_list_is_what_it_was(lab):
    listed = phase(lab, "list")
    assert listed["context"] == []
    assert {(one["state"], one["worker"], one["counts"]) for one in listed["phases"]} == {(None, None, None)}


@pytest.mark.parametrize("arguments", [("show",), ("plan", "x"), ("note", "x"), ("note", "--remove", "1")])
def test_without_the_family_the_others_are_refused(lab, arguments):
    found = phase(lab, *arguments, code=2)
    assert (
        only_says(found) == "phase: the family `phases` is off; `orchestrate init --with phases` turns it on"
    )
    assert found["next_action"] == "orchestrate init --with phases"


def test_an_unreadable_file_is_a_problem_of_the_answer(phased):
    phased.write(STATUS_PATH, "")
    found = phased.call("phase", "show", "--json")
    assert found.code == 1
    assert found.document["problems"][0]["place"] == STATUS_PATH
    assert [plan["state"] for plan in found.document["plans"]] == ["not started"] * 3


# plan


def test_a_plan_gets_the_next_id_and_its_rows(phased):
    made = phase(
        phased, "plan", "Pretty", "errors", "--verify", "make errors", "--task", "Colours", "--task", "Width"
    )
    assert made["plan"] == {
        "plan": "02-04", "title": "Pretty errors", "state": "not started", "started": None, "ended": None,
        "commit": None, "verified": None, "landed": None, "verify": "make errors",
        "tasks": [{"task": one, "state": "todo", "blocker": None} for one in ("Colours", "Width")],
    }  # fmt: skip
    assert made["changed"] == ["STATE.md", PLAN_PATH, STATUS_PATH]
    assert phased.git("log", "-1", "--format=%H %s").split() == [
        made["commit"],
        *["Plan", "added:", "02-04:", "Pretty", "errors"],
    ]
    assert (
        "### 02-04: Pretty errors\n\n**Verify:** `make errors`\n\n**Tasks:**\n- Colours\n- Width\n"
        in text(phased, PLAN_PATH)
    )
    assert "| 02-04 | Pretty errors | not started | - | - | - | - | - |\n" in text(phased, STATUS_PATH)
    assert "| phase-2 | Core | IN PROGRESS | 2 | 1 | 1 | 0 |" in text(phased, "STATE.md")
    assert phase(phased, "show")["plans"][-1] == made["plan"]


def test_the_first_plan_of_a_phase_begins_its_files(phased):
    made = phase(phased, "plan", "Options", "--phase", "3", "--id", "cli")
    assert made["changed"] == ["STATE.md", "phases/phase-3/PLAN.md", "phases/phase-3/STATUS.md"]
    assert text(phased, "phases/phase-3/PLAN.md").startswith("# Phase 3: Command line - Plan\n")
    assert phase(phased, "show", "3")["plans"][0]["plan"] == "cli"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("x", "--id", "02-01"), "--id: phase-2 has a plan `02-01` already; there are 02-01, 02-02, 02-03"),
        (
            ("x", "--id", "a..b"),
            "--id: `a..b` is no id: it holds `..`, or ends in `.` or `.lock`; give it another",
        ),
        ((" ",), "TITLE: the text is empty; write it in quotes"),
        (("x", "--task", " "), "--task: the text is empty; write it in quotes"),
        (
            ("x", "--verify", "a\nb"),
            "--verify: is more than one line, or holds a character that cannot be seen; write one command",
        ),
    ],
)
def test_a_plan_that_cannot_be_added_is_refused(phased, arguments, says):
    before = text(phased, PLAN_PATH)
    assert only_says(phase(phased, "plan", *arguments, code=2)) == says
    assert text(phased, PLAN_PATH) == before


def test_a_damaged_plan_file_is_not_extended(phased):
    phased.write(PLAN_PATH, text(phased, PLAN_PATH).replace("### 02-03", "### 02-01"))
    found = phase(phased, "plan", "x", code=2)
    assert "there is a plan `02-01` already, on line 9" in only_says(found)


# note


def test_a_note_is_the_projects_or_a_phases(phased):
    made = phase(phased, "note", "No", "tabs")
    assert (made["note"], made["changed"]) == ("No tabs", ["STATE.md"])
    own = phase(phased, "note", "Tabs are fine here", "--phase", "2")
    assert (own["note"], own["changed"]) == ("Tabs are fine here", [STATUS_PATH])
    assert phase(phased, "list")["context"] == [EVERYWHERE, "No tabs"]
    assert phase(phased, "show")["context"][-1] == "Tabs are fine here"
    again = phase(phased, "note", "No tabs")
    assert (again["changed"], again["commit"]) == ([], None)


def test_a_note_is_removed_by_its_number(phased):
    gone = phase(phased, "note", "--remove", "1")
    assert gone["note"] == EVERYWHERE
    assert phase(phased, "list")["context"] == []
    assert phase(phased, "note", "--remove", "1", "--phase", "2")["note"].startswith("the fixtures")
    assert (
        only_says(phase(phased, "note", "--remove", "1", code=2))
        == "--remove: there is no line 1; there is none"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "TEXT: the text is empty; write it in quotes"),
        (("--remove", "2"), f"--remove: there is no line 2; there are: 1: {EVERYWHERE}"),
        (("--remove", "0"), f"--remove: there is no line 0; there are: 1: {EVERYWHERE}"),
        (("x", "--remove", "1"), "--remove: takes no text; leave one of the two out"),
    ],
)
def test_a_note_that_says_nothing_is_refused(phased, arguments, says):
    assert only_says(phase(phased, "note", *arguments, code=2)) == says


def test_a_twenty_first_line_is_refused(phased):
    state = text(phased, "STATE.md")
    lines = "".join(f"- note {number}\n" for number in range(19))
    phased.commit({"STATE.md": state.replace(f"- {EVERYWHERE}\n", f"- {EVERYWHERE}\n{lines}")})
    found = phase(phased, "note", "one more", code=2)
    assert "the context holds 20 lines" in only_says(found)
    assert text(phased, "STATE.md").count("- note") == 19


# decide --phase


def decide(lab, *arguments, code=0):
    called = lab.call("decide", *arguments, "--json")
    assert called.code == code, called
    return called.document


def test_a_phase_has_decisions_of_its_own(phased):
    made = decide(
        phased, "One token table", "--context", "two differ", "--decision", "merge them", "--phase", "2"
    )
    assert made["decisions"] == [
        {"title": "One token table", "date": made["decisions"][0]["date"], "supersedes": []}
    ]
    assert made["changed"] == [STATUS_PATH]
    found = re.search(r"### \S+ One token table\n\n(.*?)\n\n---", text(phased, STATUS_PATH), re.DOTALL)
    assert found[1] == "**Context:** two differ\n**Decision:** merge them\n**Message:** -"
    assert "One token table" not in text(phased, "DECISIONS.md")
    assert [one["title"] for one in phase(phased, "show")["decisions"]] == [
        "Tokens keep their bytes",
        "One token table",
    ]


def test_what_a_phases_decision_does_not_keep_is_refused(phased):
    found = decide(
        phased, "x", "--context", "c", "--phase", "2", "--supersedes", "1", "--alternative", "y", code=2
    )
    assert [one["place"] for one in found["problems"]] == ["--alternative", "--supersedes", "decide"]


def test_a_phase_that_is_not_there_is_refused(phased):
    found = decide(phased, "x", "--context", "c", "--decision", "d", "--phase", "9", code=2)
    assert "no phase reads `9`" in only_says(found)


# status, resume and report


def test_open_blockers_follow_what_is_critical(phased):
    opened = text(phased, STATUS_PATH).replace("**State:** answered", "**State:** open")
    phased.commit({STATUS_PATH: opened, "STATE.md": text(phased, "STATE.md").replace("(answered,", "(open,")})
    line = f"blocker       phase-2 B1 Which licence has the grammar?: {STATUS_PATH}#b1\n"
    for command in ("status", "resume"):
        assert line in phased.call(command).out
        document = phased.call(command, "--json").document
        assert document["phases"] == phase(phased, "list")["phases"]
    report = phased.call("report").out
    assert "**phase-2 B1: Which licence has the grammar?**" in report
    assert "Root Cause: attempted: read LICENSE and the header of grammar.y" in report
    assert (
        "Mitigation: needs a yes or no to deriving from it: `orchestrate msg inbox` has the command" in report
    )


def test_answered_blockers_are_none_of_the_reports(phased):
    assert "blocker " not in phased.call("status").out
    assert "Which licence" not in phased.call("report").out
