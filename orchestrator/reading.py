"""Files that a person keeps: read whole, or a problem that names what hinders."""

from pathlib import Path

from orchestrator.refusal import Refusal
from tickets.problems import Problem


def read_file(root: Path, path: str) -> bytes | None:
    """Read a file by its path below `root`; None where there is none. Raises Refusal."""
    try:
        return (root / path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = (error.strerror or "unknown reason").lower()
        raise Refusal(Problem(path, f"cannot be read: {why}", "make it a file that you may read")) from None


def in_the_way(folder: Path, name: str) -> list[Problem]:
    """Say what keeps a folder of ours from being there; it is made when it is first needed."""
    if folder.exists() and not folder.is_dir():
        return [Problem(name, "is not a folder", "move it away")]
    return []
