"""Whether the fence that the settings ask for holds here."""

from orchestrator.settings.settings import Settings
from orchestrator.settings.values import FILE
from tickets.problems import Problem
from workers.fence.probe import Fence, fence_in_force


def fence_of(settings: Settings) -> Fence:
    """Give the fence that is in force under these settings; tried once in a process."""
    return fence_in_force(settings.fence)


def unmet(settings: Settings, fence: Fence) -> list[Problem]:
    """List what the settings ask for and this system cannot hold: nothing may be started then."""
    found = []
    if settings.fence in ("required", "landlock") and not fence.holds:
        what = f'`fence = "{settings.fence}"`, and the kernel holds nothing here: {fence.reason}'
        do = 'install bubblewrap and allow user namespaces, or set it to "auto"'
        found.append(Problem(FILE, what, do))
    if settings.agent("command").network == "none" and fence.level != "namespaces":
        what = f'`[agents.command] network = "none"` needs namespaces, and the level here is {fence.level}'
        found.append(Problem(FILE, what, "take it away, or run where `orchestrate doctor` says namespaces"))
    return found
