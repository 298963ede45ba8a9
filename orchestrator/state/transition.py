"""What events make of the state files: documents are asked what an event concerns, and what it changes."""

from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence

from orchestrator.errors import StateError
from orchestrator.state import ALWAYS, DocumentModule, Tree, copies, documents, is_owned
from orchestrator.state.document import merge_conflicts
from orchestrator.state.events import Event
from tickets.problems import Problem, ProblemError
from tickets.value import Value


class Transition(Value):
    """The new texts of the files that some events change."""

    texts: dict[str, bytes | None]
    """None for a file that goes."""
    left: tuple[tuple[int, Problem], ...] = ()
    """Why a file of a family stays as it is, each with the index of the event that it does not show."""


def transition(
    tree: Tree, events: Sequence[Event], families: Collection[str], *, leaves: bool = False
) -> Transition:
    """Return what some events make of the files of the families that are on.

    Raises StateError where a file cannot show an event. One of a family is left as it is if that `leaves` it.
    """
    made: dict[str, bytes | None] = {}
    left: list[tuple[int, Problem]] = []
    now: ChainMap[str, bytes | None] = ChainMap(made, tree)  # type: ignore[arg-type]  # neither is written to
    for at, event in enumerate(events):

        def changed(
            document: DocumentModule, event: Event = event, at: int = at
        ) -> Mapping[str, bytes | None]:
            try:
                return _changed(now, document, event)
            except ProblemError as error:
                if not leaves or is_owned(document.OWNS[0], ALWAYS):
                    raise
                left.extend((at, problem._replace(severity="warning")) for problem in error.problems)
                return {}

        # The backlog receives what STATUS.md loses, and the decision log reads what it showed before: all of
        # them see the files as they were before the event.
        for new in [changed(document) for document in documents(families)]:
            made.update(new)
        for document in copies(families):
            made.update(changed(document))
    return Transition(made, tuple(left))


def _changed(tree: Tree, document: DocumentModule, event: Event) -> Mapping[str, bytes | None]:
    needed = document.needs(tree, event)
    # What cannot be read stops the event here: no document may take a part of the files for all of them.
    texts = {path: tree.get(path) for path in needed}
    if not texts:
        return {}
    if not is_owned(document.OWNS[0], ALWAYS) and (found := merge_conflicts(texts)):
        raise StateError(*found)
    return document.changes(tree, event)
