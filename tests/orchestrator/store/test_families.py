"""State files of families in the store: damaged, ignored and uncommitted ones."""

import errno
from datetime import UTC, datetime

import pytest
from support.families import COPY, FAMILY, turn_on

from orchestrator.errors import Refusal, StateError
from orchestrator.report.situation import Situation
from orchestrator.state import ALWAYS
from orchestrator.state.events import Decided, Decision, RosterEntry, RunDeployed, TodoAdded
from orchestrator.store import _replace
from orchestrator.store.store import Store
from orchestrator.store.uncommitted import written_by_runs
from workers.git.run import find_repository

AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
RUN = "20260216_142834"
ON = (*ALWAYS, FAMILY)
DEPLOYED = RunDeployed(RUN, "phase-1", AT, "Ada", (RosterEntry("Codex-Worker-1", "T", ()),))
NOTES = "ai_memory/phase-1/notes.md"
LEADS = "ai_memory/lead/notes.md"


@pytest.fixture(autouse=True)
def family(lab, monkeypatch):
    turn_on(monkeypatch)
    lab.write("orchestrate.toml", f'families = ["{FAMILY}"]\n')
    lab.write(COPY, "# All\n")
    lab.git("add", COPY, "orchestrate.toml")
    lab.git("commit", "--quiet", "-m", "family")


@pytest.fixture
def store(lab):
    return Store(find_repository(lab.root))


def by_run(store, event=DEPLOYED):
    return store.record([event], families=ON, message="", commit=False, is_run=True)


def by_lead(store, event=TodoAdded(("x",), "P1", AT, "Ada")):  # noqa: B008 - a value
    return store.record([event], families=ON, message="By the lead\n", commit=True)


def decided(store):
    return by_lead(store, Decided((Decision("One", "why", "that"),), AT, "Ada"))


def committed(lab):
    return set(lab.git("show", "--format=", "--name-only", "HEAD").split())


def situation(lab):
    return Situation(find_repository(lab.root), AT)


def called_changed(lab):
    """Return the files of the family that count as changed; the roster has a run that has no folder here."""
    return [path for path in situation(lab).changed if path != "STATUS.md"]


def test_a_lead_s_command_commits_the_files_of_a_family_with_the_others(lab, store):
    done = by_lead(store)
    assert done.problems == ()
    assert committed(lab) == {"STATUS.md", LEADS, COPY} == set(done.changed)
    assert (lab.root / LEADS).read_text() == "# Notes\n\n- one\n"


def test_what_a_run_has_written_is_taken_along_by_the_next_commit_of_state(lab, store):
    head = lab.git("rev-parse", "HEAD")
    assert set(by_run(store).changed) == {"STATUS.md", NOTES, COPY}
    assert lab.git("rev-parse", "HEAD") == head
    decided(store)
    assert committed(lab) == {"DECISIONS.md", "STATUS.md", NOTES, COPY}
    assert lab.git("status", "--porcelain") == ""
    assert written_by_runs(find_repository(lab.root)) == {}


def test_what_a_person_has_edited_since_is_left_to_the_person(lab, store):
    by_run(store)
    (lab.root / NOTES).write_text("# Notes\n\n- one\n- mine\n")
    decided(store)
    assert committed(lab) == {"DECISIONS.md", "STATUS.md", COPY}
    assert lab.git("status", "--porcelain", "-uall") == f"?? {NOTES}\n"
    assert called_changed(lab) == [NOTES]


def test_what_only_runs_have_changed_is_never_called_uncommitted(lab, store):
    by_run(store)
    by_run(store, DEPLOYED._replace(phase="phase-2"))
    found = situation(lab)
    assert {NOTES, COPY} < set(found.uncommitted)
    assert called_changed(lab) == []
    assert [name for name in found.not_committed if name.startswith("ai_memory")] == []
    lab.write("ai_memory/phase-1/other.txt", "mine\n")
    assert "ai_memory/phase-1/" in situation(lab).not_committed


def test_what_a_person_has_changed_before_or_between_stays_a_change(lab, store):
    (lab.root / COPY).write_text("# All\nmine\n")
    by_run(store)
    assert called_changed(lab) == [COPY]
    by_lead(store)
    by_run(store)
    assert called_changed(lab) == []
    (lab.root / COPY).write_text("# All\nmine again\n")
    by_run(store)
    assert called_changed(lab) == [COPY]


def test_a_file_that_git_ignores_is_written_and_never_committed(lab, store):
    lab.git("rm", "--quiet", "--cached", COPY)
    lab.write(".gitignore", "ai_memory/\n")
    lab.git("add", ".gitignore")
    lab.git("commit", "--quiet", "-m", "ignored")
    for number in (1, 2):
        done = by_lead(store, TodoAdded((f"x{number}",), "P1", AT, "Ada"))
        assert done.problems == ()
        assert committed(lab) == {"STATUS.md"}
    assert (lab.root / LEADS).read_text() == "# Notes\n\n- one\n- one more\n"
    by_run(store)
    assert decided(store).problems == ()
    assert committed(lab) == {"DECISIONS.md", "STATUS.md"}
    assert (lab.root / NOTES).exists()
    assert lab.git("status", "--porcelain") == ""


def damage(lab, path, how):
    target = lab.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    if how == "a folder":
        target.mkdir()
    elif how == "below a file":
        target.parent.rmdir()
        target.parent.write_text("")
    elif how == "a link out":
        target.symlink_to("/etc/hostname")
    else:
        target.write_bytes(b"\xff\xfe")


DAMAGES = ("a folder", "below a file", "a link out", "not UTF-8")


@pytest.mark.parametrize("how", DAMAGES)
def test_a_lead_s_command_is_refused_where_it_needs_a_damaged_file_and_nothing_is_written(lab, store, how):
    damage(lab, LEADS, how)
    before = (lab.root / "STATUS.md").read_bytes(), (lab.root / COPY).read_bytes()
    with pytest.raises((StateError, Refusal)) as refused:
        by_lead(store)
    assert refused.value.problems[0].place.startswith(LEADS)
    assert ((lab.root / "STATUS.md").read_bytes(), (lab.root / COPY).read_bytes()) == before
    assert decided(store).problems == ()  # this one does not need it


@pytest.mark.parametrize("how", DAMAGES)
def test_a_run_leaves_a_damaged_file_as_it_is_and_says_so(lab, store, how):
    damage(lab, NOTES, how)
    done = by_run(store)
    assert "STATUS.md" in done.changed
    assert NOTES not in done.changed
    assert "Codex-Worker-1" in (lab.root / "STATUS.md").read_text()
    (problem,) = set(done.problems)
    assert problem.place.startswith(NOTES)
    assert problem.severity == "warning"
    assert {index for index, _ in done.left} == {0}


def test_a_run_goes_on_without_a_file_that_cannot_be_written(lab, store, monkeypatch):
    real = _replace.write_over

    def write_over(path, *given, **named):
        if path.parent == lab.root / "ai_memory/phase-1":
            raise OSError(errno.EACCES, "Permission denied", str(path))
        return real(path, *given, **named)

    monkeypatch.setattr(_replace, "write_over", write_over)
    done = by_run(store)
    assert done.changed == ("STATUS.md",)  # what is copied from it waits as well
    assert [(one.place, one.what) for one in done.problems] == [
        (NOTES, "cannot be written: permission denied"),
    ]
    assert sorted(path.name for path in (lab.root / "ai_memory").rglob("*")) == ["all.md", "phase-1"]
    with pytest.raises(OSError, match="Permission denied"):
        store.record([DEPLOYED], families=ON, message="m", commit=True)


def test_a_family_that_is_off_costs_nothing(lab, store):
    damage(lab, NOTES, "a folder")
    done = store.record([DEPLOYED], families=ALWAYS, message="", commit=False, is_run=True)
    assert (done.changed, done.problems) == (("STATUS.md",), ())
