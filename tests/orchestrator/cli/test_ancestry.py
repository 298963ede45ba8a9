"""A lead's command is refused inside a worker of the same repository, whatever that worker unsets."""

import shutil
import sys

import pytest
from support.repository import SCRIPT, shell

PROJECT = '"$ORCHESTRATE_PROJECT"'
BARE = "env -u ORCHESTRATE_WORKER -u ORCHESTRATE_RUN -u ORCHESTRATE_PROJECT"
SAID = "this runs inside a worker, and workers report to the lead"
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="read from Linux's /proc")


def printed(lab):
    """Run the phase without a fence; give what its one worker printed."""
    lab.commit({"orchestrate.toml": 'fence = "off"\n'})
    called = lab.call("run", "phase-1", "--json")
    (worker,) = called.document["workers"]
    assert worker["outcome"] == "complete", called
    return (lab.root / worker["output"]).with_suffix(".stdout").read_text()


LEAD = ("todo add Evil", "integrate last", "approve first-plan --by Mallory")


def test_a_worker_that_drops_its_marks_is_still_known_by_those_above_it(lab):
    calls = "; ".join(f"{BARE} {SCRIPT} {command} 2>&1" for command in LEAD)
    lab.templates(command_1=shell(f"cd {PROJECT}; {calls}; true"))
    assert printed(lab).count(SAID) == len(LEAD)
    assert "Evil" not in (lab.root / "STATUS.md").read_text()
    assert "Mallory" not in (lab.root / "DECISIONS.md").read_text()


ORPHAN = f"""\
until [ "$(ps -o ppid= -p $$ | tr -d ' ')" = "$1" ]; do sleep 0.01; done
cd "$ORCHESTRATE_PROJECT"
{BARE} {SCRIPT} todo add Evil >.taskers/saying 2>&1
mv .taskers/saying .taskers/said
"""


def test_an_orphan_of_a_worker_is_known_by_the_shim_that_takes_it_in(lab):
    # Its parents are gone before it begins: above it are the shim and the nursery, which bear no marks.
    lab.commit({"orphan.sh": ORPHAN})
    orphaned = f"( {BARE} ORCHESTRATE_PROJECT={PROJECT} setsid sh orphan.sh $PPID & )"
    waits = f"until [ -e {PROJECT}/.taskers/said ]; do sleep 0.01; done; cat {PROJECT}/.taskers/said"
    lab.templates(command_1=shell(f"{orphaned}; {waits}", timeout="60s"))
    assert SAID in printed(lab)
    assert "Evil" not in (lab.root / "STATUS.md").read_text()


def test_a_worker_may_lead_in_another_repository(lab, tmp_path):
    # As one that works on orchestrate itself does, whose tests make repositories and lead in them.
    other = tmp_path / "other"
    shutil.copytree(lab.root, other)
    lab.templates(command_1=shell(f"cd {other}; {BARE} {SCRIPT} todo add Mine 2>&1; true"))
    assert SAID not in printed(lab)
    assert "Mine" in (other / "STATUS.md").read_text()


def test_a_worker_may_look(lab):
    lab.templates(command_1=shell(f"cd {PROJECT}; {BARE} {SCRIPT} ps 2>&1 && {BARE} {SCRIPT} status 2>&1"))
    assert SAID not in printed(lab)
