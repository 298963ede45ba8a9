"""The states of plans: what may move, and the words with which all else is refused."""

from itertools import product

import pytest
from support.phases import PHASE_STATUS, STATUS_PATH, WORKER

from orchestrator.state.phases.phase_status.moves import Reported, failed_check, refusal_of
from orchestrator.state.phases.phase_status.read import read

STATUS = read(STATUS_PATH, PHASE_STATUS.encode())


def refusal(what, plan="", sender=WORKER, *, events="transitions", status=STATUS, plans=None):
    return refusal_of(status, Reported(sender, what, plan), events=events, plans=plans)


def in_state(state, plan="02-02"):
    rows = tuple(row._replace(state=state) if row.plan == plan else row for row in STATUS.plans)
    return STATUS._replace(plans=rows)


ALLOWED = {
    ("plan_started", "not started"), ("plan_started", "failed"), ("plan_complete", "in progress"),
    ("plan_failed", "in progress"),
}  # fmt: skip
ALSO_WITH_MILESTONES = {("plan_complete", "not started"), ("plan_failed", "not started")}
MOVES = ("plan_started", "plan_complete", "plan_failed")
STATES = ("not started", "in progress", "complete", "failed")


@pytest.mark.parametrize("events", ["transitions", "milestones"])
def test_only_the_moves_of_the_machine_are_allowed(events):
    allowed = ALLOWED | (ALSO_WITH_MILESTONES if events == "milestones" else set())
    found = {
        (what, state)
        for what, state in product(MOVES, STATES)
        if refusal(what, "02-02", events=events, status=in_state(state)) is None
    }
    assert found == allowed


@pytest.mark.parametrize("what", [*MOVES, "phase_complete", "task_progress", "state_change"])
@pytest.mark.parametrize(
    "sender",
    ["20260216_142834.Codex-Worker-1", "20260216_142900.Claude-Worker-1", "20260216_142834.lead", ""],
)
def test_another_worker_moves_nothing(what, sender):
    assert refusal(what, "02-02", sender) == f"phase-2 belongs to {WORKER}"


def test_a_phase_that_nobody_has_taken_belongs_to_no_worker():
    free = STATUS._replace(worker=None)
    assert refusal("plan_started", "02-03", status=free) == "phase-2 belongs to no worker"


@pytest.mark.parametrize("plan", ["02-9", "02-1", "02-010", "", "02-01 "])
def test_an_unknown_plan_is_refused_with_those_that_there_are(plan):
    said = f"phase-2 has no plan {plan}; there are 02-01, 02-02, 02-03"
    assert refusal("plan_started", plan) == said
    assert refusal("task_progress", plan) == said


def test_plan_file_decides_which_plans_there_are():
    assert refusal("plan_started", "02-04", plans=["02-03", "02-04"]) is None
    assert refusal("plan_complete", "02-02", plans=["02-03"]) == "phase-2 has no plan 02-02; there are 02-03"
    assert refusal("phase_complete", plans=["02-01"]) is None
    assert refusal("plan_started", "x", plans=[]) == "phase-2 has no plan x; there is none"


@pytest.mark.parametrize(
    ("what", "plan", "state", "said"),
    [
        ("plan_complete", "02-03", "not started", "02-03 was not started; call plan_started first"),
        ("plan_failed", "02-03", "not started", "02-03 was not started; call plan_started first"),
        ("plan_started", "02-02", "in progress", "02-02 is in progress already"),
        ("plan_started", "02-02", "complete", "02-02 is complete already"),
        ("plan_complete", "02-02", "complete", "02-02 is complete already"),
        ("plan_failed", "02-02", "complete", "02-02 is complete already"),
        ("task_progress", "02-02", "complete", "02-02 is complete already"),
        ("plan_complete", "02-02", "failed", "02-02 failed; call plan_started to try it again"),
        ("plan_failed", "02-02", "failed", "02-02 failed; call plan_started to try it again"),
    ],
)
def test_each_other_move_is_refused_with_its_reason(what, plan, state, said):
    assert refusal(what, plan, status=in_state(state, plan)) == said


@pytest.mark.parametrize("state", ["not started", "in progress", "failed"])
def test_tasks_are_reported_until_their_plan_is_complete(state):
    assert refusal("task_progress", "02-02", status=in_state(state)) is None


def test_a_phase_is_complete_once_all_its_plans_are():
    assert refusal("phase_complete") == "not complete: 02-02 in progress, 02-03 not started"
    failed = in_state("failed")
    assert refusal("phase_complete", status=failed) == "not complete: 02-02 failed, 02-03 not started"
    done = STATUS._replace(plans=tuple(row._replace(state="complete") for row in STATUS.plans))
    assert refusal("phase_complete", status=done) is None
    assert refusal("phase_complete", status=done._replace(state="complete")) == "phase-2 is complete already"


def test_a_note_is_refused_to_others_only():
    assert refusal("state_change") is None


@pytest.mark.parametrize(
    ("exit_code", "said", "reason"),
    [
        (1, ["FAILED x", "2 failed, 10 passed", ""], "exit 1: 2 failed, 10 passed"),
        (2, [], "exit 2"),
        ("timed out", ["…"], "timed out: …"),
    ],
)
def test_a_check_that_fails_says_how(exit_code, said, reason):
    command = "python -m pytest tests/lexer -q"
    assert failed_check("02-01", command, exit_code, said) == f"02-01 does not pass: {command}: {reason}"
