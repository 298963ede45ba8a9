"""The check of the active context: fifteen points, each with what is missing and what mends it."""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from orchestrator.report.context_facts import plan_files
from orchestrator.report.situation import Situation
from orchestrator.state.ai_memory.context import BLOCKERS, DECISIONS_TITLE, problems, tokens_of
from orchestrator.state.ai_memory.context_keys import NONE, SECTIONS, UNSTATED
from orchestrator.state.ai_memory.context_read import PATH, Context, ContextItem, read
from orchestrator.state.ai_memory.context_write import ContextEdit
from orchestrator.state.document import state_errors
from tickets.problems import Problem, ProblemError
from tickets.redact import Redactor
from tickets.value import Value
from tickets.wording import count_of, some_of

OLD = timedelta(days=7)
DATED = 10
FENCE = 20
LINE = 600
SECONDARY_MOST = 8
SHOWN = 3
SYNC = "`orchestrate context sync`"
ERRORS = (11, 14, 15)
INFO = (8, 9)
_VAGUE = re.compile(r"(?i)\b(?:tbd|todo|stuff|things|something|etc)\b")
_UNSURE = re.compile(r"(?i)\b(?:maybe|probably|somewhere)\b")
_WEAK = re.compile(r"(?i)\W*(?:tbd|continue|finish)\W*")
_SPAN = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+|[\w-]+\.(?:py|md|toml|js|ts|json|yaml|yml|txt|sh|rs|go|java|c|h)")
_ABSOLUTE = re.compile(
    r"(?<![\w./~:-])(?:/(?:home|root|Users|tmp|var|etc|opt|usr|mnt|srv)/\S+|~/\S*|file:\S+|[A-Za-z]:\\\S+)"
)
_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w")
_UNTIL = re.compile(r"until (\d{4}-\d{2}-\d{2})")
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMES = ("last_updated", "last_green_build", "last_successful_run", "last_failure_time", "task_started")
_DUMP = re.compile(r"Traceback \(most|^@@ -|^\+\+\+ ")
_POINTS = (
    "The context is updated, its date current",
    "Goal and scope agree with the state",
    "Plans and artifacts are listed",
    "`next` can be acted upon",
    "Breadcrumbs and Guardrails hold",
    "Decisions and blockers are not lost",
    "A failure is captured",
    "Useful searches are kept",
    "Risks are recorded",
    "Git state is current",
    "Structure",
    "Paths are relative",
    "State, not a journal",
    "No secrets, no personal data",
    "One current task, its id stable",
)


class Lack(Value):
    """What is missing at one point: where, what, and the command or edit that mends it."""

    line: int
    what: str
    do: str


class ContextPoint(Value):
    """The result of one point."""

    number: int
    lacks: tuple[Lack, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is missing."""
        return not self.lacks

    @property
    def grade(self) -> str:
        """`error`, `warning`, or `info`, which never fails."""
        return "error" if self.number in ERRORS else "info" if self.number in INFO else "warning"

    def as_json(self) -> dict[str, Any]:
        """Return it in the form of the documented output."""
        return {
            "number": self.number, "point": _POINTS[self.number - 1], "ok": self.ok, "grade": self.grade,
            "missing": "; ".join(one.what for one in self.lacks),
            "line": self.lacks[0].line if self.lacks else None,
        }  # fmt: skip

    def problems(self) -> Iterator[Problem]:
        """Yield what is missing as problems."""
        severity: Any = self.grade
        for one in self.lacks:
            yield Problem(f"{PATH}:{one.line}", one.what, one.do, severity)


class _Look(Value):
    """What the points look at."""

    context: Context
    found: Situation
    behind: Sequence[ContextEdit]
    """What a synchronization would change."""
    before: Context | None
    """The file of the last commit."""
    redactor: Redactor
    budget: int

    @property
    def text(self) -> str:
        """The whole file."""
        return self.context.document.data.decode()


class Basis(Value):
    """What the file is compared with."""

    behind: Sequence[ContextEdit]
    """What a synchronization would change."""
    before: bytes | None
    """The file of the last commit."""
    redactor: Redactor
    budget: int


def checked(text: bytes, found: Situation, basis: Basis) -> list[ContextPoint]:
    """Return the fifteen points. Raises StateError where the file cannot be read."""
    with state_errors():
        earlier = None
        if basis.before:
            try:
                earlier = read(basis.before)
            except ProblemError:
                earlier = None  # what was committed is no business of this check
        look = _Look(read(text), found, basis.behind, earlier, basis.redactor, basis.budget)
        return [ContextPoint(number, tuple(point(look))) for number, point in enumerate(_CHECKS, 1)]


def _updated(look: _Look) -> Iterator[Lack]:
    line = _line(look, "last_updated")
    said = look.context.text("last_updated")
    names = [one.key or one.section for one in look.behind if one.section != "Git State Snapshot"]
    names = [one for one in dict.fromkeys(names) if one != "last_updated"]
    if names:
        yield Lack(line, f"{count_of(len(names), 'key')} behind: {some_of(names, SHOWN)}", SYNC)
    try:
        at = datetime.fromisoformat(said)
    except ValueError:
        yield Lack(line, f"`last_updated` is `{said}`, no ISO date", SYNC)
        return
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    if at > look.found.at + timedelta(minutes=5):
        yield Lack(line, f"`last_updated` is in the future: {said}", SYNC)
    elif look.found.at - at > OLD and any(one.section == "Git State Snapshot" for one in look.behind):
        yield Lack(line, f"last updated {(look.found.at - at).days} days ago, and the branch has moved", SYNC)


def _goal(look: _Look) -> Iterator[Lack]:
    goal, line = look.context.text("goal"), _line(look, "goal")
    do = '`orchestrate context sync --set goal="TEXT"`'
    if goal.casefold() in ("", NONE, UNSTATED) or len(goal.split()) < 3 or _VAGUE.search(goal):
        if look.context.text("task_id") != NONE:
            yield Lack(line, f"`goal` is {f'vague: {goal}' if goal else 'empty'}", do)
        return
    status = look.found.status
    for phase in status.phases if status else ():
        for one in phase.deliverables:
            if one.done and f"`{one.name}`" in _raw(look, "goal"):
                yield Lack(
                    line, f"`goal` names `{one.name}`, which is complete", "`orchestrate context archive`"
                )
    outside = [
        part.strip()
        for part in look.context.text("scope_out").split(",")
        if part.strip() not in ("", NONE, UNSTATED)
    ]
    for file in look.context.list("active_files"):
        for folder in outside:
            if file.source and file.text.startswith(folder.rstrip("*")):
                yield Lack(
                    line,
                    f"{file.text} was changed, and `scope_out` has {folder}",
                    '`orchestrate context sync --set scope_out="TEXT"`',
                )


def _plans(look: _Look) -> Iterator[Lack]:
    root = look.found.repository.root
    for name in ("related_docs", "related_code", "session_history"):
        for one in look.context.list(name):
            path = one.text.split(" \u2014 ")[0].strip("` ")
            if _PATH.fullmatch(path.rstrip("/")) and not (root / path).exists():
                do = f'`orchestrate context sync --drop {name}="{path}"`' if not one.source else SYNC
                yield Lack(_at(look, one.start), f"{path} does not exist", do)
    listed = {one.text.split(" \u2014 ")[0].strip("` ") for one in look.context.list("related_docs")}
    for path in plan_files(root):
        if path not in listed:
            yield Lack(_line(look, "related_docs"), f"{path} is not listed", SYNC)


def _next(look: _Look) -> Iterator[Lack]:
    found, line = look.context.list("next"), _line(look, "next")
    do = '`orchestrate context sync --add next="TEXT"`'
    if not found and look.context.text("task_id") != NONE:
        yield Lack(line, "`next` is empty", do)
    for one in found:
        if _WEAK.fullmatch(one.text) or (len(one.text.split()) < 3 and "`" not in _spelled(look, one)):
            yield Lack(_at(look, one.start), f"`next` has `{one.text}`, which nobody can act upon", do)


def _hints(look: _Look) -> Iterator[Lack]:
    root = look.found.repository.root
    for title in ("Breadcrumbs", "Guardrails"):
        section = look.context.section(title)
        if section is None:
            continue
        text = look.context.document.text(section.part.body, section.part.end)
        for span in _SPAN.findall(text):
            if "/" in span and _PATH.fullmatch(span) and not (root / span).exists():
                yield Lack(section.part.line, f"{title} names `{span}`, which is gone", f"edit {PATH}")
    for one in look.context.list("temporary_allowances"):
        until = _UNTIL.search(one.text)
        if until and until[1] < f"{look.found.at:%Y-%m-%d}":
            do = f'`orchestrate context sync --drop temporary_allowances="{one.text[:40]}"`'
            yield Lack(_at(look, one.start), f"an allowance ended on {until[1]}: {one.text}", do)


def _copies(look: _Look) -> Iterator[Lack]:
    for one in look.behind:
        if one.section in (DECISIONS_TITLE, BLOCKERS) and one.what == "added":
            yield Lack(1, f"`{one.section}` lacks: {one.text}", SYNC)


def _failure(look: _Look) -> Iterator[Lack]:
    pending = [one for one in look.behind if one.section == "Failure Context" and one.what != "dropped"]
    if pending:
        yield Lack(
            1, f"the newest failure is not captured: {some_of([one.key for one in pending], SHOWN)}", SYNC
        )
    elif look.context.text("resolution_status") == "pending":
        line = _line(look, "resolution_status")
        if not look.context.text("error_signature"):
            yield Lack(line, "the failure has no signature", SYNC)
        if not look.context.list("attempted_fixes"):
            do = '`orchestrate context sync --add attempted_fixes="TEXT"`'
            yield Lack(line, "no fix of the failure is on record", do)


def _searches(look: _Look) -> Iterator[Lack]:
    changed = (
        int(look.context.text("uncommitted_changes") or 0)
        if look.context.text("uncommitted_changes").isdecimal()
        else 0
    )
    kept = look.context.list("navigation_queries") or look.context.section("Search & Navigation Cache")
    if changed and not kept:
        do = '`orchestrate context sync --add navigation_queries="TEXT"`'
        yield Lack(1, "files were changed, and no search is kept", do)


def _risks(look: _Look) -> Iterator[Lack]:
    if look.context.section("Risk Register") is None:
        reports = [run for run in look.found.runs if any(one.lands for one in run.workers.values())]
        if reports and any("risk" in one.evidence.summary.casefold() for one in reports[-1].workers.values()):
            yield Lack(
                1,
                "a report names risks, and there is no Risk Register",
                '`orchestrate context sync --add medium="RISK \u2014 MITIGATION \u2014 STATUS"`',
            )


def _git(look: _Look) -> Iterator[Lack]:
    names = [one.key for one in look.behind if one.section == "Git State Snapshot"]
    if names:
        yield Lack(_line(look, "current_branch"), f"git differs: {some_of(names, SHOWN)}", SYNC)


def _structure(look: _Look) -> Iterator[Lack]:
    there = [one.section for one in look.context.sections]
    init = "`orchestrate context init --complete`"
    for section in SECTIONS:
        found = look.context.section(section.title)
        if found is None:
            if section.mandatory:
                yield Lack(1, f"section `{section.title}` is missing", init)
            continue
        names = {key.name for key in found.keys}
        for key in section.keys:
            if key.mandatory and key.name not in names:
                yield Lack(found.part.line, f"`{section.title}` has no `{key.name}`", init)
    numbers = [section.number for section in there]
    if numbers != sorted(numbers):
        at = next(at for at in range(1, len(numbers)) if numbers[at] < numbers[at - 1])
        yield Lack(
            look.context.sections[at].part.line,
            f"`{there[at].title}` is out of its order",
            f"move it in {PATH}",
        )
    for one in problems(look.context.document.data):
        line = one.place.rpartition(":")[2]
        yield Lack(int(line) if line.isdecimal() else 1, one.what, one.do)


def _relative(look: _Look) -> Iterator[Lack]:
    for number, line in _outside_fences(look):
        if found := _ABSOLUTE.search(line):
            yield Lack(
                number,
                f"`{found[0]}` is no relative path",
                f"write it as a path in the repository, in {PATH}",
            )


def _state(look: _Look) -> Iterator[Lack]:
    yield from _counts(look)
    yield from _fences(look)
    yield from _lines(look)
    if (tokens := tokens_of(look.context.document.data)) > look.budget:
        do = "`orchestrate context archive`, or raise `[context] budget`"
        yield Lack(1, f"{tokens} tokens, {look.budget} at most", do)


def _counts(look: _Look) -> Iterator[Lack]:
    """Yield the lists and texts that are longer than the table allows."""
    do = f"shorten it in {PATH}"
    for section in SECTIONS:
        found = look.context.section(section.title)
        if found is None:
            continue
        if section.most and len(found.items) > section.most:
            what = f"`{section.title}` has {len(found.items)} items, {section.most} at most"
            yield Lack(found.part.line, what, do)
        for key in section.keys:
            count = (
                len(look.context.list(key.name)) if key.is_list else _sentences(look.context.text(key.name))
            )
            if key.most and count > key.most:
                of = "items" if key.is_list else "sentences"
                yield Lack(_line(look, key.name), f"`{key.name}` has {count} {of}, {key.most} at most", do)
    if len(look.context.secondary) > SECONDARY_MOST:
        what = f"{len(look.context.secondary)} secondary tasks, {SECONDARY_MOST} at most"
        yield Lack(_line(look, "task_id"), what, f"remove one from {PATH}")


def _fences(look: _Look) -> Iterator[Lack]:
    """Yield the code blocks that are too long for a state."""
    began = 0
    for number, line in enumerate(look.text.splitlines(), 1):
        if not line.lstrip().startswith("```"):
            continue
        if began and number - began - 1 > FENCE:
            what = f"a code block has {number - began - 1} lines, {FENCE} at most"
            yield Lack(began, what, "put it into a file, and name that")
        began = 0 if began else number


def _lines(look: _Look) -> Iterator[Lack]:
    """Yield the lines that belong into a history, a log or the open questions."""
    decisions, blockers = look.context.section(DECISIONS_TITLE), look.context.section(BLOCKERS)
    starts = look.context.document.lines
    dated = 0
    for number, line in enumerate(look.text.splitlines(), 1):
        at = starts[number - 1].start if number <= len(starts) else 0
        is_decision, is_open = (
            one is not None and one.part.start <= at < one.part.end for one in (decisions, blockers)
        )
        is_time = any(f"- {name}:" in line for name in _TIMES)
        dated += bool(_DATED.search(line)) and not (is_decision or is_time)
        if len(line) > LINE:
            yield Lack(number, f"a line has {len(line)} characters, {LINE} at most", f"shorten it in {PATH}")
        if _DUMP.search(line):
            yield Lack(number, "a log or a diff stands here", "put it into a file, and name that")
        if not is_open and (word := _UNSURE.search(line)):
            do = '`orchestrate context sync --add blockers="TEXT"`'
            yield Lack(number, f"`{word[0]}`: what is not sure is an open question", do)
    if dated > DATED:
        what = f"{dated} dated lines outside the decisions, {DATED} at most"
        yield Lack(1, what, "keep history in another file, and name that")


def _secrets(look: _Look) -> Iterator[Lack]:
    data = look.context.document.data
    for one in look.redactor.secrets(data):
        line = data.count(b"\n", 0, one.start) + 1
        yield Lack(line, f"a secret stands here ({one.kind})", f"remove it from {PATH}, and make it void")
    for number, line_ in _outside_fences(look):
        if _MAIL.search(line_):
            yield Lack(number, "an e-mail address stands here", f"remove it from {PATH}")


def _task(look: _Look) -> Iterator[Lack]:
    task = look.context.section("Current Task")
    ids = [key for key in (task.keys if task else ()) if key.name == "task_id"]
    line = _line(look, "task_id")
    if len(ids) != 1 or not ids[0].value:
        yield Lack(
            line,
            f"{len(ids)} values of `task_id`" if len(ids) > 1 else "no `task_id`",
            "`orchestrate context init --complete`",
        )
    elif look.before is not None and (was := look.before.text("task_id")) not in ("", ids[0].value):
        told = any(ids[0].value in one.text and was in one.text for one in look.context.list(DECISIONS_TITLE))
        if not told:
            what = f"`task_id` was {was} in the last commit, and no decision says why it is {ids[0].value}"
            yield Lack(line, what, '`orchestrate context sync --add decisions="DECISION \u2192 REASON"`')
    for one in look.context.secondary:
        if one.lacks:
            yield Lack(
                _at(look, one.start),
                f"secondary task {one.task_id or '?'} lacks {', '.join(one.lacks)}",
                f"add it in {PATH}",
            )


_CHECKS: tuple[Callable[[_Look], Iterator[Lack]], ...] = (
    _updated, _goal, _plans, _next, _hints, _copies, _failure, _searches, _risks, _git, _structure, _relative,
    _state, _secrets, _task,
)  # fmt: skip


def _line(look: _Look, name: str) -> int:
    found = look.context.key(name)
    return found.line if found else 1


def _at(look: _Look, offset: int) -> int:
    return look.context.document.line_at(offset)


def _raw(look: _Look, name: str) -> str:
    found = look.context.key(name)
    return look.context.document.text(found.value_start, found.value_end) if found else ""


def _spelled(look: _Look, one: ContextItem) -> str:
    return look.context.document.text(one.start, one.end)


def _sentences(text: str) -> int:
    return len([one for one in re.split(r"(?<=[.!?])\s+", text) if one.strip()])


def _outside_fences(look: _Look) -> Iterator[tuple[int, str]]:
    inside = False
    for number, line in enumerate(look.text.splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            inside = not inside
        elif not inside:
            yield number, line
