"""What work may cost and what it did: ledger, limits, prices."""
