"""The set of ids that a runtime keeps of the messages it has handled."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st
from support.mail import ONE, TWO

from workers.messages.ids import Ids

NUMBERS = st.integers(1, 20) | st.integers(4000, 4200) | st.just(999_999_999)
IDS = st.builds("{}:{}".format, st.sampled_from((ONE, TWO)), NUMBERS) | st.sampled_from((
    "", "x", f"{ONE}:", f"{ONE}:0", f"{ONE}:01", f"{ONE}:-1", f"{ONE}:²", f"{ONE}:1:1",
))  # fmt: skip


@given(st.lists(IDS), st.lists(IDS))
def test_it_holds_what_was_added_and_nothing_else(added, others):
    ids = Ids()
    for id_ in added:
        ids.add(id_)
    assert all(id_ in ids for id_ in added)
    assert {id_ for id_ in others if id_ in ids} == set(others) & set(added)


def test_fifty_thousand_take_little_memory_and_so_does_a_forged_number():
    tracemalloc.start()
    try:
        ids = Ids()
        for number in range(1, 50_001):
            ids.add(f"{ONE}:{number}")
        ids.add(f"{TWO}:999999999")
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 200_000
