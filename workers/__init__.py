"""How an agent CLI is run: argument lists, shims, worktrees, slots and outputs."""
