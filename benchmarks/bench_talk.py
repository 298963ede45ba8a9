"""A run whose workers talk: how soon the lead sees a blocker; and what a quiet run costs its runtime."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from lab import ORCHESTRATE, repository, say

SETTINGS = 'fence = "off"\nfamilies = ["phases"]\n'
TALKERS, BLOCKERS = 14, 40
QUIET = 20.0
"""Seconds over which a quiet runtime is watched."""
TALKS = """
import os, random, sys, time
sys.path[:0] = {path!r}
from workers.messages.own_log import OwnLog
run, name = os.environ["ORCHESTRATE_RUN"], os.environ["ORCHESTRATE_WORKER"]
me = f"{{run}}.{{name}}"
log = OwnLog(f"{{os.environ['ORCHESTRATE_PROJECT']}}/.taskers/messages/{{me}}.jsonl", me)
"""
CHATS = (
    TALKS
    + """
while not os.path.exists({end!r}):
    log.append("chat", f"{{run}}.Command-Worker-{{random.randint(1, 15)}}", "what I have found")
    time.sleep(0.5)
"""
)
BLOCKS = (
    TALKS
    + """
time.sleep(5)
for number in range({count}):
    with open({told!r}, "a") as file:
        file.write(f"{{time.time()}} stuck-{{number:02}}-here\\n")
    facts = {{"title": f"stuck-{{number:02}}-here"}}
    log.append("blocker", f"{{run}}.coordinator", "no way", phase="phase-1", facts=facts)
    time.sleep(1.1)
time.sleep(2)
open({end!r}, "w").close()
"""
)
FRONT = """---
agent: command
phase: phase-1
title: Talk
mode: write
timeout: 10m
owns: ["{owns}/**"]
command: ["{python}", "-c", {script}]
{more}---
# {{{{ worker }}}}
"""


def main() -> None:
    blockers()
    quiet()


def template(owns: str, script: str, more: str = "") -> str:
    return FRONT.format(owns=owns, python=sys.executable, script=json.dumps(script), more=more)


def blockers() -> None:
    """Measure from a worker's blocker to its line in STATE.md, in `watch`, and to the return of `wait`."""
    path = [str(Path(__file__).resolve().parents[1])]
    with repository({}, SETTINGS) as folder:
        told, end = str(folder / ".taskers" / "told"), str(folder / ".taskers" / "end")
        known = {"path": path, "told": told, "end": end, "count": BLOCKERS}
        texts = {"command-1": template("src", BLOCKS.format(**known), "phase_worker: true\n")}
        texts |= {
            f"command-{at}": template(f"out{at}", CHATS.format(**known)) for at in range(2, TALKERS + 2)
        }
        for stem, text in texts.items():
            (folder / "docs/worker-ticket-templates" / f"{stem}.md").write_text(text)
        call(folder, "init", "--with", "phases")
        call(folder, "phase", "plan", "Part")
        subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
        subprocess.run(["git", "commit", "-qm", "talk"], cwd=folder, check=True)
        run = call(folder, "deploy", "phase-1", "--detach")["run"]
        seen: dict[str, dict[str, float]] = {"STATE.md": {}, "watch": {}, "wait": {}}
        over = threading.Event()
        looks = [
            threading.Thread(target=look_at_state, args=(folder, seen["STATE.md"], over)),
            threading.Thread(target=look_at_watch, args=(folder, run, seen["watch"])),
            threading.Thread(target=look_at_wait, args=(folder, run, seen["wait"], Path(end))),
        ]
        for one in looks:
            one.start()
        while call(folder, "wait", str(run))["status"] == "running":  # each message for the lead ends it
            time.sleep(0.5)
        over.set()
        for one in looks:
            one.join()
        began = {
            title: float(at) for at, title in (line.split() for line in Path(told).read_text().splitlines())
        }
        for name, found in seen.items():
            delays = sorted(1e3 * (found[title] - began[title]) for title in found)
            said = (
                f"{len(delays)}: {delays[len(delays) // 2]:.0f} / {delays[-1]:.0f} ms" if delays else "none"
            )
            say(f"a blocker, 15 workers sending, to {name}: median / worst", said, "1,000 ms")


def call(folder: Path, *words: str) -> dict[str, object]:
    done = subprocess.run([ORCHESTRATE, *words, "--json"], cwd=folder, capture_output=True, check=False)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def look_at_state(folder: Path, seen: dict[str, float], over: threading.Event) -> None:
    while not over.is_set():
        try:
            text = (folder / "STATE.md").read_text()
        except FileNotFoundError:
            text = ""
        note(text, seen)
        time.sleep(0.005)


def look_at_watch(folder: Path, run: object, seen: dict[str, float]) -> None:
    watching = subprocess.Popen(
        [ORCHESTRATE, "watch", str(run), "--json"], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert watching.stdout is not None
    for line in watching.stdout:
        note(line, seen)
    watching.communicate()


def look_at_wait(folder: Path, run: object, seen: dict[str, float], end: Path) -> None:
    """Wait, note when that returned, and show what is new; the first of that has woken it."""
    cursor = "0"
    while not end.exists():
        told = call(folder, "wait", str(run), "--since", cursor, "--timeout", "5")
        at, cursor = time.time(), str(told["cursor"])
        new = json.dumps(call(folder, "msg", "inbox"))
        found: dict[str, float] = {}
        note(new, found)
        first = min(found.keys() - seen.keys(), default=None)
        if first is not None:
            seen[first] = at


def note(text: str, seen: dict[str, float]) -> None:
    """Note each title that is seen for the first time."""
    for part in text.split("stuck-")[1:]:
        seen.setdefault(f"stuck-{part[:2]}-here", time.time())


def quiet() -> None:
    """Measure the processor time of a runtime whose 15 workers do nothing."""
    sleeper = "import time\ntime.sleep(40)\n"
    with repository(
        {f"command-{at}": template(f"out{at}", sleeper) for at in range(1, 16)}, SETTINGS
    ) as folder:
        run = call(folder, "deploy", "phase-1", "--detach")["run"]
        time.sleep(5.0)  # all have started
        pid = (folder / ".taskers/runs" / str(run) / "run.lock").read_text().strip()
        before, began = spent(pid), time.monotonic()
        time.sleep(QUIET)
        share = (spent(pid) - before) / (time.monotonic() - began)
        say("a runtime of 15 quiet workers, of a core", f"{share:.2%}", "1%")
        call(folder, "cancel", str(run))


def spent(pid: str) -> float:
    """Return the processor seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
