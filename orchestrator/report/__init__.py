"""The state of a project: status report, handoff, doctor, validate."""
