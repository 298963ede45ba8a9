import time

import pytest

from tickets.problems import Problem
from tickets.scopes.scope import PatternError, Scope, find_overlaps, parse_pattern


def shared(first, second, *, without=(), also_without=(), ignore_case=False):
    one = Scope.of([first], without, ignore_case=ignore_case)
    two = Scope.of([second], also_without, ignore_case=ignore_case)
    return one.overlaps(two)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "empty"),
        ("/etc/passwd", "absolute"),
        ("../outside.py", "leaves the repository"),
        ("src/../../x", "leaves the repository"),
        ("!src", "start with !"),
        ("-rf", "start with -"),
        ("{!a,b}", "start with !"),
        ("{a,-b}", "start with -"),
        ("{a,/b}", "absolute"),
        ("{a,}", "alternatives is empty"),
        ("a\0b", "NUL"),
        ("src/[ab", "never closed"),
        ("src/[]", "never closed"),
        ("src/[!]", "never closed"),
        ("src/[a/b]", "never closed"),
        ("[z-a]", "backwards"),
        ("[[:alpha:]]", "named classes"),
        ("{a,b", "never closed"),
        ("a}", "never opened"),
        ("{1..3}", "not a range"),
        ("src/a\\", "backslash"),
        ("a\\/b", "backslash"),
        ("*/../a", "after a wildcard"),
        ("**/..", "after a wildcard"),
        ("src/[.]", "matches no file name"),
        ("{a,b}" * 10, "more than 1000"),
        ("{a,b}" * 400, "more than 1000"),
        ("{" + ",".join(map(str, range(1001))) + "}", "more than 1000"),
        ("a" * 5000, "too long"),
        ("a/" * 300, "too deep"),
        ("?" * 300, "longer than any file name"),
    ],
)
def test_a_pattern_that_cannot_be_owned_is_refused_with_its_reason(text, what):
    with pytest.raises(PatternError) as caught:
        parse_pattern(text)
    [problem] = caught.value.problems
    assert problem.place == text
    assert what in problem.what
    assert problem.do


def test_every_bad_pattern_is_named_at_once():
    with pytest.raises(PatternError) as caught:
        Scope.of(["src", "/a", "../b"], ["[", "docs"])
    assert [problem.place for problem in caught.value.problems] == ["/a", "../b", "["]
    assert all(isinstance(problem, Problem) for problem in caught.value.problems)


def test_deep_braces_do_not_exhaust_the_stack():
    assert parse_pattern("{" * 1500 + "a" + "}" * 1500).matches("a/b")


@pytest.mark.parametrize(
    "path", ["", "/src/a", "src//a", "src/", "./src", "src/../src/a", "src/.", "src/a\0"]
)
def test_text_that_is_no_path_is_never_covered(path):
    assert not Scope.of(["."]).covers(path)


def test_an_exclude_takes_paths_away_from_both_sides():
    assert shared("src", "src/gen/x.py", without=["src/gen"]) is None
    assert shared("src", "src/gen/x.py", also_without=["src/gen"]) is None
    assert shared("src/**", "src/*.py", without=["src/[a-z]*"]) is not None
    assert shared("src/**", "src/[a-c]*.py", without=["src/[a-b]*"], also_without=["src/c*"]) is None
    assert shared("a/**", "a/**", without=["a/*"], also_without=["a"]) is None


def test_a_witness_steps_around_the_excludes_where_it_can():
    one, two = Scope.of(["src/**"], ["src/[a-y]*", "src/z?*", "src/z/*.py"]), Scope.of(["src/*/?.*"])
    witness = one.overlaps(two)
    assert witness is not None
    assert one.covers(witness)
    assert two.covers(witness)
    assert Scope.of(["src/*"], ["src/x*", "src/[!x]*"]).overlaps(Scope.of(["src"])) is None


def test_state_files_left_out_of_every_scope_never_hide_a_real_overlap():
    kept = ["STATUS.md", ".taskers", "orchestrate.toml", ".git", "**/.git/**", "docs/progress/*.md"]
    scopes = {
        "a": Scope.of(["**"], kept),
        "b": Scope.of(["docs/**"], kept),
        "c": Scope.of(["STATUS.md"], kept),
    }
    [overlap] = find_overlaps(scopes)
    assert (overlap.first, overlap.second) == ("a", "b")
    assert scopes["b"].covers(overlap.witness)
    assert scopes["c"].is_empty()


def test_a_pattern_wholly_inside_reserved_paths_is_known():
    reserved = Scope.of([".git", ".taskers/**", "docs/progress/*.md", "*.lock"])
    assert Scope.of([".taskers/runs/x"]).within(reserved)
    assert Scope.of(["docs/progress/a-*.md"]).within(reserved)
    assert Scope.of(["[a-c]?.lock"]).within(reserved)
    assert not Scope.of(["docs/progress"]).within(reserved)
    assert not Scope.of(["*"]).within(reserved)
    assert Scope.of(["."], [*[f"{c}*/**" for c in "ab"], "[!ab]*/**"]).within(reserved)


def test_a_scope_that_owns_nothing_overlaps_nothing():
    assert Scope.of([]).is_empty()
    assert Scope.of([]).overlaps(Scope.of(["."])) is None
    assert Scope.of(["a/*"], ["a/?*"]).is_empty()
    assert Scope.of(["[a-c]"], ["[ab]", "[bc]"]).is_empty()
    assert not Scope.of(["[a-d]"], ["[ab]", "[bc]"]).is_empty()


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("SRC/A.py", "src/a.PY", True),
        ("[A-C]x", "bX", True),
        ("[!a]", "A", False),
        ("[!A]", "[a]", False),
        ("[!A]", "B", True),
        ("[A-z]", "_", True),
        ("ÉTÉ", "été", True),
        ("[\u0410-\u042f]", "ж", True),
        ("\u212a", "k", True),
        ("[K]", "\u212a", True),
        ("?", "Ö", True),
        ("ß", "ss", False),
        ("*.PY", "test_*.py", True),
        ("?x", "[!A-Z]X", True),
        ("A?", "[A][B-C]", True),
    ],
)
def test_case_is_ignored_where_the_file_system_ignores_it(first, second, same):
    witness = shared(first, second, ignore_case=True)
    assert (witness is not None) == same
    if witness is not None:
        assert Scope.of([first], ignore_case=True).covers(witness)
        assert Scope.of([second], ignore_case=True).covers(witness.upper())


def test_letters_of_one_case_are_not_a_way_around_an_exclude():
    assert Scope.of(["?"], ["[!A-Z]", "[a-z]"], ignore_case=True).is_empty()
    assert Scope.of(["src/a.py"], ignore_case=True).covers("SRC/A.PY")
    assert not Scope.of(["src"], ["src/GEN"], ignore_case=True).covers("Src/gen/x")


def test_scopes_of_two_kinds_of_file_system_are_not_compared():
    one, two = Scope.of(["a"]), Scope.of(["a"], ignore_case=True)
    for compare in (one.overlaps, one.within):
        with pytest.raises(ValueError, match="ignores case"):
            compare(two)
    with pytest.raises(ValueError, match="ignores case"):
        find_overlaps({"one": one, "two": two})


def test_a_name_counts_once_however_its_accents_are_written():
    assert Scope.of(["caf\u00e9"]).covers("cafe\u0301/x")
    assert Scope.of(["cafe\u0301"]).covers("caf\u00e9")
    assert Scope.of(["."], ["cafe\u0301"]).overlaps(Scope.of(["caf\u00e9"])) is None


def test_a_witness_does_not_melt_into_a_combining_mark():
    one, two = Scope.of(["*\u0308"]), Scope.of(["?*\u0308"])
    witness = one.overlaps(two)
    assert witness is not None
    assert one.covers(witness)
    assert two.covers(witness)


def test_a_literal_start_that_goes_through_a_link_owns_the_real_path():
    links = {"alias": "src/real", "deep/way": "alias", "Ünder": "docs", "up": "."}
    assert parse_pattern("alias/x.py", links=links).matches("src/real/x.py")
    assert not parse_pattern("alias", links=links).matches("alias")
    assert parse_pattern("alias/*.py", links=links).matches("src/real/a.py")
    assert parse_pattern("deep/way/b", links=links).matches("src/real/b")
    assert parse_pattern("alias/../x", links=links).matches("src/x")
    assert parse_pattern("u\u0308p", links=links).matches("\u00fcp")
    assert parse_pattern("U\u0308nder/a", links=links).matches("docs/a")
    assert parse_pattern("up/src", links=links).matches("src/a")
    assert parse_pattern("{alias,lib}/x", links=links).matches("src/real/x")
    assert parse_pattern("ALIAS/X", links=links, ignore_case=True).matches("src/real/x")


@pytest.mark.parametrize(
    ("links", "what"),
    [
        ({"out": None}, "leaves the repository"),
        ({"out": "/etc"}, "leaves the repository"),
        ({"out": "../x"}, "leaves the repository"),
        ({"out": "loop", "loop": "out"}, "leads back to itself"),
    ],
)
def test_a_link_that_leads_nowhere_inside_is_refused(links, what):
    with pytest.raises(PatternError) as caught:
        Scope.of(["out/a.py", "src"], links=links)
    [problem] = caught.value.problems
    assert what in problem.what


def test_stars_do_not_make_matching_slow():
    hard = Scope.of(["*a" * 60 + "*b"])
    start = time.process_time()
    assert not hard.covers("a" * 240)
    assert hard.overlaps(Scope.of(["*a?" * 40 + "[c]"])) is None
    assert time.process_time() - start < 20


def test_excludes_that_need_too_many_states_are_refused_and_not_guessed():
    hard = Scope.of(["?" * 40], ["*a" + "?" * 20, "*[!a]" + "?" * 20])
    with pytest.raises(PatternError, match="too complex"):
        hard.is_empty()


def test_many_tickets_are_compared_at_once():
    scopes = {f"t{n}": Scope.of([f"src/m{n}/**", f"tests/m{n}_*.py", f"docs/m{n}.md"]) for n in range(3000)}
    scopes["late"] = Scope.of(["src/m2999/deep/*.py"])
    [overlap] = find_overlaps(scopes)
    assert (overlap.first, overlap.second) == ("t2999", "late")


def test_a_known_file_is_owned_alone_and_an_unknown_one_with_all_below():
    known = frozenset({"src/README.md"})
    python = Scope.of(["src/**/*.py"], files=known)
    assert Scope.of(["src/README.md"]).overlaps(python) is not None
    readme = Scope.of(["src/README.md"], files=known)
    assert readme.overlaps(python) is None
    assert readme.covers("src/README.md")
    assert not readme.covers("src/README.md/x.py")
    assert readme.overlaps(Scope.of(["src/**"], files=known)) == "src/README.md"
    assert Scope.of(["src/README.md/"], files=known).covers("src/README.md/x.py")
