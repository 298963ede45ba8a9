"""Whether an agent may run is said alike wherever it is said, with the file that decides it."""

import re

import pytest
from support.repository import TEMPLATES, template

from orchestrator.settings.settings import read_settings

STATED = re.compile(r"- Gemini: .*")
RULES = {"off": "- Gemini: 5 workers (disabled)", "on": "- Gemini: 4 workers", "none": "- Gemini: 0 workers"}
UNSET, ON, OFF = "", "[agents.gemini]\nenabled = true\n", "[agents.gemini]\nenabled = false\n"
CASES = {
    ("off", UNSET): (0, "by AGENTS.md; `[agents.gemini] enabled` can overrule it"),
    ("off", ON): (5, ""),
    ("off", OFF): (0, "by `[agents.gemini] enabled` in orchestrate.toml"),
    ("on", UNSET): (4, ""),
    ("on", OFF): (0, "by `[agents.gemini] enabled` in orchestrate.toml"),
    ("none", ON): (0, "AGENTS.md has no slot for it"),
}
"""AGENTS.md and the settings, how many may run, and why none may."""


@pytest.fixture(params=CASES, ids=lambda case: f"rules-{case[0]}-{case[1][-6:].strip() or 'unset'}")
def told(request, lab):
    """Return a repository with these settings, how many may run, and why none may."""
    said, toml = request.param
    rules = STATED.sub(RULES[said], (lab.root / "AGENTS.md").read_text())
    assert RULES[said] in rules
    found = template(command=None, agent="gemini")
    lab.commit({"AGENTS.md": rules, "orchestrate.toml": toml, f"{TEMPLATES}/gemini-1.md": found})
    return lab, *CASES[request.param]


def test_resume_says_of_an_agent_what_the_settings_come_to(told):
    lab, many, _ = told
    pool = lab.call("resume", "--json").document["rules"]["pool"]
    assert pool["gemini_enabled"] is read_settings(lab.root).is_enabled("gemini") is (many > 0)
    assert f"gemini {many or 'off'})" in lab.call("resume").out


def test_doctor_says_which_file_switches_an_agent_off(told):
    lab, many, why = told
    document = lab.call("doctor", "--json").document
    (found,) = (one for one in document["agents"] if one["agent"] == "gemini")
    assert found["enabled"] is (many > 0)
    assert found["reason"].startswith(f"disabled ({why})" if why else "not installed")


def test_plan_says_what_doctor_says(told):
    lab, many, why = told
    document = lab.call("plan", "phase-1", "--json").document
    assert document["slots"]["gemini"] == many
    (ticket,) = document["tickets"]
    assert ticket["skipped"].startswith(f"gemini is disabled ({why})" if why else "gemini is not installed")
    assert f"gemini {many or 'off'})" in lab.call("plan", "phase-1").out


def test_rules_without_a_pool_do_not_say_that_an_agent_is_off_which_is_on(lab):
    lab.commit({"AGENTS.md": "# Rules\n", "orchestrate.toml": ON})
    said = lab.call("resume", "--json")
    assert said.document["rules"]["pool"]["gemini_enabled"] is True
    (defaults,) = [one for one in said.says() if "the defaults hold" in one]
    assert "5 Gemini where `orchestrate.toml` enables it" in defaults


def test_settings_that_cannot_be_read_leave_what_the_rules_say(lab):
    lab.commit({"orchestrate.toml": "fence = 7\n"})
    said = lab.call("resume", "--json")
    assert said.code == 1
    assert said.document["rules"]["pool"]["gemini_enabled"] is False
    assert said.document["rules"]["pool"]["codex_enabled"] is True


def test_no_slot_for_any_worker_is_what_doctor_says_of_each_agent(lab):
    rules = (lab.root / "AGENTS.md").read_text()
    lab.commit({"AGENTS.md": re.sub(r"(Maximum workers:\D*)\d+", r"\g<1>0", rules)})
    document = lab.call("doctor", "--json").document
    assert {one["reason"].partition(";")[0] for one in document["agents"]} == {
        "disabled (AGENTS.md has no slot for any worker)"
    }
    assert "enable one" in str(document["problems"])
