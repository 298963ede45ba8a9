"""The store changes state files as one, or not at all, and loses nobody's text on the way."""

import itertools
import os
import runpy
import shutil
import subprocess
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator import store as store_module
from orchestrator.events import Completion, RosterEntry, RunDeployed, RunIntegrated
from orchestrator.refusal import Refusal
from orchestrator.state.errors import StateError
from orchestrator.store import Store
from workers.git import find_repository

LAB = runpy.run_path(str(Path(__file__).with_name("cli_lab.py")))
_pattern, lab = LAB["_pattern"], LAB["lab"]
AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
RUN = "20260216_142834"
STEPS = ("os.rename", "os.remove", "os.mkdir", "subprocess.Popen", "shutil.rmtree")
STATE = ("STATUS.md", "DECISIONS.md", "AGENTS.md")


def integrated(*names):
    workers = tuple(
        Completion(name, f"Port {name}", "complete", "accepted", "", (f"src/{name}",)) for name in names
    )
    return RunIntegrated(RUN, "phase-1", AT, "Ada", workers, None, "none")


@pytest.fixture
def store(lab):
    found = find_repository(lab.root)
    assert found is not None
    return Store(found)


def record(store, *names, commit=True, **more):
    return store.record(
        [integrated(*names)], message=f"Integrated {', '.join(names)}\n", commit=commit, **more
    )


def texts(lab):
    return {name: (lab.root / name).read_bytes() for name in STATE}


def clean(lab):
    """Hold that nothing of ours is left beside the files, and nothing waits."""
    assert not list(lab.root.rglob("*.tmp"))
    assert not list(lab.root.rglob("*kept"))
    return lab.git("status", "--porcelain")


def test_an_event_changes_its_files_and_commits_them_alone(lab, store):
    (lab.root / "stray").write_text("mine\n")
    (lab.root / "src" / "app.py").write_text("edited\n")
    lab.git("add", "src/app.py")
    done = record(store, "Codex-Worker-1")
    assert (done.changed, done.problems) == (("DECISIONS.md", "STATUS.md"), ())
    assert lab.git("show", "--name-only", "--format=%s", "HEAD").split() == [
        "Integrated", "Codex-Worker-1", "DECISIONS.md", "STATUS.md",
    ]  # fmt: skip
    assert clean(lab) == "M  src/app.py\n?? stray\n"
    assert lab.git("rev-parse", "HEAD").strip() == done.commit


def test_the_same_event_twice_changes_nothing_more(lab, store):
    record(store, "Codex-Worker-1")
    before, head = texts(lab), lab.git("rev-parse", "HEAD")
    again = record(store, "Codex-Worker-1")
    assert (again.changed, again.commit) == ((), None)
    assert (texts(lab), lab.git("rev-parse", "HEAD")) == (before, head)


def test_a_file_that_cannot_show_the_event_leaves_all_files_as_they_were(lab, store):
    for broken in (b"", b"\0" * 500, b"\xff\xfe\x00"):
        (lab.root / "STATUS.md").write_bytes(broken)
        before, head = texts(lab), lab.git("rev-parse", "HEAD")
        with pytest.raises(StateError, match=r"STATUS\.md"):
            record(store, "Codex-Worker-1")
        assert (texts(lab), lab.git("rev-parse", "HEAD")) == (before, head)
        clean(lab)
        assert store.pending() == []


def test_a_lost_file_beside_a_leftover_is_a_stop_and_never_an_empty_board(lab, store):
    leftover = lab.root / ".STATUS.md.orchestrate-1.tmp"
    (lab.root / "STATUS.md").rename(leftover)
    with pytest.raises(StateError, match="the file is missing"):
        record(store, "Codex-Worker-1")
    assert not (lab.root / "STATUS.md").exists()


def test_a_folder_in_place_of_a_state_file_is_a_stop_in_plain_words(lab, store):
    (lab.root / "STATUS.md").unlink()
    (lab.root / "STATUS.md").mkdir()
    with pytest.raises(StateError, match=r"STATUS\.md: cannot be read: Is a directory"):
        record(store, "Codex-Worker-1")


def died(at, work):
    """Do it in a child that is gone without a word at its `at`-th step; tell whether it came so far."""
    child = os.fork()
    if child == 0:
        steps = itertools.count(1)

        def count(event, _):
            if event in STEPS and next(steps) == at:
                os._exit(9)

        sys.addaudithook(count)
        try:
            work()
        except BaseException:  # noqa: BLE001 - a child must not come back into the test
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 9


def test_a_kill_at_any_step_leaves_the_old_files_or_the_new_and_one_commit(lab, store):
    old, base = texts(lab), lab.git("rev-parse", "HEAD").strip()
    pristine = lab.root.parent / "pristine"
    shutil.copytree(lab.root, pristine, symlinks=True)
    record(store, "Codex-Worker-1")
    new, outcomes = texts(lab), []
    for step in itertools.count(1):
        shutil.rmtree(lab.root)
        shutil.copytree(pristine, lab.root, symlinks=True)
        early = died(step, lambda: record(store, "Codex-Worker-1"))
        assert all(texts(lab)[name] in (old[name], new[name]) for name in STATE)
        assert store.finish() == []
        assert texts(lab) in (old, new)
        outcomes.append(texts(lab) == new)
        assert clean(lab) == "", step
        assert store.pending() == []
        assert lab.git("rev-list", "--count", f"{base}..HEAD").strip() == str(int(outcomes[-1]))
        if not early:
            break
    assert outcomes == sorted(outcomes)
    assert {False, True} == set(outcomes)
    assert step > 8


def by_hand(path, line=b"\n<!-- typed by hand -->\n"):
    path.write_bytes(path.read_bytes() + line)


@pytest.mark.parametrize("when", ["_read", "_write_beside", "_write_intent"])
@pytest.mark.parametrize("name", ["STATUS.md", "DECISIONS.md"])
def test_a_line_that_is_typed_between_reading_and_replacing_stays(lab, store, monkeypatch, when, name):
    plain, typed = getattr(Store, when), []

    def slow(self, *arguments):
        found = plain(self, *arguments)
        if not typed:
            typed.append(by_hand(lab.root / name))
        return found

    monkeypatch.setattr(Store, when, slow)
    done = record(store, "Codex-Worker-1")
    assert typed
    assert done.problems == ()
    assert b"typed by hand" in (lab.root / name).read_bytes()
    assert all(b"Codex-Worker-1" in (lab.root / one).read_bytes() for one in ("STATUS.md", "DECISIONS.md"))
    assert (lab.root / "DECISIONS.md").read_bytes().count(RUN.encode()) == _once(lab)
    assert clean(lab) == ""


def _once(lab):
    """Count how often a run is named by one entry, in a file of its own."""
    text = (lab.root / "DECISIONS.md").read_bytes()
    heading = f"run {RUN}".encode()
    assert text.count(b"## 2026-02-16") == 1 or text.count(heading) == 1
    return text.count(RUN.encode())


WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from orchestrator.events import RosterEntry, RunDeployed
from orchestrator.store import Store
from workers.git import find_repository
store, number = Store(find_repository(Path(sys.argv[1]))), sys.argv[2]
at = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
sys.stdin.read()
workers = (RosterEntry("Codex-Worker-" + number, "T" + number, ()),)
event = RunDeployed("20260216_1428" + number, "phase-1", at, "Ada", workers)
assert store.record([event], message="roster", commit=True).problems == ()
"""


def test_writers_at_the_same_moment_all_stand_in_the_file_and_so_does_a_hand(lab):
    writers = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", WRITER, str(lab.root), f"{n:02}"],
            stdin=subprocess.PIPE,
            env=lab.env(),
        )
        for n in range(10, 16)
    ]
    by_hand(lab.root / "STATUS.md")
    for writer in writers:
        writer.stdin.close()
    assert [writer.wait() for writer in writers] == [0] * 6
    text = (lab.root / "STATUS.md").read_text()
    assert [n for n in range(10, 16) if f"Codex-Worker-{n}" in text] == list(range(10, 16))
    assert "typed by hand" in text
    assert clean(lab) == ""


def test_a_hand_faster_than_the_finishing_of_a_killed_command_keeps_its_text_and_ours_is_kept_beside(
    lab, store
):
    monkey = pytest.MonkeyPatch()
    monkey.setattr(Store, "_move", lambda *_: os._exit(9))
    child = os.fork()
    if child == 0:
        record(store, "Codex-Worker-1")
    monkey.undo()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert store.pending() == ["a change of state files was decided and waits for its commit"]
    by_hand(lab.root / "STATUS.md")
    (problem,) = store.finish()
    assert problem.place == "STATUS.md"
    assert b"typed by hand" in (lab.root / "STATUS.md").read_bytes()
    assert b"Codex-Worker-1" in (lab.root / "STATUS.md.orchestrate-kept").read_bytes()
    assert b"Codex-Worker-1" in (lab.root / "DECISIONS.md").read_bytes()


def test_a_commit_waits_while_a_merge_is_in_progress_and_the_next_command_makes_it(lab, store):
    head = lab.git("rev-parse", "HEAD").strip()
    (lab.root / ".git" / "MERGE_HEAD").write_text(f"{head}\n")
    done = record(store, "Codex-Worker-1")
    assert done.commit is None
    assert [problem.what for problem in done.problems] == [
        "a merge is in progress; the state files are saved, their commit waits"
    ]
    more = record(store, "Codex-Worker-2")
    assert (more.commit, len(more.problems)) == (None, 1)
    assert b"Codex-Worker-2" in texts(lab)["STATUS.md"]
    (lab.root / ".git" / "MERGE_HEAD").unlink()
    assert store.finish() == []
    assert lab.git("rev-list", "--count", f"{head}..HEAD").strip() == "1"
    message = lab.git("log", "-1", "--format=%B")
    assert "Integrated Codex-Worker-1" in message
    assert "Integrated Codex-Worker-2" in message
    assert clean(lab) == ""


def test_a_commit_for_one_branch_is_not_made_on_another(lab, store):
    lab.git("switch", "-qc", "side")
    done = record(store, "Codex-Worker-1", branch="refs/heads/main")
    assert (done.commit, len(done.problems)) == (None, 1)
    assert lab.git("rev-parse", "side") == lab.git("rev-parse", "main")
    lab.git("switch", "-q", "main")
    assert store.finish() == []
    assert lab.git("rev-list", "--count", "side..main").strip() == "1"
    assert clean(lab) == ""


def test_a_leftover_index_lock_is_named_and_the_files_are_saved(lab, store, monkeypatch):
    monkeypatch.setattr("orchestrator.repo.LOCK_WAIT", 0.2)
    lock = lab.root / ".git" / "index.lock"
    lock.touch()
    (problem,) = record(store, "Codex-Worker-1").problems
    assert problem.place == str(lock)
    assert lock.exists()
    assert b"Codex-Worker-1" in texts(lab)["STATUS.md"]
    lock.unlink()
    assert store.finish() == []
    assert clean(lab) == ""


def test_the_index_lock_of_a_living_git_is_waited_for_and_never_taken_away(lab, store):
    lock = lab.root / ".git" / "index.lock"
    lock.touch()
    holder = subprocess.Popen(["sh", "-c", f"sleep 0.7; test -e {lock} && rm {lock}"])
    assert record(store, "Codex-Worker-1").commit is not None
    assert holder.wait() == 0
    assert clean(lab) == ""


def test_a_state_file_that_is_a_link_is_written_and_committed_where_it_leads(lab, store):
    (lab.root / "docs").mkdir(exist_ok=True)
    (lab.root / "STATUS.md").rename(lab.root / "docs" / "board.md")
    (lab.root / "STATUS.md").symlink_to("docs/board.md")
    lab.git("add", "-A")
    lab.git("commit", "-qm", "link")
    done = record(store, "Codex-Worker-1")
    assert done.commit is not None
    assert (lab.root / "STATUS.md").is_symlink()
    assert b"Codex-Worker-1" in (lab.root / "docs" / "board.md").read_bytes()
    assert clean(lab) == ""


def test_a_state_file_that_leads_out_of_the_repository_is_refused(lab, store):
    outside = lab.root.parent / "outside.md"
    shutil.move(lab.root / "STATUS.md", outside)
    (lab.root / "STATUS.md").symlink_to(outside)
    before = outside.read_bytes()
    with pytest.raises(Refusal, match="outside the repository"):
        record(store, "Codex-Worker-1")
    assert outside.read_bytes() == before


def test_a_lock_that_is_not_let_go_is_exit_code_five(lab, store, monkeypatch):
    monkeypatch.setattr(store_module, "LOCK_WAIT", 0.1)
    holder = Store(find_repository(lab.root))
    with holder._locked(), pytest.raises(Refusal, match="another orchestrate is writing") as refused:
        record(store, "Codex-Worker-1")
    assert refused.value.exit_code == 5
    assert record(store, "Codex-Worker-1").commit is not None


def test_the_mode_of_a_state_file_stays(lab, store):
    (lab.root / "STATUS.md").chmod(0o600)
    store.record([RunDeployed(RUN, "phase-1", AT, "Ada", (RosterEntry("Codex-Worker-1", "T", ()),))],
                 message="", commit=False)  # fmt: skip
    assert (lab.root / "STATUS.md").stat().st_mode & 0o777 == 0o600
    assert lab.git("log", "-1", "--format=%s") == "files\n"


def test_a_first_commit_can_be_ours_in_either_kind_of_repository(lab):
    for kind in ("sha1", "sha256"):
        root = lab.root.parent / kind
        shutil.copytree(lab.root, root, ignore=shutil.ignore_patterns(".git"))
        subprocess.run(["git", "init", "-q", f"--object-format={kind}", root], check=True, env=lab.env())
        found = find_repository(root)
        assert found is not None
        store = Store(found)
        assert record(store, "Codex-Worker-1").commit is not None
        (root / "DECISIONS.md").unlink()
        done = store.write({"STATUS.md": b"# S\n"}, message="write", commit=True)
        assert done.commit is not None
