"""The family `checkpoints`, which every project has: how far each agent has come, in docs/progress/."""
