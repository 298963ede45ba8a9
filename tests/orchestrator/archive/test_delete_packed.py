"""Packed runs are deleted where a lead asks for it and states an age, and never otherwise."""

import fcntl
import os
import shutil
import time

import pytest
from support.old_runs import ARCHIVE, RUNS, aged, archive, archives, gone, listed, reasons

DAY = 86_400
UNSAID = "--delete-packed: deletes permanently, so there is no default age; state an age: `--older-than 180d`"


@pytest.fixture
def packed(closed):
    """Return a project with three packed runs, made 300, 100 and 0 days ago, and their names."""
    old, run = closed
    names = [aged(old, run, days) for days in (500, 300, 200)]
    assert gone(archive(old)) == names
    for name, days in zip(names, (300, 100, 0), strict=True):
        when = time.time() - days * DAY
        os.utime(old.root / ARCHIVE / f"{name}.tar.gz", (when, when))
    return old, names


def delete(made, *arguments, code=0):
    return archive(made, "--delete-packed", *arguments, code=code)


def deleted(told):
    return [one["what"] for one in told["deleted"]]


def of(names):
    return [f"{ARCHIVE}/{name}.tar.gz" for name in names]


@pytest.mark.parametrize(("age", "going"), [("301d", 0), ("30w", 1), ("99", 2), ("2h", 2), ("0", 3)])
def test_archives_made_so_long_ago_go(packed, age, going):
    old, names = packed
    told = delete(old, "--older-than", age)
    assert (deleted(told), told["moved"]) == (of(names[:going]), [])
    assert listed(old.root / ARCHIVE) == archives(*names[going:])
    assert reasons(told) == dict.fromkeys(names[going:], "is young enough")


def test_a_dry_run_names_them_with_what_they_take_and_touches_nothing(packed):
    old, names = packed
    before = old.everything()
    told = delete(old, "--older-than", "99d", "--dry-run")
    assert old.everything() == before
    sizes = [(old.root / path).stat().st_size for path in of(names[:2])]
    assert [one["bytes"] for one in told["deleted"]] == sizes
    assert (deleted(told), told["bytes"]) == (of(names[:2]), sum(sizes))
    # What is deleted is gone for good: somebody decides.
    assert (told["next_action"], told["waiting_for"]) == (None, "lead")
    assert "`orchestrate archive --runs --delete-packed --older-than 99`" in told["what"]
    said = old.call("archive", "--runs", "--delete-packed", "--older-than", "99d", "--dry-run").out
    assert said.startswith(f"stays       {names[2]} (")
    assert f"would go    {ARCHIVE}/{names[0]}.tar.gz (" in said
    assert "\n2 archives, " in said


def test_no_other_call_deletes_an_archive(packed):
    old, names = packed
    archive(old, "--older-than", "0")
    archive(old, "--keep", "1")
    archive(old, "--max-size", "1")
    assert set(of(names)) <= {f"{ARCHIVE}/{name}" for name in listed(old.root / ARCHIVE)}


def test_nothing_is_packed_by_it(closed):
    old, run = closed
    name = aged(old, run, 400)
    assert deleted(delete(old, "--older-than", "0")) == []
    assert listed(old.root / RUNS) == [name, run]
    assert not (old.root / ARCHIVE).exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--runs", "--delete-packed"), UNSAID),
        (("--runs", "--delete-packed", "--older-than", "9", "--keep", "3"),
         "--keep: is about runs that are not packed; leave it out"),
        (("--runs", "--delete-packed", "--older-than", "9", "--max-size", "1"),
         "--max-size: is about runs that are not packed; leave it out"),
        (("--delete-packed", "--older-than", "9"), "--delete-packed: is about runs; add `--runs`"),
    ],
)  # fmt: skip
def test_a_call_that_does_not_say_enough_is_refused_and_deletes_nothing(packed, arguments, said):
    old, names = packed
    called = old.call("archive", *arguments, "--json")
    assert (called.code, called.says()) == (2, [said])
    assert listed(old.root / ARCHIVE) == archives(*names)


def test_what_is_no_pack_of_ours_stays(packed):
    old, names = packed
    foreign = ["notes.tar.gz", f"{names[0]}.tar.gz.bak", "20200102_030405.tar.gz", "20200102_030406.tar.gz"]
    for name in foreign[:3]:
        (old.root / ARCHIVE / name).write_bytes(b"somebody's own")
    shutil.copy(old.root / of(names)[0], old.root / ARCHIVE / foreign[3])
    for name in foreign:
        os.utime(old.root / ARCHIVE / name, (1e9, 1e9))
    told = delete(old, "--older-than", "1d")
    assert deleted(told) == of(names[:2])
    assert set(foreign) <= set(listed(old.root / ARCHIVE))
    assert reasons(told)["20200102_030405"] == "is not a packed run: see what it is"


def test_an_archive_whose_time_was_lost_is_no_older_than_its_run(packed):
    old, names = packed
    for path in of(names):
        os.utime(old.root / path, (0, 0))
    assert deleted(delete(old, "--older-than", "250d")) == of(names[:2])


def test_messages_from_before_they_were_packed_go_with_the_archive_and_those_of_a_run_that_is_back_stay(
    packed,
):
    old, names = packed
    logs = [f".taskers/messages/{name}.Codex-Worker-1.jsonl" for name in names]
    for path in logs:
        old.write(path, "said\n")
    shutil.unpack_archive(old.root / of(names)[1], old.root / RUNS, filter="data")
    assert deleted(delete(old, "--older-than", "1d")) == of(names[:2])
    assert [(old.root / path).exists() for path in logs] == [False, True, True]


def test_a_run_that_a_kill_left_half_way_is_whole_in_its_archive_before_any_goes(packed):
    old, names = packed
    going = old.root / ARCHIVE / f"{names[0]}.going"
    shutil.unpack_archive(old.root / of(names)[0], old.home, filter="data")
    (old.home / names[0]).rename(going)
    assert deleted(delete(old, "--older-than", "200d")) == of(names[:1])
    assert not going.exists()


def test_an_archive_stays_while_something_of_its_run_is_still_being_deleted(packed):
    old, names = packed
    shutil.unpack_archive(old.root / of(names)[0], old.root / RUNS, filter="data")
    old.write(f"{ARCHIVE}/{names[0]}.going/more", "in no archive")
    told = delete(old, "--older-than", "200d")
    assert deleted(told) == []
    assert reasons(told)[names[0]] == "something of its run could not be deleted yet, and is known by it"
    assert [one["place"] for one in told["problems"]] == [f"{ARCHIVE}/{names[0]}.going"]
    assert (old.root / f"{ARCHIVE}/{names[0]}.going/more").exists()


def test_it_is_refused_while_another_process_packs(packed):
    old, names = packed
    folder = os.open(old.root / ARCHIVE, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        told = delete(old, "--older-than", "0", code=5)
        assert told["problems"][0]["what"] == "another process packs runs into it"
    finally:
        os.close(folder)
    assert listed(old.root / ARCHIVE) == archives(*names)
