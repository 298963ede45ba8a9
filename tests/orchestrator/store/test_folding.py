"""State commits of a lead in a row fold into one, as long as it is the lead's alone."""

import pytest
from support.repository import shell


def add(lab, text):
    """Put an item on the list, and return the document."""
    called = lab.call("todo", "add", text, "--json")
    assert called.code == 0, called
    return called.document


def subjects(lab):
    return lab.git("log", "--format=%s").splitlines()


def test_changes_in_a_row_are_one_commit_that_lists_them(lab):
    base = subjects(lab)
    first = add(lab, "One")["commit"]
    add(lab, "Two")
    assert lab.call("deliverable", "start", "1").code == 0
    last = add(lab, "Three")["commit"]
    assert subjects(lab) == ["TODO added: Three (and 3 changes before it)", *base]
    assert lab.git("rev-parse", "HEAD").strip() == last != first
    body = lab.git("log", "-1", "--format=%B")
    for subject in (
        "TODO added: One",
        "TODO added: Two",
        "Deliverable started: Code review",
        "TODO added: Three",
    ):
        assert f"\n\n{subject}\n\n" in body, body
    assert lab.git("status", "--porcelain") == ""
    assert lab.git("show", "--format=", "--name-only", "HEAD").split() == ["STATUS.md"]


def test_each_decision_keeps_its_commit_so_that_an_edit_of_the_log_can_be_seen(lab):
    base = subjects(lab)
    for title in ("Tabs", "Spaces"):
        assert lab.call("decide", title, "--context", "c", "--decision", "d").code == 0
        add(lab, title)
    assert subjects(lab) == [
        "TODO added: Spaces",
        "Decided: Spaces",
        "TODO added: Tabs",
        "Decided: Tabs",
        *base,
    ]


def push(lab):
    lab.git("init", "-q", "--bare", str(lab.home / "remote"))
    lab.git("remote", "add", "origin", str(lab.home / "remote"))
    lab.git("push", "-q", "origin", "main")


def push_and_pack(lab):
    push(lab)
    lab.git("pack-refs", "--all")


def fetch_a_later_one(lab):
    """Have another clone push a commit on top, which is then fetched."""
    push(lab)
    lab.git("clone", "-q", str(lab.home / "remote"), str(lab.home / "other"))
    other = ("-C", str(lab.home / "other"), "-c", "user.name=o", "-c", "user.email=o@o")
    lab.git(*other, "commit", "-q", "--allow-empty", "-m", "theirs")
    lab.git(*other, "push", "-q")
    lab.git("fetch", "-q")


def tag(lab):
    lab.git("tag", "-m", "x", "v1")


def branch(lab):
    lab.git("branch", "side")


def worktree(lab):
    lab.git("worktree", "add", "-q", "--detach", str(lab.home / "tree"))


def note(lab):
    lab.git("notes", "add", "-m", "seen")


def stash(lab):
    (lab.root / "src/app.py").write_text("mine\n")
    lab.git("stash")


def commit_of_the_users(lab):
    lab.commit({"src/app.py": "theirs\n"})


def amend(lab):
    lab.git("commit", "-q", "--amend", "-m", "Mine now")


def name_in_a_file(lab):
    status = lab.root / "STATUS.md"
    commit = lab.git("rev-parse", "--short=10", "HEAD").strip()
    status.write_text(status.read_text() + f"\nTested at {commit}\n")


def run(lab):
    lab.templates(command_1=shell("true"))
    lab.git("reset", "-q", "--soft", "HEAD~1")  # templates need not be committed
    assert lab.call("run", "phase-1", "--json").code == 0


@pytest.mark.parametrize(
    "act", [push, push_and_pack, fetch_a_later_one, tag, branch, worktree, note, stash, commit_of_the_users,
            amend, name_in_a_file, run],
)  # fmt: skip
def test_a_commit_that_somebody_else_may_have_stays_as_it_is(lab, act):
    add(lab, "One")
    act(lab)
    before = lab.git("rev-parse", "HEAD").strip()
    add(lab, "Two")
    assert lab.git("rev-parse", "HEAD~1").strip() == before
    assert subjects(lab)[0] == "TODO added: Two"


def test_what_was_undone_in_a_row_is_told_and_changes_nothing(lab):
    before = (lab.root / "STATUS.md").read_bytes()
    add(lab, "One")
    status = lab.root / "STATUS.md"
    status.write_bytes(before)
    add(lab, "Two")
    assert subjects(lab)[0] == "TODO added: Two (and 1 change before it)"
    assert "One" not in lab.git("show", "HEAD:STATUS.md")


def test_a_commit_that_was_noted_and_not_made_is_made_once(lab):
    """A command that is killed between its commit and its end comes again with the same message."""
    add(lab, "One")
    note = (lab.root / ".git/orchestrate/last-state-commit").read_text()
    head = lab.git("rev-parse", "HEAD").strip()
    add(lab, "Two")
    lab.git("update-ref", "HEAD", head)  # as before the move of the branch
    add(lab, "Three")
    assert [subjects(lab)[0], subjects(lab)[1]] == ["TODO added: Three", "TODO added: One"]
    assert "Two" in lab.git("show", "HEAD:STATUS.md")
    assert note != (lab.root / ".git/orchestrate/last-state-commit").read_text()
