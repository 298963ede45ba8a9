"""`orchestrate decide` on the command line: opens an editor where the arguments hold no decision."""

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from orchestrator.cli.options import add_from, add_lead
from orchestrator.cli.text import proposal_lines, recorded_lines, with_ending
from orchestrator.commands import decide
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.commands.decide import Arguments
from orchestrator.errors import USAGE, Refusal
from tickets.problems import Problem, ProblemError

FORM = """# A decision: fill in what follows, save, and leave the editor. Lines that begin with # go away.

Title:
Context:
Decision:

# One on each line, as often as wanted; leave out what does not apply.
Alternative:
Consequence: Positive:
Consequence: Negative:
Supersedes:
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `decide`."""
    parser.add_argument("title", nargs="?", metavar="TITLE", help="what was decided, in a few words")
    parser.add_argument("--context", metavar="TEXT", help="why a decision was needed")
    parser.add_argument("--decision", metavar="TEXT", help="what was decided")
    parser.add_argument("--alternative", action="append", metavar="TEXT",
                        help="what else was considered, and why not; may be repeated")  # fmt: skip
    parser.add_argument("--consequence", action="append", metavar="TEXT",
                        help="`Positive: …`, `Negative: …` or `Neutral: …`; may be repeated")  # fmt: skip
    parser.add_argument("--supersedes", action="append", metavar="ENTRY",
                        help="the heading of an earlier entry, or a unique part of it")  # fmt: skip
    parser.add_argument("--acknowledge-edit", action="store_true",
                        help="record that earlier entries were edited by hand")  # fmt: skip
    parser.add_argument("--phase", metavar="PHASE", help="keep it with this phase, not in DECISIONS.md")
    add_from(parser, "decisions")
    add_lead(parser)


def call(caller: Caller, arguments: Arguments, *, as_json: bool) -> Answer[None]:
    """Record the decision in the arguments; without one, the decision that a person writes into the form."""
    states = (
        arguments.title, arguments.context, arguments.decision, arguments.acknowledge_edit, arguments.run
    )  # fmt: skip
    if any(states) or as_json or not sys.stdin.isatty():
        return decide.call(caller, arguments)
    decide.check(caller)
    with _form() as text:
        return decide.call(caller, _with_form(arguments, text))


def lines(answer: Answer[None], arguments: Arguments) -> list[str]:
    """Return the answer as text."""
    document = answer.document
    if "proposals" in document:
        return proposal_lines(answer)
    if arguments.acknowledge_edit and not document["acknowledged"]:
        return with_ending(["no old entry was edited or removed"], answer)
    if arguments.acknowledge_edit:
        return recorded_lines([f"acknowledged: {one['title']}" for one in document["acknowledged"]], answer)
    return recorded_lines([f"decided: {one['title']}" for one in document["decisions"]], answer)


@contextlib.contextmanager
def _form() -> Iterator[str]:
    """Open the form in the user's editor; it is deleted once it is recorded. Raises Refusal.

    Where it is refused the file stays: the user should not have to write the text a second time.
    """
    import shutil  # noqa: PLC0415 - only for a person at a terminal
    import tempfile  # noqa: PLC0415 - as above

    folder = Path(tempfile.mkdtemp(prefix="orchestrate-decide-"))
    path = folder / "decision.md"
    text, kept = "", False
    try:
        with path.open("x") as form:
            form.write(FORM)
        text = _edited(path)
        yield text
    except ProblemError as error:
        kept = text not in ("", FORM)
        if not kept:
            raise
        note = Problem(str(path), "holds what you wrote", "take it from there", "info")
        code = error.exit_code if isinstance(error, Refusal) else USAGE
        raise Refusal(*error.problems, note, exit_code=code) from error
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


def _edited(path: Path) -> str:
    """Open a file in the user's editor; return its text then, "" where it was deleted. Raises Refusal."""
    import subprocess  # noqa: PLC0415 - only for a person at a terminal

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    # The setting may hold options, as git has it: the shell takes it apart.
    code = subprocess.run(["sh", "-c", f'{editor} "$1"', "sh", str(path)], check=False).returncode
    if code:
        problem = Problem(editor, f"ended with exit code {code}; nothing was recorded", "set `EDITOR`")
        raise Refusal(problem, exit_code=1)
    return path.read_text(errors="replace") if path.is_file() else ""


def _with_form(arguments: Arguments, text: str) -> Arguments:
    """Add the content of the form: a label begins a part, further lines belong to it."""
    parts: list[tuple[str, list[str]]] = []
    labels = ("title", "context", "decision", "alternative", "consequence", "supersedes")
    for line in text.splitlines():
        label, colon, rest = line.partition(":")
        if line.startswith("#"):
            continue
        if colon and label.strip().casefold() in labels:
            parts.append((label.strip().casefold(), [rest.strip()]))
        elif parts and line.strip():
            parts[-1][1].append(line.strip())
    said = [(label, " ".join(lines).strip()) for label, lines in parts]
    empty = {"", "Positive:", "Negative:", "Neutral:"}

    def all_of(name: str) -> tuple[str, ...]:
        return tuple(words for label, words in said if label == name and words not in empty)

    title, context, decision = (" ".join(all_of(name)) for name in labels[:3])
    return arguments._replace(
        title=title, context=context, decision=decision,
        alternative=(*arguments.alternative, *all_of("alternative")),
        consequence=(*arguments.consequence, *all_of("consequence")),
        supersedes=(*arguments.supersedes, *all_of("supersedes")),
    )  # fmt: skip
