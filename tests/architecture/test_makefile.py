"""`make demo` installs what it needs and says so; the tools of the tests come with the tests."""

import subprocess

import pytest
from support.paths import ROOT


def recipe(*targets):
    """Return the commands that make would run for targets of which nothing is made yet."""
    command = ["make", "--dry-run", "--always-make", "--no-print-directory", *targets]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("target", ["demo", ".venv/package"])
def test_the_demo_installs_the_package_alone_and_says_so(target):
    said = recipe(target)
    assert 'echo "installing orchestrate into .venv (once)"' in said
    assert "-e ." in said
    assert "--group dev" not in said


def test_the_tests_install_their_tools():
    assert "-e . --group dev" in recipe("smoke-test")
