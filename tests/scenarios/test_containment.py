"""What a fenced worker and its checks cannot read, reach or change: keys, servers, the kernel's settings."""

import ctypes
import json
import os
import platform
import socket
import sys
from contextlib import contextmanager

import pytest
from support.repository import SCRIPT, shell, template

from workers.shim.landlock import version

pytestmark = [
    pytest.mark.hardening,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="both layers are Linux's own"),
]
LEVELS = pytest.mark.parametrize("level", ["namespaces", "landlock"])
WANTED = {"namespaces": "auto", "landlock": "landlock"}
PLANTED = (
    ".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".npmrc", ".docker/config.json",
    ".kube/config", ".codex/auth.json", ".claude/.credentials.json", ".gemini/oauth_creds.json",
    ".gnupg/secring", ".bash_history", ".config/gcloud/application_default_credentials.json",
    ".git-credentials",
    ".config/git/credentials", ".cargo/credentials.toml", ".local/share/keyrings/login.keyring",
)  # fmt: skip


def planted(lab):
    """Write a key into each place of a home where one is, and one into the checkout; return their texts."""
    keys = {path: f"sk-planted-{number}" for number, path in enumerate(PLANTED)}
    for path, key in keys.items():
        lab.write(lab.home / path, key)
    lab.write(lab.home / ".cargo/bin/tool", "#!/bin/sh\n")
    lab.write(".env", "sk-planted-env")
    (lab.root / ".git" / "info" / "exclude").write_text(".env\n")
    return [*keys.values(), "sk-planted-env"]


def hunt(lab):
    """Return shell lines that print whatever of it can be read, by all the ways that there are."""
    outside = lab.home, lab.root
    ways = ["{}", "/proc/self/root{}", "/proc/1/root{}", "/proc/self/cwd/../../../../../../../../../../..{}"]
    files = [*(f"{lab.home}/{path}" for path in PLANTED), f"{lab.root}/.env"]
    lines = [f"cat {way.format(path)}" for path in files for way in ways]
    lines += [
        f"ln -s {path} $TMPDIR/way; cat $TMPDIR/way/* $TMPDIR/way/.[a-z]*; rm $TMPDIR/way" for path in outside
    ]
    lines += [f"ln {lab.home}/.netrc $TMPDIR/hard && cat $TMPDIR/hard"]
    lines += [f"git config -f {lab.home}/.netrc -l", f"git -C {lab.root} grep --no-index sk-planted"]
    lines += [f"grep -rs sk-planted {path}" for path in outside]
    return "\n".join(f"( {line} ) 2>&1" for line in lines) + "\ntrue"


@LEVELS
def test_no_key_in_the_home_and_no_untracked_file_of_the_checkout_is_read(walled, level):
    keys = planted(walled)
    script = hunt(walled)
    walled.settings(f'fence = "{WANTED[level]}"\n[integration]\ngate = [{json.dumps(script)}]\n')
    walled.templates(
        command_1=shell(
            f"{script}\nmkdir out; echo 1 > out/1", mode="write", owns=["out/**"], acceptance=[script]
        )
    )
    path = f"{walled.home}/.cargo/bin:{os.environ['PATH']}"
    called = walled.call("run", "phase-1", "--json", env={"PATH": path})
    assert called.code == 0, called
    assert called.document["workers"][0]["fence"] == level
    outputs = [
        *walled.root.glob(".taskers/runs/2*/*.stdout"),
        *walled.root.glob(".taskers/runs/2*/checks/*.std*"),
    ]
    printed = "".join(path.read_text(errors="replace") for path in outputs)
    assert len(outputs) >= 3
    assert "No such file" in printed or "Permission denied" in printed
    assert [key for key in keys if key in printed] == []


PROBE = """
import os, sys
for path in sys.argv[1:]:
    try:
        with open(path, "r+b", buffering=0) as file:
            text = file.read()
            file.seek(0)
            file.write(text)
        print("wrote", path)
    except OSError as error:
        print(error.strerror)
"""


@LEVELS
def test_the_kernel_s_settings_are_closed_to_workers_and_checks_also_of_root(walled, level):
    """T61: uid 0 is all that these files ask for; by a worker, its acceptance commands and the gate."""
    settings = [
        f"/proc/sys/{name}" for name in ("vm/stat_interval", "kernel/core_pattern", "kernel/hostname")
    ]
    walled.commit({"probe.py": PROBE})
    tries = f"{walled.somebody.python} probe.py {' '.join(settings)} /proc/sysrq-trigger"
    check = f"! {tries} | grep wrote"
    walled.settings(f'fence = "{WANTED[level]}"\n[integration]\ngate = [{json.dumps(check)}]\n')
    walled.templates(
        command_1=shell(f"{tries}; echo x > new", mode="write", owns=["new"], acceptance=[check])
    )
    called = walled.call("run", "phase-1", "--json")
    assert (called.code, called.document["workers"][0]["verdict"]) == (0, "accepted"), called
    printed = next(walled.root.glob(".taskers/runs/2*/*.stdout")).read_text()
    assert "wrote" not in printed
    assert len(printed.splitlines()) == 4


@LEVELS
def test_a_fenced_worker_can_call_us_and_a_fake_agent_runs_there(mine, fakes, level):
    mine.settings(f'fence = "{WANTED[level]}"\n[agents.claude]\nexecutable = "{fakes / "claude"}"\n')
    mine.templates(
        command_1=shell(f"{SCRIPT} --version"), claude_1=template(agent="claude", command=None, retries=0)
    )
    called = mine.call("run", "phase-1", "--json")
    found = {one["ticket"]: (one["outcome"], one["fence"]) for one in called.document["workers"]}
    assert found == dict.fromkeys(("command-1", "claude-1"), ("complete", level)), called


@contextmanager
def served(lab, *names):
    """Serve on sockets of the user's for the block: below the home by path, or abstract."""
    servers = [socket.socket(socket.AF_UNIX) for _ in names]
    try:
        for server, name in zip(servers, names, strict=True):
            server.bind(name)
            server.listen()
        lab.somebody.owns(lab.home)
        yield
    finally:
        for server in servers:
            server.close()


def reach(lab, name):
    """Return a line of shell that prints `reached` if it can connect to a socket."""
    code = f"import socket; socket.socket(socket.AF_UNIX).connect({name})"
    return f'{lab.somebody.python} -c "{code}" 2>/dev/null && echo reached'


@pytest.mark.parametrize("network", ["open", "none"])
def test_a_server_of_the_user_s_cannot_be_asked_to_run_something(walled, network):
    """T62: as tmux and container engines do, on a socket outside of /tmp and /run, and on an abstract one."""
    settings = f'[agents.command]\nnetwork = "{network}"\n'
    walled.settings(settings)
    with served(walled, str(walled.home / ".server"), f"\0{walled.folder.name}"):
        tries = [reach(walled, f"'{walled.home}/.server'"), reach(walled, f"chr(0) + '{walled.folder.name}'")]
        if version() < 6 and network == "open":
            tries.pop()
        walled.templates(command_1=shell("\n".join([*tries, "echo done"])))
        (one,) = walled.run().values()
    assert (one["printed"], one["fence"]) == ("done\n", "namespaces")


def test_landlock_s_one_hole_is_the_socket_with_a_path_which_doctor_names(walled):
    """T62: with the second level."""
    walled.settings('fence = "landlock"\n')
    place = walled.home / ".ssh" / "agent.sock"
    place.parent.mkdir()
    with served(walled, str(place), f"\0{walled.folder.name}"):
        tries = [
            reach(walled, f"'{place}'"),
            "echo 1",
            reach(walled, f"chr(0) + '{walled.folder.name}'"),
            "echo 2",
        ]
        walled.templates(command_1=shell("\n".join(tries)))
        (one,) = walled.run().values()
        told = walled.call("doctor", "--json").says()
    expected = "reached\n1\n2\n" if version() >= 6 else "reached\n1\nreached\n2\n"
    assert one["printed"] == expected, (
        "a kernel that closes the first makes this test and the docs out of date"
    )
    assert any("Landlock" in line and str(place) in line for line in told), told


@LEVELS
def test_a_named_pipe_of_the_user_s_is_not_written(walled, level):
    """T63: below the home. Namespaces do not hold one in a folder that is shown, and the docs say so."""
    tool = walled.home / "tools" / "bin"
    tool.mkdir(parents=True)
    for place in (walled.home / "pipe", tool / "pipe"):
        os.mkfifo(place)
    walled.somebody.owns(walled.home)
    walled.settings(f'fence = "{WANTED[level]}"\n')
    code = "import os, sys; os.write(os.open(sys.argv[1], os.O_RDWR), b'x'); print('wrote')"
    tries = [
        f'{walled.somebody.python} -c "{code}" {place}/pipe 2>/dev/null' for place in (walled.home, tool)
    ]
    walled.templates(command_1=shell("\n".join([*tries, "echo done"])))
    called = walled.call("run", "phase-1", "--json", env={"PATH": f"{tool}:{os.environ['PATH']}"})
    assert called.code == 0, called
    assert next(walled.root.glob(".taskers/runs/2*/*.stdout")).read_text() == (
        "wrote\ndone\n" if level == "namespaces" else "done\n"
    )


KEYCTL = {"x86_64": 250, "aarch64": 219}.get(platform.machine(), 0)


@LEVELS
def test_the_keyring_of_the_user_is_closed(walled, level):
    if not KEYCTL or ctypes.CDLL(None).syscall(KEYCTL, 0, -4, 1) < 0:
        pytest.skip("this system has no keyrings for us")
    walled.settings(f'fence = "{WANTED[level]}"\n')
    code = f"import ctypes; print(ctypes.CDLL(None, use_errno=True).syscall({KEYCTL}, 0, -4, 1))"
    walled.templates(command_1=shell(f'{walled.somebody.python} -c "{code}"'))
    (one,) = walled.run().values()
    assert one["printed"] == "-1\n"


@LEVELS
@pytest.mark.parametrize("moved", [".taskers", ".git", ".git/orchestrate"])
def test_a_link_out_of_the_repository_is_where_the_walls_are_put_up(mine, level, moved):
    """T49: as on a second disk."""
    elsewhere = mine.folder / "disk" / moved.replace("/", "-")
    elsewhere.parent.mkdir()
    place = mine.root / moved
    if place.exists():
        place.rename(elsewhere)
    else:
        elsewhere.mkdir()
    place.symlink_to(elsewhere)
    escapes = ['echo x > "$ORCHESTRATE_PROJECT/.git/hooks/pre-commit"', 'echo x > "$ORCHESTRATE_PROJECT/new"',
               'ls "$ORCHESTRATE_PROJECT/.taskers/runs/$ORCHESTRATE_RUN/run.json" >/dev/null']  # fmt: skip
    mine.settings(
        f'fence = "{WANTED[level]}"\n[integration]\ngate = ["git status --short && test -e src/new"]\n'
    )
    script = "\n".join(
        [
            *(f"{one} 2>/dev/null && echo escaped" for one in escapes),
            "git log -1 >/dev/null",
            "echo x > src/new",
        ]
    )
    mine.templates(
        command_1=shell(script, mode="write", owns=["src/**"], acceptance=["git diff --stat HEAD~0"])
    )
    called = mine.call("run", "phase-1", "--json")
    assert (called.code, called.document["workers"][0]["verdict"]) == (0, "accepted"), called
    printed = next(mine.root.glob(".taskers/runs/2*/*.stdout")).read_text()
    seen = "escaped\n" if level == "landlock" else ""  # it hides no name
    assert printed == seen
    assert (mine.root / "src" / "new").read_text() == "x\n"
    assert not (mine.root / "new").exists()


def test_a_variable_that_names_a_socket_reaches_only_who_is_given_it(mine):
    given = {"SSH_AUTH_SOCK": str(mine.home / ".agent"), "DISPLAY": ":7", "TMUX": "/x,1,0", "DOCKER_HOST": "unix:///x",
             "DBUS_SESSION_BUS_ADDRESS": "unix:path=/x", "WAYLAND_DISPLAY": "wayland-0", "XAUTHORITY": "/x",
             "GPG_AGENT_INFO": "/x:1:1"}  # fmt: skip
    named = f"env | grep -E '^({'|'.join(given)})=' | cut -d= -f1"
    look = f"{named}; {reach(mine, repr(given['SSH_AUTH_SOCK']))}; true"
    mine.templates(command_1=shell(look))
    with served(mine, given["SSH_AUTH_SOCK"]):
        for settings, printed in (
            ("", ""),
            ('[agents.command]\nenv = ["SSH_AUTH_SOCK"]\n', "SSH_AUTH_SOCK\nreached\n"),
        ):
            mine.settings(settings)
            called = mine.call("run", "phase-1", "--new", "--again", "--json", env=given)
            assert called.code == 0, called
            output = mine.root / called.document["workers"][0]["output"]
            assert output.with_suffix(".stdout").read_text() == printed
