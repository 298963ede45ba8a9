"""Anything else in the place of a file: reported at once, with its kind."""

import os
import pty
import socket
from pathlib import Path

import pytest

from workers.agents.follow import Follower, last_said, read_tail
from workers.files.exit_record import parsed_exit, read_exit
from workers.files.journal import JournalReader, read_journal
from workers.files.read import MOST, NotRegularError, open_regular, read_start, read_whole
from workers.files.run_dir import LARGEST, read_json


def pipe(path):
    os.mkfifo(path)


def folder(path):
    path.mkdir()


def device(path):
    path.symlink_to("/dev/zero")


def unix_socket(path):
    here = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        # By a short way to it: a socket's name has no room for a long path.
        made.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


def huge(path):
    path.touch()
    os.truncate(path, 3 * 10**9)


KINDS = {
    "pipe": (pipe, "it is a pipe, and no regular file"),
    "folder": (folder, "it is a folder, and no regular file"),
    "device": (device, "it is a device, and no regular file"),
    "socket": (unix_socket, "it is a socket, and no regular file"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_in_the_place_of_a_file_is_named_and_nobody_waits_for_it(tmp_path, kind):
    make, said = KINDS[kind]
    path = tmp_path / "odd"
    make(path)
    for read in (
        read_whole,
        lambda it: list(read_journal(it)),
        lambda it: read_start(it, 9),
        lambda it: JournalReader(it).read(),
    ):
        with pytest.raises(NotRegularError) as caught:
            read(path)
        assert (caught.value.strerror, caught.value.filename) == (said, str(path))
    assert open_regular(path) is None
    assert read_json(path) is None
    assert read_exit(path) is None
    assert read_tail(path) == ""
    assert last_said("codex", path) == ""
    assert Follower("gemini", path, path).read_more() == []


def test_a_terminal_in_the_place_of_a_file_does_not_have_us_wait_for_a_key(tmp_path):
    ours, theirs = pty.openpty()
    try:
        (tmp_path / "odd").symlink_to(os.ttyname(theirs))
        with pytest.raises(NotRegularError, match="a device"):
            read_whole(tmp_path / "odd")
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_file_that_no_memory_could_hold_is_not_read(tmp_path):
    huge(tmp_path / "huge")
    with pytest.raises(NotRegularError, match=f"3,000,000,000 bytes, and {MOST:,} are read"):
        read_whole(tmp_path / "huge")
    with pytest.raises(NotRegularError, match="3,000,000,000"):
        JournalReader(tmp_path / "huge").read()
    assert read_json(tmp_path / "huge") is None
    assert read_start(tmp_path / "huge", 9) == bytes(9)
    os.truncate(tmp_path / "huge", LARGEST + 1)
    assert read_json(tmp_path / "huge") is None


def test_as_many_bytes_as_are_allowed_are_read(tmp_path):
    (tmp_path / "file").write_bytes(b"0123456789")
    assert read_whole(tmp_path / "file", 10) == b"0123456789"
    with pytest.raises(NotRegularError, match="10 bytes, and 9 are"):
        read_whole(tmp_path / "file", 9)


def test_a_file_that_says_no_size_is_read_to_its_end(tmp_path):
    # As those of the kernel are: what `stat` says of them is 0.
    assert read_whole(tmp_path.__class__("/proc/self/status")).startswith(b"Name:")
    with pytest.raises(NotRegularError):
        read_whole(tmp_path.__class__("/proc/self/status"), 16)


def test_links_that_lead_round_in_a_circle_are_an_error_of_the_system(tmp_path):
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(OSError, match="symbolic links"):
        read_whole(tmp_path / "circle")


def test_a_record_that_is_nested_without_end_is_passed_over(tmp_path):
    deep = b"[" * 100_000 + b"]" * 100_000
    (tmp_path / "events.jsonl").write_bytes(deep + b'\n{"event": "opened"}\n' + b'{"a":' * 100_000 + b"\n")
    assert list(read_journal(tmp_path / "events.jsonl")) == [{"event": "opened"}]
    assert parsed_exit(deep) is None


@pytest.mark.parametrize(
    "text",
    [
        b"", b"null", b"[]", b'"x"', b"{}", b'{"end": "gone"}', b'{"end": ["exited"]}',
        b'{"end": "exited", "exit_code": "0"}', b'{"end": "exited", "exit_code": true}',
        b'{"end": "exited", "seconds": "12"}', b'{"end": "exited", "seconds": NaN}',
        b'{"end": "exited", "seconds": 1e999}', b'{"end": "exited", "error": 5}',
        b'{"end": "exited", "cut": 1}', b'{"end": "exited", "survivors": null}',
    ],
)  # fmt: skip
def test_an_exit_record_with_a_value_of_another_kind_is_none(text):
    assert parsed_exit(text) is None


def test_an_exit_record_keeps_what_a_shim_wrote_and_passes_over_what_it_does_not_know():
    found = parsed_exit(b'{"schema": 9, "end": "exited", "exit_code": 0, "cut": ["stdout"], "new": {}}')
    assert (found.end, found.exit_code, found.cut, found.worker) == ("exited", 0, ("stdout",), "")


@pytest.mark.skipif(
    not Path("/proc/self/smaps").exists(), reason="a file that is read in short pieces is Linux's"
)
def test_a_short_read_is_not_the_end_of_a_file():
    # The kernel gives a page or so at a time.
    for read in (read_whole, lambda path: read_start(path, 1 << 24)):
        assert len(read(Path("/proc/self/smaps"))) > 16_384


def test_a_stream_that_is_a_link_in_a_circle_is_an_error_and_not_an_empty_one(tmp_path):
    (tmp_path / "odd").symlink_to(tmp_path / "odd")
    with pytest.raises(OSError, match="symbolic links"):
        Follower("command", tmp_path / "odd").answer(exit_code=0, stderr=tmp_path / "none")
