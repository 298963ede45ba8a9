"""A command that fails because of a file that only the checkout has says so, with the remedy."""

import pytest
from support.repository import shell, template

DO = "name it in `[worktree] link` or `copy`, or commit it"


def reason(lab):
    (worker,) = lab.call("run", "phase-1", "--new", "--json").document["workers"]
    return worker["reason"]


@pytest.fixture
def local(lab):
    """Return a repository with files that git does not track, ignored and not."""
    lab.commit({".gitignore": ".env\n.venv/\nnode_modules/\n*.so\n"})
    lab.write(".git/info/exclude", "local.sh\nbuild\n")
    for path in (
        "local.sh",
        ".env",
        ".venv/bin/python",
        "node_modules/left/i.js",
        "src/_fast.cpython-311.so",
        "build",
    ):
        lab.write(path, "x\n")
    return lab


@pytest.mark.parametrize(
    ("command", "only"),
    [
        ("sh ./local.sh", "local.sh"),
        ("cat .env", ".env"),
        (". ./.env", ".env"),
        (".venv/bin/python -m pytest", ".venv"),
        ("python3 -c \"open('.env')\"", ".env"),
        ("cd src && python3 -c 'import _fast'", "src/_fast.cpython-311.so"),
        ("echo \"Error: Cannot find module 'left'\" >&2; exit 1", "node_modules"),
        ("cat $PWD/local.sh", "local.sh"),
    ],
)
def test_a_command_says_which_file_only_the_checkout_has(local, command, only):
    local.templates(command_1=shell(command))
    assert reason(local).endswith(f"{only} is only in your checkout; {DO}")
    local.templates(command_1=template(acceptance=[command]))
    assert f"{only} is only in your checkout; {DO}" in reason(local)


def test_the_setup_and_the_gate_say_it_too(local):
    local.commit({"orchestrate.toml": '[worktree]\nsetup = ["sh ./local.sh"]\n'})
    local.templates(command_1=template())
    assert f"local.sh is only in your checkout; {DO}" in reason(local)
    local.commit({"orchestrate.toml": "[integration]\ngate = ['cat .env local.sh']\n"})
    local.templates(command_1=shell("echo y > out", mode="write", owns=["out"]))
    problems = local.call("run", "phase-1", "--new", "--json").says()
    assert any(".env, local.sh are only in your checkout" in one for one in problems), problems


@pytest.mark.parametrize(
    "command",
    [
        "cat nowhere.txt",
        "echo build not found; exit 1",
        "sh ./local.sh.old",
        "echo .env is wrong; exit 1",
        "cat src/app.py/x",
    ],
)
def test_other_failures_say_nothing_of_it(local, command):
    local.templates(command_1=shell(command))
    assert "only in your checkout" not in reason(local)


def test_a_file_that_the_worker_has_removed_is_not_only_in_the_checkout(lab):
    removes = shell("rm src/app.py", mode="write", owns=["src/**"], acceptance=["cat src/app.py"])
    lab.templates(command_1=removes)
    assert "No such file" not in reason(lab)
    assert "only in your checkout" not in reason(lab)
