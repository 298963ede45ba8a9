"""A run on disk: manifest, state, live view, scopes in use, next action."""
