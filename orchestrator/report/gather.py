"""What a lead needs to know, read once from state files, runs and git; it writes nothing."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from orchestrator.budget.totals import Spending, spending
from orchestrator.checks.figures import Figure, known_figures
from orchestrator.errors import Refusal, StateError
from orchestrator.runs.roster import LostWorker, lost_workers, shown_runs
from orchestrator.runs.state import RunState, read_run
from orchestrator.settings.settings import read_settings
from orchestrator.state.canonical.decisions import decisions, gates
from orchestrator.state.canonical.rules import rules
from orchestrator.state.canonical.status import read as status_reading
from orchestrator.state.canonical.status.read import Status, value
from orchestrator.state.document import opened, section_like
from orchestrator.store.read import read_state
from orchestrator.store.repo import Head, RepoBlocked, UserRepo
from tickets.markdown import Document, MarkdownError, Part, header, items, labelled, plain, sections
from tickets.problems import Problem, ProblemError
from workers.files.run_dir import runs_of
from workers.git.run import GitError, Repository, git_line

STATE_FILES = ("STATUS.md", "DECISIONS.md", "AGENTS.md")
WINDOW = 7
"""Days of decisions that a new lead reads."""
LOOKED_AT = 20
"""How many runs are read; nobody asks for the thousandth."""
_LONGEST = 600


class Decided(NamedTuple):
    """One entry of the decision log, its reason in short."""

    date: str
    title: str
    decision: str
    status: str


class RulesSaid(NamedTuple):
    """What AGENTS.md says that a lead is bound by."""

    version: str
    last_updated: str
    pool: rules.Pool
    """As the rules state it; whether an agent is on may be for the settings to say, and is what they say."""
    gates: tuple[str, ...]


class Gathered(NamedTuple):
    """A project at one moment."""

    repository: Repository
    at: datetime
    status: Status | None
    decisions: tuple[Decided, ...]
    """Those that are recent, newest first."""
    decided: int
    """How many entries the log holds."""
    started: str
    """When the log says that the project began."""
    rules: RulesSaid | None
    runs: tuple[RunState, ...]
    """The newest ones, oldest first."""
    lost: tuple[LostWorker, ...]
    head: Head
    uncommitted: tuple[str, ...]
    changed: tuple[str, ...]
    """State files among them with changes of their own: more than the roster of a run."""
    roster_of: tuple[str, ...]
    """The runs whose workers are all that STATUS.md has beyond its commit, which comes with the run's."""
    behind: int
    """Commits since STATUS.md was last updated."""
    figures: tuple[Figure, ...]
    spending: Spending
    """What today (UTC) and the newest run came to."""
    texts: Mapping[str, bytes | None]
    """The state files as they stand."""
    problems: tuple[Problem, ...]
    """What could not be read."""


def gather(repository: Repository, at: datetime) -> Gathered:
    """Read everything; what cannot be read is a problem and not the end of it."""
    problems: list[Problem] = []
    root = repository.root
    texts = {path: _text(repository, path, problems) for path in STATE_FILES}
    status = _status(texts["STATUS.md"], problems)
    recent, count, started = _decisions(texts["DECISIONS.md"], since_of(status, at), problems)
    runs = [state for run in runs_of(root)[-LOOKED_AT:] if (state := read_run(run, problems)) is not None]
    head, uncommitted = _git(repository, problems)
    lost = lost_workers(repository, status, texts) if status else ()
    cost = spending(repository.own / "spending", f"{at:%Y-%m-%d}", runs[-1] if runs else None)
    return Gathered(
        repository, at, status, recent, count, started,
        _rules(root, texts, problems), tuple(runs),
        lost, head, uncommitted, *_changed(repository, texts, uncommitted),
        _behind(repository, status, head), known_figures(root), cost, texts, tuple(problems),
    )  # fmt: skip


def since_of(status: Status | None, at: datetime) -> str:
    """Return the day from which decisions count as recent: a week before now, or before the work stopped."""
    end = at.date()
    stamp = stamp_of(status)
    if stamp is not None:
        # After a gap the last week is empty, and the week before the gap is what a lead has to know.
        end = min(end, stamp.date())
    return (end - timedelta(days=WINDOW)).isoformat()


def stamp_of(status: Status | None) -> datetime | None:
    """Return when STATUS.md was last updated, None where it does not say so in a way that can be read."""
    try:
        return datetime.fromisoformat(status.last_updated) if status else None
    except ValueError:
        return None


def approved_of(texts: Mapping[str, bytes | None]) -> int:
    """Return the largest pool that the user has agreed to."""
    try:
        return max(rules.LIMIT, gates.approved_pool(texts["DECISIONS.md"] or b"# Log\n"))
    except ProblemError:
        return rules.LIMIT


def open_todo(status: Status | None, grade: str) -> tuple[str, ...]:
    """Return the open TODO items of one priority."""
    return tuple(text for done, text in status.todo.get(grade, ()) if not done) if status else ()


def _text(repository: Repository, path: str, problems: list[Problem]) -> bytes | None:
    try:
        text = read_state(repository.root, path)
    except Refusal as refusal:
        problems += refusal.problems
        return None
    if text is None:
        problems.append(Problem(path, "the file is missing", "`orchestrate init` writes it"))
    return text


def _status(text: bytes | None, problems: list[Problem]) -> Status | None:
    try:
        if text is None:
            return None
        problems += status_reading.doubts(text)
        return status_reading.read(text)
    except ProblemError as error:
        problems += error.problems
        return None


def _decisions(
    text: bytes | None, since: str, problems: list[Problem]
) -> tuple[tuple[Decided, ...], int, str]:
    """Return the recent entries, how many there are, and when the project began."""
    if text is None:
        return (), 0, ""
    try:
        document = opened(decisions.PATH, text)
        entries = decisions.read(text)
    except ProblemError as error:
        problems += error.problems
        return (), 0, ""
    recent = {entry.line: entry for entry in entries if entry.date >= since}
    found = []
    for part in (part for top in sections(document) for part in (top, *sections(document, top))):
        entry = recent.get(part.line)
        if entry is not None:
            said = _paragraph(document, part)
            found.append(Decided(entry.date, plain(entry.title), said, value(document, part, "Status")))
    return tuple(found), len(entries), value(document, header(document), "Started")


def _paragraph(document: Document, part: Part) -> str:
    first = value(document, part, "Decision")
    try:
        below = labelled(document, part, "Decision")
    except MarkdownError:
        below = None
    more = document.text(below.body, below.content_end) if below else ""
    text = " ".join(f"{first} {plain(more)}".split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"


def _rules(root: Path, texts: Mapping[str, bytes | None], problems: list[Problem]) -> RulesSaid | None:
    text = texts[rules.PATH]
    if text is None:
        return None
    pool, found = rules.read_pool(text, approved=approved_of(texts))
    problems += found
    pool = _as_settings_say(root, pool)
    try:
        document = opened(rules.PATH, text)
    except StateError:
        return None
    top = header(document)
    asked = section_like(document, "Approval Gates")
    listed: Sequence[str] = []
    if asked is not None:
        try:
            needed = labelled(document, asked, "The user's approval is needed for") or asked
        except MarkdownError:
            needed = asked
        listed = [plain(item.text) for item in items(document, needed)]
    said = value(document, top, "Version"), value(document, top, "Last Updated")
    return RulesSaid(*said, pool, tuple(listed))


def _as_settings_say(root: Path, pool: rules.Pool) -> rules.Pool:
    """Return the pool with the agents enabled that a run would consider enabled."""
    try:
        settings = read_settings(root)
    except Refusal:
        return pool  # nothing runs with such settings; whoever needs them says what is wrong
    return pool._replace(enabled={name: settings.is_enabled(name) for name in pool.enabled})


def _git(repository: Repository, problems: list[Problem]) -> tuple[Head, tuple[str, ...]]:
    try:
        repo = UserRepo(repository)
        busy = repo.in_progress()
        if busy:
            what = f"{busy} is in progress"
            problems.append(Problem(".git", what, "finish or abort it first", "warning"))
        return repo.head(), tuple(repo.uncommitted())
    except RepoBlocked as blocked:
        problems += blocked.problems
        return Head(None, None), ()


def _changed(
    repository: Repository, texts: Mapping[str, bytes | None], uncommitted: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the state files that were changed for more than the roster of runs, and those runs."""
    paths = tuple(path for path in STATE_FILES if path in uncommitted)
    text = texts[status_reading.PATH]
    shown = shown_runs(repository, text) if text and status_reading.PATH in paths else None
    if shown is None:
        return paths, ()
    return tuple(path for path in paths if path != status_reading.PATH), shown


def _behind(repository: Repository, status: Status | None, head: Head) -> int:
    stamp = stamp_of(status)
    if head.sha is None or stamp is None:
        return 0
    # To the minute in the file: a commit within it may be the very one that wrote it.
    since = f"--since={(stamp + timedelta(minutes=1)).isoformat()}Z"
    try:
        said = git_line("rev-list", "--count", since, head.sha, cwd=repository.root)
    except GitError:
        return 0
    return int(said) if said.isdigit() else 0


def days_between(earlier: date, later: date) -> int:
    """Count the days from one date to another."""
    return (later - earlier).days
