"""What holds for every test; each hardening case is run ten times where ORCHESTRATE_SOAK=1 says so."""

import os
import signal

SOAKED = 10

# A suite that is started in the background has inherited deafness for these; what the tests start would too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_generate_tests(metafunc):
    """Have every hardening case run ten times in a soak."""
    if os.environ.get("ORCHESTRATE_SOAK") == "1" and metafunc.definition.get_closest_marker("hardening"):
        metafunc.fixturenames.append("repeat")
        metafunc.parametrize("repeat", range(1, SOAKED + 1))
