"""Reports: the content of a final answer, and the complaints about its form."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickets.report import STATUSES, Blocked, Clarification, Proposal, Report, read_report
from tickets.report_schema import REPORT_SCHEMA

WHOLE = """\
## Summary

Ported the lexer.

## Analysis

```
Status: BLOCKED
## Status
```
The server says
- Status: 200 OK

## Proposal

Two files.

### Affected Files

- `src/lex.py`
- src/parse.py

### Sketch

```python
# Summary
```

### Testing

make test

### Integration Notes

None.

## Risks & Alternatives

Slow.

## Follow-ups

- [ ] measure it
  on a large file
- None

## Decisions

1. Use bytes

## Status

COMPLETE
"""
READ = Report(
    "COMPLETE",
    "Ported the lexer.",
    "```\nStatus: BLOCKED\n## Status\n```\nThe server says\n- Status: 200 OK",
    Proposal("Two files.", ("src/lex.py", "src/parse.py"), "```python\n# Summary\n```", "make test", "None."),
    "Slow.",
    follow_ups=("measure it on a large file",),
    decisions=("Use bytes",),
)


def wrong(report):
    return [str(problem) for problem in report.complaints if "section" not in problem.what]


def test_a_whole_report_is_read_without_complaint():
    assert read_report(WHOLE) == READ


def test_the_same_report_as_json_is_the_same_value():
    answer = {
        "summary": READ.summary,
        "analysis": READ.analysis,
        "proposal": {
            "text": READ.proposal.text,
            "affected_files": list(READ.proposal.affected_files),
            "sketch": READ.proposal.sketch,
            "testing": READ.proposal.testing,
            "integration_notes": READ.proposal.integration_notes,
        },
        "risks_and_alternatives": READ.risks,
        "status": "COMPLETE",
        "follow_ups": list(READ.follow_ups),
        "decisions": list(READ.decisions),
    }
    properties = REPORT_SCHEMA["properties"]
    assert set(answer) <= set(properties)
    assert properties["status"] == {"enum": list(STATUSES)}
    assert properties["proposal"]["properties"].keys() == set(Proposal._fields)
    assert properties["blocked"]["required"] == list(Blocked._fields)
    assert properties["clarification"]["required"] == list(Clarification._fields)
    assert read_report(json.dumps(answer)) == READ
    assert read_report(f"```json\n{json.dumps(answer, indent=1)}\n```\n") == READ


def test_carriage_returns_and_a_fence_around_the_whole_change_nothing():
    assert read_report(WHOLE.replace("\n", "\r\n")) == READ
    assert read_report(f"```markdown\n{WHOLE}```\n") == READ


@pytest.mark.parametrize(
    "said",
    [
        "## Status: COMPLETE",
        "## Status\nCOMPLETE",
        "# Status\n\n- COMPLETE",
        "### 5. Status\n`complete`",
        "**Status:** COMPLETE",
        "**Status**: Complete.",
        "**Status: COMPLETE**",
        "Status: **COMPLETE**",
        "- Status: COMPLETE",
        "- **Status:** COMPLETE - all tests pass",
        "**Status**\nCOMPLETE",
        "> Status: COMPLETE",
        "## Status\n\n✅ COMPLETE (184 tests)",
        "**Summary:** done\n**Status:** COMPLETE",
        "Status: COMPLETE\n\nStatus: COMPLETE",
    ],
)
def test_a_status_is_found_however_it_is_written(said):
    report = read_report(said)
    assert report.status == "COMPLETE"
    assert wrong(report) == []


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("", "report:1: the status is missing"),
        ("All is COMPLETE.\n", "report:2: the status is missing"),
        ("```\nStatus: COMPLETE\n```", "report:3: the status is missing"),
        ("<!--\nStatus: COMPLETE\n-->", "report:3: the status is missing"),
        ("## Status\nCOMPLETED", "report:2: `COMPLETED` is not a status"),
        ("## Status\nINCOMPLETE", "report:2: `INCOMPLETE` is not a status"),
        ("x\n**Status:** done", "report:2: `done` is not a status"),
        (
            "## Status\nCOMPLETE | BLOCKED | NEEDS_CLARIFICATION",
            "report:2: `COMPLETE | BLOCKED | NEEDS_CLARIFICATION` is not a status",
        ),
        ('{"status": "DONE"}', "report:1: `DONE` is not a status"),
        ('{"status": 3}', "report:1: the status is missing"),
    ],
)
def test_a_status_that_is_not_one_is_named_with_its_line(said, complaint):
    report = read_report(said)
    assert report.status is None
    assert wrong(report) == [f"{complaint}; write one of COMPLETE, BLOCKED, NEEDS_CLARIFICATION"]


def test_of_two_statuses_the_last_wins_under_protest():
    report = read_report("Status: BLOCKED\n\n## Status\nCOMPLETE\n", "R/Codex-Worker-1.txt")
    assert report.status == "COMPLETE"
    assert wrong(report) == [
        "R/Codex-Worker-1.txt:4: says COMPLETE here and something else in line 1; write one status"
    ]


@pytest.mark.parametrize(
    "said",
    [
        "## Status\nBLOCKED\n\nBlocker: no key\nAttempted: to ask\n  twice\nNeeds: a key",
        "## Status\n**BLOCKED**\n- **Blocker:** no key\n- **Attempted:** to ask\n  twice\n- **Needs:** a key",
        "## Status\nBLOCKED\n### Blocker\nno key\n### Attempted\nto ask\n  twice\n### Needs\na key",
        "# R\n\n**Status:** BLOCKED\n**Blocker:** no key\n**Attempted:** to ask\n  twice\n**Needs:** a key",
        json.dumps(
            {
                "status": "BLOCKED",
                "blocked": {"blocker": "no key", "attempted": "to ask\n  twice", "needs": "a key"},
            }
        ),
    ],
)
def test_a_blocked_worker_says_what_stops_it(said):
    report = read_report(said)
    assert report.status == "BLOCKED"
    assert report.blocked == Blocked("no key", "to ask\n  twice", "a key")
    assert report.clarification is None
    assert wrong(report) == []


def test_a_question_has_its_context_and_what_it_lacks_is_told():
    report = read_report(
        "## Status\nneeds clarification\n\n**Question:** which one?\n**Context:** two specs\n"
    )
    assert report.status == "NEEDS_CLARIFICATION"
    assert report.clarification == Clarification("which one?", "two specs")
    assert wrong(report) == ["report:1: says NEEDS_CLARIFICATION without impact; write a line for each"]


def test_missing_sections_are_told_one_by_one():
    report = read_report("## Summary\nx\n## Status\nCOMPLETE\n")
    assert [(problem.what, problem.severity) for problem in report.complaints] == [
        ("the section `Analysis` is missing", "warning"),
        ("the section `Proposal` is missing", "warning"),
        ("the section `Risks and Alternatives` is missing", "warning"),
    ]
    assert [problem.what for problem in read_report('{"summary": "x", "status": "COMPLETE"}').complaints] == [
        problem.what for problem in report.complaints
    ]


def test_a_section_of_another_name_ends_the_one_above():
    report = read_report("## Summary\nmine\n### detail\nmine too\n## Something Else\nnot mine\n")
    assert report.summary == "mine\n### detail\nmine too"


LINES = st.sampled_from(
    [
        "## Status",
        "COMPLETE",
        "**Status:** BLOCKED",
        "- Blocker: x",
        "```",
        "~~~~",
        "<!--",
        "-->",
        "# Summary",
        "",
        "## Follow-ups",
        "- [ ] a",
        "  b",
        "Status:",
        "**",
        "#",
        "### Affected Files",
        "{",
        '{"status": "BLOCKED"}',
    ]
)


@given(st.lists(st.one_of(LINES, st.text(max_size=20)), max_size=12))
def test_no_answer_is_too_strange_to_be_read(lines):
    report = read_report("\n".join(lines))
    assert report.status or report.complaints


@settings(max_examples=50)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from([*REPORT_SCHEMA["properties"], "risks", "x"]), inner)
        ),
        max_leaves=12,
    )
)
def test_no_json_is_too_strange_to_be_read(value):
    report = read_report(json.dumps(value))
    assert report.status or report.complaints


@pytest.mark.parametrize(
    "text",
    [
        "{" * 100_000,
        '{"a":' * 100_000,
        "*" * 100_000,
        "#" * 100_000,
        "- " * 50_000,
        "a " * 50_000 + ":",
        "**" + "a " * 50_000,
        "```\n" * 20_000,
        " " * 100_000 + "x",
    ],
)
def test_a_long_strange_answer_is_read_at_once(text):
    assert read_report(text).status is None
