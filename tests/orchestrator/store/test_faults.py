"""Every operation of a writing command goes wrong in every way: all old or all new, and nothing left."""

import json
import os
import random
import re
import shutil
from collections import Counter

import pytest
from support.crash import DEADLY, FILES, Fault, done_in_child, faults_of, on_the_eve

from orchestrator.cli.main import main

IS_SOAK = os.environ.get("ORCHESTRATE_SOAK") == "1"
COMMAND = ("phase", "complete", "phase-1", "--json")
NEXT = ("todo", "add", "After the fault", "--json")
pytestmark = [pytest.mark.soak, pytest.mark.timeout(1700 if IS_SOAK else 600)]


class Stage:
    """A project before a command that changes three files, and how it looks after the one that follows."""

    def __init__(self, lab):
        self.lab = lab
        on_the_eve(lab)
        self.pristine = lab.root.parent / "pristine"
        shutil.copytree(lab.root, self.pristine, symlinks=True)
        self.base = lab.git("rev-parse", "HEAD").strip()
        assert self.command(NEXT).code == 0
        self.old = self.texts()
        self.again()
        self.steps = self.command(COMMAND).steps
        assert all((lab.root / name).exists() for name in FILES)
        self.recovery = self.command(NEXT).steps
        self.new = self.texts()

    def again(self):
        """Begin anew."""
        shutil.rmtree(self.lab.root)
        shutil.copytree(self.pristine, self.lab.root, symlinks=True)

    def command(self, arguments, fault=None):
        """Call the command line in a child."""
        return done_in_child(
            lambda: main([*arguments]), fault, env=self.lab.env(ORCHESTRATE_LEAD="Ada"), cwd=self.lab.root
        )

    def texts(self):
        """Return the state files, without the minute of the day."""
        found = {}
        for name in FILES:
            path = self.lab.root / name
            text = path.read_text() if path.exists() else None
            found[name] = text and re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "AT", text)
        return found

    def settled(self, why):
        """Check that nothing is half done or left over; return whether the change is there."""
        root, own = self.lab.root, self.lab.root / ".git" / "orchestrate"
        now = self.texts()
        assert now in (self.old, self.new), why
        left = [path for path in root.rglob("*") if path.suffix == ".tmp" or path.name.endswith("-kept")]
        left += [*own.glob("intent*"), *own.glob("landing*"), *own.glob("commit-*")]
        assert left == [], why
        assert self.lab.git("status", "--porcelain") == "", why
        is_new = now == self.new
        commits = int(self.lab.git("rev-list", "--count", f"{self.base}..HEAD"))
        assert commits == 1 + is_new, why
        return is_new


@pytest.fixture
def stage(lab):
    return Stage(lab)


def told(outcome, why):
    """Check that a living command reported the fault; return whether it reported success."""
    assert "Traceback" not in outcome.err + outcome.out, (why, outcome)
    assert outcome.code in (0, 1, 2), (why, outcome)
    document = json.loads(outcome.out)
    assert document["ok"] == (outcome.code == 0), (why, outcome)
    for problem in document["problems"]:
        assert problem["place"], (why, outcome)
        assert problem["what"], (why, outcome)
        assert problem["do"], (why, outcome)
    assert outcome.code == 0 or document["problems"], (why, outcome)
    return outcome.code == 0


def sampled(things, number):
    """Return a sample of them, and print how to get the same one again."""
    seed = int(os.environ.get("ORCHESTRATE_SEED", str(random.randrange(10**6))))
    chosen = sorted(random.Random(seed).sample(range(len(things)), min(number, len(things))))
    return [things[at] for at in chosen], f"{len(chosen)} of them (again: ORCHESTRATE_SEED={seed})"


def test_every_operation_of_a_command_that_goes_wrong_leaves_all_old_or_all_new(stage, capsys):
    faults = [fault for at, step in enumerate(stage.steps, 1) for fault in faults_of(step, at)]
    chosen, said = sampled(faults, len(faults) if IS_SOAK else 20)
    seen = Counter()
    for fault in chosen:
        stage.again()
        outcome = stage.command(COMMAND, fault)
        why = (fault, stage.steps[fault.at - 1], outcome, said)
        acknowledged = not outcome.killed and told(outcome, why)
        after = stage.command(NEXT)
        assert after.code == 0, f"{why} {after.out} {after.err}"
        is_new = stage.settled(why)
        assert is_new or not acknowledged, why
        seen[fault.mode, "new" if is_new else "old"] += 1
    with capsys.disabled():
        print(f"\n{len(stage.steps)} operations, {len(faults)} faults, {said}: {dict(sorted(seen.items()))}")


def test_a_recovery_that_is_killed_at_any_operation_is_recovered_from(stage, capsys):
    deaths = [Fault("killed before", at) for at in range(1, len(stage.steps) + 1)]
    chosen, said = sampled(deaths, len(deaths) if IS_SOAK else 3)
    pairs = []
    for death in chosen:
        stage.again()
        assert stage.command(COMMAND, death).killed
        for at, step in enumerate(stage.command(NEXT).steps, 1):
            deadly = [one for one in faults_of(step, at) if one.mode in DEADLY]
            pairs += [(death, one) for one in deadly if (one.mode, step[:3]) != ("torn", "git")]
    number = len(pairs)
    chosen, said = sampled(pairs, number // 10 if IS_SOAK else 6)
    seen = Counter()
    for death, again in chosen:
        stage.again()
        assert stage.command(COMMAND, death).killed
        second = stage.command(NEXT, again)
        why = (death, stage.steps[death.at - 1], again, second, said)
        assert second.killed, why
        after = stage.command(NEXT)
        assert after.code == 0, f"{why} {after.out} {after.err}"
        seen["new" if stage.settled(why) else "old"] += 1
    with capsys.disabled():
        print(f"\n{number} pairs of a kill and one in the recovery, {said}: {dict(sorted(seen.items()))}")
