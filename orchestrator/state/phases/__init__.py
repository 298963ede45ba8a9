"""The family `phases`: the plans of each phase, how they stand, and the coordinator's dashboard."""
