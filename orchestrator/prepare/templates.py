"""The templates of a repository: read from disk, rendered phase by phase, with their problems."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrator.errors import Refusal
from orchestrator.runs.earlier import earlier_of
from orchestrator.state import owned_paths
from orchestrator.store.read import in_the_way, read_file
from orchestrator.store.repo import UserRepo
from tickets.plan import make_plan
from tickets.problems import Problem, TicketError
from tickets.scopes.rules import PathRules, plain_paths, reserved_paths
from tickets.templates.render import FOLDER, Values, is_template, phase_of, read_templates, render_read
from tickets.ticket import Ticket
from tickets.value import Value
from workers.git.run import Repository


class TemplatesFound(Value):
    """All templates of a repository, as far as they can be read."""

    phases: Mapping[str, Sequence[str]]
    """Phase to the paths of its templates; a template without a phase belongs to each, and is in none."""
    problems: tuple[Problem, ...]
    """The problems and warnings of the templates alone."""
    left: tuple[Ticket, ...] = ()
    """The tickets that are not done, of all phases."""


def examine_templates(repository: Repository, values: Values, families: Sequence[str]) -> TemplatesFound:
    """Read the templates and prove what is not done of each phase. `values` are those of no phase.

    `families` are those that are on: no ticket owns their files.
    """
    problems: list[Problem] = []
    files = template_files(repository.root, problems)
    is_whole = not problems
    templates, faults = read_templates(files)
    phases: dict[str, list[str]] = {}
    for template in templates:
        try:
            if phase := phase_of(template, values):
                phases.setdefault(phase, []).append(template.path)
        except TicketError:
            continue  # rendering it reports why
    tickets: dict[str, list[Ticket]] = {}
    for phase in (phases or [""]) if is_whole else ():
        tickets[phase], wrong = render_read(templates, faults, values._replace(phase=phase))
        problems += wrong
    every = [ticket for some in tickets.values() for ticket in some]
    if not every:
        return TemplatesFound(phases, tuple(problems))
    repo = UserRepo(repository)
    has_base, left = repo.head().sha is not None, list[Ticket]()
    rules = path_rules(repository.root, repo, families, every, has_base=has_base)
    for phase, some in tickets.items():
        done = earlier_of(repository.root, phase, some).done if has_base else {}
        satisfied = {ticket.id: ticket.depends_on for ticket in some if ticket.id in done}
        mine = [ticket for ticket in some if ticket.id not in done]
        left += mine
        plan = make_plan(mine, rules, done=satisfied, others=template_stems(repository.root))
        problems += [*plan.problems, *plan.notes]
    return TemplatesFound(phases, tuple(problems), tuple(left))


def template_stems(root: Path) -> list[str]:
    """List the names of the templates, readable or not."""
    folder = root / FOLDER
    return [path.stem for path in folder.iterdir() if is_template(path.name)] if folder.is_dir() else []


def template_files(root: Path, problems: list[Problem]) -> dict[str, bytes]:
    """Read the templates by path; problems that prevent reading are added to `problems`."""
    known = len(problems)
    problems += in_the_way(root / FOLDER, f"{FOLDER}/")
    folder = root / FOLDER
    names = sorted(entry.name for entry in os.scandir(folder)) if folder.is_dir() else []
    files: dict[str, bytes] = {}
    for path in (f"{FOLDER}/{name}" for name in names if is_template(name)):
        try:
            text = read_file(root, path)
        except Refusal as refusal:
            problems += refusal.problems
        else:
            # A name that is listed and does not exist is a broken link.
            problems += [Problem(path, "is a broken link", "fix the link")] * (text is None)
            files[path] = text or b""
    if not files and len(problems) == known:
        do = f"write one as {FOLDER}/README.md says; in a new project `init` writes samples"
        problems.append(Problem(f"{FOLDER}/", "holds no templates", do))
    return files


def path_rules(
    root: Path, repo: UserRepo, families: Sequence[str], tickets: Sequence[Ticket], *, has_base: bool
) -> PathRules:
    """Read from the repository the rules that decide which paths the tickets' patterns match."""
    links = {path: _inside(root, path, target) for path, target in repo.links().items()}
    files = sorted(repo.files_among(plain_paths(tickets, links))) if has_base else ()
    kept = reserved_paths(families)
    folders = tuple(path for path in kept if path.endswith("/"))
    owned = (path for path in owned_paths(families) if not path.startswith(folders))
    reserved = tuple(dict.fromkeys((*kept, *owned)))
    return PathRules(reserved, links, repo.setting("core.ignorecase") == "true", tuple(files))


def _inside(root: Path, path: str, target: str) -> str | None:
    """Return the target of a symlink, relative to the root; None where that is outside.

    A `..` in it stays: it may come behind another link, and is then not the folder that the text names.
    """
    real = os.path.normpath(root / Path(path).parent / target)
    if not Path(real).is_relative_to(root):
        return None
    return os.path.relpath(real, root) if Path(target).is_absolute() else str(Path(path).parent / target)
