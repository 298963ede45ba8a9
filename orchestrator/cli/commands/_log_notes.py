"""What `logs` says beside the words of a worker: why it failed, what its checks printed, earlier attempts."""

import re
from collections.abc import Iterator

from orchestrator.runs.state import RunState
from orchestrator.runs.worker_state import WENT_WRONG
from workers.agents.follow import read_tail
from workers.agents.stream import plain

TAIL = 20
"""Lines of what a command printed that are shown; its file has the others."""
_SEE = re.compile(r"\bsee (?P<path>\.taskers/runs/\S+/checks/\S+?)\.std(?:out|err)\b")
_STREAMS = ("stdout", "stderr")

Note = tuple[str, str]
"""Kind and text, as a piece of what a worker said has them."""


def notes_on(state: RunState, worker: str, number: int, *, stderr: bool) -> Iterator[Note]:
    """Say what whoever reads one attempt cannot see in it; nothing of one that printed and ended well."""
    known, files = state.workers[worker], state.run.attempt(worker, number)
    size = {path: path.stat().st_size if path.exists() else 0 for path in (files.stdout, files.stderr)}
    if not any(size.values()):
        yield "note", f"{worker} printed nothing"
    elif not stderr and not size[files.stdout]:
        yield "note", f"{worker} printed nothing here; `--stderr` shows {size[files.stderr]:,} bytes"
    if number < known.attempts or not known.ended:
        return
    if known.outcome in WENT_WRONG or known.verdict in ("rejected", "pending"):
        verdict = f", {known.verdict}" if known.verdict else ""
        why = f": {known.reason}" if known.reason else ""
        yield "note", f"{worker} ended as {known.outcome}{verdict}{why}"
        yield from _checks(state, known.reason)


def earlier(state: RunState, worker: str, number: int) -> Iterator[Note]:
    """Say that there were attempts before the one that is shown."""
    if number > 1:
        of = state.workers[worker].attempts
        yield "note", f"this is attempt {number} of {of}; `--attempt {number - 1}` shows the one before"


def _checks(state: RunState, reason: str) -> Iterator[Note]:
    """Give the ends of what the commands printed that a reason names."""
    for path in dict.fromkeys(found["path"] for found in _SEE.finditer(reason)):
        for stream in _STREAMS:
            name = f"{path}.{stream}"
            lines = read_tail(state.run.root / name).splitlines()
            if lines:
                yield "note", f"{name} ends with:"
            yield from (("check", plain(line)) for line in lines[-TAIL:])
