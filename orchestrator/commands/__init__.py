"""The commands: typed arguments in, one answer out. They print nothing; every front end calls them."""
