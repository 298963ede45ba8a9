"""`archive`: packs old entries of the state files and old runs, and deletes old archives."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from orchestrator.archive.garbage import Garbage, collect, find
from orchestrator.archive.runs import (
    OldRun,
    PackedRun,
    RetentionLimits,
    delete_packed,
    held_archive,
    pack_runs,
    packed_runs,
    remains,
    select_runs,
)
from orchestrator.archive.state_entries import Archived, archived, targets
from orchestrator.commands._old_checkpoints import archive_checkpoints
from orchestrator.commands._sessions import archive_sessions
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller, repository_of
from orchestrator.errors import HELD, Refusal
from orchestrator.settings.settings import read_settings
from orchestrator.state import NEEDED, Tree
from orchestrator.state.canonical.status import backlog
from orchestrator.state.canonical.status.read import PATH
from orchestrator.state.document import present
from orchestrator.step import Step, Waits
from orchestrator.store.read import read_file, read_state
from orchestrator.store.store import Recorded, Store
from tickets.markdown import parse, plain
from tickets.problems import Problem
from tickets.wording import count_of
from workers.files.run_dir import ARCHIVE, RUNS
from workers.git.run import Repository, git

DAYS = 30
"""Days after which an open P2 item is put off, where no other age is stated."""


class Arguments(NamedTuple):
    """The arguments of `archive`."""

    dry_run: bool = False
    older_than: timedelta | None = None
    """What is older is moved; None: DAYS, unless another limit is stated."""
    no_commit: bool = False
    runs: bool = False
    """Old runs, instead of old entries of the state files."""
    keep: int | None = None
    """How many of the newest runs stay."""
    max_size: int | None = None
    """Bytes; the oldest runs are packed until the others fit."""
    delete_packed: bool = False
    """Delete old archives, instead of packing runs."""


def call(caller: Caller, arguments: Arguments) -> Answer[None]:
    """Move what is old: out of the state files as one change, or runs one by one."""
    repository, at = repository_of(caller), caller.now()
    if arguments.runs and arguments.delete_packed:
        return _delete_archives(arguments, repository, at)
    if arguments.runs:
        return _archive_runs(arguments, repository, at)
    return _archive_entries(arguments, repository, at)


def _archive_entries(arguments: Arguments, repository: Repository, at: datetime) -> Answer[None]:
    """Move completed phases, old decisions and TODO items out of the state files. Raises Refusal."""
    age = timedelta(days=DAYS) if arguments.older_than is None else arguments.older_than
    asked = {"--keep": arguments.keep, "--max-size": arguments.max_size}
    for option, value in {**asked, "--delete-packed": arguments.delete_packed or None}.items():
        if value is not None:
            raise Refusal(Problem(option, "is about runs", "add `--runs`"))
    root = repository.root
    texts: Tree = {path: read_state(root, path) for path in (*NEEDED, backlog.PATH)}
    for path in (PATH, "DECISIONS.md"):
        present(path, texts[path])
    more = targets(texts)
    old = _unchanged_since(root, at - age, texts[PATH] or b"")
    plan = archived({**texts, **{path: read_file(root, path) for path in more}}, at, old)
    commits = not (arguments.dry_run or arguments.no_commit) and read_settings(root).git.commit != "never"
    done = Recorded((), None, ())
    if plan.moved and not arguments.dry_run:
        made: list[Archived] = []

        def moving(now_there: Tree) -> dict[str, bytes]:
            made.append(archived(now_there, at, old))
            return made[-1].texts

        done = Store(repository).change(
            moving,
            paths=tuple(path for path in more if path not in texts),
            message=_message(plan),
            commit=commits,
        )
        plan = made[-1] if made else plan
    retired, closed = archive_sessions(repository, at, dry_run=arguments.dry_run, commit=commits)
    old_ones, gone = archive_checkpoints(repository, at, age, dry_run=arguments.dry_run, commit=commits)
    moved = [*(one._asdict() for one in plan.moved), *retired, *old_ones]
    next_action = "orchestrate status"
    if moved and arguments.dry_run:
        next_action = "orchestrate archive" + (f" --older-than {_spelled(age)}" if age.days != DAYS else "")
    all_ = (done, closed, gone)
    return answer(
        [problem for one in all_ for problem in one.problems], next_action, dry_run=arguments.dry_run,
        moved=moved,
        changed=sorted({path for one in all_ for path in one.changed}),
        commit=gone.commit or closed.commit or done.commit,
    )  # fmt: skip


def _unchanged_since(root: Path, until: datetime, text: bytes) -> set[str]:
    """Return the list items of STATUS.md whose line was committed before a moment and is unchanged since."""
    said = git("blame", "--line-porcelain", "--", PATH, cwd=root, check=False).decode("utf-8", "replace")
    old: set[int] = set()
    number = 0
    for line in said.split("\n"):
        if line.startswith("\t"):
            number += 1
        elif line.startswith("committer-time ") and int(line.split()[1]) < until.timestamp():
            old.add(number + 1)
    return {plain(item.text) for item in parse(text, PATH).items if item.line in old}


def _message(plan: Archived) -> str:
    counts = {kind: sum(one.kind == kind for one in plan.moved) for kind in ("phase", "decision", "todo")}
    words = {"phase": "phase", "decision": "decision", "todo": "TODO item"}
    said = [count_of(number, words[kind]) for kind, number in counts.items() if number]
    return f"Archive {', '.join(said)}\n"


def _archive_runs(arguments: Arguments, repository: Repository, at: datetime) -> Answer[None]:
    """Choose the runs to pack, and pack them unless it is a dry run. Raises Refusal."""
    if arguments.keep is not None and arguments.keep < 1:
        what = "the newest run always stays: `status`, `report` and `last` are about it"
        raise Refusal(Problem("--keep", what, "write 1 or more"))
    limits = _limits(arguments)
    problems: list[Problem] = []
    found: list[OldRun] = []
    if arguments.dry_run:
        found = select_runs(repository, limits, at)
        deleted = find(repository, at, going=[one.run for one in found if not one.reason])
    elif any((repository.root / folder).is_dir() for folder in (RUNS, ARCHIVE)):
        with held_archive(repository) as free:
            _refuse_busy(free=free)
            found, failed = pack_runs(repository, select_runs(repository, limits, at))
            deleted, left_over = collect(repository, at)
            problems += [*failed, *left_over, *remains(repository)]
    else:
        deleted, problems = collect(repository, at)
    left = sum(one.bytes for one in found if one.reason)
    if limits.size is not None and left > limits.size:
        what = f"the runs that stay take {size_of(left)}, and {size_of(limits.size)} were allowed"
        problems.append(Problem(".taskers/runs", what, "see why each of them stays", "warning"))
    return _answer_about_runs(arguments, found, deleted, problems)


def _refuse_busy(*, free: bool) -> None:
    """Raise Refusal while another process packs runs or deletes archives."""
    if not free:
        what = "another process packs runs into it"
        raise Refusal(Problem(ARCHIVE, what, "wait until it is done"), exit_code=HELD)


def _limits(arguments: Arguments) -> RetentionLimits:
    age = arguments.older_than
    if age is None and arguments.keep is None and arguments.max_size is None:
        age = timedelta(days=DAYS)
    return RetentionLimits(None if age is None else age.total_seconds(), arguments.keep, arguments.max_size)


def _answer_about_runs(
    arguments: Arguments, found: Sequence[OldRun], deleted: Sequence[Garbage], problems: list[Problem]
) -> Answer[None]:
    moved = [
        {"kind": "run", "what": one.run.id, "to": one.archive, "bytes": one.bytes,
         "archive_bytes": one.archive_bytes}
        for one in found if not one.reason
    ]  # fmt: skip
    kept = [{"run": one.run.id, "reason": one.reason, "bytes": one.bytes} for one in found if one.reason]
    next_action = "orchestrate status"
    if arguments.dry_run and (moved or deleted):
        next_action = _again(arguments)
    return answer(
        problems, next_action, dry_run=arguments.dry_run, moved=moved, kept=kept,
        deleted=[{"what": one.what, "reason": one.reason, "bytes": one.bytes} for one in deleted],
        bytes=sum(one.bytes for one in found if not one.reason) + sum(one.bytes for one in deleted),
    )  # fmt: skip


def _again(arguments: Arguments) -> str:
    said = "orchestrate archive --runs"
    said += f" --older-than {_spelled(arguments.older_than)}" if arguments.older_than is not None else ""
    said += f" --keep {arguments.keep}" if arguments.keep is not None else ""
    return said + (f" --max-size {arguments.max_size}" if arguments.max_size is not None else "")


def _delete_archives(arguments: Arguments, repository: Repository, at: datetime) -> Answer[None]:
    """Choose the archives to delete, and delete them unless it is a dry run. Raises Refusal."""
    root, age = repository.root, _age_of_archives(arguments)
    problems: list[Problem] = []
    if arguments.dry_run or not (root / ARCHIVE).is_dir():
        found = packed_runs(root, age, at)
    else:
        # Completes what was interrupted: a run that was being packed is whole in one place.
        with held_archive(repository) as free:
            _refuse_busy(free=free)
            problems += remains(repository)
            found = [_deleted(one, problems) for one in packed_runs(root, age, at)]
    deleted = [
        {"what": one.archive, "reason": "it is old enough", "bytes": one.bytes}
        for one in found if not one.reason
    ]  # fmt: skip
    next_action: Step = "orchestrate status"
    if arguments.dry_run and deleted:
        command = f"orchestrate archive --runs --delete-packed --older-than {_spelled(age)}"
        next_action = Waits("lead", f"`{command}` deletes them for good, if that is wanted")
    kept = [{"run": one.run.id, "reason": one.reason, "bytes": one.bytes} for one in found if one.reason]
    return answer(
        problems, next_action, dry_run=arguments.dry_run, moved=[], kept=kept, deleted=deleted,
        bytes=sum(one.bytes for one in found if not one.reason),
    )  # fmt: skip


def _age_of_archives(arguments: Arguments) -> timedelta:
    if arguments.older_than is None:
        what = "deletes permanently, so there is no default age"
        raise Refusal(Problem("--delete-packed", what, "state an age: `--older-than 180d`"))
    for option, value in (("--keep", arguments.keep), ("--max-size", arguments.max_size)):
        if value is not None:
            raise Refusal(Problem(option, "is about runs that are not packed", "leave it out"))
    return arguments.older_than


def _deleted(one: PackedRun, problems: list[Problem]) -> PackedRun:
    if one.reason:
        return one
    try:
        delete_packed(one)
    except OSError as error:
        reason = f"could not be deleted: {(error.strerror or 'no reason given').lower()}"
        problems.append(Problem(one.archive, reason, "fix that and call again"))
        return one._replace(reason=reason)
    return one


def _spelled(age: timedelta) -> str:
    """Format an age as the option accepts it."""
    hours = age // timedelta(hours=1)
    return f"{hours}h" if hours % 24 else str(hours // 24)


def size_of(number: int) -> str:
    """Format a number of bytes in short."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number} bytes"
