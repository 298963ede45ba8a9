"""A tree for a worker, and what it changed there."""
