"""The project's own checks: run, counted, and kept by commit."""
