"""Editable installs and other surroundings in a whole run: workers and checks test their tree."""

import json

import pytest
from support.environments import install_editable, make_venv
from support.repository import shell, template

BREAKS = """printf 'VALUE = "broken"\\n' > src/mypkg/__init__.py"""


def package(lab, settings=""):
    """Commit a package whose tool `mytool` exits with 0 as long as it is good."""
    lab.commit({
        "src/mypkg/__init__.py": 'VALUE = "good"\n',
        ".gitignore": ".venv/\n",
        "orchestrate.toml": settings,
    })  # fmt: skip


def breaker(**front):
    return shell(BREAKS, mode="write", owns=["src/mypkg/**"], **front)


def run(lab, *arguments, env=None):
    called = lab.call("run", "phase-1", "--json", *arguments, env=env)
    return called, called.document["workers"]


@pytest.mark.parametrize("kind", ["setuptools-finder", "flit"])
@pytest.mark.parametrize("fence", ["auto", "off"])
def test_work_that_breaks_the_code_breaks_a_gate_whose_environment_is_linked(lab, kind, fence):
    linked = '[worktree]\nlink = [".venv"]\n[integration]\ngate = [".venv/bin/mytool"]\n'
    package(lab, f'fence = "{fence}"\n{linked}')
    install_editable(lab.root / ".venv", lab.root, kind)
    lab.templates(command_1=breaker())
    called, (worker,) = run(lab)
    assert worker["verdict"] == "rejected"
    assert worker["reason"].startswith("breaks the gate: `.venv/bin/mytool`")
    assert "mypkg is broken" in worker["reason"]
    assert (called.code, called.document["commit"]["landing"]) == (1, None)
    assert worker["files"] == ["src/mypkg/__init__.py"]


def test_workers_their_setup_and_the_readers_of_a_shared_tree_see_its_own_code(lab):
    package(lab, '[worktree]\nlink = [".venv"]\nsetup = [".venv/bin/python of.py"]\n')
    lab.commit({"of.py": "import mypkg\nassert '.taskers' in mypkg.__file__\n"})
    install_editable(lab.root / ".venv", lab.root, "setuptools")
    says = ".venv/bin/mytool 2>&1 | grep -q 'mypkg is broken'"
    lab.templates(
        command_1=shell(f"{BREAKS}; {says}", mode="write", owns=["src/mypkg/**"], acceptance=[says]),
        command_2=shell(".venv/bin/mytool"),
    )
    _, workers = run(lab)
    assert [one["verdict"] for one in workers] == ["accepted", "accepted"], workers


def test_an_activated_environment_elsewhere_tests_the_tree_too(lab, tmp_path):
    package(lab)
    install_editable(tmp_path / "activated", lab.root, "flit")
    path = {"PATH": f"{tmp_path}/activated/bin:{lab.env()['PATH']}"}
    lab.templates(command_1=breaker(acceptance=["mytool"]), command_2=shell("mytool"))
    _, (first, second) = run(lab, env=path)
    assert (first["outcome"], second["outcome"]) == ("failed", "complete")
    assert first["reason"].startswith("acceptance failed: `mytool`")


OTHER = shell("echo y > other", mode="write", owns=["other"])
DOUBTED = "_mypkg_editable.py imports from your checkout"


@pytest.fixture
def doubted(lab, tmp_path):
    """Return a repository with an active environment that no search path can overrule."""
    site = make_venv(tmp_path / "active")
    source = (lab.root / "src/mypkg/__init__.py").resolve()
    text = f"sys.meta_path.insert(0, Finder({{'mypkg': '{source}'}}))\n"
    (site / "_mypkg_editable.py").write_text(text)
    package(lab, "[integration]\ngate = ['true']\n")
    lab.templates(command_1=breaker(acceptance=["true"]), command_2=OTHER)
    return lab


def test_a_check_that_may_test_the_checkout_accepts_nothing_alone(doubted, tmp_path):
    path = {"PATH": f"{tmp_path}/active/bin:{doubted.env()['PATH']}"}
    for command in (("plan", "phase-1"), ("doctor",)):
        called = doubted.call(*command, "--json", env=path)
        assert any(DOUBTED in one["what"] for one in called.document["problems"]), command
    called, (first, second) = run(doubted, env=path)
    assert (first["verdict"], second["verdict"]) == ("pending", "pending")
    assert first["reason"].startswith("its checks passed, but may have tested your checkout: ")
    assert second["reason"].startswith("the gate passed, but may have tested your checkout: ")
    assert DOUBTED in second["reason"]
    assert called.document["commit"]["landing"] is None
    log = doubted.root / "DECISIONS.md"
    assert "may have tested your checkout" not in log.read_text()
    again = doubted.call(*called.document["next_action"].split()[1:], "--json", env=path)
    assert again.document["commit"]["landing"], again.document
    assert {one["verdict"] for one in again.document["workers"]} == {"accepted"}
    context = next(line for line in log.read_text().splitlines() if "may have tested your checkout" in line)
    assert "(Look around): its checks passed, but may have tested your checkout: " in context
    assert "(Look around): the gate passed, but may have tested your checkout: " in context


def test_a_stated_search_path_ends_the_doubt(doubted, tmp_path):
    path = {"PATH": f"{tmp_path}/active/bin:{doubted.env()['PATH']}"}
    stated = "[integration]\ngate = ['true']\n[checks]\nenv = { PYTHONPATH = 'src' }\n"
    doubted.commit({"orchestrate.toml": stated})
    _, workers = run(doubted, env=path)
    assert {one["verdict"] for one in workers} == {"accepted"}


# Variables, folder and setup


def test_a_tickets_own_setup_variables_and_folder_hold_for_its_worker_and_its_acceptance(lab):
    lab.commit({"packages/api/here": "x\n"})
    seen = 'test -f here && test "$STAGE:$TOOL" = test:1 && test -f made'
    own = {"env": {"STAGE": "test", "TOOL": "1"}, "cwd": "packages/api", "setup": ["echo $STAGE > made"]}
    write = {"mode": "write", "owns": ["packages/**"], "acceptance": [seen]}
    lab.templates(
        command_1=shell(f"{seen} && echo y > out", **own, **write),
        command_2=shell('test ! -e here && test ! -e packages/api/made && test -z "$STAGE"'),
        command_3=shell(seen, **own),
    )
    called, workers = run(lab)
    assert [one["verdict"] for one in workers] == ["accepted"] * 3, workers
    assert workers[0]["files"] == ["packages/api/out"]
    folder = lab.root / ".taskers" / "runs" / called.document["run"]
    prompt = (folder / "tickets" / "Command-Worker-1.md").read_text()
    assert "You start in the folder `packages/api`" in prompt


def test_variables_and_folder_of_the_checks_hold_for_gate_acceptance_and_the_projects_checks(lab):
    asked = 'test -f here && test "$STAGE" = test'
    lab.commit({
        "packages/api/here": "x\n",
        "orchestrate.toml": f"[integration]\ngate = ['{asked}']\n"
        f"[checks]\nenv = {{ STAGE = 'test' }}\ncwd = 'packages/api'\ntest = '{asked}'\n",
    })  # fmt: skip
    lab.templates(
        command_1=shell("test $STAGE = test && test -d packages", acceptance=[asked]),
        command_2=shell("echo y > out", mode="write", owns=["out"], cwd="src", acceptance=["test -f app.py"]),
    )
    _, workers = run(lab)
    assert [one["verdict"] for one in workers] == ["accepted", "pending"], workers
    assert lab.call("report", "--verify", "--json").document["problems"] == []
    lab.commit({"orchestrate.toml": "[checks]\ncwd = 'nowhere'\ntest = 'true'\n"})
    called = lab.call("report", "--verify", "--json")
    assert called.code == 2
    assert "`[checks] cwd`: there is no folder `nowhere`; write the path of one" in called.says()[0]


def test_a_folder_that_the_tree_lacks_fails_its_ticket(lab):
    removes = shell("rm -r ../lib; true", mode="write", owns=["lib/**"], cwd="lib", acceptance=["true"])
    lab.commit({"lib/x": "x\n"})
    lab.templates(command_1=template(cwd="nowhere"), command_2=removes)
    _, (first, second) = run(lab)
    assert first["reason"] == "`cwd`: nowhere is not a folder of its tree"
    assert second["reason"].startswith("acceptance failed: `true` (exit code 1")
    checks = sorted((lab.root / ".taskers/runs").glob("*/checks/*.stderr"))
    assert any("cwd: lib is not a folder of this tree" in one.read_text() for one in checks)


@pytest.mark.parametrize(
    ("front", "said"),
    [
        (
            {"env": {"OPENAI_API_KEY": "x"}},
            "`env`: `OPENAI_API_KEY` is set by orchestrate, or is a key of an agent",
        ),
        ({"env": {"ORCHESTRATE_RUN": "x"}}, "`env`: `ORCHESTRATE_RUN` is set by orchestrate, or is a key"),
        ({"env": {"A-B": "x"}}, "`env`: `A-B` is not the name of a variable; use letters, digits and `_`"),
        ({"env": ["A"]}, "`env` must be a mapping of names to values; write `env: {NODE_ENV: test}`"),
        ({"env": {"A": ["x"]}}, "`env` must be a mapping of names to values"),
        (
            {"cwd": "../other"},
            "`cwd`: `../other` is not a folder of the repository; write one like packages/api",
        ),
        ({"cwd": "/tmp"}, "`cwd`: `/tmp` is not a folder of the repository"),
        ({"setup": "npm ci"}, '`setup` must be a list of strings; write `setup: ["npm ci"]`'),
    ],
)
def test_what_a_ticket_cannot_state_is_refused_with_its_line(lab, front, said):
    lab.templates(command_1=template(**front))
    called = lab.call("plan", "phase-1", "--json")
    assert called.code == 2
    assert said in called.says()[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("env = { HOME = 'x' }", "`HOME` is set by orchestrate, or is a key of an agent; leave it out"),
        ("env = { A = 1 }", "not text; put it in quotes"),
        ("env = 'x'", "not a table; write its keys below a line `[checks.env]`"),
        ("cwd = '/x'", "`/x` is not a folder of the repository; write one like packages/api"),
    ],
)
def test_what_the_settings_cannot_state_is_refused_with_its_line(lab, text, said):
    lab.commit({"orchestrate.toml": f"[checks]\n{text}\n"})
    called = lab.call("validate", "--json")
    assert any(one.startswith("orchestrate.toml:2: ") and said in one for one in called.says()), json.dumps(
        called.says()
    )


@pytest.mark.parametrize("how", ["linked", "activated"])
def test_an_environment_in_the_home_is_readable_behind_the_fence(lab, how):
    package(lab, '[worktree]\nlink = [".venv"]\n' if how == "linked" else "")
    install_editable(lab.home / "venvs" / "x", lab.root, "setuptools-finder")
    if how == "linked":
        (lab.root / ".venv").symlink_to(lab.home / "venvs" / "x")
        lab.write(".git/info/exclude", ".venv\n")
    path = {"PATH": f"{lab.home}/venvs/x/bin:{lab.env()['PATH']}"}
    lab.templates(command_1=breaker(acceptance=["mytool"]), command_2=shell("mytool"))
    _, (first, second) = run(lab, env=path)
    assert (first["outcome"], second["outcome"]) == ("failed", "complete"), second
    assert first["reason"].startswith("acceptance failed: `mytool`")
    checks = lab.root.glob(".taskers/runs/*/checks/Command-Worker-1.acceptance-1.stderr")
    assert "mypkg is broken" in next(checks).read_text()


@pytest.mark.parametrize("checked_by", ["acceptance", "gate"])
def test_a_check_on_a_copied_build_of_a_changed_source_accepts_nothing_alone(lab, checked_by):
    gate = "[integration]\ngate = ['test -e fast/_fast.so']\n" if checked_by == "gate" else ""
    settings = f'[worktree]\ncopy = ["fast/*.so"]\n{gate}'
    lab.commit({"fast/_fast.c": "int x;\n", "fast/more.py": "", ".gitignore": "*.so\n",
                "orchestrate.toml": settings})  # fmt: skip
    lab.write("fast/_fast.so", "old")
    checks = {"acceptance": ["test -e fast/_fast.so"]} if checked_by == "acceptance" else {}
    source = shell("echo 'int y;' >> fast/_fast.c", mode="write", owns=["fast/_fast.c"], **checks)
    other = shell("echo 1 > fast/more.py", mode="write", owns=["fast/more.py"], **checks)
    lab.templates(command_1=other)
    assert [one["verdict"] for one in run(lab)[1]] == ["accepted"]
    lab.templates(command_2=source)
    called, (worker,) = run(lab)
    assert (called.code, worker["verdict"]) == (1, "pending")
    why = "fast/_fast.so is from your checkout, built before fast/_fast.c was changed"
    assert worker["reason"].endswith(f"may have tested your checkout: {why}")
    assert lab.call(*called.document["next_action"].split()[1:], "--json").document["commit"]["landing"]
    lab.commit({"orchestrate.toml": settings.replace("[worktree]", "[worktree]\nsetup = ['true']")})
    lab.templates(command_3=source)
    assert [one["verdict"] for one in run(lab)[1]] == ["accepted"]
