"""One path that differs between two trees, as a value without access to a tree."""

from typing import NamedTuple

ABSENT = "000000"
"""The mode of a path that is not there."""
GITLINK = "160000"
"""The mode of a submodule."""
WHO = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "orchestrate"), ("EMAIL", "orchestrate@localhost"))
}
"""The author and committer of a commit whose user is not known."""


class Change(NamedTuple):
    """One path that differs between two trees."""

    path: str
    old_mode: str
    old_sha: str
    new_mode: str
    new_sha: str
