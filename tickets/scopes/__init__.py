"""Path patterns: normalise, cover, overlap with a witness, and who owns which file."""
