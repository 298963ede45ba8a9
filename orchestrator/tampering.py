"""Whether somebody changed the user's repository while workers ran that nothing kept from it."""

import contextlib
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tickets.problems import Problem
from tickets.scope import Scope
from workers.git import Repository
from workers.integrity import Difference, Lens, as_text, compare, from_text, own_moves
from workers.output import create_file


class Tampering(NamedTuple):
    """What was found changed, and the workers that ran unfenced meanwhile."""

    paths: tuple[str, ...]
    candidates: tuple[str, ...]
    is_harm: bool

    def as_problem(self) -> Problem:
        """Say it to the lead: harm is an error, the everyday kind a warning."""
        shown = ", ".join(self.paths[:5]) + (
            f" and {len(self.paths) - 5} more" if len(self.paths) > 5 else ""
        )
        who = ", ".join(self.candidates)
        what = f"unattributed: {shown} changed while {who} ran"
        if self.is_harm:
            do = "look at it before you run git again, and undo what is not yours"
            return Problem("repository", what, do)
        return Problem("repository", what, "look at it unless it was you", severity="warning")


class Guard:
    """Looks at the user's repository between the ends of unfenced workers; each change is told once."""

    def __init__(
        self, repository: Repository, directory: Path, environ: Mapping[str, str], state_files: Scope
    ) -> None:
        """Remember how the repository stood when the run began, also if an earlier runtime began it."""
        self._state_files = state_files
        self._own = repository.own
        self._lens = Lens(repository, environ)
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._exposed: set[str] = set()
        self._blamed: dict[str, tuple[str, ...]] = {}
        remembered = directory / "before.json"
        found = None
        with contextlib.suppress(OSError):
            found = from_text(remembered.read_bytes())
        if found is None:
            found = self._lens.snapshot()
            with contextlib.suppress(FileExistsError):
                create_file(remembered, as_text(found))
        self._before = found

    def entered(self, worker: str) -> None:
        """Count a worker among those that may have done what is found."""
        with self._lock:
            self._running.add(worker)
            self._exposed.add(worker)

    def left(self, worker: str) -> Sequence[Tampering]:
        """Look, now that a worker has ended, and give what nobody alone can have done."""
        with self._lock:
            differences = self._look()
            candidates = tuple(sorted(self._exposed))
            self._running.discard(worker)
            self._exposed = set(self._running)
            harm = tuple(one.path for one in differences if one.weight == "harm")
            moves = tuple(one.path for one in differences if one.weight == "move")
            if harm and candidates == (worker,):
                self._blamed[worker] = (*self._blamed.get(worker, ()), *harm)
                harm = ()
            found = (Tampering(harm, candidates, is_harm=True), Tampering(moves, candidates, is_harm=False))
            return [one for one in found if one.paths]

    def blamed(self, worker: str) -> tuple[str, ...]:
        """Give what a worker changed that ran alone; the harmful kind, for the rest may be the user's."""
        return self._blamed.get(worker, ())

    def _look(self) -> tuple[Difference, ...]:
        after = self._lens.snapshot()
        before, self._before = self._before, after
        found = compare(before, after, own_moves(self._own))
        # State files have a writer of their own, who tells by himself when a hand has been at them.
        return tuple(one for one in found if one.weight == "harm" or not self._state_files.covers(one.path))


def told(found: Tampering) -> dict[str, Any]:
    """Give what stands in the journal."""
    return {"paths": list(found.paths), "candidates": list(found.candidates), "harm": found.is_harm}
