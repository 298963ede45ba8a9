"""What becomes of an output: judging, landing, and the one writer of state."""

__version__ = "0.1.0"
