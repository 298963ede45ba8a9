"""The user's commit hooks, run on a landing before it is made: `[git] hooks = true`."""

from orchestrator.execute.command import run_check
from orchestrator.execute.runtime import Runtime
from workers.files.read import read_whole

PRE_COMMIT = "git hook run --ignore-missing pre-commit"
# Git sends what a hook prints to standard error, so standard output is the message as the hook left it.
COMMIT_MSG = 'git hook run --ignore-missing commit-msg -- "$TMPDIR/message" && cat "$TMPDIR/message"'


async def run_hooks(runtime: Runtime, tree: str, old: str, message: str) -> tuple[str, str]:
    """Run `pre-commit` on the tree and `commit-msg` on the message; return why not to land, and the message.

    They see what they would see in a commit: HEAD at the old commit, the change in the index.
    """
    files = {"message": message.encode()}
    for name, command in (("pre-commit", PRE_COMMIT), ("commit-msg", COMMIT_MSG)):
        result = await run_check(runtime, f"hook-{name}", command, tree, old, head=old, files=files)
        if not result.passed:
            said = " ".join(result.tail.split())[-300:] or result.in_words()
            return f"the {name} hook refuses: {said}", message
        if name == "commit-msg":
            message = read_whole(runtime.run.root / result.output).decode("utf-8", "replace")
    return "", message
