"""docs/templates.md: its templates are rendered, and its statements are true."""

import re

import pytest
from support.paths import ROOT

from tickets.plan import make_plan
from tickets.scopes.rules import PathRules
from tickets.templates._keys import KEYS
from tickets.templates.render import FOLDER, Values, read_template, render_body, render_tickets

PAGE = (ROOT / "docs" / "templates.md").read_text()
PARSER, SWEEP, REVIEW = re.findall(r"^```markdown\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
VALUES = Values(project="shop", phase="phase-2", deliverable="Parser")


def render(**texts):
    files = {stem.replace("_", "-"): text for stem, text in texts.items()}
    return render_tickets(
        [read_template(f"{FOLDER}/{stem}.md", text.encode()) for stem, text in files.items()], VALUES
    )


def test_the_long_example_is_a_ticket_with_every_key_but_those_of_its_surroundings():
    ticket, _ = sorted(render(codex_1=PARSER, claude_1="Review.\n"), key=lambda one: one.agent == "claude")
    assert KEYS.keys() - ticket.lines.keys() == {
        "model", "matrix", "command", "env", "cwd", "setup", "phase_worker", "plans",
    }  # fmt: skip
    assert (ticket.priority, ticket.budget_usd, ticket.budget_tokens) == ("P0", 2.5, 200_000)
    assert render_body(ticket, VALUES, {"claude-1": "Two passes."}).endswith(
        "\n\n```text\nTwo passes.\n```\n"
    )


def test_the_sweep_runs_at_once_and_its_review_waits_for_all_of_it():
    tickets = render(codex_3=SWEEP, claude_1=REVIEW)
    made = make_plan(tickets, PathRules())
    assert (made.problems, made.overlaps) == ((), ())
    sweep = tuple(f"codex-3[package={name}]" for name in ("api", "db", "web"))
    assert made.dependencies == {"claude-1": sweep, **dict.fromkeys(sweep, ())}
    review = next(ticket for ticket in tickets if ticket.id == "claude-1")
    assert "codex-3[package=db]:\n\n```text\ntyped\n```" in render_body(
        review, VALUES, dict.fromkeys(sweep, "typed")
    )
    assert all(f"`{id_}`" in PAGE for id_ in sweep)


def test_the_message_about_a_key_that_is_not_used_is_the_one_that_comes():
    (problem,) = make_plan(
        render(codex_3=SWEEP.replace("packages/{{ matrix.package }}/**", "src/**", 1)), PathRules()
    ).problems
    assert str(problem).removeprefix(f"{FOLDER}/") in PAGE


@pytest.mark.parametrize("text", ["3.10", "true", "a/b"])
def test_a_value_stays_as_the_page_says(text):
    (ticket,) = render(codex_3=SWEEP.replace("[api, db, web]", f"[{text}]"))
    assert ticket.matrix == {"package": text}


def test_the_table_beside_the_templates_has_every_key():
    listed = (ROOT / FOLDER / "README.md").read_text().partition("## Front matter")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", listed, re.MULTILINE) == list(KEYS)
