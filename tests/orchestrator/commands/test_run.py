"""What a run looks like from outside: documents, exit codes, warnings, the environment, the terminal."""

import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.repository import SCRIPT, seen_in, shell, template

RUN_KEYS = {
    "schema", "run", "phase", "status", "counts", "workers", "commit", "messages", "problems", "next_action",
}  # fmt: skip
WORKER = {
    "worker": str, "ticket": str, "agent": str, "outcome": str, "reason": str, "summary": str,
    "verdict": (str, type(None)),
    "flags": list, "fence": (str, type(None)), "exit_code": (int, type(None)), "attempts": int,
    "seconds": float, "files": list, "violations": list, "usage": dict, "output": (str, type(None)),
    "continues": (dict, type(None)),
}  # fmt: skip
ESCAPE, TURN = "\x1b", "\u202e"


def of_run(called):
    """Hold a document of a run to the contract."""
    document = called.document
    assert set(document) - {"waiting_for", "what"} == RUN_KEYS
    assert set(document["commit"]) == {"landing", "state"}
    for worker in document["workers"]:
        assert set(worker) == set(WORKER)
        for key, kind in WORKER.items():
            assert isinstance(worker[key], kind), (key, worker[key])
        used = {"input_tokens", "cached_tokens", "output_tokens", "cost_usd", "cost_by"}
        assert set(worker["usage"]) == used
        for violation in worker["violations"]:
            assert set(violation) == {"kind", "path"}
    return document


def test_a_run_answers_with_one_document_and_leaves_what_it_says(lab):
    lab.templates(
        command_1=shell("mkdir -p out && echo 1 > out/a", mode="write", owns=["out/**"]),
        command_2=template(depends_on=["command-1"]),
    )
    called = lab.call("run", "phase-1", "--json")
    document = of_run(called)
    assert (called.code, document["status"]) == (0, "integrated")
    assert called.out.count("\n") == 1
    first, second = document["workers"]
    assert (first["verdict"], first["files"]) == ("accepted", ["out/a"])
    assert second["flags"] == ["silent"]
    assert (lab.root / first["output"]).is_file()
    assert lab.git("rev-list", "-2", "HEAD").split() == [
        document["commit"]["state"], document["commit"]["landing"],
    ]  # fmt: skip
    assert lab.git("status", "--porcelain") == ""
    again = lab.call("integrate", "last", "--json")
    assert (again.code, of_run(again)["commit"]) == (0, document["commit"])
    assert lab.git("rev-list", "-1", "HEAD").strip() == document["commit"]["state"]


def test_what_did_not_go_well_is_an_exit_code_and_a_next_action(lab):
    lab.templates(
        command_1=shell("echo 1 > outside", mode="write", owns=["out/**"]),
        command_2=shell("echo broken >&2; exit 3"),
    )
    called = lab.call("run", "phase-1", "--json")
    document = of_run(called)
    assert (called.code, document["status"]) == (1, "finished")
    first, second = document["workers"]
    assert (first["verdict"], first["violations"]) == (
        "pending",
        [{"kind": "out_of_scope", "path": "outside"}],
    )
    assert (second["outcome"], second["verdict"], second["exit_code"]) == ("failed", "rejected", 3)
    assert document["next_action"] == f"orchestrate integrate {document['run']} --reject Command-Worker-1"
    before = lab.everything()
    refused = lab.call("run", "phase-1", "--json")
    assert (refused.code, refused.document["status"]) == (5, "refused")
    assert refused.document["next_action"] == document["next_action"]
    assert lab.everything() == before
    status = lab.call("status", "--json").document
    assert (status["runs"][0]["pending"], status["next_action"]) == (
        ["Command-Worker-1"], document["next_action"],
    )  # fmt: skip
    settled = lab.call(
        "integrate", document["run"], "--reject", "Command-Worker-1", "--reason", "no", "--json"
    )
    assert (settled.code, of_run(settled)["status"]) == (1, "integrated")


def test_a_worker_that_the_run_does_not_have_cannot_be_settled(lab):
    lab.templates(command_1=template())
    assert lab.call("run", "phase-1", "--json").code == 0
    called = lab.call("integrate", "last", "--accept", "Command-Worker-7", "--json")
    assert (called.code, called.document["status"]) == (2, "refused")
    assert "Command-Worker-7" in called.says()[0]


def test_an_agent_that_is_off_or_missing_skips_its_tickets(lab):
    lab.templates(
        command_1=template(),
        gemini_1=template(agent="gemini", command=None),
        codex_1=template(agent="codex", command=None),
        codex_2=template(agent="codex", command=None, depends_on=["codex-1"]),
    )
    lab.commit({"orchestrate.toml": "[agents.codex]\nexecutable = 'no-such-program'\n"})
    before = lab.everything()
    strict = lab.call("run", "phase-1", "--strict-agents", "--json")
    assert (strict.code, strict.document["status"]) == (2, "refused")
    # Gemini is off by choice: that is not missing.
    assert [one["place"] for one in strict.document["problems"] if one["severity"] == "error"] == [
        "codex-1",
        "codex-2",
    ]
    assert lab.everything() == before
    called = lab.call("run", "phase-1", "--json")
    document = of_run(called)
    outcomes = {one["ticket"]: (one["outcome"], one["verdict"]) for one in document["workers"]}
    assert outcomes == {
        "command-1": ("complete", "accepted"), "gemini-1": ("skipped", None),
        "codex-1": ("skipped", None), "codex-2": ("skipped", None),
    }  # fmt: skip
    warned = "\n".join(called.says())
    assert "gemini is disabled" in warned
    assert "codex is not installed (`no-such-program` was not found)" in warned
    assert {one["severity"] for one in document["problems"]} == {"warning"}
    assert (called.code, document["status"]) == (0, "integrated")


def test_a_phase_of_which_nothing_can_be_started_is_refused(lab):
    lab.templates(gemini_1=template(agent="gemini", command=None))
    before = lab.everything()
    called = lab.call("run", "phase-1", "--json")
    assert (called.code, called.document["status"]) == (2, "refused")
    assert "gemini is disabled" in called.says()[0]
    assert lab.everything() == before


NESTED = dict.fromkeys((
    "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CONFIG_DIR", "CODEX_HOME",
    "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID", "GEMINI_CLI", "GEMINI_CLI_HOME",
    "GEMINI_SANDBOX", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GIT_EDITOR",
    "GIT_AUTHOR_NAME", "GIT_SSH_COMMAND", "VIRTUAL_ENV", "AI_AGENT", "NODE_OPTIONS", "BASH_ENV", "ENV",
    "MY_SECRET",
), "/not/ours")  # fmt: skip


def test_a_worker_sees_nothing_of_the_session_that_called_us(lab):
    lab.templates(command_1=template(("env", "-0")))
    called = lab.call("run", "phase-1", "--json", env=NESTED)
    assert called.code == 0
    (stdout,) = (lab.root / ".taskers/runs").glob("*/Command-Worker-1.stdout")
    seen = dict(pair.split("=", 1) for pair in stdout.read_text().split("\0") if pair)
    assert not set(NESTED) & set(seen)
    assert seen["ORCHESTRATE_WORKER"] == "Command-Worker-1"
    assert seen["ORCHESTRATE_PROJECT"] == str(lab.root)
    assert seen["ORCHESTRATE_RUN"] == stdout.parent.name
    assert not {name for name in seen if name.startswith("GIT_") and name != "GIT_OPTIONAL_LOCKS"}


def test_git_variables_that_name_another_repository_reach_nobody(lab, tmp_path):
    decoy = tmp_path / "decoy"
    shutil.copytree(lab.root, decoy)
    lab.commit({"orchestrate.toml": 'fence = "off"\n'})  # which lets no worker write by git
    script = "git add -N . && git rev-parse --show-toplevel && echo 1 > out.txt"
    lab.templates(command_1=shell(script, mode="write", owns=["out.txt"]))
    before = seen_in(decoy)
    foreign = {
        "GIT_DIR": f"{decoy}/.git", "GIT_WORK_TREE": str(decoy), "GIT_INDEX_FILE": f"{decoy}/.git/index",
        "GIT_COMMON_DIR": f"{decoy}/.git", "GIT_OBJECT_DIRECTORY": f"{decoy}/.git/objects",
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.worktree", "GIT_CONFIG_VALUE_0": str(decoy),
        "GIT_CONFIG_PARAMETERS": f"'core.worktree={decoy}'", "GIT_NAMESPACE": "decoy", "GIT_PREFIX": "src/",
        "GIT_CEILING_DIRECTORIES": str(tmp_path), "GIT_TEMPLATE_DIR": str(decoy),
        "GIT_LITERAL_PATHSPECS": "1", "GIT_ICASE_PATHSPECS": "1", "GIT_ATTR_SOURCE": "decoy",
    }  # fmt: skip
    called = lab.call("run", "phase-1", "--json", env=foreign)
    assert (called.code, of_run(called)["workers"][0]["files"]) == (0, ["out.txt"])
    assert lab.call("status", "--json", env=foreign).code == 0
    assert seen_in(decoy) == before
    assert (lab.root / "out.txt").read_text() == "1\n"
    assert lab.git("rev-parse", "HEAD").strip() == called.document["commit"]["state"]


def harmless(text):
    """Return whether nothing in a text but its line ends acts on a terminal."""
    return all(char.isprintable() or char == "\n" for char in text)


def test_nothing_that_a_worker_says_acts_on_the_terminal_or_the_state_files(lab):
    hostile = f"{ESCAPE}[2J{ESCAPE}]0;owned\x07{TURN}evil\x9b31m"
    summary = json.dumps({"status": "blocked", "summary": f"stuck {hostile} **bold** \r\n# heading"})
    lab.templates(
        command_1=shell(f"printf '%s\\n' 'ORCHESTRATE-RESULT {summary}'", title=f"Look {hostile}"),
        command_2=shell(f"printf '{hostile}' >&2; exit 9", title="Fail"),
        command_3=shell(f"printf x > '{hostile}.txt'", title="Name", mode="write", owns=["out/**"]),
        command_4=shell(
            f"mkdir out2; printf x > 'out2/{hostile}.txt'", title="Own", mode="write", owns=["out2/**"]
        ),
    )
    plan = lab.call("plan", "phase-1")
    called = lab.call("run", "phase-1")
    assert called.code == 1
    answers = [plan, called, lab.call("status"), lab.call("resume"), lab.call("integrate", "last")]
    for answer in answers:
        assert harmless(answer.out), answer.out
        assert harmless(answer.err), answer.err
    for name in ("STATUS.md", "DECISIONS.md"):
        assert harmless((lab.root / name).read_text()), name
    assert harmless(lab.git("log", "-2", "--format=%B"))
    assert harmless(lab.call("status", "--json").out)


def test_a_run_is_told_in_lines_that_fit_a_narrow_terminal(lab):
    long = "word " * 40
    lab.templates(
        command_1=shell("mkdir out; echo 1 > out/a; echo done", title=long, mode="write", owns=["out/**"]),
        command_2=shell(f"echo '{long}' >&2; exit 3", title="Fail"),
        command_3=shell("for i in 1 2 3 4 5 6 7 8 9; do mkdir -p " + "deep/" * 12 + "$i; echo > "
                        + "deep/" * 12 + "$i/file; done", mode="write", owns=["x/**"], title="Stray"),
    )  # fmt: skip
    called = lab.call("run", "phase-1", env={"COLUMNS": "80"})
    assert called.code == 1
    run = lab.call("status", "--json").document["runs"][0]["run"]
    command = f"orchestrate integrate {run} --reject Command-Worker-3"
    # What happens is a log here, of which nothing is cut.
    assert [line for line in called.out.splitlines() if len(line) > 80 and not line[0].isdigit()] == []
    for said in ("out_of_scope", "deep/", "file", f"  {command} --reason", f"next: {command}\n"):
        assert said in called.out
    for command in (("plan", "phase-1"), ("status",), ("resume",), ("run", "phase-1")):
        shown = lab.call(*command, env={"COLUMNS": "80"})
        assert [line for line in (shown.out + shown.err).splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("where", ["src", "."])
def test_a_run_may_be_started_from_below_the_root(lab, where):
    lab.templates(command_1=shell("pwd; ls", title="Where"))
    called = lab.call("run", "phase-1", "--json", cwd=lab.root / where)
    assert called.code == 0
    text = (lab.root / called.document["workers"][0]["output"]).read_text()
    assert "STATUS.md" in text


@pytest.mark.parametrize("json_too", [(), ("--json",)])
def test_a_reader_that_has_gone_ends_no_run(lab, json_too):
    lab.templates(
        command_1=shell("mkdir out; echo 1 > out/a", mode="write", owns=["out/**"]),
        command_2=template(depends_on=["command-1"]),
    )
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [SCRIPT, "run", "phase-1", *json_too],
        cwd=lab.root, env=lab.env(), stdout=writing, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writing)
    # The lines on the way are for whoever watches; the document is the answer, and nobody has it.
    assert (done.returncode, done.stderr) == (1 if json_too else 0, "")
    assert (lab.root / "out" / "a").read_text() == "1\n"
    assert lab.call("status", "--json").document["runs"][0]["status"] == "integrated"


def test_an_answer_that_cannot_be_written_is_a_failure_without_a_trace(lab):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [SCRIPT, "status", "--json"], cwd=lab.root, env=lab.env(), stdout=full,
            stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")


def test_what_an_encoding_cannot_spell_is_written_another_way(lab):
    lab.templates(command_1=template(title="Größe 日本"))
    called = lab.call("plan", "phase-1", env={"PYTHONIOENCODING": "ascii"})
    assert called.code == 0
    assert "Gr\\xf6\\xdfe" in called.out


def test_two_runs_of_a_phase_started_at_once_are_one_run_and_one_refusal(lab):
    lab.templates(command_1=shell("sleep 1; mkdir -p out; echo x > out/1", mode="write", owns=["out/**"]))
    with ThreadPoolExecutor(2) as pool:
        calls = list(pool.map(lambda _: lab.call("run", "phase-1", "--json"), range(2)))
    assert sorted(called.code for called in calls) == [0, 5], calls
    assert len(list((lab.root / ".taskers" / "runs").iterdir())) == 1
