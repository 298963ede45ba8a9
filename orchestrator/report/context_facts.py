"""What a synchronization of the active context knows of git, runs and the machine."""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import Refusal
from orchestrator.report.sessions import sessions_of
from orchestrator.report.situation import Situation
from orchestrator.runs.state import RunState
from orchestrator.runs.worker_state import WENT_WRONG
from orchestrator.state import is_owned
from orchestrator.state.ai_memory.context_copies import blocked_line, item
from orchestrator.state.ai_memory.context_keys import NONE
from orchestrator.state.ai_memory.context_read import Context
from orchestrator.state.ai_memory.tasks import is_task_id
from tickets.value import Value
from workers.files.run_dir import read_json
from workers.git.run import GitError, git, git_fields, git_line

if TYPE_CHECKING:
    from orchestrator.settings.settings import Settings
    from tickets.ticket import Ticket

ACTIVE = 10
FAILING = 10
SESSIONS = 3
HISTORY = "change history of this context"
COMMITS = 50
"""How many commits are searched for the newest that is none of ours."""
SIGNATURE = 200
LIMIT = 5.0
"""Seconds that a command may take to say its version."""
OWNS = 5
_TIME = "%Y-%m-%dT%H:%M:%SZ"


class ContextFacts(Value):
    """Facts by the names of keys: texts, items with their sources, and the items about checkpoints."""

    texts: tuple[tuple[str, str], ...]
    lists: tuple[tuple[str, tuple[str, ...]], ...]
    blocked: tuple[str, ...]


def facts_of(found: Situation, context: Context | None, *, asks_versions: bool) -> ContextFacts:
    """Return the facts as of now; `asks_versions`: programs are asked for theirs, which takes a while."""
    settings = _settings(found)
    failure = _failure(found)
    texts = {
        "project_root": ".", **_verification(found), **_git(found), **failure,
        "os": os.uname().sysname, "shell": Path(os.environ.get("SHELL", "")).name or NONE,
    }  # fmt: skip
    of_task = [one for one in sessions_of(found) if context and one.task_id == context.text("task_id")]
    texts["sessions_spent"] = str(len(of_task))
    if asks_versions and settings is not None:
        texts["runtime_versions"] = _versions(settings.context.versions) or NONE
    lists = {
        "active_files": _active_files(found),
        "related_docs": _related_docs(found, context),
        "session_history": tuple(f"{one.path} \u2014 {HISTORY}" for one in reversed(of_task))[:SESSIONS],
        "failing_tests": tuple(one.name for one in found.figures if not one.passed)[:FAILING],
        "commands": _commands(settings),
        "stash_entries": tuple(_fields(found, "stash", "list", "-z", "--format=%gd %s")),
        "merge_conflicts": tuple(
            dict.fromkeys(_fields(found, "diff", "--name-only", "--diff-filter=U", "-z"))
        ),
        "last_terminal_sessions": tuple(f"`{one.command}` \u2192 {one.ended}" for one in found.figures[-3:]),
        **_failed_lists(found),
    }
    if (code := _related_code(found)) is not None:
        lists["related_code"] = code
    blocked = [one for one in found.checkpoints.open if one.status == "blocked"]
    return ContextFacts(tuple(texts.items()), tuple(lists.items()), tuple(map(blocked_line, blocked)))


def scopes_of(tickets: "Sequence[Ticket]") -> str:
    """Return what the tickets of a phase may change, for `scope_in`."""
    owned = dict.fromkeys(pattern for ticket in tickets for pattern in ticket.owns)
    return ", ".join([*owned][:OWNS])


def code_of(tickets: "Sequence[Ticket]") -> tuple[str, ...]:
    """Return the folders that tickets may change, for `related_code`."""
    return _code([(ticket.id, ticket.owns) for ticket in tickets])


def _code(tickets: Sequence[tuple[str, Sequence[str]]]) -> tuple[str, ...]:
    pairs = ((folder_of(str(pattern)), id_) for id_, owns in tickets for pattern in owns)
    return tuple(dict.fromkeys(item(folder, id_) for folder, id_ in pairs if folder))


def plan_files(root: Path) -> list[str]:
    """Return the files that a context is to list: plans, tasks put aside, contexts moved away."""
    memory = ("*_plan.md", "*_ctx.md", "active_context_*.md")
    found = [path for pattern in memory for path in (root / "ai_memory").glob(pattern)]
    found += (root / "phases").glob("*/PLAN.md")
    return sorted(path.relative_to(root).as_posix() for path in found)


def folder_of(pattern: str) -> str:
    """Return the folder of a pattern up to its first wildcard."""
    plain_ = re.split(r"[*?\[{]", pattern, maxsplit=1)[0]
    folder = (
        plain_.rpartition("/")[0] if plain_ != pattern or not plain_.endswith("/") else plain_.rstrip("/")
    )
    return f"{folder}/" if folder else ""


def language_of(settings: "Settings | None") -> str:
    """Return the language of the settings, else of the locale."""
    if settings is not None and settings.context.language:
        return settings.context.language
    said = next((os.environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if os.environ.get(name)), "")
    word = said.partition("_")[0].partition(".")[0].lower()
    return word if word.isalpha() and word not in ("c", "posix") else "en"


def _settings(found: Situation) -> "Settings | None":
    with suppress(Refusal):
        return found.settings
    return None


def _verification(found: Situation) -> Mapping[str, str]:
    green = [one for one in found.figures if one.passed]
    if not green:
        return {}
    newest = max(green, key=lambda one: one.at)
    with suppress(ValueError):
        at = f"{datetime.fromisoformat(newest.at).astimezone(UTC):{_TIME}}"
        said = f"{at} at {newest.commit[:10]} ({newest.name}: {newest.good}/{newest.total})"
        return {"last_green_build": said, "last_successful_run": at}
    return {}


def _git(found: Situation) -> Mapping[str, str]:
    branch = (found.head.branch or "").removeprefix("refs/heads/") or "detached HEAD"
    origin = _line(found, "symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD")
    changed = [path for path in found.uncommitted if not is_owned(path)]
    return {
        "current_branch": branch,
        "base_branch": origin.partition("/")[2] or branch,
        "uncommitted_changes": str(len(changed)),
        "last_commit": _last_commit(found),
    }


def _last_commit(found: Situation) -> str:
    """Return the newest commit that does not change state files alone: those follow from it."""
    form = ("log", f"-{COMMITS}", "--no-renames", "--name-only", "--format=%x1e%H%x1f%s")
    with suppress(GitError):
        said = git("-c", "core.quotePath=false", *form, cwd=found.repository.root)
        for one in said.decode("utf-8", "replace").split("\x1e")[1:]:
            head, *paths = filter(None, one.splitlines())
            sha, _, subject = head.partition("\x1f")
            if not paths or not all(map(is_owned, paths)):
                return f"{sha[:10]} {subject}"
    return NONE


def _active_files(found: Situation) -> tuple[str, ...]:
    open_ = [item(path, "uncommitted") for path in found.uncommitted if not is_owned(path)]
    landed = []
    for run in reversed(found.runs):
        for name, commit in run.landings.items():
            files = run.workers[name].evidence.files if commit else ()
            landed += [item(path, f"landed {(commit or '')[:10]}") for path in files]
    return tuple(dict.fromkeys((*open_, *landed)))[:ACTIVE]


def _related_docs(found: Situation, context: Context | None) -> tuple[str, ...]:
    root = found.repository.root
    theirs = {one.text for one in (context.list("related_docs") if context else ()) if not one.source}
    tasks = {f"{one.task_id.lower()}_ctx.md": one.task_id for one in (context.secondary if context else ())}
    paths = [(path, _task_of(path.rpartition("/")[2], tasks)) for path in plan_files(root)]
    return tuple(item(path, source) for path, source in paths if path not in theirs)


def _task_of(name: str, tasks: Mapping[str, str]) -> str:
    """Return the task that a file of sections put aside belongs to; `sync` for any other plan file."""
    task = name.removesuffix("_ctx.md").upper()
    return tasks.get(name) or (task if name.endswith("_ctx.md") and is_task_id(task) else "sync")


def _related_code(found: Situation) -> tuple[str, ...] | None:
    """Return the folders that the tickets of the current phase own, by its newest run; None without one."""
    phase = found.status.phase_slug if found.status else ""
    run = next((one for one in reversed(found.runs) if one.phase == phase), None)
    if run is not None:
        # As JSON: all of a manifest takes as long to import as the rest of this command.
        found_ = read_json(run.run.manifest_path) or {}
        pairs = [
            (one.get("id"), one.get("owns")) for one in found_.get("tickets", ()) if isinstance(one, dict)
        ]
        return _code([(id_, owns) for id_, owns in pairs if isinstance(id_, str) and isinstance(owns, list)])
    return None


def _commands(settings: "Settings | None") -> tuple[str, ...]:
    if settings is None:
        return ()
    checks = settings.checks
    said = (checks.smoke, checks.unit, checks.integration, checks.test)
    return tuple(f"`{one}` \u2190 orchestrate.toml" for one in dict.fromkeys(said) if one)


def _failed(found: Situation) -> tuple[RunState, str] | None:
    """Return the newest worker that did not end well, unless a later run has done better."""
    for run in reversed(found.runs):
        for name, worker in run.workers.items():
            if worker.outcome in WENT_WRONG and not worker.lands:
                return run, name
        if any(worker.lands for worker in run.workers.values()):
            return None
    return None


def _failure(found: Situation) -> Mapping[str, str]:
    red = [one for one in found.figures if not one.passed]
    failed = _failed(found)
    if failed is not None:
        run, name = failed
        worker = run.workers[name]
        is_test = any(not one.passed for one in worker.evidence.acceptance)
        return {
            "last_failure_time": worker.evidence.ended_at or run.run.id,
            "failure_type": "test" if is_test else "runtime",
            "error_signature": (worker.found or worker.reason or worker.ended_as)[:SIGNATURE],
            "resolution_status": "pending",
        }
    if red:
        newest = max(red, key=lambda one: one.at)
        return {
            "last_failure_time": newest.at,
            "failure_type": "test",
            "error_signature": f"{newest.name}: {newest.how()}"[:SIGNATURE],
            "resolution_status": "pending",
        }
    return {"resolution_status": "resolved"}


def _failed_lists(found: Situation) -> Mapping[str, tuple[str, ...]]:
    failed = _failed(found)
    if failed is None:
        return {"failing_files": (), "attempted_fixes": ()}
    run, name = failed
    worker = run.workers[name]
    source = f"run {run.run.id}"
    tries = [
        item(f"attempt {one.attempt}: {one.reason or one.outcome}", source) for one in worker.evidence.tries
    ]
    return {"failing_files": tuple(worker.evidence.files[:FAILING]), "attempted_fixes": tuple(tries)}


def _versions(commands: Sequence[str]) -> str:
    """Return the first line of what each command says; those that are not there are left out."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    with ThreadPoolExecutor(max(1, len(commands))) as pool:
        said = [*pool.map(_version, commands)]
    return ", ".join(filter(None, said))


def _version(command: str) -> str:
    import subprocess  # noqa: PLC0415

    words = command.split()
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=LIMIT, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    lines = (done.stdout or done.stderr).strip().splitlines()
    if done.returncode or not lines:
        return ""
    said = lines[0].replace("version ", "").strip()
    first, _, rest = said.partition(" ")
    return f"{first.lower()} {rest}" if first.isalpha() and rest else f"{words[0]} {said.removeprefix('v')}"


def _line(found: Situation, *arguments: str) -> str:
    with suppress(GitError):
        return git_line(*arguments, cwd=found.repository.root)
    return ""


def _fields(found: Situation, *arguments: str) -> list[str]:
    with suppress(GitError):
        return git_fields(*arguments, cwd=found.repository.root)
    return []
