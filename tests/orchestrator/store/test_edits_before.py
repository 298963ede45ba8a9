"""A person's edits that were not committed: a state commit that has them says so."""

import re

from support.repository import template


def edit(lab, path, old, new):
    text = (lab.root / path).read_text()
    assert old in text
    lab.write(path, text.replace(old, new, 1))


def test_a_commit_that_has_edits_of_a_person_says_so(lab):
    assert lab.call("todo", "add", "First", "--json").document["problems"] == []
    edit(lab, "STATUS.md", "- [ ] First", "- [ ] First, as I said")
    called = lab.call("todo", "add", "Second", "--json")
    assert (called.code, called.document["problems"][0]["severity"]) == (0, "info")
    assert called.says()[0].startswith("STATUS.md: had changes that were not committed: the commit of this")
    bullets = lab.git("show", "-s", "--format=%B").split("TODO added: Second\n\n")[-1].splitlines()
    assert bullets[0] == "- Also what was changed in STATUS.md before, and not committed"
    assert lab.call("todo", "add", "Third", "--json").document["problems"] == []


def test_a_run_s_commit_says_so_too_and_nothing_of_what_runs_wrote_themselves(lab):
    lab.templates(command_1=template())
    edit(lab, "STATUS.md", "**Lead Agent:**", "**Note:** mine\n**Lead Agent:**")
    called = lab.call("run", "phase-1", "--json")
    assert called.code == 0
    assert [one["severity"] for one in called.document["problems"] if one["place"] == "STATUS.md"] == ["info"]
    said = lab.git("show", "-s", "--format=%B")
    assert "- Also what was changed in STATUS.md before, and not committed\n" in said
    assert re.search(r"\n\nOrchestrate-State: \S+\n", said)
    assert lab.git("show", "-s", "--format=%(trailers:key=Orchestrate-State)").strip()
    lab.templates(command_1=template(title="Other"))
    assert lab.call("run", "phase-1", "--json").document["problems"] == []


def test_an_old_decision_that_was_edited_can_be_put_back_after_the_next_one_was_committed(lab):
    options = ("--context", "c", "--decision", "We do it", "--json")
    assert lab.call("decide", "Old", *options).code == 0
    before = (lab.root / "DECISIONS.md").read_bytes()
    edit(lab, "DECISIONS.md", "We do it", "We do not")
    warned = [one for one in lab.call("decide", "New", *options).says() if "`" in one]
    command = re.search(r"`(git show \S+:DECISIONS\.md)`", warned[0])[1]
    assert lab.git(*command.split()[1:]).encode() == before
    assert "- Also what was changed in DECISIONS.md" in lab.git("show", "-s", "--format=%B")
    later = next(one for one in lab.call("validate", "--json").says() if "was edited" in one)
    command = re.search(r"`(git show \S+:DECISIONS\.md)`", later)[1]
    assert lab.git(*command.split()[1:]).encode() == before
