"""`init`: writes state files, settings, templates, the .gitignore entry; existing content never changes."""

import shlex
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import orchestrator
from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller, lead_of, repository_of
from orchestrator.errors import Refusal
from orchestrator.settings.recording import read_recording, recording_of, with_families
from orchestrator.settings.settings import default_settings
from orchestrator.settings.toml_text import FILE
from orchestrator.state import (
    ALWAYS,
    FAMILIES,
    Family,
    Tree,
    built_families,
    copies,
    documents,
    is_pattern,
    named_paths,
)
from orchestrator.state.canonical.status.read import PATH as STATUS
from orchestrator.state.facts import Facts
from orchestrator.state.phases.project_state import homes, recounted
from orchestrator.step import Step, Waits
from orchestrator.store.read import LARGEST, led_to, read_file
from orchestrator.store.repo import UserRepo
from orchestrator.store.store import Recorded, Store
from tickets.markdown import MarkdownError
from tickets.problems import Problem
from tickets.templates.render import FOLDER, is_template
from workers.files.read import read_whole

GITIGNORE = ".gitignore"
IGNORED = ".taskers/"

MESSAGE = "Set up orchestrate"


class Arguments(NamedTuple):
    """The arguments of `init`."""

    all: bool = False
    """Turn every family of state files on."""
    families: tuple[str, ...] = ()
    no_commit: bool = False


class Written(NamedTuple):
    """One file that `init` creates or completes."""

    path: str
    text: bytes
    created: bool
    """False: it existed, and its content is still in it."""


def call(caller: Caller, arguments: Arguments) -> Answer[tuple[Written, ...]]:
    """Write what is missing, as one change."""
    asked = FAMILIES if arguments.all else arguments.families
    _refuse_unknown(asked)
    repository = repository_of(caller)
    repo, store = UserRepo(repository), Store(repository)
    # A change that an earlier command decided comes first: completed over, it would be lost.
    earlier = store.finish() if store.pending() else []
    families = _on(repository.root, asked)
    there = _found(repository.root, families)
    facts = Facts(repository.root.name, lead_of(caller, repository), caller.now())
    templates = shipped_templates()
    # Links resolved: AGENTS.md is often a link to another agent's file.
    named = (*_paths(families), *there, *(f"{FOLDER}/{name}" for name in templates))
    paths = {path: _led(repository.root, path) for path in named}
    written = _missing(repo, facts, there, templates, families)
    recorded = Recorded((), None, ())
    uncommitted = set(repo.uncommitted())
    if written:
        made: list[tuple[Written, ...]] = []

        def setting_up(texts: Tree) -> dict[str, bytes]:
            held = {path: text for path, real in paths.items() if (text := texts[real]) is not None}
            made.append(_missing(repo, facts, held, templates, families))
            return {paths[one.path]: one.text for one in made[-1]}

        commit = not arguments.no_commit
        real = tuple(dict.fromkeys(paths.values()))
        recorded = store.change(setting_up, paths=real, message=MESSAGE, commit=commit)
        written = made[-1]
    mixed = uncommitted & {paths[one.path] for one in written if not one.created}
    warned = (_mixed(path) for path in sorted(mixed) if not arguments.no_commit)
    ignored = map(_ignored, sorted(repo.ignored([paths[one.path] for one in written])) if written else ())
    problems = (*earlier, *recorded.problems, *warned, *ignored)
    is_new = any(one.path.startswith(f"{FOLDER}/") and is_template(one.path) for one in written)
    next_action = _next_action(repo, [paths[one.path] for one in written], problems, is_new=is_new)
    return answer(
        problems,
        next_action,
        project=str(repository.root),
        created=[one.path for one in written if one.created],
        completed=[one.path for one in written if not one.created],
        families=list(families),
        commit=recorded.commit,
    ).showing(written)


def files_to_write(
    facts: Facts,
    there: Mapping[str, bytes],
    templates: Mapping[str, bytes],
    families: Sequence[Family] = ALWAYS,
) -> tuple[Written, ...]:
    """Return the missing files. `there` holds the existing ones, with those of the templates' folder.

    Raises StateError where a state file cannot be read, MarkdownError where it is not UTF-8, Refusal where
    the settings cannot turn a family on.
    """
    wanted = {
        path: document.complete(there.get(path, b""), facts)
        for document in (*documents(families), *copies(families))
        for path in document.OWNS
        if not is_pattern(path)
    }
    if "phases" in families:
        wanted |= recounted({**there, **wanted}, facts.at)
    wanted[FILE] = with_families(there.get(FILE, default_settings().encode()), families)
    wanted[GITIGNORE] = with_ignored(there.get(GITIGNORE, b""))
    wanted |= _templates(there, templates)
    return tuple(
        Written(path, text, path not in there)
        for path, text in wanted.items()
        if there.get(path, b"") != text
    )


def with_ignored(text: bytes) -> bytes:
    """Return a .gitignore that keeps `.taskers/` out of the repository."""
    lines = [line.strip() for line in text.splitlines()]
    bare = IGNORED.strip("/").encode()
    if any(line.strip(b"/") == bare for line in lines):
        return text
    end = b"\r\n" if b"\r\n" in text else b"\n"
    gap = end if text and not text.endswith(b"\n") else b""
    return text + gap + IGNORED.encode() + end


def _templates(there: Mapping[str, bytes], templates: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return our templates for a new project: one that was deleted on purpose must not come back."""
    has_own = {FILE, STATUS} <= there.keys() or any(
        path.startswith(f"{FOLDER}/") and is_template(path) for path in there
    )
    found = {f"{FOLDER}/{name}": text for name, text in sorted(templates.items())}
    return {
        path: there.get(path, text)
        for path, text in found.items()
        if path not in there and not (has_own and is_template(path))
    }


def shipped_templates() -> dict[str, bytes]:
    """Read the templates that come with orchestrate: in the package, or beside it in a checkout."""
    package = Path(orchestrator.__file__).parent
    folder = package / "_templates"
    if not folder.is_dir():
        folder = package.parent / FOLDER
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.md"))}


def _refuse_unknown(families: Sequence[str]) -> None:
    problems = [_unknown(name) for name in dict.fromkeys(families) if name not in built_families()]
    if problems:
        raise Refusal(*problems)


def _unknown(name: str) -> Problem:
    if name in FAMILIES:
        return Problem(
            "init", f"the family `{name}` cannot be turned on yet", "run `orchestrate init` without it"
        )
    near = get_close_matches(name, built_families(), 1)
    known = ", ".join(built_families())
    return Problem(
        "init",
        f"there is no family `{name}`",
        f"did you mean `{near[0]}`?" if near else f"there are: {known}",
    )


def _on(root: Path, asked: Sequence[str]) -> tuple[Family, ...]:
    """Return the families that are on, or are to be turned on. Raises Refusal."""
    try:
        text = read_file(root, FILE) or b""
    except Refusal:
        text = b""  # it is reported with the other files that cannot be read
    stated = recording_of(text)
    if stated is None and asked:
        stated = read_recording(root)  # says what is wrong with the settings
    on = {*ALWAYS, *(stated.families if stated else ()), *asked}
    return tuple(family for family in FAMILIES if family in on)


def _paths(families: Sequence[Family]) -> tuple[str, ...]:
    """Return the files that `init` writes beside the templates."""
    return (*named_paths(families), FILE, GITIGNORE)


def _missing(
    repo: UserRepo,
    facts: Facts,
    there: Mapping[str, bytes],
    templates: Mapping[str, bytes],
    families: Sequence[Family],
) -> tuple[Written, ...]:
    """Return the files to write; one that was lost comes back from the last commit, and not empty.

    Raises Refusal.
    """
    lost = {
        path: text
        for path in named_paths(families)
        if not there.get(path, b"").strip(b"\0 \t\r\n") and (text := repo.committed(path)).strip()
    }
    try:
        found = files_to_write(facts, {**there, **lost}, templates, families)
    except MarkdownError as error:
        raise Refusal(*error.problems) from error
    same = lost.keys() - {one.path for one in found}
    return (*(Written(path, lost[path], created=True) for path in sorted(same)), *found)


def _led(root: Path, path: str) -> str:
    """Return the path that a link leads to inside the repository; any other path as it is."""
    real = led_to(root, path)
    return real.relative_to(root.resolve()).as_posix() if real.is_relative_to(root.resolve()) else path


def _found(root: Path, families: Sequence[Family]) -> dict[str, bytes]:
    """Read the existing files. Raises Refusal."""
    there, problems = {}, []
    folder = root / FOLDER
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    for path in (*_paths(families), *(f"{FOLDER}/{name}" for name in names if name.lower().endswith(".md"))):
        try:
            there[path] = read_whole(root / path, LARGEST)
        except FileNotFoundError:
            pass
        except OSError as error:
            problems.append(Problem(path, f"cannot be read: {error.strerror}", "make it a file, or move it"))
    if "phases" in families and STATUS in there:
        # STATE.md copies from them.
        texts = ((path, read_file(root, path)) for path in homes(there) if path not in there)
        there |= {path: text for path, text in texts if text is not None}
    if problems:
        raise Refusal(*problems)
    return there


def _ignored(path: str) -> Problem:
    what = "git ignores it: it is written, and no command commits it"
    return Problem(path, what, f"`git check-ignore -v {shlex.quote(path)}` names the pattern", "warning")


def _mixed(path: str) -> Problem:
    what = "held changes that were not committed; the commit has them too"
    return Problem(path, what, "`git show` shows it", "warning")


def _next_action(repo: UserRepo, paths: Sequence[str], problems: Sequence[Problem], *, is_new: bool) -> Step:
    if any(problem.severity == "error" for problem in problems):
        return "orchestrate resume"
    if repo.head().sha is None:
        command = f"git add -- {shlex.join(sorted(paths) or ['.'])} && git commit -m {shlex.quote(MESSAGE)}"
        return Waits("lead", f"workers start from a commit, and there is none yet: `{command}`")
    return "orchestrate plan phase-1" if is_new else "orchestrate status"
