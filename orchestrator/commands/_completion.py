"""The completion of what a run has finished. Imports little: `wait` asks."""

from orchestrator.runs.next_action import completing, once_mended
from orchestrator.runs.state import RunState
from orchestrator.step import Step


def completion_of(run: RunState) -> Step:
    """Return the step that completes what a run has finished; empty for nothing."""
    command = completing(run)
    if not command:
        return ""
    from orchestrator.checks.figures import red_tests  # noqa: PLC0415 - for start-up time: few runs finish any

    return once_mended(red_tests(run.run.root), command)
