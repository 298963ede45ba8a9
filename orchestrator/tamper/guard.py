"""Whether somebody changed the user's repository while workers ran that nothing kept from it."""

import contextlib
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread

from orchestrator.runs.events import Unattributed
from orchestrator.tamper.run_files import Leavings
from tickets.problems import Problem
from tickets.scopes.scope import Scope
from workers.files.durable import create_file
from workers.files.read import read_whole
from workers.files.run_dir import RunDir
from workers.git.metadata import own_moves
from workers.git.run import Repository
from workers.git.snapshot import Lens, as_text, compare, from_text

SHARE = 16
"""Files of workers that have ended that a look may put off, for each look that did."""
PAUSE = 0.02
"""Seconds from one look to the next while several workers run, and at least as long as a look takes."""


class Tampering(NamedTuple):
    """What was found changed, and the workers that ran unfenced meanwhile."""

    paths: tuple[str, ...]
    candidates: tuple[str, ...]
    is_harm: bool
    during: str = ""
    """What of ours ran what they had written meanwhile: `gate`; else they ran themselves."""

    def as_event(self, holds: str = "") -> Unattributed:
        """Return the event that the journal keeps; `holds` as there."""
        return Unattributed(self.paths, self.candidates, self.is_harm, self.during, holds)

    def as_problem(self) -> Problem:
        """Say it to the lead: harm is an error, the everyday kind a warning."""
        shown = ", ".join(self.paths[:5]) + (
            f" and {len(self.paths) - 5} more" if len(self.paths) > 5 else ""
        )
        who = ", ".join(self.candidates)
        while_ = f"while the {self.during} ran on the work of {who}" if self.during else f"while {who} ran"
        what = f"unattributed: {shown} changed {while_}"
        if self.is_harm and all(path.startswith(".taskers/") for path in self.paths):
            do = "do not trust what stands there; what had been read before is what counted"
            return Problem("repository", what, do)
        if self.is_harm:
            do = "look at it before you run git again, and undo what is not yours"
            return Problem("repository", what, do)
        return Problem("repository", what, "look at it unless it was you", severity="warning")


class Guard:
    """Looks at the user's repository between the ends of unfenced workers; each change is told once."""

    def __init__(
        self,
        repository: Repository,
        directory: Path,
        environ: Mapping[str, str],
        state_files: Scope,
        *,
        afresh: bool = False,
        ran: Collection[str] | None = None,
        ended: Collection[str] = (),
    ) -> None:
        """Remember how the repository stood when the run began, also if an earlier runtime began it.

        `directory` is the checker's, called after the run. With `afresh`, what came before is of no interest;
        else `ran` are those who may have done it under another runtime, and `ended` those who are judged.
        Where nobody says who ran, all that stands there of anybody is taken for theirs.
        """
        self._state_files = state_files
        self._own = repository.own
        self._lens = Lens(repository, environ)
        self._lock = threading.Lock()
        self._turn = anyio.Lock()
        """Who waits for a look: one has it, the others find that theirs is done."""
        self._free_at = 0.0
        """When there may be another look, by the clock of `time.monotonic`."""
        self._looks = 0
        """Looks begun: one that began after an end has seen all that came before it."""
        self._seen = 0
        """The newest look that came to its end: one that could not look has seen nothing."""
        self._running: set[str] = set()
        self._exposed: set[str] = set(ran or ())
        self._suspects: set[str] = set()
        """Who ran since all that others had left was looked at."""
        self._put_off = 0
        """Looks since then."""
        self._blamed: dict[str, tuple[str, ...]] = {}
        remembered = directory / "before.json"
        found = None
        with contextlib.suppress(OSError):
            found = None if afresh else from_text(read_whole(remembered))
        if found is None:
            found = self._lens.snapshot()
            with contextlib.suppress(FileExistsError):
                create_file(remembered, as_text(found))
        self._before = found
        self._leavings = Leavings(RunDir(repository.root, directory.name), repository, directory)
        self._leavings.begun(ran)
        for worker in ended:
            self._leavings.judged(worker)

    def entered(self, worker: str, number: int = 1, *, is_new: bool = False) -> None:
        """Count a worker among those that may have done what is found; say whether its attempt is new."""
        self._leavings.expect(worker, number, is_new=is_new)
        # Without the lock, which a look holds for as long as it takes: all else of the runtime would wait.
        # In this order: a look that ends in between begins its next list with who is running.
        self._running.add(worker)
        self._exposed.add(worker)

    def gone(self, worker: str) -> None:
        """Take a worker for ended of which a record is about to be written, looked after or not."""
        # What it did and nobody has looked for is found by the next look, with it among those named.
        self._running.discard(worker)

    def writes(self, worker: str, path: Path, data: bytes | None = None) -> None:
        """Know, before it is written, that a file of a worker's attempt comes from us, and what is in it."""
        self._leavings.writes(worker, path, data)

    async def look_after(
        self, worker: str, also: tuple[str, ...] = (), running: tuple[str, ...] = ()
    ) -> Sequence[Tampering]:
        """Do as `left` does, with a pause between two looks: a hundred that end together share a few."""
        asked = self._looks
        # Before it waits: what others do to it meanwhile would be taken for its own.
        self._leavings.settled(worker)
        async with self._turn:
            if not also and not self.is_quiet(worker) and not self._is_seen(worker, asked, also):
                await anyio.sleep(max(0.0, self._free_at - time.monotonic()))
            if self._is_seen(worker, asked, also):
                self._let_go(worker)
                return ()
            return await anyio.to_thread.run_sync(self.left, worker, also, running)

    def left(
        self, worker: str, also: tuple[str, ...] = (), running: tuple[str, ...] = ()
    ) -> Sequence[Tampering]:
        """Look, now that a worker has ended, and give what nobody alone can have done.

        `also` is harm that was found before, while those of `running` ran.
        Of several that end at once, one look does: one that began after they had ended.
        """
        asked = self._looks
        self._leavings.settled(worker)
        with self._lock:
            if self._is_seen(worker, asked, also):
                self._let_go(worker)
                return ()
            due = (self._put_off + 1) * SHARE >= self._leavings.size
            try:
                harm, moves = self._look()
            except BaseException:
                self.gone(worker)
                raise
            late, before = self._look_at_ended() if due or self.is_quiet(worker) else ((), ())
            # After the looks: one that came while they went on may have done what they found.
            candidates = tuple(sorted(self._exposed))
            suspects = tuple(sorted({*before, *candidates}))
            self._running.discard(worker)
            self._exposed = set(self._running)
            if suspects == candidates:
                harm, late = (*harm, *late), ()
            others: list[Tampering] = []
            if also and {*candidates, *running} <= {worker}:
                harm = (*harm, *also)
            elif also:
                others = _tampering(also, (), tuple(sorted({*candidates, *running})))
            if harm and candidates == (worker,):
                self._blamed[worker] = (*self._blamed.get(worker, ()), *harm)
                harm = ()
            return [*_tampering(harm, moves, candidates), *_tampering(late, (), suspects), *others]

    def last(self) -> Sequence[Tampering]:
        """Look at the end for what no look was left for: of a worker whose own could not be made, say."""
        with self._lock:
            if not (self._exposed or self._put_off):
                return ()
            harm, moves = self._look()
            late, before = self._look_at_ended()
            suspects = tuple(sorted({*before, *self._exposed}))
            self._exposed = set(self._running)
            return _tampering((*harm, *late), moves, suspects)

    def settled(self, worker: str, tree: Path | None) -> None:
        """Take all that a worker left for final, now that it is judged, and the tree that is kept of it."""
        # Without the lock, as in `entered`.
        self._leavings.judged(worker, tree=tree)

    def begin_check(self, workers: Iterable[str]) -> Sequence[Tampering]:
        """Look before a check runs the work of some; give the harm that came since their ends."""
        with self._lock:
            harm, _ = self._look()
            late, _ = self._look_at_ended()
            self._exposed = set(workers)
            return _tampering((*harm, *late), (), tuple(sorted(self._exposed)))

    def end_check(self, what: str) -> Sequence[Tampering]:
        """Look, now that a check of their work has ended, and give what it did."""
        with self._lock:
            harm, moves = self._look()
            late, _ = self._look_at_ended()
            harm += late
            candidates = tuple(sorted(self._exposed))
            self._exposed = set(self._running)
            return [one._replace(during=what) for one in _tampering(harm, moves, candidates)]

    def blamed(self, worker: str) -> tuple[str, ...]:
        """Give what a worker changed that ran alone; the harmful kind, for the rest may be the user's."""
        return self._blamed.get(worker, ())

    def _is_seen(self, worker: str, asked: int, also: tuple[str, ...]) -> bool:
        """Tell whether a look has begun since that many, which has seen what a worker did that had ended."""
        return self._seen > asked and not also and not (self._put_off and self.is_quiet(worker))

    def _let_go(self, worker: str) -> None:
        self._running.discard(worker)
        self._exposed.discard(worker)

    def is_quiet(self, worker: str) -> bool:
        """Tell whether at most one other runs: from here on a worker may be alone, and answers for itself."""
        return len(self._running - {worker}) <= 1

    def _look_at_ended(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Give the harm to what those have left that ended, and who ran since it was looked at last."""
        before, self._suspects, self._put_off = tuple(self._suspects), set(), 0
        return tuple(self._leavings.changed_of_ended(frozenset(self._running))), before

    def _look(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Give the harm, and the moves, since the last look."""
        began = time.monotonic()
        self._looks += 1
        number = self._looks
        self._put_off += 1
        self._suspects |= self._exposed
        after = self._lens.snapshot()
        found = compare(self._before, after, own_moves(self._own))
        # State files have a writer of their own, who tells by himself when a hand has been at them.
        moves = (one.path for one in found if one.weight == "move" and not self._state_files.covers(one.path))
        harm = [one.path for one in found if one.weight == "harm"]
        harm += self._leavings.changed(frozenset(self._running))
        # Only now: what a look that fails had found is there for the next one.
        self._before, self._seen = after, number
        now = time.monotonic()
        self._free_at = now + max(PAUSE, now - began)
        return tuple(harm), tuple(moves)


def _tampering(harm: tuple[str, ...], moves: tuple[str, ...], candidates: tuple[str, ...]) -> list[Tampering]:
    found = (Tampering(harm, candidates, is_harm=True), Tampering(moves, candidates, is_harm=False))
    return [one for one in found if one.paths]
