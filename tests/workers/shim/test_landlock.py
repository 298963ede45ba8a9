"""Landlock by itself: what it holds, and what it does not, with a real process for each question."""

import os
import subprocess
import sys
from functools import partial

import pytest
from support.paths import ROOT

from workers.fence.places import system_reads
from workers.shim import landlock

pytestmark = pytest.mark.skipif(not landlock.version(), reason="the kernel has no Landlock")


READABLE = [*system_reads(()), str(ROOT)]


def held(folder, script, listed=()):
    """Run a shell script that may write below `folder/in`, and read `folder/out`; return what it printed."""
    readable = [*READABLE, str(folder / "out")]
    code = (
        f"import sys; sys.path.append({str(ROOT)!r}); import os; from workers.shim.landlock import restrict;"
        f"restrict([{str(folder / 'in')!r}], {readable!r}, {list(listed)!r});"
        f"os.execv('/bin/sh', ['sh', '-c', {script!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        cwd=folder, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path):
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "old").write_text("old\n")
    (tmp_path / "out" / "sub").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    "attempt",
    [
        "echo x > out/new", "echo x >> out/old", ": > out/old", "rm out/old", "mkdir out/new",
        "rmdir out/sub", "mv out/old in/", "mv in/old out/new", "ln in/old out/new", "ln -s x out/new",
        "mkfifo out/new",
        "ln -s ../out in/way; echo x > in/way/new",
    ],
)  # fmt: skip
def test_nothing_outside_is_made_changed_or_taken_away(folder, attempt):
    def outside():
        return {path.name: path.is_file() and path.read_text() for path in (folder / "out").iterdir()}

    before = outside()
    printed = held(folder, attempt)
    assert "denied" in printed or "cross-device" in printed, printed
    assert outside() == before


def test_what_is_not_listed_is_not_read(folder):
    (folder / "secret").write_text("sk-secret")
    assert "sk-secret" not in held(
        folder, "cat secret; cat in/../secret; ls; ln secret in/it; cat in/it; true"
    )


def test_a_folder_that_may_be_listed_shows_names_and_no_content(folder):
    (folder / "secret").write_text("sk-secret")
    printed = held(folder, "ls; cat secret; ls /root/..; echo x > new", [str(folder)])
    assert printed.splitlines()[:3] == ["in", "out", "secret"]
    assert "sk-secret" not in printed
    assert printed.count("Permission denied") == 3


def test_truncating_is_held_from_the_third_version_on(folder):
    if landlock.version() < 3:
        pytest.skip("truncate is not held before the third version")
    code = f"python3 -c \"import os; os.truncate('{folder}/out/old', 0)\""
    assert "Permission denied" in held(folder, code)
    assert (folder / "out" / "old").read_text() == "old\n"


def test_inside_everything_goes_on_as_usual(folder):
    script = "echo x > in/new && mkdir in/sub && mv in/new in/sub/ && rm in/old && cat out/old in/sub/new"
    assert held(folder, f"{script} && echo y > /dev/null") == "old\nx\n"


def test_what_it_does_not_hold_is_known(folder):
    """The docs say so; a kernel that learns it will fail this test."""
    held(folder, "chmod 600 out/old; touch -d 2001-01-01 out/old")
    found = (folder / "out" / "old").stat()
    assert found.st_mode & 0o777 == 0o600


def test_there_is_no_way_back(folder):
    code = "from workers.shim.landlock import restrict; restrict(['/'], [])"
    python = f"import sys; sys.path.append('{ROOT}'); {code}"
    script = f"{sys.executable} -I -S -c \"{python}; open('{folder}/out/new', 'w')\""
    assert "Permission denied" in held(folder, script)
    assert not (folder / "out" / "new").exists()


def test_a_single_file_can_be_let_through(folder, tmp_path):
    code = (
        f"import sys; sys.path.append({str(ROOT)!r}); from workers.shim.landlock import restrict\n"
        f"restrict([{str(folder / 'out' / 'old')!r}], {READABLE!r})\n"
        "open('out/old', 'a').write('more\\n')\n"
        "try: open('out/new', 'w')\n"
        "except PermissionError: print('held')\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, check=False)
    assert done.stdout == b"held\n", done.stderr
    assert (folder / "out" / "old").read_text() == "old\nmore\n"


def test_a_process_that_cannot_be_held_is_not_started(folder, monkeypatch):
    monkeypatch.setattr(landlock, "version", lambda: 0)
    ends = tuple(os.open("/dev/null", os.O_RDWR) for _ in range(3))
    hold = partial(landlock.restrict, [str(folder)], READABLE)
    try:
        with pytest.raises(OSError, match="Function not implemented"):
            landlock.start_held("/bin/sh", ["sh", "-c", f": > {folder}/out/new"], {}, ends, hold)
    finally:
        for descriptor in ends:
            os.close(descriptor)
    assert not (folder / "out" / "new").exists()
