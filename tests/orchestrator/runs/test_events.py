"""Events of the journal: what is written is read back, and nothing of another shape is believed."""

import json

import pytest

from orchestrator.runs.events import (
    EVENTS,
    AcceptanceChecked,
    AcceptanceResult,
    AttemptRepeated,
    Begin,
    ChangesLanded,
    CheckpointTold,
    Claims,
    CostUnsettled,
    DeliverablesFinished,
    Evidence,
    GateBegun,
    GateEnded,
    GateRun,
    GateSeen,
    GateStep,
    LandingBlocked,
    LandingLost,
    MessageNoted,
    MessageUnacknowledged,
    Noted,
    PathsNotLinked,
    ProviderParked,
    RunReopened,
    RunStopped,
    RuntimeWarned,
    StateRecorded,
    TreeSetUp,
    Try,
    Unattributed,
    Usage,
    VerdictSettled,
    Violation,
    WorkerEnded,
    WorkerHeld,
    WorkerReassigned,
    WorkerReopened,
    WorkerSkipped,
    WorkerStarted,
    decoded,
    encoded,
    name_of,
)
from orchestrator.runs.state import RunState, sound_roster
from workers.files.run_dir import RunDir

AT = "2026-02-16T14:28:00.000+00:00"
USAGE = Usage(12_000, 345, 0.25, 100, "agent")
TRY = Try(1, USAGE, "first", "codex", "failed", "exit code 1", 1, None, 3.2, "thread", ("gpt-5",))
BEGIN = Begin("thread", "thread", "exit code 1", ("src/a.py",), 2, "last words")
EVIDENCE = Evidence(
    "namespaces", 0, None, "exited", 2, 3.2, ("src/a.py",), (Violation("out_of_scope", "b"),), USAGE,
    (TRY, TRY._replace(attempt=2)), None, ".taskers/W-1.txt", ".taskers/W-1.patch", "thread", ("out/x",),
    ".taskers/worktrees/W-1", (), AT, AT, 1000,
)  # fmt: skip
SEEN = [
    WorkerStarted("W-1", 1, "0" * 40, "namespaces", "first", "codex"),
    WorkerEnded("W-1", "complete", "pending", "t-1", "codex", "why", ("unreported",), EVIDENCE),
    WorkerSkipped("W-1", "cancelled by the lead"),
    *(AttemptRepeated(word, "W-1", 1, "why", TRY, BEGIN) for word in ("retry", "afresh", "asked", "lost")),
    WorkerReopened("W-1", "r.W-1:7", 1, BEGIN._replace(kind="answered", answer="Yes: MIT.")),
    MessageNoted("W-1", "r.W-1:7", "r.W-1", "r.lead", "question", "phase-2", None, None, "Which?", True),
    MessageUnacknowledged("W-1", "r.W-1:8", "r.W-2"),
    WorkerReassigned("W-1", "claude", "codex", "parked"),
    WorkerHeld("W-1", "memory"),
    ProviderParked("codex", AT, "429", True, 2),
    CostUnsettled("W-1", 1, "disk full"),
    AcceptanceChecked("W-1", "make test", False),
    TreeSetUp("W-1", "npm ci", True, 1.5),
    PathsNotLinked("W-1", (".env",)),
    RuntimeWarned("memory"),
    CheckpointTold("W-1", 1, "testing", "blocked", "no schema"),
    CheckpointTold("W-1", 2, None, "in_progress", "half of it"),
    VerdictSettled("W-1", "rejected", "breaks the gate", "gate"),
    GateBegun(("W-1",)),
    GateStep(3, 7, "W-1 and W-2"),
    LandingBlocked("out/1: has changes that are not committed; commit or stash it"),
    GateRun("t" * 40, 1, "make test", False, "`make test` (exit code 1)", "1 failed", 2.5, ".taskers/o", "f"),
    GateSeen(),
    GateEnded("passed: make test", True, True, "it ran fenced"),
    ChangesLanded("c" * 40, ("W-1",)),
    LandingLost(("W-1",)),
    ChangesLanded("c" * 40, ("W-1", "W-2"), ("b" * 40, "c" * 40)),
    StateRecorded(None, {"W-1": ("complete", "accepted", "")}),
    DeliverablesFinished(("Parser", "Writer")),
    RunStopped("cancelled"),
    RunReopened(),
    Unattributed(("a",), ("W-1", "W-2"), True, "gate", "the gate ran what they wrote"),
]


def written(event):
    return json.loads(json.dumps(encoded(Noted(AT, event))))


def test_every_event_is_read_back_as_it_was_written():
    assert {name_of(event) for event in SEEN} == set(EVENTS)
    for event in SEEN:
        assert decoded(written(event)) == Noted(AT, event)


def test_what_no_reader_needs_is_written_and_not_read():
    claims = Claims("COMPLETE", ("a",), (), ())
    check = AcceptanceResult("make", True, 0, "exited", 1.0, "o")
    event = WorkerEnded("W-1", "complete", None, evidence=Evidence(claims=claims, acceptance=(check,)))
    facts = written(event)["facts"]
    assert facts["claims"] == {"status": "COMPLETE", "files": ["a"], "not_found": [], "not_said": []}
    assert facts["acceptance"][0]["command"] == "make"
    assert set(facts) == set(WorkerEnded._fields) - {"evidence"} | set(Evidence._fields)
    assert decoded(written(event)).event.evidence == Evidence()


@pytest.mark.parametrize("event", SEEN, ids=name_of)
def test_a_field_of_another_kind_spoils_the_record(event):
    record = written(event)
    fields = record["facts"] if isinstance(event, WorkerEnded) else record
    left_to_tools = {"at", "event", "claims", "acceptance"}
    for name in fields.keys() - left_to_tools:
        spoilt = {**fields, name: [{"no": "such thing"}]}
        assert decoded({**record, "facts": spoilt} if fields is not record else spoilt) is None, name


def test_words_of_another_version_are_believed_where_nothing_hangs_on_them():
    record = written(WorkerEnded("W-1", "complete", None))
    record["facts"] |= {"outcome": "evaporated", "violations": [{"kind": "sang", "path": "a"}]}
    assert decoded(record).event.evidence.violations[0].kind == "sang"
    assert decoded({**record, "event": "evaporated"}) is None


def state_of(tmp_path, *events):
    workers = [{"worker": name, "ticket": name.lower(), "agent": "command", "title": name, "skipped": False}
               for name in ("W-1", "W-2")]  # fmt: skip
    state = RunState(RunDir(tmp_path, "20260216_142834"), sound_roster({"phase": "p", "workers": workers}))
    for event in events:
        state.take(Noted(AT, event))
    return state


def test_what_was_known_before_a_worker_ended_stays_where_its_record_lacks_it(tmp_path):
    ended = {
        "at": AT,
        "event": "ended",
        "worker": "W-1",
        "facts": {"outcome": "failed", "verdict": "rejected"},
    }
    repeated = AttemptRepeated("retry", "W-1", 1, "why", TRY, BEGIN)
    worker = state_of(tmp_path, SEEN[0], repeated, decoded(ended).event).workers["W-1"]
    assert (worker.attempts, worker.fence, worker.agent, worker.tries) == (1, "namespaces", "codex", (TRY,))


def test_the_gate_is_known_from_the_state_alone(tmp_path):
    red, green = GateRun("t1", 1, "make", False, "red"), GateRun("t2", 1, "make", True, "green")
    broken = VerdictSettled("W-1", "rejected", "breaks the gate", "gate")
    gate = state_of(tmp_path, GateBegun(), red, green, broken).gate
    assert (gate.unseen, len(gate.known), gate.looks, list(gate.broken)) == (
        True, 2, {("t1", 1), ("t2", 1)}, ["W-1"],
    )  # fmt: skip
    gate = state_of(tmp_path, GateBegun(), red, green, broken, GateSeen(), GateEnded("failed"),
                    StateRecorded(None, {})).gate  # fmt: skip
    assert (gate.unseen, list(gate.known.values()), gate.looks, gate.broken) == (False, [green], set(), {})


def test_harm_holds_its_candidates_until_the_lead_has_accepted_them(tmp_path):
    harm = Unattributed(
        (".git/config",), ("W-1", "W-2", "gone"), True, "gate", "the gate ran what they wrote"
    )
    accepted = VerdictSettled("W-1", "accepted", "fine", "lead")
    rejected = VerdictSettled("W-2", "rejected", "no", "lead")
    held = state_of(tmp_path, harm).workers
    assert [held[name].harm for name in held] == [(harm,), (harm,)]
    settled = state_of(tmp_path, harm, accepted, rejected).workers
    assert [settled[name].harm for name in settled] == [(), ()]
    assert settled["W-1"].despite == {".git/config"}
    assert settled["W-2"].despite == frozenset()
