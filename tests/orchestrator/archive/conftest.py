"""Projects with runs that have ended."""

import shutil

import pytest
from support.old_runs import RUNS, listed, settled
from support.repository import Lab, shell


@pytest.fixture(scope="module")
def ran(tmp_path_factory, pattern_repository):
    """Run one phase for real: one worker's work lands, one goes beyond its scope and waits for a word."""
    folder = tmp_path_factory.mktemp("ran")
    shutil.copytree(pattern_repository, folder / "lab", symlinks=True)
    made = Lab(folder / "lab" / "project", folder / "lab" / "home")
    made.templates(
        command_1=shell("mkdir -p out; echo 1 > out/a; echo done", mode="write", owns=["out/**"]),
        command_2=shell("mkdir -p more; echo 1 > more/b; echo 1 > stray", mode="write", owns=["more/**"]),
    )
    assert made.call("run", "phase-1", "--json").code == 1
    return made


@pytest.fixture
def old(ran, tmp_path):
    """Return the project with that run; `aged` makes finished ones of it."""
    shutil.copytree(ran.root.parent, tmp_path / "lab", symlinks=True)
    return Lab(tmp_path / "lab" / "project", tmp_path / "lab" / "home")


@pytest.fixture(scope="module")
def _closed(ran, tmp_path_factory):
    folder = tmp_path_factory.mktemp("closed")
    shutil.copytree(ran.root.parent, folder / "lab", symlinks=True)
    made = Lab(folder / "lab" / "project", folder / "lab" / "home")
    settled(made)
    return made


@pytest.fixture
def closed(_closed, tmp_path):
    """Return the project with that run once nothing more can happen in it, and the run's id."""
    shutil.copytree(_closed.root.parent, tmp_path / "lab", symlinks=True)
    made = Lab(tmp_path / "lab" / "project", tmp_path / "lab" / "home")
    return made, *listed(made.root / RUNS)
