"""One ticket to its end: slot, budget, attempt, evidence, verdict by rule, retry; adoption after a crash."""
