"""What the kernel lets a worker write: probe, policy, bubblewrap."""
