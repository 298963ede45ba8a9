"""One ticket to its verdict: slot, budget, worker, evidence, retry; adoption after a crash."""
