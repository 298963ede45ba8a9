"""`session start|note|end|list`, and the entries that other commands and runs write, in a real project."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from support.repository import TEMPLATES, shell
from support.secrets import letters

FOLDER = "ai_memory/session_history"
MEMORY = "ai_memory/memory.md"
TODAY = f"{datetime.now(UTC):%Y-%m-%d}"
OFF = "the family `ai_memory` is off; `orchestrate init --with ai_memory` turns it on"
BAD = {
    "no text": (("note", " "), "session note: the text is empty"),
    "a title without words": (("note", "x", "--title", " "), "--title: the text is empty"),
    "a task that is none": (("start", "--task", "parser"), "--task: `parser` is no task id"),
    "nothing to end": (("end",), "Ada has no open session"),
    "an unknown session": (("end", "--session", "2026-01-01_001"), "there is no open session"),
    "no action": ((), "the following arguments are required"),
}


@pytest.fixture
def led(lab):
    """Return a repository with the family on, led by Ada."""
    lab.git("config", "user.name", "Ada")
    assert lab.call("init", "--with", "ai_memory").code == 0
    for shipped in (lab.root / TEMPLATES).glob("*-*.md"):
        shipped.unlink()
    lab.commit({})
    return lab


def session(lab, *arguments, code=0, env=None):
    """Call `session`; return the answer."""
    called = lab.call("session", *arguments, "--json", env=env)
    assert called.code == code, called
    return called.document


def files(lab):
    """Return the texts of the sessions, by id."""
    folder = lab.root / FOLDER
    found = sorted(folder.glob("*.md")) if folder.is_dir() else ()
    return {path.stem.removeprefix("session_"): path.read_text() for path in found}


def only(lab):
    """Return the text of the only session."""
    (text,) = files(lab).values()
    return text


def titles(text):
    """Return the titles of a session's entries."""
    return re.findall(r"^### \d\d:\d\d(?: \([\d-]+\))? — (.*)$", text, re.MULTILINE)


def aged(lab, id_, hours, *, commit=True):
    """Let nothing have been written to a session for some hours."""
    path = lab.root / FOLDER / f"session_{id_}.md"
    then = f"{datetime.now(UTC) - timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}"
    text = re.sub(r"(started|last_updated): .*", rf"\1: {then}", path.read_text())
    path.write_text(text)
    if commit:
        lab.git("commit", "--quiet", "--all", "--message=aged")


def old_sessions(lab, count, *, status="completed", commit=True):
    """Write sessions of days gone by."""
    made = {}
    for number in range(1, count + 1):
        day = f"2026-01-{number:02}"
        made[f"{FOLDER}/session_{day}_001.md"] = (
            f"---\nstarted: {day}T10:00:00Z\nlast_updated: {day}T11:00:00Z\ntask_id: OLD-001\n"
            f"status: {status}\nfiles_changed: {number}\ncommits: 1\n---\n\n# Session {day}_001\n\n"
            f"## Summary\n\nDay {number}.\n\n## Changelog\n\n### 10:00 — Session started\n"
            "- **Note**: led by Bob, on `main`\n\n## Notes for Next Session\n\nnone\n"
        )
    if commit:
        lab.commit(made)
    else:
        for path, text in made.items():
            lab.write(path, text)


# Off, and bad input


@pytest.mark.parametrize("arguments", [("start",), ("note", "x"), ("end",), ("list",)])
def test_a_family_that_is_off_is_named_with_the_way_to_turn_it_on(lab, arguments):
    called = lab.call("session", *arguments, "--json")
    assert (called.code, called.says()) == (2, [f"session: {OFF}"])
    assert called.document["next_action"] == "orchestrate init --with ai_memory"


def test_a_family_that_is_off_is_not_written_by_other_commands(lab):
    assert lab.call("todo", "add", "x").code == lab.call("deliverable", "start", "1").code == 0
    assert not (lab.root / "ai_memory").exists()


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_says_what_is_wrong_and_writes_nothing(led, kind):
    arguments, said = BAD[kind]
    called = led.call("session", *arguments, "--json")
    assert called.code == 2
    assert said in " ".join(called.says())
    assert files(led) == {}


# By hand


def test_a_session_is_started_noted_in_ended_and_listed(led):
    head = led.git("rev-parse", "HEAD")[:10]
    began = session(led, "start", "--task", "PARSER-001")
    one = began["session"]
    assert (one["id"], one["task_id"], one["status"]) == (f"{TODAY}_001", "PARSER-001", "in-progress")
    assert began["changed"] == [one["path"]] == [f"{FOLDER}/session_{TODAY}_001.md"]
    assert led.git("rev-parse", "HEAD").strip() == began["commit"]
    assert f"- **Note**: led by Ada, on `main` at `{head}`\n" in only(led)
    noted = session(
        led, "note", "Escapes are undone", "in the lexer", "--title", "Design", "--for-next", "Ask"
    )
    assert noted["session"]["notes"] == ["Ask"]
    ended = session(led, "end", "--summary", "The lexer is designed.")
    assert ended["session"]["status"] == "completed"
    assert titles(only(led)) == ["Session started", "Design", "Closed"]
    (listed,) = session(led, "list")["sessions"]
    assert listed["summary"] == "The lexer is designed."
    assert "notes" not in listed
    assert led.git("status", "--porcelain") == ""
    assert led.call("validate").code == 0


def test_the_task_is_that_of_the_active_context(led):
    led.commit({"ai_memory/active_context.md": "# Context\n\n## Current Task\n\n- task_id: LEXER-002\n"})
    assert session(led, "start")["session"]["task_id"] == "LEXER-002"


def test_numbers_go_on_over_all_worktrees_of_the_repository(led, tmp_path):
    session(led, "start")
    other = tmp_path / "other"
    led.git("worktree", "add", "--quiet", str(other), "-b", "other")
    led.call("session", "start", "--json", cwd=other)
    assert session(led, "start")["session"]["id"] == f"{TODAY}_003"
    (led.root / FOLDER / f"session_{TODAY}_1000.md").write_text("mine")
    assert session(led, "start", "--lead", "Bob")["session"]["id"] == f"{TODAY}_1001"


def test_two_open_sessions_of_one_lead_are_named_until_one_is_chosen(led):
    session(led, "start")
    second = session(led, "start")
    assert "another open session" in second["problems"][0]["what"]
    before = led.everything()
    called = led.call("decide", "One", "--context", "a", "--decision", "b", "--json")
    assert called.code == 2
    assert f"`{TODAY}_001` and `{TODAY}_002`" in " ".join(called.says())
    assert {path: one for path, one in led.everything().items() if not path.startswith(".git")} == {
        path: one for path, one in before.items() if not path.startswith(".git")
    }
    session(led, "note", "by option", "--session", f"{TODAY}_002")
    chosen = {"ORCHESTRATE_SESSION": f"{TODAY}_001"}
    assert led.call("decide", "One", "--context", "a", "--decision", "b", env=chosen).code == 0
    assert [titles(text)[1:] for text in files(led).values()] == [["Decided"], ["Note"]]
    session(led, "end", env=chosen)
    assert led.call("deliverable", "start", "1").code == 0
    assert titles(files(led)[f"{TODAY}_002"])[-1].startswith("Deliverable")


# By other commands


def test_the_first_change_of_a_lead_begins_a_session_and_each_has_an_entry(led):
    assert led.call("todo", "add", "Before").code == 0
    assert led.call("status").code == led.call("todo", "list").code == led.call("report").code == 0
    assert files(led) == {}
    led.call("decide", "Keep one parser", "--context", "a", "--decision", "b")
    led.call("todo", "add", "Ask the users", "--lead", "Ada")
    led.call("deliverable", "start", "1")
    led.call("approve", "technology-database", "--by", "Bob")
    led.call("handoff")
    text = only(led)
    assert titles(text) == [
        "Session started",
        "Decided",
        "Deliverable Code review: IN PROGRESS",
        "technology-database approved",
        "Handed over",
    ]
    assert "- **Note**: Keep one parser\n- **Note**: todo added: Ask the users\n" in text
    assert "- **Note**: by Bob" in text
    assert re.search(r"- \*\*Note\*\*: docs/history/\S+\.md\n", text)
    assert led.git("status", "--porcelain") == ""
    led.call("deliverable", "done", "1", "--lead", "Carl")
    assert len(files(led)) == 2


def test_commits_of_others_and_open_files_are_told_and_counted(led):
    session(led, "start")
    led.commit({"src/a.py": "1\n", "src/b.py": "1\n"})
    led.write("src/c.py", "1\n")
    sha = led.git("rev-parse", "HEAD")[:10]
    one = session(led, "note", "seen")["session"]
    assert (one["files_changed"], one["commits"]) == (3, 1)
    again = session(led, "note", "seen again")["session"]
    assert (again["files_changed"], again["commits"]) == (3, 1)
    assert only(led).count(f"- **Commit**: `{sha}` — files\n") == 1


def test_counts_come_from_the_changelog_where_the_start_is_gone(led):
    session(led, "start")
    path = led.root / FOLDER / f"session_{TODAY}_001.md"
    path.write_text(re.sub(r"at `\w+`", f"at `{'0' * 10}`", path.read_text()))
    led.commit({"src/a.py": "1\n"})
    one = session(led, "note", "seen")["session"]
    assert (one["files_changed"], one["commits"]) == (0, 0)


def test_a_secret_in_a_note_or_in_the_subject_of_a_commit_is_redacted(led):
    session(led, "start")
    token = "ghp_" + letters(36, "session")
    led.write("a.txt", "1\n")
    led.git("add", "a.txt")
    led.git("commit", "--quiet", "--message", f"Use {token}")
    session(led, "note", f"the token is {token}", "--for-next", token, "--summary", f"{token} works")
    assert token not in only(led)
    assert only(led).count("[redacted:") == 4


# Runs


def run_two(lab, *more):
    """Run a ticket that lands two files, and one that runs out of its time."""
    lab.templates(
        command_1=shell(
            "mkdir -p src; echo 1 > src/a.py; echo 1 > src/b.py; echo done",
            mode="write",
            owns=["src/**"],
            title="Port the parser",
        ),
        command_2=shell("echo 1 > out.txt; sleep 20", mode="write", owns=["out.txt"], timeout="1s"),
    )
    called = lab.call("run", "phase-1", "--json", *more)
    assert called.code == 1, called
    return called.document


def test_a_run_writes_what_it_deployed_and_what_became_of_it(led):
    document = run_two(led)
    run, landing = document["run"], document["commit"]["landing"]
    text = only(led)
    assert titles(text)[1:] == [f"Run {run} of phase-1 deployed", f"Run {run} of phase-1 integrated"]
    assert (
        "- **Changed**: `src/a.py` — command-1: Port the parser\n"
        "- **Changed**: `src/b.py` — command-1: Port the parser\n"
        f"- **Commit**: `{landing[:10]}` — Port the parser\n"
        "- **Error**: Command-Worker-2 timed_out: ran longer than its timeout of 1 s → "
        "**Resolution**: rejected, 1 file is kept\n"
    ) in text
    assert f"\nRun {run}: 1 accepted, 1 cut off. ← changelog\n" in text
    assert "files_changed: 2\ncommits: 1\n" in text
    assert led.git("status", "--porcelain") == ""
    led.call("integrate", "last")
    led.call("resume")
    assert only(led) == text


def test_a_run_goes_on_where_its_session_cannot_be_written(led):
    session(led, "start")
    path = led.root / FOLDER / f"session_{TODAY}_001.md"
    path.write_text("---\nstarted: [\nstatus: in-progress\n---\n")
    document = run_two(led)
    assert document["commit"]["landing"]
    assert any(FOLDER in one["place"] and one["severity"] == "warning" for one in document["problems"])
    assert path.read_text().startswith("---\nstarted: [\n")
    called = led.call("decide", "One", "--context", "a", "--decision", "b", "--json")
    assert called.code == 2
    assert FOLDER in " ".join(called.says())


def test_a_session_to_which_an_unfinished_run_writes_is_not_closed(led):
    led.templates(command_1=shell("echo done"))
    assert led.call("deploy", "phase-1").code == 0
    aged(led, f"{TODAY}_001", 13)
    assert session(led, "start", "--lead", "Bob")["closed"] == []
    assert led.call("integrate", "last").code == 0
    aged(led, f"{TODAY}_001", 13)
    assert session(led, "start", "--lead", "Carl")["closed"] == [f"{TODAY}_001"]


# Old ones


@pytest.mark.parametrize("command", ["start", "end"])
def test_a_session_without_an_entry_for_twelve_hours_is_closed(led, command):
    session(led, "start", "--lead", "Bob")
    session(led, "start", "--lead", "Carl")
    session(led, "start")
    aged(led, f"{TODAY}_001", 13)
    aged(led, f"{TODAY}_002", 11)
    lead = "Dora" if command == "start" else "Ada"
    assert session(led, command, "--lead", lead)["closed"] == [f"{TODAY}_001"]
    text = files(led)[f"{TODAY}_001"]
    assert "status: completed\n" in text
    assert titles(text)[-1] == "Closed"
    assert "- **Note**: not ended by its lead\n" in text
    assert "status: in-progress\n" in files(led)[f"{TODAY}_002"]


def test_the_newest_fifteen_stay_and_older_ones_leave_a_line(led):
    old_sessions(led, 17)
    made = session(led, "start")
    gone = [f"2026-01-0{number}_001" for number in (1, 2, 3)]
    assert made["archived"] == gone
    assert len(files(led)) == 15
    memory = (led.root / MEMORY).read_text()
    lines = re.findall(r"^- .*$", memory, re.MULTILINE)
    assert lines == [
        "- 2026-01-03_001 (OLD-001, 3 files, 1 commit): Day 3.",
        "- 2026-01-02_001 (OLD-001, 2 files, 1 commit): Day 2.",
        "- 2026-01-01_001 (OLD-001, 1 file, 1 commit): Day 1.",
    ]
    changed = led.git("show", "--format=", "--name-status", "HEAD").split("\n")
    assert {f"D\t{FOLDER}/session_{id_}.md" for id_ in gone} | {f"A\t{MEMORY}"} <= set(changed)
    assert led.git("status", "--porcelain") == ""


def test_a_session_that_no_commit_holds_and_one_that_is_open_stay(led):
    old_sessions(led, 17, commit=False)
    assert session(led, "start")["archived"] == []
    led.commit({})
    path = led.root / FOLDER / "session_2026-01-02_001.md"
    path.write_text(path.read_text() + "\nmine\n")
    assert session(led, "start", "--lead", "Bob")["archived"] == ["2026-01-01_001", "2026-01-03_001",
                                                                   "2026-01-04_001"]  # fmt: skip
    assert "mine" in path.read_text()


@pytest.mark.parametrize("text", ["---\nstatus: completed\nx: [\n---\n", "in-progress\n"])
def test_a_damaged_session_that_is_not_open_refuses_nothing_and_stays(led, text):
    old_sessions(led, 17)
    path = led.root / FOLDER / "session_2026-01-01_001.md"
    path.write_text(text)
    led.commit({})
    assert session(led, "start")["archived"] == ["2026-01-02_001", "2026-01-03_001"]
    assert path.read_text() == text
    assert path.name in " ".join(led.call("validate", "--json").says())


def test_archive_closes_and_retires_and_its_dry_run_says_so(led):
    old_sessions(led, 17)
    session(led, "start", "--lead", "Bob")
    old_sessions(led, 6)
    aged(led, f"{TODAY}_001", 13)
    before = files(led)
    shown = led.call("archive", "--dry-run", "--json").document
    moves = [one["what"] for one in shown["moved"] if one["kind"] == "session"]
    assert moves == [f"2026-01-0{number}_001" for number in (1, 2, 3)]
    assert files(led) == before
    done = led.call("archive", "--json").document
    assert [one for one in done["moved"] if one["kind"] == "session"] == [
        {"kind": "session", "what": one, "to": MEMORY} for one in moves
    ]
    assert "status: completed\n" in files(led)[f"{TODAY}_001"]
    assert set(moves) & set(files(led)) == set()
    assert led.git("status", "--porcelain") == ""
