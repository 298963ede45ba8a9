"""`checkpoint write|list|show`: how far each agent has come with a feature, in docs/progress/."""

from collections import Counter
from typing import Any, Literal

from orchestrator.commands._record import Writer, given, read_back, writer_of
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller
from orchestrator.errors import Refusal
from orchestrator.report.checkpoints import facts_of, has_template, read_checkpoints
from orchestrator.settings.recording import read_recording
from orchestrator.state.canonical.status.read import PATH as STATUS
from orchestrator.state.canonical.status.read import read as read_status
from orchestrator.state.canonical.status.read import slug as phase_slug
from orchestrator.state.checkpoints.form import STANDINGS, Checkpoint
from orchestrator.state.checkpoints.names import FOLDER, paths_of, same_pair, slug
from orchestrator.state.checkpoints.read import read
from orchestrator.state.events import CheckpointWritten, Stage, Standing
from orchestrator.step import Step, Waits, step_keys
from tickets.problems import Problem
from tickets.value import Value
from tickets.wording import some_of

LEAD = "lead"
"""The agent of a checkpoint that a lead writes of its own work."""


class Arguments(Value):
    """The arguments of `checkpoint`."""

    action: Literal["write", "list", "show"]
    feature: str = ""
    said: str = ""
    """The last action."""
    agent: str = ""
    """Empty: the lead; to show: the only one of the feature."""
    team: str = ""
    stage: Stage | None = None
    status: Standing = "in_progress"
    note: tuple[str, ...] = ()
    all: bool = False
    """List complete ones, too."""


def call(caller: Caller, arguments: Arguments) -> Answer[None]:
    """Write a checkpoint, or show what there is."""
    writer = writer_of(caller)
    if arguments.action == "write":
        return _write(writer, arguments)
    if arguments.action == "show":
        return _show(writer, arguments)
    found, problems = read_checkpoints(writer.repository)
    team = arguments.team.strip().casefold()
    listed = [one for one in found if not team or one.team.casefold() == team]
    counts = Counter(one.status for one in listed)
    shown = [one for one in listed if arguments.all or one.status != "complete"]
    shown.sort(key=lambda one: one.updated, reverse=True)
    return answer(
        problems,
        "orchestrate status",
        checkpoints=list(map(facts_of, shown)),
        counts={status: counts[status] for status in STANDINGS},
    )


def _write(writer: Writer, arguments: Arguments) -> Answer[None]:
    from orchestrator.store.store import Store  # noqa: PLC0415 - to list and show needs none of it

    feature, said = given("FEATURE", arguments.feature), given("--action", arguments.said)
    agent = read_back(arguments.agent).strip() or LEAD
    notes = tuple(given("--note", note) for note in arguments.note)
    before = _of_pair(writer, feature, agent)
    event = CheckpointWritten(
        feature, agent, arguments.status, said, writer.at, notes=notes, stage=arguments.stage,
        team=read_back(arguments.team).strip() or ("" if before else _current_phase(writer)),
    )  # fmt: skip
    families, _ = read_recording(writer.repository.root)
    # Its commit is the next one of the state: a checkpoint is written often, and tells no more than its file.
    done = Store(writer.repository).record([event], families=families, message="", commit=False, is_run=True)
    made = _of_pair(writer, feature, agent)
    if made is None:
        raise Refusal(Problem(FOLDER, "the checkpoint is gone again", "write it again"))
    return answer(
        done.problems,
        "orchestrate status",
        checkpoint=_in_full(made),
        changed=list(done.changed),
        commit=None,
    )


def _show(writer: Writer, arguments: Arguments) -> Answer[None]:
    feature = given("FEATURE", arguments.feature)
    found, problems = read_checkpoints(writer.repository)
    same = [one for one in found if slug(one.feature) == slug(feature)]
    chosen = [one for one in same if not arguments.agent or slug(one.agent) == slug(arguments.agent)]
    if len(chosen) != 1:
        lists = "orchestrate checkpoint list --all"
        if not chosen:
            known = some_of(sorted({one.feature for one in found}))
            what = f"there is no checkpoint of `{read_back(feature)}`"
            what += f" by `{read_back(arguments.agent)}`" if arguments.agent and same else ""
            raise Refusal(Problem(FOLDER, what, f"there are: {known}" if known else lists), next_action=lists)
        named = some_of([one.agent for one in chosen])
        what = f"`{read_back(feature)}` has the checkpoints of {named}"
        raise Refusal(Problem(FOLDER, what, "name one: `--agent`"), next_action=lists)
    path = chosen[0].path
    text = writer.text(path)
    whole = read(path, text) if text is not None else None
    if whole is None:
        raise Refusal(Problem(path, "the checkpoint is gone", "ask again"))
    left, step = _left(writer, whole)
    return answer(problems, step, checkpoint={**_in_full(whole), **left, **step_keys(step)})


def _left(writer: Writer, one: Checkpoint) -> tuple[dict[str, Any], Step]:
    """Return what a run here has of the work of a checkpoint, and the step that goes on with it."""
    from orchestrator.prepare.continuing import left_of  # noqa: PLC0415 - `list` needs none of it
    from orchestrator.runs.next_action import STATUS as TO_STATUS  # noqa: PLC0415 - as above
    from orchestrator.runs.next_action import going_on, next_of_run  # noqa: PLC0415 - as above
    from orchestrator.store.repo import UserRepo  # noqa: PLC0415 - as above

    repository = writer.repository
    found = left_of(repository, one.team, one.agent, UserRepo(repository).head().sha or "")
    step: Step = TO_STATUS
    if found is not None and found.state.is_unfinished:
        step = next_of_run(found.state, writer.at)
    elif one.status != "complete" and has_template(repository.root, one):
        step = going_on(one.team, [one.agent])
        if one.status != "in_progress":
            step = Waits("lead", f"{one.agent} is {one.status}: {one.last_action}; then `{step}`")
    none: dict[str, Any] = {
        "run": None,
        "worker": None,
        "ticket": None,
        "from": "notes",
        "changed_since": [],
        "kept": None,
    }
    if found is None:
        return none, step
    kept = {
        "thread": found.thread,
        "patch": found.patch,
        "worktree": found.worktree,
        "files": list(found.files),
    }
    return {
        "run": found.state.run.id,
        "worker": found.worker.worker,
        "ticket": one.agent,
        "from": found.origin,
        "changed_since": list(found.changed_since),
        "kept": kept,
    }, step


def _of_pair(writer: Writer, feature: str, agent: str) -> Checkpoint | None:
    """Return the checkpoint of a pair. Raises StateError where a file in its place cannot be read."""
    for path in paths_of(feature, agent):
        text = writer.text(path)
        if text is None:
            return None
        found = read(path, text)
        if found and same_pair((found.feature, found.agent), (feature, agent)):
            return found
    raise AssertionError("the names never end")


def _current_phase(writer: Writer) -> str:
    """Return the short name of the current phase; empty where STATUS.md does not tell it."""
    text = writer.text(STATUS)
    current = read_status(text).current if text else None
    return phase_slug(current.title) if current else ""


def _in_full(one: Checkpoint) -> dict[str, Any]:
    return {**facts_of(one), "notes": [{"at": note.at, "text": note.text} for note in one.notes]}
