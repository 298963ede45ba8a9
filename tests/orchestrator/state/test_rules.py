"""AGENTS.md: the pool in the spellings people use, and sections added to what is there."""

from datetime import UTC, datetime

import pytest

from orchestrator.state import ALWAYS, documents
from orchestrator.state.canonical.rules import rules
from orchestrator.state.canonical.rules.rules import Pool
from orchestrator.state.facts import Facts

FACTS = Facts("Demo", "Ada", datetime(2026, 2, 16, tzinfo=UTC))
START = rules.initial(FACTS).encode()


def pool(lines):
    return rules.read_pool(f"# Rules\n\n## Worker Orchestration\n\n{lines}\n".encode())


def test_the_first_file_has_no_findings_and_states_the_default_pool():
    assert rules.problems(START) == []
    assert rules.read_pool(START) == (Pool(by_default=()), [])
    assert Pool().as_json() == {
        "total": 15, "codex": 5, "claude": 5, "gemini": 5,
        "codex_enabled": True, "claude_enabled": True, "gemini_enabled": False,
    }  # fmt: skip
    assert START.endswith(b"\n\n---\n\n**Agents File End**\n")
    heads = [line for line in START.decode().splitlines() if line.startswith("## ")]
    assert heads == [
        "## Lead Conductor Role",
        "## Worker Orchestration",
        "## Status Report Protocol",
        "## Approval Gates",
    ]


def test_a_worker_that_reads_the_first_file_is_told_its_part_at_the_top():
    head = START.decode().split("\n---\n")[0]
    assert "**worker**" in head
    assert "Worker Orchestration" in head
    section = START.decode().split("## Worker Orchestration")[1].split("\n---\n")[0]
    for words in (
        "do not commit",
        "BLOCKED",
        "NEEDS_CLARIFICATION",
        "Affected Files",
        "Risks and Alternatives",
        "not yours",
    ):
        assert words in section


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("- Maximum workers: 8\n  - Codex: 3 workers\n  - Claude: 4 workers",
         {"total": 8, "codex": 3, "claude": 4}),
        ("Max workers: 6\nCodex: 2", {"total": 6, "codex": 2}),
        ("**Codex:** 2 workers\n**Claude Code:** 1", {"codex": 2, "claude": 1}),
        ("- Gemini: 2 workers (ENABLED)", {"gemini": 2, "gemini_enabled": True}),
        ("- Gemini: 2 workers", {"gemini": 2, "gemini_enabled": True}),
        ("- Gemini: 5 workers (optional, disabled by default)", {}),
        ("- Gemini: ENABLED", {"gemini_enabled": True}),
        ("- Codex: DISABLED", {"codex_enabled": False}),
        ("### Codex Workers\n\n- **Pool Size**: 4\n- Status: ENABLED", {"codex": 4}),
        ("### Gemini\n\nPool Size: 2\nStatus: DISABLED", {"gemini": 2}),
        ("### Gemini (ENABLED)\n\n**Pool Size:** 3", {"gemini": 3, "gemini_enabled": True}),
    ],
)  # fmt: skip
def test_the_pool_is_read_in_the_spellings_people_use(lines, expected):
    found, problems = pool(lines)
    assert (found.as_json(), problems) == (Pool().as_json() | expected, [])


ALL = "- Maximum workers: 15\n  - Codex: 5 workers\n  - Claude: 5 workers"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("workers: 15", "workers: lots", "`Maximum workers: lots` states no number of workers, so 15 hold"),
        ("workers: 15", "workers: -3", "`Maximum workers: -3` states no number of workers, so 15 hold"),
        ("workers: 15", "workers: 2.5", "`Maximum workers: 2.5` states no number"),
        ("workers: 15", "workers:", "`Maximum workers:` states no number of workers, so 15 hold"),
        ("Codex: 5 workers", "Codex: three", "`Codex: three` states no number of workers, so 5 hold"),
        ("Codex: 5 workers", "Codex: -2", "`Codex: -2` states no number of workers, so 5 hold"),
        ("Codex: 5 workers", "Codex: 25", "25 codex workers are more than the whole pool of 15, which holds"),
    ],
)
def test_a_number_that_is_none_is_told_with_the_one_that_holds(old, new, said):
    found, (problem,) = pool(ALL.replace(old, new))
    assert (found.total, problem.severity) == (15, "warning")
    assert problem.what.startswith(said)
    assert problem.do


@pytest.mark.parametrize("line", ["- Claude: reads CLAUDE.md before all else", "- Codex: 0 workers", ""])
def test_words_about_an_agent_are_no_number_that_fails(line):
    assert pool(f"- Maximum workers: 4\n- Gemini: 2\n{line}")[1] == []


def test_a_pool_in_a_code_block_or_elsewhere_is_not_ours():
    text = b"# T\n\n## Style\n\nClaude: 3 tips\n\n## Workers\n\n```\nCodex: 1\n```\n"
    found, problems = rules.read_pool(text)
    assert found == Pool()
    assert [problem.severity for problem in problems] == ["warning"]


@pytest.mark.parametrize("text", [None, b"", b"# Coding guidance\n\nUse tabs.\n"])
def test_without_a_pool_the_defaults_hold_and_it_is_said(text):
    found, (problem,) = rules.read_pool(text)
    assert found == Pool()
    assert problem.severity == "warning"
    assert "defaults" in problem.what


def test_more_than_fifteen_needs_an_approval():
    found, (problem,) = pool("- Maximum workers: 20")
    assert (found.total, problem.severity, problem.place) == (15, "error", "AGENTS.md:5")
    text = b"# R\n\n## Worker Orchestration\n\n- Maximum workers: 20\n"
    assert rules.read_pool(text, approved=20) == (Pool(total=20), [])


def test_of_two_numbers_the_smaller_holds_until_one_is_taken_out():
    found, (problem,) = pool("- Codex: 5 workers\n- Codex: 2 workers")
    assert found.agents["codex"] == 2
    assert problem.place == "AGENTS.md:6"


@pytest.mark.parametrize(
    "before",
    [
        b"# Guide\n\nUse tabs.\n\n## Build\n\n    make\n",
        b"words",
        b"# Guide\r\n\r\n## Approval Gates\r\n\r\nask me\r\n",
        b"",
    ],
)
def test_guidance_that_is_there_keeps_every_byte(before):
    text = rules.complete(before, FACTS)
    assert text.startswith(before)
    assert rules.complete(text, FACTS) == text
    assert rules.problems(text) == []


def test_every_document_says_what_it_owns_and_no_two_own_the_same():
    owned = [pattern for document in documents(ALWAYS) for pattern in document.OWNS]
    assert {"STATUS.md", "DECISIONS.md", "AGENTS.md"} <= set(owned)
    assert len(owned) == len(set(owned))
