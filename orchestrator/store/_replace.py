"""Files that are replaced as one: written beside their targets, decided by an intent, then moved.

Private to the store: no other module may call them, and they decide nothing.
"""

import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.errors import Refusal, StateError
from orchestrator.store.intent import ABSENT, Move, digest
from orchestrator.store.read import bytes_of, led_to
from tickets.problems import Problem
from workers.files.durable import exchange, replace_file, sync_folder, write_over
from workers.files.read import NotRegularError, read_whole

_NUMBERS = itertools.count(1)


class Files:
    """The files of one work tree, and the new files beside them."""

    def __init__(self, root: Path, note: Path) -> None:
        self.root = root.resolve()
        self._note = note

    def text(self, path: str) -> bytes | None:
        """Read a file; None where there is none. Raises StateError, Refusal."""
        try:
            return bytes_of(self.target(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateError(
                Problem(path, f"cannot be read: {error.strerror}", "put the file back")
            ) from error

    def target(self, path: str) -> Path:
        """Resolve a state file that is a symlink, as long as it stays in the repository. Raises Refusal."""
        target = led_to(self.root, path)
        if not target.is_relative_to(self.root):
            raise Refusal(Problem(path, f"is a link to {target}, outside the repository", "make it a file"))
        return target

    def write_beside(self, texts: Mapping[str, bytes | None], old: Mapping[str, bytes | None]) -> list[Move]:
        """Write new texts beside their targets, with the modes of the files that they will replace.

        Beside a file that goes stands an empty one, until it is gone.
        """
        moves = [self._planned(path, old[path], text) for path, text in sorted(texts.items())]
        if moves:
            # After a kill the next command knows from this note what to remove.
            names = [*self._noted(), *(move.temporary for move in moves)]
            write_over(self._note, json.dumps(names).encode(), synced=False)
        for move in moves:
            target = self.root / move.target
            if not target.parent.is_dir():
                target.parent.mkdir(parents=True, exist_ok=True)
            mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
            write_over(self.root / move.temporary, texts[move.path] or b"", mode, synced=True)
        return moves

    def are_current(self, moves: Iterable[Move]) -> bool:
        """Return whether each target still holds the text from which its new text was made."""
        return all(digest(self.text(move.path)) == move.old for move in moves)

    def are_left(self, moves: Iterable[Move]) -> bool:
        """Return whether some moves are still to be made."""
        return any((self.root / move.temporary).exists() for move in moves)

    def move(self, moves: Sequence[Move]) -> Sequence[Move]:
        """Replace each target that still holds the expected text; return the moves left at a mismatch."""
        for at, move in enumerate(moves):
            if self.are_left([move]) and not self._moved(move):
                return moves[at:]
        return ()

    def _moved(self, move: Move) -> bool:
        """Replace one target; False where it is a person's: their text stands there, ours beside it."""
        temporary, target = self.root / move.temporary, self.root / move.target
        if move.goes:
            return self._removed(move)
        beside, there = digest(read_whole(temporary)), digest(self.text(move.path))
        if beside == move.new and there == move.old:
            if there == ABSENT or not exchange(temporary, target):
                temporary.replace(target)
                sync_folder(target.parent)
                return True
            # A person may have saved since we looked: what stood there tells.
            beside, there = digest(read_whole(temporary)), move.new
        if beside == move.old or there == beside == move.new:
            sync_folder(target.parent)
            temporary.unlink()
            return True
        if beside != move.new:
            # Also after a kill: the text that we have taken away goes back.
            exchange(temporary, target)
            sync_folder(target.parent)
        return False

    def _removed(self, move: Move) -> bool:
        """Take one target away; False where a person has saved it meanwhile: it stays."""
        temporary, target = self.root / move.temporary, self.root / move.target
        there = digest(self.text(move.path))
        if there == move.old:
            target.replace(temporary)
        elif there != ABSENT:
            return False
        # Also after a kill: a text that we have taken away and that is another one goes back.
        if digest(read_whole(temporary)) not in (move.old, digest(b"")):
            temporary.replace(target)
            sync_folder(target.parent)
            return False
        sync_folder(target.parent)
        temporary.unlink()
        return True

    def new_text(self, move: Move) -> bytes:
        """Return the text that a move will put in place."""
        return read_whole(self.root / move.temporary)

    def keep(self, move: Move) -> str:
        """Keep the text of a move beside its target, under a name for a person."""
        target = self.root / move.target
        kept = target.with_name(f"{target.name}.orchestrate-kept")
        (self.root / move.temporary).replace(kept)
        return kept.name

    def discard(self, moves: Iterable[Move]) -> None:
        """Discard moves."""
        for move in moves:
            (self.root / move.temporary).unlink(missing_ok=True)

    def clear_note(self) -> None:
        """Note that no file is left beside any target."""
        self._note.unlink(missing_ok=True)

    def sweep(self, folders: Iterable[Path], waiting: Iterable[Move]) -> None:
        """Remove what a killed command has written beside files, except for moves that are decided.

        What cannot be removed stays for the next command: it does no harm.
        """
        named = {self.root / move.temporary for move in waiting}
        lost = {left for folder in folders for left in folder.glob(".*.orchestrate-*.tmp")}
        lost |= {self.root / path for path in self._noted()}
        with suppress(OSError):
            for left in lost - named:
                left.unlink(missing_ok=True)
            # Last: without the note the rest could not be found.
            self.clear_note()

    def _planned(self, path: str, old: bytes | None, new: bytes | None) -> Move:
        target = self.target(path)
        # A name that no other move of any process has.
        temporary = target.with_name(f".{target.name}.orchestrate-{os.getpid()}-{next(_NUMBERS)}.tmp")
        return Move(
            path,
            temporary.relative_to(self.root).as_posix(),
            target.relative_to(self.root).as_posix(),
            digest(old),
            digest(new),
            (old or b"").decode("latin-1"),
        )

    def _noted(self) -> list[str]:
        try:
            found: list[str] = json.loads(read_whole(self._note))
        except (FileNotFoundError, NotRegularError, ValueError, RecursionError):
            return []  # a torn note: nothing was written after it
        return found


def write_intent(path: Path, intent: Mapping[str, Any]) -> None:
    """Write the intent: once its rename is done, it will be carried out, also after a kill."""
    replace_file(path, json.dumps(intent).encode(), synced=True)
