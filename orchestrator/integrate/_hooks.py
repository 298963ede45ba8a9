"""The user's own commit hooks, on a landing before it is made: `[git] hooks = true`."""

from collections.abc import Callable
from pathlib import Path

from orchestrator.execute.command import run_check
from orchestrator.execute.runtime import Runtime
from workers.files.read import read_whole
from workers.worktree.worktree import Place

PRE_COMMIT = "git hook run --ignore-missing pre-commit"
# Git sends what a hook prints to standard error, so standard output is the message as the hook left it.
COMMIT_MSG = 'git hook run --ignore-missing commit-msg -- "$TMPDIR/message" && cat "$TMPDIR/message"'


async def run_hooks(runtime: Runtime, tree: str, old: str, message: str) -> tuple[str, str]:
    """Run `pre-commit` on the tree and `commit-msg` on the message; give why not to land, and the message.

    They see what they would see in a commit: HEAD at the old commit, the change in the index.
    """
    before = _as_before_commit(old, message)
    for name, command in (("pre-commit", PRE_COMMIT), ("commit-msg", COMMIT_MSG)):
        result = await run_check(runtime, f"hook-{name}", command, tree, old, before=before)
        if not result.passed:
            said = " ".join(result.tail.split())[-300:] or result.in_words()
            return f"the {name} hook refuses: {said}", message
        if name == "commit-msg":
            message = read_whole(runtime.run.root / result.output).decode("utf-8", "replace")
    return "", message


def _as_before_commit(old: str, message: str) -> Callable[[Place, Path], None]:
    def prepare(place: Place, scratch: Path) -> None:
        (place.admin / "HEAD").write_text(f"{old}\n")
        (scratch / "message").write_text(message)

    return prepare
