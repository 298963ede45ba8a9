"""A login that workers share is refreshed by one of them at a time."""

import anyio
import pytest
from support.runtimes import PATIENCE

from orchestrator.schedule.login_lock import ALONE, WINDOW, LoginLock

NOW = 1_771_252_080.0


class Clock:
    """A clock that a test sets."""

    now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def lock(tmp_path, clock, **environ):
    return LoginLock(tmp_path / "logins", environ, clock)


async def waits(one, agent="claude"):
    """Return whether another process has to wait, without waiting."""
    with anyio.move_on_after(0.3) as scope:
        await one.wait_turn(agent)
    return scope.cancelled_caught


def test_the_first_start_goes_alone_until_its_provider_has_answered(tmp_path, clock):
    first, second = lock(tmp_path, clock), lock(tmp_path, clock)

    async def go():
        assert await first.wait_turn("claude")
        assert await waits(second)
        assert await waits(first)  # its own runtime's others wait as well
        assert await second.wait_turn("codex")  # another login is nobody's business
        first.answered("claude")
        assert [await one.wait_turn("claude") for one in (first, second)] == ["", ""]

    anyio.run(go)


def test_who_waits_is_told_why_once(tmp_path, clock):
    told = []

    async def go():
        await lock(tmp_path, clock).wait_turn("claude")
        with anyio.move_on_after(0.3):
            await lock(tmp_path, clock).wait_turn("claude", told.append)

    anyio.run(go)
    assert told == ["another claude worker goes first, since it may renew the login"]


def test_one_that_ends_without_an_answer_lets_the_next_go_alone(tmp_path, clock):
    first, second = lock(tmp_path, clock), lock(tmp_path, clock)

    async def go():
        first.release("claude", await first.wait_turn("claude"))
        assert await second.wait_turn("claude")
        assert await waits(first)

    anyio.run(go)


def test_one_that_died_or_is_stopped_or_waits_for_an_answer_holds_up_nobody_for_longer(tmp_path, clock):
    slow, second = lock(tmp_path, clock), lock(tmp_path, clock)

    async def go():
        assert await slow.wait_turn("claude")
        clock.now += ALONE - 1
        assert await waits(second)
        clock.now += 2
        assert await second.wait_turn("claude")
        assert await waits(slow)

    anyio.run(go)


def test_one_that_took_too_long_does_not_release_the_turn_of_the_next(tmp_path, clock):
    ours, others = lock(tmp_path, clock), lock(tmp_path, clock)

    async def go():
        slow = await ours.wait_turn("claude")
        clock.now += ALONE + 1
        assert await ours.wait_turn("claude")
        ours.release("claude", slow)
        assert await waits(others)

    anyio.run(go)


@pytest.mark.parametrize(("later", "is_alone"), [(WINDOW - 1, False), (WINDOW + 1, True), (-5.0, True)])
def test_an_answer_holds_for_a_while_and_a_clock_set_back_does_not_stretch_it(
    tmp_path, clock, later, is_alone
):
    one = lock(tmp_path, clock)
    one.answered("gemini")
    clock.now += later
    assert bool(anyio.run(one.wait_turn, "gemini")) is is_alone


@pytest.mark.parametrize("key", ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"])
def test_with_a_key_each_worker_has_a_login_of_its_own(tmp_path, clock, key):
    one = lock(tmp_path, clock, **{key: "sk-test-not-real"})
    assert [anyio.run(one.wait_turn, "claude") for _ in range(2)] == ["", ""]
    assert not (tmp_path / "logins").exists()


@pytest.mark.parametrize("text", ["", "nonsense", "alone", "alone soon", "answered nan", "\0\xff"])
def test_a_lock_that_cannot_be_read_is_free(tmp_path, clock, text):
    (tmp_path / "logins").mkdir()
    (tmp_path / "logins/claude.login").write_text(text)
    assert anyio.run(lock(tmp_path, clock).wait_turn, "claude")


def test_of_many_that_start_at_once_one_goes_alone(tmp_path, clock):
    got = []

    async def go():
        async def one():
            got.append(await lock(tmp_path, clock).wait_turn("codex"))

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(one)
            await anyio.sleep(0.3)
            assert [bool(mark) for mark in got] == [True]
            lock(tmp_path, clock).answered("codex")

    anyio.run(go)
    assert [bool(mark) for mark in got] == [True] + [False] * 7


def test_what_cannot_be_written_keeps_no_worker_from_its_work(tmp_path, clock):
    one = lock(tmp_path, clock)
    (tmp_path / "logins").write_text("no folder")

    async def go():
        with anyio.fail_after(PATIENCE):
            assert not await one.wait_turn("claude")
        one.answered("claude")

    anyio.run(go)
