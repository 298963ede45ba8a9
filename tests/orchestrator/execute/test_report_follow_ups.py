"""What a report lacks: asked for once in the same thread, and never at the cost of the work that is done."""

import json
import shutil
import signal
from datetime import UTC, datetime

import pytest
from support.faults import AGENTS, step, ticket

WRITES = {"mode": "write", "owns": ["src/**"]}


def told_twice(*then, **fields):
    """Spell an answer that lacks its status, and what is played when it is asked for that."""
    return step("unreported", then=[{"do": do, **more} for do, more in then], **fields)


@pytest.fixture
def prepare(rehearsal):
    """Commit templates, and settings before and after the others."""

    def commit(tickets, first="", last=""):
        rehearsal.prepare(tickets)
        text = (rehearsal.root / "orchestrate.toml").read_text()
        rehearsal.lab.commit({"orchestrate.toml": first + text + "# The end.\n" + last})
        return rehearsal

    return commit


def record(lab, worker):
    return json.loads((lab.root / worker["output"]).with_suffix(".json").read_text())


def kinds(lab, worker):
    return [one["kind"] for one in record(lab, worker)["tries"]]


def park(lab, agent, seconds):
    """Leave word, as another runtime does, that a provider is to be left alone."""
    now = datetime.now(UTC).timestamp()
    folder = lab.root / ".git/orchestrate/providers"
    folder.mkdir(parents=True, exist_ok=True)
    said = {"limit": 5, "full": 5, "until": now + seconds, "since": now, "reason": "429", "named": True}
    (folder / f"{agent}.json").write_text(json.dumps({**said, "pauses": 1}))


@pytest.mark.parametrize("lacks", ["Status", "Risks and Alternatives"])
def test_a_report_is_completed_in_its_own_thread_and_all_is_counted(prepare, lacks):
    lab = prepare({f"{agent}-1": ticket(step("unreported", lacks=lacks), agent=agent) for agent in AGENTS})
    for worker in lab.run()["workers"]:
        assert (worker["outcome"], worker["flags"], worker["attempts"]) == ("complete", [], 2)
        assert [worker["usage"][name] for name in ("input_tokens", "output_tokens")] == [200, 20]
        first, second = record(lab, worker)["tries"]
        assert (first["kind"], second["kind"]) == ("first", "asked")
        assert first["thread"] == second["thread"] is not None
        assert [one["usage"]["input_tokens"] for one in (first, second)] == [100, 100]
        told = (lab.run_folder() / f"tickets/{worker['worker']}.2.md").read_text()
        assert told.startswith(f"Your report lacks: {lacks}.")
        assert "## " + lacks in (lab.root / worker["output"]).read_text()
    assert [one["reason"] for one in lab.journal("asked")] == [f"its report lacks: {lacks}"] * 3


def test_who_does_not_learn_is_unreported_and_files_and_acceptance_decide(prepare):
    silent = step("unreported", learns=False)
    write = step("write", path="src/new.py", text="x = 1\n")
    lab = prepare({
        "claude-1": ticket(silent),
        "claude-2": ticket(write, silent, acceptance=["test -e src/new.py"], **WRITES),
        "codex-1": ticket(
            step("write", path="docs/new.md"), silent, agent="codex", mode="write", owns=["docs/**"],
            acceptance=["false"],
        ),
        "claude-3": ticket(step("answer", status="BLOCKED", lacks="Analysis")),
    })  # fmt: skip
    document = lab.run()
    for name, outcome in (("claude-1", "complete"), ("claude-2", "complete"), ("codex-1", "failed")):
        worker = lab.worker(document, name)
        assert (worker["outcome"], worker["flags"]) == (outcome, ["unreported"]), worker
        assert kinds(lab, worker) == ["first", "asked"]
    assert lab.worker(document, "claude-2")["files"] == ["src/new.py"]
    assert lab.worker(document, "codex-1")["reason"].startswith("acceptance failed")
    assert lab.worker(document, "claude-3")["attempts"] == 1  # it has said what counts


def test_however_the_question_ends_the_first_answer_stands_and_nobody_asks_again(prepare):
    write = step("write", path="src/new.py", text="x = 1\n")
    lab = prepare({
        "claude-1": ticket(write, told_twice(("die", {})), retries=2, **WRITES),
        "claude-2": ticket(told_twice(("hang", {})), retries=2, idle_timeout="1s"),
        "claude-3": ticket(told_twice(("cut", {"bytes": 900})), retries=2),
        "codex-1": ticket(told_twice(("error", {"status": 429, "message": "too many requests"})),
                          agent="codex", retries=2),
        "gemini-1": ticket(told_twice(("refuse", {})), agent="gemini", retries=2),
    })  # fmt: skip
    document = lab.run()
    for worker in document["workers"]:
        assert (worker["outcome"], worker["flags"]) == ("complete", ["unreported"]), worker
        assert kinds(lab, worker) == ["first", "asked"]
        assert "Done." in (lab.root / worker["output"]).read_text()
    assert len(lab.journal("started")) == 10
    assert [one["agent"] for one in lab.journal("parked")] == ["codex"]


@pytest.mark.parametrize("when", ["waits", "runs"])
def test_a_cancel_stands_also_before_a_question(prepare, when):
    lab = prepare({"codex-1": ticket(told_twice(("stall", {})), step("sleep", seconds=0.5), agent="codex")})
    runtime = lab.begin("run", "phase-1")
    if when == "waits":
        lab.wait_until(lambda: lab.journal("started"))
        park(lab, "codex", 60)
        lab.wait_until(lambda: lab.journal("asked"))
    else:
        lab.wait_until(lambda: len(lab.journal("started")) == 2)
    assert lab.lab.call("cancel", lab.run_folder().name, "Codex-Worker-1").code == 0
    (worker,) = lab.end(runtime)["workers"]
    assert (worker["outcome"], worker["reason"]) == ("cancelled", "cancelled by the lead")
    assert len(lab.journal("asked")) == 1


def test_a_question_whose_runtime_dies_is_asked_once_however_far_it_had_come(prepare):
    lab = prepare({"codex-1": ticket(step("unreported"), step("sleep", seconds=0.5), agent="codex")})
    runtime = lab.begin("run", "phase-1")
    lab.wait_until(lambda: lab.journal("started"))
    park(lab, "codex", 60)
    lab.wait_until(lambda: lab.journal("asked"))
    runtime.kill()  # decided, and not yet asked
    runtime.communicate()
    (lab.root / ".git/orchestrate/providers/codex.json").unlink()
    (worker,) = lab.run("resume", lab.run_folder().name)["workers"]
    assert (worker["outcome"], worker["flags"], worker["attempts"]) == ("complete", [], 2)
    assert kinds(lab, worker) == ["first", "asked"]
    assert len(lab.journal("asked")) == 1
    assert worker["usage"]["input_tokens"] == 200


def test_a_question_that_cannot_be_started_leaves_the_first_report_standing(prepare):
    lab = prepare({"codex-1": ticket(step("unreported"), step("sleep", seconds=0.5), agent="codex")})
    runtime = lab.begin("run", "phase-1")
    lab.wait_until(lambda: lab.journal("started"))
    park(lab, "codex", 60)
    lab.wait_until(lambda: lab.journal("asked"))
    runtime.kill()
    runtime.communicate()
    (lab.root / ".git/orchestrate/providers/codex.json").unlink()
    (home,) = lab.root.glob(".taskers/homes/*/Codex-Worker-1")
    shutil.rmtree(home)
    home.touch()
    (worker,) = lab.run("resume", lab.run_folder().name)["workers"]
    assert (worker["outcome"], worker["flags"], worker["attempts"]) == ("complete", ["unreported"], 2)
    assert kinds(lab, worker) == ["first", "asked"]
    # Started, and never launched.
    assert len(lab.journal("started")) == 2
    assert not (lab.run_folder() / "shims" / "Codex-Worker-1.2.started.json").exists()


@pytest.mark.parametrize("fate", ["adopted", "stopped", "interrupted"])
def test_a_question_that_is_being_answered_when_its_runtime_dies_is_not_asked_again(prepare, fate):
    answers = told_twice(("shell", {"command": "until test -e src/go; do sleep 0.05; done"}), ("answer", {}))
    lab = prepare({"claude-1": ticket(step("write", path="src/new.py"), answers, **WRITES)},
                  'on_runtime_death = "stop"\n' if fate == "stopped" else "")  # fmt: skip
    runtime = lab.begin("run", "phase-1")
    second = lab.root / ".taskers/runs"
    lab.wait_until(lambda: any(path.stat().st_size for path in second.glob("*/*.2.stdout")))
    runtime.send_signal(signal.SIGINT if fate == "interrupted" else signal.SIGKILL)
    runtime.communicate()
    again = lab.begin("resume", lab.run_folder().name)
    if fate == "adopted":
        (place,) = lab.root.glob(".taskers/worktrees/*/Claude-Worker-1")
        (place / "src/go").touch()
    (worker,) = lab.end(again)["workers"]
    assert (worker["outcome"], worker["attempts"]) == ("complete", 2)
    assert worker["flags"] == ([] if fate == "adopted" else ["unreported"])
    assert kinds(lab, worker) == ["first", "asked"]
    assert "src/new.py" in worker["files"]


def test_nobody_is_asked_where_that_takes_long_or_is_not_paid_for(prepare):
    dear = step("unreported", **{"in": 1_000_000, "out": 0})
    lab = prepare(
        {
            "codex-1": ticket(
                step("unreported"), step("sleep", seconds=0.5), agent="codex", fallback=["claude"]
            ),
            "claude-1": ticket(dear),
        },
        last="[budget]\nrun_usd = 3.00\n",
    )
    runtime = lab.begin("run", "phase-1")
    lab.wait_until(lambda: "Codex-Worker-1" in [one["worker"] for one in lab.journal("started")])
    park(lab, "codex", 3600)
    for worker in lab.end(runtime)["workers"]:
        assert (worker["outcome"], worker["flags"], worker["attempts"]) == ("complete", ["unreported"], 1)
        assert kinds(lab, worker) == ["first"]
    assert lab.journal("moved") == []


def test_who_changed_nothing_is_asked_why_and_a_reason_is_accepted(prepare):
    reason = ("answer", {"text": "No changes: it is right as it is."})
    lab = prepare({
        "claude-1": ticket(step("unreported", lacks="none", then=[{"do": reason[0], **reason[1]}]), **WRITES),
        "codex-1": ticket(step("answer"), agent="codex", mode="write", owns=["docs/**"]),
        "gemini-1": ticket(
            step("answer", text="No changes: all is well."), agent="gemini", mode="write", owns=["lib/**"]
        ),
    })  # fmt: skip
    document = lab.run()
    asked, failed, said = (lab.worker(document, name) for name in ("claude-1", "codex-1", "gemini-1"))
    assert (asked["outcome"], asked["flags"], asked["attempts"]) == ("complete", ["no_changes"], 2)
    assert (failed["outcome"], failed["attempts"]) == ("failed", 2)
    assert failed["reason"] == "no changes, and its report does not explain it"
    assert (said["outcome"], said["attempts"]) == ("complete", 1)
    told = (lab.run_folder() / "tickets/Codex-Worker-1.2.md").read_text()
    assert "a line `No changes:` with the reason why no file was changed" in told


def test_what_a_report_claims_stands_beside_what_was_found(prepare):
    lab = prepare({
        "claude-1": ticket(
            step("shell", command="mkdir -p src; echo x > src/quiet.py"), step("write", path="src/said.py"),
            step("lie", path="src/never.py"), **WRITES,
        )
    })  # fmt: skip
    (worker,) = lab.run()["workers"]
    assert worker["files"] == ["src/quiet.py", "src/said.py"]
    assert record(lab, worker)["claims"] == {
        "status": "COMPLETE", "files": ["src/said.py", "src/never.py"],
        "not_found": ["src/never.py"], "not_said": ["src/quiet.py"],
    }  # fmt: skip
