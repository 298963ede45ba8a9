"""The status report as text: exactly the seven sections, in their order."""

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from orchestrator.redaction import redactor_of
from orchestrator.report.history import REPORT
from orchestrator.report.status_report import Mark, StatusReport
from tickets.markdown import one_line
from tickets.value import as_json
from tickets.wording import rest_of
from workers.files.durable import create_file
from workers.files.run_dir import create_json, runs_of
from workers.git.run import Repository

SECTIONS = (
    "Current State", "Progress", "Active Work", "Recent Completions", "Next Steps", "Blockers",
    "Approval Requests",
)  # fmt: skip
SHOWN = 10
"""How many commits or files are named before the rest is counted."""


def text_of(report: StatusReport) -> str:
    """Return the report as Markdown."""
    bodies = (
        _current(report), _progress(report), _active(report), _recent(report), _next(report),
        _blockers(report), _approvals(report),
    )  # fmt: skip
    head = [
        "# Project Status Report",
        "",
        f"**Generated:** {report.generated}",
        f"**Report For:** {one_line(report.report_for)}",
        f"**Lead Agent:** {one_line(report.lead_agent)}",
    ]
    parts = ["\n".join(head)]
    for title, body in zip(SECTIONS, bodies, strict=True):
        parts.append("\n".join([f"## {title}", "", *body]))
    return "\n\n---\n\n".join([*parts, "**Report End**"]) + "\n"


def _current(report: StatusReport) -> list[str]:
    said = report.current_state
    return [
        f"**Phase:** {one_line(said.phase)}",
        f"**Milestone:** {one_line(said.milestone)}",
        f"**Deliverable:** {one_line(said.deliverable)}",
        f"**Overall Progress:** {said.overall_progress}",
    ]


def _progress(report: StatusReport) -> list[str]:
    said = report.progress
    tests = [f"- {name}: {figure}" for name, figure in said.tests.items()]
    return [
        *_group("Milestones", [_mark(one) for one in said.milestones]),
        "",
        *_group("Current Phase Deliverables", [_mark(one) for one in said.deliverables]),
        "",
        *_group("Test Status", tests),
    ]


def _mark(one: Mark) -> str:
    share = f", {one.percent}%" if one.percent is not None and not one.done else ""
    return f"- [{'x' if one.done else ' '}] {one_line(one.name)} ({one.status}{share})"


def _active(report: StatusReport) -> list[str]:
    said = report.active_work
    lines = [f"**Lead:** {one_line(said.lead)}", "", "**Workers:**"]
    for one in said.workers:
        lines += [
            f"- {one_line(one.worker)}: {one_line(one.title)}",
            f"  - Scope: {one_line(one.scope)}",
            f"  - Status: {one_line(one.status)}",
            f"  - Output: {one_line(one.output)}",
        ]
    lines += [] if said.workers else ["- None"]
    money = [] if said.spending.is_nothing else ["", f"**Spent:** {said.spending.in_words()}"]
    # Where somebody has to decide there is no command, but a sentence, which may name some.
    step = f"`{said.command}`" if said.command.startswith("orchestrate ") else one_line(said.command)
    return [*lines, *money, "", f"**Next P0:** {one_line(said.next_p0)} ({step})"]


def _recent(report: StatusReport) -> list[str]:
    said = report.recent_completions
    numbered = [f"{at}. {one_line(text)}" for at, text in enumerate(said.completed, 1)]
    return [
        f"**Since last report ({said.since}):**",
        "",
        *(numbered or ["Nothing was completed."]),
        "",
        *_counted("Commits", said.commits),
        "",
        *_counted("Tests Added", said.tests_added),
        "",
        *_counted("Documentation", said.documentation),
    ]


def _counted(label: str, listed: Sequence[str]) -> list[str]:
    more = [f"- {line}" for line in rest_of(len(listed), SHOWN)]
    return [f"**{label}:** {len(listed)}", *(f"- {one_line(one)}" for one in listed[:SHOWN]), *more]


def _next(report: StatusReport) -> list[str]:
    said = report.next_steps
    lines: list[str] = []
    number = 0
    groups = {"Immediate": said.immediate, "This Phase": said.this_phase, "Next Phase": said.next_phase}
    for label, steps in groups.items():
        lines += ["", f"**{label}:**", ""] if lines else [f"**{label}:**", ""]
        for step in steps:
            number += 1
            lines.append(f"{number}. {one_line(step)}")
        lines += [] if steps else ["None."]
    return lines


def _blockers(report: StatusReport) -> list[str]:
    if not report.blockers:
        return ["**None currently.**"]
    return list(_numbered(
        (one.title, {"Priority": one.priority, "Root Cause": one.root_cause, "Impact": one.impact,
                     "Mitigation": one.mitigation})
        for one in report.blockers
    ))  # fmt: skip


def _approvals(report: StatusReport) -> list[str]:
    if not report.approval_requests:
        return ["**None pending.**"]
    return list(_numbered(
        (one.request, {"Reason": one.reason, "Evidence": one.evidence, "Alternatives": one.alternatives,
                       "Impact": one.impact, "Decision Needed By": one.needed_by})
        for one in report.approval_requests
    ))  # fmt: skip


def _numbered(entries: Iterable[tuple[str, dict[str, str]]]) -> Iterator[str]:
    for at, (title, fields) in enumerate(entries, 1):
        yield f"{at}. **{one_line(title)}**"
        indent = " " * len(f"{at}. ")
        for label, said in fields.items():
            yield f"{indent}- {label}: {one_line(said)}"


def _group(label: str, lines: list[str]) -> list[str]:
    return [f"**{label}:**", "", *(lines or ["- None"])]


def keep_report(repository: Repository, report: StatusReport, at: datetime) -> str | None:
    """Write a report to the newest run's directory; return its path, None where there is no run."""
    runs = runs_of(repository.root)
    if not runs:
        return None
    stem = f"{REPORT}-{at.strftime('%Y%m%d_%H%M%S')}"
    path = runs[-1].path / f"{stem}.md"
    number = 1
    while path.exists():
        number += 1
        path = runs[-1].path / f"{stem}_{number}.md"
    redactor = redactor_of(repository.root, os.environ)
    create_file(path, redactor.clean(text_of(report)).encode())
    create_json(Path(f"{path.with_suffix('')}.json"), redactor.value(as_json(report))[0])
    return runs[-1].relative(path)
