"""A runtime as a separate process, which outlives the terminal or the tool call that starts it."""

import subprocess
import sys
import time
from collections.abc import Mapping

from orchestrator.commands.answer import Answer
from orchestrator.errors import HELD, USAGE, Refusal
from orchestrator.runs.state import RunState, read_run
from tickets.problems import Problem
from workers.files.locks import is_locked
from workers.files.read import read_whole
from workers.files.run_dir import RunDir

_ERROR = "error: "
APPEARS = 15.0
"""Seconds until a runtime has taken its run's lock, also on a busy machine."""


def detach(
    run: RunDir, warnings: tuple[Problem, ...], environ: Mapping[str, str], *, integrates: bool
) -> Answer[RunState]:
    """Start the runtime of a run in a session of its own, and answer once it has taken over the run.

    Raises Refusal where it ends before that, with its own reason and exit code.
    """
    log = run.path / "runtime.log"
    words = ["_runtime", run.id, *(["--integrate"] if integrates else []), "--project", str(run.root)]
    if is_locked(run.path / "run.lock"):
        problem = Problem(run.id, "another runtime works on this run", "wait for it")
        raise Refusal(problem, exit_code=HELD, next_action=_wait(run, read_run(run)))
    with log.open("ab") as output:
        began = output.tell()
        started = subprocess.Popen(
            [sys.executable, "-P", "-m", "_orchestrate", *words],
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
    refused = started.returncode in (USAGE, HELD)
    if state is None or refused or (started.returncode and not state.has_ended):
        said = read_whole(log)[began:].decode("utf-8", "replace").splitlines()
        errors = [line.removeprefix(_ERROR) for line in said if line.startswith(_ERROR)]
        why = "; ".join(errors) or f"exit code {started.returncode}"
        problem = Problem(run.id, f"its runtime ended at once: {why}", f"see {run.relative(log)}")
        raise Refusal(problem, exit_code=started.returncode or 1)
    document = state.document(_wait(run, state))
    document["problems"] = [problem.as_json() for problem in warnings]
    return Answer(0, document, warnings, state)


def _wait(run: RunDir, state: RunState | None) -> str:
    """Return the command that waits for a run, also where its runtime has ended already."""
    return f"orchestrate wait {run.id} --since {state.cursor if state else 0}"
