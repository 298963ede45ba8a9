"""The start of the console script: our own modules are found whatever PYTHONPATH holds.

Its name is one that nobody else uses, and it imports only what Python has loaded before any path counts.
"""

import os
import sys


def main() -> int:
    """Run the command line."""
    _spell_in_utf8()
    search_foreign_last()
    from orchestrator.cli.main import main as call  # noqa: PLC0415 - found only now

    return call()


def _spell_in_utf8() -> None:
    """Start again where the locale has Python spell paths otherwise than git and Markdown files do.

    The streams keep the locale's encoding (see `cli.main`); the environment stays as it is, for workers.
    """
    if sys.getfilesystemencoding() != "utf-8":
        streams = getattr(sys.stdout, "encoding", None) or "ascii"
        options = ("-X", "utf8", "-X", f"orchestrate_streams={streams}")
        os.execv(sys.executable, [sys.executable, *options, *sys.orig_argv[1:]])  # noqa: S606 - our own words, no shell


def search_foreign_last() -> None:
    """Search the folders of PYTHONPATH after all others: a module of the user's may have the name of ours.

    They stay on the path, for an installation that is found by that variable alone.
    """
    foreign = {_absolute(folder) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder}
    sys.path.sort(key=(foreign - {os.path.dirname(os.__file__)}).__contains__)  # noqa: PTH120 - pathlib may be foreign


def _absolute(folder: str) -> str:
    try:
        return os.path.abspath(folder)  # noqa: PTH100 - as above
    except OSError:  # the current folder is gone
        return folder


if __name__ == "__main__":
    raise SystemExit(main())
