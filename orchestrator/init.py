"""What `init` writes: from the existing texts to those that should be; existing text is never changed."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from orchestrator.settings.values import FILE
from orchestrator.state.canonical.decisions import decisions
from orchestrator.state.canonical.rules import rules
from orchestrator.state.canonical.status import status
from orchestrator.state.facts import Facts
from tickets.templates.render import FOLDER, is_template

GITIGNORE = ".gitignore"
IGNORED = ".taskers/"

_COMPLETE: Mapping[str, Callable[[bytes, Facts], bytes]] = {
    "STATUS.md": status.complete,
    "DECISIONS.md": decisions.complete,
    "AGENTS.md": rules.complete,
}
STATE = tuple(_COMPLETE)
_SETTINGS = Path(__file__).with_name("settings") / "default.toml"
PATHS = (*STATE, FILE, GITIGNORE)
"""What `init` sees to beside the templates."""


class Written(NamedTuple):
    """One file that `init` creates or adds to."""

    path: str
    text: bytes
    created: bool
    """False: it was there, and what it held is still in it."""


def default_settings() -> str:
    """Return the text of a new orchestrate.toml: every key with its meaning and default, none of them set."""
    return _SETTINGS.read_text("utf-8")


def files_to_write(
    facts: Facts, there: Mapping[str, bytes], templates: Mapping[str, bytes]
) -> tuple[Written, ...]:
    """Give what is missing. `there` holds what exists of PATHS and of the templates' folder, by path.

    Raises StateError where a state file cannot be read, MarkdownError where it is not UTF-8.
    """
    wanted = {path: complete(there.get(path, b""), facts) for path, complete in _COMPLETE.items()}
    wanted[FILE] = there.get(FILE, default_settings().encode())
    wanted[GITIGNORE] = with_ignored(there.get(GITIGNORE, b""))
    wanted |= _templates(there, templates)
    return tuple(
        Written(path, text, path not in there) for path, text in wanted.items() if there.get(path) != text
    )


def with_ignored(text: bytes) -> bytes:
    """Give a .gitignore that keeps `.taskers/` out of the repository."""
    lines = [line.strip() for line in text.splitlines()]
    bare = IGNORED.strip("/").encode()
    if any(line.strip(b"/") == bare for line in lines):
        return text
    end = b"\r\n" if b"\r\n" in text else b"\n"
    gap = end if text and not text.endswith(b"\n") else b""
    return text + gap + IGNORED.encode() + end


def _templates(there: Mapping[str, bytes], templates: Mapping[str, bytes]) -> dict[str, bytes]:
    """Give our templates to a folder that has none: one that was deleted on purpose must not come back."""
    has_own = any(path.startswith(f"{FOLDER}/") and is_template(path) for path in there)
    found = {f"{FOLDER}/{name}": text for name, text in sorted(templates.items())}
    return {
        path: there.get(path, text)
        for path, text in found.items()
        if path not in there and not (has_own and is_template(path))
    }
