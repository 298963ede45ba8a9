"""`orchestrate archive` on the command line."""

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from orchestrator.cli.text import with_ending
from orchestrator.commands.answer import Answer
from orchestrator.commands.archive import DAYS, Arguments, size_of
from orchestrator.settings.values import read_size
from tickets.wording import count_of, rest_of

SHOWN = 20
"""How many items of a kind are shown by name before the rest is counted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `archive`."""
    parser.add_argument("--dry-run", action="store_true", help="only show what would move")
    parser.add_argument("--older-than", type=_age, metavar="AGE",
                        help=f"14, 14d, 2w or 36h: what is older is moved: open P2 items (default: {DAYS}d), "
                        "with `--runs`: runs in which nothing happened for that long")  # fmt: skip
    parser.add_argument("--no-commit", action="store_true", help="leave what was written uncommitted")
    parser.add_argument("--runs", action="store_true", help="old runs instead, to .taskers/archive")
    parser.add_argument(
        "--keep", type=int, metavar="N", help="with `--runs`: how many of the newest stay, 1 at least"
    )
    parser.add_argument("--max-size", type=_bytes, metavar="SIZE",
                        help="with `--runs`: pack the oldest until the others fit: 2GB")  # fmt: skip
    parser.add_argument("--delete-packed", action="store_true",
                        help="with `--runs --older-than`: delete archives instead of packing")  # fmt: skip


def lines(answer: Answer[None], arguments: Arguments) -> list[str]:
    """Return the answer as text."""
    document = answer.document
    if arguments.runs:
        noun = "archive" if arguments.delete_packed else "leftover"
        return with_ending(_run_lines(document, noun), answer)
    verb = "would move" if document["dry_run"] else "moved"
    said = [f"{verb:<11} {one['kind']}: {one['what']} -> {one['to']}" for one in document["moved"]]
    said = said or ["nothing is old enough to move"]
    if document["commit"]:
        said.append(f"commit      {document['commit'][:10]}")
    return with_ending(said, answer)


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"(-?[0-9]{1,5})([hdw]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"`{text}` is not an age: write 14, 14d, 2w or 36h")
    return timedelta(hours=int(found[1]) * {"h": 1, "w": 168}.get(found[2], 24))


def _bytes(text: str) -> int:
    try:
        return read_size(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"`{text}` is not a size: write 2GB or 500MiB") from None


def _run_lines(document: dict[str, Any], noun: str) -> list[str]:
    """Return what moved, what stays and why, and what was deleted; `noun` names one of them."""
    moved, kept, deleted = document["moved"], document["kept"], document["deleted"]
    moves, deletes = ("would move", "would go") if document["dry_run"] else ("moved", "deleted")
    lines = [f"{moves:<11} {one['what']} ({size_of(one['bytes'])}) -> {one['to']}" for one in moved[:SHOWN]]
    lines += [f"{'':<11} {line}" for line in rest_of(len(moved), SHOWN)]
    lines += _with_reasons("stays", "run", kept) + _with_reasons(deletes, "what", deleted)
    said = [count_of(len(found), name) for found, name in ((moved, "run"), (deleted, noun)) if found]
    nothing = "no archive is to go" if noun == "archive" else "no run is to go"
    return [*lines, f"{' and '.join(said)}, {size_of(document['bytes'])}" if said else nothing]


def _with_reasons(verb: str, name: str, found: Sequence[dict[str, Any]]) -> list[str]:
    lines = [f"{verb:<11} {one[name]} ({size_of(one['bytes'])}): {one['reason']}" for one in found[:SHOWN]]
    reasons = Counter(one["reason"] for one in found[SHOWN:])
    return lines + [
        f"{'':<11} {more}: {why}" for why, number in reasons.items() for more in rest_of(number, 0)
    ]
