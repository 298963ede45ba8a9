"""The accepted work of all tickets together: the lead's decisions, gate, landing, recording."""
