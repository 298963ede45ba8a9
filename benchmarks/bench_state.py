"""One edit of a big state file beside the same steps by hand, reading it beside a line scanner, and growth.

The big project has a STATUS.md of 300 KB and 500 decisions. The floors are named: interpreter, fsync, git.
"""

import math
import re
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pyromark
from big_project import FILLING, TICKET, open_items, project, with_history, write_state
from lab import ORCHESTRATE, medians, repository, say, timed
from state_probe import BY_HAND, PROBE, told

from orchestrator.state import document as opening
from orchestrator.state.canonical.decisions import read as decision_reading
from orchestrator.state.canonical.rules import rules
from orchestrator.state.canonical.status import read as status_reading
from tickets.markdown import parse

ROUNDS = 7
_LINE = re.compile(
    rb"[ \t]*(?:(?P<fence>`{3,}|~{3,})|#{1,6}[ \t]+(?P<heading>.*)|[-*+][ \t]+\[[ xX]\][ \t]+(?P<box>.*)"
    rb"|[-*+][ \t]+(?P<item>.*)|\*\*[^*\r\n]+:\*\*[ \t]*(?P<field>.*))"
)
SIZES = (10, 100, 1_000, 10_000)
DECIDE = ["decide", "Keep it", "--context", "It grew", "--decision", "Measure it", "--json"]
LOOKING = (
    ["status", "--json"],
    ["resume", "--json"],
    ["resume"],
    ["validate"],
    ["report"],
    ["handoff", "--check"],
)


def main() -> None:
    with project(FILLING, 500) as folder:
        update(folder)
        reading(folder)
        looking(folder)
    growth()
    history()


def update(folder: Path) -> None:
    """Show one `todo done` whole and in parts, beside its unavoidable steps."""
    path, python = folder / "STATUS.md", sys.executable
    items = iter(open_items(path.read_text()))
    walls: dict[str, list[float]] = {"ours": [], "pass": [], "git": []}
    busy: dict[str, list[float]] = {"ours": [], "pass": [], "git": []}
    probed, by_hand = [], []

    def take(name: str, command: list[str]) -> None:
        for found, seconds in zip((walls, busy), timed(command, folder), strict=True):
            found[name].append(seconds)

    for _ in range(ROUNDS):
        take("ours", [ORCHESTRATE, "todo", "done", next(items), "--json"])
        probed.append(told(PROBE, folder, "todo", "done", next(items), "--json", python=python))
        by_hand.append(told(BY_HAND, folder, "STATUS.md", next(items), python=python))
        take("pass", [python, "-c", "pass"])
        words = next(items)
        path.write_text(path.read_text().replace(f"- [ ] {words}", f"- [x] {words}"))
        take("git", ["git", "commit", "-qo", "STATUS.md", "-m", "bare"])
    walls["hand"] = [one["wall"] for one in by_hand]
    whole = {name: statistics.median(found) for name, found in walls.items()}
    say(f"STATUS.md of {path.stat().st_size / 1e3:.0f} KB: `todo done`, start to end", ms(whole["ours"]))
    say("  the same steps by hand, in Python, with `git commit -o`", ms(whole["hand"]))
    say("  bare `git commit -o` of the same file", ms(whole["git"]))
    say("  python -c pass", ms(whole["pass"]))
    say("  beside by hand", f"{whole['ours'] / whole['hand']:.1f} x")
    least = {name: min(found) for name, found in busy.items()}
    say("  processor time: ours, git, pass", ", ".join(ms(least[name]) for name in ("ours", "git", "pass")))
    parts({name: statistics.median(one[name] for one in probed) for name in probed[0]},
          {name: statistics.median(one[name] for one in by_hand) for name in by_hand[0]})  # fmt: skip


def parts(ours: dict[str, float], hand: dict[str, float]) -> None:
    """Show the time of each part of one update."""
    say("its parts: the interpreter, until our first line", ms(ours["start"]))
    say("  imports", ms(ours["imports"]))
    say("  options, finding the item", f"{ms(ours['finding'])}, {ours['read parses']:.0f} parses")
    say("  the new texts", f"{ms(ours['compute'])}, {ours['parses']:.0f} parses")
    say("  lock, reading, temporaries, intent, renames", ms(ours["files"]))
    say("  fsync", f"{ms(ours['fsync'])}, {ours['fsyncs']:.0f} of them")
    say("  commit", f"{ms(ours['commit'])}, {ours['git']:.0f} git in all")
    say("  until the process is gone", ms(ours["end"]))
    work = ours["files"] + ours["fsync"]
    say(
        "work on files, beside by hand",
        f"{ms(work)} / {ms(hand['work'])} = {work / hand['work']:.1f} x",
        "<= 1.1",
    )
    say("  with the new texts", f"{(work + ours['compute']) / hand['work']:.1f} x")
    say("commit, beside `git commit -o`", f"{ours['commit'] / hand['commit']:.1f} x", "<= 1.1")


def reading(folder: Path) -> None:
    """Show the time to read all state, beside a line scanner that respects fences."""
    texts = [(folder / name).read_bytes() for name in ("STATUS.md", "DECISIONS.md", "AGENTS.md")]
    for name, data in zip(("STATUS.md", "DECISIONS.md"), texts, strict=False):
        scan, least = best(lambda data=data: scanned(data)), best(lambda data=data: alone(data))
        ours = best(lambda data=data: parse(data, "x.md"))
        say(f"parse {name} of {len(data) / 1e3:.0f} KB, beside a line scanner",
            f"{ms(ours)} / {ms(scan)} = {ours / scan:.1f} x", "<= 4")  # fmt: skip
        say("  pyromark alone", f"{ms(least)} = {least / scan:.1f} x")
    scan, ours = best(lambda: [scanned(data) for data in texts]), best(lambda: read_all(*texts))
    say("status, decisions and rules as values", f"{ms(ours)} / {ms(scan)} = {ours / scan:.1f} x")


def read_all(status: bytes, log: bytes, law: bytes) -> None:
    """Read the whole state as `resume` does, without anything cached."""
    getattr(opening.opened, "cache_clear", lambda: None)()
    status_reading.read(status)
    decision_reading.spans(log)
    rules.read_pool(law)


def scanned(data: bytes) -> list[tuple[str, int, str]]:
    """Return headings, checkboxes and fields outside of fences with their places: a reader's minimum."""
    found = []
    at, fence = 0, b""
    for line in data.splitlines(keepends=True):
        match = _LINE.match(line)
        if match:
            kind = match.lastgroup or ""
            if fence or kind == "fence":
                mark = match["fence"] or b""
                fence = mark if not fence else b"" if mark.startswith(fence) else fence
            else:
                found.append((kind, at + match.start(kind), match[kind].decode().strip()))
        at += len(line)
    return found


def alone(data: bytes) -> None:
    """Run the Markdown parser alone, without use of its events."""
    for _ in pyromark.events_with_range(data.decode()):
        pass


def looking(folder: Path) -> None:
    """Show the commands that read the big project."""
    found = medians({" ".join(words): [ORCHESTRATE, *words] for words in LOOKING}, folder, rounds=3)
    for name, wall in found.items():
        say(f"{name}, the big project", ms(wall), "< 1 s" if name.startswith("resume") else "")


def growth() -> None:
    """Show processor time from 10 to 10,000 TODO items and as many decisions; at most linear."""
    names = ("todo done", "decide", "status --json", "resume --json")
    costs: dict[str, list[float]] = {name: [] for name in names}
    with repository(TICKET) as folder:
        for size in SIZES:
            write_state(folder, size, size)
            items = iter(open_items((folder / "STATUS.md").read_text()))
            for name in names:
                runs = []
                for _ in range(3 if size < SIZES[-1] else 1):
                    words = DECIDE if name == "decide" else name.split()
                    words = [*words, next(items), "--json"] if name == "todo done" else words
                    runs.append(timed([ORCHESTRATE, *words], folder)[1])
                costs[name].append(min(runs))
    for name, found in costs.items():
        say(f"{name}, processor, {' / '.join(f'{size:,}' for size in SIZES)}", " ".join(map(ms, found)))
        say("  by decade", ", ".join(f"{new / old:.1f} x" for old, new in pairwise(found)))
        # What 10 entries cost is the floor: what comes on top of it grows with the entries.
        top = [cost - found[0] for cost in found[1:]]
        power = math.log10(top[-1] / max(top[-2], 1e-4))
        each = top[-1] / (SIZES[-1] - SIZES[0])
        say(
            "  beyond the floor: an entry, the power of the last decade",
            f"{each * 1e6:.0f} us, n^{power:.2f}",
            "<= 1",
        )


def history() -> None:
    """Show `validate` where each decision was a commit of its own: it searches for edits of old entries."""
    for count in (50, 100, 200):
        with project(10, 10) as folder:
            with_history(folder, count)
            say(
                f"validate, {count} decisions in {count} commits",
                ms(timed([ORCHESTRATE, "validate"], folder)[0]),
            )


def best(call: Callable[[], object]) -> float:
    """Return the least processor seconds of a few calls."""
    found = []
    for _ in range(5):
        begin = time.process_time()
        call()
        found.append(time.process_time() - begin)
    return min(found)


def ms(seconds: float) -> str:
    """Format seconds."""
    return f"{seconds * 1000:,.1f} ms" if seconds < 0.1 else f"{seconds * 1000:,.0f} ms"


if __name__ == "__main__":
    main()
