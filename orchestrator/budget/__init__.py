"""The cost of work: ledger, limits, prices."""
