"""`context`: the active context of the lead's task, in ai_memory/active_context.md."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any, Literal

from orchestrator.commands._record import Writer, given, read_back, writer_of
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller
from orchestrator.errors import Refusal
from orchestrator.redaction import redactor_of
from orchestrator.report.context_check import Basis, checked
from orchestrator.report.context_facts import code_of, facts_of, language_of, scopes_of
from orchestrator.report.sessions import sessions_of
from orchestrator.report.situation import Situation
from orchestrator.settings.recording import read_recording
from orchestrator.settings.settings import Settings
from orchestrator.state.ai_memory.context import is_empty, synced, tokens_of
from orchestrator.state.ai_memory.context_copies import goal_of, item
from orchestrator.state.ai_memory.context_diff import edits_between
from orchestrator.state.ai_memory.context_keys import SECTION_OF, SECTIONS, UNSTATED, WORDS, key_named
from orchestrator.state.ai_memory.context_read import PATH, Context, read
from orchestrator.state.ai_memory.context_tasks import file_of
from orchestrator.state.ai_memory.context_write import ContextEdit
from orchestrator.state.canonical.decisions.read import PATH as DECISIONS
from orchestrator.state.canonical.status.read import PATH as STATUS
from orchestrator.state.document import editable
from orchestrator.state.events import ContextArchived, ContextSwitched, ContextSynced
from orchestrator.step import Step, Waits
from orchestrator.store.repo import UserRepo
from orchestrator.store.store import Store
from tickets.problems import Problem, ProblemError
from tickets.types import AgentName
from tickets.value import Value
from tickets.wording import some_of

FAMILY = "ai_memory"
SHOW = "orchestrate context show"
CHECK = "orchestrate context check"
LONGEST_ID = 24
_ID = re.compile(r"[A-Z][A-Z0-9-]{0,30}-\d{3,}")
_KNOWN_ID = re.compile(r"\b[A-Z][A-Z0-9-]*-\d{3,}\b")


class Arguments(Value):
    """The arguments of `context`."""

    action: Literal["init", "show", "sync", "check", "export", "switch", "archive"]
    full: bool = False
    """Write all 23 sections with all keys."""
    complete: bool = False
    """Add what a file of another shape lacks."""
    replace: bool = False
    """Move a file of another shape away, and write a new one."""
    id: str = ""
    set: tuple[str, ...] = ()
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    dry_run: bool = False
    no_commit: bool = False
    section: str = ""
    max_tokens: int | None = None
    task: str = ""
    """The id of the task to turn to, or `new`."""
    goal: str = ""
    reason: str = ""
    force: bool = False
    summary: str = ""
    verified: str = ""
    following: str = ""
    agent: AgentName | None = None
    write: bool = False


class _Lead(Value):
    """The writer of the context, and what is known of the project."""

    writer: Writer
    found: Situation
    settings: Settings | None

    @property
    def budget(self) -> int:
        """Return the tokens that the file may have."""
        return self.settings.context.budget if self.settings else 2000


def call(caller: Caller, arguments: Arguments) -> Answer[None]:
    """Write, show, synchronize or check the active context."""
    writer = writer_of(caller)
    families, _ = read_recording(writer.repository.root)
    if FAMILY not in families:
        what = f"the family `{FAMILY}` is off, and with it the active context"
        raise Refusal(Problem("context", what, f"`orchestrate init --with {FAMILY}` turns it on"))
    found = Situation(writer.repository, writer.at)
    lead = _Lead(writer, found, _settings(found))
    match arguments.action:
        case "init":
            return _init(lead, arguments)
        case "sync":
            return _sync(lead, arguments)
        case "show":
            return _show(lead, arguments)
        case "switch" | "archive":
            return _turn(lead, arguments)
        case "export":
            from orchestrator.commands._context_export import export  # noqa: PLC0415 - the others need none of it

            assert arguments.agent is not None  # noqa: S101 - the option is required
            return export(writer, arguments.agent, write=arguments.write)
        case _:
            return _check(lead)


def at_handoff(caller: Caller, *, writes: bool) -> list[Problem]:
    """Bring the context up to date, without a commit of its own; return what its check finds, as warnings."""
    writer = writer_of(caller)
    if FAMILY not in read_recording(writer.repository.root).families:
        return []
    found = Situation(writer.repository, writer.at)
    lead = _Lead(writer, found, _settings(found))
    try:
        problems: Sequence[Problem] = ()
        if writes:
            problems = _sync(lead, Arguments("sync", no_commit=True)).problems
            lead = lead._replace(found=Situation(writer.repository, writer.at))
        problems = (*problems, *(one for one in _check(lead).problems if one.severity != "info"))
    except ProblemError as error:
        problems = error.problems
    return [one._replace(severity="warning") for one in problems]


def _settings(found: Situation) -> Settings | None:
    try:
        return found.settings
    except Refusal:
        return None  # `validate` reports them; the context needs few of them


def _init(lead: _Lead, arguments: Arguments) -> Answer[None]:
    text = lead.writer.text(PATH)
    if arguments.complete and arguments.replace:
        raise Refusal(
            Problem("context init", "`--complete` and `--replace` exclude each other", "leave one out")
        )
    moved: list[dict[str, str]] = []
    more: dict[str, bytes] = {}
    if not is_empty(text):
        assert text is not None  # noqa: S101 - it is not empty
        context = _read(text)
        if not context.sections and not (arguments.complete or arguments.replace):
            what = "the file has none of the sections of an active context"
            do = "`--replace` moves it away and writes a new one, `--complete` adds the sections to it"
            raise Refusal(Problem(PATH, what, do))
        if arguments.replace:
            to = _free_name(lead)
            moved, more, text = [{"what": PATH, "to": to}], {to: text}, None
    event = _event(lead, arguments, text, begins=True)
    if moved:
        also = (item(moved[0]["to"], "sync"),)
        lists = [(name, (*lines, *(also if name == "related_docs" else ()))) for name, lines in event.lists]
        event = event._replace(lists=tuple(lists))
    return _recorded(lead, arguments, event, more, moved)


def _sync(lead: _Lead, arguments: Arguments) -> Answer[None]:
    text = lead.writer.text(PATH)
    event = _event(lead, arguments, text, begins=False)
    return _recorded(lead, arguments, event, {}, [])


def _turn(lead: _Lead, arguments: Arguments) -> Answer[None]:
    """Put the current task aside, or away for good, and turn to another one."""
    from orchestrator.commands._context_tasks import archived, switched  # noqa: PLC0415 - the others need none of it

    text = _there(lead)
    context, words = _read(text), arguments._asdict()
    sessions = sessions_of(lead.found)
    is_new = arguments.task == "new"
    event = _event(lead, arguments, text, begins=False)
    made: ContextSwitched | ContextArchived
    if arguments.action == "archive":
        made, message = archived(lead.writer, context, event, words, sessions), "Archive a task"
    else:
        if is_new:
            deliverable = lead.found.status.deliverable.name if lead.found.status else ""
            words["id"] = _task_id(lead, arguments.id, deliverable)
            event = event._replace(once=tuple(_once(lead, words["id"])))
            goal = arguments.goal or goal_of({STATUS: lead.writer.text(STATUS)})
            words["goal"] = goal
        made, message = switched(lead.writer, context, event, words, sessions), "Turn to another task"
    switch = made.switch if isinstance(made, ContextArchived) else made
    moved = [{"what": switch.old, "to": file_of(switch.old)}] if switch.old else []
    return _recorded(lead, arguments, made, {}, moved, message=message)


def _once(lead: _Lead, task_id: str) -> list[tuple[str, str]]:
    """Return what is set once for a new task."""
    return [
        ("language", language_of(lead.settings)),
        ("task_id", task_id),
        ("goal", goal_of({STATUS: lead.writer.text(STATUS)})),
        ("scope_in", scopes_of(_tickets(lead)) or UNSTATED),
        ("scope_out", UNSTATED),
    ]


def _event(lead: _Lead, arguments: Arguments, text: bytes | None, *, begins: bool) -> ContextSynced:
    """Return the event of a synchronization, with the facts as of now."""
    context = None if is_empty(text) else _read(text or b"")
    facts = facts_of(lead.found, context, asks_versions=not arguments.dry_run)
    is_new = context is None
    once: list[tuple[str, str]] = []
    lists = list(facts.lists)
    if is_new or begins:
        tickets = _tickets(lead)
        deliverable = lead.found.status.deliverable.name if lead.found.status else ""
        once = _once(lead, _task_id(lead, arguments.id, deliverable))
        if arguments.full:
            once.append(("task_started", f"{lead.writer.at.astimezone(UTC):%Y-%m-%d}"))
            lists.append(("resume_recipe", _recipe(lead)))
        lists = [*(one for one in lists if one[0] != "related_code"), ("related_code", code_of(tickets))]
    sets, adds, drops = (_pairs(name, getattr(arguments, name)) for name in ("set", "add", "drop"))
    is_lost = is_new and not begins and (text is not None or _was_committed(lead))
    return ContextSynced(
        lead.writer.at, lead.writer.lead, facts.texts, tuple(once), tuple(lists), facts.blocked, sets, adds,
        drops,
        begins=begins or is_new, full=arguments.full, is_lost=is_lost,
        budget=lead.budget,
    )  # fmt: skip


def _recorded(
    lead: _Lead,
    arguments: Arguments,
    event: ContextSynced | ContextSwitched | ContextArchived,
    more: Mapping[str, bytes],
    moved: Sequence[Mapping[str, str]],
    *,
    message: str = "Synchronize the active context",
) -> Answer[None]:
    """Record the event, or show what it would change, and answer with the edits."""
    writer = lead.writer
    before = None if more else writer.text(PATH)
    problems: list[Problem] = []
    changed: list[str] = []
    commit: str | None = None
    if arguments.dry_run:
        assert isinstance(event, ContextSynced)  # noqa: S101 - the others have no such option
        tree = {path: writer.text(path) for path in (PATH, STATUS, DECISIONS)}
        after = synced(tree, event).data
    else:
        families, commits = read_recording(writer.repository.root)
        store = Store(writer.repository)
        message = f"{message}\n\n- by {writer.lead}\n"
        if more:
            store.write({**more, PATH: b""}, message="Move the active context away", commit=False)
        done = store.record(
            [event], families=families, message=message, commit=commits and not arguments.no_commit
        )
        problems, changed, commit = list(done.problems), list(done.changed), done.commit
        after = writer.text(PATH) or b""
    edits = edits_between(before, after)
    return answer(
        problems,
        CHECK,
        context=_facts(after, lead.budget),
        edits=[one._asdict() for one in edits],
        moved=list(moved),
        changed=changed,
        commit=commit,
    )


def _show(lead: _Lead, arguments: Arguments) -> Answer[None]:
    text = _there(lead)
    context = _read(text)
    shown: dict[str, Any] = {}
    for one in context.sections:
        said: dict[str, Any] = {}
        for key in one.keys:
            listed = [{"text": each.text, "source": each.source or None} for each in key.items]
            said[key.name] = listed if key.items or _is_list(key.name) else key.value
        if one.items and not one.section.keys:
            said["items"] = [{"text": each.text, "source": each.source or None} for each in one.items]
        shown[one.section.title] = said
    left_out: list[str] = []
    if arguments.section:
        wanted = _section_title(arguments.section)
        if wanted not in shown:
            raise Refusal(
                Problem("--section", f"there is no section `{wanted}`", f"there are: {some_of([*shown], 23)}")
            )
        shown = {wanted: shown[wanted]}
    secondary = [
        {"task_id": one.task_id, "goal": one.goal, "status": one.status, "next": one.next}
        for one in context.secondary
    ]
    if arguments.max_tokens is not None:
        for section in reversed(SECTIONS):
            if tokens_of(str(shown).encode()) <= arguments.max_tokens:
                break
            if section.title in shown and not section.mandatory:
                left_out.append(section.title)
                del shown[section.title]
    return answer(
        [], CHECK, path=PATH, tokens=tokens_of(text), sections=shown, secondary=secondary, left_out=left_out
    )


def _check(lead: _Lead) -> Answer[None]:
    text = _there(lead)
    behind = _behind(lead, text)
    before = UserRepo(lead.writer.repository).committed(PATH) if lead.found.head.sha else b""
    redactor = redactor_of(lead.writer.repository.root, lead.writer.environ)
    points = checked(text, lead.found, Basis(behind, before or None, redactor, lead.budget))
    problems = [problem for point in points for problem in point.problems()]
    failed = [point for point in points if not point.ok and point.grade != "info"]
    step: Step = "orchestrate status"
    if failed:
        fix = next(one.do for point in failed for one in point.lacks)
        first = failed[0].lacks[0]
        is_sync = fix == "`orchestrate context sync`"
        step = "orchestrate context sync" if is_sync else Waits("lead", f"{first.what}: {first.do}")
    shown = answer(
        problems, step, context=_facts(text, lead.budget), points=[one.as_json() for one in points]
    )
    return shown._replace(exit_code=1 if failed else 0)


def _behind(lead: _Lead, text: bytes) -> list[ContextEdit]:
    """Return what a synchronization would change."""
    event = _event(lead, Arguments("sync", dry_run=True), text, begins=False)
    tree = {path: lead.writer.text(path) for path in (PATH, STATUS, DECISIONS)}
    return edits_between(text, synced(tree, event).data)


def _there(lead: _Lead) -> bytes:
    text = lead.writer.text(PATH)
    if is_empty(text):
        what = "there is no active context" if text is None else "the active context is empty"
        raise Refusal(Problem(PATH, what, "`orchestrate context sync` builds it from the other files"))
    return text or b""


def _read(text: bytes) -> Context:
    editable(PATH, {PATH: text})
    return read(text)


def _facts(text: bytes, budget: int) -> dict[str, Any]:
    context = read(text)
    return {
        "path": PATH, "task_id": context.text("task_id"), "goal": context.text("goal"),
        "tokens": tokens_of(text), "budget": budget,
    }  # fmt: skip


def _is_list(name: str) -> bool:
    section = SECTION_OF.get(name)
    return section is not None and any(key.name == name and key.is_list for key in section.keys)


def _pairs(option: str, words: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the keys and texts of `--set KEY=TEXT`. Raises Refusal for what is no key of the lead's."""
    found: list[tuple[str, str]] = []
    for word in words:
        name, sign, text = word.partition("=")
        name = name.strip()
        place = f"--{option} {name}"
        if not sign:
            raise Refusal(Problem(f"--{option}", f"`{read_back(word)}` has no `=`", "write it as KEY=TEXT"))
        known = _named(place, name, is_word=option != "set")
        keeper = key_named(known).keeper if known in SECTION_OF else ""
        if known == "task_id":
            raise Refusal(
                Problem(place, "the task is changed by `context switch` alone", "leave it as it is")
            )
        if keeper == "runtime" and known != "plan":
            raise Refusal(Problem(place, "the runtime keeps this key", "leave it out"))
        if option != "set" and known in SECTION_OF and not _is_list(known):
            raise Refusal(Problem(place, "this key is no list", f"`--set {known}=TEXT`"))
        found.append((known, given(place, text)))
    return tuple(found)


def _named(place: str, name: str, *, is_word: bool) -> str:
    known: list[str] = [*SECTION_OF, *(WORDS if is_word else ())]
    if name in known:
        return name
    near = [one for one in known if one.startswith(name.lower().replace("-", "_")) and name]
    if len(near) == 1:
        return near[0]
    if near:
        raise Refusal(Problem(place, f"`{read_back(name)}` may be {some_of(near)}", "write the whole key"))
    there = f"there are: {some_of(sorted(known), len(known))}"
    raise Refusal(Problem(place, f"there is no key `{read_back(name)}`", there))


def _section_title(word: str) -> str:
    folded = word.strip().casefold()
    found = [
        one.title for one in SECTIONS if one.title.casefold().startswith(folded) or str(one.number) == folded
    ]
    if len(found) == 1:
        return found[0]
    titles = some_of([one.title for one in SECTIONS], 23)
    what = (
        f"`{read_back(word)}` may be {some_of(found)}"
        if found
        else f"there is no section `{read_back(word)}`"
    )
    raise Refusal(Problem("--section", what, f"there are: {titles}"))


def _task_id(lead: _Lead, asked: str, deliverable: str) -> str:
    """Return the id of a new task, which no other has had. Raises Refusal for one that is taken."""
    taken = _known_ids(lead)
    if asked:
        if not _ID.fullmatch(asked):
            what, do = f"`{read_back(asked)}` is no task id", "write it as PARSER-001"
            raise Refusal(Problem("--id", what, do))
        if asked in taken:
            raise Refusal(Problem("--id", f"`{asked}` is taken", "name another"))
        return asked
    words = re.findall(r"[A-Z0-9]+", deliverable.upper())[:3] or ["TASK"]
    stem = "-".join(words)[:LONGEST_ID].rstrip("-")
    stem = stem if stem[:1].isalpha() else f"T-{stem}"
    number = next(number for number in range(1, 10**6) if f"{stem}-{number:03}" not in taken)
    return f"{stem}-{number:03}"


def _known_ids(lead: _Lead) -> set[str]:
    folder = lead.writer.repository.root / "ai_memory"
    found: set[str] = set()
    for path in folder.glob("*.md") if folder.is_dir() else ():
        try:
            text = lead.writer.text(path.relative_to(lead.writer.repository.root).as_posix()) or b""
        except ProblemError:
            continue  # what cannot be read names no task
        found |= set(_KNOWN_ID.findall(text.decode("utf-8", "replace")))
        found.add(path.name.removesuffix("_ctx.md").upper())
    return found


def _tickets(lead: _Lead) -> list[Any]:
    from orchestrator.prepare.prepare import tickets_of  # noqa: PLC0415 - for start-up time: only for a new task

    phase = lead.found.status.phase_slug if lead.found.status else ""
    return tickets_of(lead.writer.repository.root, phase) if phase else []


def _recipe(lead: _Lead) -> tuple[str, ...]:
    checks = lead.settings.checks if lead.settings else None
    known: tuple[str, ...] = (checks.smoke, checks.test, checks.unit, checks.integration) if checks else ()
    tests = tuple(f"`{one}`" for one in known if one)[:1]
    return ("`orchestrate resume`", *tests, "Read the first item of `next`")


def _was_committed(lead: _Lead) -> bool:
    return bool(lead.found.head.sha) and bool(UserRepo(lead.writer.repository).committed(PATH))


def _free_name(lead: _Lead) -> str:
    stem = f"ai_memory/active_context_{lead.writer.at.astimezone(UTC):%Y-%m-%d}"
    names = [f"{stem}.md", *(f"{stem}_{number}.md" for number in range(2, 1000))]
    return next(name for name in names if lead.writer.text(name) is None)
