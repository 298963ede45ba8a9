"""The launch of one attempt: its folders, command line, environment and fence, for a shim to start."""

import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from tickets.redact import Counts, Redactor, added
from tickets.redact.redactor import SEARCHED
from tickets.ticket import Ticket
from tickets.types import AGENTS, AgentName
from workers.agents.agent import (
    NO_LOGIN,
    Invocation,
    InvocationRequest,
    agent_named,
    find_agent,
    variables_set,
)
from workers.engine.job import EarlierWork, Job, Site
from workers.engine.mail import forget_server, mail_of, message_environment
from workers.errors import ProgramMissingError, WorkerError
from workers.fence.policy import Walls, cache_environment, message_log, worker_walls
from workers.fence.probe import Fence, enclosed
from workers.files.durable import create_file, created
from workers.files.read import opened, read_whole
from workers.files.run_dir import AttemptFiles, RunDir
from workers.shim.atomic import create_whole
from workers.shim.spec import Launch
from workers.worktree.environments import search_path

EARLIER = "earlier.patch"
"""The name, in its TMPDIR, of a patch that a worker is to read."""
ALLOWED = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "all_proxy",
})  # fmt: skip
ALLOWED_PREFIXES = ("LC_",)


def mark_of(run: RunDir, worker: str, number: int = 1, runtime: str = "") -> str:
    """Return the mark that the processes of an attempt, and no others, have in their environment.

    With the `runtime` that launches them it is the whole mark, without it the beginning that all have.
    """
    # Of an attempt, not of a worker: a late cleaner of a dirty slot must not kill the next attempt.
    # By the run's path, not its id: two repositories may each begin a run in the same second.
    # Of a runtime: one that was killed before it launched leaves a slot in the name of the attempt, which the
    # next runtime makes; who cleans that slot must not kill it.
    return f"{run.path}/{worker}/{number}" + (f"/{runtime}" if runtime else "")


def prepare_launch(site: Site, job: Job, tree: Path) -> Launch:
    """Make everything a job needs except its tree, and return the launch for its shim. Raises WorkerError."""
    run, ticket = site.run, job.ticket
    executable = find_agent(ticket.agent, job.settings, site.environ)
    if executable is None:
        wanted = job.settings.executable or ticket.agent
        raise ProgramMissingError(f"no such program: {wanted}")
    if (folder := folder_in(tree, ticket.cwd)) is None:
        raise WorkerError(f"`cwd`: {ticket.cwd} is not a folder of its tree")
    _make_own(run, ticket, site.fence)
    common = {
        **worker_environment(site, ticket.worker, tree, job.settings.env, more=ticket.env),
        **message_environment(site, job),
    }
    is_cli = ticket.agent != "command"
    request = InvocationRequest(
        worker=ticket.worker,
        mode=ticket.mode,
        executable=executable,
        settings=job.settings,
        model=ticket.model or job.settings.model,
        worktree=tree,
        prompt=job.prompt,
        home=run.home(ticket.worker),
        environ=site.environ,
        instructions=_instructions(tree) if is_cli else (),
        trust_repository=site.trust_repository,
        variables=tuple(common),
        fenced=site.fence.holds,
        command=ticket.command,
        budget_usd=ticket.budget_usd if job.budget_usd is None else job.budget_usd,
        thread=job.thread,
        mail=mail_of(site, job, common) if is_cli else None,
    )
    if job.earlier is not None:
        _take_up(run, job, job.earlier, request)
    invocation, files = _invocation(ticket.agent, request), run.attempt(ticket.worker, job.number)
    launch = Launch(
        worker=ticket.worker,
        argv=invocation.argv,
        env={**common, **invocation.env},
        cwd=folder,
        stdin=job.prompt,
        stdout=files.stdout,
        stderr=files.stderr,
        started_record=files.started,
        exit_record=files.exit,
        limits=job.limits,
        cancel_paths=(*cancel_paths(run, ticket.worker), files.done),
        busy_path=files.busy if is_cli else None,
        # An interrupted agent CLI closes its stream; a terminated one may just exit.
        soft_signal=signal.SIGINT if is_cli else signal.SIGTERM,
        stops_with_runtime=site.stops_with_runtime,
        mark=mark_of(run, ticket.worker, job.number, site.runtime),
    )
    return enclosed(launch, site.fence, _walls(site, job, launch, tree)) if site.fence.holds else launch


def _invocation(agent: AgentName, request: InvocationRequest) -> Invocation:
    """Return the command line of the agent, and create its configuration files."""
    invocation = agent_named(agent).invocation(request)
    for name, data in invocation.files.items():
        _place(request.home / name, data)
    return invocation


def _walls(site: Site, job: Job, launch: Launch, tree: Path) -> Walls:
    ticket, agent = job.ticket, agent_named(job.ticket.agent)
    return worker_walls(
        site.run,
        site.repository,
        ticket.worker,
        mode=ticket.mode,
        environ=launch.env,
        executable=launch.argv[0],
        # With a key the CLI keeps all of its files in the worker's home.
        login=NO_LOGIN if variables_set(agent.KEYS, site.environ) else agent.LOGIN,
        network=ticket.agent != "command" or job.settings.network == "open",
        tree=tree,
        readable=site.readable,
    )


def common_environment(environ: Mapping[str, str], passed: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the variables of `environ` that every worker may see, and those named in `passed`."""
    return {
        name: value
        for name, value in environ.items()
        if name in ALLOWED or name.startswith(ALLOWED_PREFIXES) or name in passed
    }


def folder_in(tree: Path, path: str) -> Path | None:
    """Return a folder of a tree; None where it is none, or leads out of it."""
    folder = tree / path
    return folder if folder.is_dir() and folder.resolve().is_relative_to(tree.resolve()) else None


def worker_environment(
    site: Site,
    worker: str,
    tree: Path,
    passed: tuple[str, ...] = (),
    *,
    more: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the environment of every process of a worker, agent or check, without keys."""
    run, fence, found = site.run, site.fence, site.environments
    scratch = run.scratch(worker)
    stated = {**common_environment(site.environ, passed), **site.variables, **(more or {})}
    sources = [str(tree / path) for path in found.sources if (tree / path).is_dir()]
    sources += [stated["PYTHONPATH"]] if stated.get("PYTHONPATH") else []
    return {
        # Variables that the user names are passed on, even if nothing can be written to their paths.
        **(cache_environment(scratch) if fence.holds else {}),
        **stated,
        **({"PATH": search_path(stated["PATH"], run.root, tree, found)} if "PATH" in stated else {}),
        **({"PYTHONPATH": os.pathsep.join(sources)} if sources else {}),
        "TMPDIR": str(scratch),
        # Byte code beside the sources would be a change of the tree.
        "PYTHONPYCACHEPREFIX": str(scratch / "pycache"),
        "GIT_OPTIONAL_LOCKS": "0",
        "ORCHESTRATE_PROJECT": str(run.root),
        "ORCHESTRATE_RUN": run.id,
        "ORCHESTRATE_WORKER": worker,
    }


def cancel_paths(run: RunDir, worker: str) -> tuple[Path, ...]:
    """Return the files whose appearance stops a worker: its own, its run's, its runtime's."""
    return (run.cancel_path(worker), run.cancel_path("all"), run.stopping_path)


def keep_text(files: AttemptFiles, text: str, redactor: Redactor) -> Counts:
    """Create the file for a person: the final answer, else the standard output itself.

    An output with secrets becomes a copy without them; they are counted. The answer has none any more.
    """
    counts: Counts = {}
    with contextlib.suppress(FileExistsError):
        if text:
            create_file(files.text, text.encode("utf-8", "replace") + b"\n")
            return counts
        try:
            beginning, end, counts = _searched(files.stdout, redactor)
            if counts:
                _copy_between(files, beginning, end)
            else:
                # The same file under a second name: an output may be as large as its cap.
                os.link(files.stdout, files.text)
        except FileNotFoundError:
            create_file(files.text, b"")
    return counts


def _searched(path: Path, redactor: Redactor) -> tuple[bytes, bytes, Counts]:
    """Return the searched parts of an output without secrets, and their counts: what is long has two."""
    descriptor = opened(path)
    try:
        size = os.fstat(descriptor).st_size
        if size <= SEARCHED:
            clean, counts = redactor.output(os.pread(descriptor, size, 0)) if size else (b"", {})
            return clean, b"", counts
        parts = [os.pread(descriptor, SEARCHED // 2, at) for at in (0, size - SEARCHED // 2)]
    finally:
        os.close(descriptor)
    (beginning, first), (end, last) = map(redactor.output, parts)
    return beginning, end, added((first, last))


def _copy_between(files: AttemptFiles, beginning: bytes, end: bytes) -> None:
    """Create the file for a person from the searched parts of an output, and what is between them."""
    source = opened(files.stdout)
    try:
        with created(files.text) as file:
            file.write(beginning)
            file.flush()
            offset, until = SEARCHED // 2, os.fstat(source).st_size - SEARCHED // 2
            while offset < until:
                offset += os.sendfile(file.fileno(), source, offset, min(until - offset, 1 << 24))
            file.write(end)
    finally:
        os.close(source)


def _instructions(worktree: Path) -> tuple[str, ...]:
    names = dict.fromkeys(name for agent in AGENTS for name in agent_named(agent).INSTRUCTION_FILES)
    return tuple(name for name in names if (worktree / name).is_file())


def _make_own(run: RunDir, ticket: Ticket, fence: Fence) -> None:
    """Make the folders that a worker writes to besides its tree; a command has no configuration."""
    homes = () if ticket.agent == "command" else (run.home(ticket.worker),)
    for folder in (*homes, run.scratch(ticket.worker)):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    forget_server(run, ticket.worker)
    log = message_log(run, ticket.worker)
    log.parent.mkdir(parents=True, exist_ok=True)
    if fence.holds:
        # A file that is not there cannot be let through a fence; else the first message makes it.
        with contextlib.suppress(FileExistsError):
            create_whole(str(log), b"", 0o600)


def _take_up(run: RunDir, job: Job, earlier: EarlierWork, request: InvocationRequest) -> None:
    """Create what an earlier run has left for a worker: the files of its thread, a patch to read."""
    if earlier.home is not None and job.thread:
        agent = agent_named(job.ticket.agent)
        for source, name in agent.thread_files(earlier.home, job.thread, request.worktree):
            with contextlib.suppress(OSError):  # the agent then reports that it has no such thread
                _place(request.home / name, read_whole(source))
    if earlier.patch is not None:
        _place(run.scratch(job.ticket.worker) / EARLIER, read_whole(earlier.patch))


def _place(path: Path, data: bytes) -> None:
    """Create a file in an agent's home; one that an earlier attempt or its CLI has left stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        create_file(path, data)
