"""Shared by the lead's writing commands: one event through the store, and the answer about it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from orchestrator.commands.answer import Answer, answer
from orchestrator.commands.caller import Caller, lead_of, repository_of
from orchestrator.errors import Refusal
from orchestrator.settings.recording import read_recording
from orchestrator.state.canonical.decisions.read import PATH as DECISIONS
from orchestrator.state.document import editable, refuse_open_fence, state_errors
from orchestrator.state.events import LeadEvent
from orchestrator.store.read import read_state
from tickets.markdown import Document, one_line, plain
from tickets.problems import Problem
from tickets.value import Value
from tickets.wording import some_of
from workers.git.run import Repository

_LISTS = {
    "TODO item": "todo", "deliverable": "deliverable", "criterion": "criterion", "checklist": "criterion",
    "phase": "phase",
}  # fmt: skip
"""By the name of a choice, the command that lists the choices."""


_PLURALS = {"criterion": "criteria", "entry": "entries"}
SHOWN = 8
"""How many choices a refusal names before it counts the rest."""


class Writer(Value):
    """The writer of a change, with its place and time."""

    repository: Repository
    lead: str
    at: datetime
    environ: Mapping[str, str]
    say: "Callable[[str], None] | None" = None
    """As `Caller.say`."""

    def text(self, path: str) -> bytes | None:
        """Read a state file. Raises Refusal where it cannot be read, or is a link out of the repository."""
        return read_state(self.repository.root, path)

    def document(self, path: str) -> Document:
        """Open a state file that is about to be changed. Raises StateError or Refusal."""
        with state_errors():
            return editable(path, {path: self.text(path)})

    def log(self) -> Document:
        """Open the decision log for a search: an entry hidden by a code fence must not count as missing.

        Raises StateError or Refusal.
        """
        document = self.document(DECISIONS)
        refuse_open_fence(document)
        return document


def writer_of(caller: Caller) -> Writer:
    """Return the writer of a change, with its place and time. Raises Refusal."""
    repository = repository_of(caller)
    lead = read_back(lead_of(caller, repository)).strip()
    return Writer(repository, lead or "unnamed lead", caller.now(), caller.environ, caller.say)


def record(
    writer: Writer,
    event: LeadEvent | None,
    message: str,
    *,
    next_action: str = "orchestrate status",
    warnings: Iterable[Problem] = (),
    **keys: Any,
) -> Answer[None]:
    """Record one event as one change, and answer with what is new; None: nothing is to be changed.

    Raises StateError, Refusal.
    """
    from orchestrator.store.repo import UserRepo  # noqa: PLC0415 - a command that only lists has no time for it
    from orchestrator.store.store import Store  # noqa: PLC0415 - as above

    events = [] if event is None else [event]
    repository = writer.repository
    families, commits = read_recording(repository.root)
    done = Store(repository).record(events, families=families, message=message, commit=commits)
    problems = [*warnings, *done.problems]
    if done.commit and UserRepo(repository).head().branch is None:
        what = f"is detached: commit {done.commit[:10]} is on no branch, and lost with the next checkout"
        problems.append(Problem("HEAD", what, "`git switch -c NAME` makes a branch of it", "warning"))
    if any(problem.severity == "error" for problem in problems):
        next_action = "orchestrate resume"
    return answer(problems, next_action, **keys, changed=list(done.changed), commit=done.commit)


def chosen(place: str, word: str, choices: Sequence[str], what: str) -> int:
    """Return the index of the choice that a word means: a number from 1, the whole text, or a unique part.

    Raises Refusal, which names what there is.
    """
    if word.isdecimal() and 1 <= int(word) <= len(choices):
        return int(word) - 1
    # Their own texts may name commands, and none of those is the way out.
    lists = f"orchestrate {_LISTS[what]} list" if what in _LISTS else ""
    wanted = " ".join(word.casefold().split())
    folded = [" ".join(choice.casefold().split()) for choice in choices]
    same = [at for at, choice in enumerate(folded) if choice == wanted]
    is_number = word.isdecimal()
    found = same or [at for at, choice in enumerate(choices) if not is_number and has_part(choice, word)]
    if len(found) == 1:
        return found[0]
    if found:
        named = some_of([f"{at + 1}: {choices[at]}" for at in found], SHOWN, between="; ")
        many = _PLURALS.get(what, f"{what}s")
        raise Refusal(
            Problem(place, f"`{word}` may be {len(found)} of the {many} ({named})", "give its number"),
            next_action=lists,
        )
    known = some_of([f"{at}: {choice}" for at, choice in enumerate(choices, 1)], SHOWN, between="; ")
    raise Refusal(
        Problem(place, f"no {what} reads `{word}`", f"there are: {known}" if known else "there is none"),
        next_action=lists,
    )


def has_part(text: str, word: str) -> bool:
    """Return whether a text has a part that a word means: one that begins where a word of the text begins."""
    wanted, folded = (" ".join(one.casefold().split()) for one in (word, text))
    return bool(wanted) and re.search(rf"(?<!\w){re.escape(wanted)}", folded) is not None


def given(place: str, text: str) -> str:
    """Return an argument's text as it will be written. Raises Refusal where it is empty."""
    said = read_back(text).strip()
    if not said:
        raise Refusal(Problem(place, "the text is empty", "write it in quotes"))
    return said


def read_back(text: str) -> str:
    """Return a text as a file will hold it: one line without control characters."""
    return plain(one_line(text))


def refuse_known(place: str, what: str, text: str, there: Iterable[str]) -> None:
    """Raise Refusal where a list holds a text already, whatever its case."""
    wanted = " ".join(read_back(text).casefold().split())
    for number, one in enumerate(there, 1):
        if " ".join(one.casefold().split()) == wanted:
            raise Refusal(
                Problem(place, f"the {what} `{one}` is there already (number {number})", "name another")
            )


def shortened(text: str, width: int = 60) -> str:
    """Cut a text for the subject of a commit, at a blank if there is one."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1].rsplit(" ", 1)[0] + "…"
