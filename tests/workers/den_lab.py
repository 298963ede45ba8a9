"""A worker behind a fence: in a folder with an inside and an outside, at each level there is."""

import os
from pathlib import Path

import pytest
from workers.process import Launch, Limits, open_nursery
from workers.walls import Walls

from workers.fence import enclosed, fence_in_force

LEVELS = ("namespaces", "landlock")
WANTED = {"namespaces": "auto", "landlock": "landlock"}
HOLDS = pytest.mark.parametrize("level", LEVELS)


@pytest.fixture
def anyio_backend():
    """Have each test run on asyncio, as we do."""
    return "asyncio"


def fence_of(level):
    """Give a fence of that level; where this machine has none, nothing here is tested, and it says so."""
    found = fence_in_force(WANTED[level])
    assert found.level == level, found.reason
    return found


class Den:
    """A folder with an inside and an outside, and a worker in it."""

    def __init__(self, folder):
        self.folder = folder
        self.inside, self.outside, self.files = (folder / name for name in ("inside", "outside", "files"))
        for made in (self.inside, self.outside, self.files):
            made.mkdir()

    def launch(self, fence, *argv, hidden=(), locked=(), network=True, **changes):
        """Say how a worker is to be started behind a fence."""
        plain = Launch(
            worker="Command-Worker-1",
            argv=argv,
            env={"PATH": os.environ["PATH"]},
            cwd=self.inside,
            stdin=Path("/dev/null"),
            stdout=self.files / "out",
            stderr=self.files / "err",
            started_record=self.files / "started.json",
            exit_record=self.files / "exit.json",
            cancel_paths=(self.inside / "cancel",),
            limits=Limits(total=20, grace=5, output_cap=1_000_000),
        )._replace(**changes)
        walls = Walls((self.inside,), locked, (self.folder,), hidden, network=network)
        return enclosed(plain, fence, walls)

    async def run(self, *arguments, **options):
        """Run a worker to its end; give that with what it printed."""
        async with open_nursery(self.folder / "log") as nursery:
            found = await nursery.run(self.launch(*arguments, **options))
        assert (self.folder / "log").read_text() == ""
        return found, (self.files / "out").read_text()


@pytest.fixture
def den(tmp_path):
    """Give a folder with an inside and an outside."""
    return Den(tmp_path)
