"""The kernel's limits on what a worker reads, writes and reaches: probe, policy, places, bubblewrap."""
