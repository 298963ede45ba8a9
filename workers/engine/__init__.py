"""Run one job on this machine: launch it below a shim, follow it, adopt it, stop it."""
