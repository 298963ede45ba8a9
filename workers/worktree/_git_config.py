"""The user's git settings that hold for our git as well, read once; none of them runs a program."""

import re
from collections.abc import Mapping
from pathlib import Path

from workers.git.run import git_fields

# What decides how a file becomes a blob; drivers, which run programs, are not among them.
KEPT_SETTINGS = ("core.filemode", "core.symlinks", "core.ignorecase", "core.autocrlf", "core.eol",
                 "core.precomposeunicode", "core.excludesfile", "core.attributesfile")  # fmt: skip
FIXED_SETTINGS = (
    "bare = false",
    "hooksPath = /dev/null",
    # Refuses files that git itself would take after a warning.
    "safecrlf = false",
    # A worker's file at a path that a sparse checkout leaves out would stay unseen.
    "sparseCheckout = true",
)
_DRIVER = re.compile(r"filter\..+\.(clean|smudge|process|required)")


def settings_of(common: Path) -> dict[str, str]:
    """Return all of the user's settings, by one call of git."""
    return dict(field.partition("\n")[::2] for field in git_fields("config", "-z", "--list", cwd=common))


def drivers_among(known: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that define how files are filtered."""
    return {key: value for key, value in known.items() if _DRIVER.fullmatch(key)}


def config_text(known: Mapping[str, str]) -> str:
    """Write the configuration of our git."""
    hashes = known.get("extensions.objectformat", "sha1")
    version = 0 if hashes == "sha1" else 1
    lines = ["[core]", f"\trepositoryformatversion = {version}", *(f"\t{line}" for line in FIXED_SETTINGS)]
    lines += [
        f'\t{name.removeprefix("core.")} = "{escaped(known[name])}"'
        for name in KEPT_SETTINGS
        if known.get(name)
    ]
    if version:
        lines += ["[extensions]", f"\tobjectFormat = {hashes}"]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Escape a value, or the name of a section, for quotes in a git configuration."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
