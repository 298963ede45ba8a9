"""Input that cannot be taken: exit 2, every problem at once, nothing started, nothing written."""

import json
import shutil
import subprocess
import sys

import pytest
from support.repository import TEMPLATES, template

from orchestrator.errors import Refusal
from orchestrator.settings.settings import read_settings
from orchestrator.store.repo import UserRepo
from workers.git.run import find_repository


def refused(lab, *arguments, code=2, **options):
    """Call, check that it was refused without a trace, and return the answer."""
    before = lab.everything()
    called = lab.call(*arguments, "--json", **options)
    assert called.code == code, called
    assert lab.everything() == before
    document = called.document
    assert set(document) >= {"schema", "problems", "next_action"}
    # Somebody has to correct something: the same call would fail once more.
    assert document["next_action"] is None or document["next_action"].startswith("orchestrate ")
    assert document["next_action"] or (document["waiting_for"] and document["what"])
    if arguments[0] in ("run", "integrate") or (arguments[0] == "resume" and len(arguments) > 1):
        assert (document["run"], document["status"], document["workers"]) == (None, "refused", [])
    else:
        assert document["ok"] is False
    for problem in document["problems"]:
        assert problem["place"]
        assert problem["what"]
        assert problem["severity"] in ("error", "warning", "info")
    return called


def test_a_folder_outside_any_repository_is_refused(lab, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in (("run", "phase-1"), ("plan", "phase-1"), ("status",), ("resume",)):
        called = lab.call(*name, "--json", cwd=elsewhere)
        assert called.code == 2
        assert "is not inside a git repository" in called.says()[0]
    assert not list(elsewhere.iterdir())


def test_what_is_optional_is_not_called_required(lab):
    assert "are required: RUN" in refused(lab, "cancel").says()[0]
    assert "WORKER" not in refused(lab, "cancel").says()[0]


BAD = {
    "no templates": ({}, ["holds no templates"]),
    "no template of the phase": (
        {"command-1": template(phase="phase-7")},
        ["no template is of `phase-1`; write one, or name another phase; phases here: phase-7"],
    ),
    "unknown keys and wrong types in two files": (
        {
            "command-1": template(own=["src/**"], timeout="soon"),
            "command-2": template(titel="x"),
        },
        ["command-1.md:7", "`owns`", "command-1.md:8", "timeout", "command-2.md:7", "`title`"],
    ),
    "six mistakes in one file": (
        {
            "command-1": template(titel="x", mode="rw", owns=["/etc/passwd", "../x"], retries="many")
            + "{{ nope }}\n"
        },
        ["did you mean `title`", "`rw`", "`/etc/passwd`", "`../x`", "`many`", "`nope` is not defined"],
    ),
    "a bad pattern beside a bad variable": (
        {"command-1": template(mode="write", owns=["../x"]) + "{{ nope }}\n", "command-2": template()},
        ["`../x`", "`nope` is not defined"],
    ),
    "an undefined variable": (
        {"command-1": template() + "{{ delivrable }}\n"},
        ["command-1.md:11", "delivrable", "deliverable"],
    ),
    "bad patterns": (
        {"command-1": template(mode="write", owns=["/etc/**", "../x", "!src/x"])},
        ["/etc/**", "../x", "!src/x"],
    ),
    "broken YAML": (
        {"command-1": "---\nagent: command\nowns: [src/*, *x\n---\nbody\n"},
        ["command-1.md:", "quote"],
    ),
    "a cycle": (
        {
            "command-1": template(depends_on=["command-2"]),
            "command-2": template(depends_on=["command-1"]),
        },
        ["command-1", "command-2", "depend"],
    ),
    "overlapping scopes": (
        {
            "command-1": template(mode="write", owns=["src/**"]),
            "command-2": template(mode="write", owns=["src/app/*.py"]),
        },
        ["src/app/"],
    ),
    "a write ticket that owns nothing": ({"command-1": template(mode="write")}, ["owns"]),
    "a state file in a scope": ({"command-1": template(mode="write", owns=["STATUS.md"])}, ["STATUS.md"]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_template_stops_the_phase_before_it_starts(lab, name):
    texts, expected = BAD[name]
    if texts:
        lab.templates(**texts)
    said = "\n".join(refused(lab, "run", "phase-1").says())
    for fragment in expected:
        assert fragment in said


def test_plan_says_what_run_would_say(lab):
    lab.templates(command_1=template(own=["x"], depends_on=["command-9"]), command_2=template(mode="write"))
    assert refused(lab, "plan", "phase-1").says() == refused(lab, "run", "phase-1").says()


def test_overlapping_scopes_name_a_path_that_both_own(lab):
    lab.templates(
        command_1=template(mode="write", owns=["src/**"]),
        command_2=template(mode="write", owns=["src/[ab]pp.py"]),
    )
    (problem,) = refused(lab, "run", "phase-1").document["problems"]
    assert problem["witness"] in ("src/app.py", "src/bpp.py")


def test_every_problem_of_every_file_is_listed_at_once(lab):
    lab.templates(command_1=template(own=["x"]), command_2=template(titel="x"))
    lab.commit({"orchestrate.toml": "famlies = []\n[limits]\noutput_cap = 'lots'\n"})
    (lab.root / ".git" / "MERGE_HEAD").write_text(lab.git("rev-parse", "HEAD"))
    (lab.root / "STATUS.md").unlink()
    said = "\n".join(refused(lab, "run", "phase-1").says())
    for fragment in ("famlies", "output_cap", "a merge is in progress", "STATUS.md", "own", "titel"):
        assert fragment in said


def test_uncommitted_changes_inside_a_scope_are_refused_and_elsewhere_a_warning(lab):
    lab.templates(command_1=template(mode="write", owns=["src/**"]))
    lab.write("src/app.py", "print('mine')\n")
    lab.write("src/new.py", "")
    said = "\n".join(refused(lab, "run", "phase-1").says())
    assert "src/app.py" in said
    assert "src/new.py" in said
    lab.git("add", "src")
    assert "src/app.py" in "\n".join(refused(lab, "run", "phase-1").says())
    lab.git("commit", "--quiet", "--message=mine")
    lab.write("notes.txt", "")
    before = lab.everything()
    called = lab.call("plan", "phase-1", "--json")
    assert called.code == 0
    assert any("workers start from the last commit: notes.txt" in line for line in called.says())
    assert lab.everything() == before


def test_what_the_user_is_in_the_middle_of_is_named(lab):
    lab.templates(command_1=template())
    repository = find_repository(lab.root)
    for file, words in {
        "CHERRY_PICK_HEAD": "a cherry-pick", "REVERT_HEAD": "a revert", "rebase-apply/next": "a rebase",
        "rebase-merge/head-name": "a rebase", "MERGE_HEAD": "a merge",
    }.items():  # fmt: skip
        lab.write(f".git/{file}", lab.git("rev-parse", "HEAD"))
        assert UserRepo(repository).in_progress() == words
        if file != "MERGE_HEAD":
            (lab.root / ".git" / file).unlink()
            shutil.rmtree(lab.root / ".git" / file.partition("/")[0], ignore_errors=True)
    assert "a merge is in progress" in "\n".join(refused(lab, "run", "phase-1").says())


def test_a_repository_without_a_commit_is_refused(lab):
    shutil.rmtree(lab.root / ".git")
    lab.git("init", "--quiet")
    lab.write(f"{TEMPLATES}/command-1.md", template())
    assert "no commit yet" in "\n".join(refused(lab, "run", "phase-1").says())


@pytest.mark.parametrize("state", ["missing", "empty", "without what a run needs"])
def test_a_status_file_that_cannot_show_a_run_is_refused_by_plan_and_run(lab, state):
    lab.templates(command_1=template())
    if state == "missing":
        (lab.root / "STATUS.md").unlink()
    else:
        lab.write("STATUS.md", "" if state == "empty" else "# Project Status\n\nNothing here.\n")
    for command in ("run", "plan"):
        assert any(line.startswith("STATUS.md") for line in refused(lab, command, "phase-1").says())


SETTINGS = {
    "famlies = []": ["`famlies`", "did you mean `families`?"],
    "[limits]\noutput_kap = 1": ["`limits.output_kap`", "did you mean `output_cap`?"],
    "\n[agents.codx]": ["codx", "did you mean `codex`?"],
    "[agents.codex]\nenable = true": ["`agents.codex.enable`", "did you mean `enabled`?"],
    "[limits]\noutput_cap = 'lots'": ["`limits.output_cap` is 'lots'", "write it as 64 MB"],
    "[limits]\ngrace = '5 parsecs'": ["`limits.grace` is '5 parsecs'", "write it as 30m"],
    "[limits]\ngrace = -1": ["`limits.grace` is -1"],
    "[limits]\noutput_cap = 0": ["`limits.output_cap` is 0"],
    "[git]\ncommit = 'always'": ["`git.commit` is 'always'", "integration", "never"],
    "[git]\nhooks = 'maybe'": ["`git.hooks` is 'maybe'"],
    "fence = 'of'": ["`fence.level` is 'of'", "did you mean `off`?"],
    "families = ['canonical', 'phase']": ["phase", "phases"],
    "[pool]\nstart_interval = true": ["`pool.start_interval` is True"],
    "[pool]\nmax_memory = 101": ["`pool.max_memory` is 101: too large; write 100 or less"],
    "[pool]\nmax_memory = -1": ["`pool.max_memory` is -1: too small; write 0 or more"],
    "[pool]\nmax_memory = 'most'": ["`pool.max_memory` is 'most': not a percentage; write it as 90"],
    "[pool]\nmax_memory = true": ["`pool.max_memory` is True"],
    "[pool]\nmax_memory = nan": ["`pool.max_memory` is nan"],
    "[pool]\nfallback_after = 'soon'": ["`pool.fallback_after` is 'soon'", "write it as 30m"],
    "[pool]\nfallback_afer = 1": ["`pool.fallback_afer`", "did you mean `fallback_after`?"],
    "[integration]\ngate = 'make test'": ["`integration.gate` is 'make test'", "list"],
    "limits = 3": ["`limits` is 3"],
    "[limits": ["is not valid TOML"],
    "famlies = []\nfense = 'x'\n[git]\nhook = true": ["famlies", "fense", "git.hook"],
    "[limits]\ngrace = inf": ["`limits.grace` is inf"],
    "[agents.claude]\nenabled = 'yes'": ["`agents.claude.enabled` is 'yes'", "write `true` or `false`"],
    "[agents]\ncodex = 5": ["`agents.codex` is 5", "`[agents.codex]`"],
}


@pytest.mark.parametrize("text", SETTINGS)
def test_broken_settings_are_named_with_the_nearest_right_word(tmp_path, text):
    (tmp_path / "orchestrate.toml").write_text(text)
    with pytest.raises(Refusal) as refusal:
        read_settings(tmp_path)
    said = str(refusal.value)
    for fragment in SETTINGS[text]:
        assert fragment in said
    last = text.count("\n") + 1
    assert f"orchestrate.toml:{last}: " in said


def test_a_percentage_may_be_written_with_its_sign(tmp_path):
    for text in ("85", "85.0", '"85"', '"85 %"'):
        (tmp_path / "orchestrate.toml").write_text(f"[pool]\nmax_memory = {text}\n")
        assert read_settings(tmp_path).pool.max_memory == 85


def test_settings_that_are_not_text_are_refused(lab):
    lab.templates(command_1=template())
    (lab.root / "orchestrate.toml").write_bytes(b"# settings\n\xff\xfe")
    assert "orchestrate.toml:2: is not UTF-8; save it as UTF-8" in refused(lab, "run", "phase-1").says()


def test_rules_without_a_pool_leave_the_defaults_and_say_so(lab):
    lab.templates(command_1=template())
    lab.commit({"AGENTS.md": "# Coding guidance\n\nUse tabs.\n"})
    called = lab.call("plan", "phase-1", "--json")
    assert called.code == 0
    assert called.document["slots"] == {"total": 15, "codex": 5, "claude": 5, "gemini": 0}
    (line,) = (line for line in called.says() if line.startswith("AGENTS.md"))
    assert "defaults hold" in line


def test_run_without_a_phase_and_nothing_unfinished_is_refused(lab):
    assert "nothing is unfinished" in refused(lab, "run").says()[0]


@pytest.mark.parametrize("command", ["integrate", "resume"])
def test_a_run_that_does_not_exist_is_refused(lab, command):
    assert "no such run" in refused(lab, command, "20260216_142834").says()[0]


def test_a_ticket_that_does_not_exist_is_refused(lab):
    lab.templates(command_1=template(), command_2=template())
    said = refused(lab, "run", "phase-1", "--only", "command-3", "command-9").says()
    assert [line.count("there are: command-1, command-2") for line in said] == [1, 1]


@pytest.mark.parametrize(
    "arguments",
    [
        ("frobnicate",),
        ("run", "--frobnicate"),
        ("run", "phase-1", "--on-overlap", "ignore"),
        ("status", "extra"),
        ("integrate",),
        ("plan",),
        ("logs",),
        ("backup", "--dry-run"),
        ("--frobnicate",),
    ],
)
def test_a_call_that_cannot_be_taken_is_one_problem(lab, arguments):
    called = refused(lab, *arguments)
    assert len(called.document["problems"]) == 1
    plain = lab.call(*arguments)
    assert (plain.code, plain.out) == (2, "")
    assert plain.err.startswith("error: orchestrate")
    assert "Traceback" not in plain.err


def test_inside_a_worker_the_leads_commands_are_refused(lab):
    lab.templates(command_1=template())
    for arguments in (("run", "phase-1"), ("integrate", "last"), ("resume",)):
        said = refused(lab, *arguments, env={"ORCHESTRATE_WORKER": "Codex-Worker-1"}).says()
        assert "this is a worker" in said[0]
    assert lab.call("status", "--json", env={"ORCHESTRATE_WORKER": "Codex-Worker-1"}).code == 0


def test_a_refusal_without_json_is_read_on_standard_error(lab):
    lab.templates(command_1=template(own=["x"]))
    called = lab.call("run", "phase-1")
    assert (called.code, called.out) == (2, "")
    assert "did you mean `owns`?" in called.err


def test_a_project_is_found_by_option_and_from_below(lab, tmp_path):
    lab.templates(command_1=template())
    named = lab.call("plan", "phase-1", "--json", "--project", str(lab.root), cwd=tmp_path)
    first = lab.call("--project", str(lab.root / "src"), "--json", "plan", "phase-1", cwd=tmp_path)
    below = lab.call("plan", "phase-1", "--json", cwd=lab.root / "src")
    assert named.code == first.code == below.code == 0
    steps = [one.document["next_action"] for one in (named, first)]
    assert steps[0].endswith(f" --project {lab.root}")
    assert steps[1].endswith(f" --project {lab.root / 'src'}")
    plain = [{**one.document, "next_action": ""} for one in (named, first, below)]
    assert plain[0] == plain[1] == plain[2]


def test_a_project_that_is_no_folder_is_refused(lab, tmp_path):
    called = refused(lab, "status", "--project", str(tmp_path / "gone"))
    assert str(tmp_path / "gone") in called.says()[0]


IN_THE_WAY = {
    "STATUS.md": "STATUS.md: cannot be read",
    "DECISIONS.md": "DECISIONS.md: cannot be read",
    "AGENTS.md": "AGENTS.md: cannot be read",
    "orchestrate.toml": "orchestrate.toml: cannot be read",
    f"{TEMPLATES}/command-2.md": f"{TEMPLATES}/command-2.md: cannot be read",
}


@pytest.mark.parametrize("path", IN_THE_WAY)
def test_a_folder_in_the_place_of_a_file_is_named(lab, path):
    lab.templates(command_1=template())
    (lab.root / path).unlink(missing_ok=True)
    (lab.root / path).mkdir()
    assert any(line.startswith(IN_THE_WAY[path]) for line in refused(lab, "run", "phase-1").says())


@pytest.mark.parametrize("path", [".taskers", ".taskers/runs", ".git/orchestrate", TEMPLATES])
def test_a_file_in_the_place_of_a_folder_is_named(lab, path):
    if path != TEMPLATES:
        lab.templates(command_1=template())
    lab.write(path, "in the way\n")
    said = refused(lab, "run", "phase-1").says()
    assert any(path in line and "is not a folder" in line for line in said)


def test_a_template_that_is_a_broken_link_is_named(lab):
    lab.templates(command_1=template())
    (lab.root / TEMPLATES / "command-2.md").symlink_to("/nowhere/at/all.md")
    assert any("command-2.md: is a broken link" in line for line in refused(lab, "run", "phase-1").says())


def test_a_run_whose_manifest_is_unreadable_is_passed_over_and_never_gone_on_with(lab):
    lab.templates(command_1=template())
    texts = ["{", '{"schema": 2}', '{"schema": 1}', "[]", '{"schema": 1, "tickets": 5}']
    runs = [f"20260101_00000{number}" for number in range(len(texts))]
    for run, text in zip(runs, texts, strict=True):
        lab.write(f".taskers/runs/{run}/run.json", text)
    for command, run in zip(("resume", *["integrate"] * 4), runs, strict=True):
        (line,) = refused(lab, command, run).says()
        assert line.startswith(f".taskers/runs/{run}/run.json: cannot be read")
    status = lab.call("status", "--json")
    assert (status.code, status.document["runs"]) == (0, [])
    assert lab.call("run", "phase-1", "--json").code == 0


@pytest.mark.parametrize("phase", ["", "-x", "a\x1b[31mb", "phase 1; rm -rf .", "phase-1/../x"])
def test_an_odd_phase_is_refused_with_a_command_that_can_be_copied(lab, phase):
    lab.templates(command_1=template())
    called = lab.call("run", "--", phase)
    assert (called.code, called.out) == (2, "")
    assert all(char.isprintable() for char in called.err.replace("\n", ""))
    assert ";" not in called.err.partition("next: ")[2].replace("'phase 1; rm -rf .'", "")


def test_what_the_disk_refuses_is_a_known_failure_and_no_bug(lab):
    lab.templates(command_1=template())
    assert lab.call("run", "phase-1", "--json").code == 0
    (lock,) = lab.root.glob(".taskers/runs/*/run.lock")
    lock.unlink()
    lock.mkdir()
    called = lab.call("integrate", "last", "--json")
    assert (called.code, called.document["status"]) == (1, "refused")
    assert called.says() == [f"{lock}: is a directory; fix it, then call again"]
    assert (called.document["next_action"], called.document["waiting_for"]) == (None, "outside")


def test_an_interrupt_that_nobody_listens_for_is_answered_as_json_all_the_same(lab):
    code = (
        "import signal, sys, orchestrator.commands.todo as todo, orchestrator.cli.main as cli\n"
        "todo.call = lambda *_: signal.raise_signal(signal.SIGINT)\n"
        "sys.exit(cli.main(['todo', 'list', '--json']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=lab.root, env=lab.env(), capture_output=True, text=True, check=False
    )
    document = json.loads(done.stdout)
    assert (done.returncode, document["ok"], document["next_action"]) == (130, False, "orchestrate status")
    assert [problem["what"] for problem in document["problems"]] == ["interrupted"]
