"""Shared by the commands that look after sessions: whether there are any, and whose runs are not finished."""

from datetime import datetime
from pathlib import Path

from orchestrator.errors import Refusal
from orchestrator.runs.manifest import read_manifest
from orchestrator.runs.state import unfinished_runs
from orchestrator.settings.recording import read_recording
from orchestrator.state.ai_memory.memory import PATH as MEMORY
from orchestrator.state.ai_memory.session_read import id_of
from orchestrator.state.events import SessionRetired, SessionsArchived
from orchestrator.store.read import FilesRead, read_state
from orchestrator.store.repo import UserRepo
from orchestrator.store.sessions import session_events
from orchestrator.store.store import SESSIONS, Recorded, Store
from tickets.wording import count_of
from workers.git.run import Repository

FAMILY = SESSIONS


def busy_leads(root: Path) -> tuple[str, ...]:
    """Return the leads of unfinished runs, which still write to their sessions."""
    leads = []
    for run in unfinished_runs(root):
        try:
            leads.append(read_manifest(run.run).lead)
        except Refusal:
            continue  # `resume` reports a manifest that cannot be read
    return tuple(leads)


def archive_sessions(
    repository: Repository, at: datetime, *, dry_run: bool, commit: bool
) -> tuple[list[dict[str, str]], Recorded]:
    """Close the sessions that nobody ended, and let old ones retire; return these. Raises StateError."""
    families = read_recording(repository.root).families
    if FAMILY not in families:
        return [], Recorded((), None, ())
    event = SessionsArchived(at, busy_leads(repository.root))
    tree = FilesRead(lambda path: read_state(repository.root, path))
    made = session_events(repository, UserRepo(repository), tree, [event], families)
    retired = [id_of(one.path) or "" for one in made if isinstance(one, SessionRetired)]
    done = Recorded((), None, ())
    if made and not dry_run:
        message = f"Archive {count_of(len(retired), 'session')}\n" if retired else "Close old sessions\n"
        done = Store(repository).record([event], families=families, message=message, commit=commit)
        retired = [one for one in retired if any(id_of(path) == one for path in done.changed)]
    return [{"kind": "session", "what": one, "to": MEMORY} for one in retired], done
