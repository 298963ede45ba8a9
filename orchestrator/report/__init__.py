"""Where a project stands: status report, handoff, doctor, validate."""
