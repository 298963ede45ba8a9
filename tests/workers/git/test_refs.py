"""Refs read from git's own files are what git reports, and unclear cases are left to git."""

import pytest

from workers.git.refs import UNSURE, FoundHead, head_of, tree_of, value_of
from workers.git.run import find_repository, git, git_line


@pytest.fixture
def repository(tmp_path):
    git("init", "-q", "-b", "main", str(tmp_path), cwd=tmp_path)
    for name, value in (("name", "Ada"), ("email", "ada@example.org")):
        git("config", f"user.{name}", value, cwd=tmp_path)
    git("commit", "-q", "--allow-empty", "-m", "base", cwd=tmp_path)
    return find_repository(tmp_path)


def sha_of(repository, what="HEAD"):
    return git_line("rev-parse", what, cwd=repository.root)


@pytest.mark.parametrize("packed", [False, True])
def test_head_and_branches_are_where_git_says(repository, packed):
    git("branch", "topic/ä", cwd=repository.root)
    if packed:
        git("pack-refs", "--all", cwd=repository.root)
    sha = sha_of(repository)
    assert head_of(repository) == FoundHead(sha, "refs/heads/main")
    assert value_of(repository, "refs/heads/topic/ä") == sha
    assert value_of(repository, "refs/heads/topic") is None
    git("commit", "-q", "--allow-empty", "-m", "next", cwd=repository.root)
    assert head_of(repository) == FoundHead(sha_of(repository), "refs/heads/main")
    assert value_of(repository, "refs/heads/topic/ä") == sha


def test_a_detached_head_and_a_branch_without_a_commit_are_known(repository):
    sha = sha_of(repository)
    git("checkout", "-q", "--detach", cwd=repository.root)
    assert head_of(repository) == FoundHead(sha, None)
    git("checkout", "-q", "--orphan", "empty", cwd=repository.root)
    assert head_of(repository) == FoundHead(None, "refs/heads/empty")


def test_a_worktree_has_a_head_of_its_own_and_shares_the_branches(repository, tmp_path):
    tree = tmp_path / "other"
    git("worktree", "add", "-q", "-b", "side", str(tree), cwd=repository.root)
    git("commit", "-q", "--allow-empty", "-m", "side", cwd=tree)
    other = find_repository(tree)
    assert head_of(other) == FoundHead(git_line("rev-parse", "side", cwd=tree), "refs/heads/side")
    assert value_of(other, "refs/heads/main") == sha_of(repository)


def test_what_is_not_plain_is_left_to_git(repository):
    git("symbolic-ref", "refs/heads/alias", "refs/heads/main", cwd=repository.root)
    git("tag", "v1", cwd=repository.root)
    for ref in ("refs/heads/alias", "refs/tags/v1", "HEAD", "main", "refs/heads/../../HEAD", "HEAD~1"):
        assert value_of(repository, ref) == UNSURE
    (repository.common / "refs" / "heads" / "broken").write_text("ref")
    assert value_of(repository, "refs/heads/broken") == UNSURE
    (repository.common / "reftable").mkdir()
    assert head_of(repository) == value_of(repository, "refs/heads/main") == UNSURE


def test_the_tree_of_a_commit_is_known_until_it_is_packed(repository):
    sha = sha_of(repository)
    assert tree_of(repository, sha) == sha_of(repository, "HEAD^{tree}")
    assert tree_of(repository, sha_of(repository, "HEAD^{tree}")) == UNSURE
    git("repack", "-adq", cwd=repository.root)
    git("prune-packed", "-q", cwd=repository.root)
    assert tree_of(repository, sha) == UNSURE
