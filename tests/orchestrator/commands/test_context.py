"""`context`: the state of the lead's task in ai_memory/active_context.md, kept true, never overwritten."""

import re

import pytest
from support.repository import shell

from orchestrator.state.ai_memory.context_keys import SECTION_OF, SECTIONS
from orchestrator.state.ai_memory.context_read import PATH, read

CHECK = ("context", "check", "--json")
SYNC = ("context", "sync")


@pytest.fixture
def on(lab):
    """Return a repository with the family on, a template, and an active context."""
    lab.templates(command_1=shell("mkdir -p out; echo 1 > out/a", mode="write", owns=["out/**"]))
    assert lab.call("init", "--with", "ai_memory").code == 0
    assert lab.call("context", "init").code == 0
    return lab


def text(lab):
    return (lab.root / PATH).read_text()


def context(lab):
    return read((lab.root / PATH).read_bytes())


def items(lab, name):
    return [(one.text, one.source) for one in context(lab).list(name)]


def points(lab):
    called = lab.call(*CHECK)
    return called.code, {one["number"] for one in called.document["points"] if not one["ok"]}, called.document


def edited(lab, old, new, count=1):
    """Edit the file by hand."""
    before = text(lab)
    assert old in before
    lab.write(PATH, before.replace(old, new, count))


def test_off_it_costs_nothing_and_says_how_to_turn_it_on(lab):
    refused = lab.call("context", "show", "--json")
    assert (refused.code, refused.document["next_action"]) == (2, "orchestrate init --with ai_memory")
    lab.call("todo", "add", "One")
    assert not (lab.root / "ai_memory").exists()


def test_a_new_context_has_the_mandatory_sections_and_what_is_known(on):
    found = context(on)
    assert [one.section.number for one in found.sections] == [1, 2, 3, 4, 7, 8, 14, 19]
    assert found.text("task_id") == "CODE-REVIEW-001"
    assert found.text("goal").startswith("Finish `Code review` of Phase 1")
    assert (found.text("project_root"), found.text("scope_in")) == (".", "out/**")
    assert found.text("plan").startswith("STATUS.md \u2014 Phase 1")
    assert items(on, "related_code") == [("out/", "command-1")]
    assert ("Lead this project with orchestrate" in text(on)) is True
    assert points(on)[0] == 0
    assert on.git("status", "--porcelain") == ""


def test_full_has_all_23_sections_with_all_keys_and_each_can_be_shown(lab):
    lab.call("init", "--with", "ai_memory")
    lab.call("context", "init", "--full")
    found = context(lab)
    assert [one.section.number for one in found.sections] == list(range(1, 24))
    assert {key.name for one in found.sections for key in one.keys} == set(SECTION_OF)
    shown = lab.call("context", "show", "--json").document["sections"]
    assert set(shown) == {section.title for section in SECTIONS}
    for section in SECTIONS:
        one = lab.call("context", "show", "--section", str(section.number), "--json").document["sections"]
        assert set(one) == {section.title}


AUTHORS = [
    key for section in SECTIONS for key in section.keys if key.keeper != "runtime" and key.name != "task_id"
]


@pytest.mark.parametrize("key", AUTHORS, ids=lambda key: key.name)
def test_each_key_of_the_authors_is_written_read_and_dropped(on, key):
    said = f"Something of mine about {key.name.replace('_', ' ')}"
    how = "--add" if key.is_list else "--set"
    assert on.call(*SYNC, how, f"{key.name}={said}").code == 0
    if not key.is_list:
        assert context(on).text(key.name) == said
        return
    assert (said, "") in items(on, key.name)
    others = [one for one in items(on, key.name) if one[0] != said]
    assert on.call(*SYNC, "--drop", f"{key.name}={said}").code == 0
    assert items(on, key.name) == others


@pytest.mark.parametrize(
    ("word", "title"),
    [
        ("decisions", "Decisions"), ("blockers", "Open Questions / Blockers"),
        ("deferred", "Deferred / Parking Lot"), ("lessons", "Lessons Learned"),
    ],
)  # fmt: skip
def test_the_words_for_sections_without_keys(on, word, title):
    on.call(*SYNC, "--add", f"{word}=Use tabs \u2192 they are shorter")
    texts = [one for one, source in items(on, title) if not source]
    assert len(texts) == 1
    assert texts[0].endswith("Use tabs \u2192 they are shorter")
    assert bool(re.match(r"\d{4}-\d\d-\d\dT", texts[0])) is (word == "decisions")
    on.call(*SYNC, "--drop", f"{word}=Use tabs")
    assert [one for one, source in items(on, title) if not source] == []


def test_copies_change_with_their_home_in_every_command(on):
    on.call("todo", "add", "Mend the `lexer` first", "--priority", "P0")
    assert ("Mend the `lexer` first", "P0") in items(on, "next")
    on.call("decide", "Keep one parser", "--context", "Two would drift apart. And more.", "--decision", "x")
    today = context(on).text("last_updated")[:10]
    said = (f"{today} \u2192 Keep one parser \u2192 Two would drift apart.", "DECISIONS.md")
    assert items(on, "Decisions")[0] == said
    on.call("deliverable", "start", "Code review")
    assert ("Code review", "STATUS.md") in items(on, "in_progress")
    on.call("deliverable", "block", "Code review", "--reason", "no access")
    assert items(on, "Open Questions / Blockers") == [("Code review is blocked: no access", "STATUS.md")]
    written = ("checkpoint", "write", "Lexer", "--status", "blocked", "--action", "Waits; needs the schema")
    on.call(*written)
    assert items(on, "Open Questions / Blockers")[1] == (
        "lead is blocked: the schema", "docs/progress/lexer-lead.md"
    )  # fmt: skip
    on.call("checkpoint", "write", "Lexer", "--action", "Goes on")
    on.call("deliverable", "start", "Code review")
    assert items(on, "Open Questions / Blockers") == []
    on.call("todo", "done", "Mend the")
    assert ("Mend the `lexer` first", "P0") not in items(on, "next")
    document = on.call("run", "phase-1", "--json").document
    run = document["run"]
    assert ("Command-Worker-1: title (accepted)", f"run {run}") in [
        (one.replace("Look around", "title"), source) for one, source in items(on, "done")
    ]
    assert on.git("show", f"{document['commit']['state']}:{PATH}") == text(on)
    on.call(*SYNC)
    assert points(on)[0] == 0
    assert [one[1] for one in items(on, "active_files")] == [f"landed {document['commit']['landing'][:10]}"]


def test_what_its_author_wrote_stays_byte_for_byte(on):
    own = "- next:\n  - Read `a/b.py`,\n    then *mend* it\n      1. first\n      2. second\n"
    edited(on, re.search(r"- next:\n(  - .*\n)*", text(on))[0], own)
    edited(on, "## Decisions\n", "Some words of mine, in no list.\n\n## Decisions\n")
    on.write(PATH, text(on) + "\n## Not of the Table\n\n- task_id: none of yours\n")
    before = text(on)
    on.call("todo", "add", "One more", "--priority", "P0")
    on.call(*SYNC)
    after = text(on)
    for kept in (
        own.removeprefix("- next:\n"),
        "Some words of mine, in no list.\n",
        "\n## Not of the Table\n\n- task_id: none of yours\n",
    ):
        assert kept in before
        assert kept in after
    assert context(on).text("task_id") == "CODE-REVIEW-001"


def test_done_takes_an_item_of_the_authors_out_of_next(on):
    on.call(*SYNC, "--add", "next=Read it all", "--add", "in_progress=Mend it now")
    on.call(*SYNC, "--add", "done=Read it all", "--add", "done=Mend it now")
    assert ("Read it all", "") not in items(on, "next")
    assert ("Mend it now", "") not in items(on, "in_progress")
    assert {("Read it all", ""), ("Mend it now", "")} <= set(items(on, "done"))


def test_a_dry_run_shows_the_edits_and_writes_nothing(on):
    before = on.everything()
    shown = on.call(*SYNC, "--dry-run", "--add", "next=Mend the lexer", "--json").document
    assert {"section": "Progress", "key": "next", "what": "added", "text": "Mend the lexer"} in shown["edits"]
    assert (shown["changed"], shown["commit"]) == ([], None)
    assert on.everything() == before


@pytest.mark.parametrize("damage", [None, b"", b"\0" * 300])
def test_what_is_missing_or_empty_is_rebuilt_and_said(on, damage):
    facts = {name: items(on, name) for name in ("next", "done", "Decisions")}
    (on.root / PATH).unlink()
    if damage is not None:
        (on.root / PATH).write_bytes(damage)
    assert on.call("context", "show").code == 2
    assert on.call(*SYNC).code == 0
    assert any("was missing on" in one for one, _ in items(on, "Open Questions / Blockers"))
    assert {name: items(on, name) for name in facts} == facts
    assert context(on).text("task_id").startswith("CODE-REVIEW-0")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (b"\xff\xfe", "is not UTF-8"), (b"a\0b", "NUL"),
        (b"<<<<<<< HEAD\na\n=======\nb\n>>>>>>> other\n", "conflict"),
    ],
)  # fmt: skip
def test_what_cannot_be_edited_refuses_a_lead_and_no_run(on, damage, said):
    broken = (on.root / PATH).read_bytes() + damage
    (on.root / PATH).write_bytes(broken)
    refused = on.call(*SYNC, "--json")
    assert refused.code == 2
    assert PATH in refused.says()[0]
    assert on.call("todo", "add", "One").code == 2
    assert (on.root / PATH).read_bytes() == broken
    called = on.call("run", "phase-1", "--json")
    assert (called.code, called.document["workers"][0]["verdict"]) == (0, "accepted"), called
    assert any(PATH in line and said in line for line in called.says()), called.says()
    assert (on.root / PATH).read_bytes() == broken


def test_a_file_of_another_shape_is_kept(lab):
    lab.call("init", "--with", "ai_memory")
    other = "# My memory\n\nAll of it is here.\n\n## Things\n\n- goal: none of yours\n"
    lab.commit({PATH: other})
    refused = lab.call("context", "init", "--json")
    assert refused.code == 2
    assert "--replace" in refused.says()[0]
    assert text(lab) == other
    lab.call("context", "init", "--complete")
    assert text(lab).startswith(other)
    assert {one.section.number for one in context(lab).sections} >= {1, 2, 3, 4, 7, 8}
    lab.write(PATH, other)
    moved = lab.call("context", "init", "--replace", "--json").document["moved"]
    assert [one["what"] for one in moved] == [PATH]
    assert (lab.root / moved[0]["to"]).read_text() == other
    assert (moved[0]["to"], "sync") in items(lab, "related_docs")
    assert items(lab, "Open Questions / Blockers") == []
    assert context(lab).text("task_id") == "CODE-REVIEW-001"


def test_numbered_bold_and_short_headings_are_read(on):
    edited(on, "## Meta", "## 1) Meta")
    edited(on, "## Current Task", "## **Current task**")
    edited(on, "## Git State Snapshot", "## 19. Git State")
    edited(on, "- goal: ", "- **goal:** ")
    assert context(on).text("goal").startswith("Finish")
    on.call(*SYNC, "--set", "goal=Finish all of it with care")
    assert "- **goal:** Finish all of it with care\n" in text(on)
    assert 11 not in points(on)[1]


@pytest.mark.parametrize(
    ("number", "old", "new"),
    [
        (1, "- last_updated: 2", "- last_updated: 9"),
        (2, "Finish `Code review`", "stuff"),
        (3, "- plan: ", "- related_docs:\n  - docs/gone.md\n- plan: "),
        (10, "- uncommitted_changes: 0", "- uncommitted_changes: 7"),
        (11, "- scope_out: none stated\n", ""),
        (11, "## Progress", "## Progrezz"),
        (12, "- scope_out: none stated", "- scope_out: /home/ada/project"),
        (13, "- scope_out: none stated", "- scope_out: probably nothing"),
        (14, "- scope_out: none stated", "- scope_out: ask ada@example.org"),
        (15, "- task_id: CODE-REVIEW-001", "- task_id: OTHER-001"),
    ],
)  # fmt: skip
def test_each_point_fails_for_what_a_hand_did(on, number, old, new):
    assert points(on)[1] == set()
    edited(on, old, new)
    code, failed, document = points(on)
    assert (code, number in failed) == (1, True), document["problems"]
    assert all(one["do"] for one in document["problems"])


def test_a_point_that_a_synchronization_mends_is_mended_by_its_next_step(on):
    on.commit({"src/new.py": "x\n"})
    code, failed, document = points(on)
    assert (code, failed) == (1, {10})
    on.call(*document["next_action"].split()[1:])
    assert points(on)[:2] == (0, set())


def test_a_failure_is_captured_and_resolved(on):
    on.templates(command_2=shell("echo broken >&2; exit 3"))
    on.call("run", "phase-1")
    assert 7 in points(on)[1]
    on.call(*SYNC)
    assert context(on).text("error_signature").startswith("exit code 3")
    assert context(on).text("resolution_status") == "pending"
    assert items(on, "attempted_fixes")[0][1].startswith("run ")
    assert 7 not in points(on)[1]
    on.templates(command_2=shell("true"))
    on.call("run", "phase-1")
    on.call(*SYNC)
    assert context(on).text("resolution_status") == "resolved"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--set", "nope=1"), "there is no key `nope`"),
        (("--set", "goal"), "has no `=`"),
        (("--set", "goal= "), "the text is empty"),
        (("--set", "last_commit=x"), "the runtime keeps this key"),
        (("--set", "task_id=X-001"), "`context switch` alone"),
        (("--add", "goal=x"), "this key is no list"),
        (("--add", "go=x"), "may be goal, gotchas"),
        (("--drop", "next=not there"), "no item of `next` reads `not there`"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_and_nothing_is_written(on, words, said):
    before = on.everything()
    refused = on.call(*SYNC, *words, "--json")
    assert refused.code == 2, refused
    assert said in refused.says()[0]
    assert on.everything() == before


def test_words_of_others_are_no_structure_and_no_source(on):
    told = "## Decisions - key: value \u2190 P0 <!-- sk-test"
    on.call(*SYNC, "--add", f"next={told}")
    sections = len(context(on).sections)
    assert len([one for one in items(on, "next") if "key: value" in one[0]]) == 1
    on.call("todo", "add", "x \u2190 STATUS.md", "--priority", "P0")
    assert ("x <- STATUS.md", "P0") in items(on, "next")
    assert len(context(on).sections) == sections


def test_above_its_budget_a_synchronization_cuts_the_runtimes_items_alone(on):
    settings = (on.root / "orchestrate.toml").read_text()
    on.write("orchestrate.toml", settings.replace("# budget = 2000", "budget = 300"))
    on.commit({f"src/{number}.py": "x\n" for number in range(3)})
    for number in range(3):
        on.call("decide", f"Decision number {number}", "--context", "A reason for it.", "--decision", "x")
    on.call(*SYNC, "--add", "decisions=My own \u2192 my reason")
    found = items(on, "Decisions")
    assert len([one for one in found if one[1]]) == 2
    assert len([one for one in found if not one[1]]) == 1
    assert 13 in points(on)[1]


@pytest.mark.parametrize(
    ("agent", "file", "line"),
    [
        ("claude", "CLAUDE.md", "@ai_memory/active_context.md"),
        ("gemini", "GEMINI.md", "@./ai_memory/active_context.md"),
    ],
)
@pytest.mark.parametrize("before", [None, "# Mine\r\n\r\nKeep it.", "# Mine\n"])
def test_export_adds_a_line_once_and_keeps_every_other_byte(on, agent, file, line, before):
    if before is not None:
        (on.root / file).write_bytes(before.encode())
        on.git("add", "--all")
        on.git("commit", "--quiet", "--message=mine")
    shown = on.call("context", "export", "--for", agent, "--json").document
    assert (shown["file"], shown["text"], shown["written"]) == (file, line, False)
    assert (on.root / file).exists() is (before is not None)
    on.call("context", "export", "--for", agent, "--write")
    after = (on.root / file).read_bytes()
    assert after.startswith((before or "").encode())
    assert after.decode().splitlines()[-1] == line
    assert (b"\r\n" in after) is ("\r\n" in (before or ""))
    assert on.git("status", "--porcelain") == ""
    again = on.call("context", "export", "--for", agent, "--write", "--json").document
    assert (again["written"], again["changed"]) == (True, [])
    assert (on.root / file).read_bytes() == after


def test_export_for_codex_is_a_section_of_the_rules_with_its_version_and_a_decision(on):
    before = (on.root / "AGENTS.md").read_text()
    on.call("context", "export", "--for", "codex", "--write")
    after = (on.root / "AGENTS.md").read_text()
    assert "## Where the Work Stands" in after
    assert ("**Version:** 1.0" in before, "**Version:** 1.1" in after) == (True, True)
    gone = [line for line in before.splitlines() if line not in after.splitlines()]
    assert all(line.startswith(("**Version:**", "**Last Updated:**")) for line in gone)
    assert "Begin sessions of codex with" in (on.root / "DECISIONS.md").read_text()
    assert on.call("validate").code == 0
    on.call("context", "export", "--for", "codex", "--write")
    assert (on.root / "AGENTS.md").read_text() == after


def test_the_tickets_of_agents_carry_goal_and_guardrails_and_no_more_than_fits(on, tmp_path):
    on.have_fake_claude(tmp_path / "fakes")
    on.call("init", "--with", "ai_memory")
    on.templates(claude_1="---\nagent: claude\nphase: phase-2\ntitle: Look\n---\nLook.\n")
    on.call(
        *SYNC, "--add", "invariants=No network in tests", "--add", "gotchas=Escapes are undone in the lexer"
    )
    for number in range(12):
        on.call(*SYNC, "--no-commit", "--add", f"risk_hotspots=Risk {number} {'x' * 100}")
    run = on.call("run", "phase-2", "--json").document["run"]
    said = (on.root / f".taskers/runs/{run}/tickets/Claude-Worker-1.md").read_text()
    part = said.partition("### Guardrails")[2].partition("###")[0]
    assert "goal: Finish `Code review`" in part
    assert "invariants: No network in tests" in part
    assert "scope_out" not in part
    assert len(part.encode()) / 3 <= 420
    on.call("run", "phase-1")
    command = next((on.root / ".taskers/runs").glob("*/tickets/Command-Worker-1.md"))
    assert "### Guardrails" not in command.read_text()


def test_a_handoff_brings_it_up_to_date_commits_it_and_warns_of_the_check(on):
    on.commit({"src/new.py": "x\n"})
    edited(on, "- scope_out: none stated", "- scope_out: probably nothing")
    checked = on.call("handoff", "--check", "--json")
    assert any("`probably`" in line for line in checked.says())
    assert any("git differs" in line for line in checked.says())
    called = on.call("handoff", "--json")
    assert called.code == 0, called
    assert any("`probably`" in line for line in called.says())
    assert not any("git differs" in line for line in called.says())
    assert PATH in called.document["changed"] or on.git("status", "--porcelain", "--", PATH) == ""
    assert on.git("show", f"HEAD:{PATH}") == text(on)


def test_planted_secrets_stand_in_no_file(on):
    secret = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    on.call(
        *SYNC,
        "--add",
        f"next=Use {secret} now",
        "--set",
        f"goal=The key is {secret}",
        "--add",
        f"decisions=a {secret}",
    )
    on.call("checkpoint", "write", "Lexer", "--action", f"Used {secret}", "--note", secret)
    on.call("session", "note", secret, "--summary", secret, "--for-next", secret, "--title", secret)
    on.call(
        "context", "switch", "new", "--id", "NEXT-001", "--reason", secret, "--goal", f"Mend {secret} soon"
    )
    on.call("context", "archive", "--summary", secret, "--verified", secret)
    assert "[redacted:github-token]" in text(on)
    said = [path for path in on.root.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert said == []
    assert secret not in on.git("log", "-p")
