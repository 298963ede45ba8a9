"""The user's commit hooks, run on a landing before it is made: `[git] hooks = true`."""

from orchestrator.execute.command import run_check
from orchestrator.execute.runtime import Runtime
from workers.files.read import read_whole

STAGED = "orchestrate: staged by the hook:"
"""Begins the line that names what a hook has staged."""
# A hook gets an index and a folder for objects of its own, since git's are read-only there: it can stage, and
# is told that a landing does not take that.
PRE_COMMIT = f"""
objects=$(cd "$(git rev-parse --git-path objects)" && pwd) && mkdir "$TMPDIR/objects" || exit
cp "$(git rev-parse --git-path index)" "$TMPDIR/index" || exit
export GIT_INDEX_FILE="$TMPDIR/index" GIT_OBJECT_DIRECTORY="$TMPDIR/objects"
export GIT_ALTERNATE_OBJECT_DIRECTORIES="$objects"
before=$(git write-tree) || exit
git hook run --ignore-missing pre-commit || exit
staged=$(git diff-index --cached --name-only "$before") || exit
test -z "$staged" || {{ echo "{STAGED}" $staged; exit 1; }}
"""
# Git sends what a hook prints to standard error, so standard output is the messages as it left them.
COMMIT_MSG = """
for message in "$TMPDIR"/message-*; do
    git hook run --ignore-missing commit-msg -- "$message" && cat "$message" && printf '\\0' || exit
done
"""


async def run_hooks(runtime: Runtime, tree: str, old: str, messages: list[str]) -> tuple[str, list[str]]:
    """Run `pre-commit` on the tree, `commit-msg` on each message; return why not to land, and the messages.

    They see what they would see in a commit of it all: HEAD at the old commit, the change in the index.
    """
    files = {f"message-{number:04}": message.encode() for number, message in enumerate(messages)}
    for name, command in (("pre-commit", PRE_COMMIT), ("commit-msg", COMMIT_MSG)):
        result = await run_check(runtime, f"hook-{name}", command, tree, old, head=old, files=files)
        if not result.passed:
            _, found, staged = result.tail.partition(STAGED)
            if found:
                what = (
                    f"stages changes ({' '.join(staged.split())[:300]}), and a landing takes none of a hook"
                )
                return f"the {name} hook {what}", messages
            said = " ".join(result.tail.split())[-300:] or result.in_words()
            return f"the {name} hook refuses: {said}", messages
        if name == "commit-msg":
            printed = read_whole(runtime.run.root / result.output).decode("utf-8", "replace")
            messages = printed.split("\0")[:-1]
    return "", messages
