"""Where and how it is started: a folder that is gone, odd names, blocked signals, a git that refuses."""

import json
import shutil
import signal
import subprocess
import sys
import time

import pytest
from support.fences import people, walled_for
from support.repository import SCRIPT, Called, Lab, shell
from support.runtimes import PATIENCE

from orchestrator.cli.main import LEAST_FILES, LEAST_ROOM
from orchestrator.commands.table import COMMANDS

pytestmark = pytest.mark.hardening

GONE = f"mkdir gone; cd gone; rmdir ../gone; exec {SCRIPT} "
WRITES = {"mode": "write", "owns": ["src/**"], "timeout": "20s"}
CALLS = {
    "plan": ("phase-1",), "run": ("phase-1", "--new"), "deploy": ("phase-1", "--new"), "logs": ("last",),
    "wait": ("last", "--timeout", "1"), "cancel": ("last",), "integrate": ("last",),
    "todo": ("add", "one"), "context": ("show",), "deliverable": ("start", "1"),
    "criterion": ("done", "x", "--in", "v1"),
    "decide": ("x", "--context", "a", "--decision", "b"), "milestone": ("complete", "--no-verify"),
    "phase": ("start", "1"), "approve": ("technology-database", "--by", "Ada"), "_runtime": ("last",),
    "archive": ("--dry-run",), "demo": ("a-demo",), "fake-agent": ("some-fakes",), "watch": ("last",),
    "msg": ("inbox",), "checkpoint": ("write", "parser", "--action", "begun"),
    "session": ("start",),
}  # fmt: skip
"""Arguments with which a command has something to do; the others need none."""


ELSEWHERE = ("demo", "fake-agent", "worker")
"""Commands that work in a folder of their own, wherever they are called, or inside a worker alone."""


def with_ticket(lab, **front):
    """Commit a write ticket of one second's work."""
    lab.templates(command_1=shell("echo x > src/new.txt", **{**WRITES, **front}))
    return lab


def moved(lab, name):
    """Return the same repository in a folder of another name."""
    return Lab(lab.root.rename(lab.root.with_name(name)), lab.home)


def is_no_bug(called):
    """Check what holds for every command in every surrounding."""
    assert called.code in (0, 1, 2, 4, 5), called
    for noise in ("Traceback", "a bug in", "Warning", "bug of"):
        assert noise not in called.err + called.out, called


def every_command(lab, *more):
    """Yield each command that there is with what came of it."""
    for name, command in COMMANDS.items():
        if command.module and (name not in ELSEWHERE or name in more):
            called = lab.call(name, *CALLS.get(name, ()), "--json")
            is_no_bug(called)
            assert called.out, (name, called)
            yield name, called


def is_refused_by_git(lab, words, *names):
    """Check that all commands refuse or go on in words, and that some refuse in git's own."""
    found = dict(every_command(lab, *set(names) & set(ELSEWHERE)))
    for name in names:
        told = " ".join(found[name].says())
        assert found[name].code in (1, 2), (name, found[name])
        assert any(one in told for one in words), (name, told)


# The current folder


@pytest.mark.parametrize("command", ["status", "run phase-1", "ps", "doctor", "init", "demo", "todo add x"])
def test_a_current_folder_that_is_gone_is_named(lab, command):
    """T41: as after a worktree was removed below a shell."""
    done = subprocess.run(
        ["sh", "-c", GONE + command + " --json"], cwd=lab.home, env=lab.env(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    called = Called(done.returncode, done.stdout, done.stderr)
    assert called.code == 2, called
    (said,) = called.says()
    assert "the current folder is no more" in said
    assert "--project DIR" in said


def test_with_a_project_the_current_folder_is_not_asked_for(lab):
    """T41: all works where `--project` names the folder."""
    with_ticket(lab)
    for command in ("status", "validate", "run phase-1", "validate STATUS.md"):
        script = f"{GONE}{command} --project {lab.root}"
        done = subprocess.run(["sh", "-c", script], cwd=lab.home, env=lab.env(), check=False)
        assert done.returncode == 0, command


# The path of the repository


@pytest.mark.parametrize("name", ["p-$WORD", "p-${WORD}", "$HOME", "100%x%", "a $ b", "~"])
def test_a_name_that_looks_like_a_variable_is_a_name(lab, name):
    """T42: the library that opens the repository expands variables in a path."""
    beside = lab.root.with_name("p-x")
    shutil.copytree(lab.root, beside)
    lab = with_ticket(moved(lab, name))
    was = (beside / "STATUS.md").read_bytes()
    for words in (("todo", "add", "one"), ("run", "phase-1")):
        called = lab.call(*words, "--json", env={"WORD": "x"})
        assert (called.code, called.err) == (0, ""), called
    assert lab.git("status", "--porcelain") == ""
    assert lab.git("show", "HEAD:src/new.txt") == "x\n"
    assert "- [ ] one" in lab.git("show", "HEAD:STATUS.md")
    assert (beside / "STATUS.md").read_bytes() == was


# Python's own variables


@pytest.mark.parametrize(
    "name", ["workers", "tickets", "orchestrator", "git", "anyio", "json.py", "re.py", "typing.py"]
)
def test_our_own_code_is_imported_whatever_pythonpath_holds(lab, name):
    """T43: and workers see the variable where the settings pass it."""
    bad = f"open({str(lab.home / 'was-run')!r}, 'w').close()\nraise SystemExit('not ours')\n"
    shadow = lab.root / "lib" / (name if name.endswith(".py") else f"{name}/__init__.py")
    lab.commit({str(shadow.relative_to(lab.root)): bad})
    sees = 'echo "$PYTHONPATH" > src/seen'
    lab.commit({"orchestrate.toml": "[agents.command]\nenv = ['PYTHONPATH']\n"})
    lab.templates(command_1=shell(sees, **WRITES))
    env = {"PYTHONPATH": "lib:."}
    for words in (("status",), ("plan", "phase-1"), ("run", "phase-1")):
        called = lab.call(*words, "--json", env=env)
        assert (called.code, called.err) == (0, ""), called
    assert lab.git("show", "HEAD:src/seen") == "lib:.\n"
    detached = lab.call("deploy", "phase-1", "--again", "--detach", "--json", env=env)
    assert detached.code == 0, detached
    assert lab.call("wait", "last", "--timeout", "60", "--json", env=env).document["status"] == "finished"
    assert not (lab.home / "was-run").exists()


# Signals


def blocked(lab, *numbers):
    """Start a run as the child of a process that blocks signals."""
    code = (
        f"import os,signal,sys; signal.pthread_sigmask(signal.SIG_BLOCK,{list(map(int, numbers))});"
        "os.execv(sys.argv[1],sys.argv[1:])"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, SCRIPT, "run", "phase-1", "--json"], cwd=lab.root, env=lab.env(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_worker_ends_when_it_ends_also_where_sigchld_is_blocked(lab):
    """T44: a signal mask is inherited."""
    with_ticket(lab)
    out, err = blocked(lab, signal.SIGCHLD).communicate(timeout=60)
    (one,) = json.loads(out)["workers"]
    assert (one["outcome"], one["verdict"], err) == ("complete", "accepted", "")


def test_a_runtime_stops_when_it_is_told_to_also_where_its_signals_are_blocked(lab):
    """T44: the same for SIGTERM and SIGINT."""
    lab.templates(command_1=shell("touch started; exec sleep 60", **{**WRITES, "timeout": "2m"}))
    runtime = blocked(lab, signal.SIGTERM, signal.SIGINT)
    until = time.monotonic() + 60
    while not list(lab.root.glob(".taskers/worktrees/2*/Command-Worker-1/started")):
        assert time.monotonic() < until
        time.sleep(0.01)
    runtime.terminate()
    runtime.communicate(timeout=30)
    assert runtime.returncode == 143


# Standard streams


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&- >&- 2>&-"])
def test_a_run_does_its_work_without_standard_streams(lab, closed):
    """T69: as a daemon's child is started."""
    with_ticket(lab)
    for command, code in (("run phase-1", 0), ("run no-such-phase", 2), ("status", 0), ("--bad", 2)):
        for form in ("", " --json"):
            script = f"exec {SCRIPT} {command}{form} {closed}"
            done = subprocess.run(["sh", "-c", script], cwd=lab.root, env=lab.env(), check=False)
            assert done.returncode == code, script
        code or lab.git("status", "--porcelain")
    assert lab.git("show", "HEAD:src/new.txt") == "x\n"


# Memory


@pytest.mark.parametrize("megabytes", [*range(30, 130, 20), 140, 200])
def test_a_limit_of_memory_is_no_bug_and_nothing_is_lost(lab, megabytes):
    """What fits is done; what does not is said, and done once there is room."""
    with_ticket(lab)
    limit = ["sh", "-c", f'ulimit -v {megabytes * 1000}; exec "$@"', "sh", str(SCRIPT)]
    for words in (("status",), ("todo", "add", "one"), ("run", "phase-1")):
        done = subprocess.run(
            [*limit, *words, "--json"], cwd=lab.root, env=lab.env(), capture_output=True, text=True,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        called = Called(done.returncode, done.stdout, done.stderr)
        is_refused = words[0] == "run" and megabytes < LEAST_ROOM / 1_000_000
        # With the least, the interpreter itself may not start.
        assert called.code in ((1, 2) if is_refused else (0, 1)), called
        assert "a bug in" not in called.err, called
    for _ in range(3):
        step = lab.call("status", "--json").document["next_action"] or ""
        if not any(word in step for word in ("resume", "integrate")):
            break
        assert lab.call(*step.split()[1:], "--json").code == 0
    assert lab.call("run", "phase-1", "--json").code == 0
    assert lab.git("show", "HEAD:src/new.txt") == "x\n"
    assert lab.git("status", "--porcelain") == ""


def test_a_full_pool_runs_with_the_least_memory_that_is_asked_for(lab):
    lab.commit({"orchestrate.toml": '[integration]\ngate = ["true"]\n'})
    n = "{{ matrix.number }}"
    script = f"mkdir -p src/{n}; echo {n} > src/{n}/new"
    more = {"mode": "write", "owns": [f"src/{n}/**"], "acceptance": ["true"]}
    lab.templates(command_1=shell(script, **more, matrix={"number": list(range(1, 16))}))
    limit = ["sh", "-c", f'ulimit -v {LEAST_ROOM // 1000}; exec "$@"', "sh", str(SCRIPT)]
    for form in ((), ("--json",)):
        done = subprocess.run(
            [*limit, "run", "phase-1", "--again", *form], cwd=lab.root, env=lab.env(), capture_output=True,
            text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, done
    assert {one["verdict"] for one in json.loads(done.stdout)["workers"]} == {"accepted"}


@pytest.mark.parametrize("also", ["", "import builtins; builtins.__import__ = begin", "cli._print = begin"])
@pytest.mark.parametrize("form", ["--json", "--new"])
def test_a_thread_that_has_no_memory_to_begin_with_is_waited_for_by_nobody(lab, also, form):
    """Python starts it, and then waits without end for it to begin."""
    with_ticket(lab)
    code = (
        "import sys, threading\n"
        "import orchestrator.cli.main as cli\n"
        "def begin(*_, **__):\n"
        f"    {also or 'pass'}\n"
        "    raise MemoryError\n"
        "threading.Thread._bootstrap = begin\n"
        f"sys.exit(cli.main(['run', 'phase-1', '{form}']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=lab.root, env=lab.env(), capture_output=True, text=True,
        check=False, stdin=subprocess.DEVNULL, timeout=PATIENCE,
    )  # fmt: skip
    called = Called(done.returncode, done.stdout, done.stderr)
    assert called.code == 1, called
    what, do = "the system gives no more memory", "raise the limit (`ulimit -v`), or end other programs"
    if form == "--json":
        problem = {"place": "orchestrate", "what": what, "do": do, "severity": "error"}
        expected = {"schema": 1, "ok": False, "problems": [problem], "next_action": "orchestrate resume"}
        assert called.document == expected
    else:
        assert called.err == f"error: orchestrate: {what}; {do}\nnext: orchestrate resume\n"
    assert lab.call("run", "phase-1", "--json").code == 0


@pytest.mark.parametrize("files", [20, 32, 48, 64, LEAST_FILES - 1])
def test_a_run_that_would_lack_file_descriptors_is_refused_before_it_starts(lab, files):
    with_ticket(lab)
    limit = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", str(SCRIPT)]
    for words in (("run", "phase-1"), ("deploy", "phase-1"), ("run", "phase-1", "--detach")):
        done = subprocess.run(
            [*limit, *words, "--json"], cwd=lab.root, env=lab.env(), capture_output=True, text=True,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        called = Called(done.returncode, done.stdout, done.stderr)
        assert called.code == 2, called
        what = f"allows {files} open files, and a run needs {LEAST_FILES}"
        assert called.says() == [f"ulimit -n: {what}; raise it, as by `ulimit -n 1024`"]
    assert not (lab.root / ".taskers/runs").exists()


def test_a_full_pool_runs_with_the_fewest_file_descriptors_that_are_asked_for(lab):
    lab.commit({"orchestrate.toml": '[integration]\ngate = ["true"]\n'})
    n = "{{ matrix.number }}"
    more = {"mode": "write", "owns": [f"src/{n}/**"], "acceptance": ["true"]}
    script = f"mkdir -p src/{n}; echo {n} > src/{n}/new"
    lab.templates(command_1=shell(script, **more, matrix={"number": list(range(1, 16))}))
    limit = ["sh", "-c", f'ulimit -n {LEAST_FILES}; exec "$@"', "sh", str(SCRIPT)]
    done = subprocess.run(
        [*limit, "run", "phase-1", "--json"], cwd=lab.root, env=lab.env(), capture_output=True, text=True,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done


def test_doctor_names_a_limit_of_the_address_space(lab):
    script = f"ulimit -v 4000000; exec {SCRIPT} doctor --json"
    done = subprocess.run(
        ["sh", "-c", script], cwd=lab.root, env=lab.env(), capture_output=True, text=True, check=False
    )
    told = Called(done.returncode, done.stdout, done.stderr).says()
    assert any(one.startswith("ulimit -v: each program gets 4096 MB") for one in told), told


# What git refuses


def test_a_work_tree_whose_repository_has_moved_is_refused(lab):
    """T50: nothing is written; `git worktree repair` mends it."""
    with_ticket(lab)
    lab.git("worktree", "add", "-q", "../w", "-b", "side")
    side = Lab(lab.root.with_name("w"), lab.home)
    moved(lab, "moved")
    before = side.everything()
    for name, called in every_command(side):
        assert called.code in (1, 2), (name, called)
        assert "git worktree repair" in " ".join(called.says()), (name, called)
    assert side.everything() == before


@pytest.fixture
def deployed(lab):
    """Return a repository with a finished run that waits for its integration."""
    with_ticket(lab)
    assert lab.call("deploy", "phase-1").code == 0
    return lab


GITS = ("doctor", "validate", "plan", "run", "todo", "integrate")
"""Commands that need git."""


def test_a_repository_of_somebody_else_is_refused_in_gits_words(deployed, monkeypatch):
    """T51 (a): as in many containers."""
    monkeypatch.setattr(
        Lab, "env", lambda self, _env=Lab.env, **more: _env(self, GIT_TEST_ASSUME_DIFFERENT_OWNER="1", **more)
    )
    was = (deployed.root / "STATUS.md").read_bytes()
    is_refused_by_git(deployed, ("dubious ownership",), *GITS, "demo")
    assert (deployed.root / "STATUS.md").read_bytes() == was


def test_a_git_configuration_that_cannot_be_read_is_named(deployed):
    """T51 (b)."""
    (deployed.home / ".gitconfig").write_text("[user\n")
    was = (deployed.root / "STATUS.md").read_bytes()
    is_refused_by_git(deployed, ("bad config",), *GITS)
    assert (deployed.root / "STATUS.md").read_bytes() == was


def test_a_work_tree_that_git_takes_for_bare_is_refused_in_gits_words(deployed):
    """T51 (c): `core.bare` is true, and holds for the linked work tree too."""
    deployed.git("worktree", "add", "-q", "../w", "-b", "side")
    deployed.git("config", "extensions.worktreeConfig", "true")
    deployed.git("config", "core.bare", "true")
    side = Lab(deployed.root.with_name("w"), deployed.home)
    was = (side.root / "STATUS.md").read_bytes()
    is_refused_by_git(side, ("must be run in a work tree",), "doctor", "validate", "plan", "run", "todo")
    assert (side.root / "STATUS.md").read_bytes() == was


DAMAGES = {
    "index": lambda git: (git / "index").write_bytes(b"\0damaged\xff\n"),
    "HEAD": lambda git: (git / "HEAD").write_bytes(b"\0damaged\xff\n"),
    "config": lambda git: (git / "config").write_bytes(b"\0damaged\xff\n"),
    "branch": lambda git: (git / "refs/heads/main").write_bytes(b"\0damaged\xff\n"),
    "objects": lambda git: shutil.rmtree(git / "objects"),
    "all but HEAD": lambda git: [shutil.rmtree(git / name) for name in ("objects", "refs")],
    "git file": lambda git: (shutil.rmtree(git), git.write_bytes(b"\0\xff\n")),
}
"""Ways in which git's own files are spoiled, each by the folder `.git`."""


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_metadata_is_no_bug_of_ours(deployed, damage):
    DAMAGES[damage](deployed.root / ".git")
    dict(every_command(deployed))
    assert deployed.call("doctor").code == 1


# Folders that cannot be written


@pytest.fixture
def ordinary(pattern_repository):
    """Yield a repository of an ordinary user's: root may write everywhere."""
    with walled_for(pattern_repository, people()[-1]) as lab:
        yield lab


@pytest.mark.parametrize("place", ["", ".taskers", ".taskers/runs"])
def test_a_folder_that_a_run_writes_to_and_may_not_is_named_before_a_worker_starts(ordinary, place):
    with_ticket(ordinary)
    assert ordinary.call("run", "phase-1", "--json").code == 0
    folder = ordinary.root / place
    folder.chmod(0o555)
    try:
        said = f"{folder}: cannot be written to, and a run keeps its files there; "
        for words in (("doctor",), ("plan", "phase-1", "--again"), ("run", "phase-1", "--again")):
            called = ordinary.call(*words, "--json")
            assert any(one.startswith(said) for one in called.says()), (words, called)
            assert called.code == {"doctor": 1, "plan": 0, "run": 2}[words[0]]
    finally:
        folder.chmod(0o755)


@pytest.mark.parametrize("place", [".git/objects", ".git", ".git/refs/heads"])
def test_a_folder_of_gits_that_cannot_be_written_is_named_before_a_worker_starts(ordinary, place):
    """T52: by the hash of its content a file might go into a folder that can be written to."""
    with_ticket(ordinary)
    assert ordinary.call("todo", "list").code == 0
    folder, was = ordinary.root / place, (ordinary.root / "STATUS.md").read_bytes()
    folder.chmod(0o555)
    try:
        for words in (("doctor",), ("plan", "phase-1"), ("run", "phase-1"), ("todo", "add", "x")):
            called = ordinary.call(*words, "--json")
            is_no_bug(called)
            assert called.code in (1, 2)
            (said,) = (one for one in called.says() if one.startswith(f"{folder}"))
            assert "cannot be written to" in said or "permission denied" in said
            assert "other git processes" not in called.out
    finally:
        folder.chmod(0o755)
    assert (ordinary.root / "STATUS.md").read_bytes() == was
    assert list(ordinary.root.glob(".taskers/runs/2*")) == []


@pytest.mark.parametrize("place", [".git/objects", ".git"])
def test_work_that_cannot_land_for_a_folder_of_gits_waits(ordinary, place):
    """T52: it was closed while the workers ran; what was paid for is kept, and lands later."""
    with_ticket(ordinary)
    assert ordinary.call("deploy", "phase-1").code == 0
    folder = ordinary.root / place
    folder.chmod(0o555)
    try:
        called = ordinary.call("integrate", "last", "--json")
        is_no_bug(called)
        assert called.code in (1, 2)
    finally:
        folder.chmod(0o755)
    called = ordinary.call("integrate", "last", "--json")
    assert called.code == 0, called
    assert ordinary.git("show", "HEAD:src/new.txt") == "x\n"
    assert ordinary.git("status", "--porcelain") == ""


@pytest.fixture(scope="session", params=["de_DE ISO-8859-1 über", "zh_CN GBK 文档", "C ascii über"])
def older(request, tmp_path_factory):
    """Return the variables of a locale that is older than UTF-8, and a name with letters that it has."""
    language, charmap, name = request.param.split()
    if language == "C":
        return {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, name
    folder = tmp_path_factory.mktemp("locales")
    made = subprocess.run(
        ["localedef", "-i", language, "-f", charmap, str(folder / f"{language}.{charmap}")],
        capture_output=True, text=True, check=False,
    ) if shutil.which("localedef") else None  # fmt: skip
    if made is None or not any(folder.iterdir()):
        pytest.skip(
            f"NOT TESTED: this machine cannot make the locale {language}.{charmap} (package `locales`)"
        )
    return {"LOCPATH": str(folder), "LC_ALL": f"{language}.{charmap}"}, name


@pytest.mark.parametrize("fence", ["auto", "off"])
def test_git_and_we_spell_paths_alike_in_an_older_encoding(lab, older, fence):
    """T45: as with UTF-8."""
    env, name = older
    lab.commit({f"{name}/a.txt": "one\n", "orchestrate.toml": f'fence = "{fence}"\n'})
    lab.templates(command_1=shell(f"echo two >> {name}/a.txt", **{**WRITES, "owns": [f"{name}/**"]}))
    plan = lab.call("plan", "phase-1", "--json", env=env).document
    assert [one["files"] for one in plan["tickets"]] == [1]
    called = lab.call("run", "phase-1", "--json", env=env)
    (worker,) = called.document["workers"]
    assert (called.code, worker["verdict"], worker["files"]) == (0, "accepted", [f"{name}/a.txt"]), called
    assert (lab.root / name / "a.txt").read_text() == "one\ntwo\n"
    assert lab.git("status", "--porcelain") == ""
    logs = lab.call("logs", "last", env={**env, "PYTHONIOENCODING": ""})
    assert logs.code == 0
