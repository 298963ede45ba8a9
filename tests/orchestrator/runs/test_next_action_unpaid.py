"""Tickets stopped by a budget: the command that reruns them, and that it works."""

import shlex

import pytest
from support.faults import step, ticket
from support.worker_states import worker_state

from orchestrator.runs.next_action import again_with_fallen, undone, unpaid_problems

THREE_DOLLARS = step("answer", **{"in": 1_000_000, "out": 0})


def roster(**outcomes):
    """Return workers by ticket, with their outcomes; an outcome may name its reason."""
    found = {}
    for name, said in outcomes.items():
        outcome, _, reason = said.partition(": ")
        ticket = name.replace("_", "-")
        found[ticket.title()] = worker_state(ticket.title(), ticket, outcome=outcome, reason=reason)
    return found


@pytest.mark.parametrize(
    ("workers", "waits_for", "command"),
    [
        (roster(a_1="over_budget", b_1="complete"), {}, "orchestrate run core --only a-1"),
        (roster(a_1="complete", b_1="over_budget", c_1="skipped", d_1="skipped", e_1="skipped"),
         {"C-1": ["B-1"], "D-1": ["C-1"], "E-1": ["A-1"]}, "orchestrate run core --only b-1 c-1 d-1"),
        (roster(a_1="complete", b_1="complete", c_1="over_budget", d_1="complete"),
         {"B-1": ["A-1"], "C-1": ["B-1"]}, "orchestrate run core --only a-1 b-1 c-1"),
        (roster(a_1="over_budget", b_1="over_budget"), {}, "orchestrate run core --only a-1 b-1"),
    ],
)  # fmt: skip
def test_those_who_fell_with_them_and_those_they_depend_on_stand_in_the_command(workers, waits_for, command):
    assert again_with_fallen("core", undone(workers, waits_for), workers, waits_for) == command


@pytest.mark.parametrize(
    ("reason", "helps"),
    [
        (
            "the run's budget of $3.00 is spent ($3.00 spent)",
            "a new run has a budget of its own",
        ),
        ("the day's budget of $3.00 is spent", "continue tomorrow (UTC), or raise the day's limit below"),
        ("the ticket's budget of 10 tokens is spent", "raise its own budget in the template, then: "),
        ("Reached maximum budget", "raise what it may cost, in the template or below `[budget]`, then: "),
    ],
)
def test_what_helps_depends_on_the_limit_that_struck(reason, helps):
    workers = roster(a_1=f"over_budget: {reason}", b_1="complete")
    (one,) = unpaid_problems("core", workers, {})
    assert (one.place, one.what, one.severity) == ("A-1", f"over budget: {reason}", "warning")
    assert one.do.startswith(helps)
    assert one.do.endswith("orchestrate run core --only a-1")
    assert unpaid_problems("core", roster(b_1="complete"), {}) == []


def test_the_command_that_a_run_names_runs_what_it_had_no_money_for(rehearsal):
    lab = rehearsal.prepare_with(
        {
            "claude-1": ticket(THREE_DOLLARS),
            "claude-2": ticket(depends_on=["claude-1"]),
            "command-1": ticket("true", agent="command", depends_on=["claude-2"]),
            "command-2": ticket("true", agent="command"),
        },
        "[budget]\nrun_usd = 3.00\n",
    )
    document = lab.run()
    command = "orchestrate run phase-1 --only claude-2 command-1"
    assert (document["next_action"], document["waiting_for"]) == (None, "lead")
    assert f"`{command} --detach`" in document["what"]
    assert [one["place"] for one in document["problems"]] == ["Claude-Worker-2"]
    waited = lab.lab.call("wait", "last", "--json").document
    assert (waited["what"], waited["problems"]) == (document["what"], document["problems"])
    text = (lab.root / "orchestrate.toml").read_text()
    lab.lab.commit({"orchestrate.toml": text.replace("run_usd = 3.00", "run_usd = 4.00")})
    again = lab.run(*shlex.split(command)[1:])
    assert {one["ticket"]: one["outcome"] for one in again["workers"]} == dict.fromkeys(
        ("claude-2", "command-1"), "complete"
    )
    assert again["next_action"] == "orchestrate deliverable done 'Code review' --detach"
