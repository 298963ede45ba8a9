"""The store changes state files as one, or not at all, and loses no other writer's text."""

import os
import shutil
import subprocess
from datetime import UTC, datetime

import pytest
from support.crash import KILLED, done_in_child, on_the_eve

from orchestrator.cli.main import main
from orchestrator.errors import Refusal, StateError
from orchestrator.state import ALWAYS
from orchestrator.state.events import Completion, PhaseMoved, RosterEntry, RunDeployed, RunIntegrated
from orchestrator.store import store as store_module
from orchestrator.store.repo import RepoBlocked
from orchestrator.store.store import Store
from workers.git.run import find_repository

AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
RUN = "20260216_142834"
STATE = ("STATUS.md", "DECISIONS.md", "AGENTS.md")


def integrated(*names):
    workers = tuple(
        Completion(name, f"Port {name}", "complete", "partial", "", (), "lead", "half of it", "no tests")
        for name in names
    )
    return RunIntegrated(RUN, "phase-1", AT, "Ada", workers, None)


@pytest.fixture
def store(lab):
    found = find_repository(lab.root)
    assert found is not None
    return Store(found)


def record(store, *names, commit=True, **more):
    return store.record(
        [integrated(*names)],
        families=ALWAYS,
        message=f"Integrated {', '.join(names)}\n",
        commit=commit,
        **more,
    )


def texts(lab):
    return {name: (lab.root / name).read_bytes() for name in STATE}


def clean(lab):
    """Hold that nothing of ours is left beside the files, and nothing waits."""
    assert not list(lab.root.rglob("*.tmp"))
    assert not list(lab.root.rglob("*kept"))
    return lab.git("status", "--porcelain")


@pytest.mark.hardening
def test_an_event_changes_its_files_and_commits_them_alone(lab, store):
    """T30: neither the stray file nor what is staged goes along."""
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


@pytest.mark.hardening
@pytest.mark.parametrize("broken", [b"", b"\0" * 500, None])
def test_no_command_takes_a_lost_status_for_an_empty_one_or_puts_an_empty_board_in_its_place(lab, broken):
    """T36: empty, all NUL, or gone beside a leftover."""
    leftover = lab.root / ".STATUS.md.orchestrate-1-1.tmp"
    (lab.root / "STATUS.md").rename(leftover)
    if broken is not None:
        (lab.root / "STATUS.md").write_bytes(broken)
    head = lab.git("rev-parse", "HEAD")
    for command in (("todo", "add", "New"), ("todo", "list"), ("status",), ("deliverable", "list")):
        called = lab.call(*command, "--json")
        assert called.code in (1, 2), called
        assert "STATUS.md" in called.says()[0]
    called = lab.call("init", "--json")
    assert (called.code, "STATUS.md" in called.document["created"]) == (0, True)
    assert (lab.root / "STATUS.md").read_text() == lab.git("show", f"{head.strip()}:STATUS.md")
    assert lab.call("todo", "add", "New").code == 0
    assert not leftover.exists()


def test_a_killed_command_leaves_nothing_beside_any_file_that_it_was_to_write(lab, store):
    (lab.root / "boards").mkdir()
    (lab.root / "STATUS.md").rename(lab.root / "boards" / "status.md")
    (lab.root / "STATUS.md").symlink_to("boards/status.md")
    lab.git("add", "-A")
    lab.git("commit", "-qm", "link")
    paths = ("STATUS.md", "docs/progress/parser-codex.md", "docs/history/phase.md", "one/two/three.md")

    def change():
        store.change(lambda _: dict.fromkeys(paths, b"# New\n"), paths=paths, message="m", commit=True)

    def die(_, step):
        if step.startswith("open intent"):
            os._exit(KILLED)

    assert done_in_child(change, meddle=die).killed
    left = [path.parent.relative_to(lab.root).as_posix() for path in lab.root.rglob("*.tmp")]
    assert sorted(left) == ["boards", "docs/history", "docs/progress", "one/two"]
    # Whoever comes next need not know where the link led.
    (lab.root / "STATUS.md").unlink()
    (lab.root / "STATUS.md").write_bytes((lab.root / "boards" / "status.md").read_bytes())
    assert record(store, "Codex-Worker-1").commit is not None
    assert not list(lab.root.rglob("*.tmp"))


def test_commands_that_read_see_what_a_killed_one_had_decided_and_write_nothing(lab):
    def die(_, step):
        if step.startswith("replace .STATUS.md"):
            os._exit(KILLED)

    outcome = done_in_child(lambda: main(["todo", "add", "Decided"]), env=lab.env(), cwd=lab.root, meddle=die)
    assert outcome.killed
    before = lab.everything()
    assert b"Decided" not in (lab.root / "STATUS.md").read_bytes()
    assert "Decided" in lab.call("status", "--json").document["todo"]["P1"]
    assert "Decided" in lab.call("todo", "list").out
    assert lab.everything() == before
    assert lab.call("todo", "add", "Next").code == 0
    text = (lab.root / "STATUS.md").read_text()
    assert (text.count("Decided"), text.count("Next\n")) == (1, 1)


@pytest.mark.parametrize("reads", [("status",), ("todo", "list"), ("resume",), ("report",)])
def test_a_status_that_leads_out_of_the_repository_is_not_read(lab, tmp_path, reads):
    away = tmp_path / "away.md"
    (lab.root / "STATUS.md").rename(away)
    (lab.root / "STATUS.md").symlink_to(away)
    told = lab.call(*reads, "--json")
    assert told.code in (1, 2)
    assert any("outside the repository; make it a file" in line for line in told.says())


def test_init_keeps_what_a_hand_saves_while_it_waits_for_its_turn(lab):
    lab.commit({"AGENTS.md": "# Rules of ours\n"})
    typed = []

    def hand(_, step):
        if step.startswith("open store.lock") and not typed:
            typed.append((lab.root / "AGENTS.md").write_text("# Rules of ours\n\nTyped just now.\n"))

    outcome = done_in_child(lambda: main(["init", "--json"]), env=lab.env(), cwd=lab.root, meddle=hand)
    assert outcome.code == 0, outcome
    text = (lab.root / "AGENTS.md").read_text()
    assert text.startswith("# Rules of ours\n\nTyped just now.\n")
    assert "## Approval Gates" in text
    assert lab.git("status", "--porcelain") == ""


def test_starting_a_phase_puts_nothing_on_the_backlog_that_stays_on_the_list(lab, store):
    on_the_eve(lab)
    event = PhaseMoved(None, "Phase 2: Core", "phase-2", None, AT, "Ada")
    assert "docs/backlog.md" not in store.record([event], families=ALWAYS, message="m", commit=True).changed
    assert "Done with" in (lab.root / "STATUS.md").read_text()


def test_a_folder_in_place_of_a_state_file_is_a_stop_in_plain_words(lab, store):
    (lab.root / "STATUS.md").unlink()
    (lab.root / "STATUS.md").mkdir()
    with pytest.raises(StateError, match=r"STATUS\.md: cannot be read: it is a folder"):
        record(store, "Codex-Worker-1")


def test_the_files_of_one_branch_are_not_written_on_another(lab, store):
    lab.git("switch", "-qc", "side")
    before = texts(lab)
    with pytest.raises(RepoBlocked, match="switch back to that branch"):
        record(store, "Codex-Worker-1", branch="refs/heads/main")
    assert (texts(lab), store.pending()) == (before, [])
    lab.git("switch", "-q", "main")
    assert record(store, "Codex-Worker-1", branch="refs/heads/main").commit is not None
    assert lab.git("rev-list", "--count", "side..main").strip() == "1"
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
                 families=ALWAYS, message="", commit=False)  # fmt: skip
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
