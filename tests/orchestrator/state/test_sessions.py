"""ai_memory/session_history/: a session begins, gets entries, ends and retires; what a person edits stays."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.errors import StateError
from orchestrator.state.ai_memory import memory, sessions
from orchestrator.state.ai_memory.session_entries import entry_of, headline_of
from orchestrator.state.ai_memory.session_read import id_of, path_of, read
from orchestrator.state.ai_memory.tasks import current_task, is_task_id
from orchestrator.state.events import (
    Completion,
    ContextSwitched,
    ContextSynced,
    CriterionMet,
    Decided,
    Decision,
    DeliverableChanged,
    GateAnswered,
    MilestoneReached,
    PhaseMoved,
    PhaseNoted,
    RosterEntry,
    RunClosed,
    RunDeployed,
    RunIntegrated,
    SessionEntered,
    SessionLine,
    SessionNoted,
    SessionRetired,
    SessionStarted,
    TodoAdded,
)
from tickets.markdown import one_line, plain

AT = datetime(2026, 2, 16, 14, 27, 50, tzinfo=UTC)
PATH = path_of("2026-02-16_001")
RUN = "20260216_142834"
STARTED = SessionStarted(PATH, "PARSER-001", "main", "97f3cfdb1b", AT, "Ada")
EXAMPLE = """\
---
started: 2026-02-16T14:27:50Z
last_updated: 2026-02-16T15:10:02Z
task_id: PARSER-001
status: in-progress
files_changed: 2
commits: 1
---

# Session 2026-02-16_001

## Summary

Run 20260216_142834: 1 accepted, 1 cut off. ← changelog

## Changelog

### 14:27 — Session started
- **Note**: led by Ada, on `main` at `97f3cfdb1b`

### 14:59 — Run 20260216_142834 of phase-2 integrated
- **Changed**: `src/parser/lex.py` — command-1: Port the parser
- **Changed**: `tests/parser/test_lex.py` — command-1: Port the parser
- **Commit**: `e6be88bfc0` — Land run 20260216_142834 (phase-2)
- **Error**: Codex-Worker-2 timed_out: no end after 30 minutes → **Resolution**: rejected, 2 files are kept

### 15:02 — Decided
- **Note**: Keep one parser

## Notes for Next Session

- Parser: 2 files of codex-2 are kept (docs/progress/parser-codex-2.md)
"""
PORTED = Completion(
    "Command-Worker-1", "Port the parser", "complete", "accepted", "",
    ("src/parser/lex.py", "tests/parser/test_lex.py"), ticket="command-1",
)  # fmt: skip
SLOW = Completion(
    "Codex-Worker-2", "Format", "timed_out", "rejected", "no end after 30 minutes", (),
    left_out=("a", "b"), ticket="codex-2",
)  # fmt: skip
INTEGRATED = RunIntegrated(RUN, "phase-2", AT, "Ada", (PORTED, SLOW), "e6be88bfc0")


SWITCHED = ContextSwitched(ContextSynced(AT, "Ada"), "PARSER-001", "WRITER-001", "more urgent", AT, "Ada")


def after(tree, *events):
    """Return the files after some events; None stands for one that is gone."""
    for event in events:
        for document in (sessions, memory):
            needed = document.needs(tree, event)
            changed = document.changes({path: tree.get(path) for path in needed}, event)
            assert set(changed) <= set(needed)
            tree = {**tree, **changed}
    return tree


def entered(minutes, title, *lines, **more):
    """Return an entry some minutes after the start."""
    return SessionEntered(PATH, title, AT + timedelta(minutes=minutes), lines, **more)


def note(text):
    return SessionLine("Note", text)


def shown(tree):
    """Return the session as it reads."""
    return read(PATH, tree[PATH])


def text_of(*events):
    """Return the file after a start and some events."""
    return after({}, STARTED, *events)[PATH].decode()


# The example of the format


def test_the_events_of_a_session_make_the_example():
    run = entry_of(INTEGRATED)
    changed, errors = run.lines[:2], run.lines[2:]
    landed = SessionLine("Commit", f"Land run {RUN} (phase-2)", "e6be88bfc0")
    decided = entry_of(Decided((Decision("Keep one parser", "a", "b"),), AT, "Ada"))
    kept = "Parser: 2 files of codex-2 are kept (docs/progress/parser-codex-2.md)"
    made = text_of(
        entered(32, run.title, *changed, landed, *errors, headline=run.headline),
        entered(35, decided.title, *decided.lines, headline=headline_of(decided, run.headline)),
        SessionEntered(
            PATH, "x", datetime(2026, 2, 16, 15, 10, 2, tzinfo=UTC), for_next=kept, files_changed=2, commits=1
        ),
    )
    assert made.replace("\n### 15:10 — x\n", "") == EXAMPLE


def test_the_example_reads_as_it_stands_and_has_no_problems():
    found = read(PATH, EXAMPLE.encode())
    assert (found.id, found.lead, found.start) == ("2026-02-16_001", "Ada", "97f3cfdb1b")
    assert (found.task_id, found.status, found.files_changed) == ("PARSER-001", "in-progress", "2")
    assert [one.title for one in found.entries][1:] == [f"Run {RUN} of phase-2 integrated", "Decided"]
    assert found.commits_listed == ("e6be88bfc0",)
    assert found.paths_listed == {"src/parser/lex.py", "tests/parser/test_lex.py"}
    assert sessions.problems(EXAMPLE.encode()) == []


@pytest.mark.parametrize(
    ("branch", "commit", "where"),
    [("", "97f3cfdb1b", "on no branch at `97f3cfdb1b`"), ("main", "", "on `main`")],
)
def test_a_session_says_what_it_began_on(branch, commit, where):
    tree = after({}, STARTED._replace(branch=branch, commit=commit, lead="A, on B"))
    assert f"- **Note**: led by A, on B, {where}\n" in tree[PATH].decode()
    assert (shown(tree).lead, shown(tree).start) == ("A, on B", commit)


def test_a_session_never_begins_in_the_place_of_another():
    with pytest.raises(StateError, match="there is a session of this name"):
        after({PATH: EXAMPLE.encode()}, STARTED)


# Entries


@pytest.mark.parametrize(
    ("event", "title", "lines"),
    [
        (
            RunDeployed(RUN, "phase-2", AT, "Ada", (RosterEntry("Codex-Worker-1", "T", ()),)),
            f"Run {RUN} of phase-2 deployed",
            ["workers: Codex-Worker-1"],
        ),
        (RunClosed(RUN, AT, "Ada", "cancelled", "phase-2"), f"Run {RUN} of phase-2 cancelled", []),
        (
            DeliverableChanged("P", "Parser", "BLOCKED", "", "no schema", "", AT, "Ada"),
            "Deliverable Parser: BLOCKED",
            ["no schema"],
        ),
        (MilestoneReached("P", "Parser usable", AT, "Ada"), "Milestone Parser usable reached", []),
        (PhaseMoved("One", "Two", "", "", AT, "Ada"), "Phase Two begun", ["One ended"]),
        (PhaseMoved("Two", None, "", "", AT, "Ada"), "Phase Two ended", []),
        (
            GateAnswered("technology", "Bob", "approved", "only here", "x", AT, "Ada"),
            "technology approved",
            ["by Bob, on condition: only here"],
        ),
        (CriterionMet("S", "It works", True, AT, "Ada"), "Plan updated", ["criterion met: It works"]),
        (TodoAdded(("a", "b"), "P1", AT, "Ada"), "Plan updated", ["todo added: a", "todo added: b"]),
        (
            PhaseNoted("phase-2", AT, text="No network", lead="Ada"),
            "Context of phase-2 noted",
            ["No network"],
        ),
        (PhaseNoted("", AT, removed="Old", lead="Ada"), "Context noted", ["removed: Old"]),
        (
            PhaseNoted("phase-2", AT, decision=Decision("One", "a", "b"), lead="Ada"),
            "Decided",
            ["One of phase-2"],
        ),
        (SWITCHED, "Switched to WRITER-001", ["more urgent"]),
        (SWITCHED._replace(to=""), "Switched to no task", ["more urgent"]),
        (SessionNoted("text", AT, "Ada"), "Note", ["text"]),
        (SessionNoted("text", AT, "Ada", title="Design"), "Design", ["text"]),
    ],
)
def test_an_event_has_an_entry(event, title, lines):
    found = entry_of(event)
    assert (found.title, [line.text for line in found.lines]) == (title, lines)


def test_a_note_that_a_worker_sends_has_none():
    assert entry_of(PhaseNoted("phase-2", AT, by="Codex-Worker-1:3", text="x")) is None


def test_an_interrupted_run_has_none_as_resume_goes_on_with_it():
    assert entry_of(RunClosed(RUN, AT, "Ada", "interrupted", "phase-2")) is None


def test_above_ten_changed_files_the_rest_is_counted():
    files = tuple(f"src/{number}.py" for number in range(22))
    lines = entry_of(INTEGRATED._replace(workers=(PORTED._replace(files=files),))).lines
    assert len(lines) == 11
    made = text_of(entered(1, "x", *lines))
    assert "- **Changed**: 12 more files\n" in made


def test_what_became_of_the_workers_of_a_run_is_counted():
    pending = PORTED._replace(verdict="pending", files=())
    skipped = PORTED._replace(verdict=None, outcome="skipped", files=())
    failed = SLOW._replace(outcome="failed", left_out=("a",))
    made = entry_of(INTEGRATED._replace(workers=(PORTED, SLOW, failed, pending, skipped)))
    assert made.headline == f"Run {RUN}: 1 accepted, 1 pending, 1 cut off, 1 rejected, 1 skipped."
    errors = [line for line in made.lines if line.mark == "Error"]
    assert [line.resolution for line in errors] == [
        "rejected, 2 files are kept",
        "rejected, 1 file is kept",
        "pending",
    ]


def test_an_entry_of_a_later_day_has_its_date():
    made = text_of(entered(60 * 24, "Decided"))
    assert "### 14:27 (2026-02-17) — Decided\n" in made
    assert read(PATH, made.encode()).entries[-1].at == AT.replace(day=17, second=0)


def test_an_entry_of_a_run_that_is_recorded_again_is_written_once():
    event = entered(5, "Run 1 of phase-1 deployed", note("workers: `A`"), once=True)
    commits = (SessionLine("Commit", "More", "abcdef0123"),)
    again = event._replace(at=AT + timedelta(hours=1), before=commits)
    assert text_of(event, again) == text_of(event)
    other = again._replace(lines=(note("workers: B"),))
    assert text_of(event, other).count("deployed") == 2


def test_commits_of_others_stand_before_an_entry():
    commit = SessionLine("Commit", "Fix `x`", "abcdef0123")
    made = text_of(entered(20, "Decided", note("x"), before=(commit,)))
    assert "`97f3cfdb1b`\n- **Commit**: `abcdef0123` — Fix `x`\n\n### 14:47 — Decided\n" in made


@pytest.mark.parametrize(("minutes", "title"), [(9, "Decided"), (10, "Plan updated"), (11, "Plan updated")])
def test_a_change_of_the_plan_joins_a_young_entry(minutes, title):
    first = SessionEntered(PATH, "Decided", AT.replace(second=0), (note("x"),))
    second = SessionEntered(
        PATH, "Plan updated", first.at + timedelta(minutes=minutes), (note("todo added: y"),), joins=True
    )
    found = read(PATH, text_of(first, second).encode()).entries[-1]
    assert (found.title, found.lines[-1]) == (title, "Note: todo added: y")


# Summary, notes and keys


def test_the_authors_summary_stays_and_the_runtimes_line_is_replaced():
    headline = entered(1, "Decided", headline="Decided: one.")
    assert "\nDecided: one. ← changelog\n" in text_of(headline)
    again = entered(2, "Decided", headline="Decided: two.")
    assert "one." not in text_of(headline, again)
    said = entered(3, "Note", said="All of it\nis # done.")
    made = text_of(headline, said, again)
    assert "## Summary\n\nAll of it is # done.\n\n## Changelog" in made


def test_what_a_run_came_to_is_not_replaced_by_less():
    run = entry_of(INTEGRATED)
    decided = entry_of(Decided((Decision("One", "a", "b"),), AT, "Ada"))
    assert headline_of(decided, "") == "Decided: One"
    assert headline_of(decided, run.headline) == run.headline
    assert headline_of(run, "Run 1: 1 accepted.") == run.headline


def test_counts_are_gits_else_those_of_the_changelog():
    lines = (
        SessionLine("Changed", "x", "a.py"),
        SessionLine("Changed", "y", "a.py"),
        SessionLine("Commit", "x", "abcdef0123"),
    )
    by_git = shown(after({}, STARTED, entered(1, "x", *lines, files_changed=7, commits=3)))
    by_log = shown(after({}, STARTED, entered(1, "x", *lines)))
    assert (by_git.files_changed, by_git.commits) == ("7", "3")
    assert (by_log.files_changed, by_log.commits) == ("1", "1")


def test_the_time_of_the_last_update_never_goes_back_and_the_order_is_that_of_writing():
    made = shown(after({}, STARTED, entered(30, "one"), entered(-20, "two")))
    assert made.last_updated == "2026-02-16T14:57:50Z"
    assert [one.title for one in made.entries] == ["Session started", "one", "two"]


def test_a_session_that_its_lead_did_not_end_is_closed_and_keeps_its_time():
    late = entered(60 * 13, "Closed", note("not ended by its lead"), closes=True, is_late=True)
    made = shown(after({}, STARTED, late))
    assert (made.status, made.last_updated) == ("completed", "2026-02-16T14:27:50Z")
    assert made.entries[-1].lines == ("Note: not ended by its lead",)


# What a person has edited


def test_bytes_beside_the_edit_stay():
    edited = EXAMPLE.replace("commits: 1\n", 'commits: 1  # all of them\nmine: "yes"\n').replace(
        "## Notes for", "My own paragraph.\n\n## Mine\n\n* item\n\n## Notes for"
    )
    made = after({PATH: edited.replace("\n", "\r\n").encode()}, entered(90, "Decided", note("Two")))[PATH]
    new = b"\r\n### 15:57 \xe2\x80\x94 Decided\r\n- **Note**: Two\r\n"
    assert new in made
    rest = made.replace(new, b"").replace(b"T15:57:50Z", b"T15:10:02Z")
    assert rest.decode().replace("\r\n", "\n") == edited


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("---\nstarted: [\n---\n", "YAML"),
        ("# Session\n", "no session"),
        (EXAMPLE.replace("status: in", "status: x\nstatus: in"), "status"),
        (EXAMPLE.replace("## Changelog", "## Other"), "Changelog"),
        (EXAMPLE.replace("## Notes", "```\n## Notes"), "code fence"),
        ("", "empty"),
        (EXAMPLE.replace("Keep", "\0"), "NUL"),
    ],
)
def test_a_file_that_cannot_be_edited_refuses_the_change(damage, said):
    with pytest.raises(StateError, match=said):
        after({PATH: damage.encode()}, entered(90, "Decided", note("x"), for_next="y"))


def test_problems_name_what_is_wrong():
    text = EXAMPLE.replace("in-progress", "open").replace("2026-02-16T14:27:50Z", "soon")
    text = text.replace("commits: 1\n", "").replace("## Summary", "## Sum")
    said = " ".join(map(str, sessions.problems(text.encode())))
    for what in ("`status: open`", "`started: soon`", "no `commits`", "section `Summary`"):
        assert what in said


HOSTILE = st.text(min_size=1, max_size=60) | st.sampled_from(
    ["### 10:00 — Forged", "x\n## Changelog", "- **Commit**: `abcdef0123`", "---", "```", "<!--", "`a", "\\"]
)


@given(text=HOSTILE, path=HOSTILE)
@example(text="```\n## Summary", path="a`b\n- x")
def test_no_text_of_others_becomes_structure(text, path):
    lines = (SessionLine("Changed", text, path), SessionLine("Error", text, resolution=text), note(text))
    tree = after({}, STARTED._replace(lead=text))
    tree = after(tree, entered(20, text, *lines, for_next=text, said=text))
    tree = after(tree, entered(40, "Decided", headline=text))
    found = shown(tree)
    assert len(found.entries) == 3
    assert found.entries[-1].title == "Decided"
    assert len(found.entries[1].lines) == 3
    assert (found.lead, found.start) == (plain(one_line(text)), "97f3cfdb1b")
    assert found.commits_listed == ()
    assert [key for key in ("started", "status", "task_id") if not getattr(found, key)] == []


# Names and tasks


@pytest.mark.parametrize(
    ("path", "id_"),
    [
        (PATH, "2026-02-16_001"),
        (path_of("2026-02-16_1000"), "2026-02-16_1000"),
        ("ai_memory/session_history/session_2026-02-16_1.md", None),
        ("ai_memory/session_history/notes.md", None),
        ("other/session_2026-02-16_001.md", None),
    ],
)
def test_a_session_is_known_by_its_name(path, id_):
    assert id_of(path) == id_


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("## Current Task\n- task_id: PARSER-001\n", "PARSER-001"),
        ("- **task_id:** `CODE-REVIEW-012`\r\n", "CODE-REVIEW-012"),
        ("- task_id: none\n", ""),
        ("- goal: task_id: X-001\n", ""),
        ("", ""),
    ],
)
def test_the_current_task_is_that_of_the_active_context(text, task):
    assert current_task({"ai_memory/active_context.md": text.encode()}) == task
    assert not task or is_task_id(task)


# The memory

RETIRED = SessionRetired(PATH, "PARSER-001", 12, 3, "Reviewed the lexer.", AT)
LINE = "- 2026-02-16_001 (PARSER-001, 12 files, 3 commits): Reviewed the lexer.\n"


def test_a_session_that_retires_leaves_one_line():
    tree = after({PATH: EXAMPLE.encode()}, RETIRED)
    assert tree[PATH] is None
    assert tree[memory.PATH].decode().endswith(f"## Tasks\n\nnone\n\n## Sessions\n\n{LINE}")
    assert memory.problems(tree[memory.PATH]) == []
    again = after({**tree, PATH: EXAMPLE.encode()}, RETIRED)
    assert again == tree


def test_the_newest_session_is_on_top():
    later = RETIRED._replace(path=path_of("2026-02-17_001"), task_id="none", files_changed=1, commits=1)
    made = after({PATH: b"x", later.path: b"y"}, RETIRED, later)[memory.PATH].decode()
    assert made.endswith(f"- 2026-02-17_001 (1 file, 1 commit): Reviewed the lexer.\n{LINE}")


@pytest.mark.parametrize("text", ["# My notes\n\nWords\n\n* one\n", "no heading", "## Sessions\n\nold\n"])
def test_a_memory_of_another_shape_keeps_its_bytes_and_gains_the_sections(text):
    made = after({PATH: b"x", memory.PATH: text.encode()}, RETIRED)[memory.PATH].decode()
    assert made.startswith(text)
    assert made.count("## Tasks") == made.count("## Sessions") == 1
    assert LINE.strip() in made


@pytest.mark.parametrize(
    "text", ["## Sessions\n\n## Sessions\n", "x\n```\n", "<<<<<<< a\nb\n=======\n>>>>>>> c\n"]
)
def test_a_memory_that_cannot_be_edited_refuses(text):
    with pytest.raises(StateError):
        after({PATH: b"x", memory.PATH: text.encode()}, RETIRED)
