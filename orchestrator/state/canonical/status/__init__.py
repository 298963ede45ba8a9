"""STATUS.md: what it says, and how events change it."""
