"""What a project's texts are redacted by: its environment, its copied `.env` files, and its allow list.

Cheap, since every command asks for it: the settings are parsed only where they have one of the two keys.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tickets.problems import Problem
from tickets.redact import Redactor, Secret, dotenv, known_values
from workers.files.read import read_whole

SETTINGS = "orchestrate.toml"
DEPTH = 3
"""Folders below the root in which `.env` files are looked for where a pattern has wildcards."""
_LARGEST = 1 << 20
"""Bytes of a `.env` file, or of the settings, that are read."""


def redactor_of(root: Path | None, environ: Mapping[str, str]) -> Redactor:
    """Return the redactor of a project; of none, where there is only an environment.

    Settings that cannot be read name nothing: the command that needs them says what is wrong.
    """
    known = known_values(environ)
    allowed: tuple[str, ...] = ()
    tables = _tables(root) if root else {}
    if root and tables:
        files = env_files(root, _texts(tables, "worktree", "copy"))
        known += tuple(pair for path in files for pair in known_values(dotenv(_text(path))))
        allowed = _texts(tables, "secrets", "allow")
    return Redactor(known, allowed)


def env_files(root: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the `.env` files among those that `[worktree] copy` names."""
    plain = [one for one in patterns if not set("*?[{\\") & set(one) and _is_env(one)]
    if len(plain) < len(patterns):
        from tickets.scopes.scope import PatternError, Scope  # noqa: PLC0415 - for start-up time

        try:
            scope = Scope.of(patterns)
        except PatternError:
            return [root / one for one in plain]
        plain += [one for one in _found(root, "", DEPTH) if scope.covers(one)]
    return [root / one for one in dict.fromkeys(plain)]


def advice(secret: Secret) -> str:
    """Return what to do about a secret that stands in a file."""
    if not secret.digest:
        return f"take it out, and give {secret.kind} another value"
    return (
        "take it out and revoke it; if it is none, write under `[secrets]` in "
        f'{SETTINGS}: allow = ["sha256:{secret.digest}"]'
    )


def secret_problems(path: str, text: bytes, redactor: Redactor) -> list[Problem]:
    """Return a warning for each secret that stands in a file already: nothing removes it."""
    newline = b"\n"
    return [
        Problem(
            f"{path}:{text.count(newline, 0, one.start) + 1}",
            f"holds what looks like a secret ({one.kind})",
            advice(one),
            "warning",
        )
        for one in redactor.secrets(text)
    ]


# What this process prints


_ways: list[Callable[[], Redactor]] = []
_made: list[Redactor] = []


def redact_output(by: Callable[[], Redactor]) -> None:
    """Set what the texts that this process prints are redacted by; it is asked for with the first of them."""
    _ways[:], _made[:] = [by], []


def printable(text: str) -> str:
    """Return a text as it may be printed."""
    return output_redactor().clean(text)


def output_redactor() -> Redactor:
    """Return what the texts that this process prints are redacted by."""
    if not _made:
        _made.append(_ways[0]() if _ways else redactor_of(None, os.environ))
    return _made[0]


def _tables(root: Path) -> Mapping[str, Any]:
    try:
        text = read_whole(root / SETTINGS, _LARGEST)
        lines = (line for line in text.splitlines() if not line.lstrip().startswith(b"#"))
        if not any(b"allow" in line or b"copy" in line for line in lines):
            return {}
        import tomllib  # noqa: PLC0415 - for start-up time

        return tomllib.loads(text.decode())
    except (OSError, ValueError):
        return {}


def _texts(tables: Mapping[str, Any], table: str, key: str) -> tuple[str, ...]:
    found = tables.get(table)
    listed = found.get(key) if isinstance(found, dict) else None
    return tuple(one for one in listed if isinstance(one, str)) if isinstance(listed, list) else ()


def _text(path: Path) -> str:
    try:
        return read_whole(path, _LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""


def _is_env(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name == ".env" or name.startswith(".env.") or name.endswith(".env")


def _found(root: Path, folder: str, depth: int) -> Iterator[str]:
    """Yield the `.env` files of a folder, and of those below it that are no caches."""
    from workers.worktree.environments import CACHES  # noqa: PLC0415 - for start-up time

    try:
        entries: Iterable[os.DirEntry[str]] = sorted(os.scandir(root / folder), key=lambda one: one.name)
    except OSError:
        return
    for entry in entries:
        path = f"{folder}{entry.name}"
        if _is_env(entry.name):
            yield path
        elif (
            depth and entry.name not in CACHES | {".git", ".taskers"} and entry.is_dir(follow_symlinks=False)
        ):
            yield from _found(root, f"{path}/", depth - 1)
