"""Arguments to a namespace. Imports argparse and nothing slower, to keep `--help` quick."""

import argparse
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

from orchestrator import __version__
from orchestrator.cli.terminal.terminal import columns
from orchestrator.commands.table import COMMANDS


class UsageError(Exception):
    """Raised for an invalid argument: what is wrong, and what to do."""

    def __init__(self, what: str, do: str = "") -> None:
        self.what = what
        self.do = do
        super().__init__(what)


def parser_for(arguments: list[str]) -> argparse.ArgumentParser:
    """Make the parser: every command's name, and the arguments of the commands in `arguments`."""
    parser = _Parser(
        prog="orchestrate", description="Lead teams of coding agents from files.", epilog=_listed()
    )
    add_common(parser)
    # Set here and not on the options: those of a command would overwrite a value from before it.
    parser.set_defaults(project=None, json=False)
    parser.add_argument("--version", action="version", version=f"orchestrate {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", help="one of those below",
                                     parser_class=_Parser)  # fmt: skip
    # The others are not needed here, and to make all of them takes longer than to print the help.
    for name in (name for name in COMMANDS if name in arguments):
        command = COMMANDS[name]
        # What is not given is not set: the defaults stand in the fields of the command's `Arguments`.
        sub = commands.add_parser(name, description=command.help, argument_default=argparse.SUPPRESS)
        add_common(sub)
        if command.module:
            import_module(f"orchestrator.cli.{command.module}").add_arguments(sub)
        else:
            sub.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def add_actions(parser: argparse.ArgumentParser) -> Callable[[str, str], argparse.ArgumentParser]:
    """Declare that a command has actions (`todo add`); return the function that declares one."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=_Mixed)

    def add(name: str, purpose: str) -> argparse.ArgumentParser:
        action = actions.add_parser(
            name, help=purpose, description=purpose, argument_default=argparse.SUPPRESS
        )
        add_common(action)
        return action

    return add


def _listed() -> str:
    lines = ["commands:"]
    lines += [f"  {name:<11} {command.help}" for name, command in COMMANDS.items()
              if command.module and name[0] != "_"]  # fmt: skip
    later = [name for name, command in COMMANDS.items() if not command.module]
    rows = [later[at : at + 8] for at in range(0, len(later), 8)]
    return "\n".join([*lines, "", "not built yet:", *(f"  {', '.join(row)}" for row in rows)])


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str, **options: Any) -> None:
        # Told the width, argparse need not ask shutil for it, which would import three compressors.
        super().__init__(prog, max_help_position=22, width=min(columns(), 100) - 2, **options)


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        # An abbreviated `--js` would mean `--json` here, but not to code that looks for that word.
        super().__init__(**options, formatter_class=_Help, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        unknown = re.match(r"argument COMMAND: invalid choice: '(.*)' \(choose from", message, re.DOTALL)
        if unknown is None:
            raise UsageError(message, f"see `{self.prog} --help`")
        from difflib import get_close_matches  # noqa: PLC0415 - only for a slip in a name

        near = get_close_matches(unknown[1], COMMANDS, 1)
        do = f"did you mean `orchestrate {near[0]}`?" if near else "see `orchestrate --help`"
        raise UsageError(f"there is no command `{unknown[1]}`", do)


class _Mixed(_Parser):
    """Accepts words before and behind options: argparse alone would find no words in `add --from RUN`."""

    _inside = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, options first; argparse calls this method again for the rest."""
        if self._inside:
            return super().parse_known_args(args, namespace)
        self._inside = True
        try:
            found, rest = self.parse_known_intermixed_args(_masked(args), namespace)
        finally:
            self._inside = False
        for name, given in vars(found).items():
            setattr(found, name, [_bare(one) for one in given] if isinstance(given, list) else _bare(given))
        return found, [_bare(one) for one in rest]


_MASK = "\0"
"""No argument can hold this character."""


def _masked(args: list[str]) -> list[str]:
    """Mask words behind `--` as words: argparse forgets that mark where words and options mix."""
    at = args.index("--") if "--" in args else len(args)
    return [*args[:at], *(_MASK + word for word in args[at + 1 :])]


def _bare(given: Any) -> Any:
    return given.removeprefix(_MASK) if isinstance(given, str) else given


def add_common(parser: argparse.ArgumentParser) -> None:
    """Declare the options of every command and of every action."""
    parser.add_argument("--project", type=_path, default=argparse.SUPPRESS, metavar="DIR",
                        help="the repository (default: the one around the current folder)")  # fmt: skip
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS,
                        help="answer with one JSON document")  # fmt: skip


def _path(text: str) -> object:
    from pathlib import Path  # noqa: PLC0415 - for start-up time

    return Path(text)
