"""`validate [PATH…]`: the problems of state files, templates and settings, graded, with lines."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller, repository_of
from orchestrator.commands.invoke import waits_by
from orchestrator.errors import Refusal
from orchestrator.redaction import redactor_of, secret_problems
from orchestrator.report._documents import file_problems, owners
from orchestrator.report.decision_history import ARCHIVES, all_edits, last_commit
from orchestrator.report.situation import Situation
from orchestrator.report.validate import (
    copy_problems,
    pair_problems,
    readable,
    settings_problems,
    template_problems,
    templates_in,
    unrecorded_runs,
)
from orchestrator.settings.toml_text import FILE as SETTINGS
from orchestrator.state import DocumentModule
from orchestrator.state.canonical.habits import anti_patterns
from orchestrator.state.document import damage
from tickets.problems import Problem
from tickets.templates.render import FOLDER
from tickets.value import Value

ORDER = {"error": 0, "warning": 1, "info": 2}


class Arguments(Value):
    """The arguments of `validate`."""

    paths: tuple[str, ...] = ()
    """State files, templates or settings, relative to the caller's folder or to the project; empty: all."""


def call(caller: Caller, arguments: Arguments) -> Answer[None]:
    """Validate; changes nothing."""
    found = Situation(repository_of(caller), caller.now())
    root = found.repository.root
    owned = owners(root, found.families)
    others = [*_archives(root), *templates_in(root), *([SETTINGS] if (root / SETTINGS).exists() else [])]
    known = [*owned, *others]
    chosen = {_named(root, path, known) for path in arguments.paths} or {*known, SETTINGS, f"{FOLDER}/"}
    paths = (*owned, *_archives(root))
    texts = {path: text for path in paths if (text := found.text(path)) is not None}
    unread = [problem for path in paths for problem in found.unread(path)]
    unread += [problem for problem in found.git_problems if problem.severity == "error"]
    problems = [*unread, *_of_files(texts, owned, found.approved_pool)]
    redactor = redactor_of(root, caller.environ)
    problems += [one for path, text in texts.items() for one in secret_problems(path, text, redactor)]
    if any(problem in found.git_problems for problem in unread):
        return _answer(problems, [*owned])  # the rest asks git
    last = last_commit(root)
    problems += anti_patterns(texts, found.changes, last.at)
    problems += [one.problem() for one in all_edits(root, last)]
    problems += unrecorded_runs(found)
    problems += copy_problems(texts) if "phases" in found.families else []
    problems += pair_problems(texts)
    if chosen & {*others, SETTINGS, f"{FOLDER}/"}:
        problems += [*settings_problems(found), *template_problems(found, caller.environ)]
    # What is in the way of all of them has a place of its own.
    chosen |= {problem.place for problem in unread} - set(known)
    kept = [problem for problem in dict.fromkeys(problems) if problem.place.partition(":")[0] in chosen]
    return _answer(kept, [path for path in known if path in chosen and (path in texts or path in others)])


def _of_files(
    texts: Mapping[str, bytes], owned: Mapping[str, DocumentModule], approved: int
) -> list[Problem]:
    found: list[Problem] = []
    for path, text in texts.items():
        found += damage(path, text)
        found += file_problems(owned[path], path, text, approved) if path in owned else readable(path, text)
    return found


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
    return answer(found, waits_by(found, "lead") if is_bad else "orchestrate status", files=files)


def _placed(place: str) -> tuple[str, int]:
    path, _, line = place.partition(":")
    return path, int(line) if line.isdecimal() else 0


def _archives(root: Path) -> list[str]:
    """Return the archives of the decision log."""
    return sorted(path.relative_to(root).as_posix() for path in (root / ARCHIVES).glob("*.md"))


def _named(root: Path, path: str, known: Collection[str]) -> str:
    """Return a path as documents spell it. Raises Refusal for a path that is no state file."""
    for folder in (Path.cwd(), root):
        # Not resolved: a state file that is a link is named as the link.
        target = Path(os.path.normpath(folder / path))
        if target.is_relative_to(root) and (name := target.relative_to(root).as_posix()) in known:
            return name
    do = f"there are: {', '.join(known)}"
    raise Refusal(Problem(path, "is not a file that can be validated", do))
