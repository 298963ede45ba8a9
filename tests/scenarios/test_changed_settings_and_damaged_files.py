"""Awkward moments: settings that changed meanwhile, stops in the middle of a wait, files that are damaged."""

import fcntl
import json
import os
import signal
import threading
import time

import pytest
from support.faults import step, ticket

from orchestrator.commands._stages import _wait_left
from orchestrator.errors import Refusal
from orchestrator.execute._claims import claims_of, missing_of
from orchestrator.execute.dispatch import budget_pause
from orchestrator.runs.state import read_run
from orchestrator.settings.settings import read_settings
from workers.files.run_dir import RunDir

WHOLE = "## Summary\n\n{}\n\n## Status\n\nCOMPLETE\n"


@pytest.fixture
def prepare(rehearsal):
    """Commit templates, with some lines of the settings replaced."""

    def commit(tickets, **changes):
        rehearsal.prepare(tickets)
        change(rehearsal, changes)
        return rehearsal

    return commit


def change(lab, changes, *, commit=True):
    """Replace lines of orchestrate.toml: `pool` adds to its table, `off` switches an agent off."""
    text = (lab.root / "orchestrate.toml").read_text()
    text = text.replace("[pool]\n", f"[pool]\n{changes.get('pool', '')}\n")
    if off := changes.get("off"):
        text = text.replace(f"[agents.{off}]\nenabled = true", f"[agents.{off}]\nenabled = false")
    text += changes.get("more", "")
    lab.lab.write("orchestrate.toml", text)
    if commit:
        lab.lab.commit({})


def kill_all(lab, runtime):
    """Kill a runtime, and all workers that it had started, once one of them has said something."""
    lab.wait_until(lambda: any(path.stat().st_size for path in lab.run_folder().glob("*.stdout")))
    runtime.kill()
    runtime.communicate()
    while found := lab.survivors():
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    for slot in (lab.root / ".git/orchestrate/slots").glob("*.lock"):
        slot.write_text("")  # as whoever takes it next does


def resume(lab, code=None):
    return lab.end(lab.begin("resume", lab.run_folder().name), code)


def record(lab, worker):
    return json.loads((lab.root / worker["output"]).with_suffix(".json").read_text())


def outcomes(document):
    return {one["ticket"]: (one["outcome"], one["agent"]) for one in document["workers"]}


SOON = "retry_pause = 0.1"
SAYS = step("say", text="Here.")
OFF = "claude is disabled (by `[agents.claude] enabled` in orchestrate.toml)"
NOT_ANY_MORE = {"no slots": "claude is disabled (AGENTS.md has no slot for it)", "disabled": OFF}
THREE = {
    "claude-1": ticket(SAYS, step("sleep", seconds=15), retries=1),
    "claude-2": ticket(depends_on=["command-4"]),
    "command-3": ticket("true", agent="command", depends_on=["claude-1"]),
    "command-4": ticket('while [ ! -e "$HOME/gate/open" ]; do sleep 0.05; done', agent="command", retries=1),
}


@pytest.mark.parametrize("how", NOT_ANY_MORE)
def test_an_agent_that_was_switched_off_meanwhile_is_not_started_and_nobody_waits_for_it(prepare, how):
    lab = prepare(THREE, pool=SOON, more='[fence]\nread = ["~/gate"]\n')
    gate = lab.lab.home / "gate"
    gate.mkdir()
    runtime = lab.begin("run", "phase-1")
    lab.wait_until(lambda: lab.journal("started"))
    kill_all(lab, runtime)
    if how == "disabled":
        change(lab, {"off": "claude"}, commit=False)
    else:
        rules = lab.root / "AGENTS.md"
        rules.write_text(rules.read_text().replace("Claude: 5 workers", "Claude: 0 workers"))
    (gate / "open").touch()
    document = resume(lab)
    workers = {one["ticket"]: (one["outcome"], one["reason"]) for one in document["workers"]}
    assert workers == {
        "claude-1": ("interrupted", NOT_ANY_MORE[how]),
        "claude-2": ("skipped", NOT_ANY_MORE[how]),
        "command-3": ("skipped", "depends on claude-1, which was rejected"),
        "command-4": ("complete", ""),
    }
    assert [one["agent"] for one in lab.journal("started")].count("claude") == 1


def test_a_ticket_whose_agent_was_switched_off_meanwhile_goes_to_its_fallback(prepare):
    lab = prepare(
        {"claude-1": ticket(SAYS, step("sleep", seconds=15), retries=1, fallback=["codex"], model="opus")},
        pool=SOON,
    )
    runtime = lab.begin("run", "phase-1")
    lab.wait_until(lambda: lab.journal("started"))
    kill_all(lab, runtime)
    change(lab, {"off": "claude"}, commit=False)
    runtime = lab.begin("resume", lab.run_folder().name)
    lab.wait_until(lambda: lab.journal("moved"))
    (moved,) = lab.journal("moved")
    assert (moved["before"], moved["agent"], moved["reason"]) == ("claude", "codex", OFF)
    lab.wait_until(lambda: len(lab.journal("started")) == 2)
    assert lab.journal("started")[1]["agent"] == "codex"
    assert lab.lab.call("cancel", lab.run_folder().name).code == 0
    lab.end(runtime)


def test_an_agent_in_anothers_place_is_not_given_that_ones_model(prepare):
    lab = prepare({"codex-1": ticket(agent="codex", model="gpt-5", fallback=["claude"])}, off="codex")
    lab.run()
    (one,) = json.loads((lab.run_folder() / "run.json").read_text())["tickets"]
    assert (one["agent"], one["model"]) == ("claude", None)


def test_a_ticket_cancelled_between_two_attempts_keeps_the_account_of_the_first(prepare):
    fails = [step("write", path="src/x.py", text="1"), step("error", status=500)]
    body = ticket(*fails, retries=1, mode="write", owns=["src/**"])
    lab = prepare({"claude-1": body}, pool="retry_pause = 600")
    runtime = lab.begin("run", "phase-1")
    lab.wait_until(lambda: lab.journal("retry"))
    assert lab.lab.call("cancel", lab.run_folder().name, "Claude-Worker-1").code == 0
    (worker,) = lab.end(runtime)["workers"]
    kept = record(lab, worker)
    assert (worker["outcome"], kept["attempts"], [one["attempt"] for one in kept["tries"]]) == (
        "cancelled",
        1,
        [1],
    )
    assert kept["usage"] == kept["tries"][0]["usage"] == worker["usage"]
    assert (lab.root / kept["patch"]).read_text().count("src/x.py")


def test_a_pause_before_another_attempt_ends_at_ctrl_c_and_resume_does_not_begin_it_again(prepare):
    lab = prepare({"command-1": ticket("kill -9 $$", agent="command", retries=1)}, pool="retry_pause = 600")
    runtime = lab.begin("run", "phase-1")
    lab.wait_until(lambda: lab.journal("retry"))
    runtime.send_signal(signal.SIGINT)
    lab.end(runtime, 130)
    (worker,) = resume(lab)["workers"]
    assert (worker["outcome"], worker["attempts"]) == ("failed", 2)


def test_a_stream_that_is_taken_away_is_its_own_workers_trouble(prepare):
    lab = prepare({"claude-1": ticket(SAYS, step("sleep", seconds=2)), "codex-2": ticket(agent="codex")})
    runtime = lab.begin("run", "phase-1")
    lab.wait_until(lambda: lab.run_folder() and (lab.run_folder() / "Claude-Worker-1.stdout").exists())
    stream = lab.run_folder() / "Claude-Worker-1.stdout"
    stream.unlink()
    os.mkfifo(stream)
    workers = {one["ticket"]: one["outcome"] for one in lab.end(runtime)["workers"]}
    assert workers == {"claude-1": "failed", "codex-2": "complete"}


def test_ten_thousand_that_wait_for_a_budget_read_the_ledger_no_oftener_than_twenty():
    assert [waiting / budget_pause(waiting) for waiting in (1, 20, 10_000)] == [1, 20, 20]


def test_a_file_in_the_place_of_the_slots_is_named(lab):
    lab.templates(command_1=ticket("true", agent="command"))
    lab.write(".git/orchestrate/slots", "")
    called = lab.call("run", "phase-1", "--json")
    assert called.code == 2, called
    assert [one for one in called.says() if one.startswith(".git/orchestrate/slots: ")]


def test_a_journal_with_half_a_record_is_gone_on_with(prepare):
    lab = prepare({"claude-2": ticket()})
    runtime = lab.begin("run", "phase-1")
    lab.wait_until(lambda: lab.journal("started"))
    kill_all(lab, runtime)
    with (lab.run_folder() / "events.jsonl").open("a") as journal:
        journal.write('{"event": "started", "worker": "Claude-Worker-2"}\n{"event": "moved"}\n[]\n{"ev')
    assert outcomes(resume(lab)) == {"claude-2": ("complete", "claude")}


@pytest.mark.parametrize("text", ["-\n" * 20_000, "-" * 40_000, "_*" * 20_000, "no changes\n" * 4_000])
def test_a_report_of_nothing_but_signs_is_read_at_once(text):
    began = time.process_time()
    missing_of(WHOLE.format(text), changed=False)
    assert time.process_time() - began < 20


def test_claims_of_thousands_of_files_are_compared_at_once():
    paths = [f"src/{number % 50}/{number}.py" for number in range(5_000)]
    listed = "".join(f"- {path}\n" for path in paths)
    began = time.process_time()
    found = claims_of(f"## Proposal\n\n### Affected Files\n\n{listed}\n", [*paths[1:], "docs/new.md"])
    assert time.process_time() - began < 20
    assert found.not_said == ("docs/new.md",)
    assert found.not_found == (paths[0],)


WRONG = {
    ("limits", "output_cap", f'"{"9" * 400}"'): "too large; write 1_000_000_000_000_000 or less",
    ("limits", "patch_cap", "1e300"): "too large; write a smaller number",
    ("limits", "grace", "1e308"): "too large; write 31_536_000 or less",
    ("pool", "start_interval", '"99999999h"'): "too large; write 31_536_000 or less",
    ("pool", "retry_pause", "inf"): "too large; write 31_536_000 or less",
    ("pool", "fallback_after", "nan"): "too small; write 0 or more",
    ("pool", "provider_pause", '"20m"'): "too large; write 900 or less",
    ("pool", "max_memory", "-1"): "too small; write 0 or more",
    ("budget", "day_tokens", "1e308"): "too large; write a smaller number",
    ("budget", "run_usd", "1e300"): "too large; write 1_000_000_000_000_000 or less",
    ("budget", "day_usd", "nan"): "too small; write more than 0",
}


def test_a_setting_that_cannot_be_meant_is_refused_in_one_short_line(lab):
    for (table, key, value), said in WRONG.items():
        lab.write("orchestrate.toml", f"[{table}]\n{key} = {value}\n")
        with pytest.raises(Refusal) as refused:
            read_settings(lab.root)
        (found,) = refused.value.problems
        assert (found.place, f"{found.what}; {found.do}"[-len(said) :]) == ("orchestrate.toml:2", said)
        assert found.what.startswith(f"`{table}.{key}` is ")
        assert len(found.what) < 150


def test_a_copy_of_the_lock_that_a_program_holds_while_it_starts_makes_no_run_go_on(prepare):
    lab = prepare({"claude-1": ticket()})
    assert lab.lab.call("deploy", "phase-1", "--json").code == 0
    state = read_run(RunDir(lab.root, lab.run_folder().name))
    copy = os.open(lab.run_folder() / "run.lock", os.O_RDWR)
    fcntl.flock(copy, fcntl.LOCK_EX)
    timer = threading.Timer(0.1, os.close, (copy,))
    timer.start()
    assert state.status() == "running"
    _wait_left(state)
    assert state.status() == "finished"
    timer.join()
