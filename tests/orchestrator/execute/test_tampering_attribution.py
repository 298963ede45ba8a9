"""The scans around concurrent workers: one for many, and no worker is blamed for another's act."""

import json
import os
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from orchestrator.tamper.guard import Guard
from tickets.scopes.scope import Scope
from workers.files.run_dir import RunDir, new_run_dir
from workers.git.run import find_repository


class Watched:
    """A lock that notes who asks for it."""

    def __init__(self):
        self._lock, self.arrivals = threading.Lock(), queue.Queue()

    def __enter__(self):
        self.arrivals.put(None)
        self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()


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
    found = make()
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
    """Return the guard of a run of 300 workers, the first of which has left an answer, and that answer."""
    run, make = begun(lab)
    run.roster_path.write_text(json.dumps({"workers": [{"worker": f"W-{n}"} for n in range(300)]}))
    text = run.attempt("W-0", 1).text
    text.write_text("done")
    guard = make()
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


def test_what_was_found_while_two_ran_is_not_laid_upon_the_one_looked_after_last(guard):
    guard.entered("one")
    guard.entered("two")
    assert guard.left("two") == []
    (found,) = guard.left("one", ("events.jsonl",), ("one", "two"))
    assert (found.paths, found.candidates, guard.blamed("one")) == (("events.jsonl",), ("one", "two"), ())
    guard.entered("three")
    assert guard.left("three", ("events.jsonl",), ("three",)) == []
    assert guard.blamed("three") == ("events.jsonl",)


def test_the_record_of_one_that_ends_without_having_begun_is_ours_and_what_was_planted_is_not(lab, guard):
    run = next(lab.root.glob(".taskers/runs/2*"))
    guard.entered("W-1")
    planted = run / "W-2.txt"
    planted.write_text("forged")
    for name in ("W-2", "W-3"):
        guard.writes(name, run / f"{name}.json")
        (run / f"{name}.json").write_text("{}")
        guard.settled(name, None)
    assert guard.left("W-1") == []
    assert guard.blamed("W-1") == (f"{run.relative_to(lab.root)}/W-2.txt",)


def test_a_stray_that_comes_while_a_look_ends_is_told_the_next_time(lab, guard):
    early, late = (f"{lab.root}/.taskers/runs/{name}" for name in ("early", "late"))

    class Busy(dict):
        """What another thread adds to just when it has been gone through."""

        def items(self):
            found = list(super().items())
            self.setdefault(late, False)
            return found

    guard._leavings._strays = Busy({early: False})
    told = [guard._leavings.changed_of_ended(()) for _ in range(3)]
    assert told == [[".taskers/runs/early"], [".taskers/runs/late"], []]


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


@pytest.mark.parametrize("ending", ["txt", "json", "patch"])
def test_what_we_wrote_of_a_worker_or_did_not_is_final_when_it_is_judged(crowd, ending):
    guard, text = crowd
    guard.entered("W-1", is_new=True)
    assert guard.left("W-1") == []
    for data, name in ((b"said", "W-1.txt"), (b"{}", "W-1.json")):
        guard.writes("W-1", text.with_name(name), data)
        text.with_name(name).write_bytes(data)
    guard.settled("W-1", None)
    guard.entered("W-2")
    assert guard.left("W-2") == []
    assert guard.blamed("W-2") == ()
    text.with_name(f"W-1.{ending}").write_text("evil")
    guard.entered("W-3")
    assert guard.left("W-3") == []
    assert [Path(one).name for one in guard.blamed("W-3")] == [f"W-1.{ending}"]


def test_a_look_that_takes_paths_out_meanwhile_does_not_disturb_the_end_of_a_worker(crowd, monkeypatch):
    guard, _ = crowd
    guard.entered("W-1", is_new=True)
    unwritten = guard._leavings._unwritten["W-1"]
    # As the thread does between two system calls of ours.
    monkeypatch.setattr(os.path, "lexists", lambda _: unwritten and unwritten.pop() and False)
    guard.settled("W-1", None)


@pytest.mark.parametrize("stays", [True, False])
def test_a_patch_that_is_put_there_before_a_worker_is_judged_is_told(crowd, stays):
    guard, text = crowd
    guard.entered("W-1", is_new=True)
    guard.entered("W-2", is_new=True)
    patch = text.with_name("W-1.patch")
    patch.write_text("evil")
    guard._leavings.settled("W-1")
    if not stays:
        patch.unlink()
    guard.settled("W-1", None)
    guard.gone("W-1")
    assert [Path(one).name for found in guard.left("W-2") for one in found.paths] == ["W-1.patch"]


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
