"""Time the search for secrets in 10 MB of prose, source, logs and paths, beside `json.dumps` of it.

Run `python benchmarks/bench_redact.py`. At most 4 times `json.dumps` is the target; with three known values,
as an environment has them. Also a line, a record, and what a worker without output costs. Times are of the
processor, since those of the clock tell what else runs.
"""

import hashlib
import json
import random
import sys
import time
from pathlib import Path

from tickets.redact import Redactor, known_values

SIZE = 10_000_000
WORDS = (
    "the",
    "parser",
    "reads",
    "a",
    "line",
    "and",
    "returns",
    "value",
    "of",
    "src/parser/lex.py",
    "as",
    "it",
)
MOST = 4.0


def main():
    known = known_values({f"BENCH_{at}_TOKEN": f"v{at}q7h27h27h2z{at}-{at}" for at in range(3)})
    redactor = Redactor(known)
    for name, text in texts().items():
        dumped, passed = best(json.dumps, text), best(redactor.text, text)
        found = sum(redactor.text(text)[1].values())
        print(
            f"{name:7} {len(text) / 1e6:.0f} MB: {passed * 1000:5.1f} ms, json.dumps {dumped * 1000:5.1f} ms,"
            f" ratio {passed / dumped:.2f} (at most {MOST:g}), {found} found"
        )
    line = "tests/tickets/test_redact.py:12: AssertionError: one of 20 failed"
    print(f"a line of {len(line)} characters: {best(repeated, redactor.text, line) * 1000:.1f} µs")
    record = {"at": "2026-02-16T14:28:34.120+00:00", "event": "ended", "facts": {"files": [line] * 5}}
    print(f"a record: {best(repeated, redactor.value, record) * 1000:.1f} µs")
    print(f"no output: {best(repeated, redactor.text, '') * 1000:.2f} µs")


def texts():
    random.seed(1)
    words = random.choices(WORDS, k=SIZE // 5)
    prose = "\n".join(" ".join(words[at : at + 14]) for at in range(0, len(words), 14))
    sources = sorted(Path(json.__file__).parents[1].rglob("*.py"))
    source = "".join(path.read_text(errors="replace") for path in sources[:1500])
    log = "".join(
        f"2026-02-16T14:28:{at % 60:02} INFO worker {at} commit {hashlib.sha1(b'%d' % at).hexdigest()} "
        f"tests/tickets/test_{at % 99}.py::test_a_ticket_waits PASSED [{at % 100}%]\n"
        for at in range(SIZE // 100)
    )
    paths = "".join(f"{path}\n" for path in sources)
    named = {"prose": prose, "source": source, "log": log, "paths": paths}
    return {name: (text * (SIZE // len(text) + 1))[:SIZE] for name, text in named.items()}


def repeated(function, value):
    for _ in range(1000):
        function(value)


def best(function, *values, times=7):
    took = []
    for _ in range(times):
        began = time.process_time()
        function(*values)
        took.append(time.process_time() - began)
    return min(took)


if __name__ == "__main__":
    sys.exit(main())
