"""Path patterns: normalise, cover, overlap with a witness, and the owner of each file."""
