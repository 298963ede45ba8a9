"""A whole phase by `orchestrate run`: fifteen tickets, three real CLIs, a scripted model, one repository."""

import pytest
from support.real_phase import AGENTS, REPORT, survivors

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(900)]


def test_a_phase_of_fifteen_real_workers_is_judged_landed_and_recorded(project):
    step = project.step
    end = step("answer", text=REPORT, **{"in": 1000, "out": 20})
    for name in AGENTS:
        project.ticket(f"{name}-1", "mode: read-only", end)
        write = step("write", path=f"{name}/made.txt", text="made\n")
        more = step("shell", cmd=f"cat {name}/made.txt > {name}/copy.txt")
        project.ticket(f"{name}-2", f'mode: write\nowns: ["{name}/**"]', write, more, end)
        tried = step("write", path="stray.txt", text="x\n") + step("shell", cmd="echo x > stray2.txt")
        project.ticket(f"{name}-3", "mode: read-only", tried, end)
        project.ticket(f"{name}-4", "mode: read-only", step("fail", status=401, message="no such key"))
        project.ticket(f"{name}-5", "mode: read-only\ntimeout: 20s", step("stall"))
    project.commit()

    code, document = project.call("run", "phase-1")

    assert code == 1
    assert document["status"] == "integrated", document
    workers = {worker["ticket"]: worker for worker in document["workers"]}
    assert len(workers) == 15
    assert "advisory" not in {worker["fence"] for worker in workers.values()}
    for name in AGENTS:
        told = {number: workers[f"{name}-{number}"] for number in range(1, 6)}
        outcomes = {number: (one["outcome"], one["verdict"]) for number, one in told.items()}
        assert outcomes == {
            1: ("complete", "accepted"),
            2: ("complete", "accepted"),
            3: ("complete", "accepted"),
            4: ("failed", "rejected"),
            5: ("timed_out", "rejected"),
        }, (name, told)
        assert told[2]["files"] == [f"{name}/copy.txt", f"{name}/made.txt"]
        assert (told[3]["files"], told[3]["violations"]) == ([], [])
        assert "no such key" in told[4]["reason"]
        assert told[4]["attempts"] == 1
        assert told[1]["usage"]["input_tokens"] == 1000
        assert (told[1]["usage"]["cost_usd"] is not None) == (name == "claude")
        assert (project.lab.repo / name / "copy.txt").read_text().strip() == "made"
    assert not (project.lab.repo / "stray.txt").exists()
    assert not (project.lab.repo / "stray2.txt").exists()
    status = (project.lab.repo / "STATUS.md").read_text()
    # What was completed; failures stand in the run.
    assert status.count(f"run {document['run']}") == sum(
        one["verdict"] == "accepted" for one in workers.values()
    )
    assert project.lab.changes() == ""
    # A commit for each worker that changed something, then that of the state.
    landed = sum(bool(one["files"]) for one in document["workers"])
    log = project.lab.git("log", "--format=%s%n%(trailers:key=Orchestrate-Run,valueonly)", f"-{landed + 1}")
    first, *others = log.split("\n\n")
    assert first == f"Integrated run {document['run']} (phase-1)"
    assert sum(document["run"] in one for one in others) == landed
    assert survivors(document["run"]) == []


def test_a_dependent_sees_what_the_agent_before_it_answered(project):
    said = REPORT.replace("Read it.", "The answer is 4711.")
    project.ticket("claude-1", "mode: read-only", project.step("answer", text=said))
    body = '{{ outputs["claude-1"] }}\n' + project.step("answer", text=REPORT)
    project.ticket("codex-1", "depends_on: [claude-1]", body)
    project.commit()
    code, document = project.call("run", "phase-1")
    assert code == 0, document
    asked = [request for request in project.lab.server.requests() if request["api"] == "openai"]
    assert any("The answer is 4711." in request["body"] for request in asked)
