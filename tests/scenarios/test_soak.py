"""Runs under random faults: one outcome a ticket, each accepted patch lands once, nothing is left."""

import os
import random
import signal
import threading
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

import pytest
from support.repository import shell
from support.runtimes import journal, wait_until
from support.soak import Lane, Striker, World
from support.soak_books import close_books, keep_books

RUNS = 50
WORKERS = 8

IS_LONG = os.environ.get("ORCHESTRATE_SOAK") == "1"
SECONDS = float(os.environ.get("ORCHESTRATE_SOAK_SECONDS", "1800" if IS_LONG else "30"))
"""How long runs are begun; those that are under way then are seen to their ends."""
TICKETS = 40 if IS_LONG else 22
"""Of each of three leads, beside a fan-out: together far more than fifteen."""

pytestmark = pytest.mark.soak


@pytest.fixture
def world(pattern_repository, fakes, tmp_path):
    """Yield the repository of a soak; all its processes have exited afterwards, whatever happened."""
    seed = int(os.environ.get("ORCHESTRATE_SEED", str(random.randrange(10**6))))
    world = World(tmp_path, pattern_repository, fakes, seed)
    yield world
    world.see_dead()


@pytest.mark.timeout(SECONDS + 900)
def test_every_ticket_is_accounted_for_whatever_strikes(world, capfd):
    seed = world.seed
    lanes = [
        Lane(world, "a", world.root, "phase-1", 1),
        Lane(world, "b", world.second, "phase-1", 1),
        Lane(world, "c", world.root, "phase-2", 51),
    ]
    striker = Striker(world, lanes)
    began = time.monotonic()
    say(capfd, f"soak of {SECONDS:g} s, seed {seed}; again: ORCHESTRATE_SEED={seed}")
    with ThreadPoolExecutor() as pool:
        over = threading.Timer(SECONDS, world.over.set)
        over.start()
        struck = pool.submit(striker.live)
        lives = [pool.submit(lane.live, TICKETS, keep_books) for lane in lanes]
        try:
            while (at := wait(lives, 60, FIRST_EXCEPTION)).not_done and not struck.done():
                for one in at.done:
                    one.result()  # a fault ends the soak at once, whichever lead met it
                say(capfd, f"{time.monotonic() - began:.0f} s: {in_words(world.tally)}")
        finally:
            over.cancel()
            world.over.set()
            world.ended.set()
            wait(lives)
        for one in (struck, *lives):
            one.result()
    tally = close_books(world, lanes)
    say(capfd, f"seed {seed}, {time.monotonic() - began:.0f} s:\n{figures(tally, striker)}")


def say(capfd, text):
    """Print progress for the person who waits."""
    with capfd.disabled():
        print(f"\n{text}", flush=True)


def in_words(tally):
    """Describe the progress in a line."""
    struck = sum(number for name, number in tally.items() if name.startswith("struck: "))
    return f"{tally['runs']} runs, {tally['started']} tickets started, {struck} faults"


def figures(tally, striker):
    """List what there was of everything."""
    names = ["runs", "started", "outcome: complete", "adopted", "retry", "parked", "moved", "survivors"]
    rest = sorted(set(tally) - set(names))
    lines = [f"  {name.removeprefix('outcome: '):<44}{tally[name]:>6}" for name in names]
    lines += [f"  {name:<44}{tally[name]:>6}" for name in rest]
    busy = sum(striker.samples) / len(striker.samples)
    return "\n".join([*lines, f"  workers at once: {busy:.1f} on average, {max(striker.samples)} at most"])


def phase(lives):
    """Eight workers below a pool of three, one of them after another; some take a while."""
    lives.pool_of(3)
    texts = {}
    for number in range(1, WORKERS + 1):
        after = {"depends_on": ["command-1"]} if number == 5 else {}
        begins, takes = f"echo x >> {lives.outside}/{number}", f"sleep {0.05 * (number % 4)}"
        script = f"{begins}; {takes}; mkdir -p out; date +%N > out/{number}"
        texts[f"command_{number}"] = shell(script, mode="write", owns=[f"out/{number}"], **after)
    lives.lab.templates(**texts)


@pytest.mark.timeout(1700)
@pytest.mark.skipif(not IS_LONG, reason="long: run `make soak`")
def test_fifty_runs_killed_at_a_random_moment_are_all_integrated_once(lives):
    seed = int(os.environ.get("ORCHESTRATE_SEED", str(random.randrange(10**6))))
    print(f"seed {seed}; again: ORCHESTRATE_SEED={seed}")
    rng = random.Random(seed)
    phase(lives)
    base = lives.lab.git("rev-parse", "HEAD").strip()
    tally = dict.fromkeys(("killed", "killed before anything was decided", "killed again", "ended before"), 0)
    ended, span = set(), 1.0
    while tally["killed"] < RUNS:
        begin_anew(lives, base)
        known = set(runs(lives))
        runtime = lives.begin("run", "phase-1")
        wait_until(
            lambda known=known, runtime=runtime: set(runs(lives)) - known or runtime.poll() is not None
        )
        began = time.monotonic()
        wait_no_longer(runtime, rng.uniform(0, span))
        runtime.kill()
        runtime.communicate()
        (run,) = set(runs(lives)) - known
        if runtime.returncode != -signal.SIGKILL:
            tally["ended before"] += 1
            span = time.monotonic() - began
        elif not (run / "roster.json").exists():
            tally["killed before anything was decided"] += 1
            assert lives.executed() == {}
            continue
        else:
            tally["killed"] += 1
            ended.add(sum(record["event"] == "ended" for record in journal(run)))
            if rng.random() < 0.3:
                second = lives.begin("resume", run.name)
                wait_no_longer(second, rng.uniform(0, span))
                second.kill()
                second.communicate()
                tally["killed again"] += second.returncode == -signal.SIGKILL
        held(lives, run, seed)
    integrated = tally["killed"] + tally["ended before"]
    print(
        f"{integrated} runs integrated, {integrated * WORKERS} workers started once, each patch landed once"
    )
    print(f"{tally}; of {WORKERS} workers had ended at a kill: {sorted(ended)}")
    assert len(ended) > WORKERS / 2, "it was always killed at the same moment"


def held(lives, run, seed):
    """Go on with a run, and hold that all of it happened once."""
    again = lives.call("resume", run.name, "--json")
    assert again.code == 0, (seed, again)
    document = again.document
    assert document["status"] == "integrated", (seed, document)
    # A worker's number of attempts counts launches, also the one that its runtime died on the way to.
    never = [record["worker"] for record in journal(run) if record["event"] == "lost"]
    for worker in document["workers"]:
        assert (worker["outcome"], worker["verdict"]) == ("complete", "accepted"), (seed, worker)
        assert worker["attempts"] == 1 + never.count(worker["worker"]), (seed, worker)
    numbers = {str(number) for number in range(1, WORKERS + 1)}
    assert lives.executed() == {number: ["x"] for number in numbers}, seed
    assert lives.landed() == sorted(f"Command-Worker-{number}" for number in numbers), seed
    assert {path.name for path in (lives.root / "out").iterdir()} == numbers, seed
    assert lives.lab.git("log", "--format=%H", "--", "out").count("\n") == WORKERS, seed
    assert lives.lab.git("status", "--porcelain") == "", seed
    assert lives.lab.git("log", "--format=%s").count(f"Integrated run {run.name}") == 1, seed
    assert run.name not in (lives.root / "DECISIONS.md").read_text(), seed
    assert (lives.root / "STATUS.md").read_text().count(f"run {run.name}") == WORKERS, seed
    assert lives.lab.git("worktree", "list").count("\n") == 1, seed
    assert lives.living() == [], seed


def begin_anew(lives, base):
    """Take away what an earlier run has landed and left outside; what is known of it stays."""
    lives.lab.git("reset", "-q", "--hard", base)
    for path in lives.outside.iterdir():
        path.unlink()


def runs(lives):
    return (lives.root / ".taskers" / "runs").glob("2*")


def wait_no_longer(process, seconds):
    """Let it come as far as it comes in this time: the moment of the kill is the point."""
    until = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.001)
