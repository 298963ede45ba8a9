"""A full pool: the cost of an idle worker, of a long queue, and the speed of kept output."""

import atexit
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from lab import ORCHESTRATE, peak_kib, repository, say, timed

COUNT, FEW, QUEUED, LOUD, ROUNDS = 1_000, 100, 10_000, 15, 3
EACH = 200_000_000
"""Bytes that a loud worker prints."""
TICKET = "---\nphase: phase-1\ntitle: Pool\nmatrix: {{number: [{numbers}]}}\ncommand: {command}\n---\nx\n"
# As `parallel` does it: nothing fenced, one tree for all.
PLAIN = 'fence = "off"\n[limits]\noutput_cap = "300 MB"\n[worktree]\nshared = "always"\n'


def main() -> None:
    nothing()
    queue()
    loud()


def tickets(count: int, *command: str) -> dict[str, str]:
    """Return templates for so many tickets: one makes no more than a thousand."""
    numbers = ", ".join(str(number) for number in range(min(count, 1_000)))
    text = TICKET.format(numbers=numbers, command=json.dumps(command))
    return {f"command-{at}": text for at in range(-(-count // 1_000))}


def nothing() -> None:
    ours: dict[int, list[float]] = {COUNT: [], FEW: []}
    theirs: dict[int, list[float]] = {COUNT: [], FEW: []}
    there = shutil.which("parallel")
    for _ in range(ROUNDS):
        for count in (COUNT, FEW):
            with repository(tickets(count, "true"), PLAIN) as folder:
                ours[count].append(timed([ORCHESTRATE, "run", "phase-1", "--json"], folder)[0])
            if there:
                theirs[count].append(parallel(count))
    costs = {name: each_more(walls) for name, walls in (("ours", ours), ("theirs", theirs)) if walls[FEW]}
    say(f"{COUNT:,} x true, orchestrate run, all of it", f"{min(ours[COUNT]) / COUNT * 1000:.2f} ms each")
    say(f"  each beyond {FEW}", f"{costs['ours']:.2f} ms")
    if not there:
        say("parallel --results IS NOT INSTALLED", "NOT MEASURED")
        return
    say("  parallel --results, all of it", f"{min(theirs[COUNT]) / COUNT * 1000:.2f} ms each")
    say(f"  each beyond {FEW}", f"{costs['theirs']:.2f} ms")
    say("  ours beside it, all of it", f"{min(ours[COUNT]) / min(theirs[COUNT]):.2f} x", "<= 1.0 x")
    say(f"  each beyond {FEW}", f"{costs['ours'] / costs['theirs']:.2f} x", "<= 1.0 x")


def each_more(walls: dict[int, list[float]]) -> float:
    """Return the cost of one more worker, in milliseconds: each run begins and ends once."""
    return (min(walls[COUNT]) - min(walls[FEW])) / (COUNT - FEW) * 1000


def parallel(count: int) -> float:
    folder = Path(tempfile.mkdtemp(prefix="orchestrate-parallel-"))
    atexit.register(shutil.rmtree, folder)
    feed = "\n".join(str(number) for number in range(count)).encode()
    command = ["parallel", "--will-cite", "-j15", "--results", str(folder / "results"), "true"]
    return timed(command, folder, feed)[0]


def queue() -> None:
    found = {count: queued(count) for count in (100, QUEUED)}
    for count, (start, peak) in found.items():
        say(f"{count:,} queued: first start after", f"{start:.2f} s")
        say("  the runtime's memory then", f"{peak / 1024:.0f} MiB", "<= 200" if count == QUEUED else "")
    say("  each more ticket", f"{(found[QUEUED][0] - found[100][0]) / (QUEUED - 100) * 1000:.2f} ms")
    say(
        f"  first start, {QUEUED // 100} times the tickets",
        f"{found[QUEUED][0] / found[100][0]:.0f} x",
        "<= 100 x",
    )


def queued(count: int) -> tuple[float, int]:
    """Start a run whose first workers stay; return the seconds to the first start, and the memory then."""
    with repository(tickets(count, "sleep", "60"), f'on_runtime_death = "stop"\n{PLAIN}') as folder:
        began = time.time()
        runtime = subprocess.Popen([ORCHESTRATE, "deploy", "phase-1", "--json"], cwd=folder,
                                   stdout=subprocess.DEVNULL)  # fmt: skip
        journal: list[Path] = []
        while not any(b'"started"' in path.read_bytes() for path in journal):
            if runtime.poll() is not None:
                raise SystemExit(f"orchestrate deploy: exit {runtime.returncode}")
            time.sleep(0.005)
            journal = list(folder.glob(".taskers/runs/*/events.jsonl"))
        record = next(line for line in journal[0].read_bytes().splitlines() if b'"started"' in line)
        first = datetime.fromisoformat(json.loads(record)["at"]).timestamp() - began
        time.sleep(1)  # the pool is filled meanwhile
        peak = peak_kib(runtime.pid)
        # Not in order: to say of ten thousand workers that they wait takes longer than this bench may.
        runtime.kill()
        runtime.wait()
        shims = journal[0].parent / "shims"
        while len(list(shims.glob("*.exit.json"))) < len(list(shims.glob("*.started.json"))):
            time.sleep(0.05)
    return first, peak


def loud() -> None:
    command = ["head", "-c", str(EACH), "/dev/zero"]
    walls: dict[str, list[float]] = {"shells": [], "ours": [], "writing": []}
    peaks = []
    for _ in range(ROUNDS):
        walls["shells"].append(clocked(lambda: shells(command)))
        with repository(tickets(LOUD, *command), PLAIN) as folder:
            peak: list[int] = []
            walls["ours"].append(clocked(lambda: peak.append(watched(folder))))  # noqa: B023 - called at once
            walls["writing"].append(writing(folder))
            sizes = [path.stat().st_size for path in folder.glob(".taskers/runs/*/*.stdout")]
            if sum(sizes) != LOUD * EACH:
                raise SystemExit(f"{sum(sizes):,} bytes were kept of {LOUD * EACH:,}")
            peaks += peak
            shutil.rmtree(folder / ".taskers")  # three gigabytes
    best = {name: LOUD * EACH / min(found) / 1e6 for name, found in walls.items()}
    say(f"{LOUD} x {EACH / 1e6:.0f} MB, shells with their output to files", f"{best['shells']:,.0f} MB/s")
    say("  kept by us, from the first start to the last end", f"{best['writing']:,.0f} MB/s")
    say("  beside the shells", f"{best['writing'] / best['shells']:.2f} x", ">= 0.8 x")
    say("  the whole run, from command to record", f"{best['ours']:,.0f} MB/s")
    say("  beside the shells", f"{best['ours'] / best['shells']:.2f} x")
    say("  the runtime's memory", f"{max(peaks) / 1024:.0f} MiB", "<= 200")


def writing(folder: Path) -> float:
    """Return the seconds in which workers wrote, by their shims' records, without the run's own beginning."""
    records = [json.loads(path.read_bytes()) for path in folder.glob(".taskers/runs/*/shims/*.exit.json")]
    first, last = (
        choose(datetime.fromisoformat(one[name]) for one in records)
        for choose, name in ((min, "started"), (max, "ended"))
    )
    return (last - first).total_seconds()


def shells(command: list[str]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="orchestrate-shells-"))
    line = f"{' '.join(command)} > out."
    started = [subprocess.Popen(["sh", "-c", f"{line}{at}"], cwd=folder) for at in range(LOUD)]
    for one in started:
        one.wait()
    shutil.rmtree(folder)


def watched(folder: Path) -> int:
    """Run a phase and return the runtime's highest memory."""
    runtime = subprocess.Popen(
        [ORCHESTRATE, "run", "phase-1", "--json"], cwd=folder, stdout=subprocess.DEVNULL
    )
    peak = 0
    while runtime.poll() is None:
        peak = max(peak, peak_kib(runtime.pid))
        time.sleep(0.05)
    if runtime.returncode:
        raise SystemExit(f"orchestrate run: exit {runtime.returncode}")
    return peak


def clocked(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
