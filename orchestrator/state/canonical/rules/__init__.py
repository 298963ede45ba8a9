"""AGENTS.md: the pool, the gates and the rules."""
