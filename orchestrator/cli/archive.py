"""`orchestrate archive`: completed phases, old decisions and TODO items leave the state files."""

import argparse
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from orchestrator.archiving import Archived, archived, targets
from orchestrator.cli.answer import Answer, clean, envelope, problem_lines
from orchestrator.cli.calling import now, repository_of
from orchestrator.reading import read_file, read_state
from orchestrator.settings import read_settings
from orchestrator.standing import STATE_FILES
from orchestrator.state.canonical import backlog
from orchestrator.state.canonical.status_reading import PATH
from orchestrator.state.opening import present
from orchestrator.store import Recorded, Store, Texts
from tickets.markdown import parse, plain
from workers.git import git

DAYS = 30
"""Days after which an open P2 item is put off, where nobody says otherwise."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `archive` takes."""
    parser.add_argument("--dry-run", action="store_true", help="only say what would move")
    parser.add_argument("--older-than", type=int, default=DAYS, metavar="DAYS",
                        help=f"put off open P2 items that are so old (default: {DAYS})")  # fmt: skip
    parser.add_argument("--no-commit", action="store_true", help="leave what was written uncommitted")


def answer(arguments: argparse.Namespace) -> Answer:
    """Move what is old, as one change."""
    repository, at = repository_of(arguments), now()
    root = repository.root
    texts: Texts = {path: read_state(root, path) for path in (*STATE_FILES, backlog.PATH)}
    for path in (PATH, "DECISIONS.md"):
        present(path, texts[path])
    more = targets(texts)
    old = _unchanged_since(root, at - timedelta(days=arguments.older_than), texts[PATH] or b"")
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
        days = arguments.older_than
        next_action = "orchestrate archive" + (f" --older-than {days}" if days != DAYS else "")
    document = envelope(
        done.problems, next_action, ok=not errors, dry_run=arguments.dry_run,
        moved=[one._asdict() for one in plan.moved], changed=list(done.changed), commit=done.commit,
    )  # fmt: skip
    return Answer(
        1 if errors else 0, document, (*_lines(document), *problem_lines(done.problems, next_action))
    )


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
