"""Fan-outs: one template, a ticket for each value, told apart, ordered and refused as one."""

import pytest

from tickets.plan import idle_keys, make_plan
from tickets.problems import TicketError
from tickets.scopes.rules import PathRules
from tickets.templates.fan_out import gathered, members, named, short_names
from tickets.templates.render import FOLDER, Values, read_template, render_body, render_tickets

VALUES = Values(project="shop", phase="phase-2", deliverable="Parser")
SWEEP = """\
---
mode: write
matrix: {package: [api, db, web]}
owns: ["packages/{{ matrix.package }}/**"]
acceptance: ["make -C packages/{{ matrix.package }} test"]
---
Sweep the package {{ matrix.package }}.
"""


def front(*lines):
    return "\n".join(["---", *lines, "---", "Do it.", ""])


def render(**texts):
    names = {stem.replace("_", "-"): text for stem, text in texts.items()}
    files = [read_template(f"{FOLDER}/{stem}.md", text.encode()) for stem, text in names.items()]
    return render_tickets(files, VALUES)


def complaints(**texts):
    with pytest.raises(TicketError) as caught:
        render(**texts)
    return [str(problem).removeprefix(f"{FOLDER}/") for problem in caught.value.problems]


def plan(tickets, **more):
    return make_plan(tickets, PathRules(), **more)


def said(problems):
    return [str(problem).replace(f"{FOLDER}/", "") for problem in problems]


def many(count):
    return f"matrix: {{v: [{', '.join(f'p{number}' for number in range(count))}]}}"


def test_a_sweep_is_a_ticket_for_each_package_that_touches_no_other():
    tickets = render(codex_3=SWEEP)
    assert [ticket.id for ticket in tickets] == [f"codex-3[package={name}]" for name in ("api", "db", "web")]
    assert [ticket.owns for ticket in tickets] == [(f"packages/{name}/**",) for name in ("api", "db", "web")]
    assert tickets[1].acceptance == ("make -C packages/db test",)
    assert render_body(tickets[2], VALUES, {}) == "Sweep the package web.\n"
    assert plan(tickets).problems == ()


def test_two_keys_give_every_combination_the_last_one_fastest():
    tickets = render(codex_3=front("matrix: {os: [linux, mac], python: [3.11, 3.12]}"))
    assert [ticket.id for ticket in tickets] == [
        "codex-3[os=linux,python=3.11]",
        "codex-3[os=linux,python=3.12]",
        "codex-3[os=mac,python=3.11]",
        "codex-3[os=mac,python=3.12]",
    ]


def test_one_value_makes_one_ticket_that_still_says_which():
    (ticket,) = render(codex_3=front("matrix: {v: [only]}"))
    assert (ticket.id, ticket.matrix) == ("codex-3[v=only]", {"v": "only"})


@pytest.mark.parametrize(
    "value", ["1", "1.50", "007", "true", "no", "0x10", "a/b", "a b", "hä ß", "日本", "a=b", "*"]
)
def test_a_value_stays_as_it_is_spelled(value):
    (ticket,) = render(
        codex_3=front(f"matrix: {{v: [{value!r}]}}" if value == "*" else f"matrix: {{v: [{value}]}}")
    )
    assert (ticket.id, ticket.matrix) == (f"codex-3[v={value}]", {"v": value})


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ("[api, api]", "2: `matrix.v` holds `api` twice; write each value once"),
        ("[1, '1']", "2: `matrix.v` holds `1` twice; write each value once"),
        ("[a b, 'a  b']", "2: `matrix.v` holds `a b` twice; write each value once"),
        ('["\\u00e9", "e\\u0301"]', "2: `matrix.v` holds `e\u0301` twice; write each value once"),
        (
            "['[slug]']",
            "2: `matrix.v`: `[slug]` cannot be part of a ticket's id; write it without `[` and `]`",
        ),
        ("['a,b']", "2: `matrix.v`: `a,b` cannot be part of a ticket's id; write it without `,`"),
        ("['']", "2: `matrix.v` holds an empty value; write one, quoted, or take it out"),
        ("[' ']", "2: `matrix.v` holds an empty value; write one, quoted, or take it out"),
        ("[null]", "2: `matrix.v` holds an empty value; write one, quoted, or take it out"),
        ("api", "2: `matrix.v` must be a list of at least one value; write `matrix: {module: [api, db]}`"),
        (
            "[[api]]",
            "2: `matrix.v` must be a list of at least one value; write `matrix: {module: [api, db]}`",
        ),
    ],
)
def test_a_value_that_cannot_name_a_ticket_is_refused_once(values, wrong):
    assert complaints(codex_1=front(f"matrix: {{v: {values}}}")) == [f"codex-1.md:{wrong}"]


def test_a_quoted_null_is_a_word_like_any_other():
    (ticket,) = render(codex_3=front("matrix: {v: ['null']}"))
    assert ticket.matrix == {"v": "null"}


def test_a_mistake_in_a_template_is_told_once_and_not_for_each_value():
    assert complaints(codex_1=front(many(50), "retries: often")) == [
        "codex-1.md:3: `retries`: `often` is not a whole number; write 0 or more"
    ]


def test_numbers_go_to_those_whose_file_has_one_and_the_rest_fills_the_gaps():
    tickets = render(codex_2="Do it.\n", codex_5="Do it.\n", codex_3=front(many(4)))
    assert {ticket.id: ticket.worker.rpartition("-")[2] for ticket in tickets} == {
        "codex-2": "2", "codex-3[v=p0]": "1", "codex-3[v=p1]": "3", "codex-3[v=p2]": "4",
        "codex-3[v=p3]": "6", "codex-5": "5",
    }  # fmt: skip


def test_a_value_that_is_added_at_the_end_renumbers_nobody():
    before = {t.id: t.worker for t in render(codex_3=front(many(4)), codex_9="Do it.\n")}
    after = {t.id: t.worker for t in render(codex_3=front(many(5)), codex_9="Do it.\n")}
    assert before.items() <= after.items()


def test_titles_that_nobody_wrote_tell_the_tickets_apart():
    tickets = render(codex_3=front(many(2)))
    assert [ticket.title for ticket in tickets] == ["Do it. [v=p0]", "Do it. [v=p1]"]


def test_dependents_name_a_whole_fan_out_one_of_it_or_the_one_beside_them():
    tickets = render(
        codex_3=SWEEP,
        claude_1=front("depends_on: [codex-3]"),
        claude_2=front('depends_on: ["codex-3[package=db]"]'),
        claude_3=front(
            "matrix: {package: [api, db]}", 'depends_on: ["codex-3[package={{ matrix.package }}]"]'
        ),
    )
    waits = plan(tickets).dependencies
    sweep = tuple(f"codex-3[package={name}]" for name in ("api", "db", "web"))
    assert waits["claude-1"] == sweep
    assert waits["claude-2"] == sweep[1:2]
    assert (waits["claude-3[package=api]"], waits["claude-3[package=db]"]) == (sweep[:1], sweep[1:2])


def test_the_output_of_a_fan_out_is_that_of_all_of_it_each_below_its_id():
    body = '---\ndepends_on: [codex-3]\n---\n{{ outputs["codex-3"] }} / {{ outputs["codex-3[package=db]"] }}'
    outputs = {f"codex-3[package={name}]": f"did {name}" for name in ("api", "db", "web")}
    *_, dependent = render(codex_3=SWEEP, codex_4=body)
    assert render_body(dependent, VALUES, outputs) == (
        "codex-3[package=api]:\n\n```text\ndid api\n```\n\ncodex-3[package=db]:\n\n```text\ndid db\n```\n\n"
        "codex-3[package=web]:\n\n```text\ndid web\n```\n / \n```text\ndid db\n```"
    )


def test_who_depends_on_one_of_a_fan_out_sees_that_one_only():
    body = '---\ndepends_on: ["codex-3[package=db]"]\n---\n{{ outputs["codex-3"] }}'
    outputs = {f"codex-3[package={name}]": f"did {name}" for name in ("api", "db", "web")}
    *_, dependent = render(codex_3=SWEEP, codex_4=body)
    assert render_body(dependent, VALUES, outputs) == "codex-3[package=db]:\n\n```text\ndid db\n```"


@pytest.mark.parametrize(
    ("meant", "near"), [("codx-3", "codex-3"), ("codex-3[package=wep]", "codex-3[package=web]")]
)
def test_a_dependency_that_is_misspelled_is_answered_with_the_nearest(meant, near):
    made = plan(render(codex_3=SWEEP, claude_1=front(f'depends_on: ["{meant}"]')))
    assert said(made.problems) == [
        f"claude-1.md:2: there is no ticket `{meant}` here; did you mean `{near}`?"
    ]


def test_a_key_that_is_missing_in_owns_is_named_once_however_many_tickets_collide():
    made = plan(render(codex_3=front("mode: write", many(40), 'owns: ["src/**"]')))
    (problem,) = said(made.problems)
    assert problem == (
        "codex-3.md:4: 40 of 40 tickets of `codex-3` collide: `codex-3[v=p1]` and `codex-3[v=p0]` both own "
        "`src`; use `{{ matrix.v }}` in `owns`, or `--on-overlap serialize`"
    )
    assert len(made.overlaps) == 40 * 39 // 2


def test_only_the_key_that_owns_does_not_use_is_named():
    lines = (
        "mode: write",
        "matrix: {package: [api, db], os: [linux, mac]}",
        'owns: ["{{ matrix.package }}/"]',
    )
    (problem,) = plan(render(codex_3=front(*lines))).problems
    assert problem.what.startswith("4 of 4 tickets of `codex-3` collide")
    assert problem.do == "use `{{ matrix.os }}` in `owns`, or `--on-overlap serialize`"


def test_values_of_which_one_holds_another_collide_with_their_witness():
    lines = ("mode: write", "matrix: {dir: [src, src/api, docs]}", 'owns: ["{{ matrix.dir }}/**"]')
    (problem,) = plan(render(codex_3=front(*lines))).problems
    assert (problem.witness, problem.do) == ("src/api", "narrow its `owns`, or `--on-overlap serialize`")
    assert problem.what == "`codex-3[dir=src/api]` and `codex-3[dir=src]` both own `src/api`"


def test_two_fan_outs_that_collide_are_one_problem_that_counts_the_pairs():
    lines = ("mode: write", "matrix: {v: [a, b, c]}", 'owns: ["{{ matrix.v }}/**"]')
    made = plan(render(codex_3=front(*lines), codex_4=front(*lines)))
    (problem,) = said(made.problems)
    assert problem.startswith("codex-4.md:4: `codex-4[v=a]` and `codex-3[v=a]` (codex-3.md:4) both own `a`")
    assert ", as do 2 more pairs of `codex-4` and `codex-3`; " in problem


def test_serialize_makes_a_chain_of_a_fan_out_and_says_so_once():
    made = plan(render(codex_3=front("mode: write", many(30), 'owns: ["src/**"]')), on_overlap="serialize")
    assert made.problems == ()
    ids = [ticket.id for ticket in made.tickets]
    assert [made.dependencies[id_] for id_ in ids] == [(), *((id_,) for id_ in ids[:-1])]
    (note,) = said(made.notes)
    assert note == (
        "codex-3.md:4: 29 of 30 tickets of `codex-3` wait for another of them, as `codex-3[v=p1]` for "
        "`codex-3[v=p0]`: both own `src`; use `{{ matrix.v }}` in `owns` to run them together"
    )


def test_serialize_lets_those_run_together_that_share_nothing():
    lines = (
        "mode: write",
        "matrix: {package: [api, db], os: [linux, mac]}",
        'owns: ["{{ matrix.package }}/"]',
    )
    made = plan(render(codex_3=front(*lines)), on_overlap="serialize")
    assert {id_: waits for id_, waits in made.dependencies.items() if waits} == {
        f"codex-3[package={name},os=mac]": (f"codex-3[package={name},os=linux]",) for name in ("api", "db")
    }


def test_a_fan_out_has_one_name_where_all_of_it_is_meant():
    ids = ["a[v=1]", "a[v=2]", "b", "c[v=1]", "c[v=2]", "d[v=x y (z)]"]
    assert gathered(ids, ids) == ["a (2 tickets)", "b", "c (2 tickets)", "d[v=x y (z)]"]
    assert gathered(["a[v=1]", "c[v=1]", "c[v=2]"], ids) == ["a[v=1]", "c (2 tickets)"]
    assert named(["a[v=1]", "a[v=2]", "b"], ids) == {"a": ["a[v=1]", "a[v=2]"], "b": ["b"]}
    assert (members("a", ids), members("b", ids), members("a[v=2]", ids), members("z", ids)) == (
        ids[:2], ["b"], ["a[v=2]"], [],
    )  # fmt: skip


def test_workers_go_by_their_fan_out_where_all_of_it_that_is_pending_is_meant_and_is_more_than_three():
    pending = {f"W-{n}": f"a[v={n}]" for n in range(4)} | {f"V-{n}": f"b[v={n}]" for n in range(3)}
    assert short_names([*pending], pending, pending) == {"a": 4, "V-0": 1, "V-1": 1, "V-2": 1}
    assert short_names(["W-0", "W-1", "W-2"], pending, pending) == {"W-0": 1, "W-1": 1, "W-2": 1}
    settled = {**pending, "W-9": "a[v=9]"}
    assert short_names(["W-0", "W-1", "W-2", "W-3", "W-9"], pending, settled) == {"a": 4, "W-9": 1}
    assert "a" not in short_names([*pending], pending, [*pending, "a"])
    assert "a b" not in short_names(["0", "1", "2", "3"], {str(n): f"a b[v={n}]" for n in range(4)}, ())


def test_a_key_is_idle_only_where_it_makes_no_difference_to_what_is_owned():
    tickets = render(codex_3=front("matrix: {a: [x, y], b: [1, 2], c: [z]}", 'owns: ["{{ matrix.a }}"]'))
    assert idle_keys(tickets) == ["b"]
    assert idle_keys(render(codex_3=SWEEP)) == []
    assert idle_keys([]) == []
