"""The file for a person: the answer, else the output, as a copy only where something in it is redacted."""

import pytest
from support.secrets import PLANTED

from tickets.redact import Redactor
from tickets.redact.redactor import SEARCHED
from workers.engine.launch import keep_text
from workers.files.run_dir import RunDir

TOKEN = next(one.value for one in PLANTED if one.kind == "github-token").encode()
MARK = b"[redacted:github-token]"


@pytest.fixture
def files(tmp_path):
    run = RunDir(tmp_path, "20260216_142834")
    run.path.mkdir(parents=True)
    return run.attempt("Codex-Worker-1", 1)


def test_an_output_without_secrets_gets_a_second_name(files):
    files.stdout.write_bytes(b"fine\n")
    assert keep_text(files, "", Redactor()) == {}
    assert files.text.samefile(files.stdout)


def test_an_output_with_a_secret_is_copied_without_it_and_stays_as_it_is(files):
    files.stdout.write_bytes(b"use %s\n" % TOKEN)
    assert keep_text(files, "", Redactor()) == {"github-token": 1}
    assert files.text.read_bytes() == b"use %s\n" % MARK
    assert files.stdout.read_bytes() == b"use %s\n" % TOKEN


def test_a_long_output_is_searched_at_both_ends(files):
    middle = b"line\n" * (SEARCHED // 5)
    said = b"a %s\n%sb %s\n%sc %s\n"
    files.stdout.write_bytes(said % (TOKEN, middle, TOKEN, middle, TOKEN))
    assert keep_text(files, "", Redactor()) == {"github-token": 2}
    assert files.text.read_bytes() == said % (MARK, middle, TOKEN, middle, MARK)


def test_no_output_gives_an_empty_file(files):
    assert keep_text(files, "", Redactor()) == {}
    assert files.text.read_bytes() == b""


def test_a_file_that_is_there_stays(files):
    files.stdout.write_bytes(b"use %s\n" % TOKEN)
    files.text.write_bytes(b"there")
    assert keep_text(files, "", Redactor()) == {"github-token": 1}
    assert files.text.read_bytes() == b"there"
    there = {path.name for path in files.text.parent.iterdir()}
    assert there == {"Codex-Worker-1.stdout", "Codex-Worker-1.txt"}
