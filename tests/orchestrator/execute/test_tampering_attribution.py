"""Comparisons around workers that run side by side: nobody is blamed for what another worker did."""

import json
import os
import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import pytest
from support.runtimes import PATIENCE

from orchestrator.tamper.guard import Guard
from tickets.scopes.scope import Scope
from workers.files.locks import held_lock
from workers.files.run_dir import RunDir, new_run_dir
from workers.git.run import find_repository


def ended(guard, worker, *more):
    """Let a worker end and be judged; return what cannot be attributed."""
    try:
        return list(anyio.run(guard.ended, worker, *more))
    finally:
        guard.gone(worker)


def compared(guard):
    """Compare as at times beside many workers, and at the end of the run."""
    return list(anyio.run(guard.last))


def begun(lab):
    """Begin a run; return its directory, and a way to make the guard of it."""
    repository = find_repository(lab.root)
    run = new_run_dir(lab.root, datetime(2026, 1, 1, tzinfo=UTC))
    directory = repository.own / "runs" / run.id
    directory.mkdir(parents=True)
    return run, partial(Guard, repository, directory, {"HOME": str(lab.root)}, Scope.of(["STATUS.md"]))


@pytest.fixture
def guard(lab):
    _, make = begun(lab)
    return make(ran={})


class Held:
    """A snapshot that waits until it may be taken, and counts."""

    def __init__(self, guard, monkeypatch):
        self.taken, self.count = guard._lens.snapshot, 0
        self.came, self.may = threading.Event(), threading.Event()
        monkeypatch.setattr(guard._lens, "snapshot", self)

    def __call__(self):
        self.count += 1
        self.came.set()
        assert self.may.wait(30)
        return self.taken()


def test_who_starts_while_a_comparison_goes_on_waits_for_nothing_and_is_a_candidate(lab, guard, monkeypatch):
    held = Held(guard, monkeypatch)
    guard.entered("W-1")

    async def both():
        async with anyio.create_task_group() as group:
            group.start_soon(end)
            assert await anyio.to_thread.run_sync(held.came.wait, 30)
            guard.entered("W-2")  # would wait for ever
            lab.git("config", "core.pager", "evil")
            held.may.set()

    async def end():
        found.extend(await guard.ended("W-1"))

    found = []
    anyio.run(both)
    assert [(one.paths, one.candidates) for one in found] == [((".git/config",), ("W-1", "W-2"))]
    assert ended(guard, "W-2") == []
    assert guard.blamed("W-2") == ()


def test_who_ends_while_a_comparison_goes_on_is_a_candidate_in_the_next(lab, guard, monkeypatch):
    held = Held(guard, monkeypatch)
    for name in ("W-1", "W-2"):
        guard.entered(name)

    async def both():
        async with anyio.create_task_group() as group:
            assert await guard.ended("W-1") == []
            group.start_soon(guard.last)
            assert await anyio.to_thread.run_sync(held.came.wait, 30)
            guard.gone("W-2")
            held.may.set()

    anyio.run(both)
    lab.git("config", "core.pager", "evil")
    (found,) = compared(guard)
    assert (found.paths, found.candidates) == ((".git/config",), ("W-2",))


def test_one_comparison_does_for_all_that_ended_beside_several(lab, guard, monkeypatch):
    held = Held(guard, monkeypatch)
    held.may.set()
    for n in range(1, 5):
        guard.entered(f"W-{n}")
    lab.git("config", "core.pager", "evil")
    assert [ended(guard, f"W-{n}") for n in (1, 2, 3)] == [[], [], []]
    assert held.count == 0
    (found,) = compared(guard)
    assert (found.paths, found.candidates) == ((".git/config",), ("W-1", "W-2", "W-3", "W-4"))
    assert (held.count, compared(guard)) == (1, [])
    assert ended(guard, "W-4") == []
    assert held.count == 2


def test_no_end_waits_for_a_comparison_while_another_is_judged_and_the_last_one_does(lab, guard, monkeypatch):
    held = Held(guard, monkeypatch)
    held.may.set()
    names = ("W-1", "W-2", "W-3")
    for name in names:
        guard.entered(name)
    lab.git("config", "core.pager", "evil")
    assert [list(anyio.run(guard.ended, name)) for name in names] == [[], [], []]
    assert held.count == 0
    for name in names[:2]:
        guard.gone(name)
    (found,) = ended(guard, "W-3")
    assert (found.paths, found.candidates) == ((".git/config",), names)
    guard.entered("W-4")
    lab.git("config", "core.pager", "worse")
    assert ended(guard, "W-4") == []
    assert guard.blamed("W-4") == (".git/config",)


def test_what_ended_beside_several_is_compared_before_long_whoever_still_runs(lab, guard, monkeypatch):
    for n in range(1, 5):
        guard.entered(f"W-{n}")
    lab.git("config", "core.pager", "evil")
    failures = iter([OSError(5, "Input/output error")])
    taken = guard._lens.snapshot

    def fails_once():
        for failure in failures:
            raise failure
        return taken()

    monkeypatch.setattr(guard._lens, "snapshot", fails_once)

    async def watched():
        found, is_found = [], anyio.Event()

        def report(one):
            found.append(one)
            is_found.set()

        assert not await guard.ended("W-1")
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(guard.watch, report)
                await is_found.wait()
                group.cancel_scope.cancel()
        return found

    (found,) = anyio.run(watched)
    assert (found.paths, found.candidates) == ((".git/config",), ("W-1", "W-2", "W-3", "W-4"))


@pytest.fixture
def crowd(lab):
    """Return the guard of a run of 300 workers, the first of whom has left an answer, and that answer."""
    run, make = begun(lab)
    run.roster_path.write_text(json.dumps({"workers": [{"worker": f"W-{n}"} for n in range(300)]}))
    text = run.attempt("W-0", 1).text
    text.write_text("done")
    guard = make(ran={})
    guard.entered("W-0")
    assert ended(guard, "W-0") == []
    return guard, text


def test_what_was_changed_of_others_in_a_crowd_is_told_with_all_who_ran(crowd):
    guard, text = crowd
    for n in range(1, 42):
        guard.entered(f"W-{n}")
    text.write_text("forged")
    assert not [one for n in range(1, 39) for one in ended(guard, f"W-{n}")]
    (found,) = compared(guard)
    assert found.paths == (f".taskers/runs/20260101_000000/{text.name}",)
    assert {f"W-{n}" for n in range(1, 42)} == set(found.candidates)
    assert not any(guard.blamed(f"W-{n}") for n in range(42))


def test_who_is_alone_after_a_crowd_is_held_for_what_it_does_and_not_for_what_they_did(crowd):
    guard, text = crowd
    for n in (1, 2, 3):
        guard.entered(f"W-{n}")
    assert ended(guard, "W-1") == []
    text.write_text("forged by one of three")
    assert ended(guard, "W-2") == []
    (found,) = compared(guard)
    assert (found.candidates, found.harm) == (("W-1", "W-2", "W-3"), True)
    text.write_text("forged again")
    assert ended(guard, "W-3") == []
    assert [guard.blamed(f"W-{n}") for n in (1, 2)] == [(), ()]
    assert guard.blamed("W-3") == found.paths


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
    guard.entered("W-1", 2)
    assert ended(guard, "W-1") == []
    left.write_text("or so")
    guard.entered("W-2")
    ended(guard, "W-2")
    assert guard.blamed("W-2") == (f".taskers/runs/20260101_000000/{path}",)


def test_what_was_found_while_two_ran_is_not_laid_upon_the_one_looked_after_last(guard):
    guard.entered("one")
    guard.entered("two")
    assert ended(guard, "two") == []
    (found,) = ended(guard, "one", ("events.jsonl",), ("one", "two"))
    assert (found.paths, found.candidates, guard.blamed("one")) == (("events.jsonl",), ("one", "two"), ())
    guard.entered("three")
    assert ended(guard, "three", ("events.jsonl",), ("three",)) == []
    assert guard.blamed("three") == ("events.jsonl",)


def test_the_record_of_one_that_ends_without_having_begun_is_ours_and_what_was_planted_is_not(lab, guard):
    run = next(lab.root.glob(".taskers/runs/2*"))
    guard.entered("W-1")
    planted = run / "W-2.txt"
    planted.write_text("forged")
    for name in ("W-2", "W-3"):
        guard.writing(name, run / f"{name}.json")
        (run / f"{name}.json").write_text("{}")
        guard.judged(name)
    assert ended(guard, "W-1") == []
    assert guard.blamed("W-1") == (f"{run.relative_to(lab.root)}/W-2.txt",)


def test_what_is_found_while_a_comparison_ends_is_told_the_next_time(lab, guard):
    early, late = (f"{lab.root}/.taskers/runs/{name}" for name in ("early", "late"))

    class Busy(set):
        """What another thread adds to just when it has been gone through."""

        def __iter__(self):
            yield from list(super().__iter__())
            if early in self:
                self.add(late)

    guard._files._found = Busy({early})
    told = [guard._files.take_found() for _ in range(3)]
    assert told == [[".taskers/runs/early"], [".taskers/runs/late"], []]


def test_a_comparison_that_fails_lets_nobody_go_and_hides_nothing(lab, guard, monkeypatch):
    def fail():
        raise OSError(5, "Input/output error")

    guard.entered("W-1")
    monkeypatch.setattr(guard._lens, "snapshot", fail)
    lab.git("config", "core.pager", "evil")
    with pytest.raises(OSError, match="Input/output error"):
        ended(guard, "W-1")
    monkeypatch.undo()
    guard.entered("W-2")
    (found,) = ended(guard, "W-2")
    assert (found.paths, found.candidates) == ((".git/config",), ("W-1", "W-2"))
    guard.entered("W-4")
    lab.git("config", "core.pager", "worse")
    assert ended(guard, "W-4") == []
    assert guard.blamed("W-4") == (".git/config",)


@pytest.mark.parametrize("name", ["intent.json", "landing.json", "moves"])
def test_a_pipe_in_the_place_of_a_file_of_ours_is_told_and_nobody_waits_for_it(guard, name):
    guard.entered("W-1")
    os.mkfifo(guard._own / name)
    assert ended(guard, "W-1") == []
    assert guard.blamed("W-1") == (f".git/orchestrate/{name}",)


def test_an_intent_is_judged_when_no_process_carries_it_out_any_more(lab):
    _, make = begun(lab)
    own = find_repository(lab.root).own
    with held_lock(own / "store.lock"):
        guard = make(ran={})
        guard.entered("W-1")
        (own / "intent.json").write_text("evil")
        assert ended(guard, "W-1") == []
    guard.entered("W-2")
    assert ended(guard, "W-2") == []
    assert (guard.blamed("W-1"), guard.blamed("W-2")) == ((), (".git/orchestrate/intent.json",))


@pytest.mark.parametrize("text", [b"[1]", b"7", b"[" * 100_000])
def test_an_intent_that_says_nothing_is_told(guard, text):
    guard.entered("W-1")
    (guard._own / "intent.json").write_bytes(text)
    assert ended(guard, "W-1") == []
    assert guard.blamed("W-1") == (".git/orchestrate/intent.json",)


def test_a_lock_that_leads_nowhere_keeps_no_comparison_from_being_made(lab, guard):
    guard.entered("W-1")
    (guard._own / "store.lock").symlink_to("store.lock")
    lab.git("config", "core.pager", "evil")
    assert ended(guard, "W-1") == []
    assert guard.blamed("W-1") == (".git/config",)


@pytest.mark.parametrize("kind", ["text", "record", "patch"])
def test_what_is_put_where_a_running_workers_answer_will_be_is_told(crowd, kind):
    guard, text = crowd
    for n in (1, 2, 3):
        guard.entered(f"W-{n}")
    path = getattr(RunDir(guard._own.parents[1], text.parent.name).attempt("W-2", 1), kind)
    path.write_text("forged")
    assert ended(guard, "W-1") == []
    (found,) = compared(guard)
    assert [Path(one).name for one in found.paths] == [path.name]
    assert found.candidates == ("W-1", "W-2", "W-3")
    assert ended(guard, "W-3") == []


def test_what_we_write_ourselves_of_a_worker_is_not_told(crowd):
    guard, text = crowd
    guard.entered("W-1")
    guard.entered("W-2")
    record = text.with_name("W-1.json")
    guard.writing("W-1", record)
    record.write_text("{}")
    assert ended(guard, "W-2") == []
    assert guard.blamed("W-2") == ()


@pytest.mark.parametrize("ending", ["txt", "json", "patch"])
def test_what_we_wrote_of_a_worker_or_did_not_is_final_when_it_is_judged(crowd, ending):
    guard, text = crowd
    guard.entered("W-1", is_new=True)
    assert ended(guard, "W-1") == []
    for data, name in ((b"said", "W-1.txt"), (b"{}", "W-1.json")):
        guard.writing("W-1", text.with_name(name))
        text.with_name(name).write_bytes(data)
    guard.judged("W-1")
    guard.entered("W-2")
    assert ended(guard, "W-2") == []
    assert guard.blamed("W-2") == ()
    text.with_name(f"W-1.{ending}").write_text("evil")
    guard.entered("W-3")
    assert ended(guard, "W-3") == []
    assert [Path(one).name for one in guard.blamed("W-3")] == [f"W-1.{ending}"]


def test_what_orchestrate_writes_while_a_comparison_goes_on_is_not_told(crowd, monkeypatch):
    guard, text = crowd
    guard.entered("W-1", is_new=True)
    record = text.with_name("W-1.json")
    stat = os.lstat

    def written_just_now(path):
        if str(path) == str(record) and not record.exists():
            monkeypatch.undo()
            guard.writing("W-1", record)
            record.write_text("{}")
        return stat(path)

    # As the event loop does while a thread compares.
    monkeypatch.setattr(os, "lstat", written_just_now)
    guard._files.look()
    assert (record.exists(), guard._files.take_found()) == (True, [])


@pytest.mark.parametrize("act", ["replaced", "written", "removed"])
def test_a_lock_that_is_replaced_written_or_removed_is_told_and_a_lock_that_is_taken_is_not(lab, act):
    run, make = begun(lab)
    lock = run.path / "run.lock"
    lock.touch()
    guard = make(ran={})
    guard.entered("W-1")
    with held_lock(lock):
        assert ended(guard, "W-1") == []
    assert guard.blamed("W-1") == ()
    guard.entered("W-2")
    if act == "written":
        lock.write_text("evil")
    else:
        lock.unlink()
    if act == "replaced":
        lock.touch()
    assert ended(guard, "W-2") == []
    assert [Path(one).name for one in guard.blamed("W-2")] == ["run.lock"]


@pytest.mark.parametrize("stays", [True, False])
def test_a_patch_that_is_put_there_before_a_worker_is_judged_is_told(crowd, stays):
    guard, text = crowd
    for n in (1, 2, 3):
        guard.entered(f"W-{n}", is_new=True)
    patch = text.with_name("W-1.patch")
    patch.write_text("evil")
    assert ended(guard, "W-1") == []
    if not stays:
        patch.unlink()
    guard.judged("W-1")
    (found,) = compared(guard)
    assert ([Path(one).name for one in found.paths], found.candidates) == (
        ["W-1.patch"],
        ("W-1", "W-2", "W-3"),
    )


def test_a_patch_that_nothing_was_to_be_written_to_is_told_when_its_worker_is_judged(crowd):
    guard, text = crowd
    guard.entered("W-1", is_new=True)
    assert ended(guard, "W-1") == []
    text.with_name("W-1.patch").write_text("evil")
    guard.judged("W-1")
    guard.entered("W-2", is_new=True)
    (found,) = ended(guard, "W-2")
    assert ([Path(one).name for one in found.paths], found.candidates) == (["W-1.patch"], ("W-1", "W-2"))


def test_an_answer_that_is_put_there_just_before_we_write_it_is_told(crowd):
    guard, text = crowd
    guard.entered("W-1", is_new=True)
    guard.entered("W-2", is_new=True)
    assert ended(guard, "W-1") == []
    record = text.with_name("W-1.json")
    record.write_text("{}")
    guard.writing("W-1", record)
    (found,) = ended(guard, "W-2")
    assert ([Path(one).name for one in found.paths], found.candidates) == (["W-1.json"], ("W-1", "W-2"))


def test_who_went_without_a_look_is_named_in_the_next_one_or_the_last(lab, guard):
    guard.entered("W-1")
    lab.git("config", "core.pager", "evil")
    guard.gone("W-1")
    (found,) = compared(guard)
    assert (found.paths, found.candidates) == ((".git/config",), ("W-1",))
    assert compared(guard) == []
    guard.entered("W-1")
    guard.entered("W-2")
    lab.git("config", "core.pager", "worse")
    guard.gone("W-1")
    (found,) = ended(guard, "W-2")
    assert (found.candidates, guard.blamed("W-2")) == (("W-1", "W-2"), ())


def test_what_those_before_a_kill_did_is_not_laid_upon_who_runs_after_it(lab, crowd):
    _, text = crowd
    repository = find_repository(lab.root)
    lab.git("config", "core.pager", "evil")
    directory, scope = repository.own / "runs" / text.parent.name, Scope.of(["STATUS.md"])
    again = Guard(repository, directory, {"HOME": str(lab.root)}, scope, ran={"W-0": 1}, ended=["W-0"])
    again.entered("W-1")
    (found,) = ended(again, "W-1")
    assert (found.paths, found.candidates, again.blamed("W-1")) == ((".git/config",), ("W-0", "W-1"), ())
    again.entered("W-2")
    text.write_text("forged")
    assert ended(again, "W-2") == []
    assert again.blamed("W-2") == (f".taskers/runs/20260101_000000/{text.name}",)


def test_what_is_done_to_an_ended_workers_files_before_it_is_judged_is_told(crowd):
    guard, text = crowd
    left = text.with_name("W-1.stdout")
    left.write_text("so")
    for n in (1, 2, 3):
        guard.entered(f"W-{n}")
    assert ended(guard, "W-1") == []
    left.write_text("or so")
    guard.judged("W-1")
    (found,) = compared(guard)
    assert [Path(one).name for one in found.paths] == ["W-1.stdout"]
    assert found.candidates == ("W-1", "W-2", "W-3")


def test_an_answer_that_stood_there_before_a_worker_began_is_not_laid_upon_it(crowd):
    guard, text = crowd
    guard.entered("W-1")
    guard.entered("W-2")
    guard.entered("W-3")
    planted = text.with_name("W-4.json")
    planted.write_text("forged")
    assert ended(guard, "W-1") == []
    guard.entered("W-4", is_new=True)
    assert ended(guard, "W-2") == []
    (found,) = compared(guard)
    assert [Path(one).name for one in found.paths] == ["W-4.json"]
    assert {"W-1", "W-2", "W-3", "W-4"} == set(found.candidates)
    assert [*ended(guard, "W-3"), *ended(guard, "W-4")] == []
    assert guard.blamed("W-4") == ()


def test_what_stands_there_of_a_worker_that_has_not_begun_is_held_against_who_ran_alone(crowd):
    guard, text = crowd
    run = text.parent
    guard.entered("W-1", is_new=True)
    logs = run.parents[1] / "messages"
    logs.mkdir()
    planted = [run / "shims" / "W-2.exit.json", logs / f"{run.name}.W-2.jsonl"]
    for path in planted:
        path.write_text("forged")
    (logs / "another-run.W-2.jsonl").write_text("its own")
    assert ended(guard, "W-1") == []
    assert [Path(one).name for one in guard.blamed("W-1")] == sorted(path.name for path in planted)
    guard.entered("W-2", is_new=True)
    assert ended(guard, "W-2") == []
    assert guard.blamed("W-2") == ()


def test_a_worker_may_add_to_its_messages_in_another_attempt_and_nobody_may_afterwards(crowd):
    guard, text = crowd
    log = text.parents[2] / "messages" / f"{text.parent.name}.W-1.jsonl"
    log.parent.mkdir()
    for number in (1, 2):
        guard.entered("W-1", number, is_new=True)
        log.write_text("{}\n" * number)
        assert ended(guard, "W-1") == []
    guard.judged("W-1")
    assert guard.blamed("W-1") == ()
    guard.entered("W-2", is_new=True)
    log.write_text("{}\n" * 3)
    assert ended(guard, "W-2") == []
    assert [Path(one).name for one in guard.blamed("W-2")] == [log.name]


def test_new_times_of_a_file_that_holds_the_same_are_no_change(crowd):
    guard, text = crowd
    guard.entered("W-1", is_new=True)
    os.utime(text, (1, 1))
    text.with_name("W-0.link").hardlink_to(text)
    assert ended(guard, "W-1") == []
    assert guard.blamed("W-1") == ()
