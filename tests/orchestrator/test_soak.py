"""The long form: fifty runs whose runtime is killed at a random moment, and that all come out right."""

import os
import random
import runpy
import signal
import time
from pathlib import Path

import pytest

LIVES = runpy.run_path(str(Path(__file__).with_name("lives_lab.py")))
_pattern, cli_lab, lives, shell = (LIVES[name] for name in ("_pattern", "cli_lab", "lives", "shell"))
journal, wait_until = LIVES["journal"], LIVES["wait_until"]

RUNS = 50
WORKERS = 8

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1700),
    pytest.mark.skipif(os.environ.get("ORCHESTRATE_SOAK") != "1", reason="long: run `make soak`"),
]


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
    assert len(lives.landed()) == 1, seed
    assert {path.name for path in (lives.root / "out").iterdir()} == numbers, seed
    assert lives.lab.git("log", "--format=%H", "--", "out").count("\n") == 1, seed
    assert lives.lab.git("status", "--porcelain") == "", seed
    assert (lives.root / "DECISIONS.md").read_text().count("Integrated run") == 1, seed
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
