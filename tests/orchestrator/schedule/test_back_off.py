"""A provider that asks for a pause: who waits, who goes on, who moves over, and where it is said."""

import json
from datetime import UTC, datetime

import pytest
from support.faults import step, ticket

LIMIT = step("limit", seconds=5)
"""A rate limit of a few seconds, from when it was first met."""
LONG = {"do": "limit", "kind": "quota", "seconds": 7200}
MINUTE = "fallback_after = 60"


@pytest.fixture
def prepare(rehearsal):
    """Commit templates, with settings of the pool (and whole tables after them)."""

    def commit(tickets, pool="", codex=(), off=""):
        rehearsal.prepare(tickets)
        text = (rehearsal.root / "orchestrate.toml").read_text()
        text = text.replace("[pool]\n", f"[pool]\nretry_pause = 0.1\n{pool}\n")
        args = [part for one in codex for part in ("--fake", json.dumps(one))]
        text = text.replace("args = []", f"args = {json.dumps(args)}", 1)
        if off:
            text = text.replace(f"[agents.{off}]\nenabled = true", f"[agents.{off}]\nenabled = false")
        rehearsal.lab.commit({"orchestrate.toml": text})
        return rehearsal

    return commit


def at(record):
    return datetime.fromisoformat(record["at"]).timestamp()


def provider(lab, agent="codex"):
    path = lab.root / f".git/orchestrate/providers/{agent}.json"
    return json.loads(path.read_text()) if path.exists() else None


def park(lab, agent, seconds, reason="429 too many requests"):
    """Leave word, as another runtime does, that a provider is to be left alone."""
    now = datetime.now(UTC).timestamp()
    folder = lab.root / ".git/orchestrate/providers"
    folder.mkdir(parents=True, exist_ok=True)
    said = {"limit": 5, "full": 5, "until": now + seconds, "since": now, "reason": reason, "named": True}
    (folder / f"{agent}.json").write_text(json.dumps({**said, "pauses": 1}))


def record(lab, worker):
    return json.loads((lab.root / worker["output"]).with_suffix(".json").read_text())


def test_a_worker_whose_provider_was_parked_while_its_tree_was_made_does_not_start(prepare):
    parked = ".git/orchestrate/providers/codex.json"
    made = (
        f'i=0; until test -e "$ORCHESTRATE_PROJECT/{parked}"; do i=$((i+1)); test $i -lt 900; sleep .1; done'
    )
    lab = prepare({
        "codex-1": ticket(agent="codex"),  # the first alone shows that its login works
        "codex-2": ticket(step("limit", seconds=4), agent="codex", retries=1, depends_on=["codex-1"]),
        "codex-3": ticket(agent="codex", setup=[f"set -e; {made}"], depends_on=["codex-1"]),
    })  # fmt: skip
    text = (lab.root / "orchestrate.toml").read_text()
    lab.lab.commit({"orchestrate.toml": f'fence = "off"\n{text}'})
    document = lab.run()
    assert {one["verdict"] for one in document["workers"]} == {"accepted"}
    assert lab.worker(document, "codex-3")["attempts"] == 1
    events = lab.journal()
    (until,) = [
        datetime.fromisoformat(one["until"]).timestamp() for one in events if one["event"] == "parked"
    ]
    name = lab.worker(document, "codex-3")["worker"]
    (began,) = [at(one) for one in events if one["event"] == "started" and one["worker"] == name]
    assert began >= until


def test_a_limit_parks_its_provider_for_every_process_and_the_others_go_on(prepare):
    # Of twenty seconds, within which a busy machine starts a run and asks it twice.
    limited = ticket(step("limit", seconds=20), agent="codex", retries=1)
    lab = prepare({"codex-1": limited, "codex-2": ticket(agent="codex"), "claude-2": ticket()})
    first = lab.begin("run", "phase-1", "--only", "codex-1")
    lab.wait_until(lambda: lab.journal("parked"))
    second = lab.begin("run", "phase-1", "--new", "--only", "codex-2", "claude-2")
    lab.wait_until(lambda: "Claude-Worker-2" in [one["worker"] for one in lab.journal("started")])
    shown = lab.lab.call("ps", "--json").document
    assert shown["queued"]["provider"] == 1
    (waits,) = shown["queued"]["next"]
    assert (waits["worker"], waits["waits_for"][:19]) == ("Codex-Worker-2", "codex, parked until")
    (again,) = [one for one in shown["workers"] if one["worker"] == "Codex-Worker-1"]
    assert again["state"] == "waiting: another attempt"
    assert again["last"].startswith("waits for codex, parked until")
    assert "waits for codex, parked until" in lab.lab.call("ps").out
    documents = [lab.end(first), lab.end(second)]
    runs = [lab.root / ".taskers/runs" / document["run"] for document in documents]
    notes = [[json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()] for run in runs]
    (parked,) = [one for one in notes[0] if one["event"] == "parked"]
    until = datetime.fromisoformat(parked["until"]).timestamp()
    assert (parked["agent"], parked["named"], parked["limit"]) == ("codex", True, 2)
    started = [(one["worker"], at(one) > until) for run in notes for one in run if one["event"] == "started"]
    assert sorted(started) == [
        ("Claude-Worker-2", False), ("Codex-Worker-1", False),
        ("Codex-Worker-1", True), ("Codex-Worker-2", True),
    ]  # fmt: skip
    (other,) = [one for one in notes[1] if one["event"] == "ended" and one["worker"] == "Claude-Worker-2"]
    assert at(other) < until
    assert {one["outcome"] for document in documents for one in document["workers"]} == {"complete"}
    tries = record(lab, documents[0]["workers"][0])["tries"]
    assert [(one["kind"], one["outcome"]) for one in tries] == [
        ("first", "rate_limited"),
        ("thread", "complete"),
    ]
    assert tries[0]["thread"] == tries[1]["thread"]


def test_the_limit_of_a_provider_halves_and_each_success_gives_one_back(prepare):
    limited = ticket(step("limit", seconds=0.5), agent="codex", retries=1)
    lab = prepare({"codex-1": limited, "codex-2": ticket(agent="codex"), "codex-3": ticket(agent="codex")})
    lab.run("run", "phase-1", "--only", "codex-1")
    assert (provider(lab)["limit"], provider(lab)["full"]) == (3, 5)  # 2, and one for its own success
    lab.run("run", "phase-1", "--new", "--only", "codex-2")
    assert provider(lab)["limit"] == 4
    lab.run("run", "phase-1", "--new", "--only", "codex-3")
    assert provider(lab) is None


def test_pauses_grow_where_no_time_is_named(prepare):
    error = step("error", status=429, message="too many requests")
    lab = prepare({"codex-1": ticket(error, agent="codex", retries=3)}, "provider_pause = 0.2")
    (one,) = lab.run()["workers"]
    assert (one["outcome"], one["attempts"]) == ("rate_limited", 4)
    assert "too many requests" in one["reason"]
    parked = lab.journal("parked")
    pauses = [datetime.fromisoformat(one["until"]).timestamp() - at(one) for one in parked]
    assert pauses == pytest.approx([0.2, 0.4, 0.8, 1.6], abs=0.05)
    assert [(one["named"], one["limit"]) for one in parked] == [
        (False, 2),
        (False, 1),
        (False, 1),
        (False, 1),
    ]
    begun = [at(one) for one in lab.journal("started")][1:]
    assert all(
        start >= datetime.fromisoformat(park["until"]).timestamp()
        for start, park in zip(begun, parked[:3], strict=True)
    )


@pytest.mark.parametrize("name", ["claude", "gemini"])
def test_an_overloaded_provider_is_left_alone_as_well(prepare, name):
    overloaded = step("limit", kind="overloaded", seconds=0.6)
    lab = prepare({f"{name}-1": ticket(overloaded, agent=name, retries=1)})
    (one,) = lab.run()["workers"]
    assert (one["outcome"], one["attempts"]) == ("complete", 2)
    (parked,) = lab.journal("parked")
    assert (parked["agent"], parked["named"]) == (name, True)
    assert "overloaded" in parked["reason"].lower()


def test_a_ticket_moves_to_its_fallback_where_the_pause_is_long(prepare):
    half = {"do": "write", "path": "src/half.py", "text": "begun = 1\n"}
    lab = prepare(
        {
            "codex-1": ticket(
                step("write", path="src/whole.py"), agent="codex", retries=1, fallback=["claude"],
                mode="write", owns=["src/**"],
            ),
            "codex-2": ticket(agent="codex", fallback=["claude"], depends_on=["codex-1"]),
        },
        MINUTE, codex=[half, LONG],
    )  # fmt: skip
    document = lab.run()
    first, second = document["workers"]
    assert [(one["agent"], one["outcome"], one["attempts"]) for one in (first, second)] == [
        ("claude", "complete", 2), ("claude", "complete", 1),
    ]  # fmt: skip
    assert first["worker"] == "Codex-Worker-1"
    tries = record(lab, first)["tries"]
    assert [(one["agent"], one["kind"], one["outcome"]) for one in tries] == [
        ("codex", "first", "rate_limited"), ("claude", "again", "complete"),
    ]  # fmt: skip
    # It begins afresh, in the same tree, and is told what stands there.
    assert first["files"] == ["src/half.py", "src/whole.py"]
    told = (lab.run_folder() / "tickets/Codex-Worker-1.2.md").read_text()
    assert "## Earlier Attempt" in told
    assert "- `src/half.py`" in told
    assert told.startswith((lab.run_folder() / "tickets/Codex-Worker-1.md").read_text())
    moved = lab.journal("moved")
    assert [(one["worker"], one["before"], one["agent"]) for one in moved] == [
        ("Codex-Worker-1", "codex", "claude"), ("Codex-Worker-2", "codex", "claude"),
    ]  # fmt: skip
    assert all(one["reason"].startswith("codex is parked: ") for one in moved)
    watched = lab.lab.call("watch", lab.run_folder().name).out
    assert "to claude: codex is parked: " in watched


def test_a_ticket_that_waits_already_moves_when_its_provider_is_parked(prepare):
    lab = prepare(
        {"codex-1": ticket(agent="codex", fallback=["claude"]), "codex-2": ticket(agent="codex")}, MINUTE
    )
    park(lab, "codex", 30)
    runtime = lab.begin("run", "phase-1")
    lab.wait_until(
        lambda: lab.run_folder() and lab.lab.call("ps", "--json").document["queued"]["provider"] == 2
    )
    assert lab.journal("moved") == []  # so short a pause is waited for
    park(lab, "codex", 3600)
    lab.wait_until(lambda: lab.journal("ended"))
    (row,) = lab.lab.call("ps", "--json").document["queued"]["next"]
    assert row["worker"] == "Codex-Worker-2"  # it has no other agent, and waits
    (ended,) = lab.journal("ended")
    assert (ended["worker"], ended["facts"]["agent"]) == ("Codex-Worker-1", "claude")
    (lab.root / ".git/orchestrate/providers/codex.json").unlink()
    document = lab.end(runtime)
    assert [(one["agent"], one["outcome"]) for one in document["workers"]] == [
        ("claude", "complete"), ("codex", "complete"),
    ]  # fmt: skip


def test_a_ticket_killed_between_its_move_and_its_start_goes_on_with_the_agent_it_moved_to(prepare):
    lab = prepare({
        "codex-1": ticket(agent="codex"),
        "claude-1": ticket(agent="claude", model="claude-own", fallback=["codex"], depends_on=["codex-1"]),
    }, MINUTE)  # fmt: skip
    settings = lab.root / "orchestrate.toml"
    text = settings.read_text()
    # The second start comes an hour after the first.
    settings.write_text(text.replace("start_interval = 0", 'start_interval = "1h"'))
    park(lab, "claude", 3600)
    runtime = lab.begin("run", "phase-1")
    lab.wait_until(lambda: lab.journal("moved") and lab.journal("ended"))
    runtime.kill()
    runtime.communicate()
    assert [one["worker"] for one in lab.journal("started")] == ["Codex-Worker-1"]
    settings.write_text(text)
    (lab.root / ".git/orchestrate/providers/claude.json").unlink()  # it could go back by now, and need not
    document = lab.end(lab.begin("resume", lab.run_folder().name))
    one = next(one for one in document["workers"] if one["ticket"] == "claude-1")
    assert (one["outcome"], one["agent"], one["attempts"]) == ("complete", "codex", 1)
    assert [one["agent"] for one in record(lab, one)["tries"]] == ["codex"]
    assert len(lab.journal("moved")) == 1


def test_a_runtime_killed_while_a_provider_is_parked_leaves_it_parked_and_its_ticket_to_be_tried_again(
    prepare,
):
    lab = prepare({"codex-1": ticket(step("limit", seconds=6), agent="codex", retries=1)})
    runtime = lab.begin("run", "phase-1")
    lab.wait_until(lambda: lab.journal("retry"))
    runtime.kill()
    runtime.communicate()
    until = provider(lab)["until"]
    (one,) = lab.end(lab.begin("resume", lab.run_folder().name))["workers"]
    assert (one["outcome"], one["attempts"]) == ("complete", 2)
    assert [one["outcome"] for one in record(lab, one)["tries"]] == ["rate_limited", "complete"]
    assert at(lab.journal("started")[-1]) >= until
    assert len(lab.journal("retry")) == 1


@pytest.mark.parametrize("why", ["off", "missing", "parked"])
def test_a_fallback_that_cannot_help_is_none(prepare, why):
    lab = prepare(
        {"codex-1": ticket(agent="codex", fallback=["gemini"])}, MINUTE, off="gemini" if why == "off" else ""
    )
    if why == "missing":
        text = (lab.root / "orchestrate.toml").read_text()
        lab.lab.commit({"orchestrate.toml": text.replace("/gemini", "/gone")})
    elif why == "parked":
        park(lab, "gemini", 7200)
    park(lab, "codex", 3600)
    runtime = lab.begin("run", "phase-1")
    lab.wait_until(lambda: lab.run_folder() and lab.lab.call("ps", "--json").document["queued"]["provider"])
    (lab.root / ".git/orchestrate/providers/codex.json").unlink()
    (one,) = lab.end(runtime)["workers"]
    assert (one["agent"], one["outcome"]) == ("codex", "complete")
    assert lab.journal("moved") == []


def test_ps_says_of_each_ticket_why_it_does_not_start(prepare):
    lab = prepare(
        {
            "claude-1": ticket(step("hang"), budget_usd=1.00),
            "claude-2": ticket(step("hang"), budget_usd=1.00),
            "codex-1": ticket(agent="codex"),
            "command-1": ticket("true", agent="command", depends_on=["codex-1"]),
        },
    )
    text = (lab.root / "orchestrate.toml").read_text()
    lab.lab.commit({"orchestrate.toml": text + "[budget]\nrun_usd = 1.50\n"})
    park(lab, "codex", 3600)
    runtime = lab.begin("run", "phase-1")
    lab.wait_until(lambda: lab.journal("held") and lab.journal("started"))
    shown = lab.lab.call("ps", "--json").document["queued"]
    waits = {one["ticket"]: one["waits_for"] for one in shown["next"]}
    (left,) = {"claude-1", "claude-2"} & set(waits)  # the one whose tree was ready first has the budget
    assert list(waits) == [left, "codex-1", "command-1"]
    assert waits[left].startswith(
        "room in the run's budget of $1.50 for the ticket's $1.00 ($0.00 spent, $1.00 held by 1 worker)"
    )
    assert waits["codex-1"].startswith("codex, parked until ")
    assert waits["command-1"] == "codex-1"
    assert (shown["held"], shown["provider"], shown["dependency"], shown["slot"]) == (1, 1, 1, 0)
    lab.lab.call("cancel", "last")
    lab.end(runtime)
