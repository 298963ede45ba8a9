"""The fake agents as a user has them: written by a command, fit to be agents, true to their page."""

import json
import re
import time

from support.faults import AGENTS, step, ticket
from support.paths import ROOT
from support.repository import seen_in

from orchestrator.rehearsal._troubles import TROUBLES
from orchestrator.rehearsal.agent import Fake

PAGE = (ROOT / "docs" / "rehearsing.md").read_text()


def test_the_page_lists_the_steps_that_there_are():
    listed = set(re.findall(r"^\| `([a-z-]+)`", PAGE, re.MULTILINE))
    steps = {name[3:].replace("_", "-") for name in vars(Fake) if name.startswith("do_")}
    assert listed == steps | set(TROUBLES)
    assert steps.isdisjoint(TROUBLES)


def test_the_fakes_are_usable_agents(rehearsal):
    rehearsal.prepare({"claude-1": ticket()})
    told = rehearsal.lab.call("doctor", "--json").document
    agents = {one["agent"]: one for one in told["agents"]}
    for name in AGENTS:
        assert (agents[name]["usable"], agents[name]["reason"]) == (True, ""), agents[name]
        assert agents[name]["executable"] == str(rehearsal.fakes / name)


def test_the_settings_that_are_shown_are_settings(lab, tmp_path):
    folder = tmp_path / 'it\'s a "folder"'
    shown = lab.call("fake-agent", str(folder))
    assert shown.code == 0
    toml = shown.out[: shown.out.index("next: ")]
    lab.commit({"orchestrate.toml": toml})
    told = lab.call("doctor", "--json").document
    assert [one["usable"] for one in told["agents"]] == [True] * 4


def test_the_fakes_are_written_once_and_over_nothing(lab, tmp_path):
    folder = tmp_path / "a" / "b"
    first = lab.call("fake-agent", str(folder), "--json")
    assert (first.code, [one["agent"] for one in first.document["agents"]]) == (0, list(AGENTS))
    before = seen_in(tmp_path)
    assert lab.call("fake-agent", str(folder), "--json").document == first.document
    assert seen_in(tmp_path) == before
    (folder / "claude").write_text("mine")
    (folder / "codex").unlink()
    refused = lab.call("fake-agent", str(folder), "--json")
    assert (refused.code, refused.document["ok"]) == (2, False)
    assert refused.says() == [
        f"{folder / 'claude'}: exists and is not a fake agent; move it, or name another folder"
    ]
    assert not (folder / "codex").exists()
    assert lab.call("fake-agent", str(folder / "claude")).code == 2


def test_what_the_page_says_of_a_rehearsal_comes_of_it(rehearsal):
    owned = {"mode": "write", "owns": ["src/**"]}
    rehearsal.prepare({
        "claude-1": ticket(step("stall"), idle_timeout="1s"),
        "claude-2": ticket(step("never-exit")),
        "claude-3": ticket(step("error", forever=True, every=0.1), timeout="2s"),
        "claude-4": ticket(step("lie"), acceptance=["test -e src/never_written.py"], **owned),
        "codex-1": ticket(step("write", path="elsewhere.py"), agent="codex", mode="write", owns=["docs/**"]),
        "codex-2": ticket(step("ask", how="tool"), agent="codex", idle_timeout="1s"),
        "codex-3": ticket(step("unreported"), agent="codex"),
        "gemini-1": ticket(step("answer"), step("fork"), agent="gemini"),
    })  # fmt: skip
    document = rehearsal.run()
    stalled, staying, limited, lying, straying, asking, reporting, leaving = document["workers"]
    assert (stalled["ticket"], stalled["outcome"]) == ("claude-1", "timed_out")
    assert (staying["outcome"], staying["flags"]) == ("complete", ["did_not_exit"])
    assert limited["outcome"] in ("rate_limited", "timed_out")
    assert (lying["outcome"], lying["flags"]) == ("failed", ["no_changes"])
    assert (straying["verdict"], straying["violations"]) == (
        "pending", [{"kind": "out_of_scope", "path": "elsewhere.py"}],
    )  # fmt: skip
    assert (leaving["outcome"], leaving["flags"]) == ("complete", ["left_processes"])
    assert (asking["outcome"], asking["reason"]) == ("blocked", "May I run `rm -rf build`?")
    assert (reporting["outcome"], reporting["attempts"], reporting["flags"]) == ("complete", 2, [])


def test_a_quota_that_is_spent_for_a_while_is_waited_for(rehearsal):
    steps = (step("limit", kind="quota", seconds=1), step("answer", text="Heron."))
    rehearsal.prepare({f"{name}-1": ticket(*steps, agent=name, retries=1) for name in AGENTS})
    for one in rehearsal.run()["workers"]:
        assert (one["outcome"], one["attempts"], one["usage"]["input_tokens"]) == ("complete", 2, 100), one
        assert "Heron." in (rehearsal.root / one["output"]).read_text()


def test_a_limit_at_one_time_is_one_limit_for_a_whole_phase(rehearsal):
    at = int(time.time()) + 7
    args = ("--fake", json.dumps({"do": "limit", "kind": "quota", "at": at}))
    rehearsal.prepare({f"claude-{n}": ticket(step("answer"), retries=1) for n in range(1, 8)}, args=args)
    workers = rehearsal.run()["workers"]
    assert time.time() > at
    assert {one["outcome"] for one in workers} == {"complete"}
    # Five may run at once: these are refused, and the two in the queue never ask before the time.
    attempts = sorted(one["attempts"] for one in workers)
    assert attempts[:2] == [1, 1]
    assert attempts[-1] == 2


def test_a_command_takes_the_seconds_that_it_is_given(rehearsal):
    assert '"command": "python3 src/new.py", "seconds": 2' in PAGE
    rehearsal.prepare({"claude-1": ticket(step("shell", command="echo heard >&2", seconds=1.5))})
    (worker,) = rehearsal.run()["workers"]
    assert worker["seconds"] >= 1.5
    assert b"heard" in rehearsal.stdout(worker)
