"""The worker that breaks the gate is named and left out with its dependents, and the others land."""

import json
import re
import signal

import pytest
from support.gates import call, folder_of, gate, out, reasons, verdicts, writer
from support.judgement import run, settle, write
from support.repository import shell
from support.runtimes import PATIENCE, journal, wait_until


def said(document):
    return [f"{one['place']}: {one['what']}" for one in document["problems"]]


def gate_runs(lab, document):
    """Count the runs of the gate by the files that they left."""
    return len(list((folder_of(lab, document) / "checks").glob("gate-1*.exit.json")))


def trees(lab, document):
    """List the trees that the gate ran on, with its answers."""
    notes = (one for one in journal(folder_of(lab, document)) if one["event"] == "gate_run")
    return [(one["tree"], one["passed"]) for one in notes]


NOT_BAD = "! grep -rl bad out"


@pytest.mark.parametrize("breaker", [1, 8, 15])
def test_a_planted_breaker_out_of_fifteen_is_named_and_the_fourteen_others_land(lab, breaker):
    gate(lab, f"{NOT_BAD} >&2 || {{ echo 'out is broken'; exit 3; }}")
    lab.templates(**{
        f"command_{n}": writer(n, text="bad" if n == breaker else "good") for n in range(1, 16)
    })  # fmt: skip
    document = call(lab, "run", "phase-1", code=1)
    name = f"Command-Worker-{breaker}"
    assert [one for one, verdict in verdicts(document).items() if verdict != "accepted"] == [
        f"command-{breaker}"
    ]
    assert out(lab) == {str(n) for n in range(1, 16)} - {str(breaker)}
    count = gate_runs(lab, document)
    assert count <= 9
    line = f"failed, {count} runs, broken by {name}; without it passed: "
    assert any(one.startswith(f"gate: {line}") for one in said(document))
    decisions, state = (lab.root / "DECISIONS.md").read_text(), lab.git("log", "-1", "--format=%B")
    assert f"\n**Decision:** Left out {name}: the gate fails with that work.\n" in decisions
    assert f"\n- Negative: not landed: out/{breaker}\n" in decisions
    assert f"Command-Worker-{breaker % 15 + 1} " not in decisions
    assert f"Gate: {line}" in state
    reason = reasons(document)[f"command-{breaker}"]
    assert reason.startswith("breaks the gate: `! grep -rl bad out")
    assert reason.endswith("): out is broken")
    path = re.search(r"see (\S+?)\)", reason)[1]
    assert (lab.root / path).read_text() == "out is broken\n"
    ran = trees(lab, document)
    assert len(set(ran)) == len({tree for tree, _ in ran})
    landed = lab.git("rev-parse", f"{document['commit']['landing']}^{{tree}}").strip()
    assert (landed, True) in ran
    assert (folder_of(lab, document) / f"{name}.patch").stat().st_size
    steps = [one for one in journal(folder_of(lab, document)) if one["event"] == "gate_step"]
    assert [one["number"] for one in steps] == list(range(2, count + 1))
    assert steps[0]["work"] == "on the branch as it is"
    assert all(one["work"].endswith((" of 15 workers", " of 15 workers, again")) for one in steps[1:])
    assert all(count - 1 <= one["about"] <= 9 for one in steps)
    print(f"breaker {breaker} of 15: {count} gate runs")


def test_a_search_says_how_far_it_is(lab):
    gate(lab, NOT_BAD)
    lab.templates(**{f"command_{n}": writer(n, text="bad" if n == 2 else "good") for n in range(1, 8)})
    told = lab.call("run", "phase-1").out
    assert re.search(r" gate +2 of about 7 +on the branch as it is$", told, re.MULTILINE)
    assert re.search(r" gate +3 of about 7 +on the work of \d of 7 workers$", told, re.MULTILINE)


def test_two_who_do_not_go_together_are_both_named_and_who_builds_on_the_later_falls_with_it(lab):
    gate(lab, "test ! -e out/1 || test ! -e out/3")
    lab.templates(
        command_1=writer(1, depends_on=[]), command_2=writer(2), command_3=writer(3),
        command_4=writer(4, depends_on=["command-1"]),
        command_5=shell("true", depends_on=["command-3"]), command_6=writer(6, depends_on=["command-5"]),
        command_7=writer(7, depends_on=["command-4"]), command_8=writer(8, depends_on=["command-7"]),
    )  # fmt: skip
    document = call(lab, "run", "phase-1", code=1)
    assert verdicts(document) == {
        "command-1": "accepted", "command-2": "accepted", "command-3": "rejected", "command-4": "accepted",
        "command-5": "rejected", "command-6": "rejected", "command-7": "accepted", "command-8": "accepted",
    }  # fmt: skip
    why = reasons(document)
    assert why["command-3"].startswith("breaks the gate together with Command-Worker-1: `test ! -e out/1 ||")
    assert why["command-5"] == "depends on command-3, which was rejected"
    assert why["command-6"] == "depends on command-5, which was rejected"
    assert out(lab) == {"1", "2", "4", "7", "8"}
    assert "broken by Command-Worker-3; without it" in " ".join(said(document))
    again = call(lab, "integrate", document["run"], code=1)
    assert again == document


def test_one_alone_is_rejected_by_three_runs_and_the_leads_word_asks_the_gate_again(lab):
    gate(lab, NOT_BAD)
    lab.templates(command_1=writer(1, text="bad"), command_2=shell("true", depends_on=["command-1"]))
    document = call(lab, "run", "phase-1", code=1)
    assert verdicts(document) == {"command-1": "rejected", "command-2": "rejected"}
    assert document["status"] == "integrated"
    assert gate_runs(lab, document) == 3
    assert "gate: failed, 3 runs, broken by Command-Worker-1" in said(document)
    assert not out(lab)
    assert lab.call("status", "--json").document["runs"][0]["outcomes"] == {"rejected": 2}
    words = " ".join(lab.call("status").out.split())
    assert "integrated: 2 rejected (Command-Worker-1, Command-Worker-2)" in words

    again = call(lab, "integrate", document["run"], "--accept", "Command-Worker-1", code=1)
    assert verdicts(again) == verdicts(document)
    assert "gate: failed, 3 runs, broken by Command-Worker-1" in said(again)
    assert gate_runs(lab, document) == 6
    assert not out(lab)

    gate(lab, "true")
    names = ("Command-Worker-1", "Command-Worker-2")
    mended = call(lab, "integrate", document["run"], "--accept", *names, code=0)
    assert set(verdicts(mended).values()) == {"accepted"}
    assert out(lab) == {"1"}
    assert said(mended) == []


def test_a_gate_that_was_red_before_is_run_twice_and_nobody_is_looked_for(lab):
    gate(lab, "true", "test ! -e src/app.py")
    lab.templates(**{f"command_{n}": writer(n) for n in range(1, 4)})
    document = call(lab, "run", "phase-1", code=1)
    assert set(verdicts(document).values()) == {"pending"}
    assert "the gate fails without these changes too" in " ".join(said(document))
    ran = [one["command"] for one in journal(folder_of(lab, document)) if one["event"] == "gate_run"]
    assert ran == ["true", "test ! -e src/app.py", "test ! -e src/app.py"]


def test_each_command_of_the_gate_has_a_breaker_of_its_own(lab):
    gate(lab, "test ! -e out/2", "test ! -e out/3")
    lab.templates(**{f"command_{n}": writer(n) for n in range(1, 5)})
    document = call(lab, "run", "phase-1", code=1)
    assert out(lab) == {"1", "4"}
    why = reasons(document)
    assert why["command-2"].startswith("breaks the gate: `test ! -e out/2`")
    assert why["command-3"].startswith("breaks the gate: `test ! -e out/3`")
    assert "broken by Command-Worker-2, Command-Worker-3; without them passed" in " ".join(said(document))


def test_a_gate_that_passes_the_second_time_is_told_of_and_everything_lands(lab):
    once = lab.root.parent / "once"
    gate(lab, f"test ! -e out/1 || test ! -e out/2 || test -e {once} || ! touch {once}", fence="off")
    lab.templates(command_1=writer(1), command_2=writer(2))
    document = call(lab, "run", "phase-1", code=0)
    assert set(verdicts(document).values()) == {"accepted"}
    assert out(lab) == {"1", "2"}
    (problem,) = document["problems"]
    assert problem["severity"] == "warning"
    assert "failed once and passed once on the same tree, so no worker is blamed" in problem["what"]
    tree, passed = trees(lab, document)[-1]
    assert (tree, passed) == (
        lab.git("rev-parse", f"{document['commit']['landing']}^{{tree}}").strip(), True,
    )  # fmt: skip


def test_a_flaky_gate_is_told_by_each_later_answer_about_the_run(lab):
    once = lab.root.parent / "once"
    gate(lab, f"test ! -e out/1 || test -e {once} || ! touch {once}", fence="off")
    lab.templates(command_1=writer(1))
    run = lab.call("run", "phase-1", "--detach", "--json").document["run"]
    for words in (["wait", run], ["integrate", run], ["status"], ["wait", run, "--since", "0"]):
        (said,) = lab.call(*words, "--json").says()
        assert said.startswith("gate: it failed once and passed once on the same tree")
        assert said.count(f".taskers/runs/{run}/checks/gate-1") == 2


def test_one_alone_lands_where_the_gate_passes_the_second_time_and_both_outputs_are_told(lab):
    once = lab.root.parent / "once"
    words = "echo odd; exit 3"
    gate(lab, f"test ! -e out/1 || test -e {once} || {{ touch {once}; {words}; }}; echo even", fence="off")
    lab.templates(command_1=writer(1))
    document = call(lab, "run", "phase-1", code=0)
    assert verdicts(document) == {"command-1": "accepted"}
    assert out(lab) == {"1"}
    (problem,) = document["problems"]
    assert problem["severity"] == "warning"
    assert "failed once and passed once on the same tree, so no worker is blamed" in problem["what"]
    outputs = re.findall(r"\((exit code \d); see (\S+?)\)", problem["what"])
    assert [(code, (lab.root / path).read_text()) for code, path in outputs] == [
        ("exit code 3", "odd\n"), ("exit code 0", "even\n"),
    ]  # fmt: skip
    assert gate_runs(lab, document) == 3  # it, the base, it once more


@pytest.mark.parametrize("count", [1, 2])
def test_the_line_and_the_commit_of_a_gate_that_passed_tell_that_it_had_failed(lab, count):
    once = lab.root.parent / "once"
    gate(lab, f"test ! -e out/{count} || test -e {once} || ! touch {once}", fence="off")
    lab.templates(**{f"command_{n}": writer(n) for n in range(1, count + 1)})
    called = lab.call("run", "phase-1", env={"COLUMNS": "90"})
    assert called.code == 0, called
    told = [line for line in called.out.splitlines() if line[8:].split()[:1] == ["gate"]]
    (line,) = [line for line in told if " of about " not in line]
    assert line.split(maxsplit=2)[2].startswith("passed, after failing once on the same tree: test")
    (run,) = (lab.root / ".taskers" / "runs").glob("2*")
    (event,) = [one for one in journal(run) if one["event"] == "gate"]
    assert (event["passed"], event["flaky"]) == (True, True)
    assert "\nGate: passed, after failing once on the same tree: test" in lab.git("log", "-1", "--format=%B")
    assert run.name not in (lab.root / "DECISIONS.md").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_search_that_is_stopped_goes_on_where_it_was_and_no_tree_is_run_twice(lives, number):
    fifth = lives.outside / "fifth"
    # The fifth run waits until it is stopped; the files outside say how many there were.
    script = (
        f"echo >> {lives.outside}/ran; test $(wc -l < {lives.outside}/ran) -ne 5 || "
        f"{{ touch {fifth}; {lives.waits}; }}; {NOT_BAD}"
    )
    gate(lives.lab, script, fence="off")
    lives.lab.templates(**{f"command_{n}": writer(n, text="bad" if n == 5 else "good") for n in range(1, 9)})
    runtime = lives.begin("run", "phase-1")
    wait_until(fifth.exists)
    runtime.send_signal(number)
    runtime.communicate(timeout=PATIENCE)
    (run,) = (lives.root / ".taskers" / "runs").glob("2*")
    before = [(one["tree"], one["passed"]) for one in journal(run) if one["event"] == "gate_run"]
    assert len(before) == 4
    assert not [one for one in journal(run) if one["event"] in ("settled", "landed")]
    lives.let_go(1)
    document = call(lives, "resume", run.name, code=1)
    ran = trees(lives.lab, document)
    assert ran[:4] == before
    looks = [(one["tree"], one["look"]) for one in journal(run) if one["event"] == "gate_run"]
    # One tree twice: that of the worker who is named.
    assert (len(looks), len(set(looks)), len(dict(looks))) == (8, 8, 7)
    assert f"failed, {len(ran)} runs, broken by Command-Worker-5" in " ".join(said(document))
    assert out(lives.lab) == {str(n) for n in range(1, 9)} - {"5"}
    assert lives.living() == []


def test_harm_by_a_gate_that_takes_its_runtime_along_is_found_by_the_next(lives):
    harmed = lives.outside / "harmed"
    evil = 'git -C "$ORCHESTRATE_PROJECT" config core.pager evil'
    gate(lives.lab, f"test -e {harmed} || {{ {evil}; touch {harmed}; {lives.waits}; }}", fence="off")
    lives.lab.templates(command_1=writer(1))
    runtime = lives.begin("run", "phase-1")
    wait_until(harmed.exists)
    runtime.kill()
    runtime.communicate(timeout=PATIENCE)
    (run,) = (lives.root / ".taskers" / "runs").glob("2*")
    for _ in range(2):
        document = call(lives, "integrate", run.name, code=1)
        assert verdicts(document) == {"command-1": "pending"}
        assert reasons(document)["command-1"].endswith("meanwhile .git/config changed")
        assert not out(lives.lab)
    landed = call(lives, "integrate", run.name, "--accept", "Command-Worker-1", code=0)
    assert verdicts(landed) == {"command-1": "accepted"}
    assert lives.living() == []


def test_a_runtime_killed_when_all_had_fallen_leaves_no_search_to_be_done_again(lab):
    gate(lab, NOT_BAD)
    lab.templates(command_1=writer(1, text="bad"))
    document = call(lab, "run", "phase-1", code=1)
    run = folder_of(lab, document)
    lines = (run / "events.jsonl").read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if '"event": "settled"' in line)
    (run / "events.jsonl").write_text("".join(lines[: at + 1]))
    again = call(lab, "integrate", document["run"], code=1)
    assert said(again) == said(document)
    assert gate_runs(lab, document) == 3


def test_what_a_cancelled_run_had_completed_lands_through_the_gate(lives):
    gate(lives.lab, "test -e src/app.py", fence="off")
    lives.lab.templates(command_1=writer(1), command_2=shell(f"{lives.waits}; true", timeout="5m"))
    run, _ = lives.detached()
    wait_until(lambda: [one for one in journal(run) if one["event"] == "ended"])
    call(lives, "cancel", run.name, code=0)
    call(lives, "wait", run.name, code=1)
    document = call(lives, "integrate", run.name, code=1)
    assert verdicts(document) == {"command-1": "accepted", "command-2": "rejected"}
    assert out(lives.lab) == {"1"}


def test_a_gate_that_runs_is_told_by_all_who_are_asked(lives):
    begun = lives.outside / "begun"
    gate(lives.lab, f"touch {begun}; {lives.waits}", fence="off")
    lives.lab.templates(command_1=writer(1))
    runtime = lives.begin("run", "phase-1")
    wait_until(begun.exists)
    (shown,) = lives.call("ps", "--json").document["runs"]
    assert (shown["stage"], shown["running"], shown["ended"]) == ("gate", 0, 1)
    for options in ((), ("--since", "0")):
        assert lives.call("wait", "last", "--timeout", "0", *options, "--json").document["stage"] == "gate"
    for command in (("ps",), ("wait", "last", "--timeout", "0")):
        assert "the gate runs on their work" in lives.call(*command).out
    lives.let_go(1)
    runtime.communicate()
    assert lives.call("wait", "last", "--json").document["stage"] is None


def test_the_reason_of_a_red_gate_quotes_the_stream_that_says_why_without_what_acts_on_a_terminal(lab):
    say = "echo progress; sleep 0.1; printf '\\033[31mbroken\\033[0m by one\\n' >&2; test ! -e out/1"
    settle(lab, f"[integration]\ngate = [{json.dumps(say)}]\n")
    lab.templates(command_1=write(1), command_2=write(2))
    (worker,) = [one for one in run(lab, 1)["workers"] if one["verdict"] == "rejected"]
    assert worker["reason"].isprintable()
    assert ".stderr)" in worker["reason"]
    assert worker["reason"].endswith("broken by one")


def test_the_gate_s_count_is_the_test_figure_where_no_check_gives_one(lab):
    gate(lab, "echo 12 passed in 0.1s")
    lab.templates(command_1=writer(1))
    landing = call(lab, "run", "phase-1", code=0)["commit"]["landing"]
    figure = f"12/12 passing (100%), at {landing[:10]}"
    assert f"**Tests:** {figure}\n" in (lab.root / "STATUS.md").read_text()
    report = lab.call("report", "--json").document["report"]
    assert report["progress"]["tests"]["Overall"] == figure
    kept = list((lab.root / ".taskers/checks").glob("*/test.json"))
    assert lab.call("integrate", "last", "--json").code == 0
    assert list((lab.root / ".taskers/checks").glob("*/test.json")) == kept


def test_the_gate_s_count_takes_no_figure_of_the_checks_away(lab):
    gate(lab, "echo 12 passed in 0.1s")
    text = (lab.root / "orchestrate.toml").read_text()
    lab.commit({"orchestrate.toml": f'{text}[checks]\ntest = "echo 3 passed in 0.1s"\n'})
    lab.templates(command_1=writer(1))
    call(lab, "run", "phase-1", code=0)
    assert "12/12" not in (lab.root / "STATUS.md").read_text()


def test_the_commit_names_no_file_that_a_clone_does_not_have(lab):
    gate(lab, "test ! -e out/2 || { echo broken; exit 3; }")
    lab.templates(command_1=writer(1), command_2=writer(2))
    call(lab, "run", "phase-1", code=1)
    state = lab.git("log", "-1", "--format=%B")
    assert "Gate: failed" in state
    assert ".taskers" not in state
