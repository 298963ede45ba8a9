"""STATUS.md: its content, and how events change it."""
