"""A hand saves a state file while the store is changing it: no text is lost, and no event counts twice."""

import os
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.crash import Fault, done_in_child, on_the_eve
from support.repository import Lab
from support.runtimes import PATIENCE

from orchestrator.state import ALWAYS
from orchestrator.state.events import Completion, PhaseMoved, RosterEntry, RunDeployed, RunIntegrated
from orchestrator.store import _replace
from orchestrator.store.store import Store
from workers.git.run import find_repository

IS_SOAK = os.environ.get("ORCHESTRATE_SOAK") == "1"
AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
STATUS, DECISIONS, BACKLOG = "STATUS.md", "DECISIONS.md", "docs/backlog.md"


@pytest.fixture
def store(lab):
    """Return a store whose next event changes three files."""
    on_the_eve(lab)
    lab.commit({BACKLOG: "# Backlog\n\n## Off the TODO list\n\n- [x] Older (P1, 2026-01-01)\n"})
    found = find_repository(lab.root)
    assert found is not None
    return Store(found)


def change(store):
    """Make a change of three files; the exit code tells whether there was a problem."""
    event = PhaseMoved("Phase 1: Review", "Phase 2: Core", "phase-2", None, AT, "Ada")
    done = store.record([event], families=ALWAYS, message="Phase complete: Review", commit=True)
    for problem in done.problems:
        print(problem)
    return int(any(problem.severity == "error" for problem in done.problems))


def append(path, line):
    """Save as some editors do: into the file that is there."""
    with path.open("ab") as file:
        file.write(line)


def rename(path, line):
    """Save as others do: a new file in its place."""
    aside = path.with_name(f"{path.name}~")
    aside.write_bytes(path.read_bytes() + line)
    aside.replace(path)


def held(lab, why):
    """Hold that the change is there once, whole, with nothing left over."""
    status, decisions, backlog = ((lab.root / one).read_text() for one in (STATUS, DECISIONS, BACKLOG))
    assert "**Phase:** Phase 2 - Core" in status, why
    assert "Done with" not in status, why
    assert backlog.count("Done with") == 1, (why, backlog)
    assert backlog.count("Older") == 1, why
    assert decisions.count("Phase 1: Review") == lab.named, (why, decisions)
    assert lab.git("log", "--format=%s", "-1").strip() == "Phase complete: Review", why
    assert not list(lab.root.rglob("*.tmp")), why
    assert not list((lab.root / ".git" / "orchestrate").glob("*.json")), why


@pytest.fixture
def steps(lab, store):
    """List the operations of the change, and put all back."""
    base = lab.git("rev-parse", "HEAD").strip()
    outcome = done_in_child(lambda: change(store), env=lab.env())
    assert outcome.code == 0, outcome
    lab.named = (lab.root / DECISIONS).read_text().count("Phase 1: Review")
    assert lab.named
    lab.again = lambda: (lab.git("reset", "-q", "--hard", base), lab.git("clean", "-fdq"))
    held(lab, "undisturbed")
    lab.again()
    return outcome.steps


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_line_that_is_saved_at_any_operation_stays_and_so_does_the_change(lab, store, steps, capsys):
    last = next(at for at, step in enumerate(steps, 1) if step.startswith("git commit"))
    cases = [
        (at, name, save)
        for at in range(1, last + 1)
        for name in (STATUS, DECISIONS, BACKLOG)
        for save in (append, rename)
    ]
    # Always among them: between the last look at a file and its move.
    late = [case for case in cases if steps[case[0] - 1].startswith(f"replace .{Path(case[1]).name}")]
    assert len(late) == 6
    tried = cases if IS_SOAK else [*cases[::7], *late]
    for at, name, save in tried:
        line = f"\n<!-- typed by hand at {at} -->\n".encode()

        def hand(now, _, at=at, name=name, line=line, save=save):
            if now == at:
                save(lab.root / name, line)

        outcome = done_in_child(lambda: change(store), env=lab.env(), meddle=hand)
        why = (at, steps[at - 1], name, outcome)
        assert outcome.code == 0, why
        assert line in (lab.root / name).read_bytes(), why
        held(lab, why)
        lab.again()
    with capsys.disabled():
        print(f"\n{len(cases)} saves by hand within one change, {len(tried)} tried")


def test_three_hands_in_one_transaction_cost_no_line_of_the_backlog(lab, store, steps):
    del steps
    saved = []

    def hand(_, step):
        if step.startswith("replace .STATUS.md") and not saved:
            saved.append(append(lab.root / BACKLOG, b"- [ ] by hand, first\n"))
        is_placed = b"Done with" not in (lab.root / STATUS).read_bytes()
        if step.startswith("fsync") and len(saved) == 1 and is_placed:
            saved.append(append(lab.root / STATUS, b"\n<!-- second -->\n"))
            saved.append(append(lab.root / DECISIONS, b"\n<!-- third -->\n"))

    outcome = done_in_child(lambda: change(store), env=lab.env(), meddle=hand)
    assert outcome.code == 0, outcome
    held(lab, outcome)
    for name, line in ((BACKLOG, "first"), (STATUS, "second"), (DECISIONS, "third")):
        assert line in (lab.root / name).read_text()


def test_a_kill_while_a_hand_has_made_half_a_change_be_computed_again_ends_in_the_whole(lab, store, steps):
    last, met = next(at for at, step in enumerate(steps, 1) if step.startswith("git commit")) + 12, []
    for death in range(last - 22, last):

        def hand(_, step):
            if step.startswith("replace .STATUS.md") and b"by hand" not in (lab.root / BACKLOG).read_bytes():
                append(lab.root / BACKLOG, b"\n## By hand\n")

        done_in_child(lambda: change(store), Fault("killed before", death), env=lab.env(), meddle=hand)
        found = (lab.root / BACKLOG).read_text()
        assert store.finish() == [], death
        if (lab.root / DECISIONS).read_text().count("Phase 1: Review") == lab.named:
            held(lab, death)
            met.append("## By hand" in found and "Done with" not in found)
        else:
            assert "Done with" in (lab.root / STATUS).read_text()  # it died before anything was decided
            assert "Done with" not in (lab.root / BACKLOG).read_text()
        assert ("By hand" in found) == ("By hand" in (lab.root / BACKLOG).read_text())
        store.finish()
        lab.again()
    assert any(met), "no kill came between the hand and the second computing"


def killed_on_deciding(lab, store, steps):
    """Be killed between the intent and the first move."""
    first = next(at for at, step in enumerate(steps, 1) if step.startswith("replace .DECISIONS.md"))
    assert done_in_child(lambda: change(store), Fault("killed before", first), env=lab.env()).killed
    assert store.pending() == ["a change of state files was decided and waits for its commit"]


def test_what_a_hand_saves_after_a_kill_is_merged_with_what_was_decided(lab, store, steps):
    killed_on_deciding(lab, store, steps)
    for name in (STATUS, DECISIONS, BACKLOG):
        append(lab.root / name, b"\n<!-- typed after the kill -->\n")
    assert store.finish() == []
    held(lab, "merged")
    for name in (STATUS, DECISIONS, BACKLOG):
        assert b"typed after the kill" in (lab.root / name).read_bytes()
    assert lab.git("status", "--porcelain") == ""


@pytest.mark.parametrize("save", [append, rename])
@pytest.mark.parametrize("later", ["", "- [ ] Typed after the kill\n"], ids=["", "and after it"])
def test_a_kill_right_after_a_move_that_took_away_a_save_by_hand_loses_none_of_it(
    lab, store, steps, save, later
):
    at = next(at for at, step in enumerate(steps, 1) if step.startswith("replace .STATUS.md"))

    def hand(now, _):
        if now == at:
            save(lab.root / STATUS, b"\n<!-- typed just before -->\n")

    assert done_in_child(lambda: change(store), Fault("killed after", at), env=lab.env(), meddle=hand).killed
    assert b"typed just before" not in (lab.root / STATUS).read_bytes()
    head, text = "### P2 (Nice to Have)\n", (lab.root / STATUS).read_text()
    (lab.root / STATUS).write_text(text.replace(head, head + later, 1))
    assert store.finish() == []
    held(lab, "put back")
    for line in ("\n<!-- typed just before -->\n", later):
        assert line in (lab.root / STATUS).read_text()


def test_a_file_system_that_exchanges_no_files_gets_them_replaced(lab, store, steps, monkeypatch):
    monkeypatch.setattr(_replace, "exchange", lambda *_: False)
    assert change(store) == 0
    held(lab, "replaced")
    assert steps


def test_a_hand_on_the_very_line_keeps_its_text_and_ours_is_kept_beside(lab, store, steps):
    killed_on_deciding(lab, store, steps)
    path = lab.root / STATUS
    path.write_text(path.read_text().replace("**Phase:** Phase 1 - Review", "**Phase:** Phase 7 - Mine"))
    (problem,) = store.finish()
    assert (problem.place, problem.do) == (STATUS, "copy what you need from STATUS.md.orchestrate-kept")
    assert "Phase 7 - Mine" in path.read_text()
    assert "**Phase:** Phase 2 - Core" in (lab.root / "STATUS.md.orchestrate-kept").read_text()
    assert "Done with" in (lab.root / BACKLOG).read_text()
    assert store.pending() == []


def test_a_change_that_a_hand_makes_senseless_half_way_is_completed_as_it_was_decided(lab, store, steps):
    del steps

    def hand(_, step):
        if step.startswith("replace .STATUS.md") and b"Phase 2: Core" in (lab.root / STATUS).read_bytes():
            text = (lab.root / STATUS).read_text()
            (lab.root / STATUS).write_text(text.replace("### Phase 2: Core", "### Something else"))

    # DECISIONS.md stands before STATUS.md: the hand takes the phase away after the first was replaced.
    def early(now, step):
        if step.startswith("replace .DECISIONS.md"):
            hand(now, "replace .STATUS.md")

    outcome = done_in_child(lambda: change(store), env=lab.env(), meddle=early)
    assert "Traceback" not in outcome.err, outcome
    assert "### Something else" in (lab.root / STATUS).read_text()
    assert "Phase 2 - Core" in (lab.root / STATUS).read_text()
    assert (lab.root / BACKLOG).read_text().count("Done with") == 1
    assert store.pending() == []


def test_a_project_that_was_moved_after_a_kill_is_completed_where_it_is_now(lab, store, steps):
    killed_on_deciding(lab, store, steps)
    lab.root = lab.root.rename(lab.root.with_name("elsewhere"))
    assert Store(find_repository(lab.root)).finish() == []
    held(lab, "moved")


def test_a_linked_work_tree_completes_its_own_changes_and_no_others(lab, store, steps):
    killed_on_deciding(lab, store, steps)
    side = Lab(lab.root.parent / "side", lab.home)
    lab.git("worktree", "add", "-q", "-b", "side", str(side.root), "HEAD")
    there = Store(find_repository(side.root))
    assert there.pending() == []
    assert side.call("todo", "add", "Only here").code == 0
    assert side.git("show", "--name-only", "--format=%s").split("\n") == [
        "TODO added: Only here",
        "",
        STATUS,
        "",
    ]
    assert "Only here" not in (lab.root / STATUS).read_text()
    assert store.finish() == []
    held(lab, "its own")
    assert side.git("status", "--porcelain") == ""


EDITOR = """
import sys, time
from pathlib import Path
root, number = Path(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
while not list(root.glob(".STATUS.md.orchestrate-*.tmp")):
    pass
text = (root / "STATUS.md").read_text()
line = f"- [ ] Typed by hand {number}" + chr(10)
head = "### P2 (Nice to Have)" + chr(10)
(root / "STATUS.md").write_text(text.replace(head, head + line, 1))
print(time.monotonic(), flush=True)
"""


def of_one_run(number):
    """Return the event of a worker's end in a run of its own."""
    name = f"Codex-Worker-{number}"
    worker = Completion(
        name, f"Port {number}", "complete", "partial", "", (), "lead", "half of it", "no tests"
    )
    return RunIntegrated(f"20260216_1428{number:02}", "phase-1", AT, "Ada", (worker,), None)


def fifteen_at_once(store):
    """End fifteen workers at one moment, each on a thread of its own."""
    barrier = threading.Barrier(15)
    began, wrong = [], []

    def end(number):
        barrier.wait()
        began.append(time.monotonic())
        barrier.wait()  # all have ended before the first is told of: they share one interpreter
        done = store.record([of_one_run(number)], families=ALWAYS, message=f"Run {number}", commit=True)
        wrong.extend(problem for problem in done.problems if problem.severity == "error")

    threads = [threading.Thread(target=end, args=(number,)) for number in range(15)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(max(began) - min(began))
    return len(wrong)


@pytest.mark.hardening
@pytest.mark.soak
@pytest.mark.timeout(900)
def test_fifteen_ends_and_a_line_that_is_inserted_before_the_first_is_saved_all_stand(lab, capsys):
    """T37: fifteen rows and the line, also where the save is slow."""
    store = Store(find_repository(lab.root))
    rosters = [
        RunDeployed(f"20260216_1428{number:02}", "phase-1", AT, "Ada",
                    (RosterEntry(f"Codex-Worker-{number}", f"Port {number}", ("src",)),))
        for number in range(15)
    ]  # fmt: skip
    store.record(rosters, families=ALWAYS, message="Fifteen workers", commit=True)
    assert active(lab) == [f"Codex-Worker-{number}" for number in range(15)]
    base = lab.git("rev-parse", "HEAD").strip()
    repeats = 50 if IS_SOAK else 2
    spread, early = [], []
    for repeat in range(repeats):
        editor = subprocess.Popen(
            [sys.executable, "-c", EDITOR, str(lab.root), str(repeat)], stdout=subprocess.PIPE, text=True
        )
        assert editor.stdout.readline() == "ready\n"
        slowed, replaced = [], lab.root.parent / f"replaced-{repeat}"

        def slow(_, step, slowed=slowed, replaced=replaced):
            # The disk takes its time with what is written beside STATUS.md: the hand is done long before.
            if step.startswith("open .STATUS.md") and not slowed:
                slowed.append("open")
            elif step.startswith("fsync") and len(slowed) == 1:
                slowed.append(time.sleep(0.15))
            elif step.startswith("open intent") and len(slowed) == 2:
                slowed.append(replaced.write_text(str(time.monotonic())))

        outcome = done_in_child(lambda: fifteen_at_once(store), env=lab.env(), meddle=slow)
        assert outcome.code == 0, outcome
        inserted = float(editor.communicate(timeout=PATIENCE)[0])
        assert editor.returncode == 0
        text = (lab.root / STATUS).read_text()
        assert active(lab) == [], (repeat, text)
        log = (lab.root / DECISIONS).read_text()
        assert [f"20260216_1428{number:02}" in log for number in range(15)] == [True] * 15, outcome
        assert text.count(f"Typed by hand {repeat}\n") == 1, (repeat, text)
        spread.append(float(outcome.out))
        early.append(float(replaced.read_text()) - inserted)
        lab.git("reset", "-q", "--hard", base)
    assert min(early) >= 0.05
    with capsys.disabled():
        print(f"\n{repeats} of {repeats}: ends within {1000 * max(spread):.1f} ms, "
              f"line in {1000 * min(early):.0f} ms or more before it would have been replaced")  # fmt: skip


def active(lab):
    """List the workers on the roster."""
    part = (lab.root / STATUS).read_text().partition("**Active Workers:**")[2].partition("**")[0]
    return [line[2:].partition(":")[0] for line in part.splitlines() if line.startswith("- ")]
