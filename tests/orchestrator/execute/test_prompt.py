"""What a prompt contains about the rest of the run."""

import pytest
from support.repository import shell


@pytest.fixture
def many(lab):
    lab.commit({"orchestrate.toml": 'fence = "off"\n[worktree]\nshared = "always"\n'})
    lab.templates(
        command_1=shell("true"),
        command_2=shell("true", depends_on=["command-1"]),
        command_3=shell("true", matrix={"n": [str(n) for n in range(22)]}),
    )
    return lab


def test_a_prompt_names_twenty_tickets_beside_its_own_and_counts_the_rest(many):
    assert many.call("deploy", "phase-1", "--json").code == 0
    found = {}
    for path in many.root.glob(".taskers/runs/*/tickets/*.md"):
        lines = path.read_text().splitlines()
        ticket = next(line for line in lines if line.startswith("- Ticket `")).split("`")[1]
        found[ticket] = {
            title: line.removeprefix(f"- **{title}:** ")
            for title in ("Blocked By", "Blocks", "Parallel With")
            for line in lines
            if line.startswith(f"- **{title}:** ")
        }
    assert len(found) == 24
    assert (found["command-1"]["Blocks"], found["command-1"]["Blocked By"]) == ("`command-2`", "none")
    assert (found["command-2"]["Blocks"], found["command-2"]["Blocked By"]) == ("none", "`command-1`")
    for ticket, more in (("command-1", 2), ("command-2", 2), ("command-3[n=3]", 3)):
        names = found[ticket]["Parallel With"].split(", ")
        assert names[20:] == [f"and {more} more"]
        assert len(set(names[:20])) == 20
        assert f"`{ticket}`" not in names
