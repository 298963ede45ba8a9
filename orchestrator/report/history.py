"""Events of a repository since a moment: commits, tests, documentation, and the earlier STATUS.md."""

import os
import re
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.state import is_owned
from orchestrator.state.canonical.status.read import PATH, Status, read
from tickets.problems import ProblemError
from tickets.value import Value
from workers.files.run_dir import runs_of
from workers.git.run import git, git_line

REPORT = "status-report"
HISTORY = "docs/history"
_STAMP = r"(?:status-report|handoff)-(\d{8})(?:_(\d{6}))?[^/]*\.md"
# Compiled for the first path: often nothing was committed.
_TEST = r"(?:^|/)tests?/|(?:^|/)test_[^/]+$|[._-](?:test|spec)\.[^/]+$"
_DOCUMENT = r"^docs/|\.(?:md|rst|adoc)$"
_OURS = r"^docs/(?:history|decisions|worker-ticket-templates)/"


class Happened(Value):
    """The history as git has it."""

    commits: tuple[tuple[str, str], ...]
    """(short sha, subject), the newest first."""
    tests: tuple[str, ...]
    """Added files of tests."""
    documents: tuple[str, ...]


def last_report(root: Path) -> datetime | None:
    """Return the time of the newest report or handoff."""
    names = [name for run in runs_of(root) for name in _names(run.path) if name.startswith(f"{REPORT}-")]
    names += [name for name in _names(root / HISTORY) if name.startswith("handoff-")]
    found = [match for name in names if (match := re.fullmatch(_STAMP, name))]
    times = (datetime.fromisoformat(f"{match[1]}T{match[2] or '000000'}") for match in found)
    return max((time.replace(tzinfo=UTC) for time in times), default=None)


def happened_since(root: Path, since: datetime | None, families: Collection[str]) -> Happened:
    """Read the history of HEAD since a moment, or all of it."""
    after = [f"--since={since.isoformat()}"] if since else []
    said = git(
        "log", "--no-show-signature", *after, "-z", "--name-status", "--no-renames", "--format=%x01%h%x00%s",
        "HEAD", cwd=root, check=False,
    )  # fmt: skip
    commits, tests, documents = [], [], []
    for entry in os.fsdecode(said).split("\x01")[1:]:
        sha, subject, *rest = entry.split("\0")
        commits.append((sha, subject))
        fields = [field.lstrip("\n") for field in rest if field.strip()]
        for kind, path in zip(fields[::2], fields[1::2], strict=False):
            if re.search(_TEST, path):
                tests += [path] if kind == "A" else []
            elif re.search(_DOCUMENT, path) and not is_owned(path, families) and not re.search(_OURS, path):
                documents.append(path)
    return Happened(tuple(commits), tuple(dict.fromkeys(tests)), tuple(dict.fromkeys(documents)))


def status_before(root: Path, since: datetime | None) -> Status | None:
    """Return STATUS.md as it was committed at a moment; None where it was not, or cannot be read."""
    if since is None:
        return None
    commit = git_line("rev-list", "-1", f"--before={since.isoformat()}", "HEAD", cwd=root, check=False)
    text = git("show", f"{commit}:{PATH}", cwd=root, check=False) if commit else b""
    try:
        return read(text) if text else None
    except ProblemError:
        return None


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return []
