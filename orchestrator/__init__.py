"""The runtime: runs tickets, judges and lands their outputs, and is the one writer of state."""

__version__ = "0.1.0"
