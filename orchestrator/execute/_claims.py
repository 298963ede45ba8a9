"""The claims of a worker's report beside the findings: claims are kept, evidence decides."""

import re
from collections.abc import Iterator, Sequence

from orchestrator.runs.events import Claims
from tickets.report import Report, read_report
from tickets.types import AgentName
from workers.agents.agent import Answer
from workers.agents.stream import printable

MOST_NAMED = 50
"""Paths of each kind that a record keeps; a report may name thousands."""
LONGEST = 160
"""Characters of a result on one line."""
NO_CHANGES = "No changes:"
"""The beginning of a report's line that explains why nothing was changed."""

# Up to "no changes" it stays on its line: over lines, a thousand of dashes would take a minute.
_REASON = re.compile(r"^(?:[^\w\n]|_)*no changes?\b[\W_]*\w", re.IGNORECASE | re.MULTILINE)
_QUOTED = re.compile(r"`([^`]+)`")
_NONE = re.compile(r"(?:none|n/a|nothing|no files?|no changes?)(?:[\s.,:;(].*)?", re.IGNORECASE | re.DOTALL)


def claims_of(text: str, changed: Sequence[str]) -> Claims:
    """Read a final answer and compare it with the paths that were changed."""
    report = read_report(text)
    named = tuple(dict.fromkeys(path for item in report.proposal.affected_files if (path := _path(item))))
    # By sets: both may be ten thousand.
    said, found = set(named), {part for path in changed for part in _with_folders(path)}
    not_found = tuple(path for path in named if path not in found)
    not_said = tuple(path for path in changed if said.isdisjoint(_with_folders(path)))
    return Claims(report.status, named, not_found, not_said)


def kept_claims(claims: Claims) -> Claims:
    """Return claims as a record keeps them: with the first paths of each kind."""
    paths = (claims.files, claims.not_found, claims.not_said)
    return Claims(claims.status, *(some[:MOST_NAMED] for some in paths))


def result_line(agent: AgentName, answer: Answer) -> str:
    """Return the result of a complete worker on one line, in its own words.

    Of an agent the beginning of its report's summary, else of its answer; of a command worker the summary in
    its `ORCHESTRATE-RESULT`, else the last line that it printed.
    """
    if agent == "command":
        said = answer.text or answer.last
    else:
        said = read_report(answer.text).summary or answer.text
    lines = (printable(line).lstrip("#->* ") for line in said.splitlines())
    line = next((line for line in lines if any(char.isalnum() for char in line)), "")
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def says_why_nothing_changed(report: Report) -> bool:
    """Return whether a report has a line `No changes: …` with a reason."""
    parts = (report.summary, report.analysis, report.proposal.text, *report.proposal.affected_files)
    return any(_REASON.search(part) for part in parts)


def missing_of(text: str, *, changed: bool | None) -> tuple[str, ...]:
    """List the missing parts of a final answer; `changed` is None where no change is asked for.

    For a blocked worker, or one with a question, the status and its details are enough.
    """
    report = read_report(text)
    if report.status not in (None, "COMPLETE"):
        return ()
    missing = list(report.missing)
    if changed is False and report.status == "COMPLETE" and not says_why_nothing_changed(report):
        missing.append(f"a line `{NO_CHANGES}` with the reason why no file was changed")
    return tuple(missing)


def _path(item: str) -> str:
    """Return the path in an item of a list: `src/a.py` (new), src/a.py - why, src/a.py: why."""
    quoted = _QUOTED.search(item)
    words = item.split()
    path = quoted[1] if quoted else words[0].rstrip(":,;") if words else ""
    return "" if _NONE.fullmatch(item.strip()) else path.removeprefix("./").rstrip("/")


def _with_folders(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]
