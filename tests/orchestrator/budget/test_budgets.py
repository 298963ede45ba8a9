"""Money as a user meets it: what is planned, what strikes, and what is shown afterwards."""

import json
from datetime import UTC, datetime

import pytest
from support.faults import step, ticket

PRICED = """
[prices."gpt-5"]
input = 2.00
output = 8.00
"""


def answer(taken, given):
    return step("answer", **{"in": taken, "out": given})


THREE_DOLLARS = answer(1_000_000, 0)
"""At the price that the fake claude asks."""


@pytest.fixture
def prepare(rehearsal):
    return rehearsal.prepare_with


def ledger(rehearsal):
    (path,) = (rehearsal.root / ".git/orchestrate/spending").glob("*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_a_run_cost_is_counted_and_shown_where_nothing_is_limited(prepare):
    lab = prepare(
        {
            "claude-1": ticket(THREE_DOLLARS),
            "codex-1": ticket(answer(500_000, 1_000), agent="codex", model="gpt-5-mini"),
            "codex-2": ticket(answer(40_000, 60), agent="codex", model="o5"),
        },
        PRICED,
    )  # fmt: skip
    document = lab.run()
    assert "spent:    $4.01, 1.5M tokens (40.1k not priced)\n" in lab.lab.call("integrate", "last").out
    used = {one["ticket"]: one["usage"] for one in document["workers"]}
    assert {name: (one["cost_usd"], one["cost_by"]) for name, one in used.items()} == {
        "claude-1": (3.0, "agent"), "codex-1": (1.008, "table"), "codex-2": (None, "unpriced"),
    }  # fmt: skip
    status = lab.lab.call("status", "--json").document
    spent = {
        "usd": 4.008, "tokens": 1_541_060, "unpriced_tokens": 40_060, "held_usd": 0.0, "held_tokens": 0,
        "held_by": 0,
    }  # fmt: skip
    assert status["runs"][0]["spent"] == spent
    assert status["spent"] == {"day": f"{datetime.now(UTC):%Y-%m-%d}", **spent}
    said = "$4.01, 1.5M tokens (40.1k not priced)"
    assert f"3 complete; {said}" in lab.lab.call("status").out
    assert f"spent today   {said}" in lab.lab.call("status").out
    assert (
        f"**Spent:** {said} today ({status['spent']['day']} UTC); {said} in run" in lab.lab.call("report").out
    )


def test_a_worker_whose_patch_cannot_be_written_has_cost_what_it_has(rehearsal):
    path = "$ORCHESTRATE_PROJECT/.taskers/runs/$ORCHESTRATE_RUN/$ORCHESTRATE_WORKER.patch"
    plant = step("shell", command=f'ln -s nowhere "{path}"')
    work = step("write", path="new")
    rehearsal.prepare({"claude-1": ticket(plant, work, THREE_DOLLARS, mode="write", owns=["new"])})
    settings = (rehearsal.root / "orchestrate.toml").read_text()
    rehearsal.lab.commit({"orchestrate.toml": f'fence = "off"\n{settings}'})
    (worker,) = rehearsal.run()["workers"]
    assert (worker["outcome"], worker["usage"]["cost_usd"]) == ("failed", 3.0)
    assert worker["reason"].endswith("/Claude-Worker-1.patch: the changes could not be kept: file exists")
    assert len([*rehearsal.root.glob(".taskers/worktrees/*/Claude-Worker-1/new")]) == 1
    spent = rehearsal.lab.call("status", "--json").document["spent"]
    assert (spent["usd"], spent["held_usd"]) == (3.0, 0.0)


def test_a_limit_that_strikes_is_named_and_stops_the_next_start_alone(prepare):
    lab = prepare(
        {
            "claude-1": ticket(THREE_DOLLARS),
            "claude-2": ticket(depends_on=["claude-1"]),
            "command-1": ticket("echo done", agent="command", depends_on=["claude-1"]),
            "claude-3": ticket(phase="phase-2"),
        },
        "[budget]\nrun_usd = 3.00\n",
    )
    document = lab.run()
    assert [(one["ticket"], one["outcome"], one["reason"]) for one in document["workers"]] == [
        ("claude-1", "complete", ""),
        ("claude-2", "over_budget", "the run's budget of $3.00 is spent ($3.00 spent)"),
        ("command-1", "complete", ""),
    ]
    # Another run has a budget of its own.
    events = [one["event"] for one in ledger(lab)]
    # On a busy machine the start takes long enough to be reserved once more.
    assert (events[0], events[-1], events.count("settled")) == ("reserved", "settled", 1)
    assert lab.run("run", "phase-2")["workers"][0]["outcome"] == "complete"


def test_a_ticket_waits_while_others_hold_the_budget_of_the_day(prepare):
    lab = prepare(
        {f"claude-{number}": ticket(step("sleep"), budget_usd=2.00) for number in (1, 2, 3)},
        "[budget]\nday_usd = 2.10\n",
    )
    document = lab.run()
    assert {one["outcome"] for one in document["workers"]} == {"complete"}
    held, most = 0.0, 0.0
    for line in ledger(lab):
        held += 2.0 if line["event"] == "reserved" else -2.0
        most = max(most, held)
    assert (held, most) == (0.0, 2.0)
    assert any(
        record["reason"].startswith("room in the day's budget of $2.10 for the ticket's $2.00 (")
        for record in lab.journal("held")
    )


def test_the_plan_says_what_is_hard_and_whom_no_limit_holds(prepare):
    lab = prepare(
        {
            "claude-1": ticket(), "codex-1": ticket(agent="codex", model="gpt-5-mini"),
            "codex-2": ticket(agent="codex"), "gemini-1": ticket(agent="gemini", model="flash"),
            "command-1": ticket("true", agent="command"),
        },
        PRICED + "[budget]\nrun_usd = 5.00\nday_tokens = 2_000_000\n",
    )  # fmt: skip
    document = lab.lab.call("plan", "phase-1", "--json").document
    budget = document["budget"]
    assert [budget[name] for name in ("run_usd", "day_usd", "run_tokens", "day_tokens")] == [
        5.0, None, None, 2_000_000,
    ]  # fmt: skip
    assert [(one["agent"], one["model"], one["hard"], one["priced_by"]) for one in budget["agents"]] == [
        ("claude", None, True, "agent"), ("codex", "gpt-5-mini", False, "table"),
        ("codex", None, False, "unpriced"), ("gemini", "flash", False, "unpriced"),
    ]  # fmt: skip
    warned = [(one["place"], one["what"]) for one in document["problems"] if "USD" in one["what"]]
    assert warned == [
        ("codex", "no limit in USD holds codex: its price is not known"),
        ("gemini", "no limit in USD holds gemini (flash): its price is not known"),
    ]
    said = lab.lab.call("plan", "phase-1").out
    assert "budget: $5.00 a run, 2.0M tokens a day\n" in said
    assert "  claude stops itself at what is left in USD" in said
    assert (
        "  codex (gpt-5-mini) reports its use at its end, so a limit stops the next start; priced by" in said
    )


def test_the_plan_of_a_phase_that_costs_nothing_says_nothing_of_money(prepare):
    lab = prepare({"command-1": ticket("true", agent="command")}, "[budget]\nrun_usd = 5.00\n")
    called = lab.lab.call("plan", "phase-1")
    assert called.code == 0
    assert "budget" not in called.out
    assert "$" not in lab.lab.call("status").out


def test_ps_shows_what_a_run_spent_and_what_its_workers_hold(prepare):
    lab = prepare(
        {
            "claude-1": ticket(THREE_DOLLARS),
            "claude-2": ticket(step("hang"), depends_on=["claude-1"], budget_usd=1.50),
        },
        PRICED,
    )
    runtime = lab.begin("run", "phase-1")
    lab.wait_until(lambda: len(lab.journal("started")) == 2)
    shown = lab.lab.call("ps", "--json").document["runs"][0]
    assert shown["spent"] == {
        "usd": 3.0, "tokens": 1_000_000, "unpriced_tokens": 0, "held_usd": 1.5, "held_tokens": 0,
        "held_by": 1,
    }  # fmt: skip
    assert "; $3.00, 1.0M tokens, $1.50 held by 1 worker" in lab.lab.call("ps").out
    assert lab.lab.call("cancel", "last", "--json").code == 0
    lab.end(runtime)
    assert lab.lab.call("status", "--json").document["runs"][0]["spent"]["held_usd"] == 0.0


def test_a_default_model_is_priced_where_the_stream_names_it_and_counted_in_tokens_where_not(prepare):
    lab = prepare(
        {
            "gemini-1": ticket(answer(400_000, 10_000), agent="gemini"),
            "codex-1": ticket(answer(50_000, 100), agent="codex"),
        },
        '[prices."gemini"]\ninput = 1.25\noutput = 10.00\n',
    )
    plan = lab.lab.call("plan", "phase-1").out
    assert (
        "  codex is counted in tokens alone; to have it priced, name a model (`model = ` below "
        "`[agents.codex]`) and write its price below `[prices]`\n"
    ) in plan
    assert "  gemini" not in plan
    document = lab.run()
    used = {one["ticket"]: one["usage"] for one in document["workers"]}
    assert {name: (one["cost_usd"], one["cost_by"]) for name, one in used.items()} == {
        "gemini-1": (0.6, "table"), "codex-1": (None, "unpriced"),
    }  # fmt: skip
    (record,) = (lab.root / ".taskers/runs").glob("*/Gemini-Worker-1.json")
    assert json.loads(record.read_text())["tries"][0]["models"] == ["gemini-fake"]
