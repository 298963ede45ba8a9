"""`orchestrate decide TITLE`: add a decision to DECISIONS.md; an editor opens where nothing is given."""

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.cli.answer import Answer
from orchestrator.cli.commands._proposals import add_from, listing, proposed, taken
from orchestrator.cli.recording import Desk, add_lead, chosen, desk_of, read_back, record, shortened, shown
from orchestrator.errors import USAGE, Refusal
from orchestrator.report.decision_history import all_edits, fresh_edits
from orchestrator.state.canonical.decisions.read import PATH, spans
from orchestrator.state.events import Decided, Decision, EditsAcknowledged
from tickets.markdown import one_line, plain
from tickets.problems import Problem, ProblemError

_SAID = re.compile(r"^\*\*Decision:\*\*[ \t]*(.*?)[ \t]*$", re.MULTILINE)
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
    """Declare what `decide` takes."""
    parser.add_argument("title", nargs="?", metavar="TITLE", help="what was decided, in a few words")
    parser.add_argument("--context", metavar="TEXT", help="why a decision was needed")
    parser.add_argument("--decision", metavar="TEXT", help="what was decided")
    parser.add_argument("--alternative", action="append", default=[], metavar="TEXT",
                        help="what else was considered, and why not; may be repeated")  # fmt: skip
    parser.add_argument("--consequence", action="append", default=[], metavar="TEXT",
                        help="`Positive: …`, `Negative: …` or `Neutral: …`; may be repeated")  # fmt: skip
    parser.add_argument("--supersedes", action="append", default=[], metavar="ENTRY",
                        help="the heading of an earlier entry, or a unique part of it")  # fmt: skip
    parser.add_argument("--acknowledge-edit", action="store_true",
                        help="record that earlier entries were mended by hand")  # fmt: skip
    add_from(parser, "decisions")
    add_lead(parser)


def answer(arguments: argparse.Namespace) -> Answer:
    """Record a decision, or what `decide` was called for instead."""
    desk = desk_of(arguments)
    entries = [title for title, _ in spans(desk.log().data)]
    if arguments.acknowledge_edit:
        return _acknowledge(desk)
    if arguments.run:
        return _proposed(desk, arguments)
    if any((arguments.title, arguments.context, arguments.decision)) or arguments.json or not _at_terminal():
        made = Decision(arguments.title or "", arguments.context or "", arguments.decision or "")
        return _decide(desk, _with_more(made, arguments), entries)
    with _form() as text:
        return _decide(desk, _with_more(_from_form(text), arguments), entries)


def _decide(desk: Desk, made: Decision, entries: list[str]) -> Answer:
    """Record a decision that says all that it must. Raises Refusal."""
    problems = [
        Problem("decide", f"{name} is missing", f"give {option}")
        for name, option, said in (
            ("the title", "TITLE", made.title),
            ("the context", "`--context TEXT`: why a decision was needed", made.context),
            ("the decision", "`--decision TEXT`: what was decided", made.decision),
        )
        if not one_line(said)
    ]
    if problems:
        raise Refusal(*problems, next_action="orchestrate decide --help")
    old = [chosen(PATH, word, entries, "entry") for word in made.supersedes]
    return decided(desk, [made._replace(supersedes=tuple(entries[at] for at in old))])


def _proposed(desk: Desk, arguments: argparse.Namespace) -> Answer:
    found = proposed(desk, arguments.run, "decisions")
    if not arguments.take:
        said = {
            plain(match[1]) for _, body in spans(desk.document(PATH).data) for match in _SAID.finditer(body)
        }
        return listing(found, "decide", said)
    made = [
        Decision(
            shortened(one.text, 80), f"Proposed by {one.worker} in run {found.run} ({one.verdict}).", one.text
        )
        for one in taken(found, arguments.take)
    ]
    return decided(desk, made)


def decided(desk: Desk, made: list[Decision]) -> Answer:
    """Record decisions as one change."""
    made = [_readable(one) for one in made]
    warnings = [one.problem() for one in fresh_edits(desk.repository.root)]
    what = shortened(made[0].title) if len(made) == 1 else f"{len(made)} decisions"
    bullets = "\n".join(f"- {shortened(one.title, 90)}: {shortened(one.decision, 200)}" for one in made)
    shown_ones: list[dict[str, Any]] = [
        {"title": one.title, "date": f"{desk.at:%Y-%m-%d}", "supersedes": list(one.supersedes)}
        for one in made
    ]
    lines = [f"decided: {one.title}" for one in made]
    event = Decided(tuple(made), desk.at, desk.lead)
    return record(desk, event, f"Decided: {what}\n\n{bullets}\n", lines, warnings=warnings,
                  decisions=shown_ones)  # fmt: skip


def _readable(one: Decision) -> Decision:
    """Give a decision without what would act on a terminal, in its commit or in its answer."""
    title, context, decision = (read_back(text).strip() for text in one[:3])
    others, consequences = (
        tuple(said for text in texts if (said := read_back(text).strip()))
        for texts in (one.alternatives, one.consequences)
    )
    return Decision(title, context, decision, others, consequences, one.supersedes)


def _with_more(made: Decision, arguments: argparse.Namespace) -> Decision:
    """Add what was given by options, which a form may add to."""
    return made._replace(
        alternatives=(*arguments.alternative, *made.alternatives),
        consequences=(*arguments.consequence, *made.consequences),
        supersedes=(*arguments.supersedes, *made.supersedes),
    )


def _at_terminal() -> bool:
    return sys.stdin.isatty()


@contextlib.contextmanager
def _form() -> Iterator[str]:
    """Let the user fill in the form, which is taken away once it has served. Raises Refusal.

    Where it is refused what was written stays: nobody should have to find the words a second time.
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
    """Let the user edit a file; gives what it holds then, nothing where it is gone. Raises Refusal."""
    import subprocess  # noqa: PLC0415 - only for a person at a terminal

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    # The setting may hold options, as git has it: the shell takes it apart.
    code = subprocess.run(["sh", "-c", f'{editor} "$1"', "sh", str(path)], check=False).returncode
    if code:
        problem = Problem(editor, f"ended with exit code {code}; nothing was recorded", "set `EDITOR`")
        raise Refusal(problem, exit_code=1)
    return path.read_text(errors="replace") if path.is_file() else ""


def _from_form(text: str) -> Decision:
    """Read the form: a label begins a part, further lines belong to it."""
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
    return Decision(
        title, context, decision, all_of("alternative"), all_of("consequence"), all_of("supersedes")
    )  # fmt: skip


def _acknowledge(desk: Desk) -> Answer:
    found = {(one.edit.title, one.edit.now) for one in all_edits(desk.repository.root)}
    edits = tuple(sorted(found))
    facts = [{"title": title, "now": now} for title, now in edits]
    if not edits:
        return shown(["no old entry was edited or removed"], "orchestrate status", acknowledged=facts,
                     changed=[], commit=None)  # fmt: skip
    bullets = "\n".join(f"- {shortened(title, 90)} ({now})" for title, now in edits)
    event = EditsAcknowledged(edits, desk.at, desk.lead)
    message = f"Decided: acknowledge edits of earlier decisions\n\n{bullets}\n"
    return record(desk, event, message, [f"acknowledged: {title}" for title, _ in edits], acknowledged=facts)
