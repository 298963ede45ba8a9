"""A login that workers have in common is refreshed by one of them at a time."""

import anyio
import pytest

from orchestrator.schedule.login_lock import WINDOW, Logins

NOW = 1_771_252_080.0


def logins(tmp_path, *, at=NOW, alone=60.0, **environ):
    return Logins(tmp_path / "logins", environ, lambda: at, alone)


async def waits(one, agent="claude"):
    """Tell whether somebody has to wait, without waiting."""
    with anyio.move_on_after(0.3) as scope:
        await one.turn(agent)
    return scope.cancelled_caught


def test_the_first_start_goes_alone_until_its_provider_has_answered(tmp_path):
    first, second = logins(tmp_path), logins(tmp_path)

    async def go():
        assert await first.turn("claude")
        assert await waits(second)
        assert await waits(first)  # its own runtime's others wait as well
        assert await second.turn("codex")  # another login is nobody's business
        first.answered("claude")
        assert [await one.turn("claude") for one in (first, second)] == [None, None]

    anyio.run(go)


def test_one_that_ends_or_dies_without_an_answer_lets_the_next_go_alone(tmp_path):
    first, second = logins(tmp_path), logins(tmp_path)

    async def go():
        first.ended("claude", await first.turn("claude"))
        assert await second.turn("claude")
        assert await waits(first)

    anyio.run(go)


def test_nobody_waits_for_ever_for_an_answer(tmp_path):
    slow, second = logins(tmp_path, alone=0.2), logins(tmp_path)

    async def go():
        assert await slow.turn("claude")
        await anyio.sleep(0.25)
        slow.look()
        assert await second.turn("claude")

    anyio.run(go)


def test_one_that_took_too_long_does_not_give_back_the_turn_of_the_next(tmp_path):
    ours, others = logins(tmp_path, alone=0.2), logins(tmp_path, alone=0.2)

    async def go():
        slow = await ours.turn("claude")
        await anyio.sleep(0.25)
        ours.look()
        assert await ours.turn("claude")
        ours.ended("claude", slow)
        others_at = anyio.current_time()
        assert not await others.turn("claude")  # passed by, as one that is stopped
        assert anyio.current_time() > others_at + 0.2

    anyio.run(go)


@pytest.mark.parametrize(("later", "is_alone"), [(WINDOW - 1, False), (WINDOW + 1, True), (-5.0, True)])
def test_an_answer_holds_for_a_while_and_a_clock_set_back_does_not_stretch_it(tmp_path, later, is_alone):
    logins(tmp_path).answered("gemini")
    assert bool(anyio.run(logins(tmp_path, at=NOW + later).turn, "gemini")) is is_alone


@pytest.mark.parametrize("key", ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"])
def test_with_a_key_everybody_has_a_login_of_his_own(tmp_path, key):
    one = logins(tmp_path, **{key: "sk-test-not-real"})
    assert [anyio.run(one.turn, "claude") for _ in range(2)] == [None, None]
    assert not (tmp_path / "logins").exists()


def test_one_that_is_stopped_while_it_goes_alone_is_passed_by(tmp_path):
    stopped, others = logins(tmp_path, alone=0.2), logins(tmp_path, alone=0.2)

    async def go():
        assert await stopped.turn("claude")
        with anyio.fail_after(10):  # nothing of `stopped` runs any more, so it never lets go
            assert not await others.turn("claude")

    anyio.run(go)


def test_what_cannot_be_written_keeps_no_worker_from_its_work(tmp_path):
    one = logins(tmp_path)
    (tmp_path / "logins").write_text("no folder")

    async def go():
        with anyio.fail_after(10):
            assert not await one.turn("claude")
        one.answered("claude")

    anyio.run(go)
