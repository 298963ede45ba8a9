"""Something else is in the place of a file: every command reports it at once, and loses nothing."""

import json
import os

import pytest
from support.repository import TEMPLATES, shell, template

from orchestrator.runs.events import decoded
from orchestrator.runs.scopes_in_use import is_holding
from orchestrator.runs.state import read_run, sound_roster, unfinished_runs
from workers.files.run_dir import RunDir

ODD = {
    "a pipe": (os.mkfifo, "it is a pipe, and no regular file"),
    "a circle of links": (lambda path: path.symlink_to(path.name), "too many levels of symbolic links"),
    "a folder": (os.mkdir, "it is a folder, and no regular file"),
    "three gigabytes": (lambda path: (path.touch(), os.truncate(path, 3 * 10**9)), "3,000,000,000 bytes"),
}
FILES = ("STATUS.md", "DECISIONS.md", "AGENTS.md", "orchestrate.toml", f"{TEMPLATES}/command-1.md")
EMPTY = {"input_tokens": 0, "output_tokens": 0, "cost_usd": None}


def replaced(path, kind):
    """Put something odd in the place of a file."""
    path.unlink(missing_ok=True)
    ODD[kind][0](path)


@pytest.fixture
def one_run(lab):
    """Return a repository with a finished run that waits for its integration."""
    lab.templates(command_1=shell("echo said", mode="write", owns=["src/new/**"]))
    assert lab.call("deploy", "phase-1", "--json").code == 0
    (run,) = (lab.root / ".taskers/runs").iterdir()
    return RunDir(lab.root, run.name)


@pytest.mark.parametrize("kind", ODD)
def test_in_the_place_of_a_file_that_a_person_keeps_it_is_an_error_with_its_place(lab, kind):
    lab.templates(command_1=template())
    for path in FILES:
        whole = (lab.root / path).read_bytes() if (lab.root / path).exists() else b""
        replaced(lab.root / path, kind)
        planned = lab.call("plan", "phase-1", "--json")
        assert planned.code == 2, path
        (said,) = (one for one in planned.says() if one.startswith(f"{path}: cannot be read"))
        assert ODD[kind][1] in said
        (lab.root / path).rmdir() if kind == "a folder" else (lab.root / path).unlink()
        (lab.root / path).write_bytes(whole)


def test_all_that_is_wrong_with_the_log_is_that_it_cannot_be_read(lab):
    assert lab.call("validate", "DECISIONS.md", "--json").says() == []
    replaced(lab.root / "DECISIONS.md", "three gigabytes")
    called = lab.call("validate", "DECISIONS.md", "--json")
    assert (called.code, len(called.says())) == (1, 1)


@pytest.mark.parametrize("kind", ODD)
def test_what_writes_state_files_leaves_it_where_it_stands(lab, kind):
    replaced(lab.root / "STATUS.md", kind)
    before = (lab.root / "STATUS.md").lstat()
    for arguments in (("todo", "add", "New"), ("handoff",), ("init",), ("resume",)):
        called = lab.call(*arguments, "--json")
        assert called.code in (1, 2), arguments
        assert any("STATUS.md" in one for one in called.says()), arguments
    after = (lab.root / "STATUS.md").lstat()
    assert (before.st_ino, before.st_mode, before.st_size) == (after.st_ino, after.st_mode, after.st_size)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("roster.json", "a pipe"), ("events.jsonl", "three gigabytes"), ("events.jsonl", "a circle of links")],
)  # fmt: skip
def test_a_run_that_cannot_be_read_is_named_by_whoever_looks_and_not_run_again(lab, one_run, name, kind):
    replaced(one_run.path / name, kind)
    scopes = [path.name for path in (lab.root / ".git/orchestrate/scopes").iterdir()]
    place = f".taskers/runs/{one_run.id}/{name}: cannot be read"
    for command in ("status", "ps", "resume", "report", "doctor"):
        assert any(one.startswith(place) for one in lab.call(command, "--json").says()), command
    logs = lab.call("logs", one_run.id, "command-1")
    assert (logs.code, place in logs.err) == (2, True)
    again = lab.call("run", "phase-1", "--json")
    assert (again.code, again.says()[0].startswith(place)) == (2, True)
    # What it owns stays its own: a run of the same paths would land on what waits there.
    assert [path.name for path in (lab.root / ".git/orchestrate/scopes").iterdir()] == scopes


def test_a_run_whose_roster_is_lost_goes_on_by_its_manifest(lab, one_run):
    replaced(one_run.roster_path, "a pipe")
    assert lab.call("resume", one_run.id, "--json").document["status"] == "integrated"


@pytest.mark.parametrize("kind", ODD)
def test_a_manifest_that_cannot_be_read_says_why(lab, one_run, kind):
    replaced(one_run.manifest_path, kind)
    called = lab.call("integrate", one_run.id, "--json")
    assert called.code == 2
    assert ODD[kind][1] in called.says()[0]
    assert "`--new`" in called.says()[0]


def test_a_run_whose_manifest_is_lost_is_still_there(lab, one_run):
    one_run.manifest_path.unlink()
    (shown,) = lab.call("status", "--json").document["runs"]
    assert shown["run"] == one_run.id
    called = lab.call("resume", one_run.id, "--json")
    assert (called.code, "run.json: cannot be read: no such file" in called.says()[0]) == (2, True)


def test_a_worker_whose_start_is_forgotten_and_whose_end_is_known_is_not_landed_without_a_base(lab, one_run):
    journal = one_run.path / "events.jsonl"
    kept = [line for line in journal.read_text().splitlines(keepends=True) if '"started"' not in line]
    journal.write_text("".join(kept))
    called = lab.call("integrate", one_run.id, "--json")
    assert (called.code, "says nothing of an attempt" in called.says()[0]) == (2, True)


@pytest.mark.parametrize("left", ["", "[" * 9 + "\n", '{"event": "opened"}\n'])
def test_a_run_whose_journal_forgot_who_was_started_starts_nobody_again(lab, one_run, left):
    (one_run.path / "events.jsonl").write_text(left)
    before = sorted(path.name for path in one_run.path.rglob("*"))
    called = lab.call("resume", one_run.id, "--json")
    assert (called.code, called.document["status"]) == (2, "refused")
    assert "events.jsonl: says nothing of an attempt of Command-Worker-1" in called.says()[0]
    assert sorted(path.name for path in one_run.path.rglob("*")) == before


def test_the_manifest_of_another_run_is_none(lab, one_run):
    found = json.loads(one_run.manifest_path.read_text())
    one_run.manifest_path.write_text(json.dumps({**found, "run": "20200101_000000"}))
    assert lab.call("integrate", one_run.id, "--json").code == 2


@pytest.mark.parametrize("name", ["../W-1", "a\nb\x1b[31m", "..", ""])
def test_a_manifest_whose_worker_could_have_no_files_of_its_own_is_none(lab, one_run, name):
    found = json.loads(one_run.manifest_path.read_text())
    found["tickets"][0]["worker"] = name
    one_run.manifest_path.write_text(json.dumps(found))
    assert lab.call("integrate", one_run.id, "--json").code == 2


def test_output_that_is_no_file_is_not_taken_for_silence(lab, one_run):
    replaced(one_run.attempt("Command-Worker-1", 1).stdout, "a pipe")
    called = lab.call("logs", one_run.id, "command-1")
    assert (called.code, "it is a pipe" in called.err) == (1, True)


def test_a_file_where_a_folder_of_ours_is_to_be_is_named(lab):
    folder = lab.root / ".git/orchestrate/turns"
    folder.parent.mkdir()
    folder.write_text("")
    called = lab.call("todo", "add", "New", "--json")
    assert (called.code, called.says()) == (
        1, [f"{folder}: something else is at the path of a folder of ours; move it away"],
    )  # fmt: skip


def of(worker="W-1", **more):
    return {"worker": worker, "ticket": "t-1", "agent": "command", "title": "T", "skipped": False, **more}


@pytest.mark.parametrize(
    "workers",
    [
        [of(worker="../W-1")], [of(worker="..")], [of(worker="")], [of(worker="a\nb")], [of(worker=1)],
        [of(agent="vim")], [of(title=None)], [of(skipped=0)], [of(), of()], [of(waits_for=["W-2"])],
        [of(waits_for="W-1")], ["W-1"], {}, None,
    ],
)  # fmt: skip
def test_a_roster_of_another_shape_is_none(workers):
    assert sound_roster({"phase": "phase-1", "workers": [of(), of("W-2", waits_for=["W-1"])]})
    assert not sound_roster({"phase": "phase-1", "workers": workers})
    assert not sound_roster({"phase": 1, "workers": [of()]})


HOLDING = {
    "run": "20260216_142834", "root": "/a", "branch": None, "links": {"l": None}, "files": ["a"],
    "tickets": [{"id": "t", "worker": "W-1", "owns": ["a"], "excludes": []}],
}  # fmt: skip


@pytest.mark.parametrize("name", HOLDING)
@pytest.mark.parametrize("value", [-1, True, {"a": 1}, ["x", 1], "../x"])
def test_what_a_run_owns_is_not_believed_in_another_shape(name, value):
    assert is_holding(HOLDING)
    assert is_holding({**HOLDING, name: value}) == (name in ("root", "branch") and isinstance(value, str))


STARTED = {"event": "started", "at": "2026-02-16T14:28:00+00:00", "worker": "W-1", "attempt": 1, "base": "b"}
ENDED = {"event": "ended", "worker": "W-1"}
FACTS = {"worker": "W-1", "outcome": "complete", "verdict": "accepted", "files": ["a"], "usage": EMPTY}


@pytest.mark.parametrize(
    "record",
    [
        {"event": 1}, {"event": ["started"]}, {**STARTED, "worker": []}, {**STARTED, "at": "yesterday"},
        {**STARTED, "at": "2026-02-16T14:28:00"}, {**STARTED, "attempt": "1"}, {**STARTED, "attempt": -1},
        {**STARTED, "attempt": True}, {**STARTED, "attempt": 10**30}, {**STARTED, "agent": "vim"},
        {**STARTED, "base": None}, ENDED, {**ENDED, "facts": []},
        *(
            {**ENDED, "facts": {**FACTS, **wrong}}
            for wrong in (
                {"worker": "W-2"}, {"verdict": "fine"}, {"verdict": []}, {"files": "a"}, {"files": [1]},
                {"usage": {}}, {"usage": {**EMPTY, "output_tokens": -1}},
                {"usage": {**EMPTY, "cost_usd": "1"}},
                {"seconds": float("nan")}, {"seconds": float("inf")}, {"output": "/etc/passwd"},
                {"patch": "a/../../b"}, {"tries": [{"attempt": 1}]}, {"violations": ["a"]}, {"flags": None},
            )
        ),
        {"event": "parked", "agent": "codex", "until": 5}, {"event": "landed", "commit": 1, "workers": []},
        {"event": "landed", "commit": None, "workers": "W-1"},
        {"event": "recorded", "commit": None, "told": []},
        {"event": "recorded", "commit": None, "told": {"W-1": "x"}}, {"event": "closed"},
        {"event": "retry", "worker": "W-1", "tried": 1},
    ],
)  # fmt: skip
def test_a_record_of_another_shape_is_not_believed(record):
    assert decoded(STARTED)
    assert decoded({**ENDED, "facts": FACTS})
    assert not decoded(record)


def test_what_is_not_believed_is_passed_over_and_the_rest_counts(lab, one_run):
    before = read_run(one_run)
    with (one_run.path / "events.jsonl").open("a") as journal:
        for wrong in ({"attempt": -1}, {"at": "never"}, {"worker": {}}):
            journal.write(json.dumps({**STARTED, "worker": "Command-Worker-1", **wrong}) + "\n")
    assert read_run(one_run).workers == before.workers
    assert [state.run.id for state in unfinished_runs(lab.root)] == [one_run.id]
    assert lab.call("integrate", one_run.id, "--json").document["status"] == "integrated"


@pytest.mark.parametrize("command", [("ps",), ("plan", "phase-1"), ("run", "phase-1"), ("doctor",)])
def test_a_pipe_in_the_place_of_a_slot_is_named(lab, command):
    lab.templates(command_1=template())
    slot = lab.root / ".git/orchestrate/slots/pool-01.lock"
    slot.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(slot)
    called = lab.call(*command)
    assert called.code in (1, 2)
    assert f"{slot}: it is a pipe, and no regular file" in called.out + called.err


def test_a_slot_that_holds_nonsense_is_taken_all_the_same(lab):
    lab.templates(command_1=template())
    slot = lab.root / ".git/orchestrate/slots/pool-01.lock"
    slot.parent.mkdir(parents=True, exist_ok=True)
    slot.write_text("[" * 100_000)
    assert lab.call("run", "phase-1", "--json").code == 0


def test_a_bare_repository_is_told_what_it_lacks(lab, tmp_path):
    bare = tmp_path / "bare.git"
    lab.git("clone", "-q", "--bare", str(lab.root), str(bare))
    called = lab.call("status", "--project", str(bare))
    assert (called.code, "is a bare repository" in called.err) == (2, True)
