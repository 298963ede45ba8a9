"""The map of who owns which files, against asking every scope about every file."""

import itertools
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from tickets.scopes.ownership import ownership
from tickets.scopes.scope import Scope

NAMES = ["a", "b", "ab", "a.b", ".a"]
FILES = [*NAMES, *map("/".join, itertools.product(NAMES, repeat=2)), "a/b/ab", "b/a/.a", "b/.a/a/ab"]
patterns = st.lists(
    st.sampled_from(["a", "b", "*", "**", "a*", "*b", "?", "[!a]", "{a,b}", ".*"]), min_size=1, max_size=3
).flatmap(lambda parts: st.sampled_from(["", "/"]).map(lambda end: "/".join(parts) + end))
some = st.lists(patterns, max_size=3)


@given(st.lists(st.tuples(some, some), max_size=5), some)
@settings(max_examples=200, deadline=None)
def test_the_map_says_of_each_file_what_each_scope_says(written, kept):
    reserved = Scope.of(kept)
    scopes = {}
    for number, (owns, excludes) in enumerate(written):
        own = Scope.of(owns, excludes)
        scopes[f"t{number}"] = Scope(own.owns, (*own.excludes, *reserved.owns))
    found = ownership(FILES, scopes, reserved)
    assert found.owned == {name: sum(map(scope.covers, FILES)) for name, scope in scopes.items()}
    free = [file for file in FILES if not reserved.covers(file)]
    assert found.reserved == len(FILES) - len(free)
    assert found.unowned == tuple(
        sorted(file for file in free if not any(scope.covers(file) for scope in scopes.values()))
    )


def test_case_is_ignored_where_the_scopes_ignore_it():
    reserved = Scope.of(["STATUS.md"], ignore_case=True)
    scopes = {"one": Scope.of(["SRC/*.py"], ignore_case=True)}
    found = ownership(["src/A.PY", "status.MD", "Readme"], scopes, reserved)
    assert (found.owned, found.unowned, found.reserved) == ({"one": 1}, ("Readme",), 1)


def test_the_time_for_a_map_does_not_grow_with_the_number_of_tickets():
    files = [f"src/area{n % 40}/part{n % 13}/file{n}.py" for n in range(5_000)]
    reserved = Scope.of(["STATUS.md", "**/.git/"])

    def seconds(count):
        scopes = {
            f"t{n}": Scope.of([f"src/area{n}/**", f"docs/{n}.md", f"lib/**/x{n}*"]) for n in range(count)
        }
        start = time.process_time()
        assert ownership(files, scopes, reserved).owned["t0"] == 125
        return time.process_time() - start

    # Asked one by one, a hundred times as many tickets would take a hundred times as long.
    assert seconds(2_000) < 20 * min(seconds(20) for _ in range(3))
