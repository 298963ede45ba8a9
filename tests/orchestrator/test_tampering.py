"""A worker that reaches the user's repository because nothing fences it: told, attributed, never landed."""

import json
import os
import queue
import runpy
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator.tampering import Guard
from tickets.scope import Scope
from workers.git import find_repository
from workers.output import RunDir, new_run_dir

CLI = runpy.run_path(str(Path(__file__).with_name("cli_lab.py")))
_pattern, lab, shell = CLI["_pattern"], CLI["lab"], CLI["shell"]

EVIL = 'git -C "$ORCHESTRATE_PROJECT" config core.pager evil'


@pytest.fixture
def unfenced(lab):
    lab.commit({"orchestrate.toml": 'fence = "off"\n'})
    return lab


def test_a_lone_worker_that_changes_the_users_configuration_is_held_for_it(unfenced):
    unfenced.templates(command_1=shell(EVIL))
    called = unfenced.call("run", "phase-1", "--json")
    (worker,) = called.document["workers"]
    assert worker["violations"] == [{"kind": "git_write", "path": ".git/config"}]
    assert worker["verdict"] == "pending"
    assert called.code == 1


def test_what_one_of_several_workers_did_is_told_with_all_who_can_have_done_it(unfenced):
    # Each waits for the other, so that both are running when one of them does it.
    here = '"$ORCHESTRATE_PROJECT/.taskers/'
    meet = f'touch {here}{{0}}"; until [ -e {here}{{1}}" ]; do sleep 0.01; done'
    unfenced.templates(
        command_1=shell(f'{meet.format("one", "two")}; {EVIL}; touch "$ORCHESTRATE_PROJECT/.taskers/done"'),
        command_2=shell(meet.format("two", "done")),
    )
    called = unfenced.call("run", "phase-1", "--json")
    (said,) = called.says()
    assert "unattributed: .git/config changed while Command-Worker-1, Command-Worker-2 ran" in said
    assert all(worker["violations"] == [] for worker in called.document["workers"])
    assert called.code == 1


def test_a_commit_made_meanwhile_is_a_warning_and_blames_nobody(unfenced):
    unfenced.templates(command_1=shell('git -C "$ORCHESTRATE_PROJECT" commit -q --allow-empty -m mine'))
    called = unfenced.call("run", "phase-1", "--json")
    (problem,) = called.document["problems"]
    assert problem["severity"] == "warning"
    assert "refs/heads/main" in problem["what"]
    assert called.document["workers"][0]["verdict"] == "accepted"
    assert called.code == 0


def test_what_is_written_into_the_users_checkout_is_told_and_never_lands(unfenced):
    unfenced.templates(command_1=shell('echo evil >> "$ORCHESTRATE_PROJECT/src/app.py"'))
    called = unfenced.call("run", "phase-1", "--json")
    (said,) = called.says()
    assert "unattributed: src/app.py changed while Command-Worker-1 ran" in said
    assert unfenced.git("log", "--format=%H", "--", "src/app.py").count("\n") == 1


def test_the_leads_own_commands_meanwhile_are_not_told(unfenced):
    here = '"$ORCHESTRATE_PROJECT/.taskers/'
    unfenced.templates(command_1=shell(f'touch {here}one"; until [ -e {here}two" ]; do sleep 0.01; done'))
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(unfenced.call, "run", "phase-1", "--json")
        while not ((unfenced.root / ".taskers" / "one").exists() or running.done()):
            time.sleep(0.01)
        added = unfenced.call("todo", "add", "More")
        (unfenced.root / ".taskers" / "two").touch()
        called = running.result()
    assert added.code == 0, added
    assert called.document["workers"][0]["outcome"] == "complete"
    assert called.document["problems"] == []
    assert "More" in (unfenced.root / "STATUS.md").read_text()


def test_what_acceptance_commands_do_to_the_repository_is_told_too(unfenced):
    unfenced.templates(command_1=shell("echo x > new.py", mode="write", owns=["new.py"], acceptance=[EVIL]))
    (worker,) = unfenced.call("run", "phase-1", "--json").document["workers"]
    assert worker["violations"] == [{"kind": "git_write", "path": ".git/config"}]
    assert not (unfenced.root / "new.py").exists()


def test_what_the_gate_does_to_the_users_configuration_holds_up_the_landing(unfenced):
    unfenced.commit({"orchestrate.toml": 'fence = "off"\n[integration]\ngate = ["sh ./gate.sh"]\n'})
    unfenced.commit({"gate.sh": "true\n"})
    unfenced.templates(command_1=shell(f"echo '{EVIL}' > gate.sh", mode="write", owns=["gate.sh"]))
    called = unfenced.call("run", "phase-1", "--json")
    assert any(".git/config changed while the gate ran on the work of Command-Worker-1" in one
               for one in called.says()), called  # fmt: skip
    assert called.document["workers"][0]["verdict"] == "pending"
    assert (unfenced.root / "gate.sh").read_text() == "true\n"
    assert called.code == 1


def test_what_the_gate_writes_into_the_users_checkout_is_a_warning(unfenced):
    gate = 'touch "$ORCHESTRATE_PROJECT/evil"'
    unfenced.commit({"orchestrate.toml": f"fence = 'off'\n[integration]\ngate = ['{gate}']\n"})
    unfenced.templates(command_1=shell("echo x > new.py", mode="write", owns=["new.py"]))
    called = unfenced.call("run", "phase-1", "--json")
    (problem,) = called.document["problems"]
    assert "evil changed while the gate ran" in problem["what"]
    assert (called.code, problem["severity"]) == (0, "warning")


def test_a_prune_after_their_ends_does_not_take_what_workers_had_started_from(unfenced):
    unfenced.templates(
        command_1=shell("echo one > one", mode="write", owns=["one"]),
        command_2=shell("echo two > two; cat one", mode="write", owns=["two"], depends_on=["command-1"]),
        command_3=shell('git -C "$ORCHESTRATE_PROJECT" gc -q --prune=now', depends_on=["command-2"]),
    )
    called = unfenced.call("run", "phase-1", "--json")
    assert [one["verdict"] for one in called.document["workers"]] == ["accepted"] * 3, called
    assert (unfenced.root / "two").read_text() == "two\n"
    assert "objects/pack changed while Command-Worker-3 ran" in called.document["problems"][0]["what"]
    assert unfenced.git("for-each-ref", "refs/orchestrate") == ""


FORGED = """
import json, os, pathlib
run = pathlib.Path(os.environ["ORCHESTRATE_PROJECT"], ".taskers/runs", os.environ["ORCHESTRATE_RUN"])
found = json.loads((run / "run.json").read_text())
found["tickets"][0]["owns"] = ["**"]
(run / "run.json").write_text(json.dumps(found))
"""


def test_a_run_whose_scopes_were_widened_lands_nothing_by_them(unfenced):
    unfenced.commit({"forge.py": FORGED})
    script = "python3 forge.py; echo x > src/app.py; echo x > new"
    unfenced.templates(command_1=shell(script, mode="write", owns=["new"]))
    called = unfenced.call("deploy", "phase-1", "--json")
    (worker,) = called.document["workers"]
    kinds = {(one["kind"], one["path"].rpartition("/")[2]) for one in worker["violations"]}
    assert kinds == {("out_of_scope", "app.py"), ("out_of_scope", "run.json")}
    again = unfenced.call("integrate", "last", "--accept", worker["worker"], "--json")
    assert "run.json: is not what it was when the run began" in again.says()[0]
    assert (unfenced.root / "src" / "app.py").read_text() == "print('hello')\n"


JOURNAL = '"$ORCHESTRATE_PROJECT/.taskers/runs/$ORCHESTRATE_RUN/events.jsonl"'


def test_who_alone_writes_into_the_journal_is_held_for_it(unfenced):
    unfenced.templates(command_1=shell(f"echo forged >> {JOURNAL}"))
    (worker,) = unfenced.call("run", "phase-1", "--json").document["workers"]
    assert [(one["kind"], one["path"].rpartition("/")[2]) for one in worker["violations"]] == [
        ("out_of_scope", "events.jsonl")
    ]
    assert worker["verdict"] == "pending"


def test_a_line_in_the_journal_that_one_of_several_wrote_is_told_with_all_of_them(unfenced):
    here = '"$ORCHESTRATE_PROJECT/.taskers/'
    meet = f'touch {here}{{0}}"; until [ -e {here}{{1}}" ]; do sleep 0.01; done'
    unfenced.templates(
        command_1=shell(f'{meet.format("one", "two")}; echo forged >> {JOURNAL}; touch {here}done"'),
        command_2=shell(meet.format("two", "done")),
    )
    called = unfenced.call("run", "phase-1", "--json")
    (said,) = called.says()
    assert "events.jsonl changed while Command-Worker-1, Command-Worker-2 ran; do not trust" in said
    assert called.code == 1


def held_by_the_gate(lab, gate, *, commands=("sh ./gate.sh",)):
    """Run a phase whose gate runs what its worker wrote; give the document that says what it did."""
    lab.commit({"orchestrate.toml": f'fence = "off"\n[integration]\ngate = {json.dumps(commands)}\n'})
    lab.commit({"gate.sh": "true\n"})
    lab.templates(command_1=shell(f"echo '{gate}' > gate.sh", mode="write", owns=["gate.sh"]))
    called = lab.call("run", "phase-1", "--json")
    assert (called.code, called.document["workers"][0]["verdict"]) == (1, "pending"), called
    assert (lab.root / "gate.sh").read_text() == "true\n"
    return called.document


def test_harm_at_the_gate_holds_up_the_landing_until_the_lead_says_a_word(unfenced):
    first = held_by_the_gate(unfenced, EVIL)
    run, name = first["run"], first["workers"][0]["worker"]
    assert first["next_action"] == f"orchestrate integrate {run} --accept {name}"
    for command, lead in (("integrate", "Ada"), ("integrate", "Grace"), ("resume", "Grace")):
        again = unfenced.call(command, run, "--json", env={"ORCHESTRATE_LEAD": lead})
        assert again.code == 1, again
        assert again.document == first
        assert (unfenced.root / "gate.sh").read_text() == "true\n"
    told = {one["place"] for one in again.document["problems"] if ".git/config" in one["what"]}
    assert told == {"repository", "gate"}
    landed = unfenced.call("integrate", run, "--accept", name, "--json")
    assert (landed.code, landed.document["workers"][0]["verdict"]) == (0, "accepted"), landed
    assert landed.document["problems"] == []
    assert "core.pager" in (unfenced.root / "gate.sh").read_text()


def test_what_did_harm_at_the_gate_can_be_rejected_and_stays_so(unfenced):
    run = held_by_the_gate(unfenced, EVIL)["run"]
    for word in (["--reject", "Command-Worker-1"], []):
        called = unfenced.call("integrate", run, *word, "--json")
        assert (called.code, called.document["workers"][0]["verdict"]) == (1, "rejected")
        assert called.document["problems"] == []
    assert (unfenced.root / "gate.sh").read_text() == "true\n"


def test_the_leads_word_for_one_of_two_that_did_harm_at_the_gate_lands_that_one(unfenced):
    unfenced.commit({"orchestrate.toml": 'fence = "off"\n[integration]\ngate = ["sh ./one; true"]\n'})
    unfenced.templates(
        command_1=shell(f"echo '{EVIL}' > one", mode="write", owns=["one"]),
        command_2=shell("echo two > two", mode="write", owns=["two"]),
    )
    run = unfenced.call("run", "phase-1", "--json").document["run"]
    called = unfenced.call("integrate", run, "--accept", "Command-Worker-2", "--json")
    assert [one["verdict"] for one in called.document["workers"]] == ["pending", "accepted"]
    assert called.code == 1
    assert ".git/config" in called.document["workers"][0]["reason"]
    assert (unfenced.root / "two").exists()
    assert not (unfenced.root / "one").exists()


def test_the_leads_word_holds_for_the_harm_that_was_told_and_for_no_other(unfenced):
    more = 'git -C "$ORCHESTRATE_PROJECT" config --add core.pager evil'
    hook = 'test ! -e "$ORCHESTRATE_PROJECT/told" || touch "$ORCHESTRATE_PROJECT/.git/hooks/pre-push"'
    run = held_by_the_gate(unfenced, f"{more}; {hook}")["run"]
    (unfenced.root / "told").touch()
    word = ("integrate", run, "--accept", "Command-Worker-1", "--json")
    again = unfenced.call(*word)
    assert (again.code, again.document["workers"][0]["verdict"]) == (1, "pending"), again
    reason = again.document["workers"][0]["reason"]
    assert reason == "the gate ran what they wrote, and meanwhile .git/hooks/pre-push changed"
    landed = unfenced.call(*word)
    assert landed.document["workers"][0]["verdict"] == "accepted", landed
    assert "config --add" in (unfenced.root / "gate.sh").read_text()


def test_harm_that_was_told_just_before_the_runtime_was_killed_is_not_forgotten(unfenced):
    first = held_by_the_gate(unfenced, EVIL)
    path = unfenced.root / ".taskers" / "runs" / first["run"] / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if '"event": "gate_seen"' in line)
    path.write_text("".join(lines[: at + 1]))
    again = unfenced.call("integrate", first["run"], "--json")
    assert (again.code, again.document["workers"][0]["verdict"]) == (1, "pending"), again
    assert again.document["workers"][0]["reason"] == first["workers"][0]["reason"]
    landed = unfenced.call("integrate", first["run"], "--accept", "Command-Worker-1", "--json")
    assert (landed.code, landed.document["workers"][0]["verdict"]) == (0, "accepted"), landed


def test_harm_by_a_gate_that_is_red_on_the_base_too_outlasts_its_mending(unfenced):
    commands = ("sh ./gate.sh", "test -e mended")
    first = held_by_the_gate(unfenced, EVIL, commands=commands)
    assert any("fails without these changes too" in one["what"] for one in first["problems"])
    unfenced.commit({"mended": ""})
    again = unfenced.call("integrate", first["run"], "--json")
    assert (again.code, again.document["workers"][0]["verdict"]) == (1, "pending"), again
    assert ".git/config" in again.document["workers"][0]["reason"]


def test_a_gate_that_writes_into_the_journal_does_harm_like_any_other(unfenced):
    first = held_by_the_gate(unfenced, f"echo forged >> {JOURNAL}")
    assert any("events.jsonl changed while the gate ran" in one["what"] for one in first["problems"]), first
    again = unfenced.call("integrate", first["run"], "--json")
    assert (again.code, again.document) == (1, first)


class Watched:
    """A lock that says who comes for it."""

    def __init__(self):
        self._lock, self.arrivals = threading.Lock(), queue.Queue()

    def __enter__(self):
        self.arrivals.put(None)
        self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()


@pytest.fixture
def guard(lab):
    repository = find_repository(lab.root)
    run = new_run_dir(lab.root, datetime(2026, 1, 1, tzinfo=UTC))
    directory = repository.own / "runs" / run.id
    directory.mkdir(parents=True)
    found = Guard(repository, directory, {"HOME": str(lab.root)}, Scope.of(["STATUS.md"]))
    found._lock = Watched()
    return found


def test_a_worker_starts_while_a_look_is_going_on(guard):
    with guard._lock:
        guard.entered("W-1")  # would wait for ever
        assert guard._exposed == {"W-1"}


def test_one_look_does_for_all_workers_that_had_ended_when_it_began(lab, guard):
    for name in ("W-1", "W-2", "W-3"):
        guard.entered(name)
    with ThreadPoolExecutor(2) as threads:
        with guard._lock:
            guard._lock.arrivals.get(timeout=30)
            ends = [threads.submit(guard.left, name) for name in ("W-1", "W-2")]
            for _ in ends:
                guard._lock.arrivals.get(timeout=30)
            lab.git("config", "core.pager", "evil")
        told = [found for end in ends for found in end.result()]
    assert guard._looks == 1
    assert [(one.paths, one.candidates) for one in told] == [((".git/config",), ("W-1", "W-2", "W-3"))]
    assert guard.left("W-3") == []
    assert guard._looks == 2


@pytest.fixture
def crowd(lab):
    """Give the guard of a run of 300 workers, the first of whom has left an answer, and that answer."""
    repository = find_repository(lab.root)
    run = new_run_dir(lab.root, datetime(2026, 1, 1, tzinfo=UTC))
    directory = repository.own / "runs" / run.id
    directory.mkdir(parents=True)
    run.roster_path.write_text(json.dumps({"workers": [{"worker": f"W-{n}"} for n in range(300)]}))
    text = run.attempt("W-0", 1).text
    text.write_text("done")
    guard = Guard(repository, directory, {"HOME": str(lab.root)}, Scope.of(["STATUS.md"]))
    guard.entered("W-0")
    assert guard.left("W-0") == []
    return guard, text


def test_in_a_crowd_what_others_left_is_looked_at_every_so_often_and_told_with_all_who_ran(crowd):
    guard, text = crowd
    for n in range(1, 42):
        guard.entered(f"W-{n}")
    text.write_text("forged")
    told = [(n, one) for n in range(1, 39) for one in guard.left(f"W-{n}")]
    ((when, found),) = told
    assert 1 < when < 39
    assert found.paths == (f".taskers/runs/20260101_000000/{text.name}",)
    assert {f"W-{n}" for n in range(1, 42)} == set(found.candidates)
    assert not any(guard.blamed(f"W-{n}") for n in range(12))


def test_who_is_alone_after_a_crowd_is_held_for_what_it_does_and_not_for_what_they_did(crowd):
    guard, text = crowd
    for n in (1, 2, 3):
        guard.entered(f"W-{n}")
    assert guard.left("W-1") == []
    text.write_text("forged by one of three")
    (found,) = guard.left("W-2")
    assert (found.candidates, found.is_harm) == (("W-1", "W-2", "W-3"), True)
    text.write_text("forged again")
    assert guard.left("W-3") == []
    assert [guard.blamed(f"W-{n}") for n in (1, 2)] == [(), ()]
    assert guard.blamed("W-3") == found.paths


def test_the_last_of_several_that_end_at_once_looks_at_what_the_first_put_off(crowd):
    guard, text = crowd
    guard._lock = Watched()
    for n in (1, 2, 3):
        guard.entered(f"W-{n}")
    text.write_text("forged")
    with ThreadPoolExecutor(3) as threads:
        with guard._lock:
            guard._lock.arrivals.get(timeout=30)
            ends = [threads.submit(guard.left, f"W-{n}") for n in (1, 2, 3)]
            for _ in ends:
                guard._lock.arrivals.get(timeout=30)
        told = [found for end in ends for found in end.result()]
    assert [one.paths for one in told] == [(f".taskers/runs/20260101_000000/{text.name}",)]
    assert {"W-1", "W-2", "W-3"} == set(told[0].candidates)


@pytest.mark.parametrize(
    "path",
    [
        "W-1.txt", "W-1.2.stdout", "tickets/W-1.2.md", "shims/W-1.exit.json", "checks/W-1.setup-1.stdout",
        "checks/W-1.setup-1.2.stderr", "checks/W-1.acceptance-1.setup-1.exit.json",
    ],
)  # fmt: skip
def test_all_that_a_worker_and_its_checks_left_is_final_when_it_has_ended(crowd, path):
    guard, text = crowd
    for name in ("W-1.setup-1", "W-1.setup-1.2", "W-1.acceptance-1", "W-1.acceptance-1.setup-1"):
        record = text.with_name("checks") / f"{name}.started.json"
        record.parent.mkdir(exist_ok=True)
        record.write_text("{}")
    (text.parent / "shims").mkdir(exist_ok=True)
    (text.parent / "shims" / "W-1.2.started.json").write_text("{}")
    left = text.parent / path
    left.parent.mkdir(exist_ok=True)
    left.write_text("so")
    guard.entered("W-1")
    assert guard.left("W-1") == []
    left.write_text("or so")
    guard.entered("W-2")
    guard.left("W-2")
    assert guard.blamed("W-2") == (f".taskers/runs/20260101_000000/{path}",)


def test_honest_workers_side_by_side_leave_nothing_to_tell(unfenced):
    settings = '[worktree]\nsetup = ["echo set up"]\n[integration]\ngate = ["true"]\n'
    unfenced.commit({"orchestrate.toml": f'fence = "off"\n{settings}'})
    log = '"$ORCHESTRATE_PROJECT/.taskers/messages/$ORCHESTRATE_RUN.$ORCHESTRATE_WORKER.jsonl"'
    said = f"for n in 1 2 3; do echo $n; echo '{{}}' >> {log}; sleep 0.02; done"
    unfenced.templates(**{
        f"command_{n}": shell(
            f"{said}; echo x > f{n}; test {n} != 3 || kill -9 $$", mode="write", owns=[f"f{n}"],
            acceptance=[f"cat f{n}"], depends_on=["command-1"] if n == 4 else [],
        ) for n in range(1, 5)
    })  # fmt: skip
    deployed = unfenced.call("deploy", "phase-1", "--json")
    assert [one["attempts"] for one in deployed.document["workers"]] == [1, 1, 2, 1]
    integrated = unfenced.call("integrate", "last", "--json")
    for called in (deployed, integrated):
        assert not [one for one in called.says() if "unattributed" in one]
        assert all(one["violations"] == [] for one in called.document["workers"])
    verdicts = [one["verdict"] for one in integrated.document["workers"]]
    assert verdicts == ["accepted", "accepted", "rejected", "accepted"]


def test_what_was_found_while_two_ran_is_not_laid_upon_the_one_looked_after_last(guard):
    guard.entered("one")
    guard.entered("two")
    assert guard.left("two") == []
    (found,) = guard.left("one", ("events.jsonl",), ("one", "two"))
    assert (found.paths, found.candidates, guard.blamed("one")) == (("events.jsonl",), ("one", "two"), ())
    guard.entered("three")
    assert guard.left("three", ("events.jsonl",), ("three",)) == []
    assert guard.blamed("three") == ("events.jsonl",)


def test_a_look_that_cannot_be_made_lets_nobody_go_and_hides_nothing(lab, guard, monkeypatch):
    def fail():
        raise OSError(5, "Input/output error")

    for name in ("W-1", "W-2", "W-3"):
        guard.entered(name)
    with ThreadPoolExecutor(2) as threads:
        with guard._lock:
            guard._lock.arrivals.get(timeout=30)
            monkeypatch.setattr(guard._lens, "snapshot", fail)
            ends = [threads.submit(guard.left, name) for name in ("W-1", "W-2")]
            for _ in ends:
                guard._lock.arrivals.get(timeout=30)
            lab.git("config", "core.pager", "evil")
        assert [type(end.exception()) for end in ends] == [OSError, OSError]
    monkeypatch.undo()
    (found,) = guard.left("W-3")
    assert (found.paths, found.candidates) == ((".git/config",), ("W-1", "W-2", "W-3"))
    guard.entered("W-4")
    lab.git("config", "core.pager", "worse")
    assert guard.left("W-4") == []
    assert guard.blamed("W-4") == (".git/config",)


@pytest.mark.parametrize("name", ["intent.json", "landing.json", "moves"])
def test_a_pipe_in_the_place_of_a_file_of_ours_is_told_and_nobody_waits_for_it(guard, name):
    guard.entered("W-1")
    os.mkfifo(guard._own / name)
    assert guard.left("W-1") == []
    assert guard.blamed("W-1") == (f".git/orchestrate/{name}",)


@pytest.mark.parametrize("text", [b"[1]", b"7", b"[" * 100_000])
def test_an_intent_that_says_nothing_is_told(guard, text):
    guard.entered("W-1")
    (guard._own / "intent.json").write_bytes(text)
    assert guard.left("W-1") == []
    assert guard.blamed("W-1") == (".git/orchestrate/intent.json",)


def test_a_lock_that_leads_nowhere_keeps_no_look_from_being_made(lab, guard):
    guard.entered("W-1")
    (guard._own / "store.lock").symlink_to("store.lock")
    lab.git("config", "core.pager", "evil")
    assert guard.left("W-1") == []
    assert guard.blamed("W-1") == (".git/config",)


@pytest.mark.parametrize("kind", ["text", "record", "patch"])
def test_what_is_put_where_a_running_workers_answer_will_be_is_told(crowd, kind):
    guard, text = crowd
    for n in (1, 2, 3):
        guard.entered(f"W-{n}")
    path = getattr(RunDir(guard._own.parents[1], text.parent.name).attempt("W-2", 1), kind)
    path.write_text("forged")
    (found,) = guard.left("W-1")
    assert [Path(one).name for one in found.paths] == [path.name]
    assert found.candidates == ("W-1", "W-2", "W-3")
    assert guard.left("W-3") == []


def test_what_we_write_ourselves_of_a_worker_is_not_told(crowd):
    guard, text = crowd
    guard.entered("W-1")
    guard.entered("W-2")
    record = text.with_name("W-1.json")
    guard.writes("W-1", record)
    record.write_text("{}")
    assert guard.left("W-2") == []
    assert guard.blamed("W-2") == ()


def test_an_answer_that_is_put_there_just_before_we_write_it_is_told(crowd):
    guard, text = crowd
    guard.entered("W-1", is_new=True)
    guard.entered("W-2", is_new=True)
    assert guard.left("W-1") == []
    record = text.with_name("W-1.json")
    record.write_text("{}")
    guard.writes("W-1", record)
    assert guard.left("W-2") == []
    assert [Path(one).name for one in guard.blamed("W-2")] == ["W-1.json"]


def test_who_went_without_a_look_is_named_in_the_next_one_or_the_last(lab, guard):
    guard.entered("W-1")
    lab.git("config", "core.pager", "evil")
    guard.gone("W-1")
    (found,) = guard.last()
    assert (found.paths, found.candidates) == ((".git/config",), ("W-1",))
    assert guard.last() == ()
    guard.entered("W-1")
    guard.entered("W-2")
    lab.git("config", "core.pager", "worse")
    guard.gone("W-1")
    (found,) = guard.left("W-2")
    assert (found.candidates, guard.blamed("W-2")) == (("W-1", "W-2"), ())


def test_what_those_before_a_kill_did_is_not_laid_upon_who_runs_after_it(lab, crowd):
    _, text = crowd
    repository = find_repository(lab.root)
    lab.git("config", "core.pager", "evil")
    directory, scope = repository.own / "runs" / text.parent.name, Scope.of(["STATUS.md"])
    again = Guard(repository, directory, {"HOME": str(lab.root)}, scope, ran=["W-0"], ended=["W-0"])
    again.entered("W-1")
    (found,) = again.left("W-1")
    assert (found.paths, found.candidates, again.blamed("W-1")) == ((".git/config",), ("W-0", "W-1"), ())
    again.entered("W-2")
    text.write_text("forged")
    assert again.left("W-2") == []
    assert again.blamed("W-2") == (f".taskers/runs/20260101_000000/{text.name}",)


PLANT = """
import os, pathlib
run = pathlib.Path(os.environ["ORCHESTRATE_PROJECT"], ".taskers/runs", os.environ["ORCHESTRATE_RUN"])
for end in ("patch", "txt", "json"):
    (run / f"Command-Worker-2.{end}").write_text("forged")
"""


@pytest.mark.parametrize("waits", [True, False])
def test_an_answer_that_somebody_puts_in_the_place_of_anothers_is_told_and_does_not_land(unfenced, waits):
    here = '"$ORCHESTRATE_PROJECT/.taskers/'
    meet = f'touch {here}{{0}}"; until [ -e {here}{{1}}" ]; do sleep 0.01; done'
    unfenced.commit({"plant.py": PLANT})
    first, second = ("", "") if waits else (meet.format("one", "two"), meet.format("two", "done"))
    unfenced.templates(
        command_1=shell(f'{first or ":"}; python3 plant.py; touch {here}done"'),
        command_2=shell(
            f"{second or ':'}; echo mine > one", mode="write", owns=["one"],
            depends_on=["command-1"] if waits else [],
        ),
    )  # fmt: skip
    called = unfenced.call("run", "phase-1", "--json")
    workers = called.document["workers"]
    for end in ("patch", "txt", "json"):
        told = [one for one in (*called.says(), str(workers[0]["violations"])) if f"Worker-2.{end}" in one]
        assert len(told) == 1, called
    assert not workers[1]["violations"]
    assert bool(workers[0]["violations"]) == waits
    assert called.code == 1


def test_workers_that_cannot_be_started_are_not_named_for_what_a_later_one_does_alone(unfenced):
    scratch = '"$ORCHESTRATE_PROJECT/.taskers/scratch/$ORCHESTRATE_RUN/'
    record = '"$ORCHESTRATE_PROJECT/.taskers/runs/$ORCHESTRATE_RUN/'
    until = " && ".join(f'[ -e {record}Command-Worker-{n}.json" ]' for n in (2, 3))
    unfenced.templates(
        command_1=shell(f'touch {scratch}Command-Worker-2"; touch {scratch}Command-Worker-3"'),
        **{f"command_{n}": shell("true", depends_on=["command-1"]) for n in (2, 3)},
        command_4=shell(f"until {until}; do sleep 0.01; done", depends_on=["command-1"]),
        command_5=shell(EVIL, depends_on=["command-4"]),
    )
    called = unfenced.call("run", "phase-1", "--json")
    workers = called.document["workers"]
    assert [one["outcome"] for one in workers] == ["complete", "failed", "failed", "complete", "complete"]
    assert workers[4]["violations"] == [{"kind": "git_write", "path": ".git/config"}]
    assert not [one for one in called.says() if "unattributed" in one]


def test_what_is_done_to_an_ended_workers_files_while_it_waits_for_its_look_is_told(crowd):
    guard, text = crowd
    left = text.with_name("W-1.stdout")
    left.write_text("so")
    guard.entered("W-1")
    guard.entered("W-2")
    guard._lock = Watched()
    with ThreadPoolExecutor(1) as threads:
        with guard._lock:
            guard._lock.arrivals.get(timeout=30)
            end = threads.submit(guard.left, "W-1")
            guard._lock.arrivals.get(timeout=30)
            left.write_text("or so")
        (found,) = end.result()
    assert [Path(one).name for one in found.paths] == ["W-1.stdout"]
    assert found.candidates == ("W-1", "W-2")


def test_an_answer_that_stood_there_before_a_worker_began_is_not_laid_upon_it(crowd):
    guard, text = crowd
    guard.entered("W-1")
    guard.entered("W-2")
    guard.entered("W-3")
    planted = text.with_name("W-4.json")
    planted.write_text("forged")
    assert guard.left("W-1") == []
    guard.entered("W-4", is_new=True)
    assert guard.left("W-2") == []
    (found,) = guard.left("W-3")
    assert [Path(one).name for one in found.paths] == ["W-4.json"]
    assert {"W-1", "W-2", "W-3", "W-4"} == set(found.candidates)
    assert guard.left("W-4") == []
    assert guard.blamed("W-4") == ()


def test_who_outlives_a_killed_runtime_is_not_blamed_alone_for_what_another_did_before(unfenced):
    here = unfenced.root / ".taskers"
    unfenced.templates(
        command_1=shell(f"until [ -e {here}/both ]; do sleep 0.01; done; {EVIL}"),
        command_2=shell(f"touch {here}/both; until [ -e {here}/done ]; do sleep 0.01; done"),
    )
    command = [CLI["SCRIPT"], "run", "phase-1", "--json"]
    process = subprocess.Popen(
        command, cwd=unfenced.root, env=unfenced.env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    try:
        while not any('"ended"' in path.read_text() for path in here.glob("runs/*/events.jsonl")):
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        process.kill()
        process.communicate()
        (here / "done").touch()
    (run,) = (path.parent.name for path in here.glob("runs/*/events.jsonl"))
    called = unfenced.call("resume", run, "--json")
    assert [(one["outcome"], one["violations"]) for one in called.document["workers"]] == [
        ("complete", [])
    ] * 2
    (said,) = (one for one in called.says() if "unattributed" in one)
    assert ".git/config changed while Command-Worker-1, Command-Worker-2 ran" in said
