"""Every row of the table of shapes, both ways: secrets are replaced, what looks like one stays."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.secrets import KNOWN, LOOK_ALIKES, PLANTED, Planted, redactor

from tickets.redact import Redactor

NOTHING = Redactor()
KINDS = {
    "anthropic-key", "openai-key", "google-key", "github-token", "gitlab-token", "aws-key", "slack-token",
    "stripe-key", "registry-token", "jwt", "private-key", "url-password", "authorization", "named",
}  # fmt: skip


def test_there_is_a_secret_of_each_kind() -> None:
    assert {one.kind for one in PLANTED} == KINDS
    assert len(PLANTED) >= 40
    assert len(LOOK_ALIKES) >= 40


@pytest.mark.parametrize("planted", PLANTED, ids=lambda one: f"{one.kind}-{one.value[:10]!r}")
def test_a_value_alone_is_replaced_by_its_kind(planted: Planted) -> None:
    text, counts = NOTHING.text(planted.text)
    assert text == planted.text.replace(planted.value, f"[redacted:{planted.kind}]")
    assert counts == {planted.kind: 1}


@pytest.mark.parametrize("planted", PLANTED, ids=lambda one: f"{one.kind}-{one.value[:10]!r}")
def test_a_value_is_found_behind_escapes_and_beside_marks(planted: Planted) -> None:
    around = [
        ("a\n", "\nb"), ('"', '"'), ("`", "`"), ("(", ")"), ("“", "”"), ("\x1b[31m", "\x1b[0m"),
        ("\x1b[1;31m", ""), ("…", "…"), ("\t", "\r\n"), ("{", "}"), ("", ""),
    ]  # fmt: skip
    for before, after in around:
        said = f"{before}{planted.text}{after}"
        assert planted.value not in NOTHING.clean(said)
        for is_ascii in (True, False):
            once = json.dumps({"said": said}, ensure_ascii=is_ascii)
            twice = json.dumps([once], ensure_ascii=is_ascii)
            for escaped in (once, twice):
                cleaned, counts = NOTHING.text(escaped)
                assert counts == {planted.kind: 1}, escaped
                assert json.loads(cleaned)


@pytest.mark.parametrize("alike", LOOK_ALIKES, ids=lambda one: one[:30])
def test_what_only_looks_like_a_secret_stays(alike: str) -> None:
    for text in (alike, f"a {alike}\nb", json.dumps([alike]), f"({alike})"):
        assert redactor().text(text) == (text, {})


@pytest.mark.parametrize("planted", PLANTED, ids=lambda one: f"{one.kind}-{one.value[:10]!r}")
def test_each_can_be_allowed_by_its_digest(planted: Planted) -> None:
    (found,) = NOTHING.secrets(planted.text.encode())
    assert len(found.digest) == 16
    allowing = Redactor((), [f"sha256:{found.digest}"])
    assert allowing.text(planted.text) == (planted.text, {})


def test_a_second_pass_changes_nothing() -> None:
    text = "\n".join([*(one.text for one in PLANTED), *KNOWN.values(), *LOOK_ALIKES])
    once, counts = redactor().text(text)
    assert sum(counts.values()) == len(PLANTED) + len(KNOWN)
    assert redactor().text(once) == (once, {})


def test_a_key_without_an_end_goes_to_the_end_of_the_text() -> None:
    block = next(one for one in PLANTED if "\n" in one.value)
    cut = block.text[: block.text.index("-----END")]
    assert NOTHING.clean(cut) == "the key:\n[redacted:private-key]"


def test_no_text_takes_more_time_than_its_length_says() -> None:
    parts = (
        "sk-ant-", "eyJ", "eyJa.", "xoxb-", "A", "A_KEY=", "_", "-", "://", "://a:", "PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----", "hooks.slack.com/services/", "KEY: ", "Bearer ", "ghp_", "a: b\n",
        "aws_secret_access_key ", "ya29.", "9.", '": ', "SG.a", "x" * 30,
    )  # fmt: skip
    for part in parts:
        took = []
        for size in (100_000, 800_000):
            data = (part * (size // len(part))).encode()
            began = time.process_time()
            NOTHING.secrets(data)
            took.append(time.process_time() - began)
        assert took[1] < 40 * took[0] + 0.2, part


@given(st.text(), st.sampled_from(PLANTED), st.text())
def test_no_text_around_a_value_uncovers_it_or_breaks(before: str, planted: Planted, after: str) -> None:
    text = f"{before} {planted.text} {after}"
    assert planted.value not in NOTHING.clean(text)


@given(st.text(alphabet=st.characters()))
def test_any_text_without_a_secret_comes_back(text: str) -> None:
    cleaned, counts = NOTHING.text(text)
    assert bool(counts) == (cleaned != text)
