"""Messages for agents: a turn of each CLI with our server and hooks beside one without, and a hook alone."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lab import medians, say

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests"))
from support import stub_model  # noqa: E402 - it is beside the tests

from tickets.ticket import Ticket  # noqa: E402 - as above
from workers.agents.agent import AgentSettings, InvocationRequest, agent_named  # noqa: E402
from workers.engine.job import Job, Site, TreePlan  # noqa: E402
from workers.engine.launch import common_environment  # noqa: E402
from workers.engine.mail import PYTHON, hook_command, mail_of  # noqa: E402
from workers.files.run_dir import RunDir  # noqa: E402
from workers.git.run import Repository  # noqa: E402
from workers.messages.own_log import OwnLog  # noqa: E402
from workers.messages.record import log_name, participant  # noqa: E402
from workers.shim.spec import Limits  # noqa: E402

CLIS = ROOT / "tests" / "agents" / "node_modules" / ".bin"
MODELS = {"codex": "gpt-5.5", "claude": "claude-sonnet-4-5", "gemini": "gemini-2.5-pro"}
RUN = "20260216_142834"
ROUNDS = 15
LOGS = 100


class Turn(NamedTuple):
    """The command of one turn, in an environment of its own."""

    argv: list[str]
    env: dict[str, str]
    prompt: Path
    cwd: Path


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="orchestrate-bench-") as name:
        hooks(Path(name) / "hooks")
        missing = [cli for cli in MODELS if not (CLIS / cli).exists()]
        if missing:
            say("a turn of each CLI", f"{', '.join(missing)} missing: make agents")
            return
        with stub_model.serving() as server:
            for cli in MODELS:
                turns(cli, Path(name) / cli, server)


def hooks(folder: Path) -> None:
    """Time a hook that has nothing to say, beside a bare start of Python; with 2 logs and with many."""
    for count in (2, LOGS):
        place = folder / str(count)
        messages, scratch = place / "messages", place / "scratch"
        for made in (messages, scratch):
            made.mkdir(parents=True)
        for at in range(count):
            who = participant(RUN, f"Codex-Worker-{at + 2}")
            log = OwnLog(str(messages / log_name(who)), who)
            for _ in range(50):
                log.append("error", participant(RUN, "coordinator"), "x" * 200)
        own = messages / log_name(participant(RUN, "Codex-Worker-1"))
        command = f"TMPDIR={scratch} {hook_command('after', 'codex', str(own))}"
        commands = {
            "hook": ["sh", "-c", command],
            "bare": ["sh", "-c", f"{' '.join(PYTHON)} -c pass || true"],
        }
        found = medians(commands, place, 41)
        ratio = found["hook"] / found["bare"]
        say(
            f"a hook with nothing new, {count} logs: {found['hook'] * 1000:.1f} ms",
            f"{ratio:.2f} x",
            "<= 2 x",
        )


def turns(cli: str, folder: Path, server: stub_model.ModelServer) -> None:
    """Time a turn with and without, in turn; the memory of our processes is looked at meanwhile."""
    pairs = {
        with_mail: _turn(cli, folder / str(with_mail), server, with_mail=with_mail)
        for with_mail in (False, True)
    }
    walls: dict[bool, list[float]] = {False: [], True: []}
    most = 0
    for at in range(ROUNDS + 1):
        for with_mail, turn in pairs.items():
            wall, ours = _played(turn)
            if at:  # the first has a cold home
                walls[with_mail].append(wall)
                most = max(most, ours)
    # The least, not the median: what else a machine does adds more than what is measured.
    less, more = (min(walls[with_mail]) for with_mail in (False, True))
    say(f"{cli}: a turn without messages", f"{less:.2f} s")
    say("  more with server and hooks", f"{more - less:+.3f} s", "<= 0.2 s")
    say("  their memory, peak", f"{most / 1024:.1f} MiB", "<= 14 MiB")


def _turn(cli: str, folder: Path, server: stub_model.ModelServer, *, with_mail: bool) -> Turn:
    worker = f"{cli.title()}-Worker-1"
    run = RunDir(folder, RUN)
    for made in (run.scratch(worker), run.home(worker), folder / ".taskers" / "messages", folder / "tree"):
        made.mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=folder / "tree", check=True)
    prompt = folder / "prompt.md"
    prompt.write_text("Do as the script says. " + stub_model.step("answer", text="Done."))
    key = {"codex": "CODEX_API_KEY", "claude": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}[cli]
    base = {"codex": "OPENAI_BASE_URL", "claude": "ANTHROPIC_BASE_URL", "gemini": "GOOGLE_GEMINI_BASE_URL"}[
        cli
    ]
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", key: "sk-test-not-real"}
    environ[base] = f"{server.url}/v1" if cli == "codex" else server.url
    settings = AgentSettings(executable=str(CLIS / cli), model=MODELS[cli])
    ticket = Ticket("t", "t.md", worker, cli, "phase-1", "Bench", "", mode="write")
    job = Job(ticket, 1, TreePlan(""), settings, Limits(600), prompt, deadline=time.time() + 600)
    site = Site(run, Repository(folder, folder / ".git"), environ)
    env = common_environment(environ)
    request = InvocationRequest(
        worker=worker,
        mode="write",
        executable=agent_named(cli).locate(settings, environ["PATH"]),
        settings=settings,
        model=None,
        worktree=folder / "tree",
        prompt=prompt,
        home=run.home(worker),
        environ=environ,
        fenced=True,
        mail=mail_of(site, job, env) if with_mail else None,
    )
    call = agent_named(cli).invocation(request)
    for name, data in call.files.items():
        (request.home / name).parent.mkdir(parents=True, exist_ok=True)
        (request.home / name).write_bytes(data)
    return Turn(
        list(call.argv), {**env, **call.env, "TMPDIR": str(run.scratch(worker))}, prompt, folder / "tree"
    )


def _played(turn: Turn) -> tuple[float, int]:
    """Play a turn; return its wall seconds, and the most memory of our own processes in it, in KiB."""
    most, start = 0, time.perf_counter()
    with turn.prompt.open("rb") as stdin:
        process = subprocess.Popen(
            turn.argv, env=turn.env, cwd=turn.cwd, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    while process.poll() is None:
        most = max(most, sum(_memory(pid) for pid in _ours(process.pid)))
        time.sleep(0.02)
    wall = time.perf_counter() - start
    out, err = process.communicate()
    if process.returncode:
        raise SystemExit(f"{turn.argv}: exit {process.returncode}\n{out.decode()}{err.decode()}")
    return wall, most


def _ours(above: int) -> Iterator[int]:
    """Yield the servers and hooks below a process."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    for pid in parents:
        at = pid
        while at in parents and at != above:
            at = parents[at]
        if at == above and pid != above:
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if any(word.endswith((b"/mail_server.py", b"/mail_hook.py")) for word in words[:5]):
                    yield pid
            except OSError:
                continue


def _memory(pid: int) -> int:
    """Return the memory of a process, what it shares counted in part, in KiB."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


if __name__ == "__main__":
    main()
