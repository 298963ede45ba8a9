"""The conflict check before a landing: whether changes still fit the tree of the branch."""

from collections.abc import Sequence

from workers.worktree.change import ABSENT, Change


class BranchTree:
    """The tree of the branch as it is once the changes that were taken have landed."""

    def __init__(self, entries: dict[str, tuple[str, str]]) -> None:
        """Start from the entries of a tree: path to (mode, sha)."""
        self._entries = entries
        deepest = {path.rpartition("/")[0] for path in entries}
        self._folders = deepest.union(*map(_parents, deepest))
        """All folders, and some that are gone: a new file must not cost a search of the whole tree."""

    def clash(self, changes: Sequence[Change]) -> str | None:
        """Return a path that has neither the content that a change started from nor its new content."""
        removed = {change.path for change in changes if change.new_mode == ABSENT}
        for change in changes:
            absent = (ABSENT, "0" * len(change.old_sha))
            now = self._entries.get(change.path, absent)
            if now not in ((change.old_mode, change.old_sha), (change.new_mode, change.new_sha)):
                return change.path
            if change.new_mode == ABSENT or change.old_mode != ABSENT:
                continue
            # A new file where the branch has gained a folder, or below what it has made a file.
            in_the_way = any(path in self._entries for path in _parents(change.path) if path not in removed)
            if in_the_way or self._holds(change.path, removed):
                return change.path
        return None

    def has(self, changes: Sequence[Change]) -> bool:
        """Return whether all is on the branch already as the changes would make it."""
        return all(
            self._entries.get(change.path, (ABSENT, change.new_sha)) == (change.new_mode, change.new_sha)
            for change in changes
        )

    def take(self, changes: Sequence[Change]) -> None:
        """Apply changes that will land."""
        for change in changes:
            if change.new_mode == ABSENT:
                self._entries.pop(change.path, None)
            else:
                self._entries[change.path] = (change.new_mode, change.new_sha)
                self._folders.update(_parents(change.path))

    def _holds(self, folder: str, removed: set[str]) -> bool:
        return folder in self._folders and any(
            path.startswith(f"{folder}/") and path not in removed for path in self._entries
        )


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
