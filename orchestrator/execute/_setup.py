"""What `[worktree]` asks for: every tree gets what a fresh checkout lacks, before anybody works in it."""

from orchestrator.execute.command import CheckResult, free_stem, run_in_tree
from orchestrator.execute.runtime import Runtime
from orchestrator.runs.events import TreeSetUp
from orchestrator.settings.settings import Settings
from workers.worktree.checkout import Furniture


def furniture_of(settings: Settings) -> Furniture:
    """Give what is copied and linked."""
    return Furniture(settings.worktree.copied, settings.worktree.link)


def is_furnished(settings: Settings) -> bool:
    """Tell whether anything is brought into a tree beyond its checkout."""
    return bool(settings.worktree.setup or settings.worktree.copied or settings.worktree.link)


async def end_earlier(runtime: Runtime, tree: str) -> None:
    """See dead what an earlier runtime left at work in a tree that it had not finished."""
    for at in range(1, len(runtime.settings.worktree.setup) + 1):
        await free_stem(runtime, f"{tree}.setup-{at}")


async def set_up(runtime: Runtime, tree: str) -> CheckResult | None:
    """Run the setup commands in a tree of the run; gives the one that failed, and none after it is run."""
    for at, command in enumerate(runtime.settings.worktree.setup, 1):
        stem = await free_stem(runtime, f"{tree}.setup-{at}")
        limit = runtime.settings.worktree.setup_timeout
        result = await run_in_tree(runtime, stem, command, tree=tree, limit=limit)
        runtime.note(TreeSetUp(tree, command, result.passed, result.seconds))
        if not result.passed:
            return result
    return None


def in_words(failed: CheckResult) -> str:
    """Say how a setup failed, with the last that it said."""
    lines = [line.strip() for line in failed.tail.splitlines() if line.strip()]
    last = f": {lines[-1][:300]}" if lines else ""
    fenced = f"; {failed.fenced}" if failed.fenced else ""
    return f"setup failed: {failed.in_words()}{last}{fenced}"
