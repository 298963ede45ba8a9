"""Commits that no branch reaches and that a run still needs: held by refs of ours while it is on.

What workers start from that build on others is such a commit. Without a ref a `git gc --prune=now` takes it
once their trees are gone, and with it the only way to read their patches.
"""

from orchestrator.deployment import Deployment
from workers.git import git, git_fields

KEEP = "refs/orchestrate/keep"


def keep_base(d: Deployment, commit: str) -> str:
    """Hold a commit for as long as the run is on, and give it."""
    git(f"--git-dir={d.repository.common}", "update-ref", f"{_folder(d)}/{commit}", commit, cwd=d.run.root)
    return commit


def let_bases_go(d: Deployment) -> None:
    """Take the refs of a run away."""
    if all(facts.get("base") in (None, d.manifest.base) for facts in d.state.workers.values()):
        return
    where = f"--git-dir={d.repository.common}"
    refs = git_fields(where, "for-each-ref", "--format=%(refname)%00", _folder(d), cwd=d.run.root)
    feed = "".join(f"delete {ref.strip()}\n" for ref in refs if ref.strip())
    git(where, "update-ref", "--stdin", cwd=d.run.root, feed=feed.encode())


def _folder(d: Deployment) -> str:
    return f"{KEEP}/{d.run.id}"
