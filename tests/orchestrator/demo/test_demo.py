"""The demo, whole: a stranger's first command makes a repository that can be looked at."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator.demo.sample import make_sample, python_for_workers
from orchestrator.settings.settings import read_settings
from orchestrator.state.canonical.status import status
from orchestrator.state.facts import Facts

SCRIPT = Path(sys.executable).with_name("orchestrate")
AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
NAMES = [f"Command-Worker-{number}" for number in range(1, 9)]
MENDED = ["basket", "orders", "pricing", "receipts", "stock"]


def called(*arguments, cwd, **more):
    """Call the console script as someone without any git configuration would."""
    home = cwd / "home"
    home.mkdir(exist_ok=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", **more}
    return subprocess.run(
        [SCRIPT, *arguments], cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def git(project, *arguments):
    return subprocess.run(["git", *arguments], cwd=project, capture_output=True, text=True, check=True).stdout


def python(project, *arguments):
    return subprocess.run(
        [sys.executable, "-B", *arguments], cwd=project, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Run the demo once, in a folder of its own choosing, and let many tests look at what it leaves."""
    folder = tmp_path_factory.mktemp("demo")
    done = called("demo", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "orchestrate-demo", done


def test_the_default_folder_is_below_the_current_one_and_is_named_in_the_answer(demo):
    project, done = demo
    assert (project / ".git").is_dir()
    assert "\ncd orchestrate-demo\n" in done.stdout
    assert done.stdout.endswith("\nnext: orchestrate status\n")
    assert all(line.startswith("check test: ") for line in done.stderr.splitlines())


def test_eight_workers_are_shown_as_they_start_and_end(demo):
    lines = demo[1].stdout.splitlines()
    for name in NAMES:
        assert sum(" start  " in line and f" {name} " in line for line in lines) == 1
        assert (
            sum(" complete  " in line and f" {name} " in line and "accepted:" in line for line in lines) == 1
        )


def test_two_workers_talk_to_each_other_and_one_asks_the_lead_and_goes_on(demo):
    said = [" ".join(line[9:].split()) for line in demo[1].stdout.splitlines()]
    asks, answers = (
        "question Command-Worker-3 → Command-Worker-4 Does basket.py read files as UTF-8, too?",
        "answer Command-Worker-4 → Command-Worker-3 Yes: every open() names its encoding.",
    )
    assert said.index(asks) < said.index(answers)
    begins = (
        "question Command-Worker-5 → lead",
        "answer lead → Command-Worker-5",
        "complete Command-Worker-5",
    )
    places = [next(at for at, line in enumerate(said) if line.startswith(one)) for one in begins]
    assert places == sorted(places)


def test_the_eighth_worker_starts_only_when_all_others_were_accepted(demo):
    lines = demo[1].stdout.splitlines()
    start = next(at for at, line in enumerate(lines) if " start " in line and NAMES[7] in line)
    ended = [line for line in lines[:start] if " complete " in line]
    assert len(ended) == 7


def test_what_each_worker_changed_landed_as_its_own_commit_and_the_state_after_them(demo):
    project, _ = demo
    landed = git(project, "log", "--format=", "--name-only", "--grep=^Orchestrate-Worker: ").split()
    assert sorted(landed) == ["docs/faults.md", *(f"shop/{name}.py" for name in MENDED)]
    subjects = git(project, "log", "--format=%s").splitlines()
    assert [subject.partition(" run ")[0] for subject in subjects[:2]] == [
        "Deliverable complete: Report (and 2 changes before it)", "Integrated",
    ]  # fmt: skip
    assert len(subjects) == 4 + len(landed)
    assert "STATUS.md" in git(project, "show", "--format=", "--name-only", "HEAD").split()


def test_the_commits_are_in_the_name_that_only_this_repository_holds(demo):
    project, _ = demo
    assert set(git(project, "log", "--format=%ae %ce").split()) == {"demo@example.invalid"}
    assert git(project, "config", "--local", "user.email").strip() == "demo@example.invalid"


def test_nothing_is_left_uncommitted_and_no_worktree_stays(demo):
    project, _ = demo
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "worktree", "list", "--porcelain").count("worktree ") == 1


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are read from /proc")
def test_nothing_is_left_running(demo):
    mark = f"ORCHESTRATE_PROJECT={demo[0]}".encode()
    left = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in environ.read_bytes().split(b"\0"):
                left.append(environ)
        except OSError:
            continue  # it ended while we looked, or is somebody else's
    assert left == []


def test_the_status_file_shows_eight_completions_and_no_active_worker(demo):
    roster = (demo[0] / "STATUS.md").read_text().partition("**Active Workers:**")[2]
    active, _, recent = roster.partition("**Recent Completions:**")
    assert active.strip() == ""
    lines = [line for line in recent.partition("\n---\n")[0].splitlines() if line.strip()]
    assert [line.partition(":")[0].removeprefix("- ") for line in lines] == NAMES
    assert all("COMPLETE, accepted" in line for line in lines)


def first_of(project):
    return git(project, "rev-list", "--max-parents=0", "HEAD").strip()


def test_the_tests_of_the_sample_pass_before_and_after(demo, tmp_path):
    project, _ = demo
    git(project, "worktree", "add", "--quiet", "--detach", str(tmp_path / "before"), first_of(project))
    try:
        before = python(tmp_path / "before", "-m", "unittest")
    finally:
        git(project, "worktree", "remove", "--force", str(tmp_path / "before"))
    after = python(project, "-m", "unittest")
    for done in (before, after):
        assert done.returncode == 0
        assert "Ran 8 tests" in done.stderr


def test_what_is_said_of_the_tests_was_counted_and_is_the_same_wherever_it_is_said(demo):
    project, _ = demo
    tested = git(project, "rev-parse", "--short=10", "HEAD~1").strip()
    assert f"**Tests:** 8/8 passing (100%), at {tested}\n" in (project / "STATUS.md").read_text()
    assert "\nGate: passed: python3 -m unittest -q\nTests: 8/8 passing (100%)\n" in git(
        project, "log", "-1", "--format=%B", "--grep=^Integrated run "
    )
    resume = json.loads(called("resume", "--json", "--project", str(project), cwd=project.parent).stdout)
    [check] = resume["checks"]
    assert (check["name"], check["good"], check["total"], check["commit"][:10]) == ("test", 8, 8, tested)
    report = json.loads(called("report", "--json", "--project", str(project), cwd=project.parent).stdout)
    assert report["report"]["progress"]["tests"]["Overall"].startswith("8/8 passing (100%)")


def test_the_tests_of_the_sample_are_its_check_and_its_gate(demo):
    settings = read_settings(demo[0])
    assert settings.integration.gate == (settings.checks.test,)
    assert "\nTests: 8/8 passing (100%)\n" in git(demo[0], "log", "-1", "--format=%B")


def test_its_deliverables_are_complete_after_its_checks_and_the_figures_say_so(demo):
    project, done = demo
    read = status.read((project / "STATUS.md").read_bytes())
    assert {one.status for one in read.phases[0].deliverables} == {"COMPLETE"}
    assert dict(read.progress)["Current Phase"] == "100% (3/3 deliverables complete)"
    assert "\ncomplete: 3 deliverables (Audit, Repairs, Report); tests 8/8 passing (100%), at " in done.stdout


def test_a_sample_whose_tests_fail_says_so(tmp_path):
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 7\n")
    (tmp_path / "python3").chmod(0o755)
    facts = Facts("shop", "Ada", AT, "Repair", "The shop without faults")
    sample = make_sample(tmp_path / "shop", facts, {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    [said] = [line for line in sample.there["STATUS.md"].decode().splitlines() if "**Tests:**" in line]
    assert said.startswith("**Tests:** 0/1 passing (0%), at ")


def test_every_fault_that_was_found_is_gone_and_written_down(demo):
    project, _ = demo
    [run] = (project / ".taskers" / "runs").iterdir()
    first, *found, result = (run / "Command-Worker-1.txt").read_text().splitlines()
    assert result.startswith("ORCHESTRATE-RESULT ")
    assert first == f"{len(found)} faults in 5 files"
    assert len(found) == 10
    assert python(project, "tools/fix_faults.py", "--audit", "shop").stdout.startswith(
        "0 faults in 0 files\n"
    )
    written = (project / "docs" / "faults.md").read_text()
    assert "10 faults fixed, 0 left." in written
    for line in found:
        path, _, what = line.split(":", 2)
        assert f"- {what.strip()}\n" in written.partition(f"## `{path}`")[2]
    assert "`shop/pricing.py`: spelled() has no docstring" in written


def test_the_project_can_be_asked_further(demo):
    project, _ = demo
    for command in (("status",), ("plan", "phase-1"), ("integrate", "last")):
        done = called(*command, "--json", "--project", str(project), cwd=project.parent)
        assert done.returncode == 0, done.stdout
        assert json.loads(done.stdout)["problems"] == []


def test_a_folder_that_holds_something_is_refused_and_left_as_it_is(demo):
    project, _ = demo
    head, before = git(project, "rev-parse", "HEAD"), (project / "STATUS.md").read_bytes()
    done = called("demo", cwd=project.parent)
    assert done.returncode == 2
    assert "orchestrate-demo: is not empty; name another folder" in done.stderr
    assert done.stdout == ""
    assert (git(project, "rev-parse", "HEAD"), (project / "STATUS.md").read_bytes()) == (head, before)


def test_json_is_the_document_of_the_run_with_the_projects_folder(tmp_path):
    (tmp_path / "a b").mkdir()
    done = called("demo", "a b", "--json", cwd=tmp_path, ORCHESTRATE_LEAD="Ada")
    assert done.returncode == 0
    assert all(line.startswith("check test: ") for line in done.stderr.splitlines())
    document = json.loads(done.stdout)
    project = tmp_path / "a b"
    assert document["project"] == str(project)
    assert document["status"] == "integrated"
    assert [worker["worker"] for worker in document["workers"]] == NAMES
    assert {worker["verdict"] for worker in document["workers"]} == {"accepted"}
    assert document["commit"]["state"] == git(project, "rev-parse", "HEAD~1").strip()
    assert document["commit"]["landing"] == git(project, "rev-parse", "HEAD~2").strip()
    assert document["deliverables"] == ["Audit", "Repairs", "Report"]
    assert document["tests"].startswith("8/8 passing (100%), at ")
    assert document["next_action"] == f"orchestrate status --project '{project}'"
    assert "**Lead Agent:** Ada\n" in (project / "STATUS.md").read_text()


@pytest.mark.parametrize("kind", ["file", "link", "below a file"])
def test_a_place_that_is_no_folder_is_refused(tmp_path, kind):
    target = tmp_path / "taken"
    if kind == "link":
        target.symlink_to(tmp_path / "nowhere")
    else:
        target.write_text("mine")
    where = "taken/deeper" if kind == "below a file" else "taken"
    done = called("demo", where, "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert (done.returncode, document["status"], document["run"]) == (2, "refused", None)
    assert document["problems"][0]["place"] == str(tmp_path / where)
    assert not (tmp_path / "nowhere").exists()


def test_the_tickets_name_a_python_that_the_workers_can_find(tmp_path):
    (tmp_path / "python3").symlink_to(sys.executable)
    assert python_for_workers({"PATH": str(tmp_path)}) == "python3"
    assert python_for_workers({"PATH": ""}) == sys.executable
