"""The rules of judgement: outcome, whether a retry helps, violations of the scope, and the verdict of them.

Pure: exit record, answer and changes in. A path outside the scope holds or rejects the work here.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from orchestrator.execute._claims import claims_of, says_why_nothing_changed
from orchestrator.runs.events import Violation
from tickets.report import read_report
from tickets.scopes.scope import Scope
from tickets.ticket import Ticket
from tickets.types import Outcome, Verdict
from tickets.wording import some_of
from workers.agents.agent import Answer
from workers.files.exit_record import Exit
from workers.shim.start import signal_words
from workers.worktree.change import Change
from workers.worktree.changes import Found

OnViolation = Literal["hold", "reject", "land-in-scope"]


CANCELLED = "cancelled by the lead"


class Judgement(NamedTuple):
    """How a worker ended, before its acceptance commands have run."""

    outcome: Outcome
    reason: str = ""
    flags: tuple[str, ...] = ()
    retryable: bool = False


def judge(ticket: Ticket, ended: Exit, answer: Answer, changes: tuple[Change, ...]) -> Judgement:
    """Decide the outcome from the end of the process, its stream and its changes."""
    flags = _flags(ticket, ended, answer, changes)
    stopped = _stopped(ticket, ended)
    if answer.question and (ended.end == "idle" or (stopped is None and answer.ended != "success")):
        return Judgement("blocked", _line(answer.question), flags)
    if stopped is not None:
        return stopped._replace(flags=flags)
    if answer.ended != "success":
        judgement = _unsuccessful(ended, answer)
        return judgement._replace(flags=(*flags, *judgement.flags))
    if ticket.agent == "command":
        return _of_status(answer.status or "complete", answer.text, flags)
    return _of_report(ticket, answer, changes, flags)


def violations_of(
    ticket: Ticket, left: Found, scope: Scope, state_files: Scope, git_writes: Sequence[str]
) -> tuple[Violation, ...]:
    """List the violations of the changes: outside the scope, in a state file, in a read-only tree."""
    found: list[Violation] = []
    # Files in a submodule belong to another repository: no scope of this one covers them.
    paths = [(change.path, scope.covers(change.path)) for change in left.changes]
    paths += [(path, scope.covers(path)) for path in left.special] + [(path, False) for path in left.inside]
    for path, is_owned in paths:
        if state_files.covers(path):
            found.append(Violation("touched_state_file", path))
        elif ticket.mode == "read-only":
            found.append(Violation("read_only_wrote", path))
        elif not is_owned:
            found.append(Violation("out_of_scope", path))
    found += [harm_at(path) for path in git_writes]
    if ticket.max_files_changed is not None and len(left.changes) > ticket.max_files_changed:
        found.append(Violation("too_many_files", f"{len(left.changes)} of {ticket.max_files_changed}"))
    return tuple(found)


def harm_at(path: str) -> Violation:
    """Return the violation of a worker that wrote outside its tree: into git's files, or into others."""
    is_gits = not path.startswith((".taskers/", "~/")) or path.startswith(("~/.gitconfig", "~/.config/git/"))
    return Violation("git_write" if is_gits else "out_of_scope", path)


def verdict_of(
    outcome: Outcome, violations: tuple[Violation, ...], on_violation: OnViolation
) -> tuple[Verdict | None, str]:
    """Decide the verdict by rule, with a reason where it is not plain."""
    if outcome == "skipped":
        return None, ""
    if outcome != "complete":
        return "rejected", ""
    if not violations:
        return "accepted", ""
    verdict: Verdict = {"hold": "pending", "reject": "rejected", "land-in-scope": "partial"}[on_violation]  # type: ignore[assignment]  # mypy widens the values to str
    return verdict, in_words(violations)


def in_words(violations: tuple[Violation, ...]) -> str:
    """Describe the violations on one line."""
    said = {
        "out_of_scope": "changed outside its scope",
        "touched_state_file": "touched a state file",
        "read_only_wrote": "wrote although read-only",
        "git_write": "changed git's own files",
        "too_many_files": "changed too many files",
    }
    parts = []
    for kind, words in said.items():
        paths = [violation.path for violation in violations if violation.kind == kind]
        if paths:
            parts.append(f"{words}: {some_of(paths)}")
    return "; ".join(parts)


def _flags(ticket: Ticket, ended: Exit, answer: Answer, changes: tuple[Change, ...]) -> tuple[str, ...]:
    found = list(answer.flags)
    if ticket.mode == "write" and not changes:
        found.append("no_changes")
    # Processes killed by a cancel were working; `left_processes` means those that outlived their worker.
    if ended.survivors and ended.end != "cancelled":
        found.append("left_processes")
    if ended.cut:
        found.append("output_cut")
    return tuple(dict.fromkeys(found))


def _stopped(ticket: Ticket, ended: Exit) -> Judgement | None:
    """Judge a worker that did not end by itself; None for one that did."""
    match ended.end:
        case "not_started":
            # Killed from outside while its fence was set up, or an agent that replaces its own program: no
            # worker is at fault, and nothing has begun.
            helps = ended.signal is not None or ticket.agent != "command"
            return Judgement("failed", ended.error or "could not be started", retryable=helps)
        case "shim_error":
            return Judgement("failed", f"its shim failed: {ended.error}", retryable=True)
        case "lost":
            return Judgement("interrupted", ended.error, retryable=True)
        case "cancelled":
            return Judgement("cancelled", CANCELLED)
        case "timed_out":
            return Judgement("timed_out", f"ran longer than its timeout of {_span(ticket.timeout)}")
        case "idle":
            idle = _span(ticket.idle_timeout)
            return Judgement("timed_out", f"no output and no activity for {idle}", retryable=True)
        case "output_cap":
            streams = " and ".join(ended.cut) or "its output"
            return Judgement("failed", f"printed more than output_cap allows ({streams} cut)")
        case "exited":
            return None


def _unsuccessful(ended: Exit, answer: Answer) -> Judgement:
    said = answer.error
    match answer.failure:
        case "rate_limited":
            return Judgement("rate_limited", said or "the provider's rate limit", retryable=True)
        case "budget":
            return Judgement("over_budget", said or "its budget is spent")
        case "provider" | "overloaded":
            return Judgement("failed", said or "the provider failed", retryable=True)
        case "login":
            return Judgement("failed", said or "its login was refused", flags=("login",))
        case "refused":
            return Judgement("failed", said or f"refused to start (exit code {ended.exit_code})")
    if ended.signal is not None:
        return Judgement("failed", f"killed by {signal_words(ended.signal)}, not by us", retryable=True)
    if answer.ended == "error" or ended.exit_code:
        return Judgement("failed", said or f"exit code {ended.exit_code}")
    if "cut_record" in answer.flags:
        return Judgement("failed", "incomplete output: its last record is cut", retryable=True)
    return Judgement("failed", said or "no result: it ended without a closing record", retryable=True)


def _of_report(
    ticket: Ticket, answer: Answer, changes: tuple[Change, ...], flags: tuple[str, ...]
) -> Judgement:
    report = read_report(answer.text)
    if report.missing and report.status in (None, "COMPLETE"):
        flags = (*flags, "unreported")
    wrote_nothing = ticket.mode == "write" and not changes
    if report.status is None and answer.question:
        return Judgement("blocked", _line(answer.question), flags)
    if not answer.text.strip() and not (changes and report.status is None):
        return Judgement("failed", "no result: its answer is empty", flags)
    if report.status is None and wrote_nothing:
        return Judgement("failed", "no changes, and no report that explains it", flags)
    if report.status == "COMPLETE" and wrote_nothing and not says_why_nothing_changed(report):
        named = claims_of(answer.text, ()).files
        why = f"though its report names {named[0]}" if named else "and its report does not explain it"
        return Judgement("failed", f"no changes, {why}", flags)
    said = ""
    if report.blocked is not None:
        said = report.blocked.blocker
    elif report.clarification is not None:
        said = report.clarification.question
    return _of_status((report.status or "COMPLETE").lower(), said, flags)


def _of_status(status: str, said: str, flags: tuple[str, ...]) -> Judgement:
    line = _line(said)
    if status == "blocked":
        return Judgement("blocked", line or "it reports that it is blocked", flags)
    if status == "needs_clarification":
        return Judgement("needs_clarification", line or "it has a question", flags)
    if status == "skipped":
        return Judgement("skipped", line or "there was nothing to do", flags)
    return Judgement("complete", "", flags)


def _line(said: str) -> str:
    return " ".join(said.split())[:300]


def _span(seconds: float) -> str:
    if seconds >= 60 and seconds % 60 == 0:
        return f"{seconds / 60:g} m"
    return f"{seconds:g} s"
