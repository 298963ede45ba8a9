"""Whether checkpoints can be written where they belong."""

import os
from pathlib import Path

from orchestrator.state.checkpoints.names import FOLDER
from tickets.problems import Problem


def place_in_the_way(root: Path) -> list[Problem]:
    """Return what keeps checkpoints from being written: a file, or a link that leads out, in their place."""
    folder = root / FOLDER
    for one in (folder.parent, folder):
        is_folder = not os.path.lexists(one) or one.is_dir()
        if not (is_folder and one.resolve().is_relative_to(root.resolve())):
            what = "a file, or a link that leads out of the repository, is in the way of checkpoints"
            return [Problem(FOLDER, what, "make it a folder", "warning")]
    return []
