"""`validate [PATH…]`: the problems of state files, templates and settings, graded, with lines."""

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from orchestrator.commands._record import SETTINGS, Writer, writer_of
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller
from orchestrator.errors import Refusal, StateError
from orchestrator.report.decision_history import ARCHIVES, all_edits
from orchestrator.report.validate import (
    every_template_problem,
    readable,
    settings_problems,
    templates_in,
    unrecorded_runs,
)
from orchestrator.runs.roster import shown_runs
from orchestrator.state import DOCUMENTS, NEEDED, DocumentModule
from orchestrator.state.canonical.decisions import gates
from orchestrator.state.canonical.decisions.read import PATH as DECISIONS
from orchestrator.state.canonical.habits import anti_patterns
from orchestrator.state.canonical.rules import rules
from orchestrator.state.canonical.status.read import PATH as STATUS
from orchestrator.state.document import damage
from tickets.problems import Problem
from tickets.templates.render import FOLDER
from workers.git.run import git, git_fields, git_line

ORDER = {"error": 0, "warning": 1, "info": 2}


class Arguments(NamedTuple):
    """The arguments of `validate`."""

    paths: tuple[str, ...] = ()
    """State files, templates or settings, relative to the caller's folder or to the project; empty: all."""


def call(caller: Caller, arguments: Arguments) -> Answer[None]:
    """Validate; changes nothing."""
    writer = writer_of(caller)
    root = writer.repository.root
    owned = _owned(root)
    others = [*_archives(root), *templates_in(root), *([SETTINGS] if (root / SETTINGS).exists() else [])]
    known = [*owned, *others]
    chosen = {_named(root, path, known) for path in arguments.paths} or {*known, SETTINGS, f"{FOLDER}/"}
    texts: dict[str, bytes] = {}
    found: list[Problem] = []
    for path in (*owned, *_archives(root)):
        try:
            text = writer.text(path)
        except Refusal as refusal:
            found += refusal.problems
            continue
        if text is not None:
            texts[path] = text
        elif path in NEEDED:
            found.append(Problem(path, "the file is missing", "`orchestrate init` writes it"))
    approved = _approved(texts)
    for path, text in texts.items():
        found += damage(path, text)
        if path not in owned:
            found += readable(path, text)
        else:
            found += (
                rules.problems(text, approved=approved) if path == rules.PATH else owned[path].problems(text)
            )
    found += anti_patterns(texts, _uncommitted(writer, texts), _last_commit(writer))
    found += [one.problem() for one in all_edits(root)]
    found += unrecorded_runs(root, texts.get(STATUS), texts.get(DECISIONS))
    if chosen & {*others, SETTINGS, f"{FOLDER}/"}:
        found += settings_problems(root)
        found += every_template_problem(writer.repository)
    kept = [problem for problem in dict.fromkeys(found) if problem.place.partition(":")[0] in chosen]
    return _answer(kept, [path for path in known if path in chosen and (path in texts or path in others)])


def _answer(found: list[Problem], paths: list[str]) -> Answer[None]:
    found.sort(key=lambda one: (ORDER[one.severity], *_placed(one.place)))
    files = [
        {
            "path": path,
            **{
                f"{grade}s": sum(
                    one.severity == grade and one.place.partition(":")[0] == path for one in found
                )
                for grade in ORDER
            },
        }
        for path in paths
    ]
    is_bad = any(one.severity == "error" for one in found)
    next_action = "orchestrate validate" if is_bad else "orchestrate status"
    return answer(found, next_action, files=files)


def _placed(place: str) -> tuple[str, int]:
    path, _, line = place.partition(":")
    return path, int(line) if line.isdecimal() else 0


def _owned(root: Path) -> dict[str, DocumentModule]:
    """Return each path that a document owns: fixed names, and existing files that match a pattern."""
    found = {}
    for document in DOCUMENTS:
        for pattern in document.OWNS:
            if set(pattern) & set("*?[{"):
                there = sorted(
                    path.relative_to(root).as_posix() for path in root.glob(pattern) if path.is_file()
                )
                found.update(dict.fromkeys(there, document))
            else:
                found[pattern] = document
    return found


def _archives(root: Path) -> list[str]:
    """Return the archives of the decision log."""
    return sorted(path.relative_to(root).as_posix() for path in (root / ARCHIVES).glob("*.md"))


def _named(root: Path, path: str, known: Collection[str]) -> str:
    """Return a path as documents spell it. Raises Refusal for a path that is no state file."""
    here = Path.cwd() / path
    for target in (here, root / path):
        if target.absolute().is_relative_to(root):
            name = target.absolute().relative_to(root).as_posix()
            if name in known:
                return name
    do = f"there are: {', '.join(known)}"
    raise Refusal(Problem(path, "is not a file that can be validated", do))


def _approved(texts: dict[str, bytes]) -> int:
    try:
        return max(rules.LIMIT, gates.approved_pool(texts.get(DECISIONS, b"")))
    except StateError:
        return rules.LIMIT


def _uncommitted(writer: Writer, texts: dict[str, bytes]) -> set[str]:
    """Return the paths with changes to commit; the roster of a run is committed with the run."""
    root = writer.repository.root
    fields = git_fields("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--",
                        *NEEDED, "docs/backlog.md", ARCHIVES, cwd=root)  # fmt: skip
    found = {field[3:] for field in fields}
    if STATUS in found & texts.keys() and shown_runs(writer.repository, texts[STATUS]) is not None:
        found.remove(STATUS)
    return found


def _last_commit(writer: Writer) -> datetime | None:
    root = writer.repository.root
    if not git("rev-parse", "-q", "--verify", "HEAD", cwd=root, check=False):
        return None
    said = git_line("log", "-1", "--no-show-signature", "--format=%ct", cwd=root)
    return datetime.fromtimestamp(int(said), UTC)
