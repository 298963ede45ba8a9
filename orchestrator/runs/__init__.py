"""A run as data on disk: manifest, state, live view, scopes in use, next action."""
