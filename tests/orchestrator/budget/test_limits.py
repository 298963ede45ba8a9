"""Budgets that hold: over attempts, processes, deaths and a ledger that cannot be written."""

import json
from pathlib import Path

import pytest
from support.faults import step, ticket

THREE_DOLLARS = {"in": 1_000_000, "out": 0}
"""At the price that the fake claude asks."""


@pytest.fixture
def prepare(rehearsal):
    """Commit templates, and a claude that reports on standard error how it was called."""

    def commit(tickets, budget=""):
        rehearsal.prepare(tickets)
        told = rehearsal.root.parent / "bin/claude"
        told.parent.mkdir()
        first, *rest = (rehearsal.fakes / "claude").read_text().splitlines(keepends=True)
        told.write_text("".join((first, 'echo "$*" >&2\n', *rest)))
        told.chmod(0o755)
        text = (rehearsal.root / "orchestrate.toml").read_text()
        text = text.replace(f"{rehearsal.fakes}/claude", str(told))
        text = text.replace("[pool]\n", "[pool]\nretry_pause = 0.1\n")
        rehearsal.lab.commit({"orchestrate.toml": f"{text}[budget]\n{budget}\n"})
        return rehearsal

    return commit


def failure(usd, status=500):
    """Spell an attempt that costs something and fails, as claude prints it."""
    said = {
        "type": "result", "subtype": "success", "is_error": True, "api_error_status": status,
        "result": f"API Error: {status} internal server error",
        "total_cost_usd": usd, "usage": {"input_tokens": 1000, "output_tokens": 10},
    }  # fmt: skip
    return step("raw", stdout=f"{json.dumps(said)}\n"), step("exit", code=1)


def most_usd(lab, name):
    """Return the limit in USD that each attempt of a worker was given, by its output's name."""
    (words,) = [line.split() for line in (lab.run_folder() / f"{name}.stderr").read_text().splitlines()[:1]]
    return float(words[words.index("--max-budget-usd") + 1]) if "--max-budget-usd" in words else None


def ledger(lab):
    paths = (lab.root / ".git/orchestrate/spending").glob("*.jsonl")
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def spent_today(lab):
    return lab.lab.call("status", "--json").document["spent"]


def test_a_tickets_own_budget_holds_over_all_of_its_attempts(prepare):
    lab = prepare({"claude-1": ticket(*failure(1.5), retries=3, budget_usd=2.00)})
    (worker,) = lab.run()["workers"]
    assert (worker["outcome"], worker["attempts"]) == ("over_budget", 2)
    assert worker["reason"] == "the ticket's budget of $2.00 is spent ($3.00 spent)"
    assert worker["verdict"] == "rejected"
    # What is left is less with each attempt.
    assert [most_usd(lab, name) for name in ("Claude-Worker-1", "Claude-Worker-1.2")] == [2.0, 0.5]
    record = json.loads((lab.run_folder() / "Claude-Worker-1.2.json").read_text())
    assert [one["outcome"] for one in record["tries"]] == ["failed", "failed"]
    assert worker["usage"]["cost_usd"] == record["usage"]["cost_usd"] == 3.0
    assert "internal server error" in (lab.root / worker["output"]).read_text()
    assert spent_today(lab)["usd"] == 3.0
    assert worker["reason"] in lab.lab.call("watch", lab.run_folder().name).out


def test_what_others_told_while_a_ticket_waited_for_its_start_counts(prepare):
    tickets = {"claude-1": ticket(step("answer", **THREE_DOLLARS), priority="P0"), "claude-2": ticket()}
    lab = prepare(tickets, "run_usd = 1.00")
    settings = (lab.root / "orchestrate.toml").read_text()
    lab.lab.commit({"orchestrate.toml": settings.replace("start_interval = 0", "start_interval = 4")})
    workers = {one["ticket"]: one["outcome"] for one in lab.run()["workers"]}
    assert workers == {"claude-1": "complete", "claude-2": "over_budget"}
    assert (lab.run_folder() / "Claude-Worker-1.stdout").exists()
    assert not (lab.run_folder() / "Claude-Worker-2.stdout").exists()


def test_claude_is_told_the_least_of_what_is_left_and_nothing_where_nothing_is_limited(prepare):
    lab = prepare(
        {
            "claude-1": ticket(step("answer", **THREE_DOLLARS)),
            "claude-2": ticket(budget_usd=5.00, depends_on=["claude-1"]),
            "claude-3": ticket(budget_usd=0.25, depends_on=["claude-2"]),
        },
        "run_usd = 20.00\nday_usd = 9.00",
    )
    lab.run()
    assert [most_usd(lab, f"Claude-Worker-{number}") for number in (1, 2, 3)] == [9.0, 5.0, 0.25]
    text = (lab.root / "orchestrate.toml").read_text()
    lab.lab.commit({"orchestrate.toml": text.replace("run_usd", "# run_usd").replace("day_usd", "# day_usd")})
    lab.run("run", "phase-1", "--again", "--only", "claude-1")
    assert most_usd(lab, "Claude-Worker-1") is None


def test_a_ticket_whose_budget_allows_no_retry_leaves_its_work_in_a_patch_and_no_tree(prepare):
    steps = (step("write", path="src/half.py"), *failure(3.0))
    write = {"mode": "write", "owns": ["src/**"]}
    lab = prepare({"claude-1": ticket(*steps, retries=3, budget_usd=2.00, **write)})
    document = lab.run()
    (worker,) = document["workers"]
    assert (worker["outcome"], worker["attempts"]) == ("over_budget", 1)
    record = json.loads((lab.run_folder() / "Claude-Worker-1.json").read_text())
    assert "src/half.py" in (lab.root / record["patch"]).read_text()
    assert record["worktree"] is None
    assert not (lab.root / ".taskers/worktrees" / document["run"]).exists()


def test_an_agent_that_stops_at_its_own_limit_is_over_budget(prepare):
    said = {
        "type": "result", "subtype": "error_max_budget_usd", "is_error": True, "session_id": "a-thread",
        "errors": ["Reached maximum budget ($0.5)"], "total_cost_usd": 0.51, "usage": {},
    }  # fmt: skip
    lab = prepare({"claude-1": ticket(step("raw", stdout=json.dumps(said) + "\n"), step("exit", code=1),
                                      retries=3, budget_usd=0.50)})  # fmt: skip
    (worker,) = lab.run()["workers"]
    assert (worker["outcome"], worker["attempts"]) == ("over_budget", 1)
    assert "maximum budget" in worker["reason"]
    assert spent_today(lab)["usd"] == 0.51


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ("run_tokens = 150_000", "the run's budget of 150.0k tokens is spent (200.0k tokens spent)"),
        ("day_tokens = 150_000", "the day's budget of 150.0k tokens is spent (200.0k tokens spent)"),
    ],
)
def test_tokens_are_limited_where_nobody_knows_a_price(prepare, budget, said):
    many = step("answer", **{"in": 199_000, "out": 1000})
    lab = prepare(
        {"codex-1": ticket(many, agent="codex"), "gemini-1": ticket(agent="gemini", depends_on=["codex-1"])},
        budget,
    )
    first, second = lab.run()["workers"]
    assert (first["outcome"], first["usage"]["cost_by"]) == ("complete", "unpriced")
    assert (second["outcome"], second["reason"]) == ("over_budget", said)
    assert second["attempts"] == 0
    assert "(200.0k not priced)" in lab.lab.call("status").out


def test_two_processes_share_the_budget_of_a_day(prepare):
    lab = prepare(
        {
            "claude-1": ticket(step("stall"), budget_usd=2.00),
            "claude-2": ticket(budget_usd=2.00),
            "claude-3": ticket(step("answer", **THREE_DOLLARS), depends_on=["claude-2"]),
        },
        "day_usd = 3.00",
    )
    first = lab.begin("run", "phase-1", "--only", "claude-1")
    lab.wait_until(lambda: lab.journal("started"))
    holder = lab.run_folder()
    second = lab.begin("run", "phase-1", "--new", "--only", "claude-2", "claude-3")
    lab.wait_until(lambda: lab.run_folder() != holder and lab.journal("held"))
    (held,) = lab.journal("held")
    assert held["reason"] == (
        "room in the day's budget of $3.00 for the ticket's $2.00 ($0.00 spent, $2.00 held by 1 worker)"
    )
    assert lab.lab.call("cancel", holder.name).code == 0
    lab.end(first)
    assert {one["outcome"] for one in lab.end(second)["workers"]} == {"complete"}
    refused = lab.run("run", "phase-1", "--again", "--only", "claude-2")["workers"][0]
    assert refused["outcome"] == "over_budget"
    assert refused["reason"].startswith("the day's budget of $3.00 is spent ($3.0")


def test_what_was_spent_while_no_runtime_lived_is_counted_once(prepare):
    lab = prepare({"claude-1": ticket(step("sleep", seconds=1), step("answer", **THREE_DOLLARS))})
    runtime = lab.begin("run", "phase-1")
    lab.wait_until(lambda: (lab.run_folder() or Path("gone")) / "Claude-Worker-1.stdout"
                   and list(lab.root.glob(".taskers/runs/*/shims/*.started.json")))  # fmt: skip
    runtime.kill()
    runtime.communicate()
    for _ in range(2):
        again = lab.begin("resume", lab.run_folder().name)
        (worker,) = lab.end(again, code=0)["workers"]
        assert (worker["outcome"], worker["attempts"]) == ("complete", 1)
        assert [one["event"] for one in ledger(lab)] == ["reserved", "settled"]
        assert spent_today(lab)["usd"] == 3.0


def test_a_ledger_that_cannot_be_written_costs_no_work(prepare):
    lab = prepare(
        {
            "claude-1": ticket(
                step("write", path="src/new.py"), step("sleep", seconds=1), step("answer", **THREE_DOLLARS),
                mode="write", owns=["src/**"],
            ),
            "codex-1": ticket(agent="codex", depends_on=["claude-1"]),
        }
    )  # fmt: skip
    folder = lab.root / ".git/orchestrate/spending"
    runtime = lab.begin("run", "phase-1")
    lab.wait_until(lambda: lab.journal("started"))
    folder.rename(folder.with_name("away"))
    folder.write_text("a file where the folder belongs\n")
    written, refused = lab.end(runtime)["workers"]
    assert (written["outcome"], written["verdict"], written["files"]) == (
        "complete",
        "accepted",
        ["src/new.py"],
    )
    assert lab.lab.git("show", "HEAD~1:src/new.py") == "written by a fake agent\n"
    (unsettled,) = lab.journal("unsettled")
    assert "spending" in unsettled["reason"]
    # Nothing is started that could not be counted.
    assert (refused["outcome"], refused["attempts"]) == ("failed", 0)
    assert ".git/orchestrate/spending" in refused["reason"]
    folder.unlink()
    folder.with_name("away").rename(folder)
    assert spent_today(lab)["usd"] == 3.0  # as its record says


def test_tickets_without_budgets_that_start_together_stay_within_the_limit_by_their_reserve(prepare):
    one = {"in": 1_000_000, "out": 0}
    lab = prepare(
        {
            "claude-1": ticket(step("answer", **one), phase="phase-0"),
            **{f"claude-{number}": ticket(step("answer", **one)) for number in range(2, 7)},
        },
        "run_usd = 6.00\nworker_usd = 3.00",
    )
    lab.run("run", "phase-0")
    workers = lab.run()["workers"]
    # Each costs three dollars, and there are slots for five.
    assert [one["outcome"] for one in workers].count("complete") == 2
    assert {one["reason"] for one in workers if one["outcome"] == "over_budget"} == {
        "the run's budget of $6.00 is spent ($6.00 spent)"
    }
    assert any(
        record["reason"].startswith("room in the run's budget of $6.00 for the worker's reserve of $3.00 (")
        for record in lab.journal("held")
    )
