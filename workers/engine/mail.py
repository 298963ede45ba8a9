"""How the messages of its run reach a worker: variables of its shell, a server and hooks of its agent CLI."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from workers.agents.agent import Mail
from workers.engine.job import Job, Site
from workers.engine.process import MARK
from workers.fence.places import INSTALLED
from workers.fence.policy import message_log
from workers.files.run_dir import RunDir
from workers.messages.scratch import GREETED

PYTHON = (os.path.realpath(sys.executable), "-I", "-S")
_ROOM = INSTALLED / "workers" / "messages"
_MARGIN = 60
"""Seconds that a CLI gives a call of our tools beyond the ticket's timeout: the call ends first."""
_LONGEST = 20 * 86_400
"""Seconds; CLIs count in milliseconds, of which they know 2^31."""


def message_environment(site: Site, job: Job) -> dict[str, str]:
    """Return the variables by which a worker's shell sends and reads messages."""
    program, said = _command(), site.messages
    return {
        "ORCHESTRATE_MESSAGES": str(message_log(site.run, job.ticket.worker)),
        **({"ORCHESTRATE_CLI": program} if program else {}),
        "ORCHESTRATE_EVENTS": said.events,
        "ORCHESTRATE_ON_BLOCKER": said.on_blocker,
        "ORCHESTRATE_PAUSE_LIMIT": f"{said.pause_limit:.0f}",
        "ORCHESTRATE_ACK_LIMIT": f"{said.ack_limit:.0f}",
        "ORCHESTRATE_DEADLINE": str(int(job.deadline)),
    }


def mail_of(site: Site, job: Job, variables: Iterable[str]) -> Mail:
    """Return the server and the hooks of an attempt; `variables` are the names of those that it sees."""
    worker, said = job.ticket.worker, site.messages
    log = str(message_log(site.run, worker))
    longest = int(min(_LONGEST, _LONGEST if job.limits.total is None else job.limits.total))
    options = {
        "log": log,
        "phase": said.phase,
        "events": said.events,
        "on-blocker": said.on_blocker,
        "pause-limit": f"{said.pause_limit:.0f}",
        "ack-limit": f"{said.ack_limit:.0f}",
        "scratch": str(site.run.scratch(worker)),
    }
    after, stop = (hook_command(way, job.ticket.agent, log) for way in ("after", "stop"))
    return Mail(
        server=(
            *(*PYTHON, str(_ROOM / "mail_server.py")),
            *(part for name, value in options.items() for part in (f"--{name}", value)),
            *(("--phase-worker",) if said.phase_worker == worker else ()),
        ),
        after_tool=after,
        before_stop=stop,
        deadline=int(job.deadline),
        tool_seconds=longest + _MARGIN,
        # By the mark a cleaner finds what a killed shim has left.
        variables=(*(name for name in variables if name.startswith("ORCHESTRATE_")), MARK),
    )


def hook_command(way: str, agent: str, log: str, python: tuple[str, ...] = PYTHON) -> str:
    """Return the shell command of a hook, which succeeds where our program cannot even be started.

    Of a hook that fails with certain codes the CLIs believe that it holds the agent back, for ever.
    """
    return f"{shlex.join((*python, str(_ROOM / 'mail_hook.py'), way, agent, log))} || true"


def forget_server(run: RunDir, worker: str) -> None:
    """Remove the sign that a server of an earlier attempt has left."""
    (run.scratch(worker) / GREETED).unlink(missing_ok=True)


def had_server(run: RunDir, worker: str) -> bool:
    """Return whether the CLI of a worker's last attempt has started the server."""
    return os.path.lexists(run.scratch(worker) / GREETED)


@cache
def _command() -> str | None:
    """Return the path of `orchestrate`, which is beside the Python that it is installed for."""
    beside = Path(sys.executable).with_name("orchestrate")
    return str(beside) if beside.is_file() else shutil.which("orchestrate")
