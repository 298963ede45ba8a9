"""`orchestrate init`: state files, settings, templates, the .gitignore entry; what is there stays."""

import argparse
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orchestrator
from orchestrator.cli.answer import Answer, clean, envelope, problem_lines
from orchestrator.cli.calling import lead_of, now, repository_of
from orchestrator.errors import Refusal
from orchestrator.init import PATHS, STATE, Written, files_to_write
from orchestrator.settings.values import FAMILIES
from orchestrator.state.facts import Facts
from orchestrator.store.read import LARGEST, led_to
from orchestrator.store.repo import UserRepo
from orchestrator.store.store import Recorded, Store, Texts
from tickets.markdown import MarkdownError
from tickets.problems import Problem
from tickets.templates.render import FOLDER, is_template
from workers.files.read import read_whole
from workers.git.run import Repository

ALWAYS = ("canonical", "checkpoints")
MESSAGE = "Set up orchestrate"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `init` takes."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="turn every family of state files on")
    which.add_argument("--with", nargs="+", default=[], metavar="FAMILY", dest="families",
                       choices=FAMILIES, help=f"turn these on too: {', '.join(FAMILIES)}")  # fmt: skip
    parser.add_argument("--no-commit", action="store_true", help="leave what was written uncommitted")
    parser.add_argument("--lead", help="who leads (default: git's user.name)")


def answer(arguments: argparse.Namespace) -> Answer:
    """Write what is missing, as one change."""
    _refuse_unbuilt(FAMILIES if arguments.all else arguments.families)
    repository = repository_of(arguments)
    repo, store = UserRepo(repository), Store(repository)
    # A change that an earlier command decided comes first: completed over, it would be lost.
    earlier = store.finish() if store.pending() else []
    there, links = _found(repository.root)
    facts = Facts(repository.root.name, lead_of(arguments, repository), now())
    templates = shipped_templates()
    # By where a link leads: AGENTS.md is often one to another agent's file.
    paths = {path: links.get(path, path) for path in (*PATHS, *there, *(f"{FOLDER}/{n}" for n in templates))}
    written = _missing(repo, facts, there, templates)
    recorded = Recorded((), None, ())
    uncommitted = set(repo.uncommitted())
    if written:
        made: list[tuple[Written, ...]] = []

        def setting_up(texts: Texts) -> dict[str, bytes]:
            held = {path: text for path, real in paths.items() if (text := texts[real]) is not None}
            made.append(_missing(repo, facts, held, templates))
            return {paths[one.path]: one.text for one in made[-1]}

        commit = not arguments.no_commit
        real = tuple(dict.fromkeys(paths.values()))
        recorded = store.change(setting_up, paths=real, message=MESSAGE, commit=commit)
        written = made[-1]
    mixed = uncommitted & {paths[one.path] for one in written if not one.created}
    warned = (_mixed(path) for path in sorted(mixed) if not arguments.no_commit)
    problems = (*earlier, *recorded.problems, *warned)
    next_action = _next_action(repo, [paths[one.path] for one in written], problems)
    return _answer(repository, written, recorded.commit, problems, next_action)


def shipped_templates() -> dict[str, bytes]:
    """Read the templates that come with orchestrate: in the package, or beside it in a checkout."""
    package = Path(orchestrator.__file__).parent
    folder = package / "_templates"
    if not folder.is_dir():
        folder = package.parent / FOLDER
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.md"))}


def _refuse_unbuilt(families: tuple[str, ...] | list[str]) -> None:
    problems = [
        Problem("init", f"the family `{name}` cannot be turned on yet", "run `orchestrate init` without it")
        for name in families
        if name not in ALWAYS
    ]
    if problems:
        raise Refusal(*problems)


def _missing(
    repo: UserRepo, facts: Facts, there: Mapping[str, bytes], templates: Mapping[str, bytes]
) -> tuple[Written, ...]:
    """Give what is to be written. Raises Refusal where a file was lost: no empty board replaces it."""
    lost = [
        Problem(path, "is lost, and the last commit has it", f"`git checkout HEAD -- {path}` brings it back")
        for path in STATE
        if not there.get(path, b"").strip(b"\0 \t\r\n") and repo.committed(path).strip()
    ]
    if lost:
        raise Refusal(*lost)
    try:
        return files_to_write(facts, there, templates)
    except MarkdownError as error:
        raise Refusal(*error.problems) from error


def _found(root: Path) -> tuple[dict[str, bytes], dict[str, str]]:
    """Read what is there, and say where a link leads: AGENTS.md is often one to another agent's file."""
    there, links, problems = {}, {}, []
    folder = root / FOLDER
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    for path in (*PATHS, *(f"{FOLDER}/{name}" for name in names if name.lower().endswith(".md"))):
        try:
            there[path] = read_whole(root / path, LARGEST)
        except FileNotFoundError:
            pass
        except OSError as error:
            problems.append(Problem(path, f"cannot be read: {error.strerror}", "make it a file, or move it"))
        real = led_to(root, path)
        if (root / path).is_symlink() and real.is_relative_to(root.resolve()):
            links[path] = real.relative_to(root.resolve()).as_posix()
    if problems:
        raise Refusal(*problems)
    return there, links


def _mixed(path: str) -> Problem:
    what = "held changes that were not committed; the commit has them too"
    return Problem(path, what, "`git show` shows it", "warning")


def _next_action(repo: UserRepo, paths: Sequence[str], problems: Sequence[Problem]) -> str:
    if any(problem.severity == "error" for problem in problems):
        return "orchestrate resume"
    if repo.head().sha is None:
        # Workers start from a commit, and there is none.
        return f"git add -- {shlex.join(sorted(paths) or ['.'])} && git commit -m {shlex.quote(MESSAGE)}"
    return "orchestrate plan phase-1"


def _answer(
    repository: Repository,
    written: Sequence[Written],
    commit: str | None,
    problems: Sequence[Problem],
    next_action: str,
) -> Answer:
    is_bad = any(problem.severity == "error" for problem in problems)
    document: dict[str, Any] = envelope(
        problems,
        next_action,
        ok=not is_bad,
        project=str(repository.root),
        created=[one.path for one in written if one.created],
        completed=[one.path for one in written if not one.created],
        families=list(ALWAYS),
        commit=commit,
    )
    lines = [f"{'created' if one.created else 'completed':<10} {one.path}" for one in written]
    lines = lines or ["everything is there already; nothing was changed"]
    if commit:
        lines.append(f"commit     {commit[:10]}")
    elif written:
        lines.append("not committed")
    if any(is_template(one.path) and one.path.startswith(FOLDER) for one in written):
        lines.append(
            "phase-1 is ready: `orchestrate plan phase-1` shows it, `orchestrate run phase-1` runs it"
        )
    return Answer(1 if is_bad else 0, document, (*map(clean, lines), *problem_lines(problems, next_action)))
