"""`orchestrate.toml` and the pool in AGENTS.md as one frozen value."""
