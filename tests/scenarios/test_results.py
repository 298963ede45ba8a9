"""What a worker says of its work in one line: shown wherever its verdict is, and counted at the end."""

from support.faults import step, ticket
from support.repository import shell

from orchestrator.rehearsal.agent import report
from orchestrator.state.canonical.status import status

PASSED = "128 passed in 4.1 s"


def said(word, summary):
    return f"""printf 'ORCHESTRATE-RESULT {{"status": "{word}", "summary": "{summary}"}}\\n'"""


def test_an_accepted_worker_shows_its_result_everywhere(lab):
    lab.templates(
        command_1=shell(f"echo noise; echo '{PASSED}'"),
        command_2=shell(said("complete", "2 faults (of 3) fixed")),
        command_3=shell("echo out; echo oops >&2; exit 3"),
        command_4=shell(
            "echo new > src/new.txt; echo one; echo out of scope > notes.txt", mode="write", owns=["src/**"]
        ),
    )
    ran = lab.call("run", "phase-1")
    lines = ran.out.splitlines()
    assert f'            "{PASSED}"' in lines
    assert '            "2 faults (of 3) fixed"' in lines
    assert lines[-2] == "tickets:  4: 2 accepted, 1 pending, 1 failed"
    assert any(
        line.split()[1:3] == ["complete", "Command-Worker-1"] and f'"{PASSED}"' in line for line in lines
    )
    assert f'result        Command-Worker-1 command-1: "{PASSED}"' in lab.call("status").out.splitlines()
    listed = lab.call("logs", "last", env={"COLUMNS": "200"}).out
    assert f'"{PASSED}"' in listed
    waited = lab.call("wait", "last", "--json").document
    assert waited["counts"] == {
        "accepted": 2, "pending": 1, "rejected": 0, "failed": 1, "skipped": 0, "running": 0,
        "stopped": 0, "waiting": 0,
    }  # fmt: skip
    assert [one["summary"] for one in waited["workers"]] == [PASSED, "2 faults (of 3) fixed", "", "one"]
    shown = {one.worker: one.result for one in status.read((lab.root / "STATUS.md").read_bytes()).completions}
    assert shown == {
        "Command-Worker-1": PASSED,
        "Command-Worker-2": "2 faults (of 3) fixed",
    }
    settled = lab.call("integrate", "last", "--reject", "command-4", "--reason", "no")
    assert settled.out.splitlines()[-2] == "tickets:  4: 2 accepted, 1 rejected, 1 failed"


def test_a_worker_that_had_nothing_to_do_is_skipped_and_nothing_fails(lab):
    lab.templates(
        command_1=shell(said("skipped", "no test suite found")),
        command_2=shell("echo done", depends_on=["command-1"]),
    )
    ran = lab.call("run", "phase-1", "--json")
    first, second = ran.document["workers"]
    assert ran.code == 0, ran.out
    assert (first["outcome"], first["verdict"], first["reason"]) == ("skipped", None, "no test suite found")
    assert (second["outcome"], second["verdict"]) == ("complete", "accepted")
    assert ran.document["status"] == "integrated"
    assert ran.document["counts"]["skipped"] == 1
    assert ran.document["problems"] == [
        {"place": "Command-Worker-1", "what": "skipped: no test suite found", "do": "", "severity": "warning"}
    ]
    assert lab.call("wait", "last").code == 0
    listed = status.read((lab.root / "STATUS.md").read_bytes())
    assert ([one.worker for one in listed.completions], listed.active) == (["Command-Worker-2"], ())
    assert lab.call("resume", ran.document["run"], "--json").code == 0


def test_an_exit_code_outweighs_the_word_skipped(lab):
    lab.templates(command_1=shell(f"{said('skipped', 'nothing')}; exit 4"))
    (worker,) = lab.call("run", "phase-1", "--json").document["workers"]
    assert (worker["outcome"], worker["verdict"]) == ("failed", "rejected")


def test_the_result_of_an_agent_is_the_beginning_of_its_summary(rehearsal):
    text = report("- Reviewed **12 files**.\nNothing is wrong.", "COMPLETE", [])
    rehearsal.prepare({
        "claude-1": ticket(step("answer", text=text, report=False)),
        "codex-1": ticket(step("answer", text="x" * 300), agent="codex"),
    })  # fmt: skip
    document = rehearsal.run()
    assert rehearsal.worker(document, "claude-1")["summary"] == "Reviewed **12 files**."
    assert len(rehearsal.worker(document, "codex-1")["summary"]) == 160


def test_a_dependent_ticket_gets_all_that_a_command_printed_and_not_its_result_line_alone(lab):
    lab.templates(
        command_1=shell("echo a finding; " + said("complete", "one finding")),
        command_2=shell("cat $ORCHESTRATE_TICKET", depends_on=["command-1"])
        + '\nFound: {{ outputs["command-1"] }}\n',
    )
    ran = lab.call("run", "phase-1", "--json").document
    assert [one["verdict"] for one in ran["workers"]] == ["accepted", "accepted"]
    first, second = ((lab.root / one["output"]).read_text() for one in ran["workers"])
    assert first.splitlines()[0] == "a finding"
    assert "a finding" in second
    assert ran["workers"][0]["summary"] == "one finding"
