"""State documents: pure modules that compute which files an event changes, and how."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from tickets.problems import Problem

if TYPE_CHECKING:
    from orchestrator.state.events import Event
    from orchestrator.state.facts import Facts

_FILES: Mapping[str, tuple[str, ...]] = {
    "canonical.status.backlog": ("docs/backlog.md",),
    "canonical.status.status": ("STATUS.md",),
    "canonical.decisions.decisions": ("DECISIONS.md",),
    "canonical.rules.rules": ("AGENTS.md",),
}
"""The table of documents: the module of each, and what it owns, known without importing the module."""

NEEDED = ("STATUS.md", "DECISIONS.md", "AGENTS.md")
"""The files that every project has; a document owns further ones once they have content."""


class DocumentModule(Protocol):
    """A plain module that satisfies this protocol is a document."""

    OWNS: tuple[str, ...]
    """Path patterns that no other document matches."""

    def changes(self, tree: Mapping[str, bytes | None], event: "Event") -> dict[str, bytes]:
        """Return the new bytes of each file that the event changes. Raises StateError.

        `tree` holds all files as they were before the event.
        """

    def problems(self, text: bytes) -> list[Problem]:
        """Return the problems of a file, graded, with line numbers."""

    def complete(self, text: bytes, facts: "Facts") -> bytes:
        """Return a file with what it lacks, as `init` writes it; empty if an event begins it."""


def owned_paths() -> tuple[str, ...]:
    """Return what documents own: the files that no ticket may own and that no manual edit is lost in."""
    return tuple(path for paths in _FILES.values() for path in paths)


DOCUMENTS: tuple[DocumentModule, ...]
"""Every document there is."""


def __getattr__(name: str) -> object:
    # Made when it is first asked for: `status` reads one document and must not pay for all of them.
    if name != "DOCUMENTS":
        raise AttributeError(name)
    globals()[name] = found = tuple(import_module(f"{__name__}.{module}") for module in _FILES)
    return found
