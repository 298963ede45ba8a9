"""Hardening cases: what each of them left behind is counted."""

import runpy
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FAULTS = runpy.run_path(str(HERE / "fault_lab.py"))
CLI = runpy.run_path(str(HERE / "cli_lab.py"))
_pattern, lab = CLI["_pattern"], CLI["lab"]

COUNTS = pytest.StashKey[dict[str, int]]()


@pytest.fixture(scope="session")
def fakes(tmp_path_factory):
    """Write the fake agents, as a user does."""
    folder = tmp_path_factory.mktemp("fakes")
    subprocess.run([CLI["SCRIPT"], "fake-agent", str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture
def rehearsal(lab, fakes, request):
    """Give a repository with fake agents; what a case leaves behind is counted, and fails it."""
    made = FAULTS["Rehearsal"](lab, fakes)
    yield made
    survivors, lost = made.survivors(), made.lost_slots()
    made.see_dead()
    counts = request.config.stash.setdefault(COUNTS, {"survivors": 0, "lost slots": 0})
    for name, more in (("survivors", len(survivors)), ("lost slots", len(lost))):
        counts[name] += more
    assert (survivors, lost) == ([], [])
    made.is_clean()


def pytest_terminal_summary(terminalreporter, config):
    """Print what all cases together left behind."""
    counts = config.stash.get(COUNTS, None)
    if counts:
        passed = terminalreporter.stats.get("passed", [])
        counts = {"cases that passed": sum("hardening" in one.keywords for one in passed), **counts}
        terminalreporter.write_line(", ".join(f"{name} = {number}" for name, number in counts.items()))
