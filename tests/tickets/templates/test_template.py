"""Templates: read strictly, rendered string by string, each to the tickets that it describes."""

import pytest
from support.templates import FOLDER, VALUES, front, render, template

from tickets.problems import TicketError
from tickets.templates._keys import WrongValueError, read_seconds
from tickets.templates.render import is_template, phase_of, read_template, render_body, render_tickets

FULL = """\
---
agent: codex                  # a comment
phase: phase-2
deliverable: Parser
title: "Port {{ deliverable }}"
mode: write
owns: ["src/parser/**", "tests/parser/**"]
excludes: ["src/parser/generated/**"]
reads: ["docs/spec.md"]
depends_on: [claude-1]
acceptance: ["python -m pytest tests/parser -q"]
timeout: 1h30m
idle_timeout: 90
retries: 0
fallback: [claude]
model: null
budget_usd: 2.50
budget_tokens: 200000
priority: P0
max_files_changed: 20
command: null
---
# {{ worker }}
{{ outputs["claude-1"] }} / {{ project }} {{ phase }} {{ deliverable }} {{ ticket.id }} {{ status }} \
{{ decisions }}
"""


def test_a_full_template_becomes_the_ticket_that_it_describes():
    tickets = render(codex_3=FULL, claude_1="Read the spec.\n")
    ticket = tickets[1]
    assert (ticket.id, ticket.worker, ticket.agent, ticket.title) == (
        "codex-3",
        "Codex-Worker-3",
        "codex",
        "Port Parser",
    )
    assert ticket.owns == ("src/parser/**", "tests/parser/**")
    assert (ticket.timeout, ticket.idle_timeout, ticket.retries, ticket.budget_usd) == (5400, 90, 0, 2.5)
    assert (ticket.priority, ticket.budget_tokens) == ("P0", 200_000)
    assert (ticket.model, ticket.command, ticket.fallback, ticket.max_files_changed) == (
        None,
        None,
        ("claude",),
        20,
    )
    assert render_body(ticket, VALUES, {"claude-1": "{{ 7 * 7 }}", "other": "x"}) == (
        "# Codex-Worker-3\n```text\n{{ 7 * 7 }}\n```\n / demo phase-2 Parser codex-3 \n"
        "```text\nSTATUS TEXT\n```\n```text\nDECISIONS TEXT\n```\n"
    )


def test_two_lines_without_front_matter_are_a_template():
    (ticket,) = render(gemini_4="# {{ worker }}\nPort the parser\n")
    assert (ticket.agent, ticket.worker, ticket.phase, ticket.title, ticket.mode, ticket.timeout) == (
        "gemini",
        "Gemini-Worker-4",
        "phase-2",
        "Port the parser",
        "read-only",
        1800,
    )


@pytest.mark.parametrize("wrapped", [b"\xef\xbb\xbf%s", b"%s"])
def test_a_bom_and_carriage_returns_change_nothing(wrapped):
    data = wrapped % FULL.replace("\n", "\r\n").encode()
    other = template("claude-1", "Read.\n")
    read = render_tickets([read_template(f"{FOLDER}/codex-3.md", data), other], VALUES)
    assert read == render_tickets([template("codex-3", FULL), other], VALUES)


def test_values_keep_the_spelling_of_the_file():
    text = front("""
        phase: 07
        title: yes
        deliverable: 2026-02-16
        matrix: {version: [1.10, 10:30, no]}
    """)
    tickets = render(codex_1=text)
    assert [ticket.id for ticket in tickets] == [
        f"codex-1[version={value}]" for value in ("1.10", "10:30", "no")
    ]
    assert (tickets[0].phase, tickets[0].title, tickets[0].deliverable) == ("07", "yes", "2026-02-16")


def test_a_later_rule_in_the_body_is_not_the_end_of_the_front_matter():
    (ticket,) = render(codex_1=front("title: T", "one\n---\nkey: value\n---\ntwo\n"))
    assert render_body(ticket, VALUES, {}) == "one\n---\nkey: value\n---\ntwo\n"


def test_a_matrix_makes_one_ticket_for_each_combination():
    text = front(
        """
        agent: claude
        mode: write
        owns: ["src/{{ matrix.module }}/{{ matrix['items'] }}/**"]
        matrix: {module: [api, db], items: [x, y]}
        """,
        "{{ matrix.module }}.{{ matrix.items }}",
    )
    tickets = render(port=text)
    assert [(ticket.id, ticket.worker, ticket.owns) for ticket in tickets] == [
        ("port[module=api,items=x]", "Claude-Worker-1", ("src/api/x/**",)),
        ("port[module=api,items=y]", "Claude-Worker-2", ("src/api/y/**",)),
        ("port[module=db,items=x]", "Claude-Worker-3", ("src/db/x/**",)),
        ("port[module=db,items=y]", "Claude-Worker-4", ("src/db/y/**",)),
    ]
    assert render_body(tickets[3], VALUES, {}) == "db.y"


def test_depending_on_a_fan_out_is_depending_on_all_of_it():
    tickets = render(
        codex_1=front("matrix: {m: [a, b]}"),
        codex_2=front("depends_on: [codex-1]", "{{ outputs['codex-1[m=a]'] }}|{{ outputs['codex-1'] }}"),
        codex_3=front('depends_on: ["codex-1[m=b]"]'),
    )
    assert tickets[2].depends_on == ("codex-1[m=a]", "codex-1[m=b]")
    assert tickets[3].depends_on == ("codex-1[m=b]",)
    both = render_body(tickets[2], VALUES, {"codex-1[m=a]": "A", "codex-1[m=b]": "B"})
    first, second = "```text\nA\n```", "```text\nB\n```"
    assert both == f"{first}\n|codex-1[m=a]:\n\n{first}\n\ncodex-1[m=b]:\n\n{second}"


def test_numbered_names_keep_their_number_and_others_take_what_is_free():
    tickets = render(
        codex_10="x",
        codex_2="x",
        codex_fix="x",
        a_review=front("agent: codex"),
        codex_1=front("agent: claude"),
        claude_x="x",
    )
    assert {ticket.id: ticket.worker for ticket in tickets} == {
        "a-review": "Codex-Worker-1",
        "claude-x": "Claude-Worker-1",
        "codex-1": "Claude-Worker-2",
        "codex-2": "Codex-Worker-2",
        "codex-10": "Codex-Worker-10",
        "codex-fix": "Codex-Worker-3",
    }
    assert [ticket.id for ticket in tickets].index("codex-2") < [ticket.id for ticket in tickets].index(
        "codex-10"
    )


def test_the_same_templates_in_another_order_make_the_same_tickets():
    texts = [template(f"codex-{name}", "x") for name in ("b", "a", "2", "c", "1")]
    assert render_tickets(texts, VALUES) == render_tickets(texts[::-1], VALUES)


def test_a_command_needs_no_prompt_and_its_arguments_stay_apart():
    (ticket,) = render(docs=front('agent: command\ncommand: [make, "", "{{ phase }}", make]', ""))
    assert ticket.command == ("make", "", "phase-2", "make")
    assert render_body(ticket, VALUES, {}) == ""


def test_a_body_may_take_an_output_apart_though_its_stand_in_cannot_be():
    body = "{{ outputs['claude-1'].split('## ')[2] }}"
    tickets = render(claude_1="x", codex_1=front("depends_on: [claude-1]", body))
    assert render_body(tickets[1], VALUES, {"claude-1": "a## b## c"}) == "```text\nc\n```"
    with pytest.raises(TicketError, match=r"codex-1\.md:4: list object has no element 2"):
        render_body(tickets[1], VALUES, {"claude-1": "a"})


def test_the_readme_and_hidden_files_are_no_templates():
    names = ["README.md", "readme.md", ".draft.md", "codex-1.txt", "codex-1.md"]
    assert [name for name in names if is_template(f"{FOLDER}/{name}")] == ["codex-1.md"]


def test_a_template_says_its_phase_before_it_is_rendered():
    assert phase_of(template("codex-1", front('phase: "{{ project }}-1"')), VALUES) == "demo-1"
    assert phase_of(template("codex-1", "x"), VALUES) == "phase-2"
    with pytest.raises(TicketError, match="did you mean `project`"):
        phase_of(template("codex-1", front('phase: "{{ projec }}"')), VALUES)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1800), ("90s", 90), ("1h30m", 5400), ("1h0m5s", 3605), ("0.5", 0.5), ("1.5h", 5400), ("7", 7)],
)
def test_durations_are_read_as_people_write_them(text, seconds):
    assert read_seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["0", "-5", "0s", "", "never", "30 m", "m", "1m1h", "inf", "nan", "9" * 400, "1_000"]
)
def test_no_duration_is_endless_or_nothing(text):
    with pytest.raises(WrongValueError):
        read_seconds(text)
