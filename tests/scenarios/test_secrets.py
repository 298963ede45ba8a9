"""Secrets that workers print, name and write: in no file but the exact ones, and on no screen."""

import base64
import json

import pytest
from support.repository import shell
from support.secrets import KNOWN, LOOK_ALIKES, PLANTED

EXACT = (".stdout", ".stderr", ".patch")
VALUES = [*(one.value.split("\n")[1] if "\n" in one.value else one.value for one in PLANTED), *KNOWN.values()]
"""What must not be seen; of a key in a block its first line."""
TOKEN = next(one.value for one in PLANTED if one.kind == "github-token")
MESSAGE = f"May I use {TOKEN}?\n"
SHOWN = "\n".join([*(one.text for one in PLANTED), *KNOWN.values()])


def spoken(text):
    """Return a shell command that prints a text which stands nowhere as it is."""
    return f"echo {base64.b64encode(text.encode()).decode()} | base64 -d"


def seen_in(text):
    """Return the planted values that a text holds, as they are or as JSON escapes them."""
    return [one for one in VALUES if one in text or json.dumps(one)[1:-1] in text]


def leaks(lab):
    """Return the files that hold a planted value and are not meant to."""
    found = {}
    for path in lab.root.rglob("*"):
        name = path.relative_to(lab.root).as_posix()
        is_users = name.startswith(("docs/worker-ticket-templates/", "src/", ".git/objects/"))
        is_users = is_users or name.startswith(".taskers/messages/") or name.endswith("/messages.jsonl")
        if path.is_file() and not path.is_symlink() and not is_users and path.suffix not in EXACT:
            values = seen_in(path.read_bytes().decode("utf-8", "replace"))
            # The names of files that are there are in git's own index, and in our copies of it.
            if values and path.read_bytes()[:4] != b"DIRC":
                found[name] = values
    return found


def test_a_run_keeps_no_secret_in_a_file_and_shows_none(lab):
    result = "ORCHESTRATE-RESULT " + json.dumps(
        {"status": "blocked", "summary": f"needs {TOKEN} and {SHOWN}"}
    )
    lab.templates(
        command_1=shell(f"{spoken(SHOWN)}; {spoken(SHOWN)} >&2", title=f"Use {TOKEN} here"),
        command_2=shell(spoken(result)),
        command_3=shell(
            f"f=$({spoken(TOKEN)}); {spoken(SHOWN)} > src/$f.txt", mode="write", owns=["src/**"]
        ),
        command_4=shell(
            "echo x > docs/x.md", mode="write", owns=["docs/x.md"],
            acceptance=[f"{spoken(SHOWN)}; {spoken(SHOWN)} >&2; {spoken('last ' + TOKEN)}; false"],
        ),
        command_6=shell(f'"$ORCHESTRATE_CLI" worker send --to lead --type question "$({spoken(MESSAGE)})"'),
        command_5=shell(f"{spoken('a ' + TOKEN[:9])}; sleep 0.3; {spoken(TOKEN[9:])}; echo; exit 3"),
    )  # fmt: skip
    screens = [lab.call("run", "phase-1", env={**KNOWN, "COLUMNS": "100"})]
    run = next((lab.root / ".taskers/runs").iterdir())
    record = json.loads((run / "Command-Worker-1.json").read_text())
    assert "redacted" in record["flags"]
    assert record["redacted"]["github-token"] == sum(one.kind == "github-token" for one in PLANTED)
    assert set(record["redacted"]) == {*(one.kind for one in PLANTED), *KNOWN}
    text = (run / "Command-Worker-1.txt").read_text()
    assert "[redacted:ACME_API_KEY]" in text
    assert (run / "Command-Worker-1.stdout").read_text() == SHOWN
    assert "redacted" in json.loads((run / "Command-Worker-2.json").read_text())["flags"]
    assert "\na [redacted:github-token]\n" in "\n" + (run / "Command-Worker-5.txt").read_text()
    assert (lab.root / f"src/{TOKEN}.txt").read_text() == SHOWN
    checked = json.loads((run / "Command-Worker-4.json").read_text())
    assert checked["outcome"] == "failed"
    assert checked["reason"].startswith("acceptance failed: `echo")
    calls = [
        ("status",), ("status", "--json"), ("report",), ("wait", "last", "--json"), ("watch", "last"),
        ("ps",), ("validate",), ("msg", "inbox"), ("msg", "inbox", "--json"), ("msg", "log"),
        ("msg", "log", "--json"), ("todo", "add", f"use {TOKEN} and {SHOWN}"), ("todo", "list"), ("handoff",),
        ("decide", "Use it", "--context", SHOWN, "--decision", f"{TOKEN}, for now"),
        ("integrate", "last", "--json"),
        *(
            ("logs", "last", f"command-{number}", *more)
            for number in range(1, 6)
            for more in ((), ("--json",), ("--stderr",))
        ),
    ]  # fmt: skip
    screens += [lab.call(*words, env=KNOWN) for words in calls]
    assert any("May I use [redacted:github-token]?" in screen.out for screen in screens)
    for screen in screens:
        assert seen_in(screen.out + screen.err) == []
    assert leaks(lab) == {}
    assert seen_in(lab.git("log", "--all", "--format=%B")) == []
    messages = run / "messages.jsonl"
    assert TOKEN in messages.read_text()
    for path in (*run.rglob("*"), *(lab.root / ".taskers/messages").glob("*[0-9].jsonl")):
        if path.suffix in EXACT or path == messages or path.parent.name == "messages":
            assert path.stat().st_mode & 0o777 == 0o600, path
    raw = lab.call("logs", "last", "command-1", "--raw", env=KNOWN)
    assert raw.out == SHOWN


def test_a_landing_with_a_secret_is_warned_of_and_lands(lab):
    lab.templates(
        command_1=shell(
            f"{{ echo one; {spoken('x = ' + TOKEN)}; echo; }} >> src/app.py", mode="write", owns=["src/**"]
        )
    )
    ran = lab.call("run", "phase-1", "--json").document
    assert ran["workers"][0]["verdict"] == "accepted"
    (warning,) = (one for one in ran["problems"] if one["place"].startswith("src/"))
    assert (warning["place"], warning["severity"]) == ("src/app.py:3", "warning")
    assert "github-token" in warning["what"]
    assert TOKEN in (lab.root / "src/app.py").read_text()
    allow = warning["do"].rpartition(": ")[2]
    lab.commit({"orchestrate.toml": f"[secrets]\n{allow}\n"})
    assert lab.call("validate").code == 0
    lab.templates(command_1=shell(f"{spoken('y = ' + TOKEN)} >> src/app.py", mode="write", owns=["src/**"]))
    again = lab.call("run", "phase-1", "--json").document
    assert again["workers"][0]["verdict"] == "accepted"
    assert [one for one in again["problems"] if "secret" in one["what"]] == []


def test_what_only_looks_like_a_secret_stays_everywhere(lab):
    text = "\n".join(one for one in LOOK_ALIKES if "\n" not in one)
    lab.templates(command_1=shell(spoken(text + "\n")))
    assert lab.call("run", "phase-1", env=KNOWN).code == 0
    run = next((lab.root / ".taskers/runs").iterdir())
    assert (run / "Command-Worker-1.txt").samefile(run / "Command-Worker-1.stdout")
    assert "redacted" not in json.loads((run / "Command-Worker-1.json").read_text())["flags"]
    shown = lab.call("logs", "last", "command-1", env=KNOWN).out
    assert "[redacted:" not in shown
    assert LOOK_ALIKES[0] in shown


def test_validate_names_the_secrets_that_stand_in_state_files(lab):
    text = (lab.root / "DECISIONS.md").read_text()
    lab.commit({"DECISIONS.md": f"{text}\n{TOKEN}\n"})
    (found,) = (one for one in lab.call("validate", "--json").document["problems"] if "secret" in one["what"])
    assert found["place"] == f"DECISIONS.md:{len(text.splitlines()) + 2}"
    assert found["severity"] == "warning"
    assert "sha256:" in found["do"]
    assert TOKEN in (lab.root / "DECISIONS.md").read_text()


@pytest.mark.parametrize("pattern", [".env", "**/*.env", "config/"])
def test_the_values_of_a_copied_env_file_are_known(lab, pattern):
    lab.commit(
        {".gitignore": ".env\n*.env\n.taskers/\n", "orchestrate.toml": f'[worktree]\ncopy = ["{pattern}"]\n'}
    )
    lab.write(".env", "A_KEY=hunter22-a\n")
    lab.write("config/b.env", "export B_TOKEN='hunter22-b'\n")
    said = lab.call("todo", "add", "hunter22-a hunter22-b").out
    assert ("[redacted:A_KEY]" in said) == (pattern != "config/")
    assert ("[redacted:B_TOKEN]" in said) == (pattern != ".env")


def test_a_wrong_digest_is_refused_by_its_line(lab):
    lab.commit({"orchestrate.toml": '[secrets]\nallow = ["9f86d081"]\n'})
    said = lab.call("validate", "--json").says()
    assert any("orchestrate.toml:2" in line and "sha256:" in line for line in said)
