"""What a project's texts are redacted by: `.env` files, the allow list, and settings that are broken."""

import pytest
from support.secrets import PLANTED

from orchestrator.redaction import advice, env_files, redactor_of, secret_problems
from tickets.redact import Redactor, Secret

TOKEN = next(one.value for one in PLANTED if one.kind == "github-token")


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ([], []), ([".env"], [".env"]), (["a/.env", "missing/.env"], ["a/.env", "missing/.env"]),
        (["*"], [".env", "x.env"]), (["**"], [".env", "a/.env", "a/.env.local", "a/b/c/d.env", "x.env"]),
        (["a/"], ["a/.env", "a/.env.local", "a/b/c/d.env"]), ([".env", "**/.env"], [".env", "a/.env"]),
        (["notes.txt"], []), (["[", ".env"], [".env"]),
    ],
)  # fmt: skip
def test_env_files_are_found_among_what_is_copied(tmp_path, patterns, names):
    for name in (".env", "x.env", "notes.txt", "a/.env", "a/.env.local", "a/b/c/d.env", "node_modules/.env"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("A_KEY=hunter22\n")
    found = [path.relative_to(tmp_path).as_posix() for path in env_files(tmp_path, patterns)]
    assert sorted(found) == sorted(names)


@pytest.mark.parametrize(
    "settings",
    ["", "copy = [", 'copy = ".env"\n', "worktree = 1\ncopy = 2\n", "[worktree]\ncopy = [1]\n", "\0allow"],
)
def test_settings_that_say_nothing_or_nonsense_leave_the_environment(tmp_path, settings):
    (tmp_path / "orchestrate.toml").write_text(settings)
    redactor = redactor_of(tmp_path, {"A_KEY": "hunter22"})
    assert redactor.clean(f"hunter22 {TOKEN}") == "[redacted:A_KEY] [redacted:github-token]"


def test_the_advice_of_a_warning_allows_that_value_alone(tmp_path):
    (problem,) = secret_problems("STATUS.md", f"one\nx {TOKEN}\n".encode(), Redactor())
    assert (problem.place, problem.severity) == ("STATUS.md:2", "warning")
    line = problem.do.rpartition(": ")[2]
    (tmp_path / "orchestrate.toml").write_text(f"[secrets]\n{line}\n")
    other = next(one.value for one in PLANTED if one.kind == "stripe-key")
    assert redactor_of(tmp_path, {}).clean(f"{TOKEN} {other}") == f"{TOKEN} [redacted:stripe-key]"


def test_a_known_value_is_to_be_changed_and_not_allowed():
    assert "allow" not in advice(Secret("A_KEY", 0, 8, ""))
