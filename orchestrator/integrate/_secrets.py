"""Secrets in the lines that a landing adds: it lands as judged, and the lead is warned."""

import re
from collections.abc import Iterator, Sequence

from orchestrator.execute.runtime import Runtime
from orchestrator.integrate._gate import Candidate
from orchestrator.redaction import advice
from tickets.problems import Problem
from tickets.redact import Redactor, Secret
from tickets.wording import count_of
from workers.files.read import read_start

SEARCHED = 1 << 26
"""Bytes of a patch that are searched."""
SHOWN = 20
"""How many are named before the rest is counted."""
_HUNK = re.compile(rb"^@@ -\S+ \+(\d+)", re.MULTILINE)


def landed_secrets(runtime: Runtime, landed: Sequence[Candidate]) -> list[Problem]:
    """Return a warning for each secret in what some workers have added."""
    found: dict[Problem, None] = {}
    for ticket in (candidate.ticket for candidate in landed if candidate.changes):
        patch = runtime.of(ticket).evidence.patch
        try:
            text = read_start(runtime.run.root / patch, SEARCHED) if patch else b""
        except OSError:
            continue  # it was read a moment ago
        scope = runtime.manifest.scopes[ticket.id]
        for path, line, secret in added_secrets(text, runtime.redactor):
            if scope.covers(path):
                what = f"{ticket.worker} has added what looks like a secret ({secret.kind})"
                found[Problem(f"{path}:{line}", what, advice(secret), "warning")] = None
    said = list(found)
    more = [f"{count_of(len(said) - SHOWN, 'more line')} with a secret landed"] * (len(said) > SHOWN)
    return [*said[:SHOWN], *(Problem(runtime.run.id, what, "search for them", "warning") for what in more)]


def added_secrets(patch: bytes, redactor: Redactor) -> Iterator[tuple[str, int, Secret]]:
    """Yield path and line, as they land, of each secret in the added lines of a patch."""
    for secret in redactor.secrets(patch):
        line = patch.rfind(b"\n", 0, secret.start) + 1
        head = patch.rfind(b"\n@@ ", 0, line) + 1
        file = patch.rfind(b"\n+++ ", 0, head) + 1
        begins = _HUNK.match(patch, head)
        if patch[line : line + 1] != b"+" or not file or begins is None:
            continue
        name = patch[file + 4 : patch.find(b"\n", file)].rstrip(b"\t").strip(b'"').removeprefix(b"b/")
        before = patch[patch.find(b"\n", head) + 1 : line].splitlines()
        number = int(begins[1]) + sum(one[:1] in (b"+", b" ") for one in before)
        yield name.decode("utf-8", "surrogateescape"), number, secret
