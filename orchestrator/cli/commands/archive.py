"""`orchestrate archive`: completed phases, old decisions and TODO items leave the state files."""

import argparse
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from orchestrator.archive.state_entries import Archived, archived, targets
from orchestrator.cli.answer import Answer, clean, envelope, problem_lines
from orchestrator.cli.calling import now, repository_of
from orchestrator.cli.commands._archived_text import spelled
from orchestrator.errors import Refusal
from orchestrator.report.gather import STATE_FILES
from orchestrator.settings.settings import read_settings
from orchestrator.settings.values import read_size
from orchestrator.state.canonical.status import backlog
from orchestrator.state.canonical.status.read import PATH
from orchestrator.state.document import present
from orchestrator.store.read import read_file, read_state
from orchestrator.store.store import Recorded, Store, Texts
from tickets.markdown import parse, plain
from tickets.problems import Problem
from workers.git.run import git

DAYS = 30
"""Days after which an open P2 item is put off, where nobody says otherwise."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `archive` takes."""
    parser.add_argument("--dry-run", action="store_true", help="only say what would move")
    parser.add_argument("--older-than", type=_age, metavar="AGE",
                        help=f"14, 14d, 2w or 36h: what is so old goes: open P2 items (default: {DAYS}d), "
                        "with `--runs` runs in which nothing happened for so long")  # fmt: skip
    parser.add_argument("--no-commit", action="store_true", help="leave what was written uncommitted")
    parser.add_argument("--runs", action="store_true", help="old runs instead, to .taskers/archive")
    parser.add_argument(
        "--keep", type=int, metavar="N", help="with `--runs`: the newest so many stay, 1 at least"
    )
    parser.add_argument("--max-size", type=_bytes, metavar="SIZE",
                        help="with `--runs`: the oldest go until the others take no more: 2GB")  # fmt: skip
    parser.add_argument("--delete-packed", action="store_true",
                        help="with `--runs --older-than`: delete archives instead of packing")  # fmt: skip


def answer(arguments: argparse.Namespace) -> Answer:
    """Move what is old: out of the state files as one change, or runs one by one."""
    repository, at = repository_of(arguments), now()
    age = timedelta(days=DAYS) if arguments.older_than is None else arguments.older_than
    if arguments.runs and arguments.delete_packed:
        from orchestrator.cli.commands._delete_packed import answer_packed  # noqa: PLC0415 - only where runs are looked at

        return answer_packed(arguments, repository, at)
    if arguments.runs:
        from orchestrator.cli.commands._archive_runs import answer_runs  # noqa: PLC0415 - only where runs are looked at

        return answer_runs(arguments, repository, at, age)
    asked = {"--keep": arguments.keep, "--max-size": arguments.max_size}
    for option, value in {**asked, "--delete-packed": arguments.delete_packed or None}.items():
        if value is not None:
            raise Refusal(Problem(option, "is about runs", "add `--runs`"))
    root = repository.root
    texts: Texts = {path: read_state(root, path) for path in (*STATE_FILES, backlog.PATH)}
    for path in (PATH, "DECISIONS.md"):
        present(path, texts[path])
    more = targets(texts)
    old = _unchanged_since(root, at - age, texts[PATH] or b"")
    plan = archived({**texts, **{path: read_file(root, path) for path in more}}, at, old)
    done = Recorded((), None, ())
    if plan.moved and not arguments.dry_run:
        made: list[Archived] = []

        def moving(now_there: Texts) -> dict[str, bytes]:
            made.append(archived(now_there, at, old))
            return made[-1].texts

        settings = read_settings(root)
        done = Store(repository).change(
            moving,
            paths=tuple(path for path in more if path not in texts),
            message=_message(plan),
            commit=settings.git.commit != "never" and not arguments.no_commit,
        )
        plan = made[-1] if made else plan
    errors = any(problem.severity == "error" for problem in done.problems)
    next_action = "orchestrate status"
    if plan.moved and arguments.dry_run:
        next_action = "orchestrate archive" + (f" --older-than {spelled(age)}" if age.days != DAYS else "")
    document = envelope(
        done.problems, next_action, ok=not errors, dry_run=arguments.dry_run,
        moved=[one._asdict() for one in plan.moved], changed=list(done.changed), commit=done.commit,
    )  # fmt: skip
    return Answer(
        1 if errors else 0, document, (*_lines(document), *problem_lines(done.problems, next_action))
    )


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"(-?[0-9]{1,5})([hdw]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"`{text}` is not an age: write 14, 14d, 2w or 36h")
    return timedelta(hours=int(found[1]) * {"h": 1, "w": 168}.get(found[2], 24))


def _bytes(text: str) -> int:
    try:
        return read_size(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"`{text}` is not a size: write 2GB or 500MiB") from None


def _unchanged_since(root: Path, until: datetime, text: bytes) -> set[str]:
    """Give the list items of STATUS.md whose line was committed before a moment and stands unchanged."""
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
    said = [f"{number} {words[kind]}{'s' * (number > 1)}" for kind, number in counts.items() if number]
    return f"Archive {', '.join(said)}\n"


def _lines(document: dict[str, Any]) -> list[str]:
    verb = "would move" if document["dry_run"] else "moved"
    lines = [f"{verb:<11} {one['kind']}: {one['what']} -> {one['to']}" for one in document["moved"]]
    lines = lines or ["nothing is old enough to move"]
    if document["commit"]:
        lines.append(f"commit      {document['commit'][:10]}")
    return [clean(line) for line in lines]
