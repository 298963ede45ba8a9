"""Files of a run that survive kills: run directory, journal, exit records, locks, bounded reads."""
