"""What the commands do: typed arguments in, one answer out. Prints nothing; every front end calls these."""
