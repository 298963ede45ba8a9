"""Checks of `validate` beside those of the documents: templates, settings, runs that are not recorded."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from orchestrator.errors import Refusal, StateError
from orchestrator.prepare.prepare import template_problems
from orchestrator.settings.settings import read_settings
from orchestrator.settings.values import FILE
from orchestrator.state.canonical.decisions.read import spans
from orchestrator.state.canonical.status import read as status_reading
from orchestrator.state.document import opened
from orchestrator.store.read import read_file, read_state
from tickets.problems import Problem, ProblemError
from tickets.templates.render import FOLDER, Values, is_template, phase_of, read_template
from workers.git.run import Repository, git

NAMED = 5
"""Templates that a message names besides its place."""


def readable(path: str, text: bytes) -> list[Problem]:
    """Return the problems of a file that no command edits: only that it cannot be read."""
    try:
        opened(path, text)
    except StateError as error:
        return list(error.problems)
    return []


def settings_problems(root: Path) -> list[Problem]:
    """List what is wrong with orchestrate.toml."""
    try:
        found = read_settings(root).warnings
    except Refusal as refusal:
        found = refusal.problems
    return [problem for problem in found if problem.place.partition(":")[0] == FILE]


def templates_in(root: Path) -> list[str]:
    """Return the paths of the templates, in order."""
    folder = root / FOLDER
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return [f"{FOLDER}/{name}" for name in names if is_template(name)]


def unrecorded_runs(root: Path, status: bytes | None, log: bytes | None) -> list[Problem]:
    """List the runs whose work has landed and that neither STATUS.md nor a later commit of state tells of.

    A decision that names the run in its heading tells of it as well.
    """
    try:
        completions = status_reading.read(status).completions if status else ()
        titles = "\n".join(title for title, _ in spans(log)) if log else ""
    except StateError:
        return []  # what is wrong with the file itself is listed elsewhere
    shown = {(one.run, one.worker) for one in completions}
    told: set[str] = set()
    found = []
    # The newest commit comes first, and the state of a run is committed after its landing.
    for commit, trailers in _trailers(root):
        told.update(trailers.get("Orchestrate-State", ()))
        for run in trailers.get("Orchestrate-Run", ()):
            names = ", ".join(trailers.get("Orchestrate-Workers", ())).split(", ")
            if run not in told and run not in titles and not any((run, name) in shown for name in names):
                told.add(run)
                what = f"run {run} has landed (commit {commit[:10]}) and is not recorded"
                do = "`orchestrate resume` records it, or else a decision with the run in its title"
                found.append(Problem(status_reading.PATH, what, do, "warning"))
    return found


def _trailers(root: Path) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Read what our commits say of runs in their last lines."""
    greps = ("--basic-regexp", "--grep=^Orchestrate-Run: ", "--grep=^Orchestrate-State: ")
    said = git("log", "--no-show-signature", *greps, "--format=%H%n%B%x00", "HEAD", cwd=root, check=False)
    for entry in said.decode("utf-8", "replace").split("\0"):
        commit, _, message = entry.strip("\n").partition("\n")
        trailers: dict[str, list[str]] = {}
        for line in message.splitlines():
            key, colon, value = line.partition(": ")
            if colon and key.startswith("Orchestrate-"):
                trailers.setdefault(key, []).append(value)
        yield commit, trailers


def every_template_problem(repository: Repository) -> list[Problem]:
    """List what is wrong with the templates of each phase, their overlaps too."""
    root = repository.root
    paths = templates_in(root)
    phases: dict[str, list[str]] = {}
    for path in paths:
        for phase in _phase(root, path):
            phases.setdefault(phase, []).append(path)
    found = _unplanned(root, phases)
    for phase in phases or ([""] if paths else []):
        found += template_problems(repository, phase)
    # Of no phase is only what cannot be read, and that is said of the file.
    about = [problem for problem in found if problem.place != f"{FOLDER}/"]
    return [problem for problem in dict.fromkeys(about) if problem.place.startswith(f"{FOLDER}/")]


def _unplanned(root: Path, phases: Mapping[str, Sequence[str]]) -> list[Problem]:
    """Return the phases that the plan lacks, each at its first template: a misspelled one never runs."""
    try:
        text = read_state(root, status_reading.PATH)
        plan = status_reading.read(text) if text else None
    except ProblemError:
        plan = None  # that is told of the file itself
    if plan is None:
        return []
    do = "correct it, or add it to the plan: `orchestrate phase add`"
    return [
        Problem(paths[0], f"STATUS.md has no phase that `{phase}` names{_others(paths[1:])}", do, "warning")
        for phase, paths in phases.items()
        if status_reading.phase_matches(plan, phase) is None
    ]


def _others(paths: Sequence[str]) -> str:
    if not paths:
        return ""
    names = ", ".join(Path(path).name for path in paths[:NAMED])
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return f" (also in {names}{more})"


def _phase(root: Path, path: str) -> list[str]:
    """Return the phase of a template; nothing where it has mistakes, or belongs to every phase."""
    try:
        text = read_file(root, path)
        phase = phase_of(read_template(path, text or b""), Values(root.name, ""))
    except ProblemError:
        return []
    return [phase] if phase else []
