"""`orchestrate doctor`: what it finds, what it calls wrong, and that it leaves no trace."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock
from support.repository import seen_in
from support.runtimes import PATIENCE

from orchestrator.cli.main import main
from orchestrator.report.doctor import (
    FULL_DISK,
    LOW_DISK,
    FenceFound,
    disk_problems,
    fence_problems,
    git_problems,
)
from workers.engine.versions import ask_versions
from workers.pool.slots import Pool, PoolLimits


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Make PATH a folder with git alone, and return a way to add programs to it."""
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "git").symlink_to(shutil.which("git"))

    def add(name, script):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
        return str(folder / name)

    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("ORCHESTRATE_WORKER", raising=False)
    monkeypatch.setenv("CODEX_API_KEY", "sk-test-not-real")
    return add


@pytest.fixture
def doctor(lab, tools, capsys):  # noqa: ARG001 - no agent of this machine's may be found
    def call(code=0):
        before = seen_in(lab.root)
        assert main(["doctor", "--json", "--project", str(lab.root)]) == code
        assert seen_in(lab.root) == before
        document = json.loads(capsys.readouterr().out)
        assert document["ok"] is (code == 0)
        return document

    return call


def errors(document):
    return [(one["place"], one["what"]) for one in document["problems"] if one["severity"] == "error"]


def test_agents_are_found_with_what_they_say_their_version_is(doctor, tools, monkeypatch):
    codex = tools("codex", "echo; echo codex-cli 0.142.0; echo more")
    monkeypatch.setenv("CODEX_API_KEY", "sk-test-not-real")
    agents = {one["agent"]: one for one in doctor()["agents"]}
    assert agents["codex"] == {
        "agent": "codex", "enabled": True, "executable": codex, "version": "codex-cli 0.142.0",
        "usable": True, "reason": "",
        "config": "CODEX_API_KEY is set: each worker has a CODEX_HOME of its own; "
        "nothing of ~/.codex is linked, copied, read or written",
        "messages": "between tool calls",
    }  # fmt: skip
    assert (agents["claude"]["executable"], agents["claude"]["usable"]) == (None, False)
    assert "was not found" in agents["claude"]["reason"]
    assert "disabled" in agents["gemini"]["reason"]
    assert agents["command"]["usable"]


def test_messages_reach_codex_between_tool_calls_only_in_a_directory_of_ours(doctor, monkeypatch):
    for name in ("CODEX_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    said = {one["agent"]: one["messages"] for one in doctor()["agents"]}
    between = "between tool calls"
    assert said == {"codex": "with its tools", "claude": between, "gemini": between, "command": ""}
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-not-real")
    assert doctor()["agents"][0]["messages"] == between


def test_an_agent_that_cannot_say_its_version_is_not_usable(doctor, tools):
    tools("codex", "exit 3")
    document = doctor()
    (codex,) = (one for one in document["agents"] if one["agent"] == "codex")
    assert codex["reason"].endswith("--version` fails with exit code 3")
    assert not codex["usable"]
    assert "codex" in [problem["place"] for problem in document["problems"]]


def test_an_agent_is_asked_without_the_variables_that_are_not_its_business(doctor, tools, monkeypatch):
    monkeypatch.setenv("SOME_SECRET", "s3cret")
    tools("codex", 'echo "codex ${SOME_SECRET:-nothing}"')
    assert doctor()["agents"][0]["version"] == "codex nothing"


def test_what_an_agent_writes_to_say_its_version_is_not_left_behind(doctor, tools, tmp_path):
    note = tmp_path / "note"
    tools("codex", f': >"$CODEX_HOME/log"; echo "$CODEX_HOME" >"{note}"; echo codex-cli 1')
    assert doctor()["agents"][0]["usable"]
    assert not Path(note.read_text().strip()).exists()


def test_a_program_that_does_not_answer_is_given_up_and_seen_dead(tools, tmp_path):
    pid = tmp_path / "pid"
    slow = tools("slow", f'echo $$ >"{pid}"\nwhile :; do :; done')
    said = ask_versions({"slow": slow, "gone": str(tmp_path / "gone")}, dict(os.environ), 1.0)
    assert said["slow"].fault == "does not answer within 1 seconds"
    assert said["gone"].fault.startswith("cannot be started")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_programs_are_asked_at_the_same_time(tools, tmp_path):
    # Each waits until the other has been started: asked one after the other, neither would answer.
    for name, other in (("one", "two"), ("two", "one")):
        tools(name, f': >"{tmp_path}/{name}"; until [ -e "{tmp_path}/{other}" ]; do :; done; echo {name}')
    paths = {name: str(tmp_path / "tools" / name) for name in ("one", "two")}
    said = ask_versions(paths, dict(os.environ), 20.0)
    assert {name: one.text for name, one in said.items()} == {"one": "one", "two": "two"}


def test_a_child_that_keeps_the_output_open_does_not_keep_us(tools, tmp_path):
    stop = tmp_path / "stop"
    path = tools("parent", f'( until [ -e "{stop}" ]; do :; done; : >"{stop}.seen" ) & echo parent 1')
    try:
        assert ask_versions({"parent": path}, dict(os.environ), 20.0)["parent"].text == "parent 1"
    finally:
        stop.touch()
        deadline = time.monotonic() + PATIENCE
        while not Path(f"{stop}.seen").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert Path(f"{stop}.seen").exists()


@pytest.mark.parametrize("version", ["", "git version 2.30.9", "git version 1.9", "gut"])
def test_a_git_that_is_missing_or_too_old_is_wrong(version):
    (problem,) = git_problems(version)
    assert "git 2.31 or newer" in problem.do


@pytest.mark.parametrize(
    "version", ["git version 2.31.0", "git version 2.39.5 (Apple Git-154)", "git version 3.0"]
)
def test_a_git_that_is_new_enough_is_well(version):
    assert git_problems(version) == []


def test_without_git_that_is_what_is_said(lab, tmp_path):
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    called = lab.call("doctor", "--json", env={"PATH": str(nothing)})
    assert called.code == 1
    assert "git: is not installed; install git 2.31 or newer" in called.says()
    assert called.document["git"] is None


def test_root_is_a_warning_with_a_fence_and_a_sharper_one_without():
    (bare,) = fence_problems(FenceFound("advisory", "", root=True), "off")
    (fenced,) = fence_problems(FenceFound("namespaces", "", root=True))
    assert (bare.severity, fenced.severity) == ("warning", "warning")
    assert "weakest case at every level" in fenced.what
    assert "without a fence, so they can change any file" in bare.what
    assert fence_problems(FenceFound("advisory", "", root=False), "off") == []


@pytest.mark.parametrize(
    ("reason", "do"),
    [
        ("bubblewrap is not installed", "apt install bubblewrap"),
        ("/usr/bin/bwrap: setting up uid map: Permission denied", "permit user namespaces"),
    ],
)
@pytest.mark.parametrize("level", ["landlock", "advisory"])
def test_a_stronger_fence_is_named_with_the_way_to_get_it(level, reason, do):
    (found,) = fence_problems(FenceFound(level, reason, root=False))
    assert (found.severity, found.what) == ("warning", f"is {level}, and namespaces hold more: {reason}")
    assert do in found.do


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("http.extraheader=AUTHORIZATION: basic eA==", True), ("user.name=me:pw@host", False),
        ("remote.origin.url=https://me:pw@host/x", True), ("remote.origin.url=https://me@host/x", False),
        ("remote.origin.url=https://ghp_abc123@host/x", True), ("remote.origin.url=ssh://git@host/x", False),
    ],
)  # fmt: skip
def test_a_token_that_git_and_so_a_fenced_worker_reads_is_named_by_its_file_alone(
    doctor, lab, setting, named
):
    lab.git("config", *setting.split("=", 1))
    told = [one for one in doctor()["problems"] if "holds a token" in one["what"]]
    assert [one["place"] for one in told] == [str(lab.root / ".git" / "config")] * named
    assert not any(secret in str(told) for secret in ("eA==", "pw", "abc123"))


def test_an_agent_without_key_and_login_is_not_usable(doctor, tools, lab, monkeypatch, tmp_path):
    tools("claude", "echo 2.0")
    home = tmp_path / "empty"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    def claude():
        document = doctor()
        (found,) = (one for one in document["agents"] if one["agent"] == "claude")
        return found["usable"], [one for one in document["problems"] if one["place"] == "claude"]

    usable, (problem,) = claude()
    assert (usable, problem["severity"]) == (False, "warning")
    assert problem["what"].startswith("no key is set (ANTHROPIC_API_KEY, ")
    (home / ".claude").mkdir()
    assert claude() == (True, [])
    (home / ".claude").rmdir()
    lab.write("orchestrate.toml", '[agents.claude]\nenv = ["CLAUDE_CODE_USE_BEDROCK"]\n')
    assert claude() == (True, [])


def test_a_base_url_that_its_cli_does_not_read_is_named_with_the_one_that_it_reads(
    doctor, tools, monkeypatch
):
    tools("codex", "echo 1")
    monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:9/v1")
    found = [one for one in doctor()["problems"] if one["place"] == "OPENAI_API_BASE"]
    assert [(one["what"], one["do"]) for one in found] == [
        ("is set, and codex does not read it", "set OPENAI_BASE_URL for another server")
    ]
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert [one for one in doctor()["problems"] if one["place"] == "OPENAI_API_BASE"] == []


def test_gemini_without_a_model_is_said_to_cost_a_request_a_turn(doctor, tools, lab, monkeypatch):
    tools("gemini", "echo 1")
    monkeypatch.setenv("GEMINI_API_KEY", "sk-test-not-real")
    settings = "[agents.gemini]\nenabled = true\n"
    lab.write("orchestrate.toml", settings)

    def said():
        return [one["what"] for one in doctor()["problems"] if one["place"] == "gemini"]

    (what,) = said()
    assert "one more request" in what
    lab.write("orchestrate.toml", f'{settings}model = "gemini-3-pro"\n')
    assert said() == []


def test_a_corrupt_index_and_missing_objects_are_wrong(doctor, lab):
    index = lab.root / ".git" / "index"
    whole = index.read_bytes()
    index.write_bytes(b"garbage")
    assert any("the index cannot be read" in what for _, what in errors(doctor(code=1)))
    index.write_bytes(whole)
    lab.write("src/app.py", "staged\n")
    lab.git("add", "src/app.py")  # that is no damage
    assert errors(doctor()) == []
    blob = lab.git("rev-parse", "HEAD:src/app.py").strip()
    (lab.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    assert [what for _, what in errors(doctor(code=1))] == [f"objects of the last commit are missing: {blob}"]


def test_a_disk_that_fills_is_a_warning_and_a_full_one_is_wrong():
    assert disk_problems(LOW_DISK) == []
    assert [one.severity for one in disk_problems(LOW_DISK - 1)] == ["warning"]
    assert [one.severity for one in disk_problems(FULL_DISK - 1)] == ["error"]


def test_settings_and_state_files_that_cannot_be_read_are_all_named(doctor, lab):
    lab.write("orchestrate.toml", "fense = 1\n")
    (lab.root / "STATUS.md").unlink()
    (lab.root / "DECISIONS.md").write_bytes(b"# \xff\n")
    document = doctor(code=1)
    places = {place.partition(":")[0] for place, _ in errors(document)}
    assert places == {"orchestrate.toml", "STATUS.md", "DECISIONS.md"}
    assert document["next_action"] == f"orchestrate init --project {lab.root}"


def test_a_table_that_is_declared_twice_is_to_be_merged_and_status_warns_of_it(doctor, lab):
    lab.write("orchestrate.toml", "[agents.codex]\nenabled = true\n[git]\n[agents.codex]\nargs = []\n")
    what = "is not valid TOML: `agents.codex` is declared twice"
    assert errors(doctor(code=1)) == [("orchestrate.toml:4", what)]
    called = lab.call("status", "--json")
    assert called.code == 0
    (problem,) = called.document["problems"]
    assert (problem["place"], problem["what"], problem["severity"]) == ("orchestrate.toml:4", what, "warning")
    do = "write all its keys as `agents.codex.KEY = ...`, or all below one line `[agents.codex]`"
    assert problem["do"] == do
    lab.write("orchestrate.toml", "[agents.codex]\nenabled = true\n")
    assert lab.call("status", "--json").document["problems"] == []


def test_a_larger_pool_is_wrong_until_it_is_approved(doctor, lab):
    rules = (lab.root / "AGENTS.md").read_text()
    lab.commit({"AGENTS.md": rules.replace("Maximum workers: 15", "Maximum workers: 20")})
    assert [what for _, what in errors(doctor(code=1))] == [
        "a pool of 20 workers needs an approval, 15 are approved"
    ]
    assert lab.call("approve", "pool-20", "--by", "Ada", "--json").code == 0
    assert errors(doctor()) == []


def test_a_merge_in_progress_is_wrong(doctor, lab):
    (lab.root / ".git" / "MERGE_HEAD").write_text(lab.git("rev-parse", "HEAD"))
    assert errors(doctor(code=1)) == [(".git", "a merge is in progress")]


def test_the_stores_lock_and_the_slots_taken_are_shown(doctor, lab):
    own = lab.root / ".git" / "orchestrate"
    pool = Pool(own / "slots", PoolLimits())
    with FileLock(own / "store.lock"):
        slot = pool.acquire_nowait("command", {"run": "20260216_142834", "worker": "Command-Worker-1"})
        locks = doctor()["locks"]
        slot.release()
    taken = {"slot": "pool-01", "run": "20260216_142834", "worker": "Command-Worker-1", "dirty": False}
    assert locks == {"store": "held", "slots": [taken], "pending": []}
    assert doctor()["locks"] == {"store": "free", "slots": [], "pending": []}


def test_a_slot_whose_holder_died_is_shown_as_dirty(doctor, lab):
    code = (
        "import os, sys; from pathlib import Path; from workers.pool.slots import Pool, PoolLimits\n"
        "Pool(Path(sys.argv[1]), PoolLimits()).acquire_nowait('codex', {'run': 'R', 'worker': 'W'})\n"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-P", "-c", code, lab.root / ".git/orchestrate/slots"], check=True)
    document = doctor()
    assert [(one["slot"], one["dirty"]) for one in document["locks"]["slots"]] == [
        ("codex-1", True),
        ("pool-01", True),
    ]
    assert "W of run R ended without a record" in str(document["problems"])


def test_a_change_that_waits_for_its_commit_is_shown(doctor, lab):
    (lab.root / ".git" / "orchestrate").mkdir()
    (lab.root / ".git" / "orchestrate" / "intent.json").write_text('{"moves": [], "commit": null}')
    document = doctor()
    assert len(document["locks"]["pending"]) == 1
    assert document["next_action"] == f"orchestrate resume --project {lab.root}"


def test_an_unfinished_run_is_shown_with_the_way_on(doctor, lab):
    run = lab.root / ".taskers" / "runs" / "20260216_142834"
    run.mkdir(parents=True)
    worker = {"worker": "Command-Worker-1", "ticket": "command-1", "agent": "command", "title": "Look"}
    roster = {"schema": 1, "phase": "phase-1", "workers": [worker | {"skipped": False}]}
    (run / "run.json").write_text("{}")
    (run / "roster.json").write_text(json.dumps(roster))
    document = doctor()
    (found,) = document["runs"]
    assert (found["run"], found["phase"], found["status"]) == ("20260216_142834", "phase-1", "interrupted")
    assert document["next_action"] == found["next_action"]
    assert found["next_action"] == f"orchestrate resume 20260216_142834 --detach --project {lab.root}"


def test_outside_a_repository_agents_are_looked_at_all_the_same(tools, tmp_path, capsys):
    tools("codex", "echo codex-cli 1")
    assert main(["doctor", "--json", "--project", str(tmp_path)]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["project"], document["next_action"], document["waiting_for"]) == (None, None, "user")
    assert document["agents"][0]["usable"]


def test_a_person_reads_a_line_for_each_thing(lab, tools, capsys):
    tools("codex", "printf 'codex \\033[31m1\\n'")
    assert main(["doctor", "--project", str(lab.root)]) == 0
    out = capsys.readouterr().out
    # A line that is too wide goes on in an indented one.
    heads = [line.partition(" ")[0] for line in out.splitlines() if not line.startswith(" ")]
    wanted = ["orchestrate", "git", "codex", "claude", "gemini", "command", "fence", "store", "slots", "disk"]
    assert heads[: len(wanted)] == wanted
    assert "\033" not in out


def test_before_init_nothing_is_said_to_come_from_a_file_that_is_not_there(lab):
    lab.git("rm", "--quiet", "AGENTS.md")
    lab.git("commit", "--quiet", "--message=none")
    called = lab.call("doctor", "--json")
    (gemini,) = [one for one in called.document["agents"] if one["agent"] == "gemini"]
    assert gemini["reason"].startswith("disabled (by default; `[agents.gemini] enabled` can overrule it)")
    (said,) = [one for one in called.says() if one.startswith("AGENTS.md: the file is missing, so")]
    assert said.endswith("`orchestrate init` writes it")
