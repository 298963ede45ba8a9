"""What the settings require and this machine lacks: an agent that can run, a fence that holds."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from orchestrator.settings.settings import Settings
from orchestrator.settings.toml_text import FILE
from tickets.problems import Problem
from tickets.scopes.scope import Scope
from tickets.types import AgentName
from workers.agents.agent import find_agent
from workers.fence.probe import Fence
from workers.worktree.checkout import Furniture, brought_paths
from workers.worktree.environments import Environments, examine

REMEDY = "install it in each tree by `[worktree] setup`, or set PYTHONPATH in `[checks] env`"

_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".f90", ".h", ".hpp", ".pxd", ".pyx", ".rs")
_BUILT = (".dylib", ".node", ".pyd", ".so")


def why_off(name: AgentName, settings: Settings, environ: Mapping[str, str]) -> str | None:
    """Return why no worker of an agent can start; None where one can."""
    if off := why_disabled(name, settings):
        return f"{name} is {off}"
    if find_agent(name, settings.agent(name), environ) is None:
        wanted = settings.agent(name).executable or name
        return f"{name} is not installed (`{wanted}` was not found)"
    return None


def why_disabled(name: AgentName, settings: Settings) -> str | None:
    """Return why an agent may not run, with the file that decides it; None where it may."""
    if not settings.slots.total:
        return "disabled (AGENTS.md has no slot for any worker)"
    if settings.is_enabled(name):
        return None
    if settings.agent(name).enabled is False:
        return f"disabled (by `[agents.{name}] enabled` in {FILE})"
    if not settings.slots.agents[name]:
        return "disabled (AGENTS.md has no slot for it)"
    if name in settings.slots.by_default:
        return f"disabled (by default; `[agents.{name}] enabled` can overrule it)"
    return f"disabled (by AGENTS.md; `[agents.{name}] enabled` can overrule it)"


def environments_of(settings: Settings, root: Path, environ: Mapping[str, str]) -> Environments:
    """Examine the environments that commands in the trees of a run use."""
    furniture = Furniture(settings.worktree.copy, settings.worktree.link)
    found = examine(root, environ, brought_paths(root, furniture))
    # Who says where Python searches knows better.
    return found._replace(faults=()) if {"PATH", "PYTHONPATH"} & settings.checks.env.keys() else found


def doubted_environments(settings: Settings, root: Path, environ: Mapping[str, str]) -> list[Problem]:
    """Warn of environments with which checks would test the user's checkout."""
    what = "a check that passes accepts nothing, for it may test your checkout: {}"
    return [
        Problem("environment", what.format(fault), REMEDY, "warning")
        for fault in environments_of(settings, root, environ).faults
    ]


def outdated_build(settings: Settings, root: Path, changed: Iterable[str]) -> str:
    """Describe a build that trees get from the checkout, beside a source that was changed; else empty."""
    brought = Scope.of((*settings.worktree.copy, *settings.worktree.link))
    # A setup command builds anew.
    for path in () if settings.worktree.setup else changed:
        for built in sorted((root / path).parent.glob("*")) if path.endswith(_SOURCES) else ():
            product = built.relative_to(root).as_posix()
            if product.endswith(_BUILT) and brought.covers(product):
                return f"{product} is from your checkout, built before {path} was changed"
    return ""


def unmet_fence(settings: Settings, fence: Fence) -> list[Problem]:
    """List what the settings require of the fence and this machine lacks: nothing may be started then."""
    found = []
    if settings.fence.level in ("required", "landlock") and not fence.holds:
        what = f'`fence = "{settings.fence.level}"`, and the kernel holds nothing here: {fence.reason}'
        do = 'install bubblewrap and allow user namespaces, or set it to "auto"'
        found.append(Problem(FILE, what, do))
    if settings.agent("command").network == "none" and fence.level != "namespaces":
        what = f'`[agents.command] network = "none"` needs namespaces, and the level here is {fence.level}'
        found.append(Problem(FILE, what, "remove it, or run where `orchestrate doctor` shows namespaces"))
    return found
