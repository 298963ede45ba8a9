"""Where a program is, and why it did not start. Part of the shim: standard library only."""

# pathlib would be a third of the start-up time:
# ruff: noqa: PTH110, PTH113, PTH118
import os


def find_program(name: str, path: str) -> str:
    """Return the path of a program by the worker's own PATH, not ours. Raises FileNotFoundError."""
    if "/" in name:
        return name
    for folder in path.split(os.pathsep):
        found = os.path.join(folder or ".", name)
        if os.path.isfile(found) and os.access(found, os.X_OK):
            return found
    raise FileNotFoundError(2, "no such program", name)


def is_there(program: str) -> bool:
    """Return whether a program that is named by its path exists, seen from the current folder."""
    return "/" in program and os.path.exists(program)


def start_failure(what: str, program: str, number: int, *, there: bool) -> str:
    """Describe why a step before the worker's start failed, from the error's number."""
    if what.startswith("cannot start") and number == 2:
        return f"{what}: its interpreter is missing" if there else f"no such program: {program}"
    return f"{what}: {os.strerror(number)}"
