"""The long ticket form: what an author leaves out is added, what an author wrote stays."""

import json
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickets.markdown.outline import outline
from tickets.prompt import SECTIONS, PromptContext, long_form
from tickets.ticket import Ticket

TICKET = Ticket(
    id="codex-3",
    template="docs/worker-ticket-templates/codex-3.md",
    worker="Codex-Worker-3",
    agent="codex",
    phase="phase-2",
    deliverable="Parser",
    title="Port the parser",
    body="",
    mode="write",
    owns=("src/parser/**", "src/new.py", "src/old.py"),
    excludes=("src/parser/generated/**",),
    reads=("docs/spec.md",),
    acceptance=("make test",),
)
CONTEXT = PromptContext(
    date(2026, 2, 16),
    blocked_by=("claude-1",),
    blocks=("codex-4",),
    parallel_with=("codex-5", "codex-6"),
    phase_criteria=("reads all fixtures",),
    exists=lambda path: path == "src/old.py",
)


def headings(text, level):
    return [line.title for line in outline(text) if line.level == level]


def test_one_line_becomes_the_whole_form_in_its_order():
    text = long_form(TICKET, "Port it.\n", CONTEXT)
    assert text.startswith(
        "# Codex-Worker-3\n\n**Assigned:** 2026-02-16  \n**Phase:** phase-2  \n**Deliverable:** Parser  \n"
        "**Owner:** Codex-Worker-3  \n\n## Task\n\nPort it.\n\n## Scope\n"
    )
    assert headings(text, 1) == ["Codex-Worker-3"]
    assert tuple(headings(text, 2)) == SECTIONS
    assert headings(text, 3) == [
        "Files Included",
        "Files Excluded",
        "Boundaries",
        "From the Plan",
        "Related Work",
        "Acceptance Criteria",
        "You must",
        "You must not",
        "What Holds for You",
    ]


def test_what_the_plan_knows_stands_in_the_form():
    text = long_form(TICKET, "Port it.\n", CONTEXT)
    for line in (
        "- `src/parser/**` (read-write)",
        "- `src/new.py` (create)",
        "- `src/old.py` (read-write)",
        "- `docs/spec.md` (read)",
        "- `src/parser/generated/**`",
        "- [ ] `make test` exits with 0",
        "- reads all fixtures",
        "- **Blocked By:** `claude-1`",
        "- **Blocks:** `codex-4`",
        "- **Parallel With:** `codex-5`, `codex-6`",
    ):
        assert line in text.split("\n")


def test_of_many_tickets_beside_it_the_rest_is_counted():
    text = long_form(TICKET, "Port it.\n", CONTEXT._replace(parallel_more=9979)).split("\n")
    assert "- **Parallel With:** `codex-5`, `codex-6`, and 9,979 more" in text
    assert text[text.index("- codex-6") + 1] == "- and 9,979 more"


def test_it_ends_with_what_the_result_is_judged_by():
    body = "Port it.\n\n## Scope\n\nEverything!\n\n## Notes\n\nHurry.\n\n## Hints\n\nNone.\n"
    last = long_form(TICKET, body, CONTEXT).split("### What Holds for You")[1]
    assert (
        "- You may change: `src/parser/**`, `src/new.py`, `src/old.py`, without `src/parser/generated/**`."
        in last
    )
    assert "final answer is the report" in last
    assert "docs/progress/" in last
    assert headings(last, 2) == []


@pytest.mark.parametrize("agent", ["codex", "claude", "gemini"])
def test_an_agent_is_told_in_three_lines_how_to_ask_and_codex_where_the_tools_are(agent):
    context = CONTEXT._replace(searches_tools=agent == "codex")
    last = long_form(TICKET._replace(agent=agent), "Port it.\n", context).split("### What Holds for You")[1]
    told = [line for line in last.splitlines() if any(f"`{tool}`" in line for tool in TOOLS)]
    assert len(told) == 3
    assert ("search for `orchestrate send_message`" in last) == (agent == "codex")


def test_a_command_worker_is_told_how_its_shell_asks():
    ticket = TICKET._replace(agent="command", command=("make", "docs"))
    assert '`"$ORCHESTRATE_CLI" worker send --to lead' in long_form(ticket, "", CONTEXT)


def test_what_the_author_wrote_stays_and_is_not_written_twice():
    body = """\
# Codex-Worker-3: the parser

**Owner:** Ada

Read this first.

## Notes

Mine.

## Task

Port it.

## Hints

- one

## Constraints:

### You Must

- be quick
"""
    text = long_form(TICKET, body, CONTEXT)
    assert text.startswith("# Codex-Worker-3: the parser\n\n**Assigned:** 2026-02-16  \n")
    assert (
        "**Owner:** Ada  \n\n## Task\n\nRead this first.\n\nPort it.\n\n## Hints\n\n- one\n\n## Scope\n"
        in text
    )
    assert "## Constraints\n\n### You Must\n\n- be quick\n\n### You must not\n" in text
    assert "## Notes\n\nMine.\n\n### What Holds for You\n" in text
    assert text.count("**Owner:**") == 1
    assert [title for title in headings(text, 2) if title != "Hints"] == list(SECTIONS)


@pytest.mark.parametrize(
    "body", ["/init now", "\n\n/compact", "# /init", "#/x", "# Codex-Worker-33", "", "---\na: b"]
)
def test_no_prompt_begins_with_a_command_of_the_agents_own(body):
    assert long_form(TICKET, body, CONTEXT).startswith("# Codex-Worker-3\n")


@pytest.mark.parametrize("open_", ["```python\nx = 1", "~~~~\n```", "<!-- later"])
def test_a_fence_that_the_author_left_open_swallows_nothing(open_):
    text = long_form(TICKET, f"Port it.\n\n## Questions for Lead\n\n{open_}\n", CONTEXT)
    assert tuple(headings(text, 2)) == SECTIONS
    assert headings(text, 3)[-1] == "What Holds for You"


def test_a_reader_is_told_that_it_may_change_nothing():
    text = long_form(TICKET._replace(mode="read-only"), "Look.\n", CONTEXT)
    assert "- `src/new.py` (read)" in text
    assert "- You may change: nothing." in text
    assert "- create, change or delete any file" in text


def test_a_command_owes_no_report():
    ticket = TICKET._replace(agent="command", command=("make", "docs"))
    text = long_form(ticket, "", CONTEXT)
    assert "Runs: `make docs`" in text
    assert "ORCHESTRATE-RESULT" in text
    assert "## Summary" not in text


TOOLS = ("send_message", "blocker", "inbox")
SCRAPS = st.sampled_from(
    ["# A", "## Task", "## Scope", "### Boundaries", "## Notes", "## X", "```", "<!--", "text", ""]
)


@settings(max_examples=60)
@given(st.lists(st.one_of(SCRAPS, st.text(max_size=15)), max_size=12))
def test_whatever_the_author_wrote_the_form_is_whole_and_nothing_is_lost(lines):
    body = "\n".join(lines)
    text = long_form(TICKET, body, CONTEXT)
    assert text.startswith("# Codex-Worker-3")
    titles = headings(text, 2)
    assert [title for title in SECTIONS if title in titles] == list(SECTIONS)
    assert headings(text, 3)[-1] == "What Holds for You"
    for line in outline(body):
        if not line.level and line.text.strip():
            assert line.text.strip() in text


def test_both_budgets_stand_in_the_notes_where_they_are_set():
    limited = TICKET._replace(budget_usd=2.5, budget_tokens=200_000)
    text = long_form(limited, "Port it.\n", CONTEXT)
    assert "\n- Budget: 2.50 USD\n- Budget: 200,000 tokens\n" in text
    assert "Budget" not in long_form(TICKET, "Port it.\n", CONTEXT)


def test_tickets_of_one_template_hold_what_they_have_in_common_once():
    asked = json.dumps({**TICKET._asdict(), "body": "Port it. " * 50, "lines": {"title": 3, "body": 9}})
    one, two = (Ticket(**{**json.loads(asked), "id": f"codex-3[n={n}]"}).shared() for n in (1, 2))
    assert one.body is two.body
    assert one.lines is two.lines
    other = one.done_by("claude")
    assert (other.agent, one.agent, other.body) == ("claude", "codex", one.body)
    assert one.place("title") == "docs/worker-ticket-templates/codex-3.md:3"
