"""The input of a worker: its prompt, and the repository's own instruction files."""

from pathlib import Path
from typing import NamedTuple

from workers.errors import WorkerError
from workers.files.read import read_start

LARGEST = 256 * 1024
"""Bytes of one file; no CLI reads longer instructions either."""


class Instruction(NamedTuple):
    """One instruction file and its text."""

    name: str
    text: str


def check_prompt(prompt: Path, *, agent: str, at_most: int) -> bytes:
    """Return the first bytes of a prompt. Raises WorkerError if this agent would not read it unchanged."""
    try:
        size = prompt.stat().st_size
        head = read_start(prompt, 4096)
    except OSError as error:
        raise WorkerError(f"{prompt.name}: the prompt cannot be read ({error.strerror})") from error
    if not head.strip():
        raise WorkerError(f"{prompt.name}: the prompt is empty; {agent} would answer nothing")
    if size > at_most:
        raise WorkerError(
            f"{prompt.name}: the prompt has {size} bytes; {agent} takes {at_most} at most, so shorten it"
        )
    return head


def read_instructions(worktree: Path, names: tuple[str, ...]) -> tuple[Instruction, ...]:
    """Read those of `names` that exist; a file with the same text as an earlier one is omitted."""
    found: list[Instruction] = []
    for name in names:
        text = _text_of(worktree, name)
        if text.strip() and all(text != other.text for other in found):
            found.append(Instruction(name, text))
    return tuple(found)


def as_one_text(instructions: tuple[Instruction, ...]) -> str:
    """Join instructions into one text that names the source of each part."""
    parts = [
        f"# Instructions of this repository, from {name}\n\n{text.strip()}\n" for name, text in instructions
    ]
    return "\n".join(parts)


def _text_of(worktree: Path, name: str) -> str:
    root = worktree.resolve()
    path = (root / name).resolve()
    # A committed link to a private file of the user's must not reach a provider.
    if not path.is_relative_to(root):
        return ""
    try:
        return read_start(path, LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""
