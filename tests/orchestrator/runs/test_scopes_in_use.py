"""What one run owns, no other may: across processes, worktrees, killed runtimes and a deleted `.taskers/`."""

import json
import shutil
import signal
from pathlib import Path

import pytest
from filelock import FileLock
from support.repository import shell
from support.runtimes import PATIENCE, kill, kill_and_see_dead, started, wait_until

from workers.files.locks import is_locked


def writer(owns, *, phase="phase-1", script="true", **more):
    return shell(script, mode="write", owns=[owns], phase=phase, **more)


def first_waits(lives, owns="src/a.py", script="", **others):
    """Start a worker that waits for its token; `others` are the templates of further phases."""
    lives.lab.templates(command_1=writer(owns, script=f"{lives.waits}; {script or 'true'}"), **others)
    run, runtime = lives.detached()
    wait_until(lambda: len(started(run)) == 1)
    return run, runtime


def in_use(lives):
    return list((lives.root / ".git" / "orchestrate" / "scopes").iterdir())


def test_one_file_spelled_in_other_ways_is_refused_to_a_second_deploy(lives):
    (lives.root / "alias.py").symlink_to("src/a.py")
    spellings = {
        "b": "./src/../src/a.py", "c": "src", "d": "alias.py", "e": "src/*.py",
        "f": "src/a.py2", "g": "src2/a.py", "h": "../outside.py",
    }  # fmt: skip
    others = {f"command_{name}": writer(text, phase=f"phase-{name}") for name, text in spellings.items()}
    run, _ = first_waits(lives, **others)
    for name in "bcde":
        told = lives.call("deploy", f"phase-{name}", "--json")
        assert told.code == 5, name
        assert (told.document["status"], told.document["workers"]) == ("refused", [])
        assert told.document["next_action"].startswith(f"orchestrate wait {run.name} --timeout 90 --since ")
        [problem] = told.document["problems"]
        assert problem["witness"] == "src/a.py"
        assert problem["place"] == f"docs/worker-ticket-templates/command-{name}.md:8"
        for said in (run.name, "Command-Worker-1", "`src/a.py`", f"`{spellings[name]}`", f"command-{name}"):
            assert said in problem["what"]
    for name in "fg":
        told = lives.call("deploy", f"phase-{name}", "--json")
        assert (told.code, told.document["status"]) == (0, "finished"), name
    told = lives.call("deploy", "phase-h", "--json")
    assert told.code == 2
    assert "leaves the repository" in told.document["problems"][0]["what"]
    assert len(lives.living()) >= 1  # and A has run all the while
    lives.let_go(1)


def test_a_second_deploy_waits_for_the_scope_as_long_as_it_was_told(lives):
    run, _ = first_waits(
        lives,
        script="echo 1 > src/a.py",
        command_2=writer("src/**", phase="phase-2", script="cat src/app.py"),
    )
    told = lives.call("deploy", "phase-2", "--wait", "0.3", "--json")
    assert told.code == 5
    second = lives.begin("deploy", "phase-2", "--wait", "60")
    lives.let_go(1)
    assert lives.call("wait", run.name, "--json").code == 0
    assert second.poll() is None  # the change has not landed: it is still the first run's
    assert lives.call("integrate", run.name, "--json").document["status"] == "integrated"
    out, err = second.communicate(timeout=PATIENCE)
    assert (second.returncode, json.loads(out)["status"]) == (0, "finished"), err


def test_a_landing_half_made_is_no_open_change_to_a_deploy(lives):
    lives.lab.templates(command_1=writer("src/**", script="cat src/app.py"))
    own = lives.root / ".git" / "orchestrate"
    own.mkdir(exist_ok=True)
    with FileLock(own / "store.lock"):
        before = (lives.root / "src/app.py").read_bytes()
        (lives.root / "src/app.py").write_bytes(b"half landed\n")
        begun = lives.begin("deploy", "phase-1")
        wait_until(lambda: begun.poll() is not None or any((own / "turns").glob("*")))
        assert begun.poll() is None, begun.communicate()
        (lives.root / "src/app.py").write_bytes(before)
    out, err = begun.communicate(timeout=PATIENCE)
    assert (begun.returncode, json.loads(out)["status"]) == (0, "finished"), err


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "soon"])
def test_a_time_to_wait_that_is_none_is_refused(lives, seconds):
    told = lives.call("deploy", "phase-1", f"--wait={seconds}", "--json")
    assert told.code == 2
    assert "--wait" in told.document["problems"][0]["what"]


def test_of_many_deploys_at_once_one_has_the_scope(lives):
    names = [f"phase-{number}" for number in range(1, 7)]
    waits = f"echo x >> {lives.outside}/ran; {lives.waits}"
    lives.lab.templates(
        **{f"command_{at}": writer("src/a*", phase=name, script=waits) for at, name in enumerate(names)}
    )
    begun = [lives.begin("deploy", name, "--detach") for name in names]
    codes = []
    for process in begun:
        process.communicate(timeout=PATIENCE)
        codes.append(process.returncode)
    assert sorted(codes) == [0, 5, 5, 5, 5, 5]
    wait_until((lives.outside / "ran").exists)
    lives.let_go(1)
    lives.call("wait", "last")
    assert lives.executed() == {"ran": ["x"]}


def test_a_killed_runtimes_worker_keeps_its_scope_whatever_is_asked(lives):
    run, runtime = first_waits(lives, command_2=writer("src", phase="phase-2"))
    kill_and_see_dead(runtime)
    for more in ((), ("--new",)):
        told = lives.call("deploy", "phase-2", *more, "--json")
        assert told.code == 5
        assert "that run is running" in told.document["problems"][0]["what"]
    lives.let_go(1)
    wait_until(lambda: not lives.living())
    told = lives.call("deploy", "phase-2", "--json")
    assert (told.code, told.document["next_action"]) == (5, f"orchestrate resume {run.name} --detach")
    assert "that run is interrupted" in told.document["problems"][0]["what"]
    assert lives.call("deploy", "phase-2", "--new", "--json").code == 0


def test_a_scope_is_held_by_who_lives_even_when_the_run_is_deleted(lives):
    first_waits(lives, command_2=writer("src", phase="phase-2"))
    shutil.rmtree(lives.root / ".taskers")
    told = lives.call("deploy", "phase-2", "--new", "--json")
    assert told.code == 5
    assert told.document["problems"][0]["witness"] == "src/a.py"
    lives.let_go(1)
    wait_until(lambda: not lives.living())
    told = lives.call("deploy", "phase-2", "--wait", "60", "--json")
    assert told.code == 0, told
    assert len(in_use(lives)) == 1  # what the lost run owned is gone


def test_a_runtime_whose_run_is_deleted_says_so(lives):
    lives.lab.templates(command_1=writer("src/a.py", script=lives.waits))
    runtime = lives.begin("deploy", "phase-1", "--json")
    runs = lives.root / ".taskers" / "runs"
    wait_until(lambda: runs.is_dir() and any(started(run) for run in runs.iterdir()))
    shutil.rmtree(lives.root / ".taskers")
    lives.let_go(1)
    out, err = runtime.communicate(timeout=PATIENCE)
    assert runtime.returncode == 1, err
    [problem] = json.loads(out)["problems"]
    assert "the run's folder was deleted while it ran" in problem["what"]
    assert "a bug in orchestrate" not in err


def test_another_worktree_of_the_repository_sees_the_scope(lives):
    lives.lab.templates(command_2=writer("src", phase="phase-2"))
    elsewhere = lives.root.parent / "elsewhere"
    lives.lab.git("worktree", "add", "-q", "-b", "other", str(elsewhere))
    first_waits(lives, script="echo 1 > src/a.py")
    told = lives.call("deploy", "phase-2", "--json", cwd=elsewhere)
    assert (told.code, told.document["problems"][0]["witness"]) == (5, "src/a.py")
    lives.let_go(1)
    lives.call("wait", "last")
    # What waits to land on one branch is in nobody's way on another.
    assert lives.call("deploy", "phase-2", "--json", cwd=elsewhere).code == 0


def test_a_change_that_has_not_landed_is_in_use_and_no_more_of_the_scope(lives):
    run, _ = first_waits(
        lives, "src/**", "echo 1 > src/a.py",
        command_2=writer("src/a.py", phase="phase-2"), command_3=writer("src/b.py", phase="phase-3"),
    )  # fmt: skip
    lives.let_go(1)
    lives.call("wait", run.name)
    told = lives.call("deploy", "phase-2", "--json")
    assert (told.code, told.document["next_action"]) == (5, f"orchestrate integrate {run.name}")
    assert "has not landed" in told.document["problems"][0]["what"]
    assert lives.call("deploy", "phase-3", "--json").code == 0
    assert lives.call("integrate", run.name, "--reject", "Command-Worker-1", "--json").code == 1
    assert lives.call("deploy", "phase-2", "--json").code == 0


def test_a_run_that_was_left_behind_is_not_gone_on_with_over_another(lives):
    run, runtime = first_waits(
        lives, command_2=writer("src/*", phase="phase-2", script=lives.waits),
    )  # fmt: skip
    kill(runtime, signal.SIGTERM)
    wait_until(lambda: not lives.living())
    wait_until(lambda: not is_locked(run / "run.lock"))
    second = lives.begin("deploy", "phase-2", "--new")
    wait_until(lives.living)
    told = lives.call("resume", run.name, "--json")
    assert told.code == 5, told
    assert told.document["problems"][0]["witness"] == "src/a.py"
    lives.let_go(1)
    second.communicate(timeout=PATIENCE)
    lives.let_go(1)
    assert lives.call("resume", run.name, "--json").document["status"] == "integrated"


def test_a_run_of_which_nothing_more_can_come_owns_nothing(lives):
    lives.lab.templates(command_1=writer("src/a.py", script="echo 1 > src/a.py"))
    assert lives.call("run", "phase-1", "--json").document["status"] == "integrated"
    assert in_use(lives) == []
    run, _ = first_waits(lives, "src/b.py")
    assert len(in_use(lives)) == 1
    assert lives.call("cancel", run.name, "--json").code == 0
    wait_until(lambda: not in_use(lives))


def test_a_damaged_record_stops_nobody_and_goes(lives):
    lives.lab.templates(command_1=writer("src/a.py"), command_2=writer("src", phase="phase-2"))
    assert lives.call("deploy", "phase-1", "--json").code == 0
    folder = lives.root / ".git" / "orchestrate" / "scopes"
    for name, text in {"empty": "", "half": '{"schema": 1, "ru', "newer": '{"schema": 99}'}.items():
        (folder / f"{name}.json").write_text(text)
    assert lives.call("deploy", "phase-2", "--json").code == 0
    left = {"empty.json", "half.json", "newer.json"} & {path.name for path in in_use(lives)}
    assert left == {"newer.json"}  # that of a version to come is not ours to take away


def test_fifteen_writers_at_once_have_a_worktree_each_and_no_branch(lives):
    origin = lives.root.parent / "origin.git"
    lives.lab.git("clone", "--quiet", "--bare", ".", str(origin))
    lives.lab.git("remote", "add", "origin", str(origin))
    lives.lab.git("fetch", "--quiet", "origin")
    lives.lab.git("branch", "--quiet", "--set-upstream-to=origin/main")
    n = "{{ matrix.n }}"
    script = f"git rev-parse --show-toplevel; {lives.waits}; echo {n} > out{n}"
    lives.lab.templates(
        command_1=shell(script, mode="write", owns=[f"out{n}"], matrix={"n": list(range(15))})
    )
    run, _ = lives.detached()
    wait_until(lambda: len(started(run)) == 15)
    places = [run.parents[1] / "worktrees" / run.name / f"Command-Worker-{n}" for n in range(1, 16)]
    listed = lives.lab.git("worktree", "list", "--porcelain").split("\n\n")
    found = {Path(one.splitlines()[0].removeprefix("worktree ")): one for one in listed if one.strip()}
    assert set(found) == {lives.root, *places}
    assert all("detached" in found[place] for place in places)
    assert lives.lab.git("branch", "--format=%(refname:short)").split() == ["main"]
    lives.let_go(15)
    assert lives.call("wait", run.name, "--json").code == 0
    done = lives.call("integrate", run.name, "--json").document
    assert (done["status"], len(set(lives.landed()))) == ("integrated", 15)
    assert [Path(run / f"Command-Worker-{n}.stdout").read_text().strip() for n in range(1, 16)] == [
        str(place) for place in places
    ]
