"""A runtime as a separate process, which outlives the terminal or the tool call that starts it."""

import subprocess
import sys
import time
from collections.abc import Mapping

from orchestrator.commands.answer import Answer
from orchestrator.errors import Refusal
from orchestrator.runs.next_action import next_of_run
from orchestrator.runs.state import RunState, read_run
from tickets.problems import Problem
from workers.files.locks import is_locked
from workers.files.run_dir import RunDir

APPEARS = 15.0
"""Seconds until a runtime has taken its run's lock, also on a busy machine."""


def detach(run: RunDir, warnings: tuple[Problem, ...], environ: Mapping[str, str]) -> Answer[RunState]:
    """Start the runtime of a run in a session of its own, and answer once it has taken over the run."""
    log = run.path / "runtime.log"
    with log.open("ab") as output:
        started = subprocess.Popen(
            [sys.executable, "-P", "-m", "_orchestrate", "_runtime", run.id, "--project", str(run.root)],
            cwd=run.root,
            env={**environ, "ORCHESTRATE_LOG": "info"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    until = time.monotonic() + APPEARS
    while not is_locked(run.path / "run.lock") and started.poll() is None:
        if time.monotonic() > until:
            break
        time.sleep(0.02)
    state = read_run(run)
    if state is None or (started.returncode and not state.has_ended):
        what = f"its runtime ended at once (exit code {started.returncode})"
        raise Refusal(Problem(run.id, what, f"see {run.relative(log)}"), exit_code=1)
    document = state.document(next_of_run(state))
    document["problems"] = [problem.as_json() for problem in warnings]
    document["next_action"] = f"orchestrate wait {run.id}"
    return Answer(0, document, warnings, state)
