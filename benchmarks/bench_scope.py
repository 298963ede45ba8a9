"""Time the overlap proof: 1,000 and 10,000 tickets of 5 patterns, a fifth of them globs.

Run `python benchmarks/bench_scope.py`. Beside it stand every pair tried on its own (at 1,000) and the usual
way out, fnmatch of each pattern over the files that exist (at 10,000), which misses files not yet made.
"""

import fnmatch
import itertools
import random
import time
from collections import defaultdict

from tickets.scope import Scope, find_overlaps

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


def main():
    for count in (1_000, 10_000):
        tickets = make_tickets(count)
        start = time.perf_counter()
        scopes = {name: Scope.of(patterns) for name, patterns in tickets.items()}
        read = time.perf_counter() - start
        seconds, overlaps = timed(lambda scopes=scopes: find_overlaps(scopes))
        print(
            f"{count:6} tickets: read {read:.3f} s, find_overlaps {seconds:.3f} s, {len(overlaps)} overlaps"
        )
        if count == 1_000:
            naive, pairs = timed(lambda scopes=scopes: try_all_pairs(scopes))
            same = {(o.first, o.second) for o in overlaps} == pairs
            print(f"       every pair on its own {naive:.2f} s: {naive / seconds:.0f} times; same: {same}")
        else:
            files = make_files(tickets)
            slow, pairs = timed(lambda tickets=tickets, files=files: expand(tickets, files))
            missed = len({(o.first, o.second) for o in overlaps} - pairs)
            print(
                f"       fnmatch over {len(files)} files {slow:.2f} s: ours {seconds / slow:.2f} of it, ",
                end="",
            )
            print(f"with reading {(read + seconds) / slow:.2f}; it misses {missed / len(overlaps):.0%}")
    running = list(scopes.values())[:15]
    new = list(scopes.values())[100:200]
    seconds, _ = timed(lambda: [one.overlaps(other) for one in new for other in running])
    print(f"one against 15 running: {seconds / len(new) * 1000:.2f} ms")


def timed(call):
    best, value = float("inf"), None
    for _ in range(3):
        start = time.perf_counter()
        value = call()
        best = min(best, time.perf_counter() - start)
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
    """Give files as they are before the work: half of those that tickets name are there already."""
    chance, count = random.Random(1), len(tickets)
    named = [
        text
        for patterns in tickets.values()
        for text in patterns
        if "." in text and not set(text) & set("*{")
    ]
    return sorted(
        set(chance.sample(named, len(named) // 2))
        | {
            "{directory}/{name}{number}.{suffix}".format(**make_place(chance, count))
            for _ in range(5 * count)
        }
    )


def try_all_pairs(scopes):
    return {
        (first, second)
        for (first, one), (second, two) in itertools.combinations(scopes.items(), 2)
        if one.overlaps(two) is not None
    }


def expand(tickets, files):
    """Match each glob over the files of the directory it starts in, and look for files with two owners."""
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
