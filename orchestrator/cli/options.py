"""Options that several commands declare in the same way."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add_lead(parser: "argparse.ArgumentParser") -> None:
    """Declare `--lead`."""
    parser.add_argument("--lead", metavar="NAME", help="who leads (default: git's user.name)")


def add_from(parser: "argparse.ArgumentParser", what: str) -> None:
    """Declare `--from` and `--take`."""
    parser.add_argument(
        "--from", dest="run", metavar="RUN", help=f"list the {what} that its workers proposed"
    )
    parser.add_argument(
        "--take", nargs="+", default=[], metavar="N", help="take these over, by number, or `all`"
    )


def add_tests(parser: "argparse.ArgumentParser", *, by_default: bool = False) -> None:
    """Declare the test options of a step; some steps run the tests unless told not to."""
    what = "run the tests of `[checks]` first; if they fail, nothing is recorded"
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--verify", action="store_true", default=None,
                     help=what + (" (done where any are set)" if by_default else ""))  # fmt: skip
    if by_default:
        how.add_argument("--no-verify", dest="verify", action="store_false", help="do not run the tests")
    parser.add_argument("--timeout", type=float, default=1800.0, metavar="S",
                        help="most seconds for each of them")  # fmt: skip
    parser.add_argument("--detach", dest="background", action="store_true",
                        help="wait 90 s at most; the same call waits on")  # fmt: skip
    add_lead(parser)


def add_checks(parser: "argparse.ArgumentParser", what: str) -> None:
    """Declare the option that runs the project's checks."""
    parser.add_argument("--verify", action="store_true", help=f"{what} (`[checks]` in orchestrate.toml)")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="S",
                        help="most seconds for one check (default: 300)")  # fmt: skip


def add_phase_options(parser: "argparse.ArgumentParser") -> None:
    """Declare the options that choose a phase's tickets: the same to show and to run them."""
    parser.add_argument("--only", nargs="+", metavar="TICKET", help="just these tickets")
    parser.add_argument("--again", action="store_true", help="also tickets that an earlier run has done")
    parser.add_argument("--continue", dest="continues", action="store_true",
                        help="what is unfinished, from what earlier runs have left of it")  # fmt: skip
    parser.add_argument("--strict-agents", action="store_true", help="refuse if an agent is missing or off")
    parser.add_argument("--on-overlap", choices=["refuse", "serialize"],
                        help="how to treat tickets that own the same path")  # fmt: skip


def add_start_options(parser: "argparse.ArgumentParser") -> None:
    """Declare the options of a command that starts workers."""
    add_lead(parser)
    add_detach(parser)
    parser.add_argument("--new", action="store_true", help="also if a run of the phase is unfinished")
    parser.add_argument("--wait", type=_seconds, metavar="S",
                        help="seconds to wait for scopes that other runs hold (default: 0)")  # fmt: skip


def add_detach(parser: "argparse.ArgumentParser") -> None:
    """Declare `--detach`."""
    parser.add_argument(
        "--detach", action="store_true", help="return at once; the run continues in the background"
    )


def _seconds(text: str) -> float:
    from argparse import ArgumentTypeError  # noqa: PLC0415 - for start-up time

    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise ArgumentTypeError(f"{text} is not a valid time to wait")
    return seconds
