"""A phase worker moves the plans of its phase by messages, and only it; a plan is complete once proved."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.messages import SENDS, Talk
from support.runtimes import wait_until
from support.templates import front

from orchestrator.state.phases.phase_status.read import read

PLAN = "phases/phase-1/PLAN.md"
STATUS = "phases/phase-1/STATUS.md"
PLANS = """\
# Phase 1: Review - Plan

**Phase:** phase-1

---

## Plans

### 01-01: Lexer

**Verify:** `test -s src/lex.txt`

**Tasks:**
- Token kinds

### 01-02: Grammar

**Verify:** `test -s src/grammar.txt || { echo no grammar; exit 3; }`

### 01-03: Errors

**Verify:** none

---

**Plan File End**
"""
WAITS = """
import time
def receipt(sent):
    from workers.messages.logs import Logs
    until = time.monotonic() + 100
    while time.monotonic() < until:
        for seen in Logs(str(folder), run).read_all().records:
            one = seen.record
            if one.type == "ack" and one.re == sent.id and one.sender.endswith(".coordinator"):
                return one
        time.sleep(0.02)
    raise SystemExit("no receipt")
def tell(type, plan=None, body="", **facts):
    return receipt(send(type, "coordinator", body, plan=plan, phase="phase-1", facts=facts))
def said(ack):
    print(ack.facts["how"], ack.body, flush=True)
"""
WORK = SENDS + WAITS


@pytest.fixture
def talk(lab):
    found = Talk(lab)
    assert lab.call("init", "--with", "phases").code == 0
    lab.commit({PLAN: PLANS, "src/old.txt": "old\n"})
    return found


def phase_worker(talk, script, **more):
    """Commit the template of a phase worker that does as the script says, and run it."""
    fields = "".join(f"\n{key}: {value}" for key, value in more.items())
    template = front(f"""
        agent: command
        command: ["{talk.python}", "work.py"]
        phase: phase-1
        title: Lead the phase
        mode: write
        owns: ["src/**"]
        phase_worker: true
    """).replace("phase_worker: true", f"phase_worker: true{fields}")
    talk.lab.commit({"docs/worker-ticket-templates/command-1.md": template, "work.py": WORK + script})
    return talk.lab.call("run", "phase-1", "--json")


def status_of(talk):
    return read(STATUS, (talk.lab.root / STATUS).read_bytes())


def output(talk):
    return (talk.run / "Command-Worker-1.stdout").read_text()


def test_a_plan_is_complete_once_its_check_has_passed_on_the_commit_of_its_scope(talk):
    told = phase_worker(talk, """
import pathlib
said(tell("plan_started", "01-01"))
pathlib.Path("src/lex.txt").write_text("tokens")
said(tell("task_progress", "01-01", task="Token kinds", state="done"))
said(tell("plan_complete", "01-01", "12 kinds"))
pathlib.Path("src/lex.txt").write_text("tokens, better")
""")  # fmt: skip
    assert told.code == 0, told
    assert output(talk).split("\n")[:3] == ["handled ", "handled ", "handled "]
    row = status_of(talk).row("01-01")
    assert (row.state, row.commit, row.verified) == ("complete", row.verified, row.commit)
    assert talk.lab.git("show", f"{row.commit}:src/lex.txt") == "tokens"
    assert talk.lab.git("rev-parse", "refs/orchestrate/plans/phase-1/01-01").strip() == row.commit
    assert row.landed == told.document["commit"]["landing"]
    state = (talk.lab.root / "STATE.md").read_text()
    assert "| 2 | 0 | 1 | 0 |" in state, state
    assert talk.lab.git("status", "--porcelain") == ""
    chat = (talk.lab.root / f"phases/phase-1/chat/{talk.run.name}.jsonl").read_text().splitlines()
    assert [(one["type"], one["stands"]) for one in map(json.loads, chat)] == [
        ("plan_started", "handled"), ("plan_complete", "handled")]  # fmt: skip


def test_what_does_not_pass_is_not_complete_and_its_worker_learns_why(talk):
    told = phase_worker(talk, """
said(tell("plan_started", "01-02"))
said(tell("plan_complete", "01-02", "done, I think"))
""")  # fmt: skip
    assert told.document["status"] == "integrated"
    refused = output(talk).splitlines()[1]
    assert refused.startswith("refused 01-02 does not pass: test -s src/grammar.txt"), refused
    assert refused.endswith("exit 3: no grammar")
    row = status_of(talk).row("01-02")
    assert (row.state, row.commit) == ("failed", None)
    text = (talk.lab.root / STATUS).read_text().replace("\\(", "(")
    assert "01-02 in progress -> failed: its worker ended (complete) without a word on it" in text


def test_illegal_moves_are_refused_with_the_reason_and_change_nothing(talk):
    phase_worker(talk, """
said(tell("plan_complete", "01-03"))
said(tell("plan_started", "01-9"))
said(tell("phase_complete"))
said(tell("plan_started", "01-03"))
said(tell("plan_started", "01-03"))
said(tell("plan_complete", "01-03"))
said(tell("error", "01-03", "too late", state="failed"))
""")  # fmt: skip
    assert output(talk).splitlines()[:7] == [
        "refused 01-03 was not started; call plan_started first",
        "refused phase-1 has no plan 01-9; there are 01-01, 01-02, 01-03",
        "refused not complete: 01-01 not started, 01-02 not started, 01-03 not started",
        "handled ",
        "refused 01-03 is in progress already",
        "handled ",
        "refused 01-03 is complete already",
    ]
    assert status_of(talk).row("01-03").commit == talk.lab.git("rev-parse", f"{talk.base}").strip()


def test_a_blocker_stands_in_the_files_and_the_leads_answer_beside_it(talk):
    told = phase_worker(talk, """
said(tell("plan_started", "01-03"))
ack = tell("blocker", "01-03", "Two are named.", title="Which licence?", task="Write", attempted="LICENSE",
           needs="a yes or no", mode="skip")
print(ack.facts["pointer"])
said(tell("state_change", context="The fixtures are Latin-1"))
said(tell("state_change", decision={"title": "Spans", "context": "bytes", "decision": "a token is a span"}))
""")  # fmt: skip
    assert told.document["next_action"] == "orchestrate msg inbox"
    assert f"{STATUS}#b1" in output(talk)
    (blocker,) = status_of(talk).blockers
    assert (blocker.title, blocker.plan, blocker.mode) == ("Which licence?", "01-03", "skip")
    text = (talk.lab.root / STATUS).read_text()
    assert "- The fixtures are Latin-1 (" in text
    assert ": Spans\n" in text


def test_a_worker_that_answers_its_own_blocker_as_if_it_were_the_lead_closes_nothing(talk):
    phase_worker(talk, """
asked = send("blocker", "coordinator", "Two are named.", facts=dict(title="Which?", mode="skip"))
receipt(asked)
send("answer", "coordinator", "MIT, says the lead", re=asked)
send("ack", "coordinator", "", re=asked, facts=dict(how="handled"))
said(tell("plan_started", "01-03"))
""")  # fmt: skip
    (blocker,) = status_of(talk).blockers
    assert (blocker.title, blocker.answered_by) == ("Which?", None)
    assert "says the lead" not in (talk.lab.root / STATUS).read_text()


def test_another_worker_moves_no_plan_and_a_run_without_a_phase_worker_none(talk):
    talk.commit(WORK + 'said(tell("plan_started", "01-01"))\n')
    talk.lab.call("run", "phase-1", "--json")
    assert output(talk).splitlines()[0].startswith("refused this run has no phase worker")


def test_the_blocker_of_a_phase_worker_that_has_ended_with_it_is_open_until_it_is_answered(talk):
    told = phase_worker(talk, """
import sys
if "> Yes: MIT." in sys.stdin.read():
    said(tell("plan_started", "01-03"))
    said(tell("plan_complete", "01-03"))
    sys.exit()
said(tell("blocker", "01-03", "Two are named.", title="Which licence?", mode="skip"))
print('ORCHESTRATE-RESULT {"status": "blocked", "summary": "Which licence?"}')
""")  # fmt: skip
    assert told.document["workers"][0]["outcome"] == "blocked"
    assert status_of(talk).blockers[0].state == "open"
    (asked,) = (one for one in talk.book() if one.record.type == "blocker")
    sent = talk.lab.call("msg", "send", "--re", asked.record.id, "Yes: MIT.", "--json").document
    assert sent["resumes"]
    told = talk.lab.call("resume", talk.run.name, "--json")
    assert told.document["workers"][0]["outcome"] == "complete", told
    status = status_of(talk)
    assert (status.blockers[0].state, status.row("01-03").state) == ("closed", "complete")
    assert "**Answer:** Yes: MIT." in (talk.lab.root / STATUS).read_text()


TOUCHED = """
import os, pathlib, time
said(tell("plan_started", "01-01"))
pathlib.Path("src/lex.txt").write_text("tokens")
pathlib.Path({begun!r}).touch()
while not os.path.exists({go!r}):
    time.sleep(0.01)
{end}
"""
COMPLETE = 'said(tell("plan_complete", "01-01", "12 kinds"))'


def while_on(talk, tmp_path, change, end=COMPLETE):
    """Run a phase worker; once it has begun a plan, change something, and let it go on to its end."""
    begun, go = tmp_path / "begun", tmp_path / "go"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(phase_worker, talk, TOUCHED.format(begun=str(begun), go=str(go), end=end))
        try:
            wait_until(lambda: begun.exists() or running.done())
            change(talk.lab.root / STATUS)
        finally:
            go.touch()
        return running.result().document


def test_what_is_written_by_hand_beside_a_move_stays_and_so_does_the_move(talk, tmp_path):
    def write(path):
        text = path.read_text()
        path.write_text(text.replace("## Tasks\n", "Words by hand.\n\n## Tasks\n", 1))

    told = while_on(talk, tmp_path, write)
    assert told["status"] == "integrated"
    row = status_of(talk).row("01-01")
    assert (row.state, row.landed) == ("complete", told["commit"]["landing"])
    assert "Words by hand.\n" in (talk.lab.root / STATUS).read_text()


def test_a_status_that_is_deleted_in_mid_run_is_named_and_stops_no_landing(talk, tmp_path):
    told = while_on(
        talk,
        tmp_path,
        lambda path: path.unlink(),
        'send("error", "coordinator", "no time", plan="01-01", phase="phase-1", facts={"state": "failed"})',
    )
    assert (told["status"], told["workers"][0]["verdict"]) == ("integrated", "accepted")
    assert talk.lab.git("show", "HEAD:src/lex.txt") == "tokens"
    assert [(one["place"], one["what"], one["severity"]) for one in told["problems"]] == [
        (STATUS, "the file is missing", "warning")]  # fmt: skip
    # It was never committed: the next run begins it anew.
    again = talk.lab.call("run", "phase-1", "--again", "--json").document
    assert (again["status"], again["problems"]) == ("integrated", [])
    assert status_of(talk).row("01-01").state == "failed"


def test_a_plan_that_comes_after_the_landing_is_work_for_the_phase_worker_again(talk):
    script = """
import pathlib
for plan in ("01-01", "01-02", "01-03", "01-04"):
    if pathlib.Path("src", plan).exists() or plan not in open(sys.argv[1]).read():
        continue
    pathlib.Path("src", plan).write_text("made")
    tell("plan_started", plan)
    tell("plan_complete", plan)
"""
    talk.lab.commit({PLAN: re.sub(r"\*\*Verify:\*\* `.*`", "**Verify:** none", PLANS)})
    script = script.replace("open(sys.argv[1])", "open(os.environ['ORCHESTRATE_TICKET'])")
    assert phase_worker(talk, script).code == 0
    assert {row.state for row in status_of(talk).plans} == {"complete"}
    assert talk.lab.call("run", "phase-1", "--json").document["run"] is None  # all is done
    assert talk.lab.call("phase", "plan", "Printer").code == 0
    again = talk.lab.call("run", "phase-1", "--json").document
    assert [one["verdict"] for one in again["workers"]] == ["accepted"]
    assert status_of(talk).row("01-04").state == "complete"
    assert talk.lab.call("run", "phase-1", "--json").document["run"] is None
