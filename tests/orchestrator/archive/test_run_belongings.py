"""What a run has outside its folder goes with it: messages are packed, all else is deleted."""

import os
import tarfile

from support.old_runs import ARCHIVE, RUNS, aged, archive, furnished, gone, packed, traces
from support.repository import seen_in


def test_what_a_run_has_elsewhere_goes_with_it(closed):
    old, run = closed
    name = aged(old, run, 400)
    furnished(old, name)
    assert gone(archive(old)) == [name]
    assert traces(old, name) == []
    assert traces(old, run) != []


def test_its_messages_are_in_the_pack(closed):
    old, run = closed
    name = aged(old, run, 400)
    furnished(old, name)
    before = seen_in(old.root / RUNS / name)
    archive(old)
    held = packed(old, name)
    assert {path: one for path, one in held.items() if not path.startswith("messages")} == before
    texts = {path: one[1] for path, one in held.items() if path.startswith("messages/")}
    assert texts == {
        f"messages/{name}.Command-Worker-1.jsonl": b'{"to": "lead"}\n',
        f"messages/{name}.Command-Worker-2.jsonl": b"",
    }


def test_a_run_brought_back_with_its_messages_goes_again(closed):
    old, run = closed
    name = aged(old, run, 400)
    furnished(old, name)
    archive(old)
    with tarfile.open(old.root / ARCHIVE / f"{name}.tar.gz") as tar:
        tar.extractall(old.root / RUNS, filter="data")
    assert gone(archive(old)) == [name]
    assert traces(old, name) == []


def test_messages_of_a_run_with_a_like_name_stay(closed):
    old, run = closed
    name = aged(old, run, 400)
    furnished(old, name)
    old.write(f".taskers/messages/{name}_2.Command-Worker-1.jsonl", "another's\n")
    archive(old)
    assert (old.root / f".taskers/messages/{name}_2.Command-Worker-1.jsonl").read_text() == "another's\n"
    assert [path for path in packed(old, name) if "_2." in path] == []


def test_a_dry_run_counts_what_a_run_has_elsewhere(closed):
    old, run = closed
    name = aged(old, run, 400)
    before = archive(old, "--dry-run")["bytes"]
    more = furnished(old, name)
    seen = old.everything()
    assert archive(old, "--dry-run")["bytes"] == before + more
    assert old.everything() == seen


def test_a_size_limit_counts_what_runs_have_elsewhere(closed):
    old, run = closed
    name = aged(old, run, 3)
    furnished(old, name)
    (old.root / f".taskers/homes/{name}/big").write_bytes(b"x" * 2_000_000)
    assert gone(archive(old, "--max-size", "1.5MB")) == [name]


def test_a_run_that_has_one_log_twice_stays_and_keeps_both(closed):
    old, run = closed
    name = aged(old, run, 400)
    furnished(old, name)
    old.write(f"{RUNS}/{name}/messages/{name}.Command-Worker-1.jsonl", "another\n")
    assert gone(archive(old)) == []
    assert (old.root / f".taskers/messages/{name}.Command-Worker-1.jsonl").read_text() == '{"to": "lead"}\n'
    assert (old.root / RUNS / name / f"messages/{name}.Command-Worker-1.jsonl").read_text() == "another\n"


def test_a_scratch_folder_that_forbids_to_be_listed_goes_too(closed):
    old, run = closed
    name = aged(old, run, 400)
    furnished(old, name)
    (old.root / f".taskers/scratch/{name}/Command-Worker-1/caches").chmod(0)
    assert gone(archive(old)) == [name]
    assert traces(old, name) == []


def test_a_run_as_its_runtime_left_it_is_packed(closed):
    old, run = closed
    # Its answers are hard links to its streams, which no copy of it has.
    text, stream = (old.root / RUNS / run / f"Command-Worker-1.{end}" for end in ("txt", "stdout"))
    text.unlink()
    os.link(stream, text)
    aged(old, run, -1)
    before = seen_in(old.root / RUNS / run)
    assert gone(archive(old, "--older-than", "0")) == [run]
    assert packed(old, run)["Command-Worker-1.txt"] == before["Command-Worker-1.txt"]


def test_the_commits_that_a_cancelled_run_alone_needed_are_let_go(closed):
    old, run = closed
    name, other = aged(old, run, 400), aged(old, run, 2)
    head = old.git("rev-parse", "HEAD").strip()
    for one in (name, other):
        old.git("update-ref", f"refs/orchestrate/keep/{one}/{head}", head)
    old.git("update-ref", f"refs/orchestrate/{name}", head)
    archive(old)
    refs = old.git("for-each-ref", "--format=%(refname)", "refs/orchestrate").split()
    assert refs == [f"refs/orchestrate/{name}", f"refs/orchestrate/keep/{other}/{head}"]
