"""Old runs are packed and leave, each whole in one place or the other; whatever is still needed stays."""

import fcntl
import json
import os
import re
import shutil

import pytest
from support.old_runs import ARCHIVE, RUNS, aged, archive, archives, gone, listed, packed, reasons, settled
from support.paths import ROOT
from support.repository import seen_in

TEXT = (ROOT / "docs" / "commands.md").read_text()


def test_a_dry_run_says_what_would_go_and_how_much_and_touches_nothing(closed):
    old, run = closed
    ids = [aged(old, run, days, 1000 * days) for days in (90, 40)]
    before = old.everything()
    told = archive(old, "--dry-run")
    assert old.everything() == before
    assert gone(told) == ids
    sizes = [
        sum(p.stat().st_size for p in (old.root / RUNS / name).rglob("*") if p.is_file()) for name in ids
    ]
    assert [one["bytes"] for one in told["moved"]] == sizes
    assert (told["bytes"], told["dry_run"], told["next_action"]) == (
        sum(sizes),
        True,
        "orchestrate archive --runs",
    )
    assert reasons(told) == {run: "is the newest"}


def test_what_goes_is_packed_to_the_byte_and_comes_back_by_unpacking(closed):
    old, run = closed
    name = aged(old, run, 31, 5000)
    before = seen_in(old.root / RUNS / name)
    (one,) = archive(old)["moved"]
    assert (one["what"], one["to"]) == (name, f"{ARCHIVE}/{name}.tar.gz")
    assert one["archive_bytes"] == (old.root / one["to"]).stat().st_size < one["bytes"]
    assert not (old.root / RUNS / name).exists()
    assert packed(old, name) == before
    assert listed(old.root / ARCHIVE) == archives(name)
    assert old.git("status", "--porcelain") == ""
    refused = old.call("logs", name, "command-1")
    assert f"`tar -xzf {ARCHIVE}/{name}.tar.gz -C {RUNS}` brings it back" in refused.out + refused.err
    shutil.copytree(old.home / "unpacked" / name, old.root / RUNS / name)
    assert old.call("logs", name, "command-1").out == "done\n"


@pytest.mark.parametrize(
    ("arguments", "going"),
    [
        ((), [100, 40]),
        (("--older-than", "14d"), [100, 40, 20]),
        (("--older-than", "6w"), [100]),
        (("--older-than", "240h"), [100, 40, 20]),
        (("--keep", "3"), [100, 40]),
        (("--keep", "9"), []),
        (("--older-than", "14", "--keep", "3"), [100, 40]),
        (("--max-size", "2.5MB"), [100, 40]),
        (("--max-size", "1"), [100, 40, 20, 3]),
        (("--max-size", "1", "--keep", "4"), [100]),
        (("--max-size", "3.5MB", "--older-than", "50d"), [100]),
        (("--max-size", "1GB", "--older-than", "50d"), [100]),
        (("--max-size", "1GB"), []),
    ],
)
def test_limits_of_age_number_and_size_hold_together(closed, arguments, going):
    old, run = closed
    names = {days: aged(old, run, days, 1_000_000) for days in (100, 40, 20, 3)}
    assert gone(archive(old, "--dry-run", *arguments)) == [names[days] for days in going]


def test_a_size_that_cannot_be_reached_is_said_with_what_stays(closed):
    told = archive(closed[0], "--max-size", "1")
    (problem,) = told["problems"]
    assert (problem["severity"], problem["place"]) == ("warning", RUNS)
    assert problem["what"].endswith("and 1 bytes were allowed")


def test_a_run_with_a_verdict_that_is_pending_stays_whatever_its_age(old):
    (run,) = listed(old.root / RUNS)
    name = aged(old, run, 400)
    settled(old)
    told = archive(old, "--max-size", "1")
    assert gone(told) == []
    assert reasons(told)[name].startswith("is finished: `orchestrate integrate")


def test_a_cancelled_run_whose_work_never_landed_stays(old):
    (run,) = listed(old.root / RUNS)
    name = aged(old, run, 400)
    with (old.root / RUNS / name / "events.jsonl").open("a") as journal:
        journal.write('{"at": "2020-01-01T00:00:00+00:00", "event": "closed", "status": "cancelled"}\n')
    settled(old)
    said = reasons(archive(old))[name]
    assert said == f"the work of Command-Worker-2 has not landed: `orchestrate integrate {name}`"


def test_a_run_that_a_process_holds_stays_and_goes_once_it_is_free(closed):
    old, run = closed
    name = aged(old, run, 400)
    with (old.root / RUNS / name / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert reasons(archive(old))[name] == "a process works on it"
    assert gone(archive(old)) == [name]


def test_a_run_whose_worktree_is_still_there_stays(closed):
    old, run = closed
    name = aged(old, run, 400)
    (old.root / ".taskers/worktrees" / name / "Command-Worker-2").mkdir(parents=True)
    said = reasons(archive(old))[name]
    assert said == (
        "the worktree of Command-Worker-2 is still there, and may hold what nothing else does: look, then "
        f"`git worktree remove --force .taskers/worktrees/{name}/Command-Worker-2`"
    )


def test_a_run_that_cannot_be_read_stays(closed):
    old, run = closed
    name = aged(old, run, 400)
    (old.root / RUNS / name / "roster.json").write_text("{")
    assert reasons(archive(old))[name] == "cannot be read, so its content is not known"


def test_a_person_sees_each_run_that_stays_with_its_reason(closed):
    old, run = closed
    name, young = aged(old, run, 400), aged(old, run, 2)
    said = old.call("archive", "--runs", "--dry-run").out
    assert re.search(rf"^would move  {name} \(\S+ kB\) -> {ARCHIVE}/{name}\.tar\.gz$", said, re.MULTILINE)
    assert re.search(rf"^stays       {young} \(\S+ kB\): is young enough$", said, re.MULTILINE)
    assert re.search(rf"^stays       {run} \(\S+ kB\): is the newest$", said, re.MULTILINE)


def test_an_archive_that_holds_something_else_keeps_the_run_where_it_is(closed):
    old, run = closed
    name = aged(old, run, 400)
    before = seen_in(old.root / RUNS / name)
    (old.root / ARCHIVE).mkdir()
    (old.root / ARCHIVE / f"{name}.tar.gz").write_bytes(b"somebody's own")
    assert "holds something else" in reasons(archive(old))[name]
    after = seen_in(old.root / RUNS / name)
    assert after == before
    assert (old.root / ARCHIVE / f"{name}.tar.gz").read_bytes() == b"somebody's own"


def test_a_second_process_is_told_that_one_is_at_it(closed):
    old, run = closed
    name = aged(old, run, 400)
    (old.root / ARCHIVE).mkdir()
    folder = os.open(old.root / ARCHIVE, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        assert archive(old, code=5)["problems"][0]["what"] == "another process packs runs into it"
    finally:
        os.close(folder)
    assert (old.root / RUNS / name / "run.json").exists()


ALWAYS = "the newest run always stays: `status`, `report` and `last` are about it"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--runs", "--keep", "0"),
            f"--keep: {ALWAYS}; write 1 or more",
        ),
        (("--keep", "3"), "--keep: is about runs; add `--runs`"),
        (("--max-size", "3GB"), "--max-size: is about runs; add `--runs`"),
    ],
)
def test_limits_that_make_no_sense_are_refused(lab, arguments, said):
    called = lab.call("archive", *arguments, "--json")
    assert (called.code, called.says()) == (2, [said])


@pytest.mark.parametrize(
    ("option", "value"), [("--older-than", "soon"), ("--max-size", "much"), ("--keep", "x")]
)
def test_a_limit_that_cannot_be_read_is_refused(lab, option, value):
    called = lab.call("archive", "--runs", option, value, "--json")
    assert called.code == 2
    assert value in called.says()[0]


def test_without_runs_nothing_goes_and_nothing_is_made(lab):
    told = archive(lab)
    assert (told["moved"], told["kept"]) == ([], [])
    assert not (lab.root / ".taskers").exists()


def test_the_example_in_the_page_has_the_keys_of_the_answer(closed):
    old, run = closed
    section = TEXT.partition("## `orchestrate archive")[2].partition("\n## ")[0]
    example = json.loads(re.findall(r"^```json\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[1])
    aged(old, run, 400)
    told = archive(old)
    assert list(example) == list(told)
    for key in ("moved", "kept"):
        assert {tuple(one) for one in example[key]} == {tuple(one) for one in told[key]}
