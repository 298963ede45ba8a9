"""A caller that does literally what `next_action` says: it ends from every state, and repeats nothing.

Each state is made by a function; the caller then begins with one command, and knows nothing else.
"""

import contextlib
import gc
import io
import json
import os
import shlex
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from support.gates import gate, writer
from support.repository import TEMPLATES, shell, template
from support.runtimes import Lives, kill_and_see_dead, read, wait_until

from orchestrator.cli.main import main
from orchestrator.runs.state import read_run
from workers.files.locks import is_locked
from workers.files.run_dir import runs_of

MOST = 12
"""Steps within which the caller has to come to an end."""
STATES: dict[str, "State"] = {}
COUNTS = pytest.StashKey[dict[str, int]]()


class State(NamedTuple):
    """A state of a project, what the caller begins with, how much it may start, and for whom it waits."""

    make: Callable[["Walk"], str | None]
    begin: str
    starts: int
    waits: str


def state(begin="status", starts=0, waits=""):
    """Register a function that makes a state; it may return another command to begin with."""

    def register(make):
        STATES[make.__name__] = State(make, begin, starts, waits)
        return make

    return register


class Walk:
    """One repository, and a caller in it; the commands are called in this process, as it is faster."""

    def __init__(self, lab, lives):
        self.lab, self.lives, self.root = lab, lives, lab.root
        self.environ = {}
        self.folder = lab.root
        self.said = []

    def call(self, command):
        """Call one command with `--json`; return its exit code and its document."""
        if "--detach" in command:
            # It leaves a child behind, which no process that goes on would reap.
            called = self.lab.call(*shlex.split(command), "--json", cwd=self.folder)
            return called.code, called.document
        out, before = io.StringIO(), Path.cwd()
        os.environ.update(self.environ)
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                try:
                    code = main([*shlex.split(command), "--json"])
                except SystemExit as stop:
                    code = stop.code
        finally:
            os.chdir(before)
            gc.enable()
        return code, json.loads(out.getvalue())

    def did(self, command, code=0):
        """Call a command that makes a part of the state."""
        found, document = self.call(command)
        assert found == code, document
        return document

    def seen(self):
        """Return all that a call could change: commits, files, journals, and whether a runtime works."""
        runs = sorted((self.root / ".taskers/runs").glob("*/events.jsonl"))
        head = self.lab.git("rev-parse", "--all", check=False)
        dirt = self.lab.git("status", "--porcelain", check=False)
        lives = [is_locked(path.with_name("run.lock")) for path in runs]
        return head, dirt, lives, [(path, path.stat().st_size) for path in runs]

    def attempts(self):
        """Return the attempts of all runs: run, worker and number."""
        shims = self.root.glob(".taskers/runs/*/shims/*.started.json")
        return {(path.parents[1].name, path.name) for path in shims}

    def accepted_twice(self):
        """Return the tickets that a run started although an earlier one had landed the same."""
        done, twice = set(), []
        for run in runs_of(self.root):
            if (found := read_run(run)) is None:
                continue
            asked = {name: (run.path / f"tickets/{name}.md") for name in found.workers}
            same = {
                name: (one.ticket, path.read_bytes() if (path := asked[name]).exists() else b"")
                for name, one in found.workers.items()
            }
            twice += [
                same[name][0]
                for name, one in found.workers.items()
                if one.started and same[name] in done and not one.again
            ]
            done |= {same[name] for name, one in found.workers.items() if one.lands and found.is_integrated}
        return twice

    def follow(self, command):
        """Do what is said, until nothing is; return the last document."""
        failed = {}
        for _ in range(MOST):
            before = self.seen()
            assert failed.get(command) != before, f"`{command}` failed already, and nothing has changed"
            began = time.monotonic()
            code, document = self.call(command)
            self.said.append((command, code, round(time.monotonic() - began, 2)))
            assert code in (0, 1, 2, 4, 5), document
            if code:
                failed[command] = self.seen()
            step = document["next_action"]
            if step is None:
                assert document["waiting_for"] in ("user", "lead", "outside")
                assert document["what"].strip()
                if not command.startswith("status"):
                    self.ask_again(failed)
                return document
            assert step.startswith("orchestrate "), step
            assert not set(step) & set("<>|&"), step
            command = step.removeprefix("orchestrate ")
        raise AssertionError(f"no end after {MOST} steps: {self.said}")

    def ask_again(self, failed):
        """Ask `status` after the end: it names no call to go on with that has just failed."""
        _, document = self.call("status")
        step = (document["next_action"] or "").removeprefix("orchestrate ")
        # It reads no templates, so it names the `plan` that starts nothing and shows their mistakes.
        if not step.startswith(("plan", "validate")):
            assert failed.get(step) != self.seen(), f"`{step}` has failed, and `status` names it again"


def command(script="true", **front):
    """Format a template of a command worker."""
    return shell(script, **front)


def mistake(**front):
    """Format a template with a mistake."""
    return template(**front)


# Beginnings


@state(starts=1)
def fresh(walk):
    walk.lab.templates(command_1=command())


@state(starts=3)
def fresh_with_dependencies(walk):
    walk.lab.templates(
        command_1=writer(1), command_2=writer(2, depends_on=["command-1"]), command_3=command()
    )


@state()
def without_templates(walk):
    pass


@state(starts=3)
def nothing_of_ours(walk):
    for name in ("STATUS.md", "DECISIONS.md", "AGENTS.md"):
        walk.lab.git("rm", "--quiet", name)
    walk.lab.git("commit", "--quiet", "--message=none")


@state()
def no_commit_yet(walk):
    shutil.rmtree(walk.root / ".git")
    walk.lab.git("init", "--quiet", "--initial-branch=main")
    walk.lab.write(f"{TEMPLATES}/command-1.md", command())


@state("init --no-commit")
def no_commit_yet_and_none_wanted(walk):
    no_commit_yet(walk)


@state()
def outside_any_repository(walk):
    walk.folder = walk.root.parent / "elsewhere"
    walk.folder.mkdir()


@state("doctor")
def outside_any_repository_asking_the_doctor(walk):
    outside_any_repository(walk)


@state("doctor", waits="user")
def refused_by_git(walk):
    walk.lab.git("rm", "--quiet", "STATUS.md")
    walk.lab.git("commit", "--quiet", "--message=none")
    walk.environ["GIT_TEST_ASSUME_DIFFERENT_OWNER"] = "1"


@state()
def in_a_bare_repository(walk):
    walk.folder = walk.root.parent / "bare.git"
    walk.lab.git("init", "--quiet", "--bare", str(walk.folder))


# Mistakes in templates


@state("plan phase-1")
def unknown_key(walk):
    walk.lab.templates(command_1=mistake(colour="blue"))


@state()
def undefined_variable(walk):
    walk.lab.templates(command_1=mistake(title="{{ nobody }}"))


@state("run phase-1")
def no_yaml(walk):
    walk.lab.templates(command_1="---\nagent: [command\n---\nDo it.\n")


@state()
def overlap(walk):
    walk.lab.templates(command_1=writer(1), command_2=writer(1))


@state()
def cycle(walk):
    walk.lab.templates(
        command_1=command(depends_on=["command-2"]), command_2=command(depends_on=["command-1"])
    )


@state("deploy phase-1")
def unknown_dependency(walk):
    walk.lab.templates(command_1=command(depends_on=["command-7"]))


@state("run phase-1 --only command-7")
def unknown_ticket(walk):
    walk.lab.templates(command_1=command())


@state("run phase-7")
def unknown_phase(walk):
    walk.lab.templates(command_1=command())


@state("rum phase-1")
def unknown_command(walk):
    walk.lab.templates(command_1=command())


@state("wait 20200101")
def unknown_run(walk):
    pass


@state("run phase-7")
def unknown_phase_without_templates(walk):
    pass


# Options of the call


@state("plan phase-1 --on-overlap serialize", starts=2)
def serialized(walk):
    walk.lab.templates(command_1=writer(1), command_2=writer(1))


@state("plan phase-1 --only command-2", starts=1)
def only_one(walk):
    walk.lab.templates(command_1=command("exit 3"), command_2=writer(2))


@state(starts=1)
def by_project(walk):
    walk.lab.templates(command_1=writer(1))
    outside_any_repository(walk)
    return f"status --project {shlex.quote(str(walk.root))}"


@state("run phase-1 --lead Grace --detach", starts=1)
def by_lead(walk):
    walk.lab.templates(command_1=writer(1))


# Agents


@state()
def agents_all_off(walk):
    walk.lab.templates(gemini_1=template(None, agent="gemini"))


@state(starts=1)
def one_agent_off(walk):
    walk.lab.templates(gemini_1=template(None, agent="gemini"), command_1=command())


@state("plan phase-1 --strict-agents", starts=1)
def one_agent_off_and_all_wanted(walk):
    one_agent_off(walk)


def fakes(walk, *steps, more="", retries=0):
    """Have a fake Claude do some steps."""
    walk.lab.have_fake_claude(walk.root.parent / "fakes")
    text = (walk.root / "orchestrate.toml").read_text()
    walk.lab.commit({"orchestrate.toml": f"[pool]\nstart_interval = 0\n{text}{more}"})
    said = "".join(f"<<fake {json.dumps(step)}>>\n" for step in steps)
    walk.lab.templates(claude_1=template(None, agent="claude", retries=retries) + said)


@state("run phase-1 --detach", starts=1, waits="user")
def expired_login(walk):
    fakes(walk, {"do": "login"})


@state("run phase-1 --detach", starts=1, waits="outside")
def parked_for_hours(walk):
    fakes(walk, {"do": "limit", "kind": "quota", "seconds": 7200}, retries=1)
    walk.lab.templates(claude_2=template(None, agent="claude", depends_on=["claude-1"]))


@state("run phase-1 --detach", starts=1)
def over_budget(walk):
    answer = {"do": "answer", "in": 9000, "out": 9000}
    fakes(walk, answer, more="[budget]\nrun_tokens = 10\n")
    walk.lab.templates(claude_2=template(None, agent="claude", depends_on=["claude-1"]))


@state("run phase-1 --detach", waits="lead")
def over_a_budget_in_which_it_never_fits(walk):
    fakes(walk, {"do": "answer"}, more="[budget]\nrun_usd = 1.0\n")
    walk.lab.templates(claude_2=template(None, agent="claude", budget_usd=5.0))
    walk.lab.git("rm", "--quiet", f"{TEMPLATES}/claude-1.md")
    walk.lab.git("commit", "--quiet", "--message=gone")


@state("run phase-1 --detach")
def over_budget_of_the_day(walk):
    fakes(walk, {"do": "answer"}, more="[budget]\nday_tokens = 0\n")


@state("run phase-1 --detach", starts=1)
def needs_clarification(walk):
    fakes(walk, {"do": "answer", "text": "Which one?", "status": "NEEDS_CLARIFICATION"})


@state("run phase-1", starts=1, waits="user")
def all_skipped(walk):
    skipped = command('echo \'ORCHESTRATE-RESULT {"status": "skipped"}\'')
    walk.lab.templates(claude_1=template(None, agent="claude"), command_1=skipped)


@state("run phase-1 --detach --only claude-1", starts=0)
def over_budget_of_the_day_of_one(walk):
    over_budget_of_the_day(walk)
    walk.lab.templates(claude_2=template(None, agent="claude"), claude_3=template(None, agent="claude"))


# Verdicts


@state(starts=1)
def failed(walk):
    walk.lab.templates(command_1=command("exit 3"))


@state(starts=2)
def failed_beside_accepted(walk):
    walk.lab.templates(command_1=writer(1), command_2=command("exit 3"))


@state(starts=1)
def failed_before_its_dependent(walk):
    walk.lab.templates(command_1=command("exit 3"), command_2=command(depends_on=["command-1"]))


@state(waits="lead")
def failed_in_an_earlier_run(walk):
    walk.lab.templates(command_1=command("exit 3"), command_2=command(depends_on=["command-1"]))
    walk.did("run phase-1", 1)
    walk.lab.templates(command_1=command())
    walk.did("run phase-1 --only command-1")


@state("run phase-1 --again --detach", starts=1, waits="lead")
def failed_when_run_again(walk):
    walk.lab.templates(command_1=command("test ! -e broken"))
    walk.did("run phase-1")
    walk.lab.commit({"broken": ""})


@state("run phase-7", starts=1, waits="lead")
def failed_in_a_phase_outside_the_plan(walk):
    phase_done(walk)
    walk.lab.templates(command_2=command("exit 3", phase="phase-7"))


@state(starts=1)
def blocked(walk):
    walk.lab.templates(command_1=command('echo \'ORCHESTRATE-RESULT {"status": "blocked"}\''))


@state(starts=2, waits="lead")
def timed_out(walk):
    """Go on once: cut off again without a change, it waits for somebody."""
    walk.lab.templates(command_1=command("sleep 60", timeout="1s", retries=0))


@state(starts=1)
def acceptance_failed(walk):
    walk.lab.templates(command_1=writer(1, acceptance=["false"]))


@state(starts=2)
def violation(walk):
    stray = command("mkdir -p out; echo 1 > out/2; echo 1 > stray", mode="write", owns=["out/2"])
    walk.lab.templates(command_1=writer(1), command_2=stray)


@state(starts=1)
def violation_alone(walk):
    walk.lab.templates(command_1=command("echo 1 > stray", mode="write", owns=["out/2"]))


@state(starts=1)
def violation_rejected(walk):
    walk.lab.commit({"orchestrate.toml": '[integration]\non_violation = "reject"\n'})
    walk.lab.templates(command_1=command("echo 1 > stray", mode="write", owns=["out/2"]))


@state(starts=1)
def read_only_findings(walk):
    walk.lab.templates(command_1=command("echo found; echo 1 > notes"))


@state(starts=2)
def freed_by_the_lead(walk):
    stray = command("mkdir -p out; echo 1 > out/2; echo 1 > stray", mode="write", owns=["out/2"])
    walk.lab.templates(command_1=stray, command_2=command(depends_on=["command-1"]))


@state(starts=22)
def many_pending(walk):
    script = "mkdir -p out; echo 1 > out/{{ matrix.n }}; echo 1 > stray-{{ matrix.n }}"
    front = {"mode": "write", "owns": ["out/{{ matrix.n }}"]}
    for stem, count in (("command-1", 11), ("command-2", 11)):
        numbers = [f"{stem[-1]}{n}" for n in range(count)]
        walk.lab.templates(**{stem.replace("-", "_"): command(script, matrix={"n": numbers}, **front)})


# The gate


@state(starts=2)
def gate_broken_by_a_worker(walk):
    gate(walk.lab, "! test -e out/2")
    walk.lab.templates(command_1=writer(1), command_2=writer(2))


@state(starts=1)
def gate_red_on_the_base(walk):
    gate(walk.lab, "test -e mended")
    walk.lab.templates(command_1=writer(1))


@state("integrate last", starts=0)
def gate_mended(walk):
    gate_red_on_the_base(walk)
    walk.did("run phase-1", 1)
    walk.lab.commit({"mended": "yes\n"})


@state(starts=1)
def flaky_gate(walk):
    mark = walk.root.parent / "flaky"
    gate(walk.lab, f"test -e {mark} || {{ test -e out/1 && touch {mark}; test ! -e out/1; }}", fence="off")
    walk.lab.templates(command_1=writer(1))


# Landing


@state("run phase-1")
def dirty_file(walk):
    walk.lab.commit({"out/1": "old\n"})
    walk.lab.templates(command_1=writer(1))
    walk.lab.write("out/1", "mine\n")


@state()
def dirty_file_before_landing(walk):
    walk.lab.commit({"out/1": "old\n"})
    deployed(walk)
    walk.lab.write("out/1", "mine\n")


@state()
def status_missing_before_landing(walk):
    deployed(walk)
    (walk.root / "STATUS.md").unlink()


@state("integrate last")
def conflict(walk):
    walk.lab.commit({"out/1": "old\n"})
    walk.lab.templates(command_1=writer(1), command_2=writer(2))
    walk.did("deploy phase-1")
    walk.lab.commit({"out/1": "other\n"})


@state(waits="lead")
def conflicts_rejected(walk):
    conflict(walk)
    walk.did("integrate last", 1)
    walk.did("integrate last --reject Command-Worker-1 --reason again", 1)


@state(waits="lead")
def templates_added_to_a_phase_that_was_run(walk):
    phase_done(walk)
    walk.lab.templates(command_2=command(), command_3=command())


@state()
def deployed(walk):
    walk.lab.templates(command_1=writer(1))
    walk.did("deploy phase-1")


@state("run phase-1")
def deployed_and_run_again(walk):
    deployed(walk)


@state()
def branch_renamed(walk):
    deployed(walk)
    walk.lab.git("branch", "--move", "main", "trunk")


@state()
def branch_gone(walk):
    deployed(walk)
    walk.lab.git("switch", "--quiet", "--create", "trunk")
    walk.lab.git("branch", "--delete", "--force", "main")


@state()
def another_branch(walk):
    deployed(walk)
    walk.lab.git("switch", "--quiet", "--create", "trunk")


@state("resume")
def another_branch_and_back(walk):
    another_branch(walk)
    walk.did("integrate last", 1)
    assert walk.did("status")["waiting_for"] == "lead"
    walk.lab.git("switch", "--quiet", "main")
    run = runs_of(walk.root)[-1].id
    assert walk.did("status")["next_action"] == f"orchestrate integrate {run}"


@state(waits="lead")
def another_branch_and_a_change_on_it(walk):
    another_branch(walk)
    walk.did("todo add Something")


@state(waits="lead")
def another_branch_and_nothing_to_land(walk):
    walk.lab.templates(command_1=command("exit 3"))
    walk.did("deploy phase-1", 1)
    walk.lab.git("switch", "--quiet", "--create", "trunk")


@state(waits="lead")
def another_branch_than_a_decided_change_waits_for(walk):
    phase_done(walk)
    walk.did("todo add Something")
    commit = {"paths": ["STATUS.md"], "message": "Integrated", "branch": "refs/heads/trunk", "saved": {}}
    (walk.root / ".git/orchestrate/intent.json").write_text(json.dumps({"moves": [], "commit": commit}))


@state(starts=1)
def detached_head(walk):
    walk.lab.templates(command_1=writer(1))
    walk.lab.git("switch", "--quiet", "--detach")


def merge(walk):
    """Leave a merge in progress."""
    walk.lab.git("switch", "--quiet", "--create", "side")
    walk.lab.commit({"src/app.py": "side\n"})
    walk.lab.git("switch", "--quiet", "main")
    walk.lab.commit({"src/app.py": "main\n"})
    walk.lab.git("merge", "side", check=False)


@state()
def merge_in_progress(walk):
    walk.lab.templates(command_1=writer(1))
    merge(walk)


@state()
def merge_in_progress_before_landing(walk):
    deployed(walk)
    merge(walk)


@state("todo add Something")
def merge_in_progress_and_a_change(walk):
    merge(walk)


# Stops


@state("status", starts=0)
def cancelled(walk):
    walk.lab.templates(command_1=command(walk.lives.waits))
    walk.did("deploy phase-1 --detach")
    wait_until(lambda: len(walk.attempts()) == 1)
    return "cancel last"


@state()
def cancelled_with_work(walk):
    walk.lab.templates(command_1=writer(1), command_2=command(walk.lives.waits))
    run = walk.did("deploy phase-1 --detach")["run"]
    events = walk.root / f".taskers/runs/{run}/events.jsonl"
    wait_until(lambda: '"ended"' in events.read_text())
    return "cancel last"


@state()
def one_cancelled(walk):
    walk.lab.templates(command_1=command(walk.lives.waits), command_2=command(walk.lives.waits))
    walk.did("deploy phase-1 --detach")
    wait_until(lambda: len(walk.attempts()) == 2)
    walk.did("cancel last command-1")
    walk.lives.let_go(2)


@state("ps")
def detached(walk):
    walk.lab.templates(command_1=writer(1), command_2=command(walk.lives.waits))
    walk.did("deploy phase-1 --detach")
    wait_until(lambda: len(walk.attempts()) == 2)
    walk.lives.let_go(1)


@state()
def killed(walk):
    walk.lab.templates(command_1=command(walk.lives.waits), command_2=writer(2))
    run = walk.did("deploy phase-1 --detach")["run"]
    wait_until(lambda: len(walk.attempts()) == 2)
    kill_and_see_dead(walk.lives.runtime_of(run))
    walk.lives.let_go(1)


@state(starts=1)
def stopped_by_a_limit(walk):
    walk.lab.templates(command_1=command(f"test -e begun && exit; touch begun; {walk.lives.waits}",
                                         mode="write", owns=["begun"]))  # fmt: skip
    process = walk.lives.begin("run", "phase-1")
    wait_until(lambda: len(walk.attempts()) == 1 and list(walk.root.glob(".taskers/worktrees/*/*/begun")))
    process.terminate()
    assert process.wait() == 143


@state(starts=2)
def stopped_twice(walk):
    # Both attempts are the second run's: of the first nothing is left to do.
    walk.lab.templates(
        command_1=command(f"test -e {walk.lives.outside}/go || {walk.lives.waits}; mkdir out; date > out/1",
                          mode="write", owns=["out/1"]),
        command_2=command(depends_on=["command-1"]),
    )  # fmt: skip
    walk.lives.stopped()
    walk.lives.stopped("--new")
    (walk.lives.outside / "go").touch()


@state()
def lost_run(walk):
    walk.lab.templates(command_1=command(f"{walk.lives.waits}"))
    walk.did("deploy phase-1 --detach")
    wait_until(lambda: len(walk.attempts()) == 1)
    walk.lives.let_go(2)
    walk.did("wait last")
    shutil.rmtree(walk.root / ".taskers")


@state()
def accepted_and_lost(walk):
    deployed(walk)
    shutil.rmtree(walk.root / ".taskers")


@state()
def lost_while_it_runs(walk):
    walk.lab.templates(command_1=command(walk.lives.waits))
    walk.did("deploy phase-1 --detach")
    wait_until(lambda: len(walk.attempts()) == 1)
    # At once: the runtime writes there, and a folder that is taken away file by file is never empty.
    (walk.root / ".taskers/runs").rename(walk.root.parent / "lost")


@state()
def roster_damaged(walk):
    deployed(walk)
    (roster,) = walk.root.glob(".taskers/runs/*/roster.json")
    roster.write_text("{")


@state()
def change_decided_and_not_completed(walk):
    phase_done(walk)
    walk.did("todo add Something")
    (walk.root / ".git/orchestrate/intent.json").write_text(json.dumps({"moves": [], "commit": None}))


# State files and settings


@state(starts=1)
def status_deleted(walk):
    walk.lab.templates(command_1=command())
    (walk.root / "STATUS.md").unlink()


@state("resume")
def status_leads_outside(walk):
    there = walk.root.parent / "STATUS.md"
    (walk.root / "STATUS.md").rename(there)
    (walk.root / "STATUS.md").symlink_to(there)


@state("handoff")
def handoff_with_a_status_that_leads_outside(walk):
    status_leads_outside(walk)


@state()
def conflict_markers(walk):
    phase_done(walk)
    text = (walk.root / "STATUS.md").read_text()
    head, rest = text.split("\n", 1)
    walk.lab.write("STATUS.md", f"{head}\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> side\n{rest}")


@state()
def settings_broken(walk):
    walk.lab.templates(command_1=command())
    walk.lab.commit({"orchestrate.toml": "[pool\n"})


@state("plan phase-1")
def settings_unknown(walk):
    walk.lab.templates(command_1=command())
    walk.lab.commit({"orchestrate.toml": "colour = 1\n"})


@state("doctor")
def settings_broken_asking_the_doctor(walk):
    settings_broken(walk)


# The plan


@state("phase complete --no-verify")
def approval_missing(walk):
    text = (walk.root / "STATUS.md").read_text()
    plan, mark, rest = text.partition("## Progress")
    walk.lab.commit({"STATUS.md": plan.replace("- [ ] ", "- [x] ") + mark + rest})


@state("phase complete --force --reason enough --no-verify")
def approval_missing_with_options(walk):
    pass


@state()
def approved(walk):
    found = walk.did("phase complete --force --reason enough --no-verify", 4)
    assert "--by NAME" in found["when_approved"]
    return found["when_approved"].removeprefix("orchestrate ").replace("NAME", "Ada")


@state()
def approved_by_a_placeholder(walk):
    found = walk.did("phase complete --force --reason enough --no-verify", 4)
    return found["when_approved"].removeprefix("orchestrate ")


@state("approve phase-2 --by Ada --reject")
def approval_refused(walk):
    phase_done(walk)
    walk.did("phase add Core --milestone Works")


@state("run phase-1")
def pool_without_approval(walk):
    walk.lab.templates(command_1=command())
    walk.lives.pool_of(20)


@state("deliverable done 1 --no-verify")
def deliverable_done(walk):
    phase_done(walk)


@state(waits="lead")
def tests_red_when_all_tickets_are_done(walk):
    said = "FAILED tests/test_stop.py::test_end - assert 1"
    red = f"echo '{said}'; echo '1 failed, 769 passed in 0.1s'; exit 1"
    walk.lab.commit({"orchestrate.toml": f'[checks]\ntest = "{red}"\n'})
    phase_done(walk)


@state("milestone complete")
def criteria_open(walk):
    phase_done(walk)


@state()
def phase_done(walk):
    walk.lab.templates(command_1=command())
    walk.did("run phase-1")


@state(starts=1)
def phase_complete_and_the_next_has_templates(walk):
    phase_done(walk)
    walk.did("phase add Core --milestone Works")
    walk.lab.templates(command_2=command(phase="phase-2"))
    return approved(walk)


@state()
def status_deleted_in_the_next_phase(walk):
    phase_done(walk)
    walk.did("phase add Core --milestone Works")
    walk.did(walk.did(approved(walk))["next_action"].removeprefix("orchestrate "))
    walk.lab.git("rm", "--quiet", f"{TEMPLATES}/command-1.md")
    walk.lab.git("commit", "--quiet", "--message=done")
    (walk.root / "STATUS.md").unlink()


def first(walk, item):
    """Make an item the first P0."""
    text = (walk.root / "STATUS.md").read_text()
    head, p0, rest = text.partition("- [ ] ")
    assert p0, text
    walk.lab.commit({"STATUS.md": f"{head}- [ ] {item}\n{p0}{rest}"})


@state()
def first_item_names_a_command(walk):
    phase_done(walk)
    first(walk, "Look at it: `orchestrate doctor`")


@state()
def first_item_names_a_call_to_complete(walk):
    phase_done(walk)
    first(walk, "Write them down: `orchestrate todo add`")


@state()
def first_item_names_a_placeholder(walk):
    phase_done(walk)
    first(walk, "Go on: `orchestrate run PHASE`")


@state()
def first_item_is_for_a_shell(walk):
    phase_done(walk)
    first(walk, "Go on: `orchestrate run phase-2; touch stolen`")


@state()
def first_item_runs_a_phase_with_options(walk):
    phase_done(walk)
    first(walk, "Once more: `orchestrate run phase-1 --only command-1`")


def proposals(walk):
    """Have a worker propose a decision and a TODO item."""
    report = "## Follow-ups\n\n- Port the writer\n\n## Decisions Proposed\n\n- Keep the parser\n"
    walk.lab.templates(command_1=command(f"cat <<'END'\n{report}END"))
    walk.did("run phase-1")


@state("decide --from last", waits="lead")
def decisions_listed(walk):
    proposals(walk)


@state("todo add --from last", waits="lead")
def follow_ups_listed(walk):
    proposals(walk)


@state("todo list")
def todo_list(walk):
    phase_done(walk)


@state("logs last")
def logs(walk):
    phase_done(walk)


@state("validate")
def validated(walk):
    walk.lab.templates(command_1=mistake(colour="blue"))


@state("archive --dry-run")
def archive(walk):
    phase_done(walk)


@pytest.fixture
def walk(lab, monkeypatch):
    """Yield a caller; all processes of its repository have exited in the end."""
    lives = Lives(lab)
    for name in os.environ:
        if name.startswith(("GIT_", "ORCHESTRATE_")) or name == "COLUMNS":
            monkeypatch.delenv(name)
    for name, value in lab.env().items():
        monkeypatch.setenv(name, value)
    found = Walk(lab, lives)
    yield found
    for name in found.environ:
        del os.environ[name]
    lives.end()


@pytest.mark.parametrize("name", STATES)
def test_a_caller_that_does_what_is_said_comes_to_an_end(walk, name):
    made = STATES[name]
    begin = made.make(walk) or made.begin
    before = walk.attempts()
    end = walk.follow(begin)
    assert made.waits in ("", end["waiting_for"]), end
    assert walk.accepted_twice() == [], f"run again although accepted: {walk.said}"
    assert len(walk.attempts() - before) == made.starts, walk.said


@pytest.mark.hardening
def test_a_status_that_was_deleted_is_back_after_the_command_that_is_named(lab):
    """T70: every command names the same way, which succeeds and brings the file back."""
    whole = (lab.root / "STATUS.md").read_text()
    (lab.root / "STATUS.md").unlink()
    asked = [
        lab.call(*one, "--json").document["next_action"]
        for one in (("status",), ("resume",), ("todo", "list"))
    ]
    assert set(asked) == {"orchestrate init"}
    assert lab.call("init", "--json").code == 0
    assert (lab.root / "STATUS.md").read_text() == whole


@pytest.mark.hardening
@pytest.mark.parametrize(
    "change", [("branch", "--move", "main", "trunk"), ("switch", "--quiet", "-C", "trunk")]
)
def test_a_branch_that_is_no_more_is_named_with_the_way_to_land_its_work(lab, change):
    """T70: renamed, or deleted, between deploy and integrate."""
    lab.templates(command_1=writer(1))
    assert lab.call("deploy", "phase-1", "--json").code == 0
    lab.git(*change)
    lab.git("branch", "--delete", "--force", "main", check=False)
    told = lab.call("integrate", "last", "--json")
    assert (told.code, told.document["next_action"], told.document["waiting_for"]) == (1, None, "lead")
    (said,) = told.says()
    assert "the run started on refs/heads/main, and that branch is no more" in said
    assert "`git switch --create main`" in told.document["what"]
    lab.git("switch", "--quiet", "--create", "main")
    assert lab.call("integrate", "last", "--json").code == 0
    assert (lab.root / "out/1").exists()


def test_all_who_are_asked_after_a_cancel_say_the_same(lives):
    lives.lab.templates(command_1=shell(lives.waits))
    lives.detached()
    told = [
        lives.call(*one, "--json").document for one in (("cancel", "last"), ("status",), ("wait", "last"))
    ]
    assert {one["next_action"] for one in told} == {None}
    assert len({one["what"] for one in told}) == 1
    assert lives.call("ps", "--json").document["next_action"] == "orchestrate status"


def test_a_call_without_a_phase_names_the_accepted_work_of_a_cancelled_run(lives):
    lives.lab.templates(command_1=writer(1), command_2=shell(lives.waits))
    run, _ = lives.detached()
    wait_until(lambda: '"ended"' in (run / "events.jsonl").read_text())
    assert lives.call("cancel", "last", "--json").code == 0
    told = lives.call("run", "--json")
    assert (told.code, told.document["next_action"]) == (2, f"orchestrate integrate {run.name}")
    assert "work of it that was accepted has not landed" in told.says()[0]


def test_a_state_file_that_leads_outside_is_not_said_to_be_committed_by_a_handoff(walk):
    status_leads_outside(walk)
    stale = walk.did("resume", 1)["stale"]
    assert not [one for one in stale if "handoff" in one["do"] and "STATUS.md" in one["what"]]


def test_a_worker_whose_run_is_gone_is_told_by_all_who_are_asked(walk):
    lost_while_it_runs(walk)
    told = walk.did("status")
    assert (told["waiting_for"], told["what"].partition(";")[0]) == (
        "outside", "Command-Worker-1: still running, although the folder of the run is gone",
    )  # fmt: skip
    assert "still runs" in walk.did("ps")["problems"][0]["what"]
    walk.lives.let_go(1)


def test_a_wait_that_a_limit_ends_answers_with_what_has_changed(lives):
    """TERM is what a limit sends: without an answer the cursor of the next one would skip the news."""
    lives.lab.templates(command_1=shell(lives.waits), command_2=shell("true"))
    run, _ = lives.detached()
    wait_until(lambda: '"ended"' in (run / "events.jsonl").read_text())
    cursor = lives.call("wait", "last", "--timeout", "0", "--json").document["cursor"]
    process = lives.begin("wait", "last", "--since", cursor, "--timeout", "600")
    wait_until(lambda: waits_for_term(process.pid))
    process.terminate()
    out, _ = process.communicate()
    told = json.loads(out)
    assert (process.returncode, told["status"], told["cursor"]) == (143, "running", cursor)
    assert told["next_action"] == f"orchestrate wait {run.name} --timeout 90 --since {cursor}"
    lives.let_go(1)


def waits_for_term(pid):
    """Return whether a process handles TERM itself."""
    line = next(one for one in read(pid, "status").splitlines() if one.startswith(b"SigCgt"))
    return bool(int(line.split()[1], 16) & 1 << signal.SIGTERM - 1)


def test_a_landing_that_something_outside_has_blocked_waits_for_the_lead_until_it_is_called_again(lab):
    lab.commit({"out/1": "old\n"})
    lab.templates(command_1=writer(1))
    run = lab.call("deploy", "phase-1", "--json").document["run"]
    lab.write("out/1", "mine\n")
    told = lab.call("integrate", run, "--json")
    assert (told.code, told.document["waiting_for"]) == (1, "lead")
    for one in (("status",), ("resume",)):
        said = lab.call(*one, "--json").document
        assert (said["next_action"], said["waiting_for"]) == (None, "lead")
        assert said["what"] == told.document["what"]
    assert "out/1" in told.document["what"]
    assert f"then `orchestrate integrate {run}`" in told.document["what"]
    lab.git("checkout", "out/1")
    assert lab.call("integrate", run, "--json").document["status"] == "integrated"
    assert (lab.root / "out/1").read_text() == "good\n"
    assert "integrate" not in str(lab.call("status", "--json").document["next_action"])
    assert not read_run(runs_of(lab.root)[-1]).blocked


def test_a_run_that_is_parked_for_hours_says_until_when(walk):
    parked_for_hours(walk)
    run = walk.did("run phase-1 --detach")["run"]
    told = walk.did(f"wait {run} --since 0 --brief --timeout 200")
    assert (told["status"], told["next_action"], told["waiting_for"]) == ("running", None, "outside")
    assert told["what"].startswith("claude, parked until ")
    assert f"`orchestrate wait {run} --timeout 90 --since " in told["what"]
    assert list(told["parked"]) == ["claude"]
    shown = walk.did("status")
    assert (shown["what"], shown["runs"][0]["parked"]) == (told["what"], told["parked"])


def test_who_is_to_run_again_is_named_whole_and_alone(walk):
    """The dependents of who failed, who broke the gate; and not what the call had left out."""
    failed_in_an_earlier_run(walk)
    assert "`orchestrate run phase-1 --only command-2 --detach`" in walk.did("status")["what"]
    walk.lab.git("rm", "--quiet", f"{TEMPLATES}/command-2.md")
    assert "command-2" not in walk.did("status")["what"]
    gate(walk.lab, "! test -e out/4")
    failing = command("exit 3", phase="phase-7")
    walk.lab.templates(command_3=failing, command_4=writer(4, phase="phase-7"),
                       command_5=command(phase="phase-7", depends_on=["command-3"]))  # fmt: skip
    walk.did("run phase-7", 1)
    wanted = "`orchestrate run phase-7 --only command-3 command-4 command-5 --detach` runs it again"
    assert wanted in walk.did("status")["what"]
    walk.did("run phase-7 --only command-3", 1)
    assert "`orchestrate run phase-7 --only command-3 --detach` runs it again" in walk.did("status")["what"]


def test_tests_that_failed_are_named_until_another_commit_can_pass_them(walk):
    tests_red_when_all_tickets_are_done(walk)
    done = walk.did("status")["next_action"]
    failed = walk.did(done.removeprefix("orchestrate "), 1)
    assert "(exit code 1, 769/770 passing)" in failed["what"]
    assert "FAILED tests/test_stop.py::test_end" in failed["what"]
    for one in ("status", "resume", "wait last"):
        told = walk.did(one)
        assert (told["next_action"], told["waiting_for"]) == (None, "lead")
        assert "769/770 passing" in told["what"]
        assert f"`{done}`" in told["what"]
    walk.lab.commit({"src/app.py": "mended\n"})
    assert walk.did("status")["next_action"] == done


def test_a_command_that_no_budget_has_room_for_comes_after_what_makes_room(walk):
    over_a_budget_in_which_it_never_fits(walk)
    walk.did("run phase-1", 1)
    told = walk.did("status")
    assert told["waiting_for"] == "lead"
    assert "the run's budget of $1.00 is less than the ticket's $5.00; raise that limit" in told["what"]
    assert told["what"].endswith("then `orchestrate run phase-1 --only claude-2 --detach`")


def test_what_is_not_done_is_named_by_status_after_it_was_rejected_or_added(walk):
    conflicts_rejected(walk)
    walk.lab.templates(command_7=command(), command_8=command(phase="phase-2"))
    wanted = "not done of phase-1: command-1, command-7: `orchestrate run phase-1 --detach` runs what is left"
    assert wanted in walk.did("status")["what"]
    walk.did("run phase-1")
    assert "not done" not in json.dumps(walk.did("status"))


def test_a_report_has_a_command_in_the_place_of_one_and_a_sentence_as_it_is(walk):
    walk.lab.templates(command_1=command("exit 3"))
    walk.did("run phase-1", 1)
    told = walk.did("status")["what"]
    assert f" ({told.replace(' --detach', '')})\n" in walk.lab.call("report").out


def tokens(document):
    """Return the tokens of a document, at three bytes each."""
    return len(json.dumps(document).encode()) / 3


def test_a_phase_of_fifteen_workers_costs_a_lead_that_waits_few_tokens(walk, monkeypatch):
    monkeypatch.setattr("orchestrator.commands.wait.GATHER", 0.0)
    front = {"mode": "write", "title": "Port the module {{ matrix.n }}", "owns": ["src/{{ matrix.n }}/**"]}
    # Each says what it did, in a line that is longer than what is shown.
    work = f"{walk.lives.waits}; mkdir -p src/{{{{ matrix.n }}}}; echo 1 > src/{{{{ matrix.n }}}}/a.py; "
    work += f"echo {'Ported the module, its tests and its page. ' * 4}"
    walk.lab.templates(command_1=shell(work, matrix={"n": list(range(15))}, **front))
    step, spent, waits = "orchestrate deploy phase-1 --detach", {}, 0
    while step is not None:
        verb = step.split()[1]
        if verb == "wait":
            # The worst case: each worker ends by itself, and is an answer.
            waits += 1
            walk.lives.let_go(1)
        code, document = walk.call(step.removeprefix("orchestrate "))
        assert code == 0, document
        spent[verb] = spent.get(verb, 0) + tokens(document)
        step = document["next_action"]
    assert waits >= 15
    assert list(spent) == ["deploy", "wait", "integrate", "deliverable", "status"]
    print(spent)
    assert spent["wait"] <= 2500
    assert sum(spent.values()) <= 12000
