"""What workers proposed is the lead's to take over: listed with numbers, hostile words and all."""

import pytest
from support.repository import shell

from orchestrator.state.canonical.decisions import decisions
from orchestrator.state.canonical.status import status

REPORT = """cat <<'END'
## Summary
Looked around.
## Follow-ups
- Fix the lexer
- Rename `x`
  everywhere
## Decisions
- Keep one parser
## Status
COMPLETE
END
"""
HOSTILE = """cat <<'END'
## Summary
x
## Follow-ups
- Fix the lexer
- <!-- [x] # Done
## Decisions
- none
## Status
COMPLETE
END
"""


@pytest.fixture
def ran(lab):
    lab.templates(command_1=shell(REPORT), command_2=shell(HOSTILE))
    called = lab.call("run", "phase-1", "--json")
    assert called.code == 0, called
    return lab, called.document["run"]


def test_follow_ups_are_listed_once_each_and_taken_over_by_number_or_all(ran):
    lab, run = ran
    before = lab.everything()
    called = lab.call("todo", "add", "--from", run, "--json").document
    texts = ["Fix the lexer", "Rename `x` everywhere", "<!-- [x] # Done"]
    assert [(one["number"], one["text"], one["taken"]) for one in called["proposals"]] == [
        (number, text, False) for number, text in enumerate(texts, 1)
    ]
    assert (called["next_action"], called["waiting_for"]) == (None, "lead")
    assert f"orchestrate todo add --from {run} --take" in called["what"]
    assert lab.call("todo", "add", "--from", "last", "--take", "9", "--json").code == 2
    assert lab.call("todo", "add", "text", "--from", "last", "--json").code == 2
    assert lab.call("todo", "add", "--from", "nothing", "--json").code == 2
    assert lab.everything() == before
    assert lab.call("todo", "add", "--from", run, "--take", "2", "3", "--priority", "P0").code == 0
    text = (lab.root / "STATUS.md").read_bytes()
    assert [said for _, said in status.read(text).todo["P0"]][-2:] == texts[1:]
    assert status.problems(text) == []
    called = lab.call("todo", "add", "--from", run, "--json").document
    assert [one["taken"] for one in called["proposals"]] == [False, True, True]
    assert lab.call("todo", "add", "--from", run, "--take", "all", "--json").document["changed"] == [
        "STATUS.md"
    ]
    assert (lab.root / "STATUS.md").read_text().count("Rename `x` everywhere") == 1


def test_proposed_decisions_become_entries_that_name_their_worker(ran):
    lab, run = ran
    (one,) = lab.call("decide", "--from", run, "--json").document["proposals"]
    assert (one["text"], one["worker"], one["taken"]) == ("Keep one parser", "Command-Worker-1", False)
    called = lab.call("decide", "--from", run, "--take", "all", "--json")
    assert called.document["changed"] == ["DECISIONS.md"]
    text = (lab.root / "DECISIONS.md").read_text()
    assert f"**Context:** Proposed by Command-Worker-1 in run {run} (accepted)." in text
    assert decisions.problems(text.encode()) == []
    assert lab.call("decide", "--from", run, "--json").document["proposals"][0]["taken"] is True
    again = lab.call("decide", "--from", run, "--take", "1", "--json").document
    assert (again["changed"], again["commit"]) == ([], None)
