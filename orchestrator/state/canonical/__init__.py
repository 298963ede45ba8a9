"""Seed 000: the three canonical files, always on."""
