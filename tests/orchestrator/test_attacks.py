"""Every attack, fenced and not, as root and as an ordinary user: it never lands, what happened is told."""

import os
import re
import runpy
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__)
WALLED = runpy.run_path(str(HERE.with_name("walled_lab.py")))
TABLE = runpy.run_path(str(HERE.with_name("attacks.py")))
shell, _pattern, walled_for, people, python_path = (
    WALLED[name] for name in ("shell", "_pattern", "walled_for", "people", "python_path")
)
mine, ATTACKS = WALLED["mine"], TABLE["ATTACKS"]
FENCES = ("auto", "off")
DOCS = HERE.parents[2] / "docs" / "fence.md"
SETTINGS = """\
fence = "{fence}"
[pool]
start_interval = 0
[limits]
output_cap = "200 kB"
patch_cap = "1 MB"
[integration]
gate = ["for script in own-*/gate.sh; do sh $script; done; true"]
"""
pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the fence is Linux's own"),
    pytest.mark.timeout(240),
]


class Came(NamedTuple):
    """What came of one attack."""

    happened: bool
    told: str
    """Violations, the outcome that is not `complete`, the flag of a process left; `-` if nothing."""
    landed: tuple[str, ...]


def attacked(lab, fence):
    """Run all attacks, one after the other so that each can be attributed; give what came of each."""
    lab.commit({"README": "read\n", "orchestrate.toml": SETTINGS.format(fence=fence)})
    rules = (lab.root / "AGENTS.md").read_text()
    one_by_one = re.sub(r"(?m)^- Maximum workers: \d+", "- Maximum workers: 1", rules)
    assert one_by_one != rules
    lab.commit({"AGENTS.md": one_by_one})
    fill = {"@PATH@": python_path(), "@PYTHON@": lab.somebody.python}
    texts = {"command_1": shell("mkdir own-1 && echo honest > own-1/work", mode="write", owns=["own-1/**"])}
    attacks = [one for one in ATTACKS if fence == "auto" or not one.stops_all]
    for number, attack in enumerate(attacks, 2):
        script = f"mkdir own/\n( {attack.script} ) 2>&1\ntrue"
        for name, text in {**fill, "own/": f"own-{number}/"}.items():
            script = script.replace(name, text)
        checks = [attack.acceptance.replace("own/", f"own-{number}/")] if attack.acceptance else []
        texts[f"command_{number}"] = shell(script, mode="write", owns=[f"own-{number}/**"], acceptance=checks)
    lab.templates(**texts)
    called = lab.call("run", "phase-1", "--json", env={"ANTHROPIC_API_KEY": "sk-test-not-real"})
    assert called.code in (0, 1), [one.read_text() for one in lab.folder.rglob("orchestrate-bug-*")] or called
    document = called.document
    workers = {one["ticket"]: one for one in document["workers"]}
    assert workers["command-1"]["verdict"] == "accepted", document
    assert (lab.root / "own-1" / "work").read_text() == "honest\n"
    said = [one for one in WALLED["journal"](lab) if one["event"] == "unattributed"]
    told = {name for one in said for name in one["candidates"]}
    found = {}
    for number, attack in enumerate(attacks, 2):
        worker = workers[f"command-{number}"]
        probe = attack.probe.replace("own/", f"own-{number}/")
        done = lab.somebody.run(["sh", "-c", probe], cwd=lab.root, env=lab.env())
        words = {one["kind"] for one in worker["violations"]}
        words |= {"failed"} if worker["outcome"] != "complete" else set()
        # One that we stop may leave processes, or not: that is a race, and not the attack.
        words |= {"left_processes"} & set(worker["flags"]) if worker["outcome"] == "complete" else set()
        words |= {"unattributed"} if worker["worker"] in told else set()
        landed = tuple(worker["files"]) if worker["verdict"] == "accepted" else ()
        found[attack.name] = Came(done.returncode == 0, "+".join(sorted(words)) or "-", landed)
    return found, workers


@pytest.fixture(scope="module", params=[one.name for one in people()])
def came(request, _pattern):
    """Give what came of all attacks for one user, behind a fence and without one."""
    (somebody,) = (one for one in people() if one.name == request.param)

    def outcome(fence):
        with walled_for(_pattern, somebody) as lab:
            found, workers = attacked(lab, fence)
            levels = {one["fence"] for one in workers.values()}
            assert levels == {"namespaces" if fence == "auto" else "advisory"}
            return found

    with ThreadPoolExecutor(2) as threads:
        return somebody, dict(zip(FENCES, threads.map(outcome, FENCES), strict=True))


def expected(word, somebody):
    """Give how an attack must be told; what only root can do is told of root only."""
    said, _, only = word.partition(" if ")
    is_root = somebody.uid is None and os.geteuid() == 0
    return said if not only or is_root else "-"


def test_behind_a_fence_no_attack_ever_happens(came):
    _, found = came
    assert [name for name, one in found["auto"].items() if one.happened] == []


def test_without_a_fence_only_what_the_docs_name_happens(came):
    _, found = came
    happened = {name for name, one in found["off"].items() if one.happened}
    assert happened == {attack.name for attack in ATTACKS if attack.happens and not attack.stops_all}


@pytest.mark.parametrize("fence", FENCES)
def test_each_attack_is_told_as_it_must_be(came, fence):
    somebody, found = came
    wanted = {
        attack.name: expected(attack.fenced if fence == "auto" else attack.unfenced, somebody)
        for attack in ATTACKS
        if attack.name in found[fence]
    }
    assert {name: one.told for name, one in found[fence].items()} == wanted


def test_the_table_in_the_docs_is_what_the_tests_hold():
    table = "\n".join(TABLE["rows"]())
    print(table)
    assert DOCS.read_text().partition("## Attacks\n")[2].partition("\n\n| ")[2].startswith(table[2:])


def test_an_intent_that_was_written_over_is_refused_by_name(mine):
    forge = 'echo evil > "$ORCHESTRATE_PROJECT/.git/orchestrate/intent.json"'
    mine.settings('fence = "off"\n')
    mine.templates(command_1=shell(f"{forge}; echo x > new", mode="write", owns=["new"]))
    called = mine.call("run", "phase-1", "--json")
    assert "is no intent of ours" in called.out
    assert not (mine.root / "new").exists()
    assert called.code != 3
