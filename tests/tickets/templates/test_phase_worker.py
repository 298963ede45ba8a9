"""Phase workers in templates: one for each phase, with plans that are named in one form."""

from datetime import date

import pytest
from support.templates import VALUES, complaints, front, render

from tickets.problems import TicketError
from tickets.prompt import PromptContext, long_form
from tickets.templates.render import render_body
from tickets.ticket import AssignedPlan, plan_id_fault, plan_lines, plan_named

PLANS = (
    AssignedPlan("02-01", "Lexer", "make lexer", ("Token kinds", "Positions")),
    AssignedPlan("02-02", "Grammar"),
)
LISTED = (
    "- `02-01`: Lexer; complete when `make lexer` passes\n  - Token kinds\n  - Positions\n- `02-02`: Grammar"
)
WORKER = front('phase_worker: true\nplans: ["02-01: Lexer", "02-02 - The grammar"]', "Lead.\n\n{{ plans }}\n")


def test_a_phase_worker_names_its_plans():
    (ticket,) = render(claude_1=WORKER)
    assert ticket.phase_worker
    assert ticket.plans == ("02-01: Lexer", "02-02 - The grammar")
    assert ticket.named_plans == (AssignedPlan("02-01", "Lexer"), AssignedPlan("02-02", "The grammar"))


def test_other_tickets_own_no_plans():
    (ticket,) = render(claude_1="Do it.\n")
    assert (ticket.phase_worker, ticket.plans) == (False, ())
    assert not render(claude_1=front("phase_worker: false"))[0].phase_worker


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ("phase_worker: yes", "`phase_worker`: `yes` is neither true nor false; write `true` or `false`"),
        (
            'phase_worker: true\nplans: ["Lexer"]',
            '`plans`: `Lexer` names no plan; write it as "02-01: Lexer"',
        ),
        ('phase_worker: true\nplans: ["02..1: x"]', "`plans`: `02..1` is no id"),
        (
            'phase_worker: true\nplans: ["1: a", "1: b"]',
            "there are two plans `1`; give one of them another id",
        ),
        ('plans: ["1: a"]', "only a phase worker has plans; add `phase_worker: true`"),
        ('phase_worker: false\nplans: ["1: a"]', "only a phase worker has plans"),
        ("phase_worker: true\nmatrix: {m: [a, b]}", "a phase has one phase worker, and `matrix` makes more"),
        ("phase_worker: true\nmatrix: {m: [a]}", "a phase has one phase worker, and `matrix` makes more"),
        ("plans: 1", "`plans` must be a list of strings"),
    ],
)
def test_what_cannot_be_a_phase_worker_is_refused(lines, what):
    found = complaints("claude-1", front(lines))
    assert any(what in one for one in found), found


def test_two_phase_workers_of_a_phase_are_refused_at_the_second():
    with pytest.raises(TicketError) as caught:
        render(claude_1=WORKER, codex_1=front("title: x\nphase_worker: true"))
    (problem,) = caught.value.problems
    assert str(problem) == (
        "docs/worker-ticket-templates/codex-1.md:3: the phase has a phase worker already: "
        "docs/worker-ticket-templates/claude-1.md; keep one of them"
    )


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("02-01: Lexer", ("02-01", "Lexer")), ("1 - A b", ("1", "A b")), ("a:b: c", ("a:b", "c")),
        ("02-01:", None), ("Lexer", None), ("", None), (": x", None),
    ],
)  # fmt: skip
def test_a_plan_has_two_forms(said, named):
    assert plan_named(said) == named


@pytest.mark.parametrize("id_", ["02-01", "a", "A.b_c-d", "0" * 32])
def test_an_id_is_a_part_of_a_refs_name(id_):
    assert plan_id_fault(id_) == ""


@pytest.mark.parametrize("id_", ["", "-a", "a/b", "a..b", "a.", "a.lock", "0" * 33, "é", "a b"])
def test_what_is_no_part_of_one_is_no_id(id_):
    assert plan_id_fault(id_)


# In the prompt


def test_the_plans_that_are_left_are_listed_where_the_author_wants_them():
    (ticket,) = render(claude_1=WORKER)
    assert LISTED in render_body(ticket, VALUES._replace(plans=PLANS), {})
    assert render_body(ticket, VALUES._replace(plans=()), {}).endswith("Lead.\n\nNone.\n")


def test_without_a_plan_file_they_are_those_of_the_template():
    (ticket,) = render(
        claude_1=front('phase_worker: true\nplans: ["1: a"]', "{{ plans[0].title }} {{ plans }}\n")
    )
    assert render_body(ticket, VALUES, {}).endswith("a - `1`: a\n")


def test_each_plan_has_its_parts():
    body = (
        "Lead: {% for plan in plans %}{{ plan.id }} {{ plan.verify }} {{ plan.tasks|length }};{% endfor %}\n"
    )
    (ticket,) = render(claude_1=front("phase_worker: true", body))
    assert render_body(ticket, VALUES._replace(plans=PLANS), {}).endswith(
        "Lead: 02-01 make lexer 2;02-02  0;\n"
    )


@pytest.mark.parametrize("is_one", [True, False])
def test_the_long_form_has_them_under_context(is_one):
    (ticket,) = render(claude_1=front(f"phase_worker: {str(is_one).lower()}"))
    text = long_form(ticket, "Lead.\n", PromptContext(date(2026, 2, 16), plans=PLANS))
    assert (f"### Plans\n\n{LISTED}\n\n### Related Work" in text.partition("## Context")[2]) is is_one
    assert text.count("### Plans") == is_one


def test_what_the_author_wrote_of_them_stays():
    (ticket,) = render(claude_1=front("phase_worker: true"))
    body = "Lead.\n\n## Context\n\n### Plans\n\nAs I say.\n"
    text = long_form(ticket, body, PromptContext(date(2026, 2, 16), plans=PLANS))
    assert "### Plans\n\nAs I say.\n" in text
    assert text.count("### Plans") == 1


def test_a_list_without_plans_says_so():
    assert plan_lines(()) == "None."
    assert plan_lines(PLANS) == LISTED
