"""Known values: which variables count, and that their values are found in every spelling."""

import json
from pathlib import Path

import pytest
from support.secrets import KNOWN, redactor

from tickets.redact import Redactor, dotenv, known_values

NO_PATH = lambda _: False  # noqa: E731 - as short as the argument that it is


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_a_known_value_is_replaced_by_the_name_of_its_variable(name: str) -> None:
    value = KNOWN[name]
    for text in (f"a{value}b", json.dumps(f"<{value}>"), json.dumps(value, ensure_ascii=False)):
        cleaned, counts = redactor().text(text)
        assert f"[redacted:{name}]" in cleaned
        assert counts == {name: 1}
        assert value not in cleaned


@pytest.mark.parametrize(
    "name",
    [
        "KEY",
        "API_KEY",
        "github_token",
        "A_SECRET_B",
        "DB_PASS",
        "DB-PASSWORD",
        "CREDENTIAL",
        "X_DSN",
        "my.key",
    ],
)
def test_a_variable_counts_by_a_word_of_its_name(name: str) -> None:
    assert known_values({name: "kv8-hidden"}, NO_PATH) == ((name, "kv8-hidden"),)


@pytest.mark.parametrize(
    "name", ["KEYBOARD", "MONKEY", "TOKENS", "COMPASS", "PASSENGER", "SECRETARY", "PATH"]
)
def test_a_variable_whose_name_only_holds_the_letters_does_not(name: str) -> None:
    assert known_values({name: "kv8-hidden"}, NO_PATH) == ()


@pytest.mark.parametrize(
    "value",
    ["", "7 chars", "12345678", "1.5e300000", "aaaaaaaa", "password", "changeme", "dummy-key",
     "sk-test-not-real", "your-key-here", "placeholder", "AKIAEXAMPLE7", "a\0bcdefgh"],
)  # fmt: skip
def test_a_short_value_a_number_and_a_placeholder_do_not(value: str) -> None:
    assert known_values({"API_KEY": value}, NO_PATH) == ()


def test_a_path_that_exists_does_not(tmp_path: Path) -> None:
    assert known_values({"SSH_KEY": str(tmp_path)}) == ()
    assert known_values({"SSH_KEY": f"{tmp_path}/missing"}) == (("SSH_KEY", f"{tmp_path}/missing"),)


def test_the_longer_of_two_values_is_replaced() -> None:
    both = Redactor((("A_KEY", "hunter22"), ("B_KEY", "hunter22-long")))
    assert both.clean("hunter22-long hunter22") == "[redacted:B_KEY] [redacted:A_KEY]"


def test_a_known_value_comes_before_a_shape() -> None:
    token = "ghp_" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5"
    assert Redactor((("GH_TOKEN", token),)).text(f"x {token}") == ("x [redacted:GH_TOKEN]", {"GH_TOKEN": 1})


def test_a_value_that_is_a_part_of_a_mark_breaks_none() -> None:
    odd = Redactor((("A_KEY", "redacted:"), ("B_KEY", "github-token")))
    token = "ghp_" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5"
    assert odd.clean(odd.clean(f"x {token}")) == "x [redacted:github-token]"


def test_a_known_value_cannot_be_allowed() -> None:
    (found,) = redactor().secrets(KNOWN["ACME_API_KEY"].encode())
    assert found.digest == ""


def test_a_dotenv_file_is_read() -> None:
    text = (
        "# A_KEY=no\n\nA_KEY=plain # why\nexport B_KEY='single # quoted'\n C_KEY = \"double\"\nno line\nD=\n"
    )
    assert dotenv(text) == {"A_KEY": "plain", "B_KEY": "single # quoted", "C_KEY": "double", "D": ""}
