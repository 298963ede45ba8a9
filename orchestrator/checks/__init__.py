"""The project's own checks: run, counted, kept by commit."""
