"""The cost of a shim beside a bare `Popen`, and the time until a cancelled run has exited."""

import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

import anyio
from lab import ORCHESTRATE, repository, say

from workers.engine.process import ForkServer, open_fork_server, stop
from workers.shim.spec import Launch, Limits

COUNT = 15
GRACE = 2.0
STARTS = 100
LASTS = ("sleep", "600")
STUBBORN = "trap '' TERM; setsid sleep 600 & (setsid sleep 600 &) ; exec sleep 600"
"""A worker with two grandchildren in sessions of their own; all three ignore TERM."""
TICKET = "---\nphase: phase-1\ntitle: Stubborn\nmatrix: {{number: [{numbers}]}}\ncommand: {command}\n---\nx\n"


def main() -> None:
    anyio.run(shims)
    cancel()


async def shims() -> None:
    folder = Path(tempfile.mkdtemp(prefix="orchestrate-bench-"))
    try:
        async with open_fork_server(folder / "log") as fork_server:
            await starts(folder, fork_server)
            await memory(folder, fork_server)
    finally:
        shutil.rmtree(folder)


async def starts(folder: Path, fork_server: ForkServer) -> None:
    """Start one after another, in turn with the rival: from the call until the end of `true` is known."""
    ours, bare = [], []
    for number in range(STARTS):
        began = time.perf_counter()
        ended = await fork_server.run(_launch(folder, f"true-{number}", "true"))
        ours.append(time.perf_counter() - began)
        if ended.end != "exited":
            raise SystemExit(f"true: {ended}")
        began = time.perf_counter()
        with (folder / f"{number}.out").open("wb") as out, (folder / f"{number}.err").open("wb") as err:
            await anyio.to_thread.run_sync(partial(_bare, out.fileno(), err.fileno()))
        bare.append(time.perf_counter() - began)
    say("`true` below a shim, start to known end, median", f"{statistics.median(ours) * 1000:.2f} ms")
    say("  by subprocess.Popen, both streams into files", f"{statistics.median(bare) * 1000:.2f} ms")


async def memory(folder: Path, fork_server: ForkServer) -> None:
    """Proportional set size while fifteen wait: shared memory is counted once in all."""
    launches = [_launch(folder, f"sleep-{number}", *LASTS) for number in range(COUNT)]
    async with anyio.create_task_group() as group:
        for launch in launches:
            group.start_soon(fork_server.run, launch)
        with anyio.fail_after(20):
            # No event: a shim tells of its start by a file.
            while not all(_has_begun(launch) for launch in launches):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        records = [json.loads(launch.started_record.read_bytes()) for launch in launches]
        shims = sum(_kib(record["shim_pid"], "Pss") for record in records) / COUNT
        resident = sum(_kib(record["shim_pid"], "Rss") for record in records) / COUNT
        workers = sum(_kib(record["pid"], "Pss") for record in records) / COUNT
        warm = _kib(fork_server.pid or 0, "Pss")
        for launch in launches:
            group.start_soon(stop, launch)
    say(f"memory for each of {COUNT} shims (PSS; RSS)", f"{shims / 1024:.2f}; {resident / 1024:.1f} MiB")
    say("  the warm process that they come from (PSS)", f"{warm / 1024:.2f} MiB")
    say("  by subprocess.Popen: nothing but the worker, `sleep`", f"{workers / 1024:.2f} MiB")


def cancel() -> None:
    command = json.dumps(["sh", "-c", STUBBORN])
    numbers = ", ".join(str(number) for number in range(COUNT))
    ticket = TICKET.format(numbers=numbers, command=command)
    with repository({"command-n": ticket}, f'[limits]\ngrace = "{GRACE}s"\n') as folder:
        deploy = [ORCHESTRATE, "deploy", "phase-1", "--detach", "--json"]
        run = json.loads(subprocess.run(deploy, cwd=folder, check=True, capture_output=True).stdout)["run"]
        until = time.monotonic() + 60
        while len(_living(run)) < 3 * COUNT:
            if time.monotonic() > until:
                raise SystemExit(f"only {len(_living(run))} processes after a minute")
            time.sleep(0.02)
        began = time.perf_counter()
        command_line = [ORCHESTRATE, "cancel", run, "--json"]
        asked = subprocess.Popen(command_line, cwd=folder, stdout=subprocess.PIPE)
        while _living(run):
            if time.perf_counter() > began + 60:
                raise SystemExit(f"still alive: {_living(run)}")
            time.sleep(0.02)
        dead = time.perf_counter() - began
        out = asked.communicate()[0]
        if asked.returncode:
            raise SystemExit(f"orchestrate cancel: exit {asked.returncode}\n{out.decode()}")
        answered = time.perf_counter() - began
    what = f"cancel to all dead, {COUNT} workers, {2 * COUNT} deaf grandchildren"
    say(what, f"{dead:.2f} s", f"<= {GRACE + 1:g} s (grace + 1 s)")
    say("  until `orchestrate cancel` answers", f"{answered:.2f} s")


def _launch(folder: Path, name: str, *argv: str) -> Launch:
    return Launch(
        worker=name,
        argv=argv,
        env={"PATH": os.environ["PATH"]},
        cwd=folder,
        stdin=Path(os.devnull),
        stdout=folder / f"{name}.stdout",
        stderr=folder / f"{name}.stderr",
        started_record=folder / f"{name}.started.json",
        exit_record=folder / f"{name}.exit.json",
        cancel_paths=(folder / f"{name}.cancel",),
        limits=Limits(idle=900),
    )


def _has_begun(launch: Launch) -> bool:
    return launch.started_record.exists() and launch.started_record.stat().st_size > 0


def _bare(out: int, err: int) -> None:
    subprocess.run(["true"], stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=True)


def _kib(pid: int, what: str) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))


def _living(run: str) -> list[int]:
    """List the processes that carry a run's name and do more than wait to be reaped."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if f"ORCHESTRATE_RUN={run}".encode() in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
        except OSError:
            continue
    return found


if __name__ == "__main__":
    main()
