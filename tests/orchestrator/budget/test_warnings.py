"""What is known of money before a phase starts is said by `plan`, `run` and `deploy`, in the same words."""

import pytest
from support.faults import step, ticket

PLACE = "docs/worker-ticket-templates"
CALLS = (("plan", "phase-1"), ("run", "phase-1"), ("deploy", "phase-1"), ("deploy", "phase-1", "--detach"))


@pytest.fixture
def prepare(rehearsal):
    return rehearsal.prepare_with


def of_money(document):
    """Return the budget report before anything started."""
    said = [one for one in document["problems"] if not one["what"].startswith("over budget: ")]
    return [one for one in said if "USD" in one["what"] or "budget" in one["what"]]


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_an_agent_that_no_limit_holds_is_told_of_by_all_that_start_it(prepare, call):
    lab = prepare(
        {"claude-1": ticket(), "codex-1": ticket(agent="codex"), "gemini-1": ticket(agent="gemini")},
        "[budget]\nrun_usd = 5.00\n",
    )
    document = lab.lab.call(*call, "--json").document
    lab.lab.call("wait", "last", "--timeout", "60")
    assert [(one["place"], one["what"], one["severity"]) for one in of_money(document)] == [
        (name, f"no limit in USD holds {name}: its price is not known", "warning")
        for name in ("codex", "gemini")
    ]
    assert "below `[agents.codex]`" in of_money(document)[0]["do"]


@pytest.mark.parametrize("call", CALLS[:2], ids=" ".join)
def test_a_ticket_that_fits_into_no_run_and_no_day_is_told_of_before_it_is_refused(prepare, call):
    lab = prepare(
        {
            "claude-1": ticket(budget_usd=6.00),
            "claude-2": ticket(budget_usd=5.00, budget_tokens=3000),
            "claude-3": ticket(budget_tokens=2000, budget_usd=4.00),
        },
        "[budget]\nrun_usd = 5.00\nday_usd = 5.50\nday_tokens = 2000\n",
    )
    called = lab.lab.call(*call, "--json")
    said = [(one["place"].partition(":")[0], one["what"], one["do"]) for one in of_money(called.document)]
    assert said == [
        (
            f"{PLACE}/claude-1.md",
            "claude-1 can never start: its budget of $6.00 is more than the run's, $5.00",
            "lower its `budget_usd`, or raise `run_usd` below `[budget]`",
        ),
        (
            f"{PLACE}/claude-1.md",
            "claude-1 can never start: its budget of $6.00 is more than the day's, $5.50",
            "lower its `budget_usd`, or raise `day_usd` below `[budget]`",
        ),
        (
            f"{PLACE}/claude-2.md",
            "claude-2 can never start: its budget of 3,000 tokens is more than the day's, 2,000 tokens",
            "lower its `budget_tokens`, or raise `day_tokens` below `[budget]`",
        ),
    ]
    assert {one["severity"] for one in of_money(called.document)} == {"warning"}
    if call[0] == "run":
        ended = {one["ticket"]: one["outcome"] for one in called.document["workers"]}
        assert ended == {"claude-1": "over_budget", "claude-2": "over_budget", "claude-3": "complete"}


def test_a_fan_out_that_can_never_start_is_one_warning_and_who_is_not_counted_is_none(prepare):
    lab = prepare(
        {
            "claude-1": ticket(budget_usd=6.00, matrix={"module": ["a", "b", "c"]}),
            "command-1": ticket("true", agent="command", budget_usd=7.00),
        },
        "[budget]\nrun_usd = 5.00\n",
    )
    found = of_money(lab.lab.call("plan", "phase-1", "--json").document)
    (one,) = (told for told in found if "command-1" not in told["place"])
    assert one["what"] == "3 tickets can never start: a budget of $6.00 is more than the run's, $5.00"
    # A command costs nothing: its own budget is told of as a key that means nothing.
    assert len(found) == 2


def test_a_ticket_that_is_skipped_is_not_told_of(prepare):
    lab = prepare(
        {"claude-1": ticket(), "codex-1": ticket(agent="codex", budget_usd=6.00)},
        "[budget]\nrun_usd = 5.00\n",
    )
    text = (lab.root / "orchestrate.toml").read_text()
    off = text.replace("[agents.codex]\nenabled = true", "[agents.codex]\nenabled = false")
    assert off != text
    lab.lab.commit({"orchestrate.toml": off})
    assert of_money(lab.lab.call("plan", "phase-1", "--json").document) == []


@pytest.mark.parametrize("call", CALLS[:2], ids=" ".join)
def test_an_agent_that_tickets_only_fall_back_to_is_told_of_too(prepare, call):
    lab = prepare(
        {
            "claude-1": ticket(fallback=["codex"]),
            "claude-2": ticket(fallback=["codex"], matrix={"module": ["a", "b"]}),
            "command-1": ticket("true", agent="command"),
        },
        "[budget]\nrun_usd = 5.00\n",
    )
    (one,) = of_money(lab.lab.call(*call, "--json").document)
    said = "no limit in USD holds codex, to which 3 tickets may fall back: its price is not known"
    assert (one["place"], one["what"]) == ("codex", said)


def test_a_fallback_that_is_off_is_not_told_of_and_one_that_is_on_is_in_the_plan(prepare):
    lab = prepare(
        {"claude-1": ticket(fallback=["codex", "gemini"])},
        '[budget]\nrun_usd = 5.00\n[prices."gpt-5"]\ninput = 1\noutput = 2\n',
    )
    text = (lab.root / "orchestrate.toml").read_text()
    changed = text.replace("[agents.gemini]\nenabled = true", "[agents.gemini]\nenabled = false")
    changed = changed.replace("[agents.codex]\n", '[agents.codex]\nmodel = "gpt-5-mini"\n')
    assert changed.count("\n") == text.count("\n") + 1
    lab.lab.commit({"orchestrate.toml": changed})
    document = lab.lab.call("plan", "phase-1", "--json").document
    assert of_money(document) == []
    known = [(one["agent"], one["tickets"], one["fallback_for"]) for one in document["budget"]["agents"]]
    assert known == [("claude", 1, 0), ("codex", 0, 1)]
    said = lab.lab.call("plan", "phase-1").out
    assert "  codex (gpt-5-mini), as a fallback, reports its use at its end" in said


@pytest.mark.parametrize("call", CALLS[:2], ids=" ".join)
def test_what_the_day_has_spent_already_is_held_against_the_tickets(prepare, call):
    lab = prepare(
        {
            "claude-1": ticket(step("answer", **{"in": 1_000_000, "out": 0}), phase="phase-0"),
            "claude-2": ticket(budget_usd=2.50),
            "claude-3": ticket(budget_usd=6.00),
            "claude-4": ticket(budget_usd=2.00),
            "claude-5": ticket(),
        },
        "[budget]\nday_usd = 5.00\n",
    )
    assert lab.run("run", "phase-0")["workers"][0]["usage"]["cost_usd"] == 3.0
    document = lab.lab.call(*call, "--json").document
    never, today = [one["what"] for one in of_money(document)]
    assert never == "claude-3 can never start: its budget of $6.00 is more than the day's, $5.00"
    assert today == (
        "claude-2 cannot start today: its budget of $2.50 is more than the day has left "
        "($3.00 of $5.00 spent)"
    )


def test_tickets_without_a_budget_are_told_of_once_the_day_is_spent(prepare):
    lab = prepare(
        {
            "claude-1": ticket(step("answer", **{"in": 1_000_000, "out": 0}), phase="phase-0"),
            "claude-2": ticket(),
            "claude-3": ticket(),
            "command-1": ticket("true", agent="command"),
        },
        "[budget]\nday_usd = 3.00\n",
    )
    lab.run("run", "phase-0")
    (one,) = of_money(lab.lab.call("plan", "phase-1", "--json").document)
    said = "2 tickets cannot start today: the day's budget is spent ($3.00 of $3.00 spent)"
    assert one["what"] == said
    assert one["do"] == "continue tomorrow (UTC), or raise `day_usd` below `[budget]`"
