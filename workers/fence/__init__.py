"""The kernel's limits on a worker's writes: probe, policy, bubblewrap."""
