"""What is not committed, before a run: refused, or told before the first worker starts, in git's words."""

import subprocess

import pytest
from support.repository import SCRIPT, Lab, shell, template


@pytest.fixture
def fresh(tmp_path):
    """Return a new user's repository, of which nothing is committed but what `init` writes."""
    lab = Lab(tmp_path / "project", tmp_path / "home")
    lab.root.mkdir()
    lab.home.mkdir()
    lab.git("init", "--quiet", "--initial-branch=main")
    lab.git("config", "user.name", "Ada Lead")
    lab.git("config", "user.email", "ada@localhost")
    for path in ("src/app.py", "src/lib/x.py", "README.md", ".venv/pyvenv.cfg", "docs/guide.md"):
        lab.write(path, "x\n")
    assert lab.call("init", "--json").code == 0
    return lab


WHAT = "the last commit holds no file of yours, and workers see nothing else; not committed: "


@pytest.mark.parametrize("command", ["plan", "run", "deploy"])
def test_a_last_commit_without_a_file_of_the_users_is_refused_with_what_to_commit(fresh, command):
    called = fresh.call(command, "phase-1", "--json")
    assert called.code == 2
    (said,) = [one for one in called.document["problems"] if one["place"] == ".git"]
    assert said["what"] == f"{WHAT}README.md, docs/guide.md, src/"
    assert said["do"] == "commit your files: git add -- README.md docs/guide.md src/ && git commit"
    assert not list((fresh.root / ".taskers").glob("runs/*"))
    fresh.git("add", "--", "README.md", "docs/guide.md", "src/")
    fresh.git("commit", "--quiet", "--message=mine")
    assert fresh.call("plan", "phase-1", "--json").code == 0


def test_a_project_without_any_file_is_told_to_begin_with_one(fresh):
    for path in ("src/app.py", "src/lib/x.py", "README.md", ".venv/pyvenv.cfg", "docs/guide.md"):
        (fresh.root / path).unlink()
    called = fresh.call("plan", "phase-1", "--json")
    assert called.code == 2
    (said,) = called.says()
    assert said.startswith(".git: the last commit holds no file of yours, and workers see nothing else; ")
    assert said.endswith("; commit a first file of the project, a README for example")


def test_a_file_of_the_users_beside_the_state_files_is_enough(fresh):
    fresh.git("add", "docs/guide.md")
    fresh.git("commit", "--quiet", "--message=mine")
    assert fresh.call("plan", "phase-1", "--json").code == 0


def warned(lab):
    said = lab.call("plan", "phase-1", "--json").document["problems"]
    return {one["place"]: (one["what"], one["do"]) for one in said}


def test_new_folders_are_named_as_a_whole_and_what_tools_make_is_not_to_be_committed(lab):
    lab.templates(command_1=template())
    for path in (
        "new/a.py", "new/deep/b.py", "src/c.py", "plain",
        ".venv/lib/x.py", "env39/pyvenv.cfg", "web/node_modules/left/i.js", "dist/x.whl",
        "x.egg-info/PKG-INFO", "src/__pycache__/app.cpython-311.pyc", ".pytest_cache/README.md",
    ):  # fmt: skip
        lab.write(path, "x\n")
    lab.write("src/app.py", "changed\n")
    found = warned(lab)
    what = "is not committed, and workers start from the last commit: src/app.py, new/, plain, src/c.py"
    assert found["work tree"] == (what, "commit what they should see")
    made = ".pytest_cache/, .venv/, dist/, env39/, src/__pycache__/ and 2 more"
    what = f"does not name what tools have made here: {made}"
    assert found[".gitignore"] == (what, "add it, so that it is never committed")


def test_caches_inside_a_scope_do_not_stop_a_ticket_and_files_do(lab):
    lab.templates(command_1=shell("true", mode="write", owns=["src/**"]))
    lab.write("src/__pycache__/app.cpython-311.pyc", "x\n")
    assert lab.call("plan", "phase-1", "--json").code == 0
    lab.write("src/new.py", "x\n")
    called = lab.call("plan", "phase-1", "--json")
    assert "command-1 would change what you have not committed: src/new.py" in called.says()[0]


@pytest.mark.parametrize("command", ["run", "deploy"])
def test_all_warnings_come_before_the_first_start_and_once(lab, command, tmp_path):
    lab.templates(command_1=shell(f"touch {tmp_path}/began"), codex_1=template(agent="codex", command=None))
    lab.commit({"orchestrate.toml": "[agents.codex]\nexecutable = 'no-such-program'\nenabled = true\n"})
    lab.write("new/a.py", "x\n")
    called = lab.call(command, "phase-1")
    warning = "warning: work tree: is not committed, and workers start from the last commit: new/"
    assert called.err.count(warning) == 1, called
    assert "warning: codex-1: skipped: " in called.err
    assert "is not committed" not in called.out
    document = lab.call(command, "phase-1", "--new", "--again", "--json").document
    assert [one["place"] for one in document["problems"]] == ["work tree", "codex-1"]


def test_warnings_are_there_while_the_first_worker_runs(lives):
    lives.lab.templates(command_1=shell(lives.waits))
    lives.lab.write("new/a.py", "x\n")
    runtime = subprocess.Popen(
        [SCRIPT, "run", "phase-1"], cwd=lives.lab.root, env=lives.lab.env(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    lives.begun.append(runtime)
    first = runtime.stderr.readline()
    lives.let_go(1)
    out, _ = runtime.communicate(timeout=60)
    assert "is not committed, and workers start from the last commit: new/" in first
    assert "is not committed" not in out


def test_resume_and_handoff_name_new_folders_as_git_does(lab):
    lab.templates(command_1=template())
    lab.call("init", "--json")
    for path in ("new/a.py", "new/b.py", ".venv/lib/x.py"):
        lab.write(path, "x\n")
    git = lab.call("resume", "--json").document["git"]
    assert (git["uncommitted"], git["paths"]) == (2, [".venv/", "new/"])
    written = lab.call("handoff", "--json").document
    texts = [one.read_text() for one in lab.root.glob("docs/history/*.md")]
    assert any("\n- .venv/\n- new/\n" in one for one in texts), written
