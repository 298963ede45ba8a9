"""The checks of `validate` beside those of the documents: templates, settings, unrecorded runs."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from orchestrator.errors import Refusal, StateError
from orchestrator.prepare.doubts import doubts
from orchestrator.prepare.templates import examine_templates
from orchestrator.report.situation import Situation
from orchestrator.runs.landings import messages_of, read_landing
from orchestrator.settings.toml_text import FILE
from orchestrator.state.canonical.decisions.read import PATH as DECISIONS
from orchestrator.state.canonical.decisions.read import spans
from orchestrator.state.canonical.status.read import PATH as STATUS
from orchestrator.state.canonical.status.read import Status, phase_matches
from orchestrator.state.checkpoints.names import FOLDER as PROGRESS
from orchestrator.state.checkpoints.names import slug
from orchestrator.state.document import opened
from tickets.problems import Problem, ProblemError
from tickets.templates.render import FOLDER, Values, is_template
from tickets.wording import some_of

NAMED = 5
"""How many templates a message names besides its place."""


def readable(path: str, text: bytes) -> list[Problem]:
    """Return the problem of an unreadable file that no command edits."""
    try:
        opened(path, text)
    except StateError as error:
        return list(error.problems)
    return []


def settings_problems(found: Situation) -> list[Problem]:
    """List the problems of orchestrate.toml."""
    try:
        problems = found.settings.warnings
    except Refusal as refusal:
        problems = refusal.problems
    return [problem for problem in problems if problem.place.partition(":")[0] == FILE]


def copy_problems(texts: Mapping[str, bytes]) -> list[Problem]:
    """List the copies in the files of the phases that differ from their homes."""
    # Only a project that has the family pays for its documents.
    from orchestrator.state.phases import project_state  # noqa: PLC0415
    from orchestrator.state.phases.phase_status import phase_status  # noqa: PLC0415

    found: list[Problem] = []
    # A file that cannot be read is a problem of its own.
    with suppress(StateError):
        found += project_state.differences(texts)
    for name in dict.fromkeys(path.split("/")[1] for path in sorted(texts) if path.startswith("phases/")):
        with suppress(StateError):
            found += phase_status.differences(texts, name)
    return found


def pair_problems(texts: Mapping[str, bytes]) -> list[Problem]:
    """List the checkpoints that another file is a checkpoint for, too."""
    paths = [path for path in texts if path.startswith(f"{PROGRESS}/")]
    if not paths:
        return []
    from orchestrator.state.checkpoints.glance import glance  # noqa: PLC0415 - as above

    found: list[Problem] = []
    first: dict[tuple[str, str], str] = {}
    for path in sorted(paths):
        one = None
        with suppress(StateError):
            one = glance(path, texts[path])
        if one is None:
            continue
        pair = slug(one.feature), slug(one.agent)
        if (known := first.setdefault(pair, path)) != path:
            what = f"it is the checkpoint of `{pair[0]}` by `{pair[1]}`, as {known} is"
            found.append(Problem(path, what, "keep the one whose `updated` is newer"))
    return found


def templates_in(root: Path) -> list[str]:
    """Return the paths of the templates, in order."""
    folder = root / FOLDER
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return [f"{FOLDER}/{name}" for name in names if is_template(name)]


def unrecorded_runs(found: Situation) -> list[Problem]:
    """List the runs whose work has landed and that neither STATUS.md nor a later commit of state names.

    A decision with the run in its heading counts, too.
    """
    log = found.text(DECISIONS)
    try:
        titles = "\n".join(title for title, _ in spans(log)) if log else ""
    except StateError:
        return []  # problems of the file itself are listed elsewhere
    if found.status is None and found.text(STATUS) is not None:
        return []  # as above
    shown = {(one.run, one.worker) for one in (found.status.completions if found.status else ())}
    told: set[str] = set()
    problems = []
    # The newest commit comes first, and the state of a run is committed after its landing.
    greps = ("--grep=^Orchestrate-Run: ", "--grep=^Orchestrate-State: ")
    for commit, message in messages_of(found.repository.root, *greps):
        told.update(re.findall(r"(?m)^Orchestrate-State: (.+)$", message))
        landing = read_landing(commit, message)
        if landing is None or landing.run in told or landing.run in titles:
            continue
        if not any((landing.run, name) in shown for name in landing.workers):
            told.add(landing.run)
            what = f"run {landing.run} has landed (commit {commit[:10]}) and is not recorded"
            do = "`orchestrate resume` records it, or else a decision with the run in its title"
            problems.append(Problem(STATUS, what, do, "warning"))
    return problems


def template_problems(found: Situation, environ: Mapping[str, str]) -> list[Problem]:
    """List the problems of the templates of each phase, with their overlaps and doubtful names."""
    repository, status = found.repository, found.status
    said = [(found.text(path) or b"").decode("utf-8", "replace") for path in (STATUS, DECISIONS)]
    deliverable = status.deliverable.name if status else ""
    values = Values(repository.root.name, "", deliverable, said[0], said[1])
    templates = examine_templates(repository, values, found.families)
    problems = [*_unplanned(status, templates.phases), *templates.problems]
    with suppress(ProblemError):  # settings that cannot be read have problems of their own
        problems += doubts(repository.root, templates.left, status, found.settings, environ)
    # Only unreadable templates have no phase, and those are reported already.
    about = [problem for problem in problems if problem.place != f"{FOLDER}/"]
    return [one for one in dict.fromkeys(about) if one.place.startswith((f"{FOLDER}/", FILE))]


def _unplanned(plan: Status | None, phases: Mapping[str, Sequence[str]]) -> list[Problem]:
    """Return the phases that the plan lacks, each at its first template: a misspelled one never runs."""
    if plan is None:
        return []
    do = "correct it, or add it to the plan: `orchestrate phase add`"
    return [
        Problem(paths[0], f"STATUS.md has no phase that `{phase}` names{_others(paths[1:])}", do, "warning")
        for phase, paths in phases.items()
        if phase_matches(plan, phase) is None
    ]


def _others(paths: Sequence[str]) -> str:
    if not paths:
        return ""
    return f" (also in {some_of([Path(path).name for path in paths], NAMED)})"
