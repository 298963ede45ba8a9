"""A state file that goes: as part of a change, after a kill at any moment, and while a person saves it."""

import pytest

from orchestrator.store import _replace
from orchestrator.store.intent import decided
from orchestrator.store.store import Store
from workers.git.run import find_repository

OLD, NOTES = "docs/history/old.md", "docs/history/notes.md"


class Killed(BaseException):
    """Stands for a kill: nothing of ours catches it."""


@pytest.fixture
def store(lab):
    lab.commit({OLD: "old\n"})
    return Store(find_repository(lab.root))


def removed(store):
    """Remove one file and write another, as one change."""
    return store.change(
        lambda _: {OLD: None, NOTES: b"gone\n"}, paths=(OLD, NOTES), message="Remove\n", commit=True
    )


def is_done(lab):
    """Check that the whole change is there, and nothing beside it."""
    assert not (lab.root / OLD).exists()
    assert (lab.root / NOTES).read_text() == "gone\n"
    assert lab.git("status", "--porcelain") == ""
    assert set(lab.git("show", "--format=", "--name-status", "HEAD").split("\n")) >= {
        f"D\t{OLD}",
        f"A\t{NOTES}",
    }


def test_a_file_goes_with_the_change_and_its_commit(lab, store):
    assert removed(store).changed == (NOTES, OLD)
    is_done(lab)
    assert removed(store).changed == ()


@pytest.mark.parametrize("step", ["before", "taken away", "after"])
def test_after_a_kill_the_next_command_completes_it(lab, store, monkeypatch, step):
    real = _replace.Files._removed

    def killed(self, move):
        if step == "taken away":
            (lab.root / move.target).replace(lab.root / move.temporary)
        elif step == "after":
            real(self, move)
        raise Killed

    monkeypatch.setattr(_replace.Files, "_removed", killed)
    monkeypatch.setattr(Store, "_sweep", lambda _: None)  # a killed process sweeps nothing
    with pytest.raises(Killed):
        removed(store)
    monkeypatch.undo()
    assert decided(find_repository(lab.root), "intent").exists()
    assert Store(find_repository(lab.root)).finish() == []
    is_done(lab)


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_a_person_has_saved_since_stays(lab, store, monkeypatch, is_killed):
    real = _replace.Files._removed

    def saved(self, move):
        (lab.root / OLD).write_text("mine\n")
        monkeypatch.undo()
        if is_killed:
            raise Killed
        return real(self, move)

    monkeypatch.setattr(_replace.Files, "_removed", saved)
    change = lambda tree: {OLD: None if tree[OLD] == b"old\n" else tree[OLD], NOTES: b"gone\n"}  # noqa: E731

    def changing():
        return store.change(change, paths=(OLD, NOTES), message="Remove\n", commit=True)

    if is_killed:
        with pytest.raises(Killed):
            changing()
        Store(find_repository(lab.root)).finish()
    else:
        changing()
    assert (lab.root / OLD).read_text() == "mine\n"
    assert (lab.root / NOTES).read_text() == "gone\n"
    assert [path.name for path in (lab.root / "docs/history").iterdir() if "orchestrate" in path.name] == []


def test_a_text_that_was_taken_away_as_it_was_saved_goes_back(lab, store):
    (lab.root / ".git/orchestrate").mkdir()
    (move,) = store._files.write_beside({OLD: None}, {OLD: b"old\n"})
    (lab.root / OLD).replace(lab.root / move.temporary)
    (lab.root / move.temporary).write_text("mine\n")
    assert store._files.move([move]) == [move]
    assert (lab.root / OLD).read_text() == "mine\n"
