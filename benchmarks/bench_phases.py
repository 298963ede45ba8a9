"""A plan that is complete beside its two files changed by hand, STATE.md with many phases, `phase show`."""

import gc
import re
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from lab import ORCHESTRATE, medians, repository, say

from orchestrator.state.events import NewPlan, PhaseTaken, PlanAdded, PlanMoved, RosterEntry, RunDeployed
from orchestrator.state.phases import project_state
from orchestrator.state.transition import transition
from orchestrator.store.store import Store
from workers.git.run import find_repository

ROUNDS = 40
SIZES = (10, 100, 1_000)
AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
RUN = "20260216_142834"
STATUS, STATE = "phases/phase-1/STATUS.md", "STATE.md"
FAMILIES = ("phases",)
SETTINGS = 'families = ["phases"]\n'


def main() -> None:
    complete_beside_by_hand()
    growth()
    with repository({}, SETTINGS) as folder:
        add_plans(folder, 6)
        took = medians(
            {"show": [ORCHESTRATE, "phase", "show", "--json"], "pass": [sys.executable, "-c", "pass"]},
            folder,
            15,
        )
        ratio = took["show"] / took["pass"]
        say("`phase show --json` beside `python -c pass`", f"{ratio:.1f} x", "8 x")


def complete_beside_by_hand() -> None:
    """Record plans as complete, and write the same bytes into the same two files by a function of our own."""
    with repository({}, SETTINGS) as folder:
        store = add_plans(folder, 6)
        ours, by_hand = [], []
        for number in range(ROUNDS):
            plan = f"01-0{1 + number % 6}"
            start = moved(plan, "in progress", 2 * number)
            store.record([start], families=FAMILIES, message="", commit=False, is_run=True)
            before = {path: (folder / path).read_bytes() for path in (STATUS, STATE)}
            event = moved(plan, "complete", 2 * number + 1)
            ours.append(timed(lambda one=event: record(store, one)))
            after = {path: (folder / path).read_bytes() for path in before}
            store.change(lambda _, texts=before: texts, paths=tuple(before), message="", commit=False)
            by_hand.append(timed(lambda texts=after: write(store, texts)))
            # The table has six plans: each is failed, to be started once more.
            reset(store, folder, plan)
        whole, hand = statistics.median(ours), statistics.median(by_hand)
        say("a plan is complete: two files, no commit", f"{whole * 1e3:.1f} ms")
        say("  the same two files through the store, by hand", f"{hand * 1e3:.1f} ms")
        say("  beside by hand", f"{whole / hand:.2f} x", "1.3 x")


def record(store: Store, event: PlanMoved) -> None:
    store.record([event], families=FAMILIES, message="", commit=False, is_run=True)


def write(store: Store, texts: dict[str, bytes]) -> None:
    store.change(lambda _: texts, paths=tuple(texts), message="", commit=False)


def reset(store: Store, folder: Path, plan: str) -> None:
    text = (folder / STATUS).read_bytes()
    again = re.sub(rb"(\| " + plan.encode() + rb" \| [^|]* \| )complete", rb"\1failed", text)
    log = re.sub(rb"(?s)(## Log\n\n).*?(\n---)", rb"\1None.\n\2", again)
    store.change(lambda _: {STATUS: log}, paths=(STATUS,), message="", commit=False)


def growth() -> None:
    """Show how the time of a move grows with the phases of the project."""
    took = {size: moving(size) for size in SIZES}
    for size, seconds in took.items():
        say(f"STATE.md with {size:,} phases: a plan moves", f"{seconds * 1e3:.2f} ms")
    for (few, before), (many, after) in pairwise(took.items()):
        say(f"  {few:,} to {many:,} phases", f"{after / before:.1f} x", f"{many // few} x")


def moving(phases: int) -> float:
    """Return the processor seconds of one move in STATE.md."""
    headings = "".join(
        f"### Phase {number}: Part {number}\n\n**Status:** PLANNED\n\n" for number in range(1, phases + 1)
    )
    status = (
        "# Project Status\n\n**Last Updated:** 2026-02-16 14:00\n**Lead Agent:** Ada\n"
        "**Phase:** Phase 1 - Part 1\n**Milestone:** Usable (0% complete)\n\n---\n\n"
        f"## Phase Plan\n\n{headings}---\n\n## Worker Roster\n\n"
        "**Active Workers:**\n\n**Recent Completions:**\n"
    ).encode()
    tree: dict[str, bytes | None] = {
        "STATUS.md": status,
        "DECISIONS.md": b"# Log\n",
        "AGENTS.md": b"# Rules\n",
    }
    plans = [PlanAdded("phase-1", NewPlan(f"01-0{number}", "Part"), AT, "Ada") for number in range(1, 4)]
    events = [*plans, PhaseTaken(RUN, "phase-1", "Claude-Worker-1", "a" * 40, AT, "Ada")]
    tree |= transition(tree, events, FAMILIES).texts
    spent = []
    for number in range(7):
        to = "in progress" if number % 2 == 0 else "failed"
        event = moved("01-01", to, number)
        after = {**tree, **transition(tree, [event], FAMILIES).texts}
        copied = {**after, STATE: tree[STATE]}
        # A collection of garbage costs by all that the process holds, which here is mostly the bench's own.
        gc.collect()
        gc.disable()
        begin = time.process_time()
        project_state.changes(copied, event)
        spent.append(time.process_time() - begin)
        gc.enable()
        tree = after
    return statistics.median(spent)


def moved(plan: str, to: str, number: int) -> PlanMoved:
    by = f"{RUN}.Claude-Worker-1:{number + 1}"
    return PlanMoved(
        "phase-1", plan, to, by, AT, "as planned", "b" * 40 if to == "complete" else None, verified=True
    )


def add_plans(folder: Path, count: int) -> Store:
    """Let a phase have plans and a worker; return the store of the project."""
    found = find_repository(folder)
    assert found is not None
    store = Store(found)
    events = [PlanAdded("phase-1", NewPlan(f"01-0{n}", f"Part {n}"), AT, "Ada") for n in range(1, count + 1)]
    deployed = RunDeployed(RUN, "phase-1", AT, "Ada", (RosterEntry("Claude-Worker-1", "Lead", ()),))
    taken = PhaseTaken(RUN, "phase-1", "Claude-Worker-1", "a" * 40, AT, "Ada")
    store.record([*events, deployed, taken], families=FAMILIES, message="", commit=False, is_run=True)
    return store


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
