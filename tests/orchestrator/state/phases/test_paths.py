"""Where the files of a phase are, by whatever word somebody names it."""

import pytest
from support.plans import PLAN

from orchestrator.errors import StateError
from orchestrator.state.canonical.status.read import slug
from orchestrator.state.phases.paths import chat_path, name_of, plan_path, planned, status_path

TREE = {"STATUS.md": PLAN.encode()}


@pytest.mark.parametrize(
    ("phase", "name"),
    [
        ("phase-2", "phase-2"), ("Phase 2 - Core", "phase-2"), ("phase-02", "phase-2"),
        ("core", "phase-2"), ("phase-2.1", "phase-2.1"), ("elsewhere", "elsewhere"), ("../../etc", "etc"),
        ("a/b", "a-b"), ("Phase_2", "phase-2"),
    ],
)  # fmt: skip
def test_a_phase_has_one_folder_however_it_is_named(phase, name):
    assert name_of(TREE, phase) == name
    assert "/" not in name


def test_a_numbered_phase_is_named_without_asking_the_plan():
    assert name_of({}, "phase-2") == "phase-2"
    assert name_of({"STATUS.md": None}, "core") == "core"


def test_a_word_without_letters_names_no_folder():
    with pytest.raises(StateError, match="cannot name a folder"):
        name_of(TREE, "!!")


def test_the_short_name_of_a_sub_phase_keeps_its_dot():
    assert slug("phase-2.1") == slug("Phase 2.1: Core") == "phase-2.1"


def test_a_phase_is_found_in_the_plan_by_its_short_name():
    assert planned(TREE, "phase-2").title == "Phase 2: Core"
    assert planned(TREE, "phase-9") is None
    assert planned({}, "phase-2") is None


def test_the_files_of_a_phase_are_in_its_folder():
    assert plan_path("phase-2") == "phases/phase-2/PLAN.md"
    assert status_path("phase-2") == "phases/phase-2/STATUS.md"
    assert chat_path("phase-2", "20260216_142834") == "phases/phase-2/chat/20260216_142834.jsonl"
