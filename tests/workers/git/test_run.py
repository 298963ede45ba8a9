"""Git by subprocess: how one ends that we cannot wait for."""

import errno
import subprocess

import pytest
from support.runtimes import wait_until

from workers.git.run import git


def test_a_git_whose_call_fails_removes_its_lock_before_it_is_gone(lab, monkeypatch):
    lock, started = lab.root / ".git/index.lock", []

    def fails(process, *_):
        started.append(process)
        wait_until(lock.exists)
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(subprocess.Popen, "communicate", fails)
    with pytest.raises(OSError, match="no space"):
        git("update-index", "-z", "--stdin", cwd=lab.root, feed=b"STATUS.md\0")
    assert started[0].returncode is not None
    assert not lock.exists()
