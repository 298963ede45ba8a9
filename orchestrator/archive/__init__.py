"""What is old: entries of state files, runs, garbage."""
