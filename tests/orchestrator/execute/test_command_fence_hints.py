"""The message of a command that fails behind the fence names the fence only where it may be the cause."""

import pytest
from support.repository import shell

from workers.engine.check import fence_signs, full_disk, hidden_path
from workers.fence.probe import fence_in_force

ROOT = "/tmp/project"


def signs(command="make test", printed="", level="namespaces", network="open"):
    return fence_signs(level, ROOT, command, printed, network=network == "open")


@pytest.mark.parametrize(
    "printed",
    [
        "cat: /tmp/fixture: No such file or directory", "FileNotFoundError: '/tmp'",
        "no socket /var/run/docker.sock",
        "mkdir: /opt/x: Read-only file system", "OSError: [Errno 13] Permission denied: '/home/a/.cache'",
        "KeyError: 'API_KEY'", "sh: 1: API_KEY: unbound variable",
    ],
)  # fmt: skip
def test_what_smells_of_the_fence_is_told(printed):
    assert signs(printed=printed) == (
        "it ran fenced (an empty /tmp, no keys; only its tree and $TMPDIR are writable)"
    )


@pytest.mark.parametrize(
    "printed",
    [
        "", "AssertionError: 1 != 2", f"{ROOT}/.taskers/worktrees/x/test_a.py:3: AssertionError",
        "src/tmp/x.py is missing", "npm ERR! ./run failed", "KeyError: 'name'", "connection refused",
        "see /tmpfiles",
    ],
)  # fmt: skip
def test_a_plain_failure_is_not_laid_at_the_fences_door(printed):
    assert signs(printed=printed) == ""


def test_the_command_itself_may_name_what_is_not_there():
    assert signs(command="test -e /tmp/database")


def test_only_what_the_level_keeps_away_is_told():
    missing, unreached = "/tmp/x: No such file or directory", "curl: (6) Could not resolve host: pypi.org"
    assert signs(printed=missing, level="landlock") == ""
    assert "(no keys;" in signs(printed="Permission denied", level="landlock")
    assert signs(printed=f"{missing}: Permission denied", level="advisory") == ""
    assert signs(printed=unreached) == ""
    assert "(an empty /tmp, no network, no keys;" in signs(printed=unreached, network="none")


def test_a_gate_that_meets_the_fence_says_so_once_and_so_does_an_acceptance_command(mine):
    if fence_in_force("auto").level != "namespaces":
        pytest.skip("only namespaces hide /tmp")
    mine.settings('[integration]\ngate = ["test -e /tmp/database"]\n')
    mine.templates(
        command_1=shell("echo 1 > one", mode="write", owns=["one"]),
        command_2=shell("echo 2 > two", mode="write", owns=["two"], acceptance=["cat /tmp/fixture"]),
    )
    called = mine.call("run", "phase-1", "--json")
    assert called.code == 1, called
    told = "it ran fenced (an empty /tmp, no keys; only its tree and $TMPDIR are writable)"
    (problem,) = called.document["problems"]
    assert problem["do"].startswith(f"{told}; fix it, then: ")
    held, failed = called.document["workers"]
    assert told not in held["reason"]
    assert failed["reason"].endswith(f"; {told}")
    mine.settings('[integration]\ngate = ["test ! -e one || test -e /tmp/database"]\n')
    for _ in range(2):
        (problem,) = mine.call("integrate", "last", "--json").document["problems"]
        assert "broken by Command-Worker-1" in problem["what"]
        assert problem["do"].startswith(f"{told}; run it again: orchestrate run phase-1 --only ")


def test_a_path_that_the_fence_keeps_away_is_named_with_the_key_that_shows_it(tmp_path):
    home, root = tmp_path / "home", tmp_path / "home" / "project"
    scripts = tmp_path / "scripts"
    for there in (
        home / ".npmrc",
        root / ".env",
        root / ".taskers" / "x",
        scripts / "x",
        home / "tool" / "x",
    ):
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text("x")

    def named(printed, level="namespaces"):
        return hidden_path(level, root, str(home), [home / "tool"], printed)

    told = f"the fence keeps {home}/.npmrc from it; `[fence] read` in orchestrate.toml shows it"
    assert named(f"1\ncat: {home}/.npmrc: No such file or directory") == told
    assert named("Error: ENOENT, open '~/.npmrc'") == told
    assert named(f"open {home}/.npmrc: permission denied", "landlock") == told
    own = f"the fence keeps {root}/.env from it; `[worktree] copy` or `[fence] read` in orchestrate.toml"
    assert named(f"sh: {root}/.env: not found").startswith(own)
    said = f"python3: can't open file '{scripts}/x': [Errno 13] Permission denied"
    assert named(said, "landlock").startswith(f"the fence keeps {scripts}/x from it; `[fence] read`")
    for plain in (
        *(f"{home}/.npmrc is fine", f"{home}/other: No such file", f"{home}/tool/x: not found"),
        *(f"{root}/.taskers/x: not found", f"{root}: permission denied", "/bin/sh: not found"),
    ):
        assert named(plain) == ""
    assert named(f"{home}/.npmrc: not found", "advisory") == ""


@pytest.mark.parametrize("level", ["auto", "landlock"])
def test_a_worker_that_misses_a_file_of_the_home_is_told_how_to_see_it_and_then_does(mine, level):
    (mine.home / "models").mkdir()
    (mine.home / "models" / "one").write_text("weights")
    mine.settings(f'fence = "{level}"\n')
    mine.templates(command_1=shell('cat "$HOME/models/one"', acceptance=['cat "$HOME/models/one"']))
    called = mine.call("run", "phase-1", "--json")
    assert "workers" in called.document, called
    (failed,) = called.document["workers"]
    assert f"the fence keeps {mine.home}/models/one from it; `[fence] read`" in failed["reason"]
    mine.settings(f'[fence]\nlevel = "{level}"\nread = ["~/models"]\n')
    (done,) = mine.call("run", "phase-1", "--new", "--json").document["workers"]
    assert (done["outcome"], done["verdict"]) == ("complete", "accepted")


@pytest.mark.parametrize(
    ("printed", "is_full"),
    [
        ("cp: error writing 'x': No space left on device", True),
        ("OSError: [Errno 28] No space left on device: 'a'\nexit", True),
        ("Error: ENOSPC: no space left on device, write", True),
        ("Disk quota exceeded", True),
        ("no space left on the page", False),
        ("XENOSPC", False),
        ("", False),
    ],
)
def test_a_full_disk_is_known_by_what_was_printed(printed, is_full):
    assert bool(full_disk(printed)) == is_full


def test_a_worker_or_a_check_that_met_a_full_disk_is_told_as_such(mine):
    """Whoever reads `failed` must not look for a fault in the code."""
    full = "dd if=/dev/zero of=/dev/full count=1"
    mine.templates(command_1=shell(full), command_2=shell("true", acceptance=[full]))
    workers = mine.call("run", "phase-1", "--json").document["workers"]
    assert [one["outcome"] for one in workers] == ["failed", "failed"]
    for one in workers:
        assert "the disk is full: free some space, then run it again" in one["reason"], one
