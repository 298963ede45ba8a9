"""State documents: pure modules that compute which files an event changes, and how."""

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from importlib import import_module
from typing import TYPE_CHECKING, Literal, Protocol, cast, get_args

from tickets.problems import Problem

if TYPE_CHECKING:
    from orchestrator.state.events import Event
    from orchestrator.state.facts import Facts

Family = Literal["canonical", "checkpoints", "ai_memory", "phases", "chief_of_staff"]
FAMILIES: tuple[Family, ...] = get_args(Family)
ALWAYS: tuple[Family, ...] = ("canonical", "checkpoints")
"""The families that every project has."""

_FILES: Mapping[str, tuple[str, ...]] = {
    "canonical.status.backlog": ("docs/backlog.md",),
    "canonical.status.status": ("STATUS.md",),
    "canonical.decisions.decisions": ("DECISIONS.md",),
    "canonical.rules.rules": ("AGENTS.md",),
    "checkpoints.checkpoint": ("docs/progress/*.md",),
    "ai_memory.context": ("ai_memory/active_context.md", "ai_memory/*_ctx.md"),
    "ai_memory.sessions": ("ai_memory/session_history/*.md",),
    "ai_memory.memory": ("ai_memory/memory.md",),
    "phases.plan_file": ("phases/*/PLAN.md",),
    "phases.chat_log": ("phases/*/chat/*.jsonl",),
    "phases.phase_status.phase_status": ("phases/*/STATUS.md",),
    "phases.project_state": ("STATE.md",),
}
"""The table of documents: the module of each, below its family, and what it owns, known without an import."""

_COPIES: Collection[str] = (
    "phases.phase_status.phase_status", "phases.project_state", "ai_memory.context",
)  # fmt: skip
"""Those that copy facts of others: they come last, in this order, and see what an event has made of those."""

NEEDED = ("STATUS.md", "DECISIONS.md", "AGENTS.md")
"""The files that every project has; a document owns further ones once they have content."""

Tree = Mapping[str, bytes | None]
"""What a document may read: files by path, None where there is none; each is read when it is asked for."""


class DocumentModule(Protocol):
    """A plain module that satisfies this protocol is a document."""

    OWNS: tuple[str, ...]
    """Path patterns that no other document matches; `*` stands for a part of one name."""

    def needs(self, tree: Tree, event: "Event") -> tuple[str, ...]:
        """Return the paths that `changes` reads or writes; none where the event does not concern it."""

    def changes(self, tree: Tree, event: "Event") -> Mapping[str, bytes | None]:
        """Return the new bytes of each changed file, None for one that goes. Raises StateError.

        `tree` holds all files as they were before the event; for a document that copies, as after it.
        """

    def problems(self, text: bytes) -> list[Problem]:
        """Return the problems of a file, graded, with line numbers."""

    def complete(self, text: bytes, facts: "Facts") -> bytes:
        """Return a file with what it lacks, as `init` writes it; empty if an event begins it."""


def built_families() -> tuple[Family, ...]:
    """Return the families that can be turned on: those that have documents, and those that are always on."""
    rooms = {_family(name) for name in _FILES}
    return tuple(family for family in FAMILIES if family in ALWAYS or family in rooms)


def owned_paths(families: Collection[str] = FAMILIES) -> tuple[str, ...]:
    """Return the patterns of what documents own: no ticket may own it, and no manual edit of it is lost."""
    return tuple(path for name in _on(families) for path in _FILES[name])


def named_paths(families: Collection[str]) -> tuple[str, ...]:
    """Return those that name one file."""
    return tuple(path for path in owned_paths(families) if not is_pattern(path))


def is_owned(path: str, families: Collection[str] = FAMILIES) -> bool:
    """Return whether a document owns a path."""
    return any(_matches(path, one) for one in owned_paths(families))


def owned_among(paths: Collection[str], families: Collection[str]) -> tuple[str, ...]:
    """Return those of some paths that documents own, in the order of the documents."""
    names = sorted(paths)
    return tuple(path for one in owned_paths(families) for path in names if _matches(path, one))


def is_pattern(path: str) -> bool:
    """Return whether what a document owns is a pattern, and not one file."""
    return "*" in path


def documents(families: Collection[str]) -> tuple[DocumentModule, ...]:
    """Return the documents of some families, and of those that are always on, without those that copy."""
    return tuple(_module(name) for name in _on(families) if name not in _COPIES)


def copies(families: Collection[str]) -> tuple[DocumentModule, ...]:
    """Return the documents that copy facts of others."""
    return tuple(_module(name) for name in _on(families) if name in _COPIES)


def _on(families: Collection[str]) -> list[str]:
    return [name for name in _FILES if _family(name) in families or _family(name) in ALWAYS]


def _family(name: str) -> str:
    return name.partition(".")[0]


def _module(name: str) -> DocumentModule:
    # Imported when it is first asked for: `status` reads one document and must not pay for all of them.
    return cast("DocumentModule", import_module(f"{__name__}.{name}"))


def _matches(path: str, pattern: str) -> bool:
    if not is_pattern(pattern):
        return path == pattern
    names, wanted = path.split("/"), pattern.split("/")
    return len(names) == len(wanted) and all(map(fnmatchcase, names, wanted))
