"""A run's directory: files appear whole and once, the journal survives a torn line, locks show who lives."""

import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from workers.files.durable import create_file
from workers.files.journal import Journal, read_journal
from workers.files.locks import held_lock, is_locked
from workers.files.run_dir import RunDir, create_json, new_run_dir, read_json, runs_of

AT = datetime(2026, 2, 16, 14, 28, 34, tzinfo=UTC)


def test_runs_of_one_second_are_numbered_and_listed_by_age(tmp_path):
    made = [new_run_dir(tmp_path, AT) for _ in range(11)]
    assert [run.id for run in made[:3]] == ["20260216_142834", "20260216_142834_2", "20260216_142834_3"]
    for run in made:
        create_json(run.manifest_path, {})
    assert [run.id for run in runs_of(tmp_path)] == [run.id for run in made]
    assert (tmp_path / ".taskers" / ".gitignore").read_text() == "*\n"


def test_a_run_takes_no_id_that_one_of_another_work_tree_has(tmp_path):
    taken = {"20260216_142834", "20260216_142834_3"}
    made = [new_run_dir(tmp_path, AT, taken).id for _ in range(2)]
    assert made == ["20260216_142834_2", "20260216_142834_4"]


def test_runs_that_begin_at_once_get_folders_of_their_own(tmp_path):
    made: list[RunDir] = []
    threads = [threading.Thread(target=lambda: made.append(new_run_dir(tmp_path, AT))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({run.id for run in made}) == 8


def test_a_folder_without_a_manifest_is_no_run(tmp_path):
    new_run_dir(tmp_path, AT)
    assert runs_of(tmp_path) == []
    assert runs_of(tmp_path / "nowhere") == []


def test_a_file_is_created_once_and_never_replaced(tmp_path):
    path = tmp_path / "out"
    create_file(path, b"paid for")
    with pytest.raises(FileExistsError):
        create_file(path, b"other")
    assert path.read_bytes() == b"paid for"
    assert list(tmp_path.iterdir()) == [path]


def test_a_record_that_was_cut_or_is_none_of_ours_reads_as_not_there(tmp_path):
    for name, data in {"cut": b'{"a": 1', "list": b"[1]", "empty": b"", "nul": b"\0" * 9}.items():
        (tmp_path / name).write_bytes(data)
        assert read_json(tmp_path / name) is None
    assert read_json(tmp_path / "nowhere") is None
    assert read_json(tmp_path / "cut" / "below") is None


@pytest.mark.parametrize("torn", [b'{"event": "sta', b'{"event": "b"}', b"\xff\xfe", b"[]\n", b"\n\n"])
def test_a_journal_goes_on_behind_a_torn_line(tmp_path, torn):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"event": "a"}\n' + torn)
    journal = Journal(path)
    journal.append({"event": "c"})
    journal.close()
    found = [record["event"] for record in read_journal(path)]
    assert found == (["a", "b", "c"] if torn == b'{"event": "b"}' else ["a", "c"])


def test_a_journal_that_is_not_there_is_empty(tmp_path):
    assert list(read_journal(tmp_path / "events.jsonl")) == []


HOLDER = """
import sys
from pathlib import Path
from workers.files.locks import held_lock
with held_lock(Path(sys.argv[1])) as free:
    print(free, flush=True)
    sys.stdin.read()
"""


def test_a_lock_is_held_for_the_life_of_its_holder_and_freed_by_its_death(tmp_path):
    path = tmp_path / "run.lock"
    assert not is_locked(path)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "True\n"
        assert is_locked(path)
        with held_lock(path) as free:
            assert not free
        holder.kill()
    assert not is_locked(path)
    with held_lock(path) as free:
        assert free


def test_whoever_only_looks_at_a_lock_never_keeps_its_holder_out(tmp_path):
    path = tmp_path / "run.lock"
    path.touch()
    stop = threading.Event()

    def look():
        while not stop.is_set():
            is_locked(path)

    watchers = [threading.Thread(target=look) for _ in range(3)]
    for watcher in watchers:
        watcher.start()
    try:
        for _ in range(200):
            with held_lock(path) as free:
                assert free
    finally:
        stop.set()
        for watcher in watchers:
            watcher.join()


def test_two_attempts_have_names_of_their_own(tmp_path):
    run = RunDir(tmp_path, "r")
    first, second = run.attempt("Codex-Worker-3", 1), run.attempt("Codex-Worker-3", 2)
    assert run.relative(first.text) == ".taskers/runs/r/Codex-Worker-3.txt"
    assert run.relative(second.patch) == ".taskers/runs/r/Codex-Worker-3.2.patch"
    assert not set(first) & set(second)


def test_a_creation_that_was_killed_leaves_nothing_that_is_read(tmp_path):
    child = os.fork()
    if child == 0:
        sys.addaudithook(lambda event, _: os._exit(9) if event == "os.link" else None)
        create_file(tmp_path / "run.json", b"{}")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert read_json(tmp_path / "run.json") is None
    create_file(tmp_path / "run.json", b"{}")
    assert read_json(Path(tmp_path / "run.json")) == {}


def test_a_pipe_in_the_place_of_a_file_says_nothing_and_nobody_waits_for_it(tmp_path):
    os.mkfifo(tmp_path / "run.json")
    assert read_json(tmp_path / "run.json") is None
    assert is_locked(tmp_path / "run.json") is False
    (tmp_path / "deep.json").write_text("[" * 100_000)
    assert read_json(tmp_path / "deep.json") is None


def test_a_record_has_a_field_a_line_whatever_its_names_are(tmp_path):
    value = {"plain": 1, "a b": "x", 'q"uote': None, "": [1, {"a": 2}], "src/\u00e9.py": True, "\n": "\n",
             "caf\u00e9": {"b": []}, "\udcff": "\udcff"}  # fmt: skip
    create_json(tmp_path / "x.json", value)
    text = (tmp_path / "x.json").read_text(encoding="utf-8")
    assert json.loads(text) == value
    assert len(text.splitlines()) == len(value) + 2
