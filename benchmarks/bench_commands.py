"""Processor time of a lead's commands, beside the interpreter alone; what one state change costs.

User and system time of the command and of all its children: a lead asks on a machine that is full of workers.
Each command is paired with a `python -c pass` right before it, and the median of the ratios counts.
"""

import compileall
import itertools
import os
import statistics
import subprocess
import sys
from pathlib import Path

from lab import ORCHESTRATE, repository, say

ROUNDS = 9
TICKETS = 15
BODY = '---\nphase: phase-2\ntitle: Part {n}\nmode: write\nowns: ["src/part{n}/**"]\n'
ASKS = (("status",), ("ps",), ("logs", "last"), ("wait", "last"))
LEADS = (
    ("todo", "list"), ("todo", "add", "Item %", "--priority", "P2"), ("deliverable", "add", "Part %"),
    ("decide", "Title %", "--context", "c", "--decision", "d"), ("resume",), ("report",),
    ("handoff", "--check"), ("validate",), ("doctor",),
)  # fmt: skip
TARGETS = {**dict.fromkeys(ASKS, "<= 4"), **dict.fromkeys(LEADS, "<= 8")}
COUNTED = """
import sys
count = 0
def hook(name, given):
    global count
    count += name == "subprocess.Popen" and given[1][0].endswith("git")
sys.addaudithook(hook)
from orchestrator.cli.main import main
code = main(["todo", "add", "Counted", "--json"])
print(count, file=sys.stderr)
sys.exit(code)
"""
_NUMBERS = itertools.count()


def spent(command: list[str], folder: Path) -> float:
    """Return the processor seconds of a command and its children."""
    number = str(next(_NUMBERS))
    asked = [word.replace("%", number) for word in command]
    process = subprocess.Popen(asked, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode:
        raise SystemExit(f"{asked}: exit {process.returncode}\n{said.decode()}")
    return used.ru_utime + used.ru_stime


def main() -> None:
    # A checkout that nobody has run yet, or with PYTHONDONTWRITEBYTECODE set, compiles itself at each start.
    for name in ("orchestrator", "workers", "tickets"):
        compileall.compile_dir(Path(__file__).parents[1] / name, quiet=1)
    tickets = {f"command-{n}": BODY.format(n=n) + 'command: ["true"]\n---\nx\n' for n in range(TICKETS)}
    tickets["command-first"] = '---\nphase: phase-1\ntitle: First\ncommand: ["true"]\n---\nx\n'
    with repository(tickets) as folder:
        subprocess.run([ORCHESTRATE, "run", "phase-1"], cwd=folder, check=True, capture_output=True)
        bare = [sys.executable, "-c", "pass"]
        commands = {**TARGETS, ("plan", "phase-2"): "<= 12"}
        pairs = {
            asked: [(spent(bare, folder), spent([ORCHESTRATE, *asked], folder)) for _ in range(ROUNDS)]
            for asked in commands
        }
        middle = statistics.median(before for found in pairs.values() for before, _ in found)
        say("python -c pass", f"{middle * 1000:.1f} ms")
        for asked, target in commands.items():
            ratio = statistics.median(after / before for before, after in pairs[asked])
            say(f"orchestrate {' '.join(asked[:2])}", f"{ratio:.1f} x", target)
        change(folder)


def change(folder: Path) -> None:
    """Show the cost of one change of state beyond its interpreter, beside `git commit --only` of the file."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTED], cwd=folder, check=True, capture_output=True, text=True
    )
    say("git processes of one state change", done.stderr.split()[-1], "<= 4")
    text = (folder / "STATUS.md").read_text()
    ratios = []
    for _ in range(ROUNDS):
        listed = spent([ORCHESTRATE, "todo", "list"], folder)
        added = spent([ORCHESTRATE, "todo", "add", "Change %", "--priority", "P2"], folder)
        (folder / "STATUS.md").write_text(f"{text}\n<!-- {next(_NUMBERS)} -->\n")
        commit = spent(["git", "commit", "-qo", "STATUS.md", "-m", "by hand"], folder)
        ratios.append((added - listed) / commit)
    say("a state change beyond `todo list`", f"{statistics.median(ratios):.1f} x git commit -o", "<= 2.5")


if __name__ == "__main__":
    main()
