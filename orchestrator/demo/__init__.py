"""The demo: a small repository with real faults, and the program that its workers run."""
