"""State files as people leave them: conflicts, notes beside values, long items, logs in any order."""

import re

import pytest
from support.repository import shell

pytestmark = pytest.mark.hardening

STATE = ("STATUS.md", "DECISIONS.md", "AGENTS.md")
CONFLICT = "<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> side\n"
WRITES = (
    ("todo", "add", "one"),
    ("deliverable", "start", "1"),
    ("decide", "x", "--context", "a", "--decision", "b"),
    ("approve", "technology-database", "--by", "Ada"),
    ("handoff",),
)
RUNS = (("run", "phase-1"), ("deploy", "phase-1"))
BELOW = {
    "a paragraph": "\n  More about it,\n  on two lines.\n",
    "code": "\n  ```sh\n  make it\n\n      indented\n  ```\n",
    "a quote": "\n  > said so\n  > twice\n",
}


def text_of(lab, path):
    return (lab.root / path).read_bytes().decode()


def append(lab, path, text):
    (lab.root / path).write_bytes((lab.root / path).read_bytes() + text.encode())


# Conflicts


def refuses(lab, path, says):
    """Check that all that would write refuses, and that nothing changes."""
    before = {name: text_of(lab, name) for name in STATE}
    head = lab.git("rev-parse", "HEAD")
    for words in (*WRITES, *RUNS):
        called = lab.call(*words, "--json")
        assert called.code == 2, (words, called)
        told = [one for one in called.says() if one.startswith(path)]
        assert told, (words, called)
        assert says in told[0]
        assert "merge" in told[0]
    checked = lab.call("validate", "--json")
    assert checked.code == 1
    assert any(one.startswith(path) and says in one for one in checked.says())
    for words in (("status",), ("resume",)):
        shown = lab.call(*words, "--json")
        # `status` asks no git: it sees markers, and that a merge is in progress.
        if words[0] == "resume" or says == "conflict":
            assert any(one.startswith(path) and says in one for one in shown.says()), shown
        elif (lab.root / ".git/MERGE_HEAD").exists():
            assert any("a merge is in progress" in one for one in shown.says()), shown
        assert shown.document["phase"], "what can be read is shown"
    assert {name: text_of(lab, name) for name in STATE} == before
    assert lab.git("rev-parse", "HEAD") == head
    assert not list(lab.root.glob(".taskers/runs/2*"))


@pytest.mark.parametrize("path", STATE)
def test_markers_of_a_conflict_are_left_to_whoever_merges(lab, path):
    """T71: a merge left them around one line, and was committed."""
    lab.templates(command_1=shell("true"))
    append(lab, path, f"\n{CONFLICT}")
    line = text_of(lab, path).split("\n").index("<<<<<<< HEAD") + 1
    refuses(lab, f"{path}:{line}", "conflict")
    lab.git("commit", "-qam", "with markers")
    refuses(lab, f"{path}:{line}", "conflict")


def conflicting(lab, path):
    """Have two branches change one line of a file."""
    lab.templates(command_1=shell("true"))
    append(lab, path, "\nA line.\n")
    lab.git("commit", "-qam", "base")
    for branch, word in (("side", "theirs"), ("main", "ours")):
        if branch == "side":
            lab.git("switch", "-qc", "side")
        else:
            lab.git("switch", "-q", "main")
        text = text_of(lab, path)
        (lab.root / path).write_text(text.replace("\nA line.\n", f"\nA line of {word}.\n"))
        lab.git("commit", "-qam", word)


@pytest.mark.parametrize("path", STATE)
def test_an_entry_that_is_not_merged_is_left_to_whoever_merges(lab, path):
    """T71: without markers too, as where an editor took one side and `git add` is still to be done."""
    conflicting(lab, path)
    lab.git("merge", "-q", "side", check=False)
    assert lab.git("ls-files", "-u", "--", path)
    taken = re.sub(r"<<<<<<< .*?\n(.*?)=======\n.*?>>>>>>> .*?\n", r"\1", text_of(lab, path), flags=re.DOTALL)
    (lab.root / path).write_text(taken)
    refuses(lab, path, "merge")
    assert lab.git("ls-files", "-u", "--", path)


def test_a_stash_that_met_other_work_is_a_conflict_too(lab):
    """T71: there no merge is in progress."""
    lab.templates(command_1=shell("true"))
    original = text_of(lab, "STATUS.md")
    (lab.root / "STATUS.md").write_text(original.replace("## Progress", "## Progress (mine)"))
    lab.git("stash", "-q")
    (lab.root / "STATUS.md").write_text(original.replace("## Progress", "## Progress (theirs)"))
    lab.git("commit", "-qam", "theirs")
    lab.git("stash", "pop", check=False)
    (lab.root / "STATUS.md").write_text(original)
    assert lab.git("ls-files", "-u")
    refuses(lab, "STATUS.md", "merge")


def test_an_example_of_markers_is_no_conflict(lab):
    """T71: in code they are text."""
    for path in STATE:
        append(lab, path, f"\n## About merges\n\n```\n{CONFLICT}```\n")
    lab.git("commit", "-qam", "examples")
    for words in WRITES[:3]:
        assert lab.call(*words, "--json").code == 0, words
    assert all("conflict" not in one for one in lab.call("validate", "--json").says())


# Values with notes


def test_words_behind_a_date_or_a_name_stay(lab):
    """T74: six of 428 real files have such lines."""
    path = lab.root / "STATUS.md"
    text = re.sub(
        r"\*\*Last Updated:\*\* .*", "**Last Updated:** 2026-02-14, after the parser moved (notes)",
        path.read_text(),
    )  # fmt: skip
    path.write_text(re.sub(r"\*\*Lead Agent:\*\* .*", "**Lead Agent:** Ada - back on Monday", text))
    lab.git("commit", "-qam", "notes")
    told = [one for one in lab.call("validate", "--json").says() if "Last Updated" in one]
    assert ["more than a date" in one for one in told] == [True]
    for lead in ("Ada", "Bob", "Bob"):
        assert lab.call("todo", "add", f"for {lead}", env={"ORCHESTRATE_LEAD": lead}).code == 0
        assert "after the parser moved (notes)" in path.read_text()
        assert path.read_text().count("back on Monday") == 1
        assert re.search(
            r"^\*\*Last Updated:\*\* 20\d\d-\d\d-\d\d \d\d:\d\d, after", path.read_text(), re.MULTILINE
        )
        assert re.search(rf"(?m)^\*\*Lead Agent:\*\* {lead}\b", path.read_text())


# Items


def with_items(lab, *items):
    """Put items under P1."""
    path = lab.root / "STATUS.md"
    text = path.read_text()
    at = text.index("\n", text.index("### P1")) + 1
    path.write_text(text[:at] + "\n" + "".join(items) + text[at:])
    lab.git("commit", "-qam", "items")


def is_kept(lab, below):
    """Check that each line below an item stands in the backlog, in its order."""
    found = [line.strip() for line in text_of(lab, "docs/backlog.md").split("\n")]
    wanted = [line.strip() for line in below.split("\n") if line.strip()]
    start = found.index(wanted[0])
    assert [line for line in found[start:] if line][: len(wanted)] == wanted


@pytest.mark.parametrize("kind", BELOW)
@pytest.mark.parametrize("how", ["todo done", "todo move", "deliverable done", "archive"])
def test_what_belongs_to_an_item_goes_with_it(lab, kind, how):
    """T75: to the backlog, every line of it."""
    is_done = how != "todo move"
    with_items(
        lab, f"- [{'x' if is_done else ' '}] The one\n{BELOW[kind]}\n",
        *(f"- [{'x' if is_done else ' '}] Other {number}\n" for number in range(6)),
    )  # fmt: skip
    commands = {
        "todo done": [("todo", "add", "Last"), ("todo", "done", "Last")],
        "todo move": [("todo", "move", "The one", "--backlog")],
        "deliverable done": [("deliverable", "done", "1", "--no-verify")],
        "archive": [("archive",)],
    }[how]
    for words in commands:
        called = lab.call(*words, "--json")
        assert called.code == 0, called
    assert "The one" not in text_of(lab, "STATUS.md")
    is_kept(lab, BELOW[kind])


def test_what_belongs_to_an_item_goes_with_it_to_another_priority(lab):
    """T75: the same within STATUS.md."""
    with_items(lab, f"- [ ] The one\n{BELOW['code']}\n", "- [ ] Another\n")
    assert lab.call("todo", "move", "The one", "--priority", "P0", "--json").code == 0
    text = text_of(lab, "STATUS.md")
    assert text.index("### P0") < text.index("The one") < text.index("### P1")
    assert f"- [ ] The one\n{BELOW['code']}" in text


# Logs


def log_of(lab, entries):
    """Replace the log by one with these entries."""
    (lab.root / "DECISIONS.md").write_text(
        "# Architectural Decision Log\n\n**Project:** p\n**Started:** 2020-01-01\n\n"
        + "\n".join(entries)
        + "\n---\n\n**Decision Log End**\n"
    )
    lab.git("commit", "-qam", "log")


def dated(number, mark="##"):
    """Return an entry; a higher number is newer."""
    day = f"{2020 + number // 300}-{1 + number // 25 % 12:02}-{1 + number % 25:02}"
    return f"{mark} {day}: Entry {number}\n\nBecause of {number}.\n"


@pytest.mark.parametrize("mark", ["##", "###", "####", "#####"])
@pytest.mark.parametrize("order", ["newest first", "oldest first"])
def test_the_oldest_entries_of_a_log_go_whatever_its_order_and_depth(lab, mark, order):
    """T76: over a hundred; the fifty newest stay."""
    above = {"##": [], "###": ["## Decisions\n"], "####": ["## Decisions\n", "### All\n"]}
    numbers = range(110) if order == "oldest first" else range(109, -1, -1)
    heads = [*above.get(mark, ["## Decisions\n", "### All\n", "#### Of us\n"])]
    log_of(lab, [*heads, *(dated(number, mark) for number in numbers)])
    called = lab.call("archive", "--json")
    assert called.code == 0, called
    kept = re.findall(r"Entry (\d+)", text_of(lab, "DECISIONS.md"))
    assert sorted(map(int, kept)) == [*range(60, 110)]
    assert [*map(int, kept)] == [number for number in numbers if number >= 60]
    gone = "".join(path.read_text() for path in (lab.root / "docs/decisions").glob("*.md"))
    for number in range(60):
        assert f"Entry {number}\n\nBecause of {number}." in gone
    assert not re.search("entry `[^`]*Entry [^`]*` was", lab.call("validate", "--json").out)


def test_an_entry_with_a_heading_of_its_own_level_stays_whole(lab):
    """T76: it was cut in two, and its second half given to another."""
    entries = [dated(number) for number in range(109, -1, -1)]
    entries[-3] += "\n## Notes without a date\n\nThey belong to 2.\n"
    log_of(lab, entries)
    assert lab.call("archive", "--json").code == 0
    gone = text_of(lab, "docs/decisions/2020.md")
    assert "Because of 2.\n\n## Notes without a date\n\nThey belong to 2.\n" in gone
    assert "Notes without a date" not in text_of(lab, "DECISIONS.md")
    assert not re.search("entry `[^`]*Entry [^`]*` was", lab.call("validate", "--json").out)


def test_a_log_whose_entries_cannot_be_told_apart_is_refused_with_a_line(lab):
    """T76: nothing of it is moved."""
    entries = [dated(number) for number in range(109, -1, -1)]
    entries[-1] += "\n```\nnever closed\n"
    log_of(lab, entries)
    before = text_of(lab, "DECISIONS.md")
    called = lab.call("archive", "--json")
    assert called.code == 2, called
    assert re.match(r"DECISIONS.md:\d+: ", called.says()[0])
    assert text_of(lab, "DECISIONS.md") == before


# Refused without need


def test_two_headings_that_begin_alike_are_told_apart_by_what_they_hold(lab):
    """T77: the list is the one with the priorities."""
    path = lab.root / "STATUS.md"
    text = path.read_text().replace("## TODO", "## Todo (open)")
    path.write_text(text + "\n## Todo ideas for later\n\n- Some day\n")
    lab.git("commit", "-qam", "two")
    assert lab.call("todo", "add", "one", "--json").code == 0
    after = path.read_text()
    assert after.index("### P1") < after.index("- [ ] one") < after.index("Todo ideas")
    assert lab.call("todo", "done", "one", "--json").code == 0
    assert lab.call("todo", "list", "--json").document["items"][-1]["text"]


def test_an_item_that_was_done_can_be_added_and_done_again(lab):
    """T77: the open one is meant."""
    for words in (("add", "one"), ("done", "one")) * 3:
        called = lab.call("todo", *words, "--json")
        assert called.code == 0, called
    assert text_of(lab, "STATUS.md").count("- [x] one") == 3
    assert lab.call("todo", "add", "one", "--json").code == 0
    assert lab.call("todo", "move", "one", "--backlog", "--json").code == 0
    assert text_of(lab, "STATUS.md").count("one\n") == 3
    assert lab.call("todo", "add", "one", "--priority", "P0", "--json").code == 0
    assert lab.call("todo", "move", "one", "--priority", "P1", "--json").code == 0
    text = text_of(lab, "STATUS.md")
    assert text.index("### P1") < text.index("- [ ] one") < text.index("### P2")


def test_a_fault_of_status_md_does_not_stop_a_decision(lab):
    """T77: it is not touched."""
    path = lab.root / "STATUS.md"
    path.write_text(path.read_text().replace("## Worker Roster", "## Somebody"))
    lab.git("commit", "-qam", "fault")
    called = lab.call("decide", "x", "--context", "a", "--decision", "b", "--json")
    assert called.code == 0, called
    path.write_text("")
    called = lab.call("decide", "y", "--context", "a", "--decision", "b", "--json")
    assert called.code == 0, called
    assert path.read_text() == ""


def test_an_entry_of_an_undated_log_can_be_superseded(lab):
    """T77: `--supersedes ADR-001`."""
    log_of(lab, ["## ADR-001: Use X\n\nBecause.\n", "## ADR-002: Use Y\n\nBecause.\n"])
    words = ("decide", "Use Z", "--context", "a", "--decision", "b", "--supersedes", "ADR-001", "--json")
    called = lab.call(*words)
    assert called.code == 0, called
    assert "**Supersedes:** ADR-001: Use X" in text_of(lab, "DECISIONS.md")


def test_docs_may_be_a_link_inside_the_repository(lab):
    """T77: git knows the files by where they are."""
    lab.commit({"documentation/readme.txt": "x\n"})
    (lab.root / "docs").symlink_to("documentation")
    lab.git("add", "docs")
    lab.git("commit", "-qm", "link")
    for words in (("init",), ("run", "phase-1"), ("todo", "add", "one"), ("todo", "move", "one", "--backlog"),
                  ("handoff",), ("plan", "phase-1"), ("validate", "docs/backlog.md")):  # fmt: skip
        if words[0] == "run":
            for shipped in (lab.root / "documentation/worker-ticket-templates").glob("*-*.md"):
                shipped.unlink()
            lab.commit({"documentation/worker-ticket-templates/command-1.md": shell("true")})
        called = lab.call(*words, "--json")
        assert called.code == 0, (words, called)
        assert lab.git("status", "--porcelain") == "", words
    assert "one" in lab.git("show", "HEAD:documentation/backlog.md")


@pytest.mark.parametrize("pattern", ["*.md", "docs/", "orchestrate.toml", "/docs/worker-ticket-templates/"])
def test_what_git_ignores_is_written_and_said_and_never_committed(lab, pattern):
    """T77: `init` says it before it is met."""
    lab.git("rm", "-q", *STATE)
    lab.commit({".gitignore": f"{pattern}\n"})
    called = lab.call("init", "--json")
    assert called.code == 0, called
    assert any("ignore" in one for one in called.says()), called.says()
    assert lab.git("ls-files", "-i", "-c", "--exclude-standard") == ""
    assert lab.call("todo", "add", "one", "--json").code == 0
    assert "- [ ] one" in text_of(lab, "STATUS.md")
    again = lab.call("todo", "add", "two", "--json")
    assert again.code == 0, again
    assert lab.git("ls-files", "-i", "-c", "--exclude-standard") == ""
    assert lab.git("status", "--porcelain") == ""


def test_a_run_that_ends_in_a_merge_keeps_its_work_until_the_merge_is_finished(lab):
    """T71: the conflict came while the workers ran."""
    path = "STATUS.md"
    lab.templates(command_1=shell("echo x > src/new.txt", mode="write", owns=["src/**"]))
    run = lab.call("deploy", "phase-1", "--json").document["run"]
    lab.git("add", "-A")
    lab.git("commit", "-qm", "roster")
    whole = text_of(lab, path)
    append(lab, path, f"\n{CONFLICT}")
    lab.git("commit", "-qam", "with markers")
    spoiled = text_of(lab, path)
    called = lab.call("integrate", "last", "--accept", "Command-Worker-1", "--reason", "fine", "--json")
    assert called.code in (1, 2), called
    assert any(one.startswith(path) and "conflict" in one for one in called.says()), called
    assert text_of(lab, path) == spoiled
    assert lab.git("log", "--format=%s", "-1").strip() == "with markers"
    (lab.root / path).write_text(whole)
    lab.git("commit", "-qam", "merged")
    assert lab.call("status", "--json").document["what"].endswith(f"then: orchestrate integrate {run}")
    called = lab.call("integrate", run, "--json")
    assert called.code == 0, called
    assert lab.git("show", "HEAD:src/new.txt") == "x\n"
    assert "Command-Worker-1" in lab.git("show", "HEAD:STATUS.md")
    assert lab.git("status", "--porcelain") == ""
