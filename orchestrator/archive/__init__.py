"""Archiving: old entries of state files, old runs, and garbage."""
