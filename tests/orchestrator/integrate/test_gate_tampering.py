"""Changes that a gate makes to the repository: they block the landing until the lead decides."""

import json

import pytest
from support.fences import EVIL, JOURNAL
from support.repository import shell


def test_what_the_gate_does_to_the_users_configuration_holds_up_the_landing(unfenced):
    unfenced.commit({"orchestrate.toml": 'fence = "off"\n[integration]\ngate = ["sh ./gate.sh"]\n'})
    unfenced.commit({"gate.sh": "true\n"})
    unfenced.templates(command_1=shell(f"echo '{EVIL}' > gate.sh", mode="write", owns=["gate.sh"]))
    called = unfenced.call("run", "phase-1", "--json")
    assert any(".git/config changed while the gate ran on the work of Command-Worker-1" in one
               for one in called.says()), called  # fmt: skip
    assert called.document["workers"][0]["verdict"] == "pending"
    assert (unfenced.root / "gate.sh").read_text() == "true\n"
    assert called.code == 1


def test_what_the_gate_writes_into_the_users_checkout_is_a_warning(unfenced):
    gate = 'touch "$ORCHESTRATE_PROJECT/evil"'
    unfenced.commit({"orchestrate.toml": f"fence = 'off'\n[integration]\ngate = ['{gate}']\n"})
    unfenced.templates(command_1=shell("echo x > new.py", mode="write", owns=["new.py"]))
    called = unfenced.call("run", "phase-1", "--json")
    (problem,) = called.document["problems"]
    assert "evil changed while the gate ran" in problem["what"]
    assert (called.code, problem["severity"]) == (0, "warning")


def held_by_the_gate(lab, gate, *, commands=("sh ./gate.sh",)):
    """Run a phase whose gate runs what its worker wrote; return the document that says what it did."""
    lab.commit({"orchestrate.toml": f'fence = "off"\n[integration]\ngate = {json.dumps(commands)}\n'})
    lab.commit({"gate.sh": "true\n"})
    lab.templates(command_1=shell(f"echo '{gate}' > gate.sh", mode="write", owns=["gate.sh"]))
    called = lab.call("run", "phase-1", "--json")
    assert (called.code, called.document["workers"][0]["verdict"]) == (1, "pending"), called
    assert (lab.root / "gate.sh").read_text() == "true\n"
    return called.document


def test_harm_at_the_gate_holds_up_the_landing_until_the_lead_says_a_word(unfenced):
    first = held_by_the_gate(unfenced, EVIL)
    run, name = first["run"], first["workers"][0]["worker"]
    assert first["next_action"] == f"orchestrate integrate {run} --accept {name}"
    for command, lead in (("integrate", "Ada"), ("integrate", "Grace"), ("resume", "Grace")):
        again = unfenced.call(command, run, "--json", env={"ORCHESTRATE_LEAD": lead})
        assert again.code == 1, again
        assert again.document == first
        assert (unfenced.root / "gate.sh").read_text() == "true\n"
    told = {one["place"] for one in again.document["problems"] if ".git/config" in one["what"]}
    assert told == {"repository", "gate"}
    landed = unfenced.call("integrate", run, "--accept", name, "--json")
    assert (landed.code, landed.document["workers"][0]["verdict"]) == (0, "accepted"), landed
    assert landed.document["problems"] == []
    assert "core.pager" in (unfenced.root / "gate.sh").read_text()


def test_what_did_harm_at_the_gate_can_be_rejected_and_stays_so(unfenced):
    run = held_by_the_gate(unfenced, EVIL)["run"]
    for word in (["--reject", "Command-Worker-1"], []):
        called = unfenced.call("integrate", run, *word, "--json")
        assert (called.code, called.document["workers"][0]["verdict"]) == (1, "rejected")
        assert called.document["problems"] == []
    assert (unfenced.root / "gate.sh").read_text() == "true\n"


def test_the_leads_word_for_one_of_two_that_did_harm_at_the_gate_lands_that_one(unfenced):
    unfenced.commit({"orchestrate.toml": 'fence = "off"\n[integration]\ngate = ["sh ./one; true"]\n'})
    unfenced.templates(
        command_1=shell(f"echo '{EVIL}' > one", mode="write", owns=["one"]),
        command_2=shell("echo two > two", mode="write", owns=["two"]),
    )
    run = unfenced.call("run", "phase-1", "--json").document["run"]
    called = unfenced.call("integrate", run, "--accept", "Command-Worker-2", "--json")
    assert [one["verdict"] for one in called.document["workers"]] == ["pending", "accepted"]
    assert called.code == 1
    assert ".git/config" in called.document["workers"][0]["reason"]
    assert (unfenced.root / "two").exists()
    assert not (unfenced.root / "one").exists()


def test_the_leads_word_holds_for_the_harm_that_was_told_and_for_no_other(unfenced):
    more = 'git -C "$ORCHESTRATE_PROJECT" config --add core.pager evil'
    hook = 'test ! -e "$ORCHESTRATE_PROJECT/told" || touch "$ORCHESTRATE_PROJECT/.git/hooks/pre-push"'
    run = held_by_the_gate(unfenced, f"{more}; {hook}")["run"]
    (unfenced.root / "told").touch()
    word = ("integrate", run, "--accept", "Command-Worker-1", "--json")
    again = unfenced.call(*word)
    assert (again.code, again.document["workers"][0]["verdict"]) == (1, "pending"), again
    reason = again.document["workers"][0]["reason"]
    assert reason == "the gate ran what they wrote, and meanwhile .git/hooks/pre-push changed"
    landed = unfenced.call(*word)
    assert landed.document["workers"][0]["verdict"] == "accepted", landed
    assert "config --add" in (unfenced.root / "gate.sh").read_text()


def test_harm_that_was_told_just_before_the_runtime_was_killed_is_not_forgotten(unfenced):
    first = held_by_the_gate(unfenced, EVIL)
    path = unfenced.root / ".taskers" / "runs" / first["run"] / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if '"event": "gate_seen"' in line)
    path.write_text("".join(lines[: at + 1]))
    again = unfenced.call("integrate", first["run"], "--json")
    assert (again.code, again.document["workers"][0]["verdict"]) == (1, "pending"), again
    assert again.document["workers"][0]["reason"] == first["workers"][0]["reason"]
    landed = unfenced.call("integrate", first["run"], "--accept", "Command-Worker-1", "--json")
    assert (landed.code, landed.document["workers"][0]["verdict"]) == (0, "accepted"), landed


def test_harm_by_a_gate_that_is_red_on_the_base_too_outlasts_its_mending(unfenced):
    commands = ("sh ./gate.sh", "test -e mended")
    first = held_by_the_gate(unfenced, EVIL, commands=commands)
    assert any("fails without these changes too" in one["what"] for one in first["problems"])
    unfenced.commit({"mended": ""})
    again = unfenced.call("integrate", first["run"], "--json")
    assert (again.code, again.document["workers"][0]["verdict"]) == (1, "pending"), again
    assert ".git/config" in again.document["workers"][0]["reason"]


def test_a_gate_that_writes_into_the_journal_does_harm_like_any_other(unfenced):
    first = held_by_the_gate(unfenced, f"echo forged >> {JOURNAL}")
    assert any("events.jsonl changed while the gate ran" in one["what"] for one in first["problems"]), first
    again = unfenced.call("integrate", first["run"], "--json")
    assert (again.code, again.document) == (1, first)


def test_the_log_says_what_was_accepted_in_spite_of_harm(unfenced):
    run = held_by_the_gate(unfenced, EVIL)["run"]
    harm = "while the gate ran, .git/config changed"
    assert run not in (unfenced.root / "DECISIONS.md").read_text()
    assert unfenced.call("integrate", run, "--accept", "Command-Worker-1").code == 0
    text = (unfenced.root / "DECISIONS.md").read_text()
    assert f"Settled run {run} (phase-1)\n\n**Context:** Command-Worker-1 (" in text
    assert f"): {harm}\n\n**Decision:** " in text
    assert text.count(run) == 1


@pytest.mark.parametrize("was_held", [False, True])
def test_the_commit_of_a_reject_tells_of_no_gate_that_passed(unfenced, was_held):
    unfenced.commit({"orchestrate.toml": 'fence = "off"\n[integration]\ngate = ["test ! -e one"]\n'})
    stray = "echo 1 > stray;" if not was_held else ""
    unfenced.templates(
        command_1=shell(
            f"{stray} echo 1 > {'one' if was_held else 'two'}", mode="write", owns=["one", "two"]
        ),
        command_2=shell("echo 3 > three", mode="write", owns=["three"]),
    )
    if was_held:
        (unfenced.root / "one").write_text("red before\n")
        unfenced.commit({})
    run = unfenced.call("run", "phase-1", "--json").document["run"]
    said = "fails without these changes too: `test ! -e one`" if was_held else "passed: test ! -e one"
    assert f"\nGate: {said}" in unfenced.git("log", "-1", "--format=%B")
    called = unfenced.call("integrate", run, "--reject", "Command-Worker-1", "--json")
    assert called.document["workers"][0]["verdict"] == "rejected", called
    text = (unfenced.root / "DECISIONS.md").read_text()
    finding = "changed outside its scope: stray" if stray else "the gate fails without these changes too"
    assert f"Settled run {run} (phase-1)\n\n**Context:** Command-Worker-1 (" in text
    assert f"): {finding}" in text
    assert "\n1. Accept Command-Worker-1 - Rejected because the lead decided otherwise\n" in text
    assert "\nGate: not run\n" in unfenced.git("log", "-1", "--format=%B")
