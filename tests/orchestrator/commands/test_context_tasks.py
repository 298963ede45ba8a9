"""`context switch` and `archive`: a task's sections go and come back byte for byte, and none is ever lost."""

import contextlib
import os
import random
import subprocess

import pytest
from support.repository import SCRIPT, shell

from orchestrator.state.ai_memory.context_keys import STAY
from orchestrator.state.ai_memory.context_read import PATH, read
from orchestrator.state.ai_memory.context_tasks import aside, file_of, joined, returned, split

MEMORY = "ai_memory/memory.md"
KILLS = 60 if os.environ.get("ORCHESTRATE_SOAK") == "1" else 8


@pytest.fixture
def on(lab):
    """Return a repository with an active context in which its author has written something everywhere."""
    lab.templates(command_1=shell("true"))
    lab.call("init", "--with", "ai_memory")
    lab.call("context", "init", "--full")
    words = ("next=Mend the `lexer` first", "done=Read it all", "invariants=No network in tests",
             "decisions=Use tabs \u2192 they are shorter", "blockers=May we use AGPL code?",
             "lessons=Escapes are undone in the lexer", "deferred=A faster writer")  # fmt: skip
    adds = [word for one in words for word in ("--add", one)]
    assert lab.call("context", "sync", *adds, "--set", "current_focus=src/app.py line 1").code == 0
    return lab


def context(lab):
    return read((lab.root / PATH).read_bytes())


def of_task(lab):
    """Return what is the task's: the author's items and texts of the sections that go with it."""
    found = {}
    for one in context(lab).sections:
        if one.section.number in STAY:
            continue
        for key in one.keys:
            found[key.name] = [each.text for each in key.items if not each.source] or (
                key.value if not key.items and key.name not in ("plan", "related_docs") else None
            )
        if not one.section.keys:
            texts = [each.text for each in one.items if not each.source]
            found[one.section.title] = [text for text in texts if "current task is" not in text]
    return found


def test_a_switch_there_and_back_loses_nothing(on):
    before = of_task(on)
    away = on.call(
        "context", "switch", "new", "--goal", "Write the writer at last", "--reason", "it waits", "--json"
    )
    assert away.code == 0, away
    assert away.document["context"]["task_id"] == "CODE-REVIEW-002"
    assert away.document["moved"] == [{"what": "CODE-REVIEW-001", "to": "ai_memory/code-review-001_ctx.md"}]
    found = context(on)
    assert [(one.task_id, one.status, one.next, one.lacks) for one in found.secondary] == [
        ("CODE-REVIEW-001", "paused", "Mend the `lexer` first", ())
    ]
    assert "Use tabs" not in (on.root / PATH).read_text()
    assert found.list("Deferred / Parking Lot")[0].text == "A faster writer"
    assert found.list("Decisions")[0].text.endswith(
        "\u2192 current task is CODE-REVIEW-002 instead of CODE-REVIEW-001 \u2192 it waits"
    )
    assert on.call("context", "check", "--json").document["points"][14]["ok"]
    back = on.call("context", "switch", "CODE-REVIEW-001", "--reason", "done with that")
    assert back.code == 0, back
    assert of_task(on) == before
    assert not (on.root / file_of("CODE-REVIEW-001")).exists()
    assert (on.root / file_of("CODE-REVIEW-002")).exists()
    assert [one.task_id for one in context(on).secondary] == ["CODE-REVIEW-002"]
    assert on.git("status", "--porcelain") == ""


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_sections_that_are_put_aside_return_byte_for_byte(on, ending):
    text = (on.root / PATH).read_text().replace("\n", ending).encode()
    document = read(text).document
    parts = split(document)
    assert parts.head + b"".join(
        one.data for one in sorted((*parts.stays, *parts.task), key=lambda one: document.data.index(one.data))
    ) == text  # fmt: skip
    task = returned("x", aside("X-001", parts))
    assert [one.data.rstrip() for one in task] == [one.data.rstrip() for one in parts.task]
    assert [one.number for one in task] == [one.number for one in parts.task]
    again = read(joined(parts, task, b"")).document
    assert [one.section.number for one in read(again.data).sections] == [
        one.section.number for one in read(text).sections
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("GONE-001", "--reason", "x"), "there is no task `GONE-001`"),
        (("CODE-REVIEW-001", "--reason", "x"), "is the current task"),
        (("new", "--reason", " "), "the text is empty"),
        (("new", "--reason", "x", "--id", "CODE-REVIEW-001"), "`CODE-REVIEW-001` is taken"),
        (("new", "--reason", "x", "--id", "lower"), "is no task id"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(on, words, said):
    before = on.everything()
    refused = on.call("context", "switch", *words, "--json")
    assert (refused.code, said in refused.says()[0]) == (2, True), refused
    assert on.everything() == before


def test_a_ninth_secondary_task_is_refused(on):
    for number in range(8):
        assert on.call("context", "switch", "new", "--id", f"T-00{number}", "--reason", "more").code == 0
    refused = on.call("context", "switch", "new", "--id", "T-009", "--reason", "more", "--json")
    assert (refused.code, "9th secondary task" in refused.says()[0]) == (2, True), refused
    assert len(context(on).secondary) == 8


def test_a_task_that_another_lead_works_on_is_left_to_them(on):
    on.call("context", "switch", "new", "--id", "WRITER-001", "--reason", "it waits")
    assert on.call("session", "start", "--task", "CODE-REVIEW-001", "--lead", "Grace").code == 0
    held = on.call("context", "switch", "CODE-REVIEW-001", "--reason", "mine", "--json")
    assert (held.code, "Grace works on CODE-REVIEW-001" in held.says()[0]) == (5, True), held
    assert on.call("context", "switch", "CODE-REVIEW-001", "--reason", "mine", "--force").code == 0


def test_an_archive_leaves_a_short_file_an_entry_and_nothing_lost(on):
    aside_before = split(context(on).document).task
    called = on.call("context", "archive", "--summary", "All of it is reviewed", "--json")
    assert called.code == 0, called
    found = context(on)
    assert (found.text("task_id"), found.text("goal")) == ("none", "none stated")
    kept = (on.root / file_of("CODE-REVIEW-001")).read_bytes()
    assert [one.data.rstrip() for one in returned("x", kept)] == [one.data.rstrip() for one in aside_before]
    memory = (on.root / MEMORY).read_text()
    for line in (
        "### CODE-REVIEW-001: ",
        "- done: All of it is reviewed",
        "- verified: not verified",
        "  - Escapes are undone in the lexer",
        "- context: ai_memory/code-review-001_ctx.md",
    ):
        assert line in memory
    assert on.git("status", "--porcelain") == ""
    code = on.call("context", "check", "--json")
    assert code.code == 0, code.document["problems"]
    assert on.call("context", "archive", "--json").code == 2
    on.call("context", "switch", "new", "--reason", "on with it")
    assert context(on).text("task_id") == "CODE-REVIEW-002"
    on.call("context", "archive", "--verified", "by hand")
    memory = (on.root / MEMORY).read_text()
    assert memory.index("### CODE-REVIEW-002") < memory.index("### CODE-REVIEW-001")


def test_a_memory_of_another_shape_keeps_every_byte(on):
    other = "# Mine\n\nI remember.\n\n## Things\n\n- one\n"
    on.commit({MEMORY: other})
    on.call("context", "switch", "new", "--id", "NEXT-001", "--reason", "x")
    assert on.call("context", "archive", "--next", "CODE-REVIEW-001").code == 0
    after = (on.root / MEMORY).read_text()
    assert after.startswith(other.rstrip("\n"))
    assert "### NEXT-001: " in after
    assert context(on).text("task_id") == "CODE-REVIEW-001"


def test_a_switch_that_is_killed_at_any_moment_loses_and_doubles_no_section(on):
    chance, words = (
        random.Random(20261201),
        ("Use tabs", "Mend the `lexer` first", "Escapes are undone in the lexer"),
    )
    on.call("context", "switch", "new", "--id", "OTHER-001", "--reason", "the other")
    for _ in range(KILLS):
        away = "OTHER-001" if context(on).text("task_id") == "CODE-REVIEW-001" else "CODE-REVIEW-001"
        child = subprocess.Popen(
            [SCRIPT, "context", "switch", away, "--reason", "x"], cwd=on.root, env=on.env(),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(chance.uniform(0.15, 0.5))
        child.kill()
        child.wait()
        assert on.call("resume").code == 0
        everywhere = "".join(path.read_text() for path in (on.root / "ai_memory").glob("*.md"))
        for word in words:
            said = [line for line in everywhere.splitlines() if word in line and "next: " not in line]
            assert len(said) == 1, (word, said)
        assert context(on).text("task_id") in ("CODE-REVIEW-001", "OTHER-001")
        assert len(context(on).secondary) == 1
