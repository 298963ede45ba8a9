"""Validation names every fault with its line, and every habit that loses what a new lead needs."""

import os
import re
from datetime import UTC, datetime, timedelta

import pytest
from support.repository import TEMPLATES, shell, template

from orchestrator.settings.settings import read_settings
from orchestrator.state.canonical.decisions import decisions
from orchestrator.state.canonical.habits import anti_patterns
from orchestrator.state.canonical.rules import rules
from orchestrator.state.canonical.status import status
from orchestrator.state.document import damage
from orchestrator.state.facts import Facts

AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
FACTS = Facts("Demo", "Ada", AT)
TEXTS = {
    module.OWNS[0]: module.initial(FACTS).encode() for module in (status, decisions, rules)
}  # fmt: skip


def said(old=b"", new=b"", path="STATUS.md", uncommitted=(), last_commit=AT):
    assert old in TEXTS[path]
    texts = {**TEXTS, path: TEXTS[path].replace(old, new, 1)} if old else TEXTS
    found = anti_patterns(texts, uncommitted, last_commit)
    assert all(one.severity == "warning" and one.do for one in found)
    return [f"{one.place}: {one.what}" for one in found]


def test_what_init_writes_shows_none_of_them():
    assert said() == []
    assert [damage(path, text) for path, text in TEXTS.items()] == [[], [], []]


HABITS = {
    "stale beside the log": (
        (b"## 2026-02-16:", b"## 2026-02-26:", "DECISIONS.md"),
        "older than the newest decision",
    ),
    "no priority": ((b"### P0", b"- [ ] loose\n\n### P0"), "`loose` has no priority"),
    "no P0": ((b"### P0 (Critical)", b"### P0 (Critical)\n\n### Later"), "no P0 item is open"),
    "no context": ((b"**Context:** Work", b"Work", "DECISIONS.md"), "does not state its context"),
    "an empty context": (
        (re.search(rb"\*\*Context:.*", TEXTS["DECISIONS.md"])[0], b"**Context:**", "DECISIONS.md"),
        "state its context",
    ),
    "a form left empty": (
        (b"**Decision:** State", b"**Decision:** [what] State", "DECISIONS.md"),
        "its decision",
    ),
    "a vague deliverable": ((b"Code review\n", b"TBD\n"), "`TBD` is a placeholder"),
    "a nameless deliverable": ((b"Code review\n**Status", b"**Status"), "no deliverable is named"),
    "a deliverable of no plan": ((b"Code review\n", b"World peace\n"), "is none of Phase 1: Review"),
    "a deliverable without status": ((b"**Status:** NEXT\n", b""), "has no status"),
    "no criteria": ((b"**Acceptance Criteria:**", b"**Also:**"), "has no acceptance criteria"),
    "no resume checklist": ((b"## Resume Checklist", b"## Notes"), None),
    "no scope": ((b"**Active Workers:**", b"**Active Workers:**\n- Codex-Worker-1: Port"), "without a scope"),
    "no test figure": ((b"**Tests:** not run", b""), "Progress has no line `Tests`"),
}


@pytest.mark.parametrize("name", HABITS)
def test_a_habit_that_loses_knowledge_is_a_warning(name):
    arguments, words = HABITS[name]
    if words is None:
        old, new = arguments
        found = [one.what for one in status.problems(TEXTS["STATUS.md"].replace(old, new))]
        words = "section `Resume Checklist` is missing"
    else:
        found = said(*arguments)
    assert any(words in line for line in found), found


@pytest.mark.parametrize(
    "form", ["**Context:**\n\nWork", "**Context**: Work", "### Context\n\nWork", "- Context: W"]
)
def test_a_context_is_seen_however_it_is_spelled(form):
    assert said(b"**Context:** Work", form.encode(), "DECISIONS.md") == []


def test_a_status_far_behind_the_commits_is_stale_and_an_uncommitted_one_is_named():
    assert said(last_commit=AT + timedelta(days=7)) == []
    assert "9 days older than the newest commit" in said(last_commit=AT + timedelta(days=9))[0]
    assert said(uncommitted={"STATUS.md", "src/x"}) == ["STATUS.md: has changes that are not committed"]


@pytest.mark.parametrize("text", [b"", b"\xff", b"words", b"# T\n\n## 2026-99-99\n", b"- [ ] x\n```\n\0"])
def test_no_text_is_too_odd_to_be_looked_at(text):
    for path in TEXTS:
        anti_patterns({**TEXTS, path: text}, (), None)
        damage(path, text)


def test_a_clean_project_validates_with_exit_0_and_warnings_do_not_change_that(lab):
    called = lab.call("validate", "--json")
    assert called.code == 0, called
    assert [one["path"] for one in called.document["files"]] == ["STATUS.md", "DECISIONS.md", "AGENTS.md"]
    lab.write("STATUS.md", (lab.root / "STATUS.md").read_text().replace("Code review\n**", "TBD\n**"))
    called = lab.call("validate", "--json")
    assert (called.code, called.document["ok"]) == (0, True)
    assert {one["severity"] for one in called.document["problems"]} == {"warning"}


def test_errors_come_first_with_their_lines_and_exit_1(lab):
    text = (lab.root / "STATUS.md").read_text()
    line = text[: text.index("## Resume")].count("\n") + 1
    lab.write("STATUS.md", text.replace("## Resume", "```\n## Resume"))
    (lab.root / "AGENTS.md").unlink()
    before = lab.everything()
    called = lab.call("validate", "--json")
    assert called.code == 1
    assert called.says()[:2] == [
        "AGENTS.md: the file is missing; `orchestrate init` writes it",
        f"STATUS.md:{line}: a code fence is never closed, so what follows is code; close it",
    ]
    assert lab.everything() == before
    assert lab.call("validate", "DECISIONS.md").code == 0
    assert lab.call("validate", "src/app.py", "--json").code == 2


def test_templates_and_settings_are_looked_at_too(lab):
    make = template
    lab.templates(
        command_1=make(mode="write", owns=["src/**"], phase="phase-3"),
        command_2=make(mode="write", owns=["src/app.py"], phase="phase-3"),
        command_3=make(mode="write", owns=["src/**"], phase="phase-4"),
    )
    before = lab.everything()
    called = lab.call("validate", "--json")
    (problem,) = [one for one in called.document["problems"] if one["severity"] == "error"]
    assert (called.code, problem["place"].partition(":")[0]) == (1, f"{TEMPLATES}/command-2.md"), called
    assert "src/app.py" in problem["what"]
    assert lab.call("validate", f"{TEMPLATES}/command-3.md").code == 0
    assert lab.everything() == before
    lab.templates(command_2=make(tittle="x", phase="phase-3"), command_5="---\nowns: [\n---\nx\n")
    lab.commit({"orchestrate.toml": "[git]\nhook = true\n"})
    problems = lab.call("validate", "--json").document["problems"]
    places = {one["place"] for one in problems if one["severity"] == "error"}
    assert places == {
        f"{TEMPLATES}/command-2.md:7", f"{TEMPLATES}/command-5.md:3", "orchestrate.toml:2",
    }  # fmt: skip
    called = lab.call("validate", "orchestrate.toml", "--json")
    assert (called.code, [one["errors"] for one in called.document["files"]]) == (1, [1])
    assert lab.call("validate", "STATUS.md").code == 0


@pytest.mark.parametrize("command", [["plan", "phase-1"], ["run", "phase-1"], ["validate"]])
def test_a_mistake_in_one_template_hides_none_in_another(lab, command):
    make = template
    lab.templates(
        command_1=make(acceptance="x", foo=1, depends_on=["nope"]),
        command_2=make(timeout="soon") + "{{ nosuch }}\n",
    )
    problems = lab.call(*command, "--json").document["problems"]
    said = sorted(one["what"] for one in problems if one["severity"] == "error")
    assert [what.partition(":")[0] for what in said] == [
        "`acceptance` must be a list of strings", "`foo` is not a key of a template", "`timeout`", "the body",
    ]  # fmt: skip
    lab.templates(command_1=make(depends_on=["nope"]), command_2=make(mode="write", owns=["STATUS.md"]))
    problems = lab.call(*command, "--json").document["problems"]
    said = sorted(one["what"] for one in problems if one["severity"] == "error")
    assert said == [
        "`STATUS.md` lies in what no ticket owns (`STATUS.md`)", "there is no ticket `nope` here",
    ]  # fmt: skip


def unplanned(lab):
    """Return the problems about phases that the plan does not have."""
    problems = lab.call("validate", "--json").document["problems"]
    return [one["what"] for one in problems if "has no phase" in one["what"]]


def test_a_phase_of_no_plan_names_all_its_templates_and_counts_many(lab):
    lab.templates(**{f"command_{n}": template(phase="phase-9") for n in (1, 2, 3)})
    (said,) = unplanned(lab)
    assert said == "STATUS.md has no phase that `phase-9` names (also in command-2.md, command-3.md)"
    assert " 1 warning, 0 infos" in lab.call("validate", f"{TEMPLATES}/command-1.md").out
    assert "1 file: 0 errors, 0 warnings, " in lab.call("validate", "AGENTS.md").out
    lab.templates(**{f"command_{n}": template(phase="phase-9") for n in range(1, 10)})
    (said,) = unplanned(lab)
    assert said.endswith("command-5.md, command-6.md and 3 more)")


def test_an_archive_of_decisions_that_cannot_be_read_is_an_error(lab):
    lab.write("docs/decisions/2025.md", "# Decisions\n")
    assert lab.call("validate", "docs/decisions/2025.md").code == 0
    (lab.root / "docs/decisions/2025.md").write_bytes(b"# D\n\n\xff\n")
    assert "docs/decisions/2025.md:3: " in lab.call("validate", "--json").says()[0]


def test_an_edited_decision_is_named_with_its_commit_and_left_alone_once_acknowledged(lab):
    text = (lab.root / "DECISIONS.md").read_text()
    lab.commit({"DECISIONS.md": text.replace("any lead can", "no lead can")})
    sha = lab.git("rev-parse", "HEAD")[:12]
    called = lab.call("validate", "DECISIONS.md", "--json")
    (problem,) = called.document["problems"]
    assert (called.code, problem["severity"]) == (0, "warning")
    assert problem["what"].endswith(f"was edited in commit {sha}")
    assert "2026-02-16: Lead this project with orchestrate" in problem["what"]
    assert lab.call("decide", "--acknowledge-edit").code == 0
    assert lab.call("validate", "DECISIONS.md", "--json").document["problems"] == []


def test_a_larger_pool_holds_once_it_is_approved(lab):
    lab.commit({"AGENTS.md": (lab.root / "AGENTS.md").read_text().replace("workers: 15", "workers: 20")})
    called = lab.call("validate", "--json")
    assert called.code == 1
    assert "needs an approval" in called.says()[0]
    assert read_settings(lab.root).slots.total == 15
    lab.templates(command_1=template())
    for command in ("plan", "run", "deploy"):
        called = lab.call(command, "phase-1", "--json")
        assert (called.code, called.document["next_action"], called.document["waiting_for"]) == (
            4,
            None,
            "user",
        )
        then = f"--then '{command} phase-1'"
        assert called.document["when_approved"] == f"orchestrate approve pool-20 --by NAME {then}"
    assert lab.call("todo", "add", "Ask Ada").code == 0
    assert lab.call("approve", "pool", "--by", "Ada", "--json").document["approval"]["gate"] == "pool-20"
    assert lab.call("validate").code == 0
    assert lab.call("plan", "phase-1").code == 0
    assert lab.call("resume", "--json").document["rules"]["pool"]["total"] == 20
    assert read_settings(lab.root).slots.total == 20
    lab.call("approve", "pool-20", "--by", "Ada", "--reject")
    assert lab.call("validate").code == 1


def test_a_run_that_landed_and_was_never_recorded_is_named(lab):
    lab.templates(command_1=template(), command_2=shell("echo 1 > one", mode="write", owns=["one"]))
    document = lab.call("run", "phase-1", "--json").document
    run, landing = document["run"], document["commit"]["landing"]
    assert lab.call("validate", "STATUS.md", "--json").says() == []
    recorded = (lab.root / "STATUS.md").read_text()
    lab.git("reset", "-q", "--hard", landing)
    shown = f"STATUS.md: run {run} has landed (commit {landing[:10]}) and is not recorded"
    assert [one for one in lab.call("validate", "--json").says() if one.startswith(shown)]
    # A line of an old version tells of it, as does an entry of the log, by whomever it was written.
    lab.write("STATUS.md", recorded.replace(f"{run}, phase-1)", f"{run})"))
    assert not [one for one in lab.call("validate", "--json").says() if one.startswith(shown)]
    lab.git("checkout", "-q", "STATUS.md")
    words = ("--context", "It was lost.", "--decision", "It stands.")
    assert lab.call("decide", f"Integrated run {run} (phase-1)", *words).code == 0
    assert not [one for one in lab.call("validate", "--json").says() if one.startswith(shown)]


def test_a_path_is_relative_to_the_callers_folder_also_upwards(lab):
    (lab.root / "src").mkdir(exist_ok=True)
    for path in ("../STATUS.md", "../src/../STATUS.md", "STATUS.md", str(lab.root / "STATUS.md")):
        called = lab.call("validate", path, "--json", cwd=lab.root / "src")
        assert [one["path"] for one in called.document["files"]] == ["STATUS.md"], path


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_at_the_place_of_a_state_file_is_named(lab, make):
    assert lab.call("init", "--with", "phases").code == 0
    (lab.root / "phases/phase-1").mkdir(parents=True)
    make(lab.root / "phases/phase-1/PLAN.md")
    called = lab.call("validate", "--json")
    assert called.code == 1
    assert any(line.startswith("phases/phase-1/PLAN.md: cannot be read: ") for line in called.says())
