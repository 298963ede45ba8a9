"""Files that appear whole or not at all, by either way there is."""

import errno
import os
import resource
import subprocess
import sys

import pytest
from support.paths import ROOT

from workers.shim import atomic as whole
from workers.shim.atomic import create_whole


@pytest.fixture(params=["nameless", "renamed"])
def way(request, monkeypatch):
    """Have files made by each way: without a name at first, or by a second name that goes."""
    if request.param == "renamed":
        monkeypatch.setattr(whole, "_NAMELESS", 0)


BOTH = pytest.mark.usefixtures("way")


@BOTH
def test_a_file_appears_with_its_content_and_its_mode_and_nothing_is_left_beside_it(tmp_path):
    path, data = tmp_path / "a b\n.json", bytes(range(256)) * 5000
    create_whole(str(path), data, 0o600)
    assert path.read_bytes() == data
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_nlink == 1
    assert [*tmp_path.iterdir()] == [path]


@BOTH
@pytest.mark.parametrize("what", ["file", "folder", "link to nothing"])
def test_what_stands_at_the_name_is_never_replaced(tmp_path, what):
    path = tmp_path / "there"
    {
        "file": lambda: path.write_text("mine"),
        "folder": path.mkdir,
        "link to nothing": lambda: path.symlink_to("nowhere"),
    }[what]()
    before = path.lstat()
    with pytest.raises(FileExistsError):
        create_whole(str(path), b"theirs")
    assert path.lstat() == before
    assert [*tmp_path.iterdir()] == [path]


@BOTH
def test_a_missing_folder_is_an_error_of_its_own(tmp_path):
    with pytest.raises(FileNotFoundError):
        create_whole(str(tmp_path / "no" / "x"), b"")


@BOTH
def test_a_file_that_cannot_be_written_whole_does_not_appear(tmp_path):
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, old[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            create_whole(str(tmp_path / "x"), b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert caught.value.errno == errno.EFBIG
    assert [*tmp_path.iterdir()] == []


def test_without_proc_a_file_is_made_the_other_way(tmp_path, monkeypatch):
    def refused(source, *_args, **_options):
        if source.startswith("/proc/"):
            raise FileNotFoundError(2, "there is no /proc", source)
        link(source, *_args, **_options)

    link = os.link
    monkeypatch.setattr(os, "link", refused)
    create_whole(str(tmp_path / "x"), b"whole")
    assert (tmp_path / "x").read_bytes() == b"whole"
    assert [*tmp_path.iterdir()] == [tmp_path / "x"]


def test_of_many_who_make_one_file_at_once_one_does_and_it_is_whole(tmp_path):
    code = (
        "import sys; from workers.shim.atomic import create_whole\n"
        "for n in range(200):\n"
        "    try: create_whole(f'{sys.argv[1]}/{n}', (sys.argv[2] * 1000).encode())\n"
        "    except FileExistsError: pass\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    for maker in [subprocess.Popen([*command, word], cwd=ROOT) for word in "abc"]:
        assert maker.wait() == 0
    texts = [path.read_text() for path in tmp_path.iterdir()]
    assert len(texts) == 200
    assert set(texts) <= {word * 1000 for word in "abc"}
