"""Plans: who waits for whom, and the proof that no two touch one file."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickets.plan import make_plan
from tickets.scopes.rules import PathRules, reserved_paths
from tickets.ticket import Ticket

RESERVED = reserved_paths([])


def ticket(id_, owns=(), depends_on=(), **more):
    fields = {"mode": "write", "lines": {"owns": 3, "excludes": 4, "depends_on": 5}, **more}
    stem = id_.partition("[")[0]
    return Ticket(
        id=id_,
        template=f"{stem}.md",
        worker=id_,
        agent="codex",
        phase="p",
        title="t",
        body="b",
        owns=tuple(owns),
        depends_on=tuple(depends_on),
        **fields,
    )


def plan(*tickets, on_overlap="refuse", **rules):
    return make_plan(tickets, PathRules(**{"reserved": RESERVED, **rules}), on_overlap=on_overlap)


def problems(*tickets, **more):
    return [str(problem) for problem in plan(*tickets, **more).problems]


def ids(made):
    return [each.id for each in made.tickets]


def test_tickets_that_share_nothing_keep_their_order():
    made = plan(ticket("b", ["src/b/**"]), ticket("a", ["src/a/**"]), ticket("c", ["src/*.py"]))
    assert ids(made) == ["b", "a", "c"]
    assert (made.problems, made.notes, made.overlaps) == ((), (), ())


def test_a_ticket_comes_after_those_that_it_depends_on():
    made = plan(ticket("a", ["a"], ["c"]), ticket("b", ["b"]), ticket("c", ["c"], ["d"]), ticket("d", ["d"]))
    assert ids(made) == ["b", "d", "c", "a"]
    assert made.dependencies == {"a": ("c",), "b": (), "c": ("d",), "d": ()}


def test_two_that_own_one_path_are_refused_with_that_path_and_both_templates():
    made = plan(ticket("a", ["src/**"]), ticket("b", ["src/*/x.py", "b"]))
    (problem,) = made.problems
    assert (problem.place, problem.witness) == ("b.md:3", made.overlaps[0].witness)
    assert "(a.md:3)" in problem.what
    assert made.scopes["a"].covers(problem.witness)
    assert made.scopes["b"].covers(problem.witness)


def test_tickets_in_an_order_may_overlap_if_only_by_way_of_a_third():
    made = plan(ticket("a", ["src/**"]), ticket("b", ["b"], ["a"]), ticket("c", ["src/x"], ["b"]))
    assert made.problems == ()


def test_owning_is_exclusive_for_readers_too_and_reading_never_conflicts():
    assert (
        len(problems(ticket("a", ["src/**"], mode="read-only"), ticket("b", ["src/x"], mode="read-only")))
        == 1
    )
    assert problems(ticket("a", ["src/**"]), ticket("b", ["b"], reads=("src/**",))) == []


def test_serialize_lets_the_later_wait_with_one_dependency_each():
    made = plan(*(ticket(name, ["src/**"]) for name in "abcd"), on_overlap="serialize")
    assert made.problems == ()
    assert made.dependencies == {"a": (), "b": ("a",), "c": ("b",), "d": ("c",)}
    assert made.tickets[3].depends_on == ("c",)
    assert len(made.overlaps) == 6
    assert str(made.notes[0]).startswith("b.md:3: `b` waits for `a` (a.md:3): both own `src")


def test_serialize_never_makes_a_cycle_of_an_order_that_is_there():
    made = plan(
        ticket("a", ["x", "a"], ["c"]),
        ticket("b", ["x"]),
        ticket("c", ["c", "y"]),
        ticket("d", ["y"], ["b"]),
        on_overlap="serialize",
    )
    assert made.problems == ()
    assert made.dependencies == {"a": ("c",), "b": ("a",), "c": (), "d": ("b",)}


def test_cycles_are_named_from_end_to_end():
    said = problems(
        ticket("a", ["a"], ["b"]),
        ticket("b", ["b"], ["c"]),
        ticket("c", ["c"], ["a"]),
        ticket("d", ["d"], ["d"]),
    )
    assert said == [
        "a.md:5: tickets wait for each other: a -> b -> c -> a; take one of these out of `depends_on`",
        "d.md:5: tickets wait for each other: d -> d; take one of these out of `depends_on`",
    ]


def test_an_unknown_dependency_is_named_with_the_nearest_id():
    assert problems(ticket("codex-1", ["a"], ["claud-1"]), ticket("claude-1", ["b"])) == [
        "codex-1.md:5: there is no ticket `claud-1` here; did you mean `claude-1`?"
    ]


@pytest.mark.parametrize(
    "pattern",
    [
        "STATUS.md",
        "docs/progress/a.md",
        "docs/worker-ticket-templates/**",
        ".git/hooks",
        "vendor/.git",
        ".gitmodules",
        ".taskers",
        "orchestrate.toml",
        "docs/decisions/2026.md",
        "{AGENTS,DECISIONS}.md",
        "./docs/../STATUS.md",
    ],
)
def test_a_pattern_inside_of_what_nobody_owns_is_an_error(pattern):
    (said,) = problems(ticket("a", ["src/**", pattern]))
    assert said.startswith(f"a.md:3: `{pattern}` lies in what no ticket owns (`")


def test_a_pattern_that_reaches_what_nobody_owns_loses_it_with_a_note():
    made = plan(ticket("a", ["*.md", "docs/**"], excludes=["docs/progress/**", "docs/history"]))
    assert made.problems == ()
    assert [(note.place, note.severity) for note in made.notes] == [("a.md:3", "info")] * 2
    assert "(`STATUS.md`, `DECISIONS.md`, `AGENTS.md`)" in made.notes[0].what
    assert "`docs/backlog.md`" in made.notes[1].what
    assert "docs/history" not in made.notes[1].what
    assert made.scopes["a"].covers("README.md")
    assert not made.scopes["a"].covers("STATUS.md")


def test_a_repository_inside_of_a_scope_is_left_out_without_a_note():
    made = plan(ticket("a", ["src/**"]))
    assert (made.problems, made.notes) == ((), ())
    assert not made.scopes["a"].covers("src/vendor/.git/config")
    assert made.scopes["a"].covers("src/.gitignore")


def test_two_that_share_only_what_nobody_owns_do_not_overlap():
    assert problems(ticket("a", ["?TATUS.md", "a"]), ticket("b", ["STATU?.md", "b"])) == []


def test_the_project_may_own_its_gitignore_and_what_families_that_are_off_would_hold():
    assert (
        problems(ticket("a", [".gitignore", ".gitattributes", "phases/x", "ai_memory/y", "STATE.md"])) == []
    )
    said = problems(ticket("a", ["phases/x", "ai_memory/y"]), reserved=reserved_paths(["phases"]))
    assert len(said) == 1


def test_a_link_is_followed_to_what_nobody_owns():
    links = {"alias": "docs/progress", "STATUS.md": "notes/status.md"}
    said = problems(ticket("a", ["alias/**"]), ticket("b", ["notes/status.md"]), links=links)
    assert [text.partition(" lies")[0] for text in said] == [
        "a.md:3: `alias/**`",
        "b.md:3: `notes/status.md`",
    ]


def test_case_counts_only_where_the_file_system_says_so():
    pair = (ticket("a", ["SRC/x"]), ticket("b", ["src/X"]))
    assert problems(*pair) == []
    assert len(problems(*pair, ignore_case=True)) == 1
    assert len(problems(ticket("a", ["status.md"]), ignore_case=True)) == 1


def test_every_bad_pattern_is_told_with_its_template_and_key():
    said = problems(ticket("a", ["!x", "../y"], excludes=["-z"]), ticket("b", ["/abs"], reads=["["]))
    assert [text.split(":", 2)[:2] for text in said[:3]] == [["a.md", "3"], ["a.md", "3"], ["a.md", "4"]]
    assert [text.partition("`: ")[0].split("`")[-1] for text in said[:4]] == [
        "owns",
        "owns",
        "excludes",
        "owns",
    ]
    assert all(";" in text for text in said)


def test_a_writer_must_own_something_that_is_left():
    assert problems(ticket("a")) == ["a.md:3: writes but owns nothing; own what the ticket is to change"]
    (said,) = problems(ticket("a", ["src/**"], excludes=["src"]))
    assert "its excludes take all of it" in said
    assert problems(ticket("a", mode="read-only")) == []


def test_all_kinds_of_problems_are_listed_together():
    said = problems(
        ticket("a", ["src"], ["nobody"]),
        ticket("b", ["src"]),
        ticket("c", ["!"], ["c"]),
        ticket("d", ["STATUS.md"]),
    )
    assert len(said) == 5


NAMES = "abcdef"


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.sampled_from(NAMES),
        st.tuples(
            st.sets(st.sampled_from(NAMES), max_size=2),
            st.sets(st.sampled_from(["x", "y/**", "y/z", "**"]), min_size=1),
        ),
    )
)
def test_serialized_plans_are_in_order_and_disjoint_or_refused(graph):
    tickets = [ticket(name, sorted(owns), sorted(needs)) for name, (needs, owns) in graph.items()]
    made = plan(*tickets, on_overlap="serialize")
    assert sorted(ids(made)) == sorted(graph)
    if made.problems:
        assert any(
            "wait for each other" in problem.what or "no ticket" in problem.what for problem in made.problems
        )
        return
    above = {}
    for each in made.tickets:
        assert all(other in above for other in each.depends_on)
        above[each.id] = set(each.depends_on).union(*(above[other] for other in each.depends_on))
    for one in graph:
        for two in graph:
            if one != two and one not in above[two] and two not in above[one]:
                assert made.scopes[one].overlaps(made.scopes[two]) is None
