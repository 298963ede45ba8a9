"""What cannot be read in a template hides nothing else that is wrong, and makes no mistakes of its own."""

import pytest
from support.templates import FOLDER, VALUES, front

from tickets.plan import make_plan
from tickets.scopes.rules import PathRules, reserved_paths
from tickets.templates.diagnose import sketch_phase


def told(**texts):
    """Give all that is said of templates, in their order; `codex_1` is the stem `codex-1`."""
    files = {f"{FOLDER}/{stem.replace('_', '-')}.md": text.encode() for stem, text in texts.items()}
    sketch = sketch_phase(files, VALUES)
    rule = "refuse" if sketch.is_ordered else "serialize"
    plan = make_plan(sketch.tickets, PathRules(reserved_paths(())), on_overlap=rule)
    return [str(problem).removeprefix(f"{FOLDER}/") for problem in (*sketch.problems, *plan.problems)]


def test_a_wrong_type_and_an_unknown_key_hide_neither_a_dependency_nor_a_name_in_the_body():
    text = front("acceptance: pytest\nfoo: 1\ndepends_on: [nope]", "{{ nosuch }}\n")
    said = told(codex_1=text)
    assert [one.partition(";")[0] for one in said] == [
        "codex-1.md:2: `acceptance` must be a list of strings",
        "codex-1.md:3: `foo` is not a key of a template",
        "codex-1.md:6: the body: `nosuch` is not defined",
        "codex-1.md:4: there is no ticket `nope` here",
    ]


def test_a_wrong_type_hides_neither_a_wrong_value_nor_a_scope_that_nobody_may_own():
    said = told(codex_1=front('owns: ["STATUS.md"]\ntimeout: soon\nreads: x'))
    assert [one.partition(" ")[0] for one in said] == ["codex-1.md:4:", "codex-1.md:3:", "codex-1.md:2:"]
    assert "lies in what no ticket owns" in said[2]


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
    "broken", ["---\nowns: [\n---\nx\n", "---\nphase: [x]\n---\nx\n", "---\nmatrix: x\n---\nx\n"]
)
def test_a_ticket_that_nobody_can_read_is_not_said_to_be_missing(broken):
    first = front("mode: write\nowns: [src/]\ndepends_on: ['codex-2[m=a]']")
    # By way of codex-2, codex-1 may well come after codex-3: their overlap proves nothing yet.
    said = told(codex_1=first, codex_2=broken, codex_3=front("mode: write\nowns: [src/]"))
    assert len(said) == 1
    assert said[0].startswith("codex-2.md:")


def test_an_overlap_of_scopes_that_could_be_read_is_told_beside_a_mistake():
    texts = {f"codex_{n}": front(f"mode: write\nowns: [src/]\ntimeout: {n}x") for n in (1, 2)}
    said = told(**texts)
    assert len(said) == 3
    assert "both own `src`" in said[2]


def test_the_mistakes_of_another_phase_are_told_as_far_as_they_need_no_values():
    said = told(codex_1=front("phase: phase-9\ntimeout: soon\nfoo: 1\ndepends_on: [nope]"))
    assert said == [said[0]]
    assert "`foo`" in said[0]


def test_a_value_of_a_fan_out_without_its_matrix_is_checked_where_it_does_not_need_it():
    lines = "matrix: {m: x}\ntimeout: soon\ntitle: '{{ matrix.m }}'\nowns: ['{{ matrix.m }}', STATUS.md]"
    said = told(codex_1=front(lines, "{{ nosuch }}"))
    assert len(said) == 4
