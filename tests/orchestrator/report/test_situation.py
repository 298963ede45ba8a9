"""A project at one moment: each part is read once, when it is asked for, and stays what it was."""

import subprocess
import sys

import pytest
from support.repository import AT, shell, template

from orchestrator.report.situation import Situation
from workers.git.run import find_repository

OPENED = """
import sys
opened = []
sys.addaudithook(lambda name, given: opened.append(str(given[0])) if name == "open" else None)
from orchestrator.cli.main import main
main(sys.argv[1:])
for name in ("events.jsonl", "roster.json", "DECISIONS.md"):
    print(sum(path.endswith(name) for path in opened), file=sys.stderr)
"""


def situation_of(lab):
    return Situation(find_repository(lab.root), AT)


def test_a_part_stays_as_it_was_first_read(lab):
    before = situation_of(lab)
    todo = before.status.todo["P0"]
    lab.commit({"STATUS.md": (lab.root / "STATUS.md").read_text().replace("- [ ]", "- [x]")})
    assert before.status.todo["P0"] == todo
    assert situation_of(lab).status.todo["P0"] != todo
    # What was not asked for yet is read now.
    (lab.root / "AGENTS.md").unlink()
    assert [one.place for one in before.problems] == ["AGENTS.md"]


def test_what_cannot_be_read_is_a_problem_and_the_rest_is_read(lab):
    lab.write("STATUS.md", "")
    found = situation_of(lab)
    assert (found.status, found.p0, found.unfinished) == (None, (), ())
    assert [one.place for one in found.problems] == ["STATUS.md"]
    assert found.step.step == "orchestrate validate"
    (lab.root / "STATUS.md").unlink()
    assert situation_of(lab).step.step == "orchestrate init"
    assert found.rules.said.pool.total == 15


def test_a_situation_cannot_be_changed(lab):
    with pytest.raises(AttributeError):
        situation_of(lab).at = None
    with pytest.raises(AttributeError):
        situation_of(lab).status = None


@pytest.mark.parametrize("arguments", [("status",), ("resume",), ("report",), ("handoff", "--check")])
def test_a_run_that_waits_is_read_once(lab, arguments):
    lab.templates(
        command_1=shell("echo 1 > elsewhere; mkdir -p out; echo 1 > out/1", mode="write", owns=["out/**"]),
        command_2=template(),
    )
    assert lab.call("run", "phase-1", "--json").document["status"] == "finished"
    done = subprocess.run(
        [sys.executable, "-c", OPENED, *arguments],
        cwd=lab.root, env=lab.env(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr.split()[-3:] == ["1", "1", "1"]
