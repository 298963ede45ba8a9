"""Old checkpoints: complete ones go, and one line of each stays in docs/history/checkpoints-YEAR.md."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from orchestrator.report.checkpoints import read_checkpoints, updated_of
from orchestrator.state import Tree
from orchestrator.state.checkpoints.form import Checkpoint
from orchestrator.state.checkpoints.glance import glance
from orchestrator.state.document import opened, state_errors
from orchestrator.store.read import read_state
from orchestrator.store.repo import UserRepo
from orchestrator.store.store import Recorded, Store
from tickets.markdown import insert, one_line
from tickets.wording import count_of
from workers.git.run import Repository


def archive_checkpoints(
    repository: Repository, at: datetime, age: timedelta, *, dry_run: bool, commit: bool
) -> tuple[list[dict[str, str]], Recorded]:
    """Move complete checkpoints that are older, where the last commit holds them; return them.

    Raises StateError where the history cannot be edited.
    """
    repo = UserRepo(repository)
    old = {
        one.path: _history_of(one)
        for one in read_checkpoints(repository).all
        if _is_old(one, at, age) and repo.committed(one.path) == read_state(repository.root, one.path)
    }
    moved = [{"kind": "checkpoint", "what": path, "to": to} for path, to in old.items()]
    if dry_run or not old:
        return moved, Recorded((), None, ())

    def moving(tree: Tree) -> Mapping[str, bytes | None]:
        texts: dict[str, bytes | None] = {}
        for path, to in old.items():
            text = tree.get(path)
            one = glance(path, text) if text else None
            if one is None or not _is_old(one, at, age):
                continue  # written since: it stays
            texts[path] = None
            texts[to] = _with_line(texts.get(to) or tree.get(to), to, one)
        return texts

    message = f"Archive {count_of(len(old), 'checkpoint')}\n"
    paths = (*old, *dict.fromkeys(old.values()))
    done = Store(repository).change(moving, paths=paths, message=message, commit=commit)
    return [one for one in moved if one["what"] in done.changed], done


def _is_old(one: Checkpoint, at: datetime, age: timedelta) -> bool:
    return one.status == "complete" and at - updated_of(one, at) > age


def _history_of(one: Checkpoint) -> str:
    return f"docs/history/checkpoints-{one.updated[:4]}.md"


def _with_line(before: bytes | None, path: str, one: Checkpoint) -> bytes:
    line = one_line(f"{one.updated} {one.feature} / {one.agent} ({one.team}): {one.last_action}")
    if not before:
        return f"# Checkpoints {one.updated[:4]}\n\n- {line}\n".encode()
    with state_errors():
        document = opened(path, before)
        return insert(document, len(document.data), f"- {line}").data
