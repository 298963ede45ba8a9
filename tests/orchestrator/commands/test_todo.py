"""The TODO list is kept by command: one event each, one commit, and no byte beside the item."""

import threading
from datetime import UTC, datetime

import pytest
from support.repository import seen_in

from orchestrator.errors import StateError
from orchestrator.state import ALWAYS, documents
from orchestrator.state.canonical.status import backlog, status
from orchestrator.state.events import TodoAdded, TodoDone, TodoMoved
from orchestrator.state.facts import Facts
from orchestrator.store._replace import Files
from orchestrator.store.store import Store
from workers.git.run import find_repository

AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
START = status.initial(Facts("Demo", "Ada", AT)).encode()


def after(text, *events, path="STATUS.md", tree=None):
    """Return a file after the events, with all documents asked as the store asks them."""
    texts = {"STATUS.md": text, **(tree or {})}
    for event in events:
        for document in documents(ALWAYS):
            texts.update(document.changes(texts, event))
    return texts.get(path)


def todo(text, grade="P0"):
    return status.read(text).todo[grade]


def test_an_item_is_added_last_under_its_priority_and_no_other_line_moves():
    new = after(START, TodoAdded(("Fix the *parser*",), "P1", AT, "Ada"))
    assert todo(new, "P1")[-1] == (False, "Fix the *parser*")
    old = START.splitlines()
    assert [line for line in new.splitlines() if line != b"- [ ] Fix the *parser*"] == old


def test_an_item_that_is_open_there_already_is_not_added_again():
    event = TodoAdded(("Fix it",), "P1", AT, "Ada")
    once = after(START, event)
    assert after(once, event) == once
    done = after(once, TodoDone("Fix it", "P1", AT, "Ada"))
    assert todo(after(done, event), "P1").count((False, "Fix it")) == 1


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_an_item_that_moves_takes_its_nested_lines_along(end):
    nested = START.replace(b"### P1", b"- [ ] Big\n  - [ ] small\n\n### P1", 1).replace(b"\n", end)
    new = after(nested, TodoMoved("Big", "P0", "P2", AT, "Ada"))
    assert [text for _, text in todo(new, "P2")][-2:] == ["Big", "small"]
    assert b"- [ ] Big" + end + b"  - [ ] small" + end in new
    assert "Big" not in [text for _, text in todo(new)]
    assert after(new, TodoMoved("Big", "P0", "P2", AT, "Ada")) == new


def test_the_oldest_done_items_go_to_the_backlog():
    names = [f"Item {number}" for number in range(8)]
    text = after(START, TodoAdded(tuple(names), "P2", AT, "Ada"))
    tree = {}
    for name in names:
        event = TodoDone(name, "P2", AT, "Ada")
        tree["docs/backlog.md"] = after(text, event, path="docs/backlog.md", tree=tree)
        text = after(text, event, tree=tree)
    assert [said for done, said in todo(text, "P2") if done] == names[3:]
    kept = tree["docs/backlog.md"].decode().splitlines()
    assert [line for line in kept if line[:1] == "-"] == [
        f"- [x] Item {number} (P2, 2026-02-16)" for number in (2, 1, 0)
    ]
    assert backlog.problems(tree["docs/backlog.md"]) == []


def test_what_is_put_off_stands_in_the_backlog_beside_what_a_person_wrote_there():
    own = b"# Ideas\r\n\r\n## Some day\r\n\r\n- fly\r\n"
    event = TodoMoved("Replace the acceptance checklists below with this project's own", "P2", None, AT, "A")
    kept = after(START, event, path="docs/backlog.md", tree={"docs/backlog.md": own})
    assert kept.startswith(own)
    assert (
        b"- [ ] Replace the acceptance checklists below with this project's own (P2, 2026-02-16)\r\n" in kept
    )
    assert todo(after(START, event), "P2") == ()


BAD = {
    "empty": (b"", "the file is empty"),
    "not UTF-8": (START + b"\xff", "not UTF-8"),
    "with a NUL": (START.replace(b"Lead", b"L\0ad", 1), "NUL"),
    "two lists": (START + b"\n## TODO\n\n### P0\n", r"`TODO` is there 2 times|`P0`"),
    "no list": (START.replace(b"## TODO", b"## Work"), "`TODO` is missing"),
    "no priority": (START.replace(b"### P0", b"### Now"), "`TODO .* > P0` is missing"),
    "an open fence above": (
        START.replace(b"## Progress", b"```\n## Progress"),
        "a code fence is never closed",
    ),
    "an open fence inside": (START.replace(b"### P1", b"```\n### P1"), "a code fence is never closed"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_list_that_cannot_be_edited_is_refused_with_its_place(name):
    text, words = BAD[name]
    if name == "two lists":
        text = START.replace(b"## TODO (Prioritized)", b"## TODO") + b"\n## TODO\n\n### P0\n"
    with pytest.raises(StateError, match=words) as refused:
        after(text, TodoAdded(("x",), "P0", AT, "Ada"))
    assert refused.value.problems[0].do
    assert refused.value.problems[0].place.startswith("STATUS.md")


def test_a_closed_fence_in_the_list_is_no_hindrance():
    text = START.replace(b"### P1", b"```sh\nmake\n```\n\n### P1")
    assert todo(after(text, TodoAdded(("x",), "P0", AT, "Ada")))[-1] == (False, "x")


def test_commands_add_finish_move_and_list_with_one_commit_for_all(lab):
    before = int(lab.git("rev-list", "--count", "HEAD"))
    called = lab.call("todo", "add", "--priority", "P0", "Fix the lexer", "--json")
    assert (called.code, called.document["changed"]) == (0, ["STATUS.md"])
    assert called.document["commit"] == lab.git("rev-parse", "HEAD").strip()
    assert lab.git("show", "-s", "--format=%s").strip() == "TODO added: Fix the lexer"
    assert lab.call("todo", "move", "lexer", "--priority", "P2").code == 0
    assert lab.call("todo", "done", "LEXER", "--lead", "Grace").code == 0
    items = lab.call("todo", "list", "--json").document["items"]
    assert [one["number"] for one in items] == list(range(1, len(items) + 1))
    assert [one["text"] for one in items if one["done"]] == ["Fix the lexer"]
    assert "**Lead Agent:** Grace" in (lab.root / "STATUS.md").read_text()
    assert int(lab.git("rev-list", "--count", "HEAD")) == before + 1
    assert lab.git("status", "--porcelain") == ""
    again = lab.call("todo", "done", "lexer", "--json").document
    assert (again["changed"], again["commit"]) == ([], None)


def test_an_item_by_number_or_by_a_part_that_is_not_unique(lab):
    for item in ("Read the manual", "Read the tutorial"):
        lab.call("todo", "add", item)
    before = lab.everything()
    called = lab.call("todo", "done", "read the", "--json")
    assert called.code == 2
    assert "give its number" in called.says()[0]
    assert lab.call("todo", "done", "nowhere", "--json").code == 2
    assert lab.call("todo", "done", "99", "--json").code == 2
    assert lab.call("todo", "add", "--json").code == 2
    assert lab.call("todo", "add", "x", "--priority", "P3", "--json").code == 2
    assert lab.call("todo", "--json").code == 2
    assert lab.everything() == before
    assert lab.call("todo", "done", "1", "--json").document["item"]["text"].startswith("Run the first phase")


@pytest.mark.parametrize("word", ["x", "99", "arser"])
def test_a_part_begins_with_a_word_and_a_number_is_a_number(lab, word):
    for text in ("Fix the parser", "Read 99 files"):
        assert lab.call("todo", "add", text).code == 0
    called = lab.call("todo", "done", word, "--json")
    assert (called.code, called.document["next_action"]) == (2, "orchestrate todo list")
    assert f"no TODO item reads `{word}`" in called.says()[0]
    assert lab.call("todo", "done", "the pars").code == 0


def test_no_commit_where_the_settings_say_so(lab):
    lab.commit({"orchestrate.toml": '[git]\ncommit = "never"\n'})
    head = lab.git("rev-parse", "HEAD")
    called = lab.call("todo", "add", "x", "--json").document
    assert (called["changed"], called["commit"]) == (["STATUS.md"], None)
    assert lab.git("rev-parse", "HEAD") == head
    lab.write("orchestrate.toml", '[git]\ncommit = "sometimes"\n')
    called = lab.call("todo", "add", "y", "--json")
    assert called.code == 2
    assert "orchestrate.toml:2" in called.says()[0]


def test_a_link_out_of_the_repository_is_refused_and_one_inside_is_followed(lab, tmp_path):
    path = lab.root / "STATUS.md"
    outside = tmp_path / "elsewhere.md"
    path.rename(outside)
    path.symlink_to(outside)
    before = seen_in(tmp_path)
    called = lab.call("todo", "add", "x", "--json")
    assert called.code == 2
    assert "outside the repository" in called.says()[0]
    assert seen_in(tmp_path) == before
    path.unlink()
    (lab.root / "notes").mkdir()
    outside.rename(lab.root / "notes" / "state.md")
    path.symlink_to("notes/state.md")
    assert lab.call("todo", "add", "x").code == 0
    assert "- [ ] x" in (lab.root / "notes" / "state.md").read_text()
    assert path.is_symlink()


def test_a_hand_edit_in_between_is_kept_and_the_event_is_shown_once(lab, monkeypatch):
    store = Store(find_repository(lab.root))
    path = lab.root / "STATUS.md"
    (lab.root / "docs").mkdir(exist_ok=True)
    kept = lab.root / "docs" / "backlog.md"
    for number in range(6):
        store.record([TodoAdded((f"i{number}",), "P1", AT, "A")], families=ALWAYS, message="m", commit=False)
        if number < 5:
            store.record([TodoDone(f"i{number}", "P1", AT, "A")], families=ALWAYS, message="m", commit=False)
    real, edits = Files.move, []

    def move(self, moves):
        # A person saves both files after the check and before they are replaced, the first time only.
        if not edits:
            edits.append(1)
            kept.write_text("# Backlog\n\nby hand\n")
        return real(self, moves)

    monkeypatch.setattr(Files, "move", move)
    store.record([TodoDone("i5", "P1", AT, "A")], families=ALWAYS, message="m", commit=True)
    assert [said for done, said in status.read(path.read_bytes()).todo["P1"] if done] == [
        "i1", "i2", "i3", "i4", "i5",
    ]  # fmt: skip
    said = kept.read_text()
    assert said.startswith("# Backlog\n\nby hand\n")
    assert said.count("i0") == 1
    assert edits


def test_two_commands_at_once_both_stand_in_the_list(lab):
    answers = []
    threads = [
        threading.Thread(target=lambda n=n: answers.append(lab.call("todo", "add", f"task {n}").code))
        for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [0, 0, 0]
    text = (lab.root / "STATUS.md").read_text()
    assert [text.count(f"- [ ] task {n}\n") for n in range(3)] == [1, 1, 1]
    assert lab.git("status", "--porcelain") == ""


def test_a_commit_that_cannot_be_made_waits_and_the_next_command_makes_it(lab):
    merge = lab.root / ".git" / "MERGE_HEAD"
    merge.write_text(lab.git("rev-parse", "HEAD"))
    called = lab.call("todo", "add", "x", "--json")
    assert (called.code, called.document["ok"], called.document["commit"]) == (1, False, None)
    assert (called.document["changed"], called.document["next_action"]) == (
        ["STATUS.md"],
        "orchestrate resume",
    )
    assert "- [ ] x" in (lab.root / "STATUS.md").read_text()
    merge.unlink()
    assert lab.call("todo", "add", "y").code == 0
    assert lab.git("status", "--porcelain") == ""
    assert "TODO added: x" in lab.git("log", "-2", "--format=%B")


def test_a_worker_may_not_touch_the_list(lab):
    before = lab.everything()
    assert lab.call("todo", "add", "x", env={"ORCHESTRATE_WORKER": "Codex-Worker-1"}).code == 2
    assert lab.everything() == before


def test_a_word_that_means_several_items_counts_those_that_are_not_named(lab):
    for number in range(11):
        assert lab.call("todo", "add", f"Mend wheel {number}", "--json").code == 0
    (said,) = lab.call("todo", "done", "wheel", "--json").says()
    assert "`wheel` may be 11 of the TODO items (" in said
    assert " and 3 more); give its number" in said
