"""Each step of `archive --runs` goes wrong in each way, and others look on: nothing is lost or left."""

import json
import os
import shutil
import subprocess
import tarfile

import pytest
from support.crash import done_in_child, faults_of
from support.old_runs import ARCHIVE, RUNS, aged, archives, furnished, listed, packed, traces
from support.repository import SCRIPT, seen_in

from orchestrator.cli.main import main

IS_SOAK = os.environ.get("ORCHESTRATE_SOAK") == "1"
GONE = "20200102_030405"
DAY = ".git/orchestrate/spending/2020-01-02.jsonl"
pytestmark = pytest.mark.timeout(900 if IS_SOAK else 600)


class Stage:
    """A project with one old run and leftovers, and how all of that looked."""

    def __init__(self, made, run):
        self.lab, self.name = made, aged(made, run, 400)
        folder = made.root / RUNS / self.name
        # Each file is one more step that is like the last one.
        for path in folder.iterdir():
            if path.is_file() and path.name.startswith("Command-Worker-2"):
                path.unlink()
        shutil.rmtree(made.root / RUNS / run)
        self.newest = aged(made, self.name, 1)
        furnished(made, self.name)
        made.write(f".taskers/homes/{GONE}/session", "x")
        made.write(DAY, "")
        self.head = made.git("rev-parse", "HEAD").strip()
        made.git("update-ref", f"refs/orchestrate/keep/{self.name}/{self.head}", self.head)
        self.pristine = made.root.parent / "pristine"
        shutil.copytree(made.root, self.pristine, symlinks=True)
        self.run = self.without_lock(seen_in(folder))
        self.logs = {
            path.name: path.read_bytes() for path in (made.root / ".taskers/messages").glob(f"{self.name}.*")
        }

    def again(self):
        """Begin anew."""
        for name in (".taskers", ".git/orchestrate", ".git/refs"):
            shutil.rmtree(self.lab.root / name)
            shutil.copytree(self.pristine / name, self.lab.root / name, symlinks=True)

    def call(self, *arguments, fault=None, meddle=None):
        """Call the command line in a child."""
        return done_in_child(
            lambda: main([*arguments, "--json"]), fault, env=self.lab.env(), cwd=self.lab.root, meddle=meddle
        )

    def archive(self, fault=None, meddle=None):
        return self.call("archive", "--runs", fault=fault, meddle=meddle)

    @staticmethod
    def without_lock(found):
        return {path: one for path, one in found.items() if path != "run.lock"}

    def packed(self):
        """Return the content of the run's archive, None where there is none."""
        path = self.lab.root / ARCHIVE / f"{self.name}.tar.gz"
        if not path.exists():
            return None
        unpacked = self.lab.home / "unpacked"
        shutil.rmtree(unpacked, ignore_errors=True)
        with tarfile.open(path) as tar:
            tar.extractall(unpacked, filter="data")
        return self.without_lock(seen_in(unpacked / self.name))

    def holds(self, why):
        """Hold that the run and what was said in it are whole in one place."""
        packed, folder = self.packed(), self.lab.root / RUNS / self.name
        if packed is None:
            assert self.without_lock(seen_in(folder)) == self.run, why
            logs = self.lab.root / ".taskers/messages"
            assert {name: (logs / name).read_bytes() for name in self.logs} == self.logs, why
        else:
            own = {path: one for path, one in packed.items() if not path.startswith("messages")}
            assert own == self.run, why
            said = {path.removeprefix("messages/"): one[1] for path, one in packed.items()
                    if path.startswith("messages/")}  # fmt: skip
            assert said == self.logs, why
        newest = (seen_in(root / RUNS / self.newest) for root in (self.pristine, self.lab.root))
        before, now = (found.items() for found in newest)
        assert before <= now, why

    def is_done(self, why):
        """Hold that nothing is left to be done."""
        self.holds(why)
        assert self.packed() is not None, why
        assert traces(self.lab, self.name) == [], why
        assert listed(self.lab.root / ARCHIVE) == archives(self.name), why
        assert not (self.lab.root / f".taskers/homes/{GONE}").exists(), why
        assert not (self.lab.root / DAY).exists(), why
        assert self.lab.git("for-each-ref", "refs/orchestrate/keep") == "", why


@pytest.fixture
def stage(closed):
    return Stage(*closed)


def chosen(steps):
    """Choose what goes wrong: all of it in a soak, else a few of those steps that are like the last one."""
    alike = 0
    for at, step in enumerate(steps, 1):
        verb = step.partition(" ")[0]
        alike = alike + 1 if verb in ("unlink", "rmdir") and not step.endswith((".jsonl", ".going")) else 0
        is_chosen = alike % 8 == 0 and not step.startswith("open pool-")  # to look at a slot changes nothing
        for fault in faults_of(step, at):
            # Killed after one is killed before the next, and a full disk is one more refusal.
            if IS_SOAK or (is_chosen and fault.mode in ("killed before", "refused")):
                yield fault, step


def test_whatever_goes_wrong_at_whichever_step_the_run_is_whole_and_the_next_call_goes_on(stage):
    steps = stage.archive().steps
    stage.is_done("all was well")
    modes = set()
    for fault, step in chosen(steps):
        stage.again()
        outcome = stage.archive(fault)
        why = (fault, step, outcome)
        stage.holds(why)
        modes.add(fault.mode)
        assert outcome.killed == fault.mode.startswith(("killed", "torn")) or step.startswith("git"), why
        if not outcome.killed:
            assert "Traceback" not in outcome.err + outcome.out, why
            assert outcome.code in (0, 1), why
            document = json.loads(outcome.out)
            kept = stage.name in [one["run"] for one in document.get("kept", ())]
            assert kept == ("kept" in document and (stage.lab.root / RUNS / stage.name).exists()), why
            rests = [
                one["place"] for one in document["problems"] if one["what"].startswith("its run is packed")
            ]
            assert bool(rests) == (stage.lab.root / ARCHIVE / f"{stage.name}.going").exists(), why
        after = stage.archive()
        assert after.code == 0, (why, after)
        stage.is_done((why, after))
    assert {"killed before", "refused"} <= modes


def test_others_that_look_at_the_run_or_work_on_it_meanwhile_are_answered_and_lose_nothing(stage):
    steps = stage.archive().steps
    rename = next(at for at, step in enumerate(steps, 1) if step.startswith("rename"))
    asked = {
        ("status",): (0, 1), ("report",): (0, 1), ("logs", stage.name, "command-1"): (0, 2),
        ("resume", stage.name): (0, 1, 2, 5), ("integrate", stage.name): (0, 1, 2, 5),
        ("archive", "--runs", "--dry-run"): (0,), ("archive", "--runs"): (5,),
        ("archive", "--runs", "--delete-packed", "--older-than", "0"): (5,),
    }  # fmt: skip
    for moment in (3, rename - 2, rename, rename + 1, rename + 12, len(steps) - 14):
        stage.again()
        answers = stage.lab.home / f"answers-{moment}"

        def hand(count, _, moment=moment, answers=answers):
            if count == moment:
                told = [stage.call(*arguments) for arguments in asked]
                answers.write_text(json.dumps([[one.code, one.out + one.err] for one in told]))

        outcome = stage.archive(meddle=hand)
        assert outcome.code == 0, outcome
        for (arguments, codes), (code, said) in zip(
            asked.items(), json.loads(answers.read_text()), strict=True
        ):
            assert code in codes, (steps[moment - 1], arguments, code, said)
        stage.is_done(steps[moment - 1])


def test_of_several_processes_at_once_each_does_all_or_is_told_to_wait(closed):
    lab, run = closed
    names = [aged(lab, run, days) for days in (400, 300, 200)]
    whole = {name: seen_in(lab.root / RUNS / name) for name in names}
    calls = [
        subprocess.Popen([SCRIPT, "archive", "--runs", "--json"], cwd=lab.root, env=lab.env(),
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        for _ in range(3)
    ]  # fmt: skip
    said = [json.loads(call.communicate()[0]) for call in calls]
    codes = [call.returncode for call in calls]
    assert set(codes) <= {0, 5}, said
    moved = [one["what"] for told in said for one in told.get("moved", ())]
    assert sorted(moved) == names
    assert {name: packed(lab, name) for name in names} == whole
    assert listed(lab.root / RUNS) == [run]
