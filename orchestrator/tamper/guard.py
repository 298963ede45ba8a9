"""Tamper detection for unfenced workers: what is watched, when it is compared, which worker is responsible.

Watched are the user's git metadata, checkout and start-up files (`workers.git.snapshot`), and the files that
orchestrate writes about the run (`run_files`). They are compared with the last comparison when a worker ends,
after its acceptance commands, and before and after the gate. Each change is reported once, never undone.

A candidate is each worker that ran since the last comparison. A change that nothing but tampering explains
and that has one candidate is this worker's violation. Any other is `unattributed`, with all candidates.

With several candidates no change can be one worker's, so that one comparison does for many ends: `watch`
makes it a little later. The last worker waits for it, so that the next is alone if it runs alone.
"""

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from orchestrator.runs.events import Unattributed
from orchestrator.tamper.run_files import RunFiles
from tickets.problems import Problem
from tickets.scopes.scope import Scope
from tickets.wording import some_of
from workers.files.durable import create_file
from workers.files.read import read_whole
from workers.files.run_dir import RunDir
from workers.git.metadata import own_moves
from workers.git.run import Repository
from workers.git.snapshot import Lens, Snapshot, as_text, compare, from_text

SHOWN = 5
"""Paths that a problem names before it counts the rest."""
PAUSE = 0.1
"""Seconds from one comparison for many workers to the next, at least."""
LONGEST = 1.0
"""Seconds that this pause grows to, so that slower comparisons take a tenth of the time, or half at most."""


def tampering_problem(found: Unattributed) -> Problem:
    """Return the problem for the lead: an error for harm, a warning for changes of everyday work."""
    who = ", ".join(found.candidates)
    who = f"the {found.during} ran on the work of {who}" if found.during else f"{who} ran"
    what = f"unattributed: {some_of(found.paths, SHOWN)} changed while {who}"
    if not found.harm:
        return Problem("repository", what, "check it, unless you did it", severity="warning")
    do = "check it before you run git again, and undo changes that are not yours"
    if all(path.startswith(".taskers/") for path in found.paths):
        do = "do not trust the changed files; the values read before the change were used"
    return Problem("repository", what, do)


class Guard:
    """Compares the repository and the run's files with their last state; only its scans run in a thread."""

    def __init__(
        self,
        repository: Repository,
        directory: Path,
        environ: Mapping[str, str],
        state_files: Scope,
        *,
        afresh: bool = False,
        ran: Mapping[str, int],
        ended: Collection[str] = (),
    ) -> None:
        """Start from the state of the repository when the run began, or with `afresh` from that of now.

        `directory` is the checker's, named after the run. `ran` are the workers that may have run since, with
        the number of their attempts, and `ended` those that are judged.
        """
        self._state_files, self._own = state_files, repository.own
        self._lens = Lens(repository, environ)
        self._turn = anyio.Lock()
        self._compared_at = 0.0
        """When the last comparison ended, by `time.monotonic`."""
        self._took = 0.0
        """How many seconds it took."""
        self._running: set[str] = set()
        self._open: set[str] = set()
        """The workers that have started and are not judged."""
        self._exposed: set[str] = set(ran)
        """The candidates: the workers that ran since the last comparison."""
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
        self._files = RunFiles(RunDir(repository.root, directory.name), repository, directory, ran)
        for worker in ended:
            self._files.judge(worker)

    def entered(self, worker: str, number: int = 1, *, is_new: bool = False) -> None:
        """Make a worker a candidate before its attempt starts, is followed or is checked.

        Of an attempt that is not new, another runtime or the attempt itself may have left files.
        """
        self._files.begin(worker, number, is_new=is_new)
        self._running.add(worker)
        self._open.add(worker)
        self._exposed.add(worker)

    def gone(self, worker: str) -> None:
        """Note that a worker is judged or lost; it stays a candidate until the next comparison."""
        self._running.discard(worker)
        self._open.discard(worker)

    def writing(self, worker: str, path: Path) -> None:
        """Note that orchestrate is about to create a file of an attempt; an existing one is tampering."""
        if self._files.writing(worker, path):
            # Otherwise the next worker that runs alone would be the only candidate.
            self._exposed.add(worker)

    def judged(self, worker: str, tree: Path | None = None) -> None:
        """Note that all files of a worker are written, and the worktree that is kept: none may change now."""
        if self._files.judge(worker, tree):
            self._exposed.add(worker)

    async def ended(
        self, worker: str, forged: tuple[str, ...] = (), running: tuple[str, ...] = ()
    ) -> Sequence[Unattributed]:
        """Compare, now that a worker has ended, and return what cannot be attributed.

        `forged` are paths that were found changed while those of `running` ran.
        """
        self._files.end(worker)
        self._running.discard(worker)
        found = _unattributed(forged, {*self._exposed, *running}, harm=True)
        if self._open == {worker} and not self.is_alone(worker):
            # Where others start and end all the time, comparisons take half of the time at most.
            await anyio.sleep(max(0.0, self._compared_at + self._took - time.monotonic()))
        if self._open == {worker} or self.is_alone(worker):
            found += await self._compare({worker})
        its = [one for one in found if one.harm and one.candidates == (worker,)]
        self._blamed[worker] = (*self.blamed(worker), *(path for one in its for path in one.paths))
        return [one for one in found if one not in its]

    async def watch(self, report: Callable[[Unattributed], None]) -> None:
        """Compare for the workers that ended beside others, for as long as this runs."""
        while True:
            pause = max(self._took, min(9 * self._took, LONGEST))
            await anyio.sleep(max(PAUSE, self._compared_at + pause - time.monotonic()))
            try:
                found = await self.last()
            except OSError:
                continue  # the next comparison finds the same, and that at the end of the run raises
            for one in found:
                report(one)

    async def last(self) -> Sequence[Unattributed]:
        """Compare for all workers that ended without a comparison."""
        return await self._compare(self._exposed - self._running)

    async def begin_check(self, workers: Iterable[str]) -> Sequence[Unattributed]:
        """Compare before a check runs the work of `workers`; return the harm since their ends."""
        found = await self._compare()
        self._exposed = set(workers)
        return [one._replace(candidates=tuple(sorted(self._exposed))) for one in found if one.harm]

    async def end_check(self, what: str) -> Sequence[Unattributed]:
        """Compare after that check and return what it changed."""
        return [one._replace(during=what) for one in await self._compare()]

    def blamed(self, worker: str) -> tuple[str, ...]:
        """Return the harm of a worker as the only candidate, without what the user may have done."""
        return self._blamed.get(worker, ())

    def is_alone(self, worker: str) -> bool:
        """Return whether a worker is the only candidate."""
        return self._exposed == {worker}

    async def _compare(self, ended: set[str] | None = None) -> list[Unattributed]:
        """Compare, unless a comparison has begun since all of `ended` have ended."""
        async with self._turn:
            if ended is not None and not ended & self._exposed:
                return []
            began = time.monotonic()
            earlier, self._exposed = self._exposed, set(self._running)
            try:
                after = await anyio.to_thread.run_sync(self._look)
            except BaseException:
                self._exposed |= earlier  # what was found is for the next comparison
                raise
            candidates = earlier | self._exposed  # also workers that started meanwhile
            harm, moves = compare(self._before, after, own_moves(self._own))
            harm += self._files.take_found()
            self._before = after
            self._compared_at = time.monotonic()
            self._took = self._compared_at - began
        # State files have a writer of their own, which reports manual edits.
        moves = [path for path in moves if not self._state_files.covers(path)]
        return _unattributed(harm, candidates, harm=True) + _unattributed(moves, candidates, harm=False)

    def _look(self) -> Snapshot:
        after = self._lens.snapshot()
        self._files.look()
        return after


def _unattributed(paths: Collection[str], candidates: Collection[str], *, harm: bool) -> list[Unattributed]:
    return [Unattributed(tuple(paths), tuple(sorted(candidates)), harm)] if paths else []
