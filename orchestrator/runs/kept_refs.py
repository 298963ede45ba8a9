"""Commits that no branch reaches and that a run still needs: held by refs of ours while it is on.

What workers start from that build on others is such a commit. Without a ref a `git gc --prune=now` takes it
once their trees are gone, and with it the only way to read their patches.
"""

from orchestrator.runs.state import RunState
from workers.git.run import Repository, git, git_fields

KEEP = "refs/orchestrate/keep"


def keep_base(repository: Repository, run_id: str, commit: str) -> str:
    """Hold a commit for as long as the run is on, and give it."""
    git(
        f"--git-dir={repository.common}",
        "update-ref",
        f"{KEEP}/{run_id}/{commit}",
        commit,
        cwd=repository.root,
    )
    return commit


def let_bases_go(repository: Repository, state: RunState, base: str) -> None:
    """Take the refs of a run that began at `base` away."""
    if any(worker.base not in ("", base) for worker in state.workers.values()):
        drop_refs(repository, state.run.id)


def kept_refs(repository: Repository, below: str = "") -> list[str]:
    """Name the refs of all runs, or of the one whose id is given. Raises GitError."""
    where, folder = f"--git-dir={repository.common}", f"{KEEP}/{below}"
    found = git_fields(where, "for-each-ref", "--format=%(refname)%00", folder, cwd=repository.root)
    return [name for ref in found if (name := ref.strip())]


def drop_refs(repository: Repository, run_id: str) -> None:
    """Let go of the commits that a run alone needed. Raises GitError."""
    if feed := "".join(f"delete {name}\n" for name in kept_refs(repository, f"{run_id}/")):
        where = f"--git-dir={repository.common}"
        git(where, "update-ref", "--stdin", cwd=repository.root, feed=feed.encode())
