"""The engine of this machine by itself: plain jobs in a real repository, with real processes and fences."""

# These tests wait for files that other processes write: there is no event, and no loop to hold up.
# ruff: noqa: ASYNC110
import ast
import json
import os
import shlex
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from support.fences import fence_of
from support.launches import lives
from support.paths import ROOT
from support.runtimes import PATIENCE

from tickets.ticket import Ticket
from workers.agents.agent import AgentSettings
from workers.engine.check import Check
from workers.engine.job import (
    FirstAnswer,
    Job,
    Messages,
    PatchDue,
    PathsMissing,
    SetUp,
    SetUpRan,
    Site,
    Throttled,
    TreePlan,
    TreeReady,
)
from workers.engine.local import LocalEngine, read_ended
from workers.engine.process import NEVER_STARTED, open_fork_server
from workers.errors import WorkerError
from workers.fence.probe import OPEN
from workers.files.run_dir import RunDir
from workers.git.run import Repository, git, git_line
from workers.messages.scratch import GREETED
from workers.shim.spec import Limits
from workers.worktree.changes import Checker
from workers.worktree.checkout import Furniture

pytestmark = pytest.mark.anyio
W = "Command-Worker-1"
NOTHING = SetUp()
AGENT = """#!/bin/sh
say() { printf '%s\\n' "$1"; }
say '{"type": "system", "subtype": "init", "session_id": "s-1", "model": "m"}'
say '{"type": "system", "subtype": "api_retry", "attempt": 1, "retry_delay_ms": 7000, "error_status": 529}'
until [ -e "$TMPDIR/waited" ]; do sleep 0.01; done
say '{"type": "assistant", "message": {"content": [{"type": "text", "text": "I am at it."}]}}'
cat > prompt-was
say '{"type": "result", "subtype": "success", "is_error": false, "result": "All done.", "session_id": "s-1"}'
exec sleep 60
"""
"""Waits for its provider, answers, prints its last message, and does not exit."""


class Machine:
    """A repository with a run in it, and the engine that works there."""

    def __init__(self, folder):
        root = folder / "repository"
        (root / "src").mkdir(parents=True)
        git("init", "-q", "-b", "main", cwd=root)
        for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
            git("config", name, value, cwd=root)
        (root / "src" / "app.py").write_text("print('hello')\n")
        git("add", "-A", cwd=root)
        git("commit", "-q", "-m", "base", cwd=root)
        self.base = git_line("rev-parse", "HEAD", cwd=root)
        self.run_dir = RunDir(root, "20260216_142834")
        for name in ("tickets", "shims", "checks", "cancel"):
            (self.run_dir.path / name).mkdir(parents=True)
        (home := folder / "home").mkdir()
        repository = Repository(root, root / ".git")
        self.site = Site(self.run_dir, repository, {"PATH": os.environ["PATH"], "HOME": str(home)})
        self.checker = Checker(repository.common, repository.own / "runs" / self.run_dir.id, root)
        self.checker.prepare()
        self.events = []

    @asynccontextmanager
    async def engine(self, fence=OPEN):
        """Open an engine, as each runtime has its own."""
        async with open_fork_server(self.run_dir.path / "nursery.log") as fork_server:
            yield LocalEngine(self.site._replace(fence=fence), fork_server, self.checker)

    def job(self, script="true", *, worker=W, mode="write", set_up=NOTHING, plan=None, **changes):
        """Describe an attempt of a command worker that runs a shell script."""
        ticket = Ticket(
            "t-1", "t-1.md", worker, "command", "phase-1", "Work", "", mode=mode, command=("sh", "-c", script)
        )
        prompt = self.run_dir.ticket(worker)
        prompt.write_text("Do it.\n")
        tree = TreePlan(self.base, set_up, **(plan or {}))
        return Job(ticket, 1, tree, AgentSettings(), Limits(30, 1, 1_000_000, 20), prompt)._replace(**changes)

    def agent_job(self, folder, script):
        """Describe an attempt of an agent that a shell script stands in for."""
        program = folder / "claude"
        program.write_text(script)
        program.chmod(0o755)
        job = self.job(worker="Claude-Worker-1")
        ticket = job.ticket._replace(agent="claude", command=None)
        return job._replace(ticket=ticket, settings=AgentSettings(executable=str(program)))

    async def wait_for(self, path):
        """Wait until another process has made a file."""
        with anyio.fail_after(PATIENCE):
            while not path.exists():
                await anyio.sleep(0.01)

    def kinds(self):
        """List the kinds of the events that came, in order."""
        return [type(event) for event in self.events]


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_no_orchestrator_is_needed_to_run_a_job():
    modules = [*(ROOT / "workers" / "engine").glob("*.py"), Path(__file__)]
    imported = {
        name.partition(".")[0]
        for module in modules
        for node in ast.walk(ast.parse(module.read_text()))
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom)
            else [one.name for one in node.names] if isinstance(node, ast.Import) else []
        )
    }  # fmt: skip
    assert len(modules) > 5
    assert "workers" in imported
    assert "orchestrator" not in imported


@pytest.mark.parametrize("level", ["advisory", "landlock", "namespaces"])
async def test_a_job_comes_back_with_what_its_worker_said_and_changed(machine, level):
    fence = OPEN if level == "advisory" else fence_of(level)
    reach = '2>/dev/null > "$ORCHESTRATE_PROJECT/src/reached" && echo reached'
    report = 'echo \'ORCHESTRATE-RESULT {"status": "complete", "summary": "Said hi."}\''
    job = machine.job(f"cat > src/prompt; rm src/app.py; ( : {reach} ); {report}")
    async with machine.engine(fence) as engine:
        found = await engine.run(job, machine.events.append)
    assert (found.exit.end, found.exit.exit_code, found.answer.ended) == ("exited", 0, "success")
    assert found.answer.text == "Said hi."
    assert [change.path for change in found.found.changes] == ["src/app.py", "src/prompt"]
    assert (found.error, found.left_base, found.is_shared) == ("", None, False)
    assert (found.tree.path / "src" / "prompt").read_text() == "Do it.\n"
    assert machine.checker.changes_of_patch(machine.base, found.patch) == [*found.found.changes]
    assert machine.events == [TreeReady(machine.base), PatchDue(found.patch)]
    assert (machine.run_dir.root / "src" / "reached").exists() == (level == "advisory")


async def test_an_agents_stream_is_told_while_it_runs_and_its_last_word_ends_it(machine, tmp_path):
    waited = machine.run_dir.scratch("Claude-Worker-1") / "waited"

    def emit(event):
        machine.events.append(event)
        if isinstance(event, Throttled):
            waited.touch()

    async with machine.engine() as engine:
        found = await engine.run(machine.agent_job(tmp_path, AGENT), emit)
    assert machine.kinds() == [TreeReady, Throttled, FirstAnswer, PatchDue]
    assert machine.events[1].seconds == 7.0
    assert (found.answer.ended, found.answer.text, found.answer.thread) == ("success", "All done.", "s-1")
    # It did not go by itself: how it went says nothing.
    assert (found.exit.end, found.exit.exit_code) == ("exited", None)
    assert [change.path for change in found.found.changes] == ["prompt-was"]


@pytest.mark.parametrize(
    ("starts", "flags"), [('touch "$TMPDIR/.orchestrate-mail"', ()), ("true", ("no_messages",))]
)
async def test_a_cli_that_has_not_started_our_server_is_flagged_in_each_attempt(
    machine, tmp_path, starts, flags
):
    # What an earlier attempt has left says nothing of this one.
    scratch = machine.run_dir.scratch("Claude-Worker-1")
    scratch.mkdir(parents=True)
    (scratch / GREETED).touch()
    end = '{"type": "result", "subtype": "success", "is_error": false, "result": "Done.", "session_id": "s"}'
    job = machine.agent_job(tmp_path, f"#!/bin/sh\n{starts}\ncat > /dev/null\necho '{end}'\n")
    async with machine.engine() as engine:
        found = await engine.run(job, machine.events.append)
        assert (found.answer.ended, found.answer.flags) == ("success", flags)
        again = await engine.read_again(job, machine.events.append)
        assert again.answer.flags == flags


async def test_a_worker_without_a_cli_has_no_server_and_no_flag(machine):
    async with machine.engine() as engine:
        found = await engine.run(machine.job(), machine.events.append)
    assert found.answer.flags == ("silent",)


@pytest.mark.parametrize("level", ["advisory", "landlock", "namespaces"])
async def test_a_shell_of_a_worker_reads_all_messages_and_writes_its_own_log(machine, level):
    fence = OPEN if level == "advisory" else fence_of(level)
    folder = machine.run_dir.root / ".taskers" / "messages"
    folder.mkdir(parents=True)
    other = folder / f"{machine.run_dir.id}.Command-Worker-2.jsonl"
    other.write_text("theirs\n")
    script = """
        echo mine >> "$ORCHESTRATE_MESSAGES"
        cat "$ORCHESTRATE_PROJECT"/.taskers/messages/*.Command-Worker-2.jsonl
        touch "$ORCHESTRATE_PROJECT/.taskers/messages/new" 2> /dev/null && echo reached
        "$ORCHESTRATE_CLI" --version
    """
    async with machine.engine(fence) as engine:
        found = await engine.run(machine.job(script), machine.events.append)
    said = machine.run_dir.attempt(W, 1).stdout.read_text().splitlines()
    assert said[:-1] == ["theirs", *(["reached"] if level == "advisory" else [])], found
    assert said[-1].startswith("orchestrate ")
    log = folder / f"{machine.run_dir.id}.{W}.jsonl"
    assert log.read_text() == "mine\n"
    assert level == "advisory" or log.stat().st_mode & 0o777 == 0o600


async def test_a_cli_is_given_the_server_and_the_hooks_of_its_worker(machine, tmp_path):
    said = 'for word in "$@"; do printf "%s\\n" "$word"; done > "$TMPDIR/words"'
    messages = Messages("phase-2", "Claude-Worker-1", "milestones", "pause", 90.0, 60.0)
    machine.site = machine.site._replace(messages=messages)
    job = machine.agent_job(tmp_path, f"#!/bin/sh\n{said}\n")
    job = job._replace(limits=Limits(500, 1), deadline=1771254514.7)
    async with machine.engine() as engine:
        await engine.run(job, machine.events.append)
    worker, run = "Claude-Worker-1", machine.run_dir
    words = (run.scratch(worker) / "words").read_text().splitlines()
    server = json.loads(words[words.index("--mcp-config") + 1])["mcpServers"]["orchestrate"]
    isolated, without_site, program, *rest = server["args"]
    assert (isolated, without_site, Path(program).name) == ("-I", "-S", "mail_server.py")
    assert "--phase-worker" in rest
    rest.remove("--phase-worker")
    options = dict(zip(rest[::2], rest[1::2], strict=True))
    log = str(run.root / f".taskers/messages/{run.id}.{worker}.jsonl")
    assert options == {
        "--log": log, "--phase": "phase-2", "--events": "milestones", "--on-blocker": "pause",
        "--pause-limit": "90", "--ack-limit": "60", "--scratch": str(run.scratch(worker)),
        "--deadline": "1771254514",
    }  # fmt: skip
    hooks = json.loads(words[words.index("--settings") + 1])["hooks"]
    for event, way in (("PostToolUse", "after"), ("PostToolUseFailure", "after"), ("Stop", "stop")):
        *command, otherwise, true = shlex.split(hooks[event][0]["hooks"][0]["command"])
        assert (otherwise, true) == ("||", "true")
        assert Path(command[-4]).name == "mail_hook.py"
        assert command[-3:] == [way, "claude", log]


async def test_an_agent_that_is_not_installed_any_more_is_not_started(machine, tmp_path):
    job = machine.agent_job(tmp_path, AGENT)
    (tmp_path / "claude").unlink()
    async with machine.engine() as engine:
        result = await engine.run(job, machine.events.append)
    assert (result.exit.end, result.exit.error) == ("not_started", f"no such program: {tmp_path}/claude")
    assert result.found.changes == ()


async def test_a_living_worker_is_adopted_by_the_next_engine_and_its_changes_are_read(machine):
    started = machine.run_dir.attempt(W, 1).started
    job = machine.job("touch begun; until [ -e go ]; do sleep 0.01; done; echo more > src/new; echo bye")
    tree = machine.run_dir.worktree(W)
    async with machine.engine() as engine, anyio.create_task_group() as group:
        group.start_soon(engine.run, job, machine.events.append)
        await machine.wait_for(tree / "begun")
        group.cancel_scope.cancel()
    pid = json.loads(started.read_text())["pid"]
    assert lives(pid)
    machine.events.clear()
    results = []
    adopted = job._replace(is_adopted=True, tree=job.tree._replace(is_kept=True))
    async with machine.engine() as engine, anyio.create_task_group() as group:

        async def adopt():
            results.append(await engine.run(adopted, machine.events.append))

        group.start_soon(adopt)
        await anyio.lowlevel.checkpoint()
        assert lives(pid)
        (tree / "go").touch()
    (found,) = results
    assert (found.exit.end, found.exit.exit_code, found.exit.pid) == ("exited", 0, pid)
    assert [change.path for change in found.found.changes] == ["begun", "go", "src/new"]
    # It is not started again.
    assert machine.events == [PatchDue(found.patch)]


async def test_what_never_began_is_lost_to_its_adopter_and_its_tree_is_not_read(machine):
    job = machine.job("touch begun", is_adopted=True, plan={"is_kept": True})
    async with machine.engine() as engine:
        found = await engine.run(job, machine.events.append)
    assert (found.exit.end, found.exit.error) == ("lost", NEVER_STARTED)
    assert (found.tree, found.found, machine.events) == (None, None, [])


async def test_the_changes_of_a_worker_that_was_stopped_with_its_runtime_are_left_to_the_next_attempt(
    machine,
):
    job = machine.job("touch begun; exec sleep 60")
    results = []

    async def run(engine):
        results.append(await engine.run(job, machine.events.append))

    async with machine.engine() as engine, anyio.create_task_group() as group:
        group.start_soon(run, engine)
        await machine.wait_for(machine.run_dir.worktree(W) / "begun")
        machine.run_dir.stopping_path.touch()
    (found,) = results
    assert (found.exit.end, found.found, found.patch) == ("cancelled", None, None)
    machine.run_dir.stopping_path.unlink()
    after = machine.job("test -e begun && touch after", number=2, plan={"is_kept": True})
    async with machine.engine() as engine:
        found = await engine.run(after, machine.events.append)
    assert [change.path for change in found.found.changes] == ["after", "begun"]


async def test_a_tree_that_is_kept_and_gone_is_made_once_more(machine):
    async with machine.engine() as engine:
        found = await engine.run(machine.job("touch new", plan={"is_kept": True}), machine.events.append)
    assert [change.path for change in found.found.changes] == ["new"]


async def test_a_job_whose_setup_fails_is_not_started_and_leaves_no_tree(machine):
    set_up = SetUp(commands=("echo first", "echo this went wrong >&2; exit 3", "echo never"))
    async with machine.engine() as engine:
        with pytest.raises(WorkerError, match=r"setup failed: .* \(exit code 3; .*\): this went wrong"):
            await engine.run(machine.job(set_up=set_up), machine.events.append)
    assert [(event.command, event.passed) for event in machine.events] == [
        (set_up.commands[0], True), (set_up.commands[1], False),
    ]  # fmt: skip
    assert not machine.run_dir.worktree(W).exists()
    assert not machine.run_dir.attempt(W, 1).started.exists()


async def test_a_cancel_during_setup_comes_back_without_a_tree(machine):
    async with machine.engine() as engine, anyio.create_task_group() as group:
        results = []
        job = machine.job(set_up=SetUp(commands=("touch here; exec sleep 60",)))

        async def run():
            results.append(await engine.run(job, machine.events.append))

        group.start_soon(run)
        await machine.wait_for(machine.run_dir.worktree(W) / "here")
        machine.run_dir.cancel([W])
    assert [(found.exit.end, found.tree, found.found) for found in results] == [("cancelled", None, None)]
    assert machine.kinds() == [SetUpRan]


async def test_what_set_up_brings_is_no_change_of_the_worker(machine):
    (machine.run_dir.root / ".env").write_text("KEY=1\n")
    set_up = SetUp(Furniture((".env",), ("nowhere",)), ("touch made",))
    async with machine.engine() as engine:
        found = await engine.run(
            machine.job("cat .env made && touch new", set_up=set_up), machine.events.append
        )
    assert found.exit.exit_code == 0
    assert [change.path for change in found.found.changes] == ["new"]
    assert machine.kinds() == [PathsMissing, SetUpRan, TreeReady, PatchDue]
    assert machine.events[0] == PathsMissing(W, ("nowhere",))


async def test_an_idle_worker_is_stopped_and_what_it_had_changed_is_kept(machine):
    limits = Limits(30, 1, 1_000_000, idle=0.3)
    async with machine.engine() as engine:
        found = await engine.run(
            machine.job("echo x > new; exec sleep 60", limits=limits), machine.events.append
        )
    assert found.exit.end == "idle"
    assert [change.path for change in found.found.changes] == ["new"]
    assert b"+x" in found.patch.read_bytes()


async def test_changes_beyond_the_cap_are_an_error_and_no_patch(machine):
    async with machine.engine() as engine:
        found = await engine.run(
            machine.job("head -c 2000 /dev/zero > big", patch_cap=1000), machine.events.append
        )
    assert "2,000 bytes, more than patch_cap" in found.error
    assert (found.found, found.patch, found.tree.path.is_dir()) == (None, None, True)


async def test_a_patch_that_cannot_be_written_is_an_error_of_a_worker_that_has_ended(machine):
    plant = 'ln -s nowhere "$ORCHESTRATE_PROJECT/.taskers/runs/$ORCHESTRATE_RUN/$ORCHESTRATE_WORKER.patch"'
    async with machine.engine() as engine:
        found = await engine.run(machine.job(f"{plant}; echo x > new"), machine.events.append)
    assert (found.exit.end, found.exit.exit_code) == ("exited", 0)
    assert found.error.endswith(".patch: the changes could not be kept: file exists")
    assert (found.found, found.patch) == (None, None)
    assert (found.tree.path / "new").exists()


async def test_a_worker_that_moves_its_own_git_metadata_is_told(machine):
    async with machine.engine() as engine:
        found = await engine.run(machine.job("rm .git"), machine.events.append)
    assert found.left_base == ".git"


async def test_readers_share_a_tree_and_what_was_changed_there_is_told_with_all_of_them(machine):
    names = [f"Command-Worker-{number}" for number in (1, 2)]
    async with machine.engine() as engine:
        for name, script in zip(names, ("true", "touch new"), strict=True):
            job = machine.job(script, worker=name, mode="read-only", plan={"is_shared": True})
            found = await engine.run(job, machine.events.append)
            assert (found.is_shared, found.found.changes) == (True, ())
        assert found.tree.path != machine.run_dir.worktree(names[1])
        assert [tuple(shared) for shared in await engine.close_shared(1000)] == [(tuple(names), ("new",))]
        assert await engine.close_shared(1000) == []
    assert not found.tree.path.exists()


async def test_what_an_ended_attempt_left_is_read_again_and_its_patch_stays(machine):
    job = machine.job("echo x > new; echo said")
    async with machine.engine() as engine:
        found = await engine.run(job, machine.events.append)
        found.patch.chmod(0o400)
        kept = job._replace(tree=job.tree._replace(is_kept=True))
        assert await engine.read_again(kept, machine.events.append) == found
        assert await read_ended(machine.run_dir, job.ticket, 1) == (found.exit, found.answer)
        await anyio.to_thread.run_sync(partial(git, "worktree", "prune", cwd=machine.run_dir.root))
        for path in sorted(found.tree.path.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        found.tree.path.rmdir()
        again = await engine.read_again(kept, machine.events.append)
    assert (again.exit, again.tree, again.found, again.error) == (found.exit, None, None, "its tree is gone")


async def test_a_check_runs_in_a_fresh_tree_that_goes_with_it(machine):
    tree = git_line("rev-parse", f"{machine.base}^{{tree}}", cwd=machine.run_dir.root)
    script = 'cat "$TMPDIR/message" made; git rev-parse HEAD'
    check = Check("look", script, tree, machine.base, SetUp(commands=("echo made > made",)), Limits(20))
    async with machine.engine() as engine:
        first = await engine.check(
            check._replace(head=machine.base, files={"message": b"hi\n"}), machine.events.append
        )
        second = await engine.check(check._replace(command="exit 3"), machine.events.append)
        failing = check._replace(set_up=SetUp(commands=("echo no; exit 4",)))
        third = await engine.check(failing, machine.events.append)
    assert (first.passed, first.tail) == (True, f"hi\nmade\n{machine.base}\n")
    assert (second.passed, second.exit_code) == (False, 3)
    assert second.output.endswith("/look.2.stdout")
    assert (third.command, third.exit_code, third.as_failed_set_up()[-4:]) == ("echo no; exit 4", 4, ": no")
    assert machine.kinds() == [SetUpRan] * 3
    assert [*machine.run_dir.worktree("x").parent.iterdir()] == []
