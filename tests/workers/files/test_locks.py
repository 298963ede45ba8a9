"""Locks and queues between processes: first come, first served; dead and stopped processes block no other."""

import os

import pytest

from workers.files.locks import FairQueue, Waiter, held_folder, held_lock, is_locked


def seen(queue, place=None):
    return list(queue.ahead(place))


def test_entries_are_served_in_the_order_of_coming_and_an_empty_queue_leaves_nothing(tmp_path):
    queue, other = (FairQueue(tmp_path / "queue") for _ in range(2))
    first, second = queue.enter("codex"), other.enter("claude")
    first.write("pool")
    assert seen(other) == [Waiter("codex", "pool"), Waiter("claude", "")]
    assert (seen(other, second), seen(queue, first)) == ([Waiter("codex", "pool")], [])
    first.leave()
    assert seen(other, second) == []
    second.leave()
    assert not (tmp_path / "queue").exists()


def test_the_entry_of_a_dead_process_is_removed(tmp_path):
    queue = FairQueue(tmp_path / "queue")
    child = os.fork()
    if child == 0:
        FairQueue(tmp_path / "queue").enter("dead")
        os._exit(0)
    os.waitpid(child, 0)
    assert len(list((tmp_path / "queue").iterdir())) == 1
    with queue.turn(5.0):
        assert len(list((tmp_path / "queue").iterdir())) == 1  # our own


@pytest.mark.parametrize(("stale_after", "found"), [(None, 1), (5.0, 0)])
def test_a_stopped_process_is_passed_over_where_the_queue_says_so(tmp_path, stale_after, found):
    place = FairQueue(tmp_path).enter("stopped")
    os.pwrite(place._descriptor, b"pool  00000000000000000001", 0)
    assert len(seen(FairQueue(tmp_path, stale_after))) == found
    place.write("pool")
    assert len(seen(FairQueue(tmp_path, stale_after))) == 1
    place.leave()


def test_a_turn_that_does_not_come_is_given_up_in_time_and_leaves_the_queue(tmp_path):
    queue = FairQueue(tmp_path / "queue")
    first = queue.enter()
    with pytest.raises(TimeoutError), queue.turn(0.05):
        pytest.fail("there is one ahead")
    first.leave()
    with queue.turn(60.0) as left:
        assert 0 < left <= 60.0
    assert not (tmp_path / "queue").exists()


def test_a_lock_that_is_held_is_waited_for_and_no_longer_than_asked(tmp_path):
    with held_lock(tmp_path / "lock") as free, held_lock(tmp_path / "lock") as again:
        assert (free, again, is_locked(tmp_path / "lock")) == (True, False, True)
    with held_folder(tmp_path, 0.0) as free, held_folder(tmp_path, 0.0) as again:
        assert (free, again) == (True, False)
    assert not is_locked(tmp_path / "lock")
