"""Journals: read in parts, since that of a long talk takes more memory than a command may."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.files import read
from workers.files.journal import Journal, JournalReader, read_journal


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.jsonl"


@settings(max_examples=40, deadline=None)
@given(
    st.binary(max_size=60) | st.lists(st.binary(max_size=9), max_size=9).map(b"\n".join), st.integers(1, 9)
)
def test_a_file_is_read_in_parts_of_whole_lines(tmp_path_factory, data, size):
    path = tmp_path_factory.mktemp("parts") / "file"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read, "_PART", size)
        parts = list(read.read_parts(path))
        assert b"".join(read.read_parts(path, 2, 5)) == data[2:5]
    assert b"".join(parts) == data
    assert all(part.endswith(b"\n") for part in parts[:-1])
    assert all(parts)


@pytest.mark.parametrize("size", [1, 7, 1 << 18])
def test_each_record_is_read_once_whatever_is_read_at_once(path, monkeypatch, size):
    monkeypatch.setattr(read, "_PART", size)
    journal, reader = Journal(path), JournalReader(path)
    journal.append({"event": "a"}, {"event": "b", "reason": "é" * 20})
    assert [record["event"] for record in reader.read()] == ["a", "b"]
    assert reader.read() == []
    before = reader.offset
    with path.open("ab") as file:
        file.write(b'no JSON\n[1]\n{"event": "c"}\n{"event"')
    assert reader.read() == [{"event": "c"}]
    assert reader.offset == path.stat().st_size - len(b'{"event"')
    assert JournalReader(path, before).read(until=reader.offset) == [{"event": "c"}]
    with path.open("ab") as file:
        file.write(b': "d"}')
    assert reader.read() == []
    assert [record["event"] for record in read_journal(path)] == ["a", "b", "c", "d"]


def test_records_that_are_appended_together_are_written_at_once(path, monkeypatch):
    journal, written = Journal(path), []
    monkeypatch.setattr("os.write", lambda _, data: written.append(data) or len(data))
    journal.append({"event": "a"}, {"event": "b"})
    assert [json.loads(line)["event"] for line in b"".join(written).splitlines()] == ["a", "b"]
    assert len(written) == 1
