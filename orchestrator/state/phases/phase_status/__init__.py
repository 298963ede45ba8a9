"""phases/PHASE/STATUS.md: plan states, tasks, blockers, decisions and context of one phase."""
