"""DECISIONS.md: append-only entries and approval gates."""
