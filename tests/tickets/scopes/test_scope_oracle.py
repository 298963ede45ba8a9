"""Scopes against regular expressions made from the same text by rules written for this test alone.

Braces, classes, escapes, `**` glued to text, both kinds of file system; all short paths of a small alphabet.
"""

import functools
import itertools
import re

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tickets.scopes.scope import PatternError, Scope, find_overlaps

ALPHABET = "ab.*]"
NAMES = [
    name
    for length in (1, 2, 3)
    for name in map("".join, itertools.product(ALPHABET, repeat=length))
    if name not in {".", ".."}
]
SHORT = [name for name in NAMES if len(name) < 3]
PATHS = [*NAMES, *map("/".join, itertools.product(SHORT, repeat=2))]
PATHS += map("/".join, itertools.product(("a", "b", "ab", ".a"), repeat=3))
PATHS += map("/".join, itertools.product(("a", "b"), repeat=4))

PIECES = [
    "a", "b", ".", "*", "**", "?", "[ab]", "[!a]", "[^b]", "[a-b]", "[*]", "[!*-]", "[]a]", "[!]]", "[.]",
    "[a-]", r"\a", r"\*", r"\]", r"[\]b]", r"[\*-b]", "A", "[A-B]", "{a,b}", "{a,*}", "{a,}",
    "{,[ab]}", "{a,{b,.a}}", "{a/b,b}", "{**,a}", r"{\*,a}",
]  # fmt: skip
segments = st.one_of(
    st.sampled_from(["a", "b", "*", "**", "a*", "*b", "ab", "?"]),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map("".join),
)
patterns = st.builds(
    lambda start, parts, end: start + "/".join(parts) + end,
    st.sampled_from(["", "", "", "./"]),
    st.lists(segments, min_size=1, max_size=3),
    st.sampled_from(["", "", "/", "//", "/."]),
)
owns = st.lists(patterns, min_size=1, max_size=2)
scopes = st.tuples(owns, st.lists(patterns, max_size=2))


def alternatives(text):
    """Write out the innermost braces first, which is not how the scopes do it."""
    plain = re.sub(r"\\.", "__", text)
    inner = re.search(r"\{([^{}]*)\}", plain)
    if inner is None:
        return [text]
    start, end = inner.span(1)
    commas = [start - 1, *(at for at in range(start, end) if plain[at] == ","), end]
    choices = [text[low + 1 : high] for low, high in itertools.pairwise(commas)]
    return [each for one in choices for each in alternatives(text[: start - 1] + one + text[end + 1 :])]


def name_regex(segment):
    """Return the regular expression of one segment, and whether it has wildcards."""
    found, wild = "", False
    for token in re.findall(r"\[[!^]?\]?(?:\\.|[^\]\\])*\]|\\.|\*+|.", segment):
        if token[0] == "*":
            found, wild = found + "[^/]*", True
        elif token == "?":
            found, wild = found + "[^/]", True
        elif token[0] == "[" and len(token) > 1:
            negated = token[1] in "!^"
            inside = token[1 + negated : -1]
            inside = f"\\{inside}" if inside[0] == "]" else inside
            found, wild = found + (f"[^/{inside}]" if negated else f"(?!/)[{inside}]"), True
        else:
            found += re.escape(token[-1])
    return found, wild


def regex(alternative):
    """Return the regular expression of a pattern without braces, over paths that begin with a slash."""
    found, any_wild = "", False
    parts = [part for part in alternative.split("/") if part not in ("", ".")]
    for part in parts:
        if part == "**":
            found, any_wild = found + "(?:/[^/]+)*", True
        else:
            name, wild = name_regex(part)
            found, any_wild = f"{found}/{name}", any_wild or wild
    return found + ("(?:/[^/]+)*" if not any_wild or alternative.endswith("/") else "")


@functools.lru_cache(maxsize=4096)
def compiled(text, ignore_case):
    return re.compile("|".join(map(regex, alternatives(text))), re.IGNORECASE if ignore_case else 0)


def owned(scope, path, *, ignore_case=False):
    def matches(texts):
        return any(compiled(text, ignore_case).fullmatch(f"/{path}") for text in texts)

    return matches(scope[0]) and not matches(scope[1])


def read(scope, *, ignore_case=False):
    """Read a scope; drop what goes up again, and what cannot be owned for one of these reasons."""
    texts = (each for text in (*scope[0], *scope[1]) for each in alternatives(text))
    assume(not any(".." in text.split("/") for text in texts))
    try:
        return Scope.of(*scope, ignore_case=ignore_case)
    except PatternError as error:
        for problem in error.problems:
            reasons = r"matches no file name|alternatives is empty|absolute|start with -|backwards"
            assert re.search(reasons, problem.what), problem
        assume(condition=False)


@given(scopes, st.booleans())
@example((["a**b"], []), False)
@example((["{a,b*}/"], ["[!a]/**"]), False)
@example(([r"\*[]a]", "[!]]"], []), False)
@settings(max_examples=120, deadline=None)
def test_a_scope_covers_what_its_regular_expression_matches(scope, ignore_case):
    real = read(scope, ignore_case=ignore_case)
    for path in PATHS:
        assert real.covers(path) == owned(scope, path, ignore_case=ignore_case), path


@given(scopes, scopes, st.booleans())
@settings(max_examples=150, deadline=None)
def test_two_scopes_share_what_both_regular_expressions_match(first, second, ignore_case):
    one, two = read(first, ignore_case=ignore_case), read(second, ignore_case=ignore_case)
    witness = one.overlaps(two)
    assert (two.overlaps(one) is None) == (witness is None)
    at_once = find_overlaps({"one": one, "two": two})
    assert bool(at_once) == (witness is not None)
    for path in {witness, *(overlap.witness for overlap in at_once)} - {None}:
        assert owned(first, path, ignore_case=ignore_case)
        assert owned(second, path, ignore_case=ignore_case)
        assert not {"", ".", ".."} & set(path.split("/"))
    if witness is None:
        for path in PATHS:
            assert not (
                owned(first, path, ignore_case=ignore_case) and owned(second, path, ignore_case=ignore_case)
            ), path


@given(scopes, scopes)
@settings(max_examples=60, deadline=None)
def test_what_lies_within_another_scope_has_nothing_outside_of_it(first, second):
    one, two = read(first), read(second)
    inside = [path for path in PATHS if owned(first, path)]
    if one.within(two):
        assert all(owned(second, path) for path in inside)
    if one.is_empty():
        assert inside == []


def test_the_oracle_is_no_copy_that_says_yes_to_all():
    assert set(alternatives(r"x{a,{b,\},c}}d")) == {"xad", "xbd", r"x\}d", "xcd"}
    assert regex("a**b/?") == "/a[^/]*b/[^/]"
    seen = {path for path in PATHS if owned((["{a,[]]}"], ["a/**/b"]), path)}
    assert seen >= {"a", "]", "a/a"}
    assert seen.isdisjoint({"b", "a/b", "a/a/b", "]/a"})
