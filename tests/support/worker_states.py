"""Worker states as a run's journal yields them, for tests of decisions made from them alone."""

from orchestrator.runs.events import Evidence, Violation
from orchestrator.runs.worker_state import WorkerState


def worker_state(worker, ticket, agent="command", **facts):
    """Make a worker state; facts of its evidence go into it."""
    made = WorkerState(worker, ticket, agent)
    if "violations" in facts:
        facts["violations"] = tuple(Violation(*one) for one in facts["violations"])
    for name, value in facts.items():
        if name in Evidence._fields and not hasattr(WorkerState, name):
            made.evidence = made.evidence._replace(**{name: value})
        else:
            setattr(made, name, value)
    return made
