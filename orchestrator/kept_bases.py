"""Commits that no branch reaches and that a run still needs: held by refs of ours while it is on.

What workers start from that build on others is such a commit. Without a ref a `git gc --prune=now` takes it
once their trees are gone, and with it the only way to read their patches.
"""

from orchestrator.deployment import Deployment
from orchestrator.runs import RunState
from workers.git import Repository, git, git_fields

KEEP = "refs/orchestrate/keep"


def keep_base(d: Deployment, commit: str) -> str:
    """Hold a commit for as long as the run is on, and give it."""
    git(
        f"--git-dir={d.repository.common}",
        "update-ref",
        f"{KEEP}/{d.run.id}/{commit}",
        commit,
        cwd=d.run.root,
    )
    return commit


def let_bases_go(repository: Repository, state: RunState, base: str) -> None:
    """Take the refs of a run that began at `base` away."""
    if all(facts.get("base") in (None, base) for facts in state.workers.values()):
        return
    where, folder = f"--git-dir={repository.common}", f"{KEEP}/{state.run.id}"
    refs = git_fields(where, "for-each-ref", "--format=%(refname)%00", folder, cwd=state.run.root)
    feed = "".join(f"delete {ref.strip()}\n" for ref in refs if ref.strip())
    git(where, "update-ref", "--stdin", cwd=state.run.root, feed=feed.encode())
