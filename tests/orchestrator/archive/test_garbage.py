"""`archive --runs` deletes what nothing needs: old days of the ledger, files of runs that are gone."""

import fcntl
import json
import os
import shutil
from datetime import UTC, datetime, timedelta

import pytest
from support.old_runs import RUNS, aged, archive, gone

from orchestrator.archive import garbage
from workers.git.run import find_repository

SPENDING = ".git/orchestrate/spending"
GONE = "20200102_030405"


def day_of(days):
    return (datetime.now(UTC) - timedelta(days=days)).date().isoformat()


def spent(made, days, *runs, root=None):
    """Write a day of the ledger in which some runs stand; return its path."""
    path = f"{SPENDING}/{day_of(days)}.jsonl"
    lines = [
        json.dumps({
            "at": f"{day_of(days)}T10:00:00+00:00", "event": "settled", "run": run, "attempt": 1,
            "worker": "Command-Worker-1", "usd": 1.25, "tokens": 1000, "by": "agent",
            "root": str(root or made.root),
        })
        for run in runs
    ]  # fmt: skip
    made.write(path, "".join(f"{line}\n" for line in lines))
    return path


def deleted(told):
    return [one["what"] for one in told["deleted"]]


def test_days_that_no_run_needs_go_once_they_are_a_quarter_old(closed):
    old, _ = closed
    paths = [spent(old, days, GONE) for days in (400, 91, 90, 89, 1, 0)]
    paths.append(spent(old, -2, GONE))
    told = archive(old)
    assert deleted(told) == paths[:2]
    assert [path for path in paths if (old.root / path).exists()] == paths[2:]
    assert told["deleted"][0]["reason"] == "no run needs what that day cost"
    assert told["bytes"] == sum(one["bytes"] for one in told["deleted"]) > 0


def test_a_day_goes_together_with_the_last_run_that_stands_in_it(closed):
    old, run = closed
    name = aged(old, run, 400)
    path = spent(old, 399, name, GONE)
    assert deleted(archive(old, "--older-than", "500d")) == []
    before = old.everything()
    assert deleted(archive(old, "--dry-run")) == [path]
    assert old.everything() == before
    assert deleted(archive(old)) == [path]


def test_status_still_tells_what_a_run_that_stays_has_cost(closed):
    old, run = closed
    name = aged(old, run, 400)
    path = spent(old, 399, name)
    with (old.root / RUNS / name / "events.jsonl").open("a") as journal:
        journal.write('{"at": "2020-01-01T00:00:00+00:00", "event": "opened"}\n')
        journal.write('{"event": "settled", "worker": "Command-Worker-1", "verdict": "pending", '
                      '"reason": "again", "by": "rule"}\n')  # fmt: skip
    (old.root / RUNS / name / "closed").unlink(missing_ok=True)
    before = old.call("status", "--json").document["runs"]
    assert {one["run"]: one["spent"]["usd"] for one in before}[name] == 1.25
    assert deleted(archive(old)) == []
    assert (old.root / path).exists()
    assert old.call("status", "--json").document["runs"] == before


@pytest.mark.parametrize(("days", "stays"), [(0, True), (1, False)])
def test_a_run_whose_cost_of_today_is_not_settled_stays_until_the_day_is_over(closed, days, stays):
    old, run = closed
    aged(old, run, -1)
    path = old.root / spent(old, days, run)
    path.write_text(path.read_text().replace('"settled"', '"reserved"'))
    record = json.loads((old.root / RUNS / run / "Command-Worker-1.json").read_text())
    record["tries"][0]["usage"].update(cost_usd=7.5, input_tokens=3, output_tokens=4)
    (old.root / RUNS / run / "Command-Worker-1.json").write_text(json.dumps(record))
    before = old.call("status", "--json").document["spent"]["usd"]
    assert before == (7.5 if stays else 0)
    assert gone(archive(old, "--older-than", "0")) == ([] if stays else [run])
    assert old.call("status", "--json").document["spent"]["usd"] == before


def test_a_day_stays_for_a_run_of_another_work_tree_that_is_there_or_away(closed):
    old, _ = closed
    linked, away = old.root.parent / "linked", old.root.parent / "away"
    for place in (linked, away):
        old.git("worktree", "add", "--quiet", "--detach", str(place))
    (linked / RUNS / GONE).mkdir(parents=True)
    paths = [spent(old, 300, GONE, root=linked), spent(old, 200, GONE, root=away)]
    (away).rename(away.with_name("unplugged"))
    assert deleted(archive(old)) == []
    shutil.rmtree(linked / RUNS / GONE)
    away.with_name("unplugged").rename(away)
    assert deleted(archive(old)) == paths


def test_a_day_stays_for_a_run_that_is_in_use_wherever_it_lies(closed):
    old, _ = closed
    spent(old, 300, GONE, root="/nowhere")
    old.write(f".git/orchestrate/scopes/{GONE}-abcdef12.json", "{}")
    assert deleted(archive(old)) == []


def test_what_is_no_day_of_ours_stays_and_a_day_cut_by_a_kill_goes(closed):
    old, _ = closed
    old.write(f"{SPENDING}/notes.jsonl", "mine\n")
    old.write(f"{SPENDING}/2020-01-01.jsonl.bak", "mine\n")
    old.write(f"{SPENDING}/2020-01-01.jsonl", '{"at": "2020-01-01T10:00')
    assert deleted(archive(old)) == [f"{SPENDING}/2020-01-01.jsonl"]
    assert {"2020-01-01.jsonl.bak", "notes.jsonl"} <= {path.name for path in (old.root / SPENDING).iterdir()}


def test_days_go_without_any_run(lab):
    path = spent(lab, 300, GONE)
    assert deleted(archive(lab)) == [path]
    assert not (lab.root / ".taskers").exists()


def test_places_of_runs_that_are_gone_go_and_a_dry_run_names_them(closed):
    old, run = closed
    paths = [
        f".taskers/scratch/{GONE}", f".taskers/homes/{GONE}",
        f".taskers/messages/{GONE}.Codex-Worker-1.jsonl",
        f".git/orchestrate/runs/{GONE}", f"refs/orchestrate/keep/{GONE}",
    ]  # fmt: skip
    for path in (*paths[:2], paths[3]):
        old.write(f"{path}/one/file", "x" * 100)
    old.write(paths[2], "")
    head = old.git("rev-parse", "HEAD").strip()
    old.git("update-ref", f"{paths[4]}/{head}", head)
    old.write(f".taskers/scratch/{run}/file", "its run is here")
    old.write(".taskers/homes/notes/file", "no run's")
    old.write(f".taskers/messages/{GONE}.Codex-Worker-2.jsonl", "said\n")
    before = old.everything()
    told = archive(old, "--dry-run")
    assert deleted(told) == paths
    assert (told["bytes"], told["next_action"]) == (300, "orchestrate archive --runs")
    assert old.everything() == before
    assert deleted(archive(old)) == paths
    assert not any((old.root / path).exists() for path in paths)
    assert old.git("for-each-ref", "refs/orchestrate/keep") == ""
    for path in (f"scratch/{run}/file", "homes/notes/file", f"messages/{GONE}.Codex-Worker-2.jsonl"):
        assert (old.root / ".taskers" / path).exists()


@pytest.mark.parametrize("sign", ["scope", "slot"])
def test_places_of_a_run_that_is_in_use_stay_though_its_folder_is_gone(closed, sign):
    old, _ = closed
    old.write(f".taskers/homes/{GONE}/Codex-Worker-1/session", "dear")
    if sign == "scope":
        old.write(f".git/orchestrate/scopes/{GONE}-abcdef12.json", "{}")
    else:
        old.write(
            ".git/orchestrate/slots/pool-09.lock", json.dumps({"run": GONE, "worker": "Codex-Worker-1"})
        )
    assert deleted(archive(old)) == []


def test_workings_of_a_run_of_another_work_tree_stay(closed):
    old, _ = closed
    linked = old.root.parent / "linked"
    old.git("worktree", "add", "--quiet", "--detach", str(linked))
    (linked / RUNS / GONE).mkdir(parents=True)
    old.write(f".git/orchestrate/runs/{GONE}/index", "theirs")
    head = old.git("rev-parse", "HEAD").strip()
    old.git("update-ref", f"refs/orchestrate/keep/{GONE}/{head}", head)
    assert deleted(archive(old)) == []


def test_a_run_whose_start_was_cut_goes_and_one_that_may_be_starting_stays(closed):
    old, _ = closed
    young = (datetime.now(UTC) - timedelta(hours=2)).strftime("%Y%m%d_%H%M%S")
    for name in (GONE, young):
        old.write(f"{RUNS}/{name}/tickets/Codex-Worker-1.md", "rendered")
        (old.root / RUNS / name / "shims").mkdir()
    old.write(f"{RUNS}/20200102_030406/events.jsonl", "")
    old.write(f"{RUNS}/20200102_030407/run.lock", "")
    with (old.root / RUNS / "20200102_030407/run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = archive(old)
    assert (deleted(told), told["deleted"][0]["reason"]) == ([f"{RUNS}/{GONE}"], "it never began")


def test_old_results_of_checks_go_but_the_newest_of_each_kind(closed):
    old, _ = closed
    checks = old.root / ".taskers/checks"
    young = datetime.now(UTC).strftime("%Y%m%d_%H%M%S")
    both, unit = ("unit", "smoke"), ("unit",)
    for name, kinds in {
        GONE: both, "20200103_000000": unit, "20200104_000000": both, "20200105_000000": (),
        "20200106_000000": unit, young: (),
    }.items():  # fmt: skip
        (checks / name).mkdir(parents=True)
        for kind in kinds:
            (checks / name / f"{kind}.json").write_text("{}")
    old.write(".taskers/checks/notes/unit.txt", "mine")
    told = archive(old)
    assert deleted(told) == [
        f".taskers/checks/{name}" for name in (GONE, "20200103_000000", "20200105_000000")
    ]
    assert {one["reason"] for one in told["deleted"]} == {"a newer check has taken its place"}


def test_files_that_kills_left_go_after_a_day(closed):
    old, _ = closed
    names = [
        ".git/orchestrate/providers/codex.4711", ".git/orchestrate/providers/codex.tmp",
        ".git/orchestrate/logins/codex.tmp", ".git/orchestrate/scopes/x.json.12.0.tmp",
        ".taskers/.gitignore.12.0.tmp",
    ]  # fmt: skip
    for name in names:
        old.write(name, "half")
    old.write(".git/orchestrate/providers/codex.json", "{}")
    assert deleted(archive(old)) == []
    for path in (old.root / name for name in (*names, ".git/orchestrate/providers/codex.json")):
        os.utime(path, (1e9, 1e9))
    assert deleted(archive(old)) == names
    assert (old.root / ".git/orchestrate/providers/codex.json").exists()


def test_a_ledger_that_another_process_holds_keeps_its_days_and_says_so(closed, monkeypatch):
    old, _ = closed
    path = old.root / spent(old, 300, GONE)
    monkeypatch.setattr(garbage, "PATIENCE", 0.1)
    folder = os.open(old.root / SPENDING, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        gone, (problem,) = garbage.collect(find_repository(old.root), datetime.now(UTC))
        assert gone == []
        assert problem.what == "another process holds the ledger: its old days stay"
    finally:
        os.close(folder)
    assert path.exists()


def test_a_person_sees_what_goes_and_why(closed):
    old, _ = closed
    old.write(f".taskers/homes/{GONE}/x", "x" * 1500)
    said = old.call("archive", "--runs", "--dry-run").out
    assert f"would go    .taskers/homes/{GONE} (1.5 kB): its run is gone" in said
    assert "1 leftover, 1.5 kB" in said
    assert f"deleted     .taskers/homes/{GONE}" in old.call("archive", "--runs").out
