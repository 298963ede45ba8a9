"""What patterns mean in one repository: the facts needed to read them, and what no ticket may own.

One `PathRules` value goes from the proof to the landing. The scope that is proved disjoint is therefore the
scope that other runs see as taken, and the one that a worker's changes are judged and landed by.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Protocol

from tickets.scopes.pattern import NO_LINKS, Links, PatternError, parse_pattern
from tickets.scopes.scope import Scope
from tickets.scopes.segment import ANY_DEPTH

NESTED_GIT = (
    "**/.git/"  # every directory could hold one: excluded without a note, which would be on all tickets
)

# `.gitignore` and `.gitattributes` are not here: they are the project's own content, and may be owned.
RESERVED: Mapping[str, tuple[str, ...]] = {
    "always": (
        ".git/",
        "**/.git/",
        ".gitmodules",
        ".taskers/",
        "orchestrate.toml",
        "docs/worker-ticket-templates/",
    ),
    "canonical": (
        "STATUS.md",
        "DECISIONS.md",
        "AGENTS.md",
        "docs/history/",
        "docs/decisions/",
        "docs/backlog.md",
    ),
    "checkpoints": ("docs/progress/",),
    "phases": ("STATE.md", "phases/"),
    "ai_memory": ("ai_memory/",),
    "chief_of_staff": ("design/memory/",),
    "nested": (NESTED_GIT,),
}
"""What no ticket may own, by family; a family that is off reserves nothing."""


class Owner(Protocol):
    """An owner of paths by patterns: a ticket, or a worker of another run."""

    @property
    def owns(self) -> tuple[str, ...]:
        """The patterns of the paths that the owner may change."""

    @property
    def excludes(self) -> tuple[str, ...]:
        """The patterns of the paths that are excluded from these."""


class PathRules:
    """The facts about a repository that decide which paths a pattern matches."""

    def __init__(
        self,
        reserved: tuple[str, ...] = (),
        links: Links = NO_LINKS,
        ignore_case: bool = False,  # noqa: FBT001, FBT002 - a fact like the others
        files: tuple[str, ...] = (),
    ) -> None:
        self.reserved = reserved
        """Patterns of the paths that no ticket may own."""
        self.links = links
        self.ignore_case = ignore_case
        """Whether the file system is case-insensitive."""
        self.files = files
        """Patterns that name a regular file of the base: each owns that file and nothing below it."""

    def scope_of(self, ticket: Owner) -> Scope:
        """Return the paths that a ticket may change: no excluded, no reserved ones. Raises PatternError."""
        own = self.read(ticket.owns, ticket.excludes)
        return Scope(own.owns, (*own.excludes, *self.reserved_scope.owns), self.ignore_case)

    def read(self, owns: Iterable[str], excludes: Iterable[str] = ()) -> Scope:
        """Read patterns as written, reserved paths included. Raises PatternError with every bad one."""
        return Scope.of(
            owns, excludes, ignore_case=self.ignore_case, links=self.links, files=self._known_files
        )

    @cached_property
    def reserved_scope(self) -> Scope:
        """The paths that no ticket may own; where a state file is a symlink, the link and its target."""
        patterns = list(Scope.of(self.reserved, ignore_case=self.ignore_case).owns)
        for text in self.reserved if self.links else ():
            # No ticket can own what a link out of the repository leads to.
            with suppress(PatternError):
                patterns += Scope.of([text], ignore_case=self.ignore_case, links=self.links).owns
        return Scope(tuple(dict.fromkeys(patterns)), (), self.ignore_case)

    @cached_property
    def _known_files(self) -> frozenset[str]:
        return frozenset(self.files)


def reserved_paths(families: Collection[str]) -> tuple[str, ...]:
    """List what no ticket may own while these families are on."""
    on = {"always", "nested", "canonical", "checkpoints", *families}
    return tuple(path for family, paths in RESERVED.items() if family in on for path in paths)


def plain_paths(tickets: Iterable[Owner], links: Links = NO_LINKS) -> set[str]:
    """Return the paths that tickets name without wildcards, in any spelling: each may be a single file."""
    found: set[str] = set()
    for text in {text for ticket in tickets for text in (*ticket.owns, *ticket.excludes)}:
        with suppress(PatternError):
            for route in parse_pattern(text, links=links).routes:
                names = route[:-1] if route[-1] is ANY_DEPTH else route
                if all(isinstance(name, str) for name in names):
                    found.add("/".join(map(str, names)))
    return found
