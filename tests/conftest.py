"""What holds for every test, and the repositories that tests of several rooms work in.

Each hardening case is run ten times where ORCHESTRATE_SOAK=1 says so, and what it left behind is counted.
"""

import os
import shutil
import signal
import subprocess

import pytest
from hypothesis import HealthCheck, settings
from support.faults import Rehearsal
from support.fences import people, walled_for
from support.repository import AT, SCRIPT, Lab
from support.runtimes import Lives

from orchestrator.state.canonical.decisions import decisions
from orchestrator.state.canonical.rules import rules
from orchestrator.state.canonical.status import status
from orchestrator.state.facts import Facts

# How long an example takes says how busy the machine is, and nothing of what is tested.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

SOAKED = 10
COUNTS = pytest.StashKey[dict[str, int]]()

# A suite that is started in the background has inherited deafness for these; what the tests start would too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items):
    """Begin with the longest test, so that the others need not wait for it at the end."""
    items.sort(key=lambda item: "test_soak.py" not in item.nodeid)


def pytest_generate_tests(metafunc):
    """Have every hardening case run ten times in a soak."""
    if os.environ.get("ORCHESTRATE_SOAK") == "1" and metafunc.definition.get_closest_marker("hardening"):
        metafunc.fixturenames.append("repeat")
        metafunc.parametrize("repeat", range(1, SOAKED + 1))


@pytest.fixture
def anyio_backend() -> str:
    """Have each test run on asyncio, as we do."""
    return "asyncio"


@pytest.fixture(scope="session")
def pattern_repository(tmp_path_factory):
    """Return a folder with a repository and a home, which is copied for each test."""
    folder = tmp_path_factory.mktemp("pattern")
    lab = Lab(folder / "project", folder / "home")
    lab.root.mkdir()
    lab.home.mkdir()
    lab.git("init", "--quiet", "--initial-branch=main")
    lab.git("config", "user.name", "Ada Lead")
    lab.git("config", "user.email", "ada@localhost")
    facts = Facts("project", "Ada Lead", AT)
    lab.commit({
        "src/app.py": "print('hello')\n",
        **{module.OWNS[0]: module.initial(facts) for module in (status, decisions, rules)},
    })  # fmt: skip
    return folder


@pytest.fixture
def lab(pattern_repository, tmp_path):
    """Return a repository with the three canonical files, and without templates."""
    shutil.copytree(pattern_repository, tmp_path / "lab", symlinks=True)
    return Lab(tmp_path / "lab" / "project", tmp_path / "lab" / "home")


@pytest.fixture
def lives(lab):
    """Yield a repository; all its processes have exited in the end."""
    lives = Lives(lab)
    yield lives
    lives.end()


@pytest.fixture(params=people(), ids=lambda one: one.name)
def walled(request, pattern_repository):
    """Yield a repository of root's, then one of an ordinary user's."""
    with walled_for(pattern_repository, request.param) as lab:
        yield lab


@pytest.fixture
def mine(pattern_repository):
    """Yield a repository of the user who runs the tests."""
    with walled_for(pattern_repository, people()[0]) as lab:
        yield lab


@pytest.fixture(scope="session")
def fakes(tmp_path_factory):
    """Write the fake agents, as a user does."""
    folder = tmp_path_factory.mktemp("fakes")
    subprocess.run([SCRIPT, "fake-agent", str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture
def rehearsal(lab, fakes, request):
    """Yield a repository with fake agents; whatever a case leaves behind is counted, and fails it."""
    made = Rehearsal(lab, fakes)
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
    _tell_walks(terminalreporter)


def _tell_walks(reporter):
    """Print how the callers that do what `next_action` says fared, by the words of their failures."""
    walks = [one for kind in ("passed", "failed") for one in reporter.stats.get(kind, ())
             if one.when == "call" and "test_a_caller_that_does_what_is_said" in one.nodeid]  # fmt: skip
    if not walks:
        return
    failed = [str(one.longrepr) for one in walks if one.failed]
    kinds = {"loops": "no end after", "repeated failures": "nothing has changed",
             "accepted tickets run again": "run again"}  # fmt: skip
    counted = {name: sum(words in text for text in failed) for name, words in kinds.items()}
    said = ", ".join(f"{number} {name}" for name, number in counted.items())
    reporter.write_line(f"next steps: {len(walks)} states, {said}, {len(failed)} failed")
