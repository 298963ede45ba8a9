"""Whole runs behind a fence, as root and as an ordinary user: what workers can do, and what they cannot."""

import json
import os
import sys
import tempfile
from pathlib import Path

import pytest
from support.fences import attempt, listening, python_path
from support.repository import shell, template

from workers.fence._bubblewrap import programs

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="both layers are Linux's own")
LEVELS = pytest.mark.parametrize("level", ["namespaces", "landlock"])
WANTED = {"namespaces": "auto", "landlock": "landlock"}
PROJECT = "$ORCHESTRATE_PROJECT"


def escapes(lab):
    """Return shell lines that try to write wherever a worker must not, each printing whether it could."""
    run = f"{PROJECT}/.taskers/runs/$ORCHESTRATE_RUN"
    targets = {
        "the user's file": f"{PROJECT}/src/app.py",
        "a new file of the user's": f"{PROJECT}/new",
        "the git config": f"{PROJECT}/.git/config",
        "a git hook": f"{PROJECT}/.git/hooks/pre-commit",
        "a ref": f"{PROJECT}/.git/refs/heads/other",
        "our lock": f"{PROJECT}/.git/orchestrate/store.lock",
        "the manifest": f"{run}/run.json",
        "the journal": f"{run}/events.jsonl",
        "another's output": f"{run}/Command-Worker-2.stdout",
        "another's tree": "../Command-Worker-2/stray",
        "another's home": f"{PROJECT}/.taskers/homes/$ORCHESTRATE_RUN/Command-Worker-2/stray",
        "another's messages": f"{PROJECT}/.taskers/messages/$ORCHESTRATE_RUN.Command-Worker-2.jsonl",
        "the user's home": f"{lab.home}/.bashrc",
    }
    # A command has no home: another's can only be made.
    tries = {name: f"mkdir -p $(dirname {target}) && echo x >> {target}" for name, target in targets.items()}
    return [attempt(name, one) for name, one in tries.items()]


def stood_before(lab):
    """Return everything that must be unchanged after workers tried to change it."""
    watched = (lab.root / "src", lab.root / ".git" / "config", lab.root / ".git" / "hooks", lab.home)
    found = {}
    for top in watched:
        for path in (top, *top.rglob("*")):
            found[path] = path.read_bytes() if path.is_file() else None
    return found


def frail(lab, *, dies, holds=0):
    """Put a bubblewrap first in the PATH that holds so many, and then is killed so many times."""
    folder = lab.folder / "frail"
    folder.mkdir()
    program = folder / "bwrap"
    numbers = " ".join(map(str, range(holds + dies)))
    turn = f"[ $n -lt {holds} ] || kill -9 $$; break"
    dying = f"for n in {numbers}; do if mkdir {folder}/$n 2>/dev/null; then {turn}; fi; done"
    program.write_text(
        f'#!/bin/sh\ntest -z "$ORCHESTRATE_WORKER" || {{ {dying}; }}\nexec {programs()[0]} "$@"\n'
    )
    program.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize("dies", [1, 2])
def test_a_worker_whose_fence_was_killed_while_it_went_up_is_tried_again_as_often_as_others(mine, dies):
    mine.settings("[pool]\nretry_pause = 0.1\n")
    mine.templates(command_1=template(("true",), retries=1))
    called = mine.call("run", "phase-1", "--json", env=frail(mine, dies=dies))
    (worker,) = called.document["workers"]
    assert (worker["attempts"], worker["outcome"]) == (2, "complete" if dies == 1 else "failed"), called
    tries = json.loads((mine.root / worker["output"]).with_suffix(".json").read_text())["tries"]
    assert tries[0]["reason"] == "killed by signal 9 (SIGKILL) while its fence was set up"


def test_a_gate_whose_fence_was_killed_while_it_went_up_says_nothing_and_is_asked_again(mine):
    mine.settings('[integration]\ngate = ["true"]\n')
    mine.templates(command_1=template(("sh", "-c", "echo x > new"), mode="write", owns=["new"]))
    run = mine.call("deploy", "phase-1", "--json").document["run"]
    env = frail(mine, dies=2)  # once more at once
    first = mine.call("integrate", run, "--json", env=env)
    assert (first.code, first.document["workers"][0]["verdict"]) == (1, "pending")
    assert "the gate did not run" in first.document["problems"][0]["what"]
    again = mine.call("integrate", run, "--json", env=env)
    assert (again.code, again.document["workers"][0]["verdict"]) == (0, "accepted"), again


def test_an_acceptance_command_whose_fence_was_killed_is_run_once_more(mine):
    front = {"mode": "write", "owns": ["new"], "acceptance": ["test -s new"]}
    mine.templates(command_1=template(("sh", "-c", "echo x > new"), **front))
    called = mine.call("run", "phase-1", "--json", env=frail(mine, holds=1, dies=1))
    (worker,) = called.document["workers"]
    assert (called.code, worker["outcome"], worker["verdict"]) == (0, "complete", "accepted"), called
    checks = mine.root / ".taskers" / "runs" / called.document["run"] / "checks"
    ends = [json.loads(path.read_text())["end"] for path in sorted(checks.glob("*.exit.json"))]
    assert sorted(ends) == ["exited", "not_started"]


@LEVELS
def test_a_worker_writes_in_its_own_tree_and_nowhere_else(walled, level):
    walled.settings(f'fence = "{WANTED[level]}"\n')
    works = ["mkdir out && echo 1 > out/1", 'echo t > "$TMPDIR/t"', 'grep "^Look" "$ORCHESTRATE_TICKET"']
    log = f"{PROJECT}/.taskers/messages/$ORCHESTRATE_RUN.$ORCHESTRATE_WORKER.jsonl"
    works.append(f'echo "{{}}" >> {log}')
    beside = f"echo x >> {walled.folder}/stray"  # into a /tmp of its own, where the project lies below /tmp
    script = "\n".join(["set -e", *works, "set +e", *escapes(walled), beside, "echo done"])
    walled.templates(
        command_1=shell(script, mode="write", owns=["out/**"]),
        command_2=shell("true", mode="write", owns=["two/**"]),
    )
    before = stood_before(walled)
    workers = walled.run()
    ticket, *escaped, done = workers["command-1"]["printed"].splitlines()
    assert (ticket[:4], escaped, done) == ("Look", [], "done")
    assert {one["fence"] for one in workers.values()} == {level}
    assert workers["command-1"]["files"] == ["out/1"]
    assert stood_before(walled) == before
    assert not (walled.folder / "stray").exists()
    assert (walled.root / "out" / "1").read_text() == "1\n"
    assert next(walled.root.glob(".taskers/messages/*.Command-Worker-1.jsonl")).read_text() == "{}\n"


@LEVELS
def test_a_read_only_worker_has_a_tree_that_it_cannot_write(walled, level):
    walled.settings(f'fence = "{WANTED[level]}"\n')
    tries = [
        attempt("new", "echo x > new"),
        attempt("old", "echo x >> src/app.py"),
        attempt("git", "git commit --allow-empty -m x"),
    ]
    works = [attempt("scratch", 'echo x > "$TMPDIR/x"'), attempt("read", "grep hello src/app.py")]
    walled.templates(command_1=shell("\n".join([*tries, *works])))
    (one,) = walled.run().values()
    assert one["printed"].split() == ["scratch", "read"]
    assert (one["violations"], one["fence"]) == ([], level)


@pytest.fixture
def other():
    """Yield a file of another program's in /tmp."""
    with tempfile.NamedTemporaryFile(dir="/tmp") as file:
        yield file


def test_what_is_not_a_worker_s_own_cannot_even_be_seen(walled, other):
    script = f"""
        cd {PROJECT}/.taskers
        find . -mindepth 1 -not -path './worktrees/*/*/*' -not -name '*Worker-2.jsonl'
        ls -A {PROJECT}/.git/orchestrate /run
        cat {other.name}
        true
    """
    other.write(b"somebody's")
    other.flush()
    walled.templates(command_1=shell(script), command_2=shell("true"))
    printed = walled.run()["command-1"]["printed"].split()
    run = next(walled.root.glob(".taskers/runs/2*")).name
    places = [f"scratch/{run}/Command-Worker-1"]
    messages = [f"messages/{run}.{name}" for name in ("Command-Worker-1.jsonl", "who.json")]
    files = [f"runs/{run}/tickets/Command-Worker-1.md", *messages]
    # The tree that readers of one base share; it is read-only.
    places += [path[2:] for path in printed if path.startswith(f"./worktrees/{run}/shared-")][:1]
    own = {f"./{path}" for path in (*places, *files)}
    above = {str(above) for path in own for above in Path(path).parents} - {"."}
    seen = {path for path in printed if path.startswith("./")}
    assert len(places) == 2
    assert seen == own | {f"./{path}" for path in above}
    hidden = {path for path in printed if not path.startswith("./")}
    assert hidden - {"systemd"} == {f"{walled.root}/.git/orchestrate:", "/run:"}  # names are resolved by that


@LEVELS
def test_checks_are_fenced_as_workers_are_and_have_no_key(walled, level):
    tries = [*escapes(walled), attempt("a key", '[ -n "$ANTHROPIC_API_KEY" ]')]
    script = "\n".join([*tries, "echo x > made || echo closed"])
    check = f'[ -z "$({script})" ]'
    walled.settings(f'fence = "{WANTED[level]}"\n[integration]\ngate = [{json.dumps(check)}]\n')
    walled.templates(
        command_1=shell("mkdir out; echo 1 > out/1", mode="write", owns=["out/**"], acceptance=[check])
    )
    before = stood_before(walled)
    called = walled.call("run", "phase-1", "--json", env={"ANTHROPIC_API_KEY": "sk-test-not-real"})
    assert called.code == 0, called
    assert called.document["workers"][0]["verdict"] == "accepted"
    assert stood_before(walled) == before
    checks = list(walled.root.glob(".taskers/runs/2*/checks/*.exit.json"))
    assert len(checks) == 2


@pytest.mark.parametrize("network", ["open", "none"])
def test_command_workers_and_checks_can_be_kept_from_any_network(mine, network):
    with listening() as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        reach = f'python3 -c "{code}" 2>/dev/null'
        ends = reach if network == "open" else f"! {reach}"
        mine.settings(f'[agents.command]\nnetwork = "{network}"\n')
        mine.templates(command_1=shell(ends, acceptance=[ends]))
        (one,) = mine.run().values()
    assert one["fence"] == "namespaces"


@pytest.mark.parametrize(
    ("text", "refused", "said"),
    [
        ('fence = "required"', "namespaces,landlock", '`fence = "required"`, and the kernel holds nothing'),
        ('fence = "landlock"', "landlock", '`fence = "landlock"`, and the kernel holds nothing here'),
        ('[agents.command]\nnetwork = "none"', "namespaces", '`[agents.command] network = "none"` needs'),
    ],
)
def test_what_is_asked_for_and_cannot_be_held_starts_nothing(mine, text, refused, said):
    mine.settings(f"{text}\n")
    mine.templates(command_1=template())
    mine.refused = refused
    for arguments, code in ((("run", "phase-1"), 2), (("plan", "phase-1"), 2), (("doctor",), 1)):
        called = mine.call(*arguments, "--json")
        assert called.code == code, called
        assert any(line.startswith(f"orchestrate.toml: {said}") for line in called.says()), called
    assert not list(mine.root.glob(".taskers/runs/2*"))


def test_a_run_that_was_fenced_is_not_gone_on_with_where_nothing_holds(mine):
    mine.settings('fence = "required"\n')
    mine.templates(command_1=shell("true"))
    assert mine.call("deploy", "phase-1", "--json").code == 0
    mine.refused = "namespaces,landlock"
    called = mine.call("integrate", "last", "--json")
    assert called.code == 2, called
    assert any("the kernel holds nothing here" in line for line in called.says()), called


@pytest.mark.parametrize(
    ("refused", "level"), [("namespaces", "landlock"), ("namespaces,landlock", "advisory")]
)
def test_where_namespaces_are_refused_the_next_best_is_taken_and_every_record_says_so(walled, refused, level):
    walled.templates(command_1=shell(f"echo x > {walled.home}/stray; true"))
    walled.refused = refused
    doctor = walled.call("doctor", "--json").document["fence"]
    assert doctor["level"] == level
    assert "namespace" in doctor["reason"]
    assert walled.call("plan", "phase-1", "--json").document["fence"] == level
    (one,) = walled.run().values()
    assert one["fence"] == level
    assert (walled.home / "stray").exists() == (level == "advisory")
    (record,) = walled.root.glob(".taskers/runs/2*/Command-Worker-1.json")
    assert json.loads(record.read_text())["fence"] == level


def test_doctor_says_what_holds_by_which_program_and_that_root_is_weak(walled):
    called = walled.call("doctor", "--json")
    fence = called.document["fence"]
    assert (fence["level"], fence["reason"]) == ("namespaces", f"by {programs()[0]}")
    assert fence["root"] == (walled.somebody.name == "root")
    warned = [line for line in called.says() if line.startswith("fence: ")]
    assert len(warned) == fence["root"]
    assert all("root, the weakest case at every level" in line for line in warned)


# What must go on working


def test_what_users_run_goes_on_working_inside(walled):
    """Git that looks, make, a script by its path, the project's own Python: each as outside."""
    walled.commit({"Makefile": "all:\n\techo made > out.txt\n", "run.sh": "#!/bin/sh\necho script\n"})
    venv = walled.root / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(walled.somebody.python)
    (venv / "pyvenv.cfg").write_text(f"home = {Path(walled.somebody.python).resolve().parent}\n")
    (walled.root / "run.sh").chmod(0o755)
    walled.write(".git/info/exclude", ".venv\n")
    walled.git("commit", "--all", "--quiet", "--message=executable")
    works = {
        "status": "git status --porcelain | wc -l | grep -qx 0",
        "log": "git log --oneline | grep -q files",
        "diff": "echo x >> src/app.py; git diff | grep -q '^+x'; git diff --stat; sed -i '$d' src/app.py",
        "make": "make -s",
        "python": f"{PROJECT}/.venv/bin/python -c 'import json'",
        "name": "python3 -c 'import tempfile; tempfile.mkdtemp()'",
        "lock": "python3 -c 'import multiprocessing as m; m.Lock()'",
        "cache": 'mkdir -p "$XDG_CACHE_HOME" "$CARGO_HOME"',
        "home": "ls ~",
        "null": "echo x > /dev/null",
    }
    lines = [attempt(name, command) for name, command in works.items()]
    walled.templates(
        command_1=shell("\n".join(lines), mode="write", owns=["out.txt"]), command_2=template(["./run.sh"])
    )
    workers = walled.run()
    assert workers["command-1"]["printed"].split() == list(works)
    assert workers["command-1"]["files"] == ["out.txt"]
    assert workers["command-2"]["printed"] == "script\n"


ABOVE = {
    "the project's own": {"pyproject.toml": '[project]\nname = "x"\nversion = "1"\n'},
    "an older project's": {"tox.ini": "[tox]\n", "setup.cfg": "[metadata]\nname = x\n"},
    "settings that git ignores": {".gitignore": "pyproject.toml\n", "pyproject.toml": "[project]\n"},
    "settings of a folder above": {"../pyproject.toml": "[project]\n"},
}


@LEVELS
@pytest.mark.parametrize("files", ABOVE.values(), ids=ABOVE)
def test_pytest_finds_no_settings_above_its_tree_that_it_may_not_open(mine, level, files):
    """It looks for its section in each folder above, and fails on a file that it sees and cannot read."""
    (mine.folder / "work").mkdir()
    mine.root = mine.root.rename(mine.folder / "work" / "project")
    mine.settings(f'fence = "{WANTED[level]}"\n')
    mine.commit({**files, "tests/test_one.py": "def test_one():\n    pass\n"})
    mine.templates(command_1=template(("true",), acceptance=[f"{sys.executable} -m pytest -q tests"]))
    called = mine.call("run", "phase-1", "--json")
    (worker,) = called.document["workers"]
    assert (worker["verdict"], worker["fence"]) == ("accepted", level), worker["reason"]


@LEVELS
def test_an_editable_install_of_the_project_can_be_listed_and_its_drafts_not_read(mine, level):
    """Pip lists each folder that Python imports from, the checkout among them, and fails where it may not."""
    mine.settings(f'fence = "{WANTED[level]}"\n')
    mine.write(".git/info/exclude", ".env\ndraft\n")
    for name in (".env", "draft", "src/.env"):
        mine.write(name, "secret\n")
    closed = [attempt(name, f"cat {PROJECT}/{name}") for name in (".env", "draft", "src/.env", "src/app.py")]
    python = f'PYTHONPATH="{PROJECT}:{PROJECT}/src" {sys.executable}'
    script = "\n".join([f"{python} -m pip check 2>&1 | grep -i denied", *closed, "true"])
    mine.templates(command_1=shell(script))
    worker = mine.run()["command-1"]
    assert (worker["printed"], worker["fence"]) == ("", level)


def test_the_wheel_s_bubblewrap_does_as_well_where_the_system_has_none(mine):
    mine.templates(command_1=shell(f"echo x > {mine.home}/stray; true"))
    tools = mine.folder / "tools"
    tools.mkdir()
    code = (
        "import shutil, sys; found = shutil.which\n"
        "shutil.which = lambda name, **more: None if name == 'bwrap' else found(name, **more)\n"
        "from orchestrator.cli.main import main; sys.exit(main())"
    )
    env = mine.env(PYTHONPATH=python_path())
    argv = [mine.somebody.python, "-P", "-c", code, "run", "phase-1", "--json"]
    done = mine.somebody.run(argv, cwd=mine.root, env=env)
    (one,) = json.loads(done.stdout)["workers"]
    assert (one["fence"], one["outcome"]) == ("namespaces", "complete")
    assert not (mine.home / "stray").exists()
