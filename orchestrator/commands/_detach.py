"""A runtime as a separate process, which outlives the terminal or the tool call that starts it."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping

from orchestrator.commands.answer import Answer
from orchestrator.errors import HELD, USAGE, Refusal
from orchestrator.prepare.start import Started
from orchestrator.runs.next_action import wait_for, wait_of
from orchestrator.runs.state import RunState, read_run
from tickets.problems import Problem
from workers.files.locks import take_lock
from workers.files.read import read_whole
from workers.files.run_dir import RunDir

_ERROR = "error: "
APPEARS = 15.0
"""Seconds until a runtime has taken its run's lock, also on a busy machine."""


def detach(begun: Started, environ: Mapping[str, str], *, integrates: bool) -> Answer[RunState]:
    """Start the runtime of a run in a session of its own, and answer once it has taken over the run.

    It inherits the lock of the run. Raises Refusal where it ends before that, with its own reason and exit
    code.
    """
    run, lock = begun.run, begun.lock
    if lock is None:
        problem = Problem(run.id, "another runtime works on this run", "wait for it")
        raise Refusal(problem, exit_code=HELD, next_action=wait_for(run))
    log = run.path / "runtime.log"
    words = ["_runtime", run.id, "--lock", str(lock), "--project", str(run.root)]
    words += ["--integrate"] if integrates else []
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
            pass_fds=(lock,),
        )
    os.close(lock)
    until = time.monotonic() + APPEARS
    while _owner(run) != str(started.pid) and started.poll() is None:
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
    # Also where its runtime has ended already: by this the caller hears how.
    document = state.document(wait_of(state))
    document["problems"] = [problem.as_json() for problem in begun.warnings]
    return Answer(0, document, begun.warnings, state)


def taken_over(run: RunDir) -> Started:
    """Return a run of earlier as one that begins now, with its lock where that is free."""
    return Started(run, (), take_lock(run.path / "run.lock"))


def _owner(run: RunDir) -> str:
    return read_whole(run.path / "run.lock").decode("ascii", "replace").strip()
