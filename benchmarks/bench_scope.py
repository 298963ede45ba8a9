"""Time the overlap proof: 100 to 10,000 tickets of 5 patterns, a fifth of them globs.

Run `python benchmarks/bench_scope.py`. In the same run: every pair tried on its own, exactly and with
fnmatch of pattern on pattern (a sample of the pairs), and the usual way out, each pattern matched over
100,000 files that exist, which misses files not yet made. Times are of the processor.
"""

import fnmatch
import itertools
import random
import subprocess
import time
from collections import defaultdict

from tickets.plan import make_plan
from tickets.scopes.ownership import ownership
from tickets.scopes.rules import PathRules, reserved_paths
from tickets.scopes.scope import Scope, collector_at_rest, find_overlaps
from tickets.ticket import Ticket

FILES = 100_000
PAIRS = 20_000
SUFFIXES = ("py", "ts", "md", "toml", "css", "sql", "json", "rs")
GLOBS = (
    "{directory}/**/*.{suffix}",
    "{directory}/{name}_*.{suffix}",
    "{directory}/*/{name}*.{suffix}",
    "{top}/*/{name}{number}*.{suffix}",
    "{directory}/{{{name},{name}_test}}_[0-4]*.{suffix}",
    "{directory}/**/{name}{number}_*.{suffix}",
    "{directory}/{name}{number}/**",
)

DISJOINT = (
    "area{n}/src/model.py", "area{n}/tests", "docs/area{n}.md", "area{n}/**/*.sql", "tools/area{n}_x.py",
)  # fmt: skip


def main():
    print("scopes that share nothing (near linear is the target):")
    before = None
    for count in (100, 1_000, 10_000):
        before = grow(count, before)
    print("scopes as they come, some overlapping:")
    for count in (100, 1_000, 10_000):
        tickets = make_tickets(count)
        with collector_at_rest():
            read, scopes = timed(lambda tickets=tickets: read_scopes(tickets))
        seconds, overlaps = timed(lambda scopes=scopes: find_overlaps(scopes))
        print(f"{count:6} tickets: read {read:.3f} s, find {seconds:.3f} s, {len(overlaps)} overlaps")
        pairs = {(overlap.first, overlap.second) for overlap in overlaps}
        if count == 1_000:
            beside_pairs(tickets, scopes, seconds, pairs)
        elif count == 10_000:
            beside_expansion(tickets, read, seconds, pairs)
            plan_all(tickets, scopes)
    admit(scopes)


def grow(count, before):
    read = find = float("inf")
    for again in range(4):
        # Other names each time, or the pattern cache would answer.
        numbers = range(again * count, (again + 1) * count)
        tickets = {f"codex-{n}": [text.format(n=n) for text in DISJOINT] for n in numbers}
        with collector_at_rest():
            seconds, scopes = timed(lambda tickets=tickets: read_scopes(tickets), repeat=1)
        read = min(read, seconds)
        seconds, overlaps = timed(lambda scopes=scopes: find_overlaps(scopes), repeat=1)
        find = min(find, seconds)
    times = f", {(read + find) / before:.1f} times that of a tenth" if before else ""
    print(f"{count:6} tickets: read {read:.4f} s, find {find:.4f} s, {len(overlaps)} overlaps{times}")
    return read + find


def beside_pairs(tickets, scopes, seconds, pairs):
    exact, same = timed(lambda: try_all_pairs(scopes), repeat=1)
    print(
        f"       every pair exactly, on its own: {exact:.2f} s, {exact / seconds:.0f} times; "
        f"same: {same == pairs}"
    )
    every = list(itertools.combinations(tickets, 2))
    sample = random.Random(2).sample(every, PAIRS)
    slow, _ = timed(lambda: [pair for pair in sample if match_patterns(tickets, *pair)], repeat=1)
    whole = slow * len(every) / PAIRS
    missed = sum(not match_patterns(tickets, *pair) for pair in pairs) / len(pairs)
    print(
        f"       fnmatch of pattern on pattern ({PAIRS} of {len(every)} pairs tried): {whole:.1f} s for all, "
        f"{whole / seconds:.0f} times; it misses {missed:.0%}"
    )


def beside_expansion(tickets, read, seconds, pairs):
    files = make_files(tickets)
    slow, found = timed(lambda: expand(tickets, files))
    missed = len(pairs - found) / len(pairs)
    print(
        f"       expansion over {len(files)} files: {slow:.2f} s; ours {seconds / slow:.2f} of it, "
        f"with reading {(read + seconds) / slow:.2f}; it misses {missed:.0%}"
    )


def plan_all(tickets, scopes):
    made = [
        Ticket(id=name, template=f"{name}.md", worker=name, agent="codex", phase="p", title="t", body="b",
               mode="write", owns=tuple(owns))
        for name, owns in tickets.items()
    ]  # fmt: skip
    seconds, _ = timed(lambda: make_plan(made, PathRules(reserved_paths(()))), repeat=1)
    print(f"       all of `make_plan`, state files taken out of each scope: {seconds:.2f} s")
    files = make_files(tickets)[:20_000]
    seconds, _ = timed(lambda: ownership(files, scopes, Scope.of(reserved_paths(()))))
    print(f"       the map of who owns which of {len(files)} files: {seconds:.2f} s")


def admit(scopes):
    """Compare one ticket with fifteen that run, beside the start of the smallest process."""
    running, others = dict(list(scopes.items())[:15]), list(scopes.values())[100:200]
    seconds, _ = timed(lambda: [find_overlaps({**running, "new": one}) for one in others])
    start = time.perf_counter()
    for _ in range(50):
        subprocess.run(["/bin/true"], check=True)
    spawn = (time.perf_counter() - start) / 50
    each = seconds / len(others)
    print(f"one against 15 running: {each * 1000:.2f} ms; a spawn of /bin/true: {spawn * 1000:.2f} ms")


def read_scopes(tickets):
    return {name: Scope.of(patterns) for name, patterns in tickets.items()}


def match_patterns(tickets, first, second):
    """Test of each two patterns whether one matches the other, as many tools do."""
    return any(
        fnmatch.fnmatchcase(one, two) or fnmatch.fnmatchcase(two, one)
        for one in tickets[first]
        for two in tickets[second]
    )


def timed(call, repeat=3):
    best, value = float("inf"), None
    for _ in range(repeat):
        start = time.process_time()
        value = call()
        best = min(best, time.process_time() - start)
        if best > 2:
            break
    return best, value


def make_tickets(count):
    chance = random.Random(count)
    tickets = {}
    for number in range(count):
        patterns = []
        for _ in range(5):
            place = make_place(chance, count)
            if chance.random() < 0.2:
                patterns.append(chance.choice(GLOBS).format(**place))
            elif chance.random() < 0.2:
                patterns.append("{directory}/{name}{number}".format(**place))
            else:
                patterns.append("{directory}/{name}{number}.{suffix}".format(**place))
        tickets[f"codex-{number}"] = patterns
    return tickets


def make_place(chance, count):
    top = f"area{chance.randrange(max(4, count // 100))}"
    return {
        "top": top,
        "directory": f"{top}/part{chance.randrange(20)}/unit{chance.randrange(20)}",
        "name": chance.choice(("lexer", "parser", "model", "view", "route", "store", "query", "index")),
        "number": chance.randrange(100),
        "suffix": chance.choice(SUFFIXES),
    }


def make_files(tickets):
    """Return files as they are before the work: half of those that tickets name exist already."""
    chance, count = random.Random(1), len(tickets)
    named = [
        text
        for patterns in tickets.values()
        for text in patterns
        if "." in text and not set(text) & set("*{")
    ]
    files = set(chance.sample(named, len(named) // 2))
    while len(files) < FILES:
        files.add("{directory}/{name}{number}.{suffix}".format(**make_place(chance, count)))
    return sorted(files)


def try_all_pairs(scopes):
    return {
        (first, second)
        for (first, one), (second, two) in itertools.combinations(scopes.items(), 2)
        if one.overlaps(two) is not None
    }


def expand(tickets, files):
    """Match each glob over the files of the directory it starts in, and find files with two owners."""
    order = {name: number for number, name in enumerate(tickets)}
    below = defaultdict(list)
    for file in files:
        parts = file.split("/")
        for depth in range(len(parts) + 1):
            below["/".join(parts[:depth])].append(file)
    owners = defaultdict(set)
    for name, patterns in tickets.items():
        for pattern in patterns:
            if any(char in pattern for char in "*?[{"):
                literal = list(
                    itertools.takewhile(lambda part: not any(c in part for c in "*?[{"), pattern.split("/"))
                )
                for file in fnmatch.filter(below.get("/".join(literal), ()), pattern.replace("**/", "*")):
                    owners[file].add(name)
            else:
                for file in below.get(pattern, (pattern,)):
                    owners[file].add(name)
    pairs = set()
    for names in owners.values():
        pairs.update(itertools.combinations(sorted(names, key=order.__getitem__), 2))
    return pairs


if __name__ == "__main__":
    main()
