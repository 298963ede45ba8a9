"""What the participants of a run tell each other, and what a runtime makes of it."""
