"""Keep-alive refs: they protect the commits without a branch that a running run needs.

Workers that build on others start from such a commit. Without a ref a `git gc --prune=now` removes it once
their trees are gone, and then their patches cannot be read.
"""

from orchestrator.runs.state import RunState
from workers.git.run import Repository, git, git_fields

KEEP = "refs/orchestrate/keep"


def keep_base(repository: Repository, run_id: str, commit: str) -> str:
    """Protect a commit while the run lasts, and return it."""
    git(
        f"--git-dir={repository.common}",
        "update-ref",
        f"{KEEP}/{run_id}/{commit}",
        commit,
        cwd=repository.root,
    )
    return commit


def drop_bases(repository: Repository, state: RunState, base: str) -> None:
    """Remove the refs of a run that began at `base`."""
    if any(worker.base not in ("", base) for worker in state.workers.values()):
        drop_refs(repository, state.run.id)


def kept_refs(repository: Repository, below: str = "") -> list[str]:
    """Return the refs of all runs, or of the one whose id is given. Raises GitError."""
    where, folder = f"--git-dir={repository.common}", f"{KEEP}/{below}"
    found = git_fields(where, "for-each-ref", "--format=%(refname)%00", folder, cwd=repository.root)
    return [name for ref in found if (name := ref.strip())]


def drop_refs(repository: Repository, run_id: str) -> None:
    """Remove the refs of a run. Raises GitError."""
    if feed := "".join(f"delete {name}\n" for name in kept_refs(repository, f"{run_id}/")):
        where = f"--git-dir={repository.common}"
        git(where, "update-ref", "--stdin", cwd=repository.root, feed=feed.encode())
