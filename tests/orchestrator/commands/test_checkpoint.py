"""`checkpoint write|list|show` in a project, as a lead calls them, and what validate says of the files."""

import os

import pytest
from support.repository import shell

from orchestrator.state.checkpoints.form import front_matter

FOLDER = "docs/progress"
BAD = {
    "an empty feature": (("write", " ", "--action", "x"), "FEATURE: the text is empty"),
    "an empty action": (("write", "parser", "--action", ""), "--action: the text is empty"),
    "no action": (("write", "parser"), "the following arguments are required: --action"),
    "an unknown stage": (
        ("write", "parser", "--action", "x", "--phase", "coding"),
        "invalid choice: 'coding'",
    ),
    "an unknown status": (("write", "parser", "--action", "x", "--status", "done"), "invalid choice: 'done'"),
    "nothing to show": (("show", "parser"), "there is no checkpoint of `parser`"),
}


def write(lab, feature, *more, code=0):
    """Write a checkpoint; return the answer."""
    called = lab.call("checkpoint", "write", feature, "--json", *more)
    assert called.code == code, called
    return called.document


def files(lab):
    """Return the texts of the folder."""
    return {path.name: path.read_bytes() for path in (lab.root / FOLDER).iterdir() if path.is_file()}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_says_what_is_wrong_and_writes_nothing(lab, kind):
    arguments, said = BAD[kind]
    called = lab.call("checkpoint", *arguments, "--json")
    assert called.code == 2
    assert said in " ".join(called.says())
    assert not (lab.root / FOLDER).exists()


def test_a_checkpoint_is_written_moved_on_listed_and_closed(lab):
    made = write(lab, "Parser / Lexer", "--action", "Read 14 of 20", "--note", "next: escapes")
    one = made["checkpoint"]
    assert (one["feature"], one["agent"], one["team"]) == ("parser-lexer", "lead", "phase-1")
    assert (one["phase"], one["status"]) == ("implementation", "in_progress")
    assert [note["text"] for note in one["notes"]] == ["Read 14 of 20", "next: escapes"]
    assert (made["changed"], made["commit"]) == ([f"{FOLDER}/parser-lexer-lead.md"], None)
    blocked = (
        "--action",
        "Blocked: no schema; needs the schema",
        "--status",
        "blocked",
        "--phase",
        "testing",
    )
    write(lab, "formatter", *blocked, "--agent", "codex-3", "--team", "phase-2")
    listed = lab.call("checkpoint", "list", "--json").document
    assert [(one["feature"], one["needs"]) for one in listed["checkpoints"]] in (
        [("formatter", "the schema"), ("parser-lexer", "")],
        [("parser-lexer", ""), ("formatter", "the schema")],  # within the same second
    )
    assert listed["counts"] == {"in_progress": 1, "blocked": 1, "awaiting_review": 0, "complete": 0}
    of_team = lab.call("checkpoint", "list", "--team", "Phase-2", "--json").document["checkpoints"]
    assert [one["agent"] for one in of_team] == ["codex-3"]
    write(lab, "parser lexer", "--action", "All 20", "--status", "complete")
    assert set(files(lab)) == {"parser-lexer-lead.md", "formatter-codex-3.md"}
    left = lab.call("checkpoint", "list").out
    assert "parser-lexer" not in left
    assert "and 1 complete one (--all)" in left
    assert "parser-lexer" in lab.call("checkpoint", "list", "--all").out
    shown = lab.call("checkpoint", "show", "Parser Lexer").out
    assert "] next: escapes\n" in shown
    assert shown.startswith("complete: parser-lexer by lead, implementation, ")


def test_the_next_state_commit_takes_it_along(lab):
    write(lab, "parser", "--action", "Read 14 of 20")
    assert lab.git("status", "--porcelain") == f"?? {FOLDER}/\n".replace("docs/progress/", "docs/")
    assert lab.call("todo", "add", "Look").code == 0
    assert lab.git("status", "--porcelain") == ""
    assert "Read 14 of 20" in lab.git("show", f"HEAD:{FOLDER}/parser-lead.md")


def test_several_agents_of_one_feature_are_told_apart(lab):
    for agent in ("codex-1", "codex-2"):
        write(lab, "parser", "--action", "begun", "--agent", agent)
    refused = lab.call("checkpoint", "show", "parser", "--json")
    assert refused.code == 2
    assert "`parser` has the checkpoints of codex-1, codex-2; name one: `--agent`" in refused.says()[0]
    assert lab.call("checkpoint", "show", "parser", "--agent", "codex-2").code == 0
    unknown = lab.call("checkpoint", "show", "parser", "--agent", "codex-3", "--json")
    assert "there is no checkpoint of `parser` by `codex-3`; there are: parser" in unknown.says()[0]


def hostile_folder(lab):
    """Make files in the place of checkpoints that are none."""
    place = lab.root / FOLDER
    place.mkdir(parents=True)
    (place / "notes.md").write_text("# Mine\n")
    (place / "broken.md").write_bytes(b'---\nfeature: "a\nagent: b\nstatus: c\n---\n')
    (place / "latin.md").write_bytes(b"---\nfeature: a\n---\n\xff\n")
    (place / "folder.md").mkdir()
    os.mkfifo(place / "pipe.md")
    (place / "away.md").symlink_to("/etc/hostname")
    (place / "data.txt").write_text("---\nfeature: x\nagent: y\nstatus: complete\n---\n")


def test_what_is_no_checkpoint_is_left_alone_and_named_where_it_cannot_be_read(lab):
    hostile_folder(lab)
    before = files(lab) if not (lab.root / FOLDER / "pipe.md").is_file() else None
    listed = lab.call("checkpoint", "list", "--json")
    assert listed.code == 0, listed
    assert listed.document["checkpoints"] == []
    places = {one["place"].partition(":")[0] for one in listed.document["problems"]}
    assert places >= {f"{FOLDER}/{name}.md" for name in ("latin", "folder", "pipe", "away")}
    write(lab, "parser", "--action", "begun")
    after = files(lab)
    assert {name: text for name, text in after.items() if name != "parser-lead.md"} == before


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_a_lead_is_refused_where_the_place_of_the_checkpoint_is_taken(lab, kind):
    place = lab.root / FOLDER / "parser-lead.md"
    place.parent.mkdir(parents=True)
    {
        "folder": place.mkdir,
        "pipe": lambda: os.mkfifo(place),
        "link": lambda: place.symlink_to("/etc/hostname"),
    }[kind]()
    called = lab.call("checkpoint", "write", "parser", "--action", "x", "--json")
    assert called.code == 2
    assert called.says()[0].startswith(f"{FOLDER}/parser-lead.md: ")
    assert [path.name for path in place.parent.iterdir()] == [place.name]


def test_validate_knows_the_file_and_names_two_of_one_pair(lab):
    write(lab, "parser", "--action", "begun")
    text = (lab.root / FOLDER / "parser-lead.md").read_text()
    lab.commit({f"{FOLDER}/old.md": text.replace("in_progress", "in-progress")})
    found = lab.call("validate", "--json").document["problems"]
    said = {(one["place"], one["what"], one["severity"]) for one in found}
    assert (f"{FOLDER}/old.md:1", "`status: in-progress` is read as in_progress", "warning") in said
    twice = f"it is the checkpoint of `parser` by `lead`, as {FOLDER}/old.md is"
    assert (f"{FOLDER}/parser-lead.md", twice, "error") in said
    assert lab.call("validate").code == 1


def test_no_ticket_may_own_a_checkpoint(lab):
    write(lab, "parser", "--action", "begun")
    lab.templates(command_1=shell("true", mode="write", owns=[f"{FOLDER}/**"]))
    refused = lab.call("plan", "phase-1", "--json")
    assert refused.code == 2
    assert any(FOLDER in one for one in refused.says())
    lab.templates(command_1=shell("true", mode="write", owns=["docs/**"]))
    planned = lab.call("plan", "phase-1")
    (told,) = [one for one in (planned.out + planned.err).splitlines() if "is excluded, nothing to do" in one]
    assert told.count(FOLDER) == 1


def test_an_escape_that_names_no_character_is_a_problem_of_its_file(lab):
    bad = '"\\Uffffffff"'
    lab.commit({f"{FOLDER}/a.md": f"---\nfeature: {bad}\nagent: b\nstatus: complete\n---\n"})
    listed = lab.call("checkpoint", "list", "--json")
    assert (listed.code, listed.document["checkpoints"]) == (0, [])
    lab.templates(command_1=shell("true").replace("---\n", f"---\ntitle: {bad}\n", 1))
    for words in (("validate",), ("plan", "phase-1")):
        called = lab.call(*words, "--json")
        assert called.code in (1, 2), called
        assert "invalid Unicode character" in " ".join(called.says())


def test_archive_moves_old_complete_ones_that_a_commit_holds_and_no_others(lab):
    folder = lab.root / "docs/progress"

    def old(name, status, updated="2026-01-02T10:00:00Z", **more):
        values = {"feature": name, "team": "phase-1", "agent": "lead", "phase": "review", "status": status,
                  "last_action": "Accepted (run 20260102_100000)", "updated": updated, **more}  # fmt: skip
        lab.write(
            f"docs/progress/{name}-lead.md", front_matter(values) + "\n## Progress Notes\n\n- [10:00] Done\n"
        )

    old("one", "complete")
    old("two", "complete")
    old("open", "in_progress")
    old("young", "complete", updated="2099-01-02T10:00:00Z")
    lab.commit({"x": "x"})
    old("loose", "complete")
    lab.write("docs/progress/two-lead.md", (folder / "two-lead.md").read_text() + "- [11:00] Edited since\n")
    shown = lab.call("archive", "--dry-run", "--json").document["moved"]
    expected = {
        "kind": "checkpoint",
        "what": "docs/progress/one-lead.md",
        "to": "docs/history/checkpoints-2026.md",
    }
    assert [one for one in shown if one["kind"] == "checkpoint"] == [expected]
    assert (folder / "one-lead.md").exists()
    moved = lab.call("archive", "--json").document
    assert [one for one in moved["moved"] if one["kind"] == "checkpoint"] == [expected]
    assert sorted(path.name for path in folder.iterdir()) == [
        "loose-lead.md", "open-lead.md", "two-lead.md", "young-lead.md"
    ]  # fmt: skip
    line = "- 2026-01-02T10:00:00Z one / lead (phase-1): Accepted (run 20260102_100000)"
    assert line in (lab.root / "docs/history/checkpoints-2026.md").read_text()
    assert lab.git("show", "--format=", "--name-status", moved["commit"]).split() == [
        "A", "docs/history/checkpoints-2026.md", "D", "docs/progress/one-lead.md"
    ]  # fmt: skip
    lab.git("add", "--all")
    lab.git("commit", "--quiet", "--message=mine")
    lab.call("archive")
    assert (lab.root / "docs/history/checkpoints-2026.md").read_text().count("\n- ") == 3
