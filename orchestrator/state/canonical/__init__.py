"""The family of the three canonical files, always on."""
