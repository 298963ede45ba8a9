"""A worktree for a worker, and its changes there."""
