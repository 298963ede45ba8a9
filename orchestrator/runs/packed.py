"""Packed runs: which there are, and the texts in them. Light: `logs` asks for the end of an output."""

import os
from contextlib import suppress
from pathlib import Path

from workers.files.run_dir import ARCHIVE, RUNS

PACK = ".tar.gz"
"""Suffix of an archive."""


def packed_ids(root: Path) -> list[str]:
    """List the runs that have an archive."""
    try:
        names = os.listdir(root / ARCHIVE)  # noqa: PTH208 - names alone
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [name.removesuffix(PACK) for name in names if name.endswith(PACK)]


def packed_text(root: Path, path: str, most: int, *, end: bool = False) -> str | None:
    """Return the beginning or the end of a file of a packed run; None where there is none.

    `path` is where it was: below `.taskers/runs/RUN`.
    """
    import tarfile  # noqa: PLC0415 - for start-up time: rarely needed

    run, _, inside = path.removeprefix(f"{RUNS}/").partition("/")
    pack = root / ARCHIVE / f"{run}{PACK}"
    if not path.startswith(f"{RUNS}/") or not pack.is_file():
        return None
    with suppress(OSError, EOFError, KeyError, tarfile.TarError), tarfile.open(pack, "r:gz") as tar:
        member = next((one for one in tar if one.name == f"{run}/{inside}"), None)
        file = tar.extractfile(member) if member is not None else None
        if file is not None:
            file.seek(max(0, file.seek(0, os.SEEK_END) - most) if end else 0)
            return file.read(most).decode("utf-8", "replace")
    return None
