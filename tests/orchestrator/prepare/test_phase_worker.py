"""A phase worker before its run: what it needs, and what it finds in the way."""

import json

import pytest
from support.phases import FIRST_PLAN, PLAN_FILE, PROJECT, status_of
from support.repository import shell

PLAN = "phases/phase-2/PLAN.md"
STATUS = "phases/phase-2/STATUS.md"
LEAD = "docs/worker-ticket-templates/command-1.md"


def worker(script="true", **more):
    return shell(script, phase="phase-2", phase_worker=True, **more)


@pytest.fixture
def phase(unfenced):
    """Return a project with the family on, whose phase 2 has a phase worker and no plan."""
    unfenced.commit({"STATUS.md": PROJECT, "orchestrate.toml": 'fence = "off"\nfamilies = ["phases"]\n'})
    assert unfenced.call("init").code == 0
    unfenced.templates(command_1=worker())
    return unfenced


def refused(lab, *arguments, code=2, command="run"):
    called = lab.call(command, "phase-2", "--json", *arguments)
    assert called.code == code, called
    return called.document


def said(lab, **more):
    return [
        f"{one['place']}: {one['what']}"
        for one in refused(lab, **more)["problems"]
        if one["severity"] == "error"
    ]


def test_without_the_family_it_is_refused(phase):
    phase.commit({"orchestrate.toml": 'fence = "off"\n'})
    for command in ("plan", "run"):
        assert said(phase, command=command) == [
            f"{LEAD}:7: a phase worker needs the family `phases`, which is off"
        ]
    assert not (phase.root / ".taskers/runs").exists()


def test_without_any_plan_it_is_refused(phase):
    assert said(phase) == [f"{LEAD}:7: phase-2 has no plan, and a phase worker owns its plans"]
    phase.commit({PLAN: "# P\n\n## Plans\n"})
    assert said(phase) == [f"{LEAD}:7: phase-2 has no plan, and a phase worker owns its plans"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            PLAN_FILE.replace("### 02-03", "### 02-01"),
            f"{PLAN}:26: there is a plan `02-01` already, on line 9",
        ),
        ("# P\n\nwords\n", f"{PLAN}: section `Plans` is missing"),
        ("", f"{PLAN}: the file is empty"),
    ],
)
def test_a_damaged_plan_file_stops_it_and_no_other_run(phase, text, what):
    phase.commit({PLAN: text})
    assert said(phase) == [what]
    phase.templates(command_1=shell("true", phase="phase-2"))
    assert refused(phase, code=0)["status"] == "integrated"


def test_a_run_takes_the_phase_with_the_plans_of_the_file(phase):
    phase.commit({PLAN: PLAN_FILE})
    ran = refused(phase, code=0)
    found = status_of({STATUS: (phase.root / STATUS).read_bytes()})
    assert (found.worker, [row.plan for row in found.plans]) == (
        f"{ran['run']}.Command-Worker-1", ["02-01", "02-02", "02-03"],
    )  # fmt: skip
    assert found.base == phase.git("rev-parse", "HEAD~1").strip()
    prompt = (phase.root / ".taskers/runs" / ran["run"] / "tickets/Command-Worker-1.md").read_text()
    assert (
        "### Plans\n\n- `02-01`: Lexer; complete when `python -m pytest tests/lexer -q` passes\n  - Token"
        in prompt
    )
    assert (
        "| phase-2 | Core | IN PROGRESS | 3 | 0 | 0 | 0 | - | phases/phase-2/STATUS.md |"
        in (phase.root / "STATE.md").read_text()
    )


def test_the_plans_of_a_template_begin_the_file_once(phase):
    phase.templates(command_1=worker(plans=["02-01: Lexer", "02-02: Grammar"]))
    refused(phase, code=0)
    assert "### 02-01: Lexer\n\n**Verify:** none\n\n### 02-02: Grammar\n" in (phase.root / PLAN).read_text()
    again = phase.call("plan", "phase-2", "--json", "--again").document["problems"]
    assert [(one["what"], one["severity"]) for one in again if "PLAN.md" in one["what"]] == [
        (f"{PLAN} is there, and holds; `plans` only begins one", "warning")
    ]


def test_plans_that_have_landed_are_not_given_again(phase):
    phase.commit({PLAN: PLAN_FILE})
    refused(phase, code=0)
    text = (phase.root / STATUS).read_text()
    phase.commit({STATUS: text.replace("| - | - | - | - | - |", f"| - | - | - | - | {'a' * 40} |", 1)})
    again = manifest_of(phase, refused(phase, "--again", code=0))
    assert [plan["id"] for plan in again["plans"]] == ["02-02", "02-03"]


def manifest_of(lab, ran):
    return json.loads((lab.root / ".taskers/runs" / ran["run"] / "run.json").read_text())


SETTINGS = """fence = "off"
families = ["phases"]
[messages]
events = "milestones"
on_blocker = "pause"
pause_limit = "5m"
"""


def test_the_settings_of_messages_stand_in_the_run(phase):
    phase.commit({PLAN: PLAN_FILE})
    shipped = manifest_of(phase, refused(phase, code=0))["messages"]
    assert shipped == {
        "events": "transitions",
        "on_blocker": "skip",
        "pause_limit": 1800.0,
        "ack_limit": 900.0,
    }
    phase.commit({"orchestrate.toml": SETTINGS})
    changed = manifest_of(phase, refused(phase, "--again", code=0))["messages"]
    assert changed == {
        "events": "milestones",
        "on_blocker": "pause",
        "pause_limit": 300.0,
        "ack_limit": 900.0,
    }


@pytest.mark.parametrize(
    ("line", "what", "do"),
    [
        ('events = "milestone"', "`messages.events` is 'milestone'", "did you mean `milestones`?"),
        ('on_blocker = "wait"', "`messages.on_blocker` is 'wait'", "write one of: skip, pause"),
        ('event = "milestones"', "unknown key `messages.event`", "did you mean `events`?"),
        ('ack_limit = "soon"', "`messages.ack_limit` is 'soon'", "write it as 30m, 90s or 1h"),
    ],
)
def test_an_unknown_word_in_the_settings_is_refused_with_its_line(phase, line, what, do):
    phase.commit({PLAN: PLAN_FILE, "orchestrate.toml": f"{SETTINGS[: SETTINGS.index('events')]}{line}\n"})
    (problem,) = refused(phase)["problems"]
    assert (problem["place"], problem["do"]) == ("orchestrate.toml:4", do)
    assert problem["what"].startswith(what)


@pytest.mark.parametrize("new", [(), ("--new",)])
def test_a_second_phase_worker_waits_for_the_first(phase, new):
    phase.commit({PLAN: PLAN_FILE, "phases/phase-1/PLAN.md": FIRST_PLAN})
    phase.templates(command_1=worker("while test ! -e $HOME/go; do sleep 0.05; done"))
    first = phase.call("deploy", "phase-2", "--detach", "--json").document
    try:
        found = refused(phase, *new, code=5)
        what = found["problems"][0]["what"]
        assert what == (
            f"phase-2 belongs to {first['run']}.Command-Worker-1, whose run is running" if new
            else "this run of phase-2 is running"
        )  # fmt: skip
        assert found["next_action"].startswith(f"orchestrate wait {first['run']}")
    finally:
        (phase.home / "go").touch()
    assert phase.call("wait", first["run"], "--json").document["status"] in ("finished", "integrated")
    assert refused(phase, "--new", "--again", code=0)["status"] == "integrated"
