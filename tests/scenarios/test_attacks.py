"""Every attack, fenced and not, as root and as an ordinary user: it never lands, and is reported."""

import os
import re
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from support.attacks import ATTACKS, KEPT, PLANTED, PYTEST, rows
from support.fences import journal, people, python_path, walled_for
from support.paths import ROOT
from support.repository import shell

FENCES = {"auto": "namespaces", "landlock": "landlock", "off": "advisory"}
KEY = "sk-test-not-real"
DOCS = ROOT / "docs" / "fence.md"
SETTINGS = """\
fence = "{fence}"
[pool]
start_interval = 0
[limits]
output_cap = "200 kB"
patch_cap = "1 MB"
[integration]
gate = [
    "for script in own-*/gate.sh; do sh $script; done; true",
    "for file in own-*/gate_test.py; do test ! -e $file || @PYTEST@ $file; done",
    "git log -1 -p >/dev/null",
]
"""
SHOW = 'for script in own-*/shown.sh; do test ! -e $script || sh $script 2>/dev/null; done; cat "$1"\n'
pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the fence is Linux's own"),
    pytest.mark.timeout(1200),
]


class Came(NamedTuple):
    """What came of one attack."""

    happened: bool
    told: str
    """Violations, the outcome that is not `complete`, the flag of a process left; `-` if nothing."""
    printed: str
    """What the worker and its acceptance commands printed."""


def attacked(lab, fence):
    """Run all attacks, one after another so that each can be attributed; return their results."""
    attacks = [one for one in ATTACKS if fence != "off" or not one.stops_all]
    numbers = {one.name: number for number, one in enumerate(attacks, 2)}
    fill = {"@PYTEST@": PYTEST, "@PATH@": python_path(), "@PYTHON@": lab.somebody.python,
            "@KEPT@": f"Command-Worker-{numbers[KEPT]}", "@ABSTRACT@": lab.folder.name}  # fmt: skip

    def filled(text, number):
        for name, value in {**fill, "own/": f"own-{number}/", "@EVIL@": f"evil-{number}"}.items():
            text = text.replace(name, value)
        return text

    rules = (lab.root / "AGENTS.md").read_text()
    one_by_one = re.sub(r"(?m)^- Maximum workers: \d+", "- Maximum workers: 1", rules)
    assert one_by_one != rules
    settings = filled(SETTINGS.replace("{fence}", fence), 0)
    lab.commit({"README": "read\n", "show.sh": SHOW, "orchestrate.toml": settings, "AGENTS.md": one_by_one})
    lab.git("config", "diff.shown.textconv", "sh ./show.sh")
    texts = {"command_1": shell("mkdir own-1 && echo honest > own-1/work", mode="write", owns=["own-1/**"])}
    for attack in attacks:
        number = numbers[attack.name]
        script = filled(f"mkdir own/\n( {attack.script} ) 2>&1\ntrue", number)
        checks = [filled(attack.acceptance, number)] if attack.acceptance else []
        texts[f"command_{number}"] = shell(script, mode="write", owns=[f"own-{number}/**"], acceptance=checks)
    lab.templates(**texts)
    with planted(lab):
        called = lab.call("run", "phase-1", "--json", env={"ANTHROPIC_API_KEY": KEY})
    assert called.code in (0, 1), [one.read_text() for one in lab.folder.rglob("orchestrate-bug-*")] or called
    workers = {one["ticket"]: one for one in called.document["workers"]}
    assert workers["command-1"]["verdict"] == "accepted", called.document
    assert (lab.root / "own-1" / "work").read_text() == "honest\n"
    said = [one for one in journal(lab) if one.get("event") == "unattributed"]
    found = {}
    for attack in attacks:
        number = numbers[attack.name]
        done = lab.somebody.run(["sh", "-c", filled(attack.probe, number)], cwd=lab.root, env=lab.env())
        worker, at_gate = workers[f"command-{number}"], filled(attack.at_gate, number)
        told = any(at_gate in one["paths"] if at_gate else worker["worker"] in one["candidates"]
                   for one in said if bool(at_gate) == ("during" in one))  # fmt: skip
        words = shown_of(worker) | ({"unattributed"} if told else set())
        found[attack.name] = Came(done.returncode == 0, "+".join(sorted(words)) or "-", printed(lab, worker))
    return found, workers


@contextmanager
def planted(lab):
    """Put keys, a pipe and servers where a user has them, for the block."""
    for name in (".aws/credentials", ".netrc", ".git-credentials", ".config/git/credentials"):
        lab.write(lab.home / name, PLANTED)
    lab.write(".env", PLANTED)
    (lab.root / ".git" / "info" / "exclude").write_text(".env\n")
    os.mkfifo(lab.home / ".pipe")
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        one.bind(str(lab.home / ".agent.sock"))
        other.bind(f"\0{lab.folder.name}")
        lab.somebody.owns(lab.home)
        for server in (one, other):
            server.listen()
        yield


def shown_of(worker):
    """Return the words by which a worker's own record reports what it did."""
    words = {one["kind"] for one in worker["violations"]}
    if worker["outcome"] != "complete":
        return words | {"failed"}
    # One that we stop may leave processes, or not: that is a race, and not the attack.
    return words | ({"left_processes"} & set(worker["flags"]))


def printed(lab, worker):
    """Return the output of a worker and its acceptance commands, up to a limit."""
    files = (lab.root / worker["output"]).parent.glob(f"**/{worker['worker']}.*std*")
    return "".join(path.read_bytes()[:10_000].decode(errors="replace") for path in sorted(files))


@pytest.fixture(scope="module", params=[one.name for one in people()])
def came(request, pattern_repository):
    """Return the results of all attacks for one user, behind a fence and without one."""
    (somebody,) = (one for one in people() if one.name == request.param)

    def outcome(fence):
        with walled_for(pattern_repository, somebody) as lab:
            found, workers = attacked(lab, fence)
            levels = {one["fence"] for one in workers.values()}
            assert levels == {FENCES[fence]}
            return found

    with ThreadPoolExecutor(2) as threads:
        return somebody, dict(zip(FENCES, threads.map(outcome, FENCES), strict=True))


WORDS = {
    "auto": lambda one: one.fenced,
    "landlock": lambda one: one.landlock or one.fenced,
    "off": lambda one: one.unfenced,
}


def expected(word, somebody):
    """Return the expected report of an attack; one that only root can make is expected of root only."""
    said, _, only = word.partition(" if ")
    return said if not only or is_root(somebody) else "-"


def is_root(somebody):
    """Return whether root runs the attacks."""
    return somebody.uid is None and os.geteuid() == 0


@pytest.mark.parametrize("fence", ["auto", "landlock"])
def test_behind_a_fence_no_attack_ever_happens(came, fence):
    _, found = came
    weak = {one.name for one in ATTACKS if one.passes_landlock and fence == "landlock"}
    assert {name for name, one in found[fence].items() if one.happened} == weak


def test_without_a_fence_only_what_the_docs_name_happens(came):
    _, found = came
    happened = {name for name, one in found["off"].items() if one.happened}
    assert happened == {attack.name for attack in ATTACKS if attack.happens and not attack.stops_all}


@pytest.mark.parametrize("fence", FENCES)
def test_each_attack_is_told_as_it_must_be(came, fence):
    somebody, found = came
    wanted = {
        attack.name: expected(WORDS[fence](attack), somebody)
        for attack in ATTACKS
        if attack.name in found[fence]
    }
    assert {name: one.told for name, one in found[fence].items()} == wanted


@pytest.mark.parametrize("fence", FENCES)
def test_what_a_worker_may_not_call_says_so_itself(came, fence):
    _, found = came
    silent = [one.name for one in ATTACKS if one.says and one.says not in found[fence][one.name].printed]
    assert silent == []


@pytest.mark.parametrize("fence", FENCES)
def test_acceptance_commands_run_and_see_no_key(came, fence):
    _, found = came
    assert "key=[]" in found[fence]["a key in the environment of acceptance"].printed
    assert not [name for name, one in found[fence].items() if KEY in one.printed]


def test_the_table_in_the_docs_is_what_the_tests_hold():
    table = "\n".join(rows())
    print(table)
    assert DOCS.read_text().partition("## Attacks\n")[2].partition("\n\n| ")[2].startswith(table[2:])


def test_an_intent_that_was_written_over_is_refused_by_name(mine):
    forge = 'echo evil > "$ORCHESTRATE_PROJECT/.git/orchestrate/intent.json"'
    mine.settings('fence = "off"\n')
    mine.templates(command_1=shell(f"{forge}; echo x > new", mode="write", owns=["new"]))
    called = mine.call("run", "phase-1", "--json")
    assert "is not a valid intent file" in called.out
    assert not (mine.root / "new").exists()
    assert called.code != 3
