"""Verdicts, the gate and who breaks it, landing and recording."""
