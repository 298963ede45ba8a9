"""All faults of a phase's templates are reported at once, without those that only follow from others."""

import pytest
from support.templates import FOLDER, VALUES, front

from tickets.plan import make_plan
from tickets.scopes.rules import PathRules, reserved_paths
from tickets.templates.render import render_phase


def told(**texts):
    """Return all that is said of templates, in their order; `codex_1` is the stem `codex-1`."""
    files = {f"{FOLDER}/{stem.replace('_', '-')}.md": text.encode() for stem, text in texts.items()}
    tickets, problems = render_phase(files, VALUES)
    plan = make_plan(tickets, PathRules(reserved_paths(())))
    return [str(problem).removeprefix(f"{FOLDER}/") for problem in (*problems, *plan.problems)]


def test_what_cannot_be_read_in_one_template_hides_no_wrong_value_of_another():
    texts = {
        "codex_1": front("acceptance: pytest\nfoo: 1\nretries: x\ndepends_on: [nope]", "{{ nosuch }}\n"),
        "codex_2": front("timeout: soon", "{{ nosuch }}\n"),
    }
    assert [one.partition(";")[0] for one in told(**texts)] == [
        "codex-1.md:2: `acceptance` must be a list of strings",
        "codex-1.md:3: `foo` is not a key of a template",
        "codex-1.md:4: `retries`: `x` is not a whole number",
        "codex-1.md:7: the body: `nosuch` is not defined",
        "codex-2.md:2: `timeout`: `soon` is not a duration",
        "codex-2.md:4: the body: `nosuch` is not defined",
    ]


@pytest.mark.parametrize(
    "lines",
    [
        "mode: write\nowns: src",
        "mode: write\nownz: [src/]",
        "mode: write\nexcludes: src/a\nowns: [src/]",
        "agent: [codex]",
        "agent: command\ncommand: make",
        "agent: command\ncomand: [make]",
        'agent: command\ncommand: ["{{ nosuch }}", x]',
        "depends_on: codex-2",
        "dependson: [codex-2]",
        "title: [x]",
        "matrix: {m: []}",
        "matrix: x",
        "matrix: {m: [a, a]}",
        'title: "{{ broken"',
        'owns: ["{{ broken", "lib/"]\nmode: write',
        "phase: [phase-2]",
        "phse: phase-2",
    ],
)
def test_one_mistake_is_told_once_and_has_no_consequences(lines):
    body = "{{ outputs['codex-2'] }}{{ matrix.m }}" if "matrix" in lines else "Do it.\n"
    body = "{{ outputs['codex-2'] }}" if "depend" in lines else body
    depends = "depends_on: [codex-2]\n" if "matrix" in lines else ""
    texts = {"codex_1": front(f"{depends}{lines}", body), "codex_2": front("mode: write\nowns: [src/a]")}
    assert len(told(**texts)) == 1


@pytest.mark.parametrize(
    "broken",
    [
        "---\nowns: [\n---\nx\n",
        "---\nphase: [x]\n---\nx\n",
        "---\nmatrix: x\n---\nx\n",
        "---\nretries: x\n---\nx",
    ],
)
def test_a_ticket_that_cannot_be_read_is_not_said_to_be_missing(broken):
    first = front("mode: write\nowns: [src/]\ndepends_on: ['codex-2[m=a]']", "{{ outputs['codex-2[m=b]'] }}")
    # By way of codex-2, codex-1 may well come after codex-3: their overlap proves nothing yet.
    said = told(codex_1=first, codex_2=broken, codex_3=front("mode: write\nowns: [src/]"))
    assert len(said) == 1
    assert said[0].startswith("codex-2.md:")


def test_overlaps_are_told_once_no_template_has_a_mistake():
    texts = {f"codex_{n}": front(f"mode: write\nowns: [src/]\ntimeout: {n}x") for n in (1, 2)}
    assert [one.partition(": ")[2][:9] for one in told(**texts)] == ["`timeout`"] * 2
    (said,) = told(**{stem: text.replace("x\n", "m\n") for stem, text in texts.items()})
    assert "both own `src`" in said


def test_the_mistakes_of_another_phase_are_told_as_far_as_they_need_no_values():
    said = told(codex_1=front("phase: phase-9\ntimeout: soon\nfoo: 1\ndepends_on: [nope]"))
    assert [one.split("`")[1] for one in said] == ["foo", "timeout"]
    assert not told(codex_1=front("phase: phase-9\ntimeout: soon"), codex_2=front(""))


def test_a_key_without_a_value_names_no_agent():
    (said,) = told(notes="---\nagent:\n---\nDo it.\n")
    assert "names no agent" in said
