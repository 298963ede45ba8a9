"""The family `phases` in a real project: turned on, filled with copies, validated."""

import pytest
from support.phases import FIRST, FIRST_PLAN, LOG, PLAN_FILE, PLAN_PATH, PROJECT, STATE, STATUS_PATH, told


@pytest.fixture
def phased(lab):
    """Return a project in the middle of the story, with the family on."""
    files = {path: text.decode() for path, text in told().items() if text is not None}
    lab.commit({**files, "orchestrate.toml": 'families = ["phases"]\n'})
    return lab


def problems(lab, *paths, code=0):
    found = lab.call("validate", "--json", *paths)
    assert found.code == code, found.says
    return [(one["place"], one["what"]) for one in found.document["problems"] if one["severity"] != "info"]


def about_phases(lab, code=0):
    found = problems(lab, code=code)
    return [(place, what) for place, what in found if place.startswith(("phases/", "STATE.md"))]


def test_a_new_project_gets_the_dashboard_with_what_is_known(lab):
    answer = lab.call("init", "--json", "--with", "phases").document
    assert "STATE.md" in (*answer["created"], *answer["completed"])
    text = (lab.root / "STATE.md").read_text()
    assert "**Current Phase:** phase-1\n" in text
    assert "| phase-1 | Review | IN PROGRESS | - | - | - | - | - | - |\n" in text
    assert ": DECISIONS.md\n" in text
    assert about_phases(lab) == []
    again = lab.call("init", "--json").document
    assert (again["created"], again["completed"], again["commit"]) == ([], [], None)


def test_a_project_that_has_phases_already_gets_their_counts(lab):
    lab.commit({
        "STATUS.md": PROJECT, "DECISIONS.md": LOG, "phases/phase-1/STATUS.md": FIRST,
        "phases/phase-1/PLAN.md": FIRST_PLAN,
    })  # fmt: skip
    lab.call("init", "--with", "phases")
    text = (lab.root / "STATE.md").read_text()
    assert "| phase-1 | Foundation | COMPLETE | 0 | 0 | 4 | 0 | - | phases/phase-1/STATUS.md |\n" in text
    assert about_phases(lab) == []


def test_the_dashboard_of_another_tool_keeps_its_words(lab):
    lab.write("STATE.md", "# Project State\n\nLast activity: 2026-01-02\n\n## Decisions\n\n- mine\n")
    lab.call("init", "--with", "phases")
    text = (lab.root / "STATE.md").read_text()
    assert "Last activity: 2026-01-02\n" in text
    assert "- mine\n" in text
    assert "\n## Phases\n" in text


def test_the_documents_of_the_family_are_validated(phased):
    assert about_phases(phased) == []
    files = [one["path"] for one in phased.call("validate", "--json").document["files"]]
    assert {"STATE.md", PLAN_PATH, STATUS_PATH, "phases/phase-1/STATUS.md"} <= set(files)


def test_each_copy_that_differs_is_named_at_its_line(phased):
    phased.write("STATE.md", STATE.replace("| 1 | 1 | 1 | 0 |", "| 1 | 33% | 1 | 0 |"))
    phased.write(PLAN_PATH, PLAN_FILE.replace("02-01: Lexer", "02-01: Scanner"))
    found = [(place, what) for place, what in about_phases(phased) if "not committed" not in what]
    assert found == [
        ("STATE.md:15", "holds a percentage"),
        ("STATE.md:15", "`In Progress` of `phase-2` is `33%`, and `1` in its home"),
        (f"{STATUS_PATH}:15", "`02-01` is `Lexer`, and `Scanner` in PLAN.md"),
    ]
    phased.call("init")
    assert "| 1 | 1 | 1 | 0 |" in (phased.root / "STATE.md").read_text()


def test_a_doubled_id_and_a_ragged_row_are_errors_with_their_lines(phased):
    phased.write(PLAN_PATH, PLAN_FILE.replace("### 02-03", "### 02-01"))
    ragged = (phased.root / STATUS_PATH).read_text().replace("| Errors |", "| Err|ors |")
    phased.write(STATUS_PATH, ragged)
    found = [(place, what) for place, what in problems(phased, PLAN_PATH, STATUS_PATH, code=1)]
    assert (f"{PLAN_PATH}:26", "there is a plan `02-01` already, on line 9") in found
    assert (f"{STATUS_PATH}:17", "the row has 9 cells where the header has 8") in found


def test_a_family_that_is_off_is_not_read(phased):
    phased.write("orchestrate.toml", "")
    phased.write("STATE.md", "\0")
    phased.write(PLAN_PATH, "")
    assert about_phases(phased) == []
