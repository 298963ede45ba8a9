"""Many workers that do nothing, and few that print much: our cost beside plain tools on the same work."""

import shutil
import subprocess
import time

from lab import ORCHESTRATE, peak_kib, repository, say, timed

COUNT = 200
TICKET = '---\nphase: phase-1\ntitle: Nothing\nmatrix: {{number: [{numbers}]}}\ncommand: ["true"]\n---\nx\n'
LOUD = (
    "---\nphase: phase-1\ntitle: Loud\nmatrix: {{number: [{numbers}]}}\n"
    'command: ["head", "-c", "100000000", "/dev/zero"]\n---\nx\n'
)


def main() -> None:
    nothing()
    loud()


def nothing() -> None:
    numbers = ", ".join(str(n) for n in range(COUNT))
    feed = "\n".join(str(n) for n in range(COUNT)).encode()
    rivals: dict[str, float] = {}
    with repository({"command-n": TICKET.format(numbers=numbers)}) as folder:
        rivals["xargs -P15"] = min(timed(["xargs", "-P15", "-n1", "true"], folder, feed)[0] for _ in range(3))
        if shutil.which("parallel"):
            command = ["parallel", "--will-cite", "-j15", "--results", str(folder / "results"), "true"]
            rivals["parallel --results"] = min(timed(command, folder, feed)[0] for _ in range(3))
        else:
            say("parallel --results", "not installed")
        walls = [timed([ORCHESTRATE, "run", "phase-1", "--json"], folder) for _ in range(2)]
    wall, cpu = min(walls)
    for name, seconds in rivals.items():
        say(f"{COUNT} x true, {name}", f"{seconds / COUNT * 1000:.2f} ms each")
    say(f"{COUNT} x true, orchestrate run, everything included", f"{wall / COUNT * 1000:.2f} ms each")
    say("  of that processor time", f"{cpu / COUNT * 1000:.2f} ms each")
    for name, seconds in rivals.items():
        say(f"  beside {name}", f"{wall / seconds:.1f} x")


def loud() -> None:
    numbers = ", ".join(str(n) for n in range(15))
    settings = '[limits]\noutput_cap = "200 MB"\n'
    with repository({"command-n": LOUD.format(numbers=numbers)}, settings) as folder:
        start = time.perf_counter()
        runtime = subprocess.Popen(
            [ORCHESTRATE, "run", "phase-1", "--json"], cwd=folder, stdout=subprocess.PIPE
        )
        peak = 0
        while runtime.poll() is None:
            peak = max(peak, peak_kib(runtime.pid))
            time.sleep(0.05)
        wall = time.perf_counter() - start
        if runtime.communicate()[0] is None or runtime.returncode:
            raise SystemExit(f"orchestrate run: exit {runtime.returncode}")
        size = sum(path.stat().st_size for path in folder.glob(".taskers/runs/*/*.stdout"))
    say("15 workers printing 100 MB each: kept", f"{size / 1e6:,.0f} MB in {wall:.1f} s")
    say("  the runtime's own memory, peak", f"{peak / 1024:.0f} MiB", "<= 64 MiB")


if __name__ == "__main__":
    main()
