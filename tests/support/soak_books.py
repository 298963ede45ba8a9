"""The accounts of a soak: the invariants of a finished run, and of the repository in the end."""

import re
import time
from collections import Counter
from typing import get_args

from support.faults import is_locked
from support.soak import NOISE, journal

from orchestrator.budget.totals import days_since, entries_of
from orchestrator.runs import scopes_in_use as holding
from orchestrator.runs.state import read_run
from orchestrator.state.canonical.status import status
from tickets.types import Outcome
from workers.git.run import find_repository

PATIENCE = 20.0
"""Seconds that a process of ours may take to exit after its command has answered."""


def keep_books(lane, run):
    """Check the invariants of one finished run, and add it to the figures; return its landed files."""
    world, state, records = lane.world, read_run(run), journal(run)
    where = (f"seed {world.seed}", lane.name, run.id)
    ends = Counter(one["worker"] for one in records if one["event"] in ("ended", "skipped"))
    assert ends == dict.fromkeys(state.workers, 1), (where, "not just one outcome", ends)
    for name, facts in state.workers.items():
        assert facts.outcome in get_args(Outcome), (where, vars(facts))
        begun = [one["attempt"] for one in records if one["event"] == "started" and one["worker"] == name]
        assert begun == list(range(1, len(begun) + 1)), (where, name, begun)
        assert facts.attempts == len(begun), (where, vars(facts), begun)
        world.count(f"outcome: {facts.outcome}")
        world.count("started", bool(begun))
        world.count("attempts", len(begun))
        world.count(f"verdict: {facts.verdict}")
    for event in ("retry", "asked", "afresh", "lost", "parked", "moved", "held"):
        world.count(event, sum(one["event"] == event for one in records))
    if run.closed_path.exists():
        for folder in ("worktrees", "scratch"):
            left = list((lane.root / ".taskers" / folder).glob(f"{run.id}/*"))
            assert left == [], (where, left)
    else:
        world.count("killed while it cleared up")  # the next run does it, or the end of the soak
    landed = landed_once(lane, run, state, where)
    settled(lane, run, state, where)
    return landed


def landed_once(lane, run, state, where):
    """Check that what was accepted has landed, in one commit of this run, and nothing else has."""
    found = {}
    for name, facts in state.workers.items():
        accepted = facts.verdict in ("accepted", "partial")
        for path in facts.evidence.files:
            if accepted:
                found[path] = run.id
            else:
                assert not (lane.root / path).exists(), (where, name, path)
    folder = f"out/{lane.name}/{lane.round}"
    there = {path.relative_to(lane.root).as_posix() for path in (lane.root / folder).glob("*")}
    assert there == set(found), (where, there ^ set(found))
    format_ = "--format=%x00%(trailers:key=Orchestrate-Run,valueonly)"
    commits = lane.world.git(lane.root, "log", format_, "--name-only", "--", folder).split("\0")[1:]
    times = Counter(path for commit in commits for path in commit.split("\n")[1:] if path)
    assert times == dict.fromkeys(found, 1), (where, "landed other than once", times)
    assert {commit.split()[0] for commit in commits} <= {run.id}, (where, commits)
    return found


def settled(lane, run, state, where):
    """Check that the ledger has each attempt of an agent once, with the sums of the run's record."""
    repository = find_repository(lane.root)
    entries = [
        entry
        for path in days_since(repository.own / "spending", run.id)
        for entry in entries_of(path).values()
        if entry.run == run
    ]
    open_ones = [entry for entry in entries if entry.tokens is None]
    in_ledger = {
        name: sum(one.tokens or 0 for one in entries if one.worker == name) for name in state.workers
    }
    lane.world.count("attempts that nobody could price or count", len(open_ones))
    for name, facts in state.workers.items():
        told = facts.evidence.usage.input_tokens + facts.evidence.usage.output_tokens
        assert told == in_ledger[name], (where, name, told, in_ledger[name], vars(facts))


def close_books(world, lanes):
    """Check the invariants of the repository when all runs are over; return the figures."""
    until = time.monotonic() + PATIENCE
    while (survivors := world.processes()) and time.monotonic() < until:
        time.sleep(0.05)
    world.tally["survivors"] = len(survivors)
    assert survivors == [], (world.seed, survivors, world.strikes[-20:])
    repository = find_repository(world.root)
    slots = [
        path.name
        for path in sorted((repository.own / "slots").glob("*.lock"))
        if is_locked(path) or path.read_text()
    ]
    assert slots == [], (world.seed, slots)
    assert holding.claimed(repository, None) == [], world.seed
    assert not list(repository.own.glob("*.json")), (world.seed, "an intent is unfinished")
    assert world.git(world.root, "worktree", "list").count("\n") == 2, world.seed
    fsck = world.git(world.root, "fsck", "--strict", "--no-dangling")
    assert not re.search("error|missing|corrupt|broken", fsck), (world.seed, fsck)
    assert not list((world.place / "tmp").glob("orchestrate-bug-*")), world.seed
    for root in (world.root, world.second):
        agree(world, root)
    for log in world.place.rglob("*.log"):
        text = log.read_text(errors="replace")
        assert not any(word in text for word in NOISE), (world.seed, log, text)
    for lane in lanes:
        for book in lane.books:
            for path in book:
                assert (lane.root / path).is_file(), (world.seed, path)
    return world.tally


def agree(world, root):
    """Check that the state files are in order, name no run any more, and have every manual edit."""
    called = world.call(root, "validate")
    errors = [one for one in called.document["problems"] if one["severity"] == "error"]
    assert (called.code, errors) == (0, []), (world.seed, errors)
    text = (root / "STATUS.md").read_text()
    assert status.read(text.encode()).active == (), (world.seed, text)
    lost = [line for line in world.written.get(root, ()) if text.count(line) != 1]
    assert lost == [], (world.seed, "written by hand, and not there once", lost)
    told = world.call(root, "resume")
    assert told.code == 0, (world.seed, told)
