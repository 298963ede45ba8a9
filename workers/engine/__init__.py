"""Run one job on this machine, plain data in and out: its tree, its launch, its stream, its changes."""
