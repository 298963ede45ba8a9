"""What is known of the providers: pauses, limits that halve and creep back, shared by processes."""

import fcntl
import json
import os
import subprocess
import sys

import pytest
from support.runtimes import PATIENCE

from orchestrator.schedule.rate_limits import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    Parked,
    Providers,
    ProviderState,
    provider_states,
)
from workers.pool.slots import PoolLimits

NOON = 1_771_250_400.0


class Clock:
    """A clock that a test sets."""

    def __init__(self):
        self.now = NOON

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def providers(tmp_path, clock):
    return Providers(tmp_path / "providers", PoolLimits(), clock)


def another(providers, clock, limits=None):
    """Return the state of another process: nothing in its memory."""
    return Providers(providers.folder, limits or PoolLimits(), clock)


def test_a_provider_of_which_nothing_is_known_has_its_full_limit(providers):
    assert providers.parked("codex") is None
    assert [providers.limit(agent) for agent in ("codex", "claude", "command")] == [5, 5, None]
    providers.went_well("codex")
    assert providers.provider_states() == []
    assert not providers.folder.exists()


def test_a_provider_is_parked_until_the_time_that_it_names(providers, clock):
    parked = providers.park("claude", "rate limit", NOON + 300)
    assert parked == Parked("claude", NOON + 300, "rate limit", named=True)
    clock.now += 299
    assert providers.parked("claude") == another(providers, clock).parked("claude") == parked
    assert providers.room("claude") == 0
    assert providers.parked("codex") is None
    clock.now += 1
    assert providers.parked("claude") is None
    assert providers.room("claude") == 2


def test_pauses_grow_while_no_time_is_named_and_a_success_makes_them_short_again(providers, clock):
    lengths = []
    for _ in range(9):
        parked = providers.park("codex", "overloaded", None)
        assert parked.named is False
        lengths.append(parked.until - clock.now)
        clock.now = parked.until
    assert lengths == [15, 30, 60, 120, 240, 480, 900, 900, 900]
    providers.went_well("codex")
    assert providers.park("codex", "overloaded", None).until == clock.now + FIRST_PAUSE


@pytest.mark.parametrize("named", [NOON, NOON - 60, NOON * 1000, float("inf"), float("nan"), 0.0])
def test_a_time_that_cannot_be_meant_counts_as_none(providers, named):
    assert providers.park("codex", "429", named) == Parked("codex", NOON + FIRST_PAUSE, "429", named=False)


def test_many_who_hit_the_same_limit_count_once(providers, clock):
    until = [another(providers, clock).park("codex", f"429 of {n}", None).until for n in range(5)]
    assert until == [NOON + FIRST_PAUSE] * 5
    assert providers.limit("codex") == 2
    clock.now += FIRST_PAUSE
    assert providers.park("codex", "429", None).until == clock.now + 2 * FIRST_PAUSE


def test_one_who_began_before_the_pause_parks_again_but_counts_no_more(providers, clock):
    providers.park("codex", "429", None, began=NOON - 60)
    clock.now += FIRST_PAUSE + 5
    assert providers.park("codex", "429", None, began=NOON - 50).until == clock.now + FIRST_PAUSE
    assert providers.limit("codex") == 2
    clock.now += FIRST_PAUSE
    again = providers.park("codex", "429", None, began=clock.now - 1)
    assert again.until == clock.now + 2 * FIRST_PAUSE
    assert providers.limit("codex") == 1


def test_the_longer_of_two_pauses_holds_and_a_named_time_beats_a_guess(providers):
    providers.park("claude", "overloaded", None)
    assert providers.park("claude", "quota", NOON + 3600) == Parked(
        "claude", NOON + 3600, "quota", named=True
    )
    assert providers.park("claude", "429", NOON + 60).until == NOON + 3600
    assert providers.park("claude", "overloaded", None).reason == "quota"
    providers.park("codex", "429", NOON + 5)
    assert providers.park("codex", "overloaded", None) == Parked("codex", NOON + 5, "429", named=True)


def test_the_limit_halves_once_a_pause_never_below_one_and_creeps_back(providers, clock):
    limits = []
    for _ in range(4):
        clock.now = providers.park("gemini", "429", None).until
        limits.append(providers.limit("gemini"))
    assert limits == [2, 1, 1, 1]
    for _ in range(6):
        providers.went_well("gemini")
        limits.append(another(providers, clock).limit("gemini"))
    assert limits[4:] == [2, 3, 4, 5, 5, 5]
    assert list(providers.folder.glob("*.json")) == []


def test_a_success_from_before_the_pause_proves_nothing(providers, clock):
    parked = providers.park("codex", "429", None)
    providers.went_well("codex")
    assert (providers.parked("codex"), providers.limit("codex")) == (parked, 2)
    clock.now = parked.until
    assert providers.park("codex", "429", None).until == clock.now + 2 * FIRST_PAUSE


def test_a_limit_from_the_rules_that_is_lower_holds(providers, clock):
    providers.park("codex", "429", None)
    assert another(providers, clock, PoolLimits(agents={"codex": 1})).limit("codex") == 1
    none = another(providers, clock, PoolLimits(agents={"codex": 0}))
    clock.now += LONGEST_PAUSE
    none.park("codex", "429", None)
    assert none.limit("codex") == 0
    assert another(providers, clock).parked("codex") is not None


def test_a_clock_that_was_set_back_does_not_lengthen_a_pause(providers, clock):
    providers.park("codex", "429", None)
    clock.now -= 7200
    assert providers.parked("codex") is None


def test_ps_is_told_who_is_parked_and_who_bears_less(providers):
    providers.park("codex", "429: slow down", NOON + 60)
    providers.park("command", "its server is overloaded", None)
    assert providers.provider_states() == [
        ProviderState("codex", 2, 5, NOON + 60, "429: slow down"),
        ProviderState("command", None, None, NOON + FIRST_PAUSE, "its server is overloaded"),
    ]
    assert provider_states(providers.folder, NOON + 61) == [
        ProviderState("codex", 2, 5, None, "429: slow down")
    ]
    assert provider_states(providers.folder / "never", NOON) == []


GOOD = {"limit": 2, "full": 5, "until": NOON + 60, "since": NOON, "reason": "r", "named": True, "pauses": 1}


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"[]", b"null", b"7", b"\xff\xfe", b"{}", b"[" * 200_000,
        json.dumps(GOOD | {"until": None}).encode(), json.dumps(GOOD | {"until": "soon"}).encode(),
        json.dumps(GOOD | {"until": float("nan")}).encode(), json.dumps(GOOD | {"limit": []}).encode(),
        json.dumps(GOOD | {"until": 1e300}).encode(),
        json.dumps(GOOD | {"limit": -1}).encode(), json.dumps(GOOD | {"full": float("inf")}).encode(),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_as_none_and_is_replaced(providers, clock, text):
    providers.folder.mkdir()
    path = providers.folder / "codex.json"
    path.write_bytes(json.dumps(GOOD).encode())
    assert providers.parked("codex") is not None  # or nothing below could fail
    path.write_bytes(text)
    for one in (providers, another(providers, clock)):
        assert (one.parked("codex"), one.limit("codex"), one.provider_states()) == (None, 5, [])
    parked = providers.park("codex", "429", None)
    assert another(providers, clock).parked("codex") == parked


def test_where_nothing_can_be_written_this_process_knows_all_the_same(tmp_path, clock):
    (tmp_path / "file").touch()
    providers = Providers(tmp_path / "file" / "providers", PoolLimits(), clock)
    parked = providers.park("codex", "429", None)
    assert (providers.parked("codex"), providers.limit("codex")) == (parked, 2)
    clock.now = parked.until
    providers.went_well("codex")
    assert providers.limit("codex") == 3


def test_a_fallback_is_chosen_only_where_the_wait_would_be_long(providers, clock):
    agents = ("codex", "claude", "gemini")
    assert providers.chosen(agents, 600) == "codex"
    providers.park("codex", "429", NOON + 600)
    assert providers.chosen(agents, 600) == "codex"
    assert providers.chosen(agents, 599) == "claude"
    providers.park("claude", "429", NOON + 900)
    assert providers.chosen(agents, 599) == "gemini"
    assert providers.chosen(agents[:2], 599) == "codex"
    clock.now += 600
    assert providers.chosen(agents, 0) == "codex"


def test_what_is_known_already_is_not_read_again(providers, clock):
    providers.park("codex", "429", NOON + 60)
    other = another(providers, clock)
    other.limit("codex")
    first = other._known("codex")
    assert other._known("codex") is first
    providers.park("codex", "429", NOON + 90)
    assert other.parked("codex").until == NOON + 90


RACE = """
import sys
from pathlib import Path
from orchestrator.schedule.rate_limits import Providers
from workers.pool.slots import PoolLimits

folder, how, times = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
providers = Providers(folder, PoolLimits(agents={"codex": 1000}), lambda: 100.0)
print("ready", flush=True)
sys.stdin.readline()
for number in range(times):
    if how == "well":
        providers.went_well("codex")
    else:
        providers.park("codex", "429", 200.0 + number)
"""


def raced(folder, how, times):
    """Have four processes do the same thing at once."""
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, folder, how, str(times)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    for racer in racers:
        racer.communicate(timeout=PATIENCE)
        assert racer.returncode == 0


def test_no_success_of_four_processes_is_lost_and_one_limit_counts_once(tmp_path):
    folder = tmp_path / "providers"
    raced(folder, "park", 50)
    now = [100.0]
    providers = Providers(folder, PoolLimits(agents={"codex": 1000}), lambda: now[0])
    assert providers.parked("codex").until == 249.0
    assert providers.limit("codex") == 500
    text = json.loads((folder / "codex.json").read_text())
    (folder / "codex.json").write_text(json.dumps(text | {"until": 0}))
    raced(folder, "well", 50)
    assert providers.limit("codex") == 700
    assert sorted(path.name for path in folder.iterdir()) == ["codex.json", "lock"]


def test_who_dies_while_it_writes_blocks_nobody(providers, clock):
    providers.folder.mkdir()
    (providers.folder / f"codex.{os.getpid()}").write_text("{")  # another's, of the same number, long dead
    text = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX); os._exit(9)"
    (providers.folder / "lock").touch()
    done = subprocess.run([sys.executable, "-c", text, providers.folder / "lock"], check=False)
    assert done.returncode == 9
    providers.park("codex", "429", NOON + 60)
    assert another(providers, clock).parked("codex").until == NOON + 60
    with (providers.folder / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_reading_how_they_stand_costs_no_heavy_import():
    text = (
        "import sys, orchestrator.schedule.rate_limits; "
        "print({'anyio', 'asyncio', 'pydantic'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
