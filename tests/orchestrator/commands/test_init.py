"""`orchestrate init`: what it writes, what it leaves alone, and that what it writes is useful at once."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from datetime import UTC, datetime, timedelta

import pytest
from support.families import COPY, FAMILY, turn_on
from support.paths import ROOT
from support.repository import Lab, seen_in

from orchestrator.cli.main import main
from orchestrator.commands.init import files_to_write, shipped_templates, with_ignored
from orchestrator.errors import Refusal
from orchestrator.settings._plain import plain
from orchestrator.settings.recording import recording_of, with_families
from orchestrator.settings.settings import default_settings, read_settings
from orchestrator.settings.values import BudgetSettings, NetworkedAgent, Tables
from orchestrator.state import ALWAYS, FAMILIES, NEEDED, built_families, documents
from orchestrator.state.facts import Facts
from tickets.templates.render import FOLDER
from tickets.types import AGENTS
from workers.agents.agent import AgentSettings

FACTS = Facts("project", "Ada", datetime(2026, 2, 16, 14, 28, tzinfo=UTC))
# A document that begins with its first event has no form.
CANONICAL = tuple(path for one in documents(ALWAYS) for path in one.OWNS if one.complete(b"", FACTS))


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """Return a repository without a commit; a home of its own, where git knows no user."""
    found = Lab(tmp_path / "project", tmp_path / "home")
    found.root.mkdir()
    found.home.mkdir()
    found.git("init", "--quiet", "--initial-branch=main")
    monkeypatch.setenv("HOME", str(found.home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME", "ORCHESTRATE_LEAD", "ORCHESTRATE_WORKER"):
        monkeypatch.delenv(name, raising=False)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.delenv(f"GIT_{role}_NAME", raising=False)
        monkeypatch.delenv(f"GIT_{role}_EMAIL", raising=False)
    return found


@pytest.fixture
def init(lab, capsys):
    def call(*arguments, code=0):
        assert main(["init", "--json", "--project", str(lab.root), *arguments]) == code
        return json.loads(capsys.readouterr().out)

    return call


@pytest.fixture
def tools(tmp_path):
    """Return a folder for PATH with the system's own tools and no agent CLI: none may be started for real."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("sh", "cat", "cp", "find", "git", "grep", "head", "ln", "sed", "tail", "tee", "tr", "xargs"):
        (folder / name).symlink_to(shutil.which(name))
    (folder / "python3").write_text(
        f'#!/bin/sh\nPYTEST_DISABLE_PLUGIN_AUTOLOAD=1 exec "{sys.executable}" "$@"\n'
    )
    (folder / "python3").chmod(0o755)
    return str(folder)


# What is written


def test_an_empty_repository_gets_everything_as_its_first_commit(lab, init):
    answer = init()
    assert answer["ok"]
    assert answer["completed"] == []
    assert answer["next_action"] == f"orchestrate plan phase-1 --project {lab.root}"
    templates = {f"{FOLDER}/{name}" for name in shipped_templates()}
    assert set(answer["created"]) == {*CANONICAL, "orchestrate.toml", ".gitignore", *templates}
    assert lab.git("log", "--format=%H").split() == [answer["commit"]]
    assert set(lab.git("ls-files").splitlines()) == set(answer["created"])
    assert lab.git("status", "--porcelain") == ""


def test_a_second_call_changes_nothing_whenever_it_is_made(lab, init):
    init()
    before = seen_in(lab.root)
    answer = init()
    assert (answer["created"], answer["completed"], answer["commit"]) == ([], [], None)
    assert seen_in(lab.root) == before
    there = {path: (lab.root / path).read_bytes() for path in lab.git("ls-files").splitlines()}
    assert files_to_write(FACTS._replace(at=FACTS.at + timedelta(days=400)), there, shipped_templates()) == ()


def test_without_a_commit_the_answer_says_how_to_make_one(lab, init):
    answer = init("--no-commit")
    assert answer["commit"] is None
    assert lab.git("log", "--all", "--format=%H") == ""
    lab.git("config", "user.name", "Ada")
    lab.git("config", "user.email", "ada@localhost")
    assert (answer["next_action"], answer["waiting_for"]) == (None, "lead")
    command = answer["what"].partition("`")[2].rstrip("`")
    subprocess.run(["sh", "-c", command], cwd=lab.root, env=lab.env(), check=True)
    assert set(lab.git("ls-files").splitlines()) == set(answer["created"])
    assert init()["next_action"] == f"orchestrate status --project {lab.root}"


def test_what_is_staged_stays_staged_and_out_of_the_commit(lab, init):
    lab.write("mine.txt", "not yet")
    lab.git("add", "mine.txt")
    init()
    assert lab.git("status", "--porcelain") == "A  mine.txt\n"
    assert "mine.txt" not in lab.git("ls-tree", "-r", "--name-only", "HEAD")


def test_every_line_of_files_that_are_there_stays_in_its_order(lab, init):
    own = {
        "AGENTS.md": "# How we code\n\nUse tabs.\r\n\n## Style\n\n* short  lines\n",
        "STATUS.md": "# Where we are\n\nAll is well.\n\n## TODO\n\n- [ ] ours\n",
        "DECISIONS.md": "# Decisions\n\n## 2020-01-01: Use tabs\n\n**Decision:** yes\n",
        ".gitignore": "*.pyc\n!keep.pyc",
    }
    for path, text in own.items():
        (lab.root / path).write_bytes(text.encode())
    answer = init()
    assert set(answer["completed"]) == set(own)
    for path, text in own.items():
        # Whatever was added: without it, the file is what it was.
        rest = iter((lab.root / path).read_bytes().split(b"\n"))
        assert all(line in rest for line in text.encode().split(b"\n")), path
    for document in (one for one in documents(ALWAYS) if set(one.OWNS) & set(NEEDED)):
        problems = document.problems((lab.root / document.OWNS[0]).read_bytes())
        assert [problem for problem in problems if problem.severity == "error"] == []


def test_guidance_that_is_there_keeps_every_byte_and_gains_the_sections_behind_it(lab, init):
    guidance = "# Guidance\r\n\r\nRun `make`.\r\n\r\n## Tests\r\n\r\nWrite them.\r\n"
    (lab.root / "AGENTS.md").write_bytes(guidance.encode())
    init()
    text = (lab.root / "AGENTS.md").read_bytes()
    assert text.startswith(guidance.encode())
    assert b"## Worker Orchestration" in text.removeprefix(guidance.encode())


def test_settings_and_templates_that_are_there_stay_as_they_are(lab, init):
    lab.write("orchestrate.toml", 'fence = "off"\n')
    lab.write(f"{FOLDER}/mine.md", "---\nagent: codex\n---\nDo it.\n")
    answer = init()
    assert (lab.root / "orchestrate.toml").read_text() == 'fence = "off"\n'
    # A folder with templates is somebody's plan: ours would run beside them.
    assert sorted(path.name for path in (lab.root / FOLDER).iterdir()) == ["README.md", "mine.md"]
    assert "orchestrate.toml" not in answer["created"]


def test_a_template_that_was_deleted_does_not_come_back(lab, init):
    init()
    (lab.root / FOLDER / "gemini-1.md").unlink()
    assert init()["created"] == []


def test_rules_that_are_a_link_are_written_where_the_link_leads(lab, init):
    lab.write("CLAUDE.md", "# Guidance\n")
    (lab.root / "AGENTS.md").symlink_to("CLAUDE.md")
    init()
    assert (lab.root / "AGENTS.md").is_symlink()
    assert "## Worker Orchestration" in lab.git("show", "HEAD:CLAUDE.md")
    before = seen_in(lab.root)
    init()
    assert seen_in(lab.root) == before


def test_rules_that_link_out_of_the_repository_are_refused(lab, init, tmp_path):
    outside = tmp_path / "outside.md"
    outside.write_text("# Elsewhere\n")
    (lab.root / "AGENTS.md").symlink_to(outside)
    answer = init(code=2)
    assert answer["problems"][0]["place"] == "AGENTS.md"
    assert outside.read_text() == "# Elsewhere\n"
    assert not (lab.root / "STATUS.md").exists()


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.write_bytes(b"# \xff\n")])
def test_a_file_that_cannot_be_read_is_named_and_nothing_is_written(lab, init, make):
    make(lab.root / "STATUS.md")
    before = seen_in(lab.root)
    answer = init(code=2)
    assert [problem["place"].partition(":")[0] for problem in answer["problems"]] == ["STATUS.md"]
    assert seen_in(lab.root) == before


def test_changes_of_ones_own_that_get_into_the_commit_are_named(lab, init):
    lab.write("AGENTS.md", "# Guidance, not committed yet\n")
    assert [(p["place"], p["severity"]) for p in init()["problems"]] == [("AGENTS.md", "warning")]


def test_during_a_merge_the_files_are_saved_and_their_commit_waits(lab, init):
    lab.write("file", "1\n")
    lab.git("add", "file")
    lab.git("-c", "user.name=Ada", "-c", "user.email=ada@localhost", "commit", "--quiet", "-m", "first")
    head = lab.git("rev-parse", "HEAD")
    (lab.root / ".git" / "MERGE_HEAD").write_text(head)
    answer = init(code=1)
    assert "a merge is in progress" in answer["problems"][0]["what"]
    assert answer["next_action"] == f"orchestrate resume --project {lab.root}"
    assert (lab.root / "STATUS.md").exists()
    assert lab.git("rev-parse", "HEAD") == head
    (lab.root / ".git" / "MERGE_HEAD").unlink()
    init()
    assert lab.git("show", "HEAD:STATUS.md") == (lab.root / "STATUS.md").read_text()


UNBUILT = [family for family in FAMILIES if family not in built_families()]


@pytest.mark.parametrize("arguments", [("--all",), ("--with", *UNBUILT)])
@pytest.mark.skipif(not UNBUILT, reason="every family is built")
def test_a_family_that_is_not_built_is_refused_and_nothing_is_written(lab, init, arguments):
    before = seen_in(lab.root)
    answer = init(*arguments, code=2)
    assert [problem["what"] for problem in answer["problems"]] == [
        f"the family `{family}` cannot be turned on yet" for family in UNBUILT
    ]
    assert seen_in(lab.root) == before


@pytest.mark.parametrize(
    ("word", "do"),
    [("cannonical", "did you mean `canonical`?"), ("xyz", f"there are: {', '.join(built_families())}")],
)
def test_a_family_that_does_not_exist_is_refused_with_the_nearest_word(lab, init, word, do):
    before = seen_in(lab.root)
    (problem,) = init("--with", "canonical", word, code=2)["problems"]
    assert (problem["what"], problem["do"]) == (f"there is no family `{word}`", do)
    assert seen_in(lab.root) == before


def test_a_family_is_turned_on_with_its_files_and_its_line_in_one_commit(lab, init, monkeypatch):
    turn_on(monkeypatch)
    answer = init("--with", FAMILY)
    assert answer["families"] == ["canonical", "checkpoints", FAMILY]
    assert {COPY, "orchestrate.toml"} < {*answer["created"]}
    assert (lab.root / COPY).read_text() == "# All notes of project\n"
    text = (lab.root / "orchestrate.toml").read_text()
    assert text.replace(f'families = ["canonical", "checkpoints", "{FAMILY}"]\n', "", 1) == default_settings()
    assert tomllib.loads(text)["families"] == answer["families"]
    assert set(lab.git("show", "--format=", "--name-only", "HEAD").split()) == {*answer["created"]}
    again = init("--with", FAMILY)
    assert (again["created"], again["completed"], again["commit"]) == ([], [], None)
    assert init()["families"] == answer["families"]


def test_a_family_that_is_turned_on_later_gains_what_it_lacks_and_the_rest_keeps_every_byte(
    lab, init, monkeypatch
):
    turn_on(monkeypatch)
    init()
    settings = 'families = ["canonical"] # ours\r\n[git]\r\ncommit = "never"\r\n'
    lab.write("orchestrate.toml", settings)
    before = {name: (lab.root / name).read_bytes() for name in ("STATUS.md", "DECISIONS.md", "AGENTS.md")}
    answer = init("--with", FAMILY)
    assert (answer["created"], answer["completed"]) == ([COPY], ["orchestrate.toml"])
    text = (lab.root / "orchestrate.toml").read_bytes().decode()
    assert text == settings.replace('"canonical"]', f'"canonical", "{FAMILY}"]')
    assert {name: (lab.root / name).read_bytes() for name in before} == before


LISTED = {
    "as it is written by us": (default_settings().encode(), None),
    "no file": (b"", b'families = ["canonical", "checkpoints", "phases"]\n'),
    "a list": (b'families=["ai_memory"]\n', b'families=["ai_memory", "phases"]\n'),
    "an empty list": (b"families = []\n", b'families = ["phases"]\n'),
    "several lines": (b"families = [\n  'canonical',\n]\n", b"families = [\n  'canonical', \"phases\",\n]\n"),
    "it is on": (b'families = ["phases"]\n', b'families = ["phases"]\n'),
    "no list, with tables": (
        b"\xef\xbb\xbf[git]\r\n",
        b'\xef\xbb\xbffamilies = ["canonical", "checkpoints", "phases"]\r\n[git]\r\n',
    ),
    "a comment": (
        b"# families = []\r\n[git]\r\n",
        b'# families = []\r\nfamilies = ["canonical", "checkpoints", "phases"]\r\n[git]\r\n',
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", LISTED)
def test_the_list_of_families_gains_one_and_every_other_byte_stays(how):
    before, after = LISTED[how]
    found = with_families(before, ["canonical", "phases"])
    assert after is None or found == after
    assert "phases" in recording_of(found).families
    assert with_families(found, ["phases"]) == found


@pytest.mark.parametrize(
    "text",
    [
        b'"families" = ["canonical"]\n', b'families = ["canonical" # "checkpoints"\n]\n', b"families = [\n",
        b'families = ["canonical", "nothing"]\n', b"[git]\ncommit = 1\n",
    ],
)  # fmt: skip
def test_a_list_that_cannot_be_edited_is_left_to_the_user(text):
    with pytest.raises(Refusal, match=r'`families` cannot be changed here; write `families = \["'):
        with_families(text, ["phases"])


def test_settings_that_are_wrong_are_reported_before_a_family_is_turned_on(lab, init, monkeypatch):
    turn_on(monkeypatch)
    init()
    lab.write("orchestrate.toml", "families = [\n")
    (problem,) = init("--with", FAMILY, code=2)["problems"]
    assert problem["what"].startswith("is not valid TOML")
    assert not (lab.root / COPY).exists()
    assert init()["families"] == ["canonical", "checkpoints"]


def test_outside_a_repository_the_answer_says_what_to_do(tmp_path, capsys):
    assert main(["init", "--json", "--project", str(tmp_path)]) == 2
    assert "git init" in json.loads(capsys.readouterr().out)["problems"][0]["do"]


def test_a_person_reads_one_line_for_each_file_and_the_next_command(lab, capsys):
    assert main(["init", "--project", str(lab.root)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "created    STATUS.md" in lines
    assert lines[-1] == f"next: orchestrate plan phase-1 --project {lab.root}"
    assert main(["init", "--project", str(lab.root)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "everything is there already; nothing was changed"


@pytest.mark.parametrize("line", [b".taskers", b".taskers/", b"/.taskers/", b"  /.taskers"])
def test_an_entry_that_is_there_in_any_spelling_is_not_added_again(line):
    assert with_ignored(b"a\n" + line + b"\n") == b"a\n" + line + b"\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"", b".taskers/\n"), (b"a", b"a\n.taskers/\n"), (b"a\r\nb", b"a\r\nb\r\n.taskers/\r\n")],
)
def test_the_entry_is_a_line_of_its_own_with_the_line_ends_of_the_file(before, after):
    assert with_ignored(before) == after


# Settings


def test_the_settings_that_are_written_are_the_defaults(tmp_path):
    (tmp_path / "orchestrate.toml").write_text(default_settings())
    written = read_settings(tmp_path)
    (tmp_path / "orchestrate.toml").write_text("")
    assert written._replace(agents={}) == read_settings(tmp_path)
    assert all(written.agent(name) == AgentSettings() for name in AGENTS)


def test_every_setting_stands_in_the_text_with_its_default():
    lines = default_settings().splitlines()
    # Two keys are set, and have their other value behind a mark.
    others = ['# events = "milestones"', '# on_blocker = "pause"']
    assert all(lines.count(one) == 1 for one in others)
    lines = [line for line in lines if line not in others]
    live = "\n".join(re.sub(r"^# (?=[\w.]+ = )", "", line) for line in lines)
    values = tomllib.loads(live)
    assert values.keys() == set(Tables._fields)
    agents, budget, prices = (values.pop(name) for name in ("agents", "budget", "prices"))
    assert prices == {}
    assert budget.keys() == set(BudgetSettings._fields)
    default = Tables()
    for name, value in values.items():
        if isinstance(value, dict):
            assert value.keys() == set(getattr(default, name)._fields), name
    assert plain(Tables, values) == default
    assert agents["codex"].keys() == agents["claude"].keys() == agents["gemini"].keys()
    assert agents["codex"].keys() == set(NetworkedAgent._fields)
    assert agents["command"].keys() == set(AgentSettings._fields) - {"executable", "model"}
    priced = next(line.removeprefix("# ") for line in lines if line.startswith('# "'))
    plain(Tables, {"agents": agents, "budget": budget, **tomllib.loads(f"[prices]\n{priced}")})


# All of it together


def test_the_first_phase_runs_right_after_init(lab, tools):
    lab.write("src/app.py", "print('hello')\n")
    lab.write("tests/test_app.py", "def test_app():\n    assert 'hello'\n")
    path = {"PATH": tools}
    assert lab.call("init", env=path).code == 0
    lab.git("add", "--all")
    lab.git("-c", "user.name=Ada", "-c", "user.email=ada@localhost", "commit", "--quiet", "-m", "mine")
    planned = lab.call("plan", "phase-1", "--json", env=path)
    assert len(planned.document["tickets"]) == 8
    assert {problem["severity"] for problem in planned.document["problems"]} == {"warning"}
    ran = lab.call("run", "phase-1", "--json", env=path)
    outcomes = {worker["ticket"]: worker["outcome"] for worker in ran.document["workers"]}
    assert ran.code == 0, ran
    assert outcomes == {
        "claude-1": "skipped", "claude-2": "skipped", "codex-1": "skipped", "codex-2": "skipped",
        "gemini-1": "skipped", "command-dependencies": "skipped", "command-lint": "skipped",
        "command-tests": "complete",
    }  # fmt: skip
    assert all(not worker["violations"] for worker in ran.document["workers"])
    assert lab.git("status", "--porcelain") == ""


def built_wheel(folder):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def test_the_wheel_brings_the_same_templates(lab, tmp_path):
    site = tmp_path / "site"
    with zipfile.ZipFile(built_wheel(tmp_path)) as archive:
        archive.extractall(site)
    code = (
        "import sys, orchestrator.cli.main as cli; print(cli.__file__, file=sys.stderr); sys.exit(cli.main())"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, "init"],
        cwd=lab.root, env=lab.env(PYTHONPATH=str(site)), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(str(site))
    written = {path.name: path.read_bytes() for path in (lab.root / FOLDER).iterdir()}
    assert written == shipped_templates()
    assert written == {path.name: path.read_bytes() for path in (ROOT / FOLDER).glob("*.md")}


def test_the_wheel_brings_the_texts_of_new_files(tmp_path):
    with zipfile.ZipFile(built_wheel(tmp_path)) as archive:
        shipped = {name: archive.read(name) for name in archive.namelist() if name.endswith((".md", ".toml"))}
    texts = [*(ROOT / "orchestrator").rglob("new.md"), ROOT / "orchestrator" / "settings" / "default.toml"]
    assert len(texts) == 5
    for path in texts:
        assert shipped[path.relative_to(ROOT).as_posix()] == path.read_bytes()
