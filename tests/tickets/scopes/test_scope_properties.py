"""Scopes against a matcher written for this test alone, over every short path of a small alphabet."""

import functools
import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tickets.scopes.scope import Scope, find_overlaps

NAMES = [
    name
    for length in (1, 2, 3)
    for name in map("".join, itertools.product("ab.", repeat=length))
    if name not in {".", ".."}
]
PATHS = [*NAMES, *(f"{a}/{b}" for a in NAMES[:11] for b in NAMES[:11])]
PATHS += [f"{a}/{b}/{c}" for a, b, c in itertools.product(("a", "b", "ab"), repeat=3)]

# No pattern of these says more about a name than its first and last code point and whether a third follows,
# so names of three code points decide them.
segments = st.sampled_from(
    ["a", "b", "ab", "*", "?", "a*", "*b", "?a", "[ab]", "[!a]", "[!b]*", ".*", "*a*", "**", "a?"]
)
patterns = st.builds(
    lambda parts, slash: "/".join(parts) + slash,
    st.lists(segments, min_size=1, max_size=3),
    st.sampled_from(["", "", "/"]),
)
scopes = st.builds(
    lambda owns, excludes: (owns, excludes),
    st.lists(patterns, min_size=1, max_size=2),
    st.lists(patterns, max_size=2),
)


def name_matches(pattern, name):
    if not pattern:
        return not name
    if pattern[0] == "*":
        return name_matches(pattern[1:], name) or (bool(name) and name_matches(pattern, name[1:]))
    if not name:
        return False
    if pattern[0] == "[":
        inside, rest = pattern[1:].split("]", 1)
        holds = (name[0] not in inside[1:]) if inside[0] == "!" else (name[0] in inside)
        return holds and name_matches(rest, name[1:])
    return pattern[0] in {"?", name[0]} and name_matches(pattern[1:], name[1:])


@functools.cache
def path_matches(parts, names):
    if not parts:
        return not names
    if parts[0] == "**":
        return path_matches(parts[1:], names) or (bool(names) and path_matches(parts, names[1:]))
    return bool(names) and name_matches(parts[0], names[0]) and path_matches(parts[1:], names[1:])


@functools.cache
def owned(pattern, path):
    parts = tuple(part for part in pattern.split("/") if part)
    if pattern.endswith("/") or not set(pattern) & set("*?["):
        parts += ("**",)
    return path_matches(parts, tuple(path.split("/")))


def naive(scope):
    owns, excludes = scope
    return {
        path
        for path in PATHS
        if any(owned(pattern, path) for pattern in owns)
        and not any(owned(pattern, path) for pattern in excludes)
    }


@given(scopes)
@settings(max_examples=150, deadline=None)
def test_a_scope_covers_what_the_plain_rules_say(scope):
    real = Scope.of(*scope)
    assert {path for path in PATHS if real.covers(path)} == naive(scope)


@given(scopes, scopes)
@settings(max_examples=250, deadline=None)
def test_a_witness_is_covered_by_both_and_none_means_that_no_short_path_is(first, second):
    one, two = Scope.of(*first), Scope.of(*second)
    witness = one.overlaps(two)
    back = two.overlaps(one)
    assert (witness is None) == (back is None)
    if witness is None:
        assert not naive(first) & naive(second)
    for path in {witness, back} - {None}:
        assert one.covers(path)
        assert two.covers(path)
        assert not {"", ".", ".."} & set(path.split("/"))
        assert naive_covers(first, path)
        assert naive_covers(second, path)


@given(scopes, scopes)
@settings(max_examples=150, deadline=None)
def test_within_and_empty_agree_with_the_short_paths(first, second):
    one, two = Scope.of(*first), Scope.of(*second)
    if one.within(two):
        assert naive(first) <= naive(second)
    if one.is_empty():
        assert not naive(first)
        assert one.within(two)
        assert one.overlaps(two) is None
    else:
        assert one.overlaps(one) is not None
    assert one.within(one)
    joined = Scope.of([*first[0], *second[0]])
    assert one.within(joined)
    assert two.within(joined)


@given(st.lists(patterns, min_size=1, max_size=2), st.lists(patterns, min_size=1, max_size=2))
@settings(max_examples=150, deadline=None)
def test_not_within_means_that_something_lies_outside(first, second):
    one, two = Scope.of(first), Scope.of(second)
    rest = Scope.of(first, second)
    assert one.within(two) == rest.is_empty()
    if not one.within(two):
        witness = rest.overlaps(Scope.of(["."]))
        assert witness is not None
        assert naive_covers((first, second), witness)


@given(st.lists(scopes, min_size=2, max_size=6))
@settings(max_examples=150, deadline=None)
def test_all_at_once_finds_what_every_pair_on_its_own_finds(many):
    real = {f"ticket-{number}": Scope.of(*scope) for number, scope in enumerate(many)}
    found = find_overlaps(real)
    for overlap in found:
        assert real[overlap.first].covers(overlap.witness)
        assert real[overlap.second].covers(overlap.witness)
    assert [(overlap.first, overlap.second) for overlap in found] == [
        (first, second)
        for first, second in itertools.combinations(real, 2)
        if real[first].overlaps(real[second]) is not None
    ]


crowded = st.lists(
    st.tuples(st.sampled_from(["", "**/", "a*/"]), st.text("ab", max_size=2), st.sampled_from(["*", "?", ""]))
    .flatmap(lambda parts: st.text("ab", max_size=2).map(lambda tail: "".join(parts) + tail))
    .filter(lambda text: not text.endswith("/") and bool(text)),
    min_size=20,
    max_size=40,
    unique=True,
)


@given(crowded)
@settings(max_examples=25, deadline=None)
def test_a_crowded_folder_is_looked_up_without_losing_a_pair(many):
    real = {text: Scope.of([text]) for text in many}
    assert [(overlap.first, overlap.second) for overlap in find_overlaps(real)] == [
        (first, second)
        for first, second in itertools.combinations(real, 2)
        if real[first].overlaps(real[second]) is not None
    ]


def naive_covers(scope, path):
    owns, excludes = scope
    return any(owned(pattern, path) for pattern in owns) and not any(
        owned(pattern, path) for pattern in excludes
    )
