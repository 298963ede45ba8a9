"""What differs between two states of the active context, key by key."""

from collections.abc import Iterator

from orchestrator.state.ai_memory.context import is_empty
from orchestrator.state.ai_memory.context_read import Context, read
from orchestrator.state.ai_memory.context_write import ContextEdit, line_of


def edits_between(before: bytes | None, after: bytes) -> list[ContextEdit]:
    """Return what was added, changed and dropped. Raises StateError where a text cannot be read."""
    new = read(after)
    if is_empty(before):
        return [ContextEdit(one.section.title, "", "added", one.section.title) for one in new.sections]
    return [*_edits(read(before or b""), new)]


def _edits(old: Context, new: Context) -> Iterator[ContextEdit]:
    for section in new.sections:
        title = section.section.title
        was = old.section(title)
        if was is None:
            yield ContextEdit(title, "", "added", title)
            continue
        known = {key.name: key for key in was.keys}
        for key in section.keys:
            before = known.get(key.name)
            if before is None:
                yield ContextEdit(title, key.name, "added", key.value or "; ".join(map(line_of, key.items)))
                continue
            if before.value != key.value and (key.value or not key.items) and not (before.items or key.items):
                yield ContextEdit(title, key.name, "changed", key.value)
            yield from _items(title, key.name, [*map(line_of, before.items)], [*map(line_of, key.items)])
        if not section.section.keys:
            yield from _items(title, "", [*map(line_of, was.items)], [*map(line_of, section.items)])


def _items(title: str, name: str, old: list[str], new: list[str]) -> Iterator[ContextEdit]:
    yield from (ContextEdit(title, name, "dropped", text) for text in old if text not in new)
    yield from (ContextEdit(title, name, "added", text) for text in new if text not in old)
    if old != new and sorted(old) == sorted(new):
        yield ContextEdit(title, name, "moved", "")
