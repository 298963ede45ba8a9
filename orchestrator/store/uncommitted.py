"""What runs have written to state files without a commit: the next commit of state takes it along.

The note says of each file what it was before, and what it is since: with another text it is a person's.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from orchestrator.store.intent import decided, digest
from tickets.value import Value
from workers.files.durable import write_over
from workers.files.run_dir import read_json
from workers.git.run import Repository


class LeftByRuns(Value):
    """The digests of a file before runs have written to it, and after."""

    before: str
    after: str


def written_by_runs(repository: Repository) -> dict[str, LeftByRuns]:
    """Read the note: files by path; nothing where there is none, or it is torn."""
    found = read_json(_note(repository)) or {}
    return {
        path: LeftByRuns(*pair)
        for path, pair in found.items()
        if isinstance(pair, list) and len(pair) == 2 and all(isinstance(one, str) for one in pair)
    }


def note_written(
    repository: Repository, before: Mapping[str, bytes | None], after: Mapping[str, bytes | None]
) -> None:
    """Note what a run is about to write."""
    known = written_by_runs(repository)
    for path, text in after.items():
        old, earlier = digest(before[path]), known.get(path)
        # What a person has written between two runs is a person's.
        first = earlier.before if earlier and earlier.after == old else old
        known[path] = LeftByRuns(first, digest(text))
    _write(repository, known)


def forget_written(repository: Repository, paths: Iterable[str]) -> None:
    """Forget files that are committed."""
    known = written_by_runs(repository)
    if left := known.keys() & set(paths):
        _write(repository, {path: one for path, one in known.items() if path not in left})


def _write(repository: Repository, known: Mapping[str, LeftByRuns]) -> None:
    if known:
        write_over(_note(repository), json.dumps(known).encode(), synced=False)
    else:
        _note(repository).unlink(missing_ok=True)


def _note(repository: Repository) -> Path:
    return decided(repository, "written")
