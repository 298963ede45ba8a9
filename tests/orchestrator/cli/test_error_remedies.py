"""What an error answer names as its way out: it can be followed, and does not fail in the same way."""

import shlex

import pytest
from support.repository import template


@pytest.mark.parametrize(
    ("arguments", "way_out"),
    [
        (("phase", "start", "nope"), "orchestrate phase list"),
        (("todo", "move", "99", "--backlog"), "orchestrate todo list"),
        (("todo", "done", "nothing"), "orchestrate todo list"),
        (("deliverable", "done", "nothing"), "orchestrate deliverable list"),
        (("criterion", "done", "zz"), "orchestrate criterion list"),
    ],
)
def test_a_refusal_names_a_command_that_goes_through(lab, arguments, way_out):
    lab.templates(command_1=template())
    refused = lab.call(*arguments, "--json")
    assert (refused.code, refused.document["next_action"]) == (2, way_out)
    assert lab.call(*way_out.split()[1:]).code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("plan", "phase-3"), "phases here: phase-1"),
        (("run", "nope"), "phases here: phase-1"),
        (("plan",), "`orchestrate plan --help`"),
        (("integrate", "--frobnicate", "last"), "`orchestrate integrate --help`"),
        (("todo", "move", "1", "--priority", "P9"), "`orchestrate todo move --help`"),
    ],
)
def test_a_call_that_somebody_has_to_correct_has_no_next_one(lab, arguments, told):
    lab.templates(command_1=template())
    refused = lab.call(*arguments, "--json")
    assert (refused.code, refused.document["next_action"]) == (2, None)
    assert refused.document["waiting_for"] == "lead"
    assert told in refused.document["what"]
    assert refused.document["what"] in lab.call(*arguments).err


def test_a_demo_where_something_stands_names_a_folder_that_is_free(lab, tmp_path):
    for name in ("a demo", "a demo-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine").touch()
    refused = lab.call("demo", str(tmp_path / "a demo"), "--json")
    assert refused.code == 2
    assert shlex.split(refused.document["next_action"]) == ["orchestrate", "demo", str(tmp_path / "a demo-3")]


def test_what_was_approved_is_the_next_to_be_done(lab):
    assert lab.call("phase", "add", "Core", "--milestone", "It works", "--json").code == 0
    text = (lab.root / "STATUS.md").read_text()
    plan, mark, rest = text.partition("## Progress")
    lab.commit({"STATUS.md": plan.replace("- [ ] ", "- [x] ") + mark + rest})
    blocked = lab.call("phase", "complete", "--no-verify", "--json")
    assert blocked.code == 4
    approve = shlex.split(blocked.document["when_approved"].replace("NAME", "Ada"))[1:]
    approved = lab.call(*approve, "--json").document["next_action"]
    assert approved == "orchestrate phase complete --no-verify"
    done = lab.call(*approved.split()[1:], "--json")
    assert (done.code, done.document["next_action"]) == (0, "orchestrate status")


def test_a_refusal_says_once_what_is_wrong(lab):
    lab.templates(command_1=template())
    for words in (("plan", "phase-9"), ("run", "phase-1", "--only", "nope"), ("plan",)):
        said = lab.call(*words).err.strip().splitlines()
        assert len(said) == len(set(said)) == 1, said
        assert said[0].startswith("error: ")


def test_a_command_in_the_words_of_a_wait_is_one_that_returns(lab):
    lab.templates(command_1=template(("sh", "-c", "exit 3")))
    assert lab.call("run", "phase-1", "--json").code == 1
    told = lab.call("status", "--json", "--project", str(lab.root), cwd=lab.home).document
    again = f"`orchestrate run phase-1 --only command-1 --detach --project {lab.root}`"
    assert (told["next_action"], told["waiting_for"]) == (None, "lead")
    assert again in told["what"]


def test_a_step_that_tests_first_comes_with_a_limit_for_a_program(lab):
    lab.templates(command_1=template())
    step = lab.call("run", "phase-1", "--json").document["next_action"]
    assert step == "orchestrate deliverable done 'Code review' --detach"
    done = lab.call(*shlex.split(step)[1:], "--json")
    assert (done.code, done.document["deliverable"]["done"]) == (0, True)
