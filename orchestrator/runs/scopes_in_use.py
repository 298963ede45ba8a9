"""Scopes in use: the paths that the runs of a repository still own, in all of its worktrees.

Each run leaves what it owns in `<git common dir>/orchestrate/scopes/`, out of reach of workers and of whoever
deletes `.taskers/`. The runtime locks that file for life, a shim holds its slot; what neither holds is told
by the run's own files. A worker's scope is in use from the moment its run is written down until it has ended,
then the files that it changed, until they have landed or never will.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from orchestrator.errors import HELD, Refusal
from orchestrator.runs._shapes import Name, UnsoundError, typed
from orchestrator.runs.manifest import Manifest
from orchestrator.runs.next_action import wait_for
from orchestrator.runs.state import RunState, read_run
from orchestrator.step import Step, Waits
from tickets.problems import Problem
from tickets.scopes.rules import PathRules
from tickets.scopes.scope import PatternError, Scope, find_overlaps
from tickets.ticket import Ticket
from tickets.value import Value
from tickets.wording import count_of
from workers.files.durable import create_file
from workers.files.locks import held_lock, is_locked
from workers.files.run_dir import RunDir, read_json
from workers.git.run import Repository
from workers.pool.slots import holders

SCHEMA = 1
MOST_SHOWN = 20
"""How many conflicts one refusal lists; two runs of a thousand tickets may have as many."""

Standing = Literal["running", "interrupted", "not landed"]


class _Owner(NamedTuple):
    worker: str
    owns: tuple[str, ...]
    excludes: tuple[str, ...]


class _Holding(NamedTuple):
    """The file of one run, as `write` creates it."""

    run: Name
    root: str
    branch: str | None
    links: Mapping[str, str | None]
    files: tuple[str, ...]
    tickets: tuple[_Owner, ...]
    reserved: tuple[str, ...] = ()


class Claimed(NamedTuple):
    """The paths that one worker of another run still owns."""

    run: str
    root: Path
    worker: str
    owns: tuple[str, ...]
    excludes: tuple[str, ...]
    standing: Standing
    files: tuple[str, ...] = ()
    """The changes of an ended worker that have not landed; nothing else of its scope is in use then."""
    rules: PathRules = PathRules()
    """The rules of its run; case sensitivity is a fact of the file system that both runs share."""

    def scope(self, *, ignore_case: bool) -> Scope:
        """Return the paths that it may change; the whole repository where its patterns cannot be read."""
        try:
            rules = self.rules
            return PathRules(rules.reserved, rules.links, ignore_case, rules.files).scope_of(self)
        except PatternError:
            return Scope.of(["."], ignore_case=ignore_case)


class Conflict(Value):
    """A ticket that cannot start, the worker that blocks it, and a path that both own."""

    ticket: Ticket
    other: Claimed
    witness: str
    patterns: tuple[str, ...]
    """The patterns of the ticket that own the path."""
    others: tuple[str, ...]

    def problem(self) -> Problem:
        """Return the problem of this conflict."""
        mine, theirs = _listed(self.patterns), _listed(self.others)
        who = f"{self.other.worker} of run {self.other.run}"
        place = self.ticket.place("owns")
        if self.other.standing == "not landed":
            what = (
                f"`{self.ticket.id}` ({mine}) owns `{self.witness}`, which {who} changed and has not landed"
            )
            do = f"`orchestrate integrate {self.other.run}` first, or `--new` to begin without it"
            return Problem(place, what, do, witness=self.witness)
        what = f"`{self.ticket.id}` ({mine}) and {who} ({theirs}) both own `{self.witness}`"
        if self.other.files:
            what = f"`{self.ticket.id}` ({mine}) owns `{self.witness}`, which {who} changed"
        what += f", and that run is {self.other.standing}"
        if self.other.standing == "running":
            return Problem(
                place, what, "wait for it (`--wait S`), or narrow the ticket", witness=self.witness
            )
        do = f"`orchestrate resume {self.other.run}` or cancel it, or `--new` to begin without it"
        return Problem(place, what, do, witness=self.witness)


def holding_path(repository: Repository, run: RunDir) -> Path:
    """Return the file of a run's scopes: a run's id is unique only within one worktree."""
    import hashlib  # noqa: PLC0415 - for start-up time: a plan beside no run needs none

    place = hashlib.sha256(str(run.root).encode()).hexdigest()[:8]
    return repository.own / "scopes" / f"{run.id}-{place}.json"


def ids(repository: Repository) -> set[str]:
    """Return the ids of the runs in use in all work trees; whatever they share is named by the id alone."""
    return {path.stem.rpartition("-")[0] for path in (repository.own / "scopes").glob("*.json")}


def write(repository: Repository, run: RunDir, manifest: Manifest) -> None:
    """Write the scopes of a run, before any worker of it starts."""
    tickets = [
        {"id": ticket.id, "worker": ticket.worker, "owns": ticket.owns, "excludes": ticket.excludes}
        for ticket in manifest.tickets
        if ticket.id not in manifest.skipped and ticket.owns
    ]
    path = holding_path(repository, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    said = {
        "schema": SCHEMA, "run": run.id, "root": str(run.root), "branch": manifest.branch,
        "reserved": manifest.reserved, "links": manifest.links, "files": manifest.files, "tickets": tickets,
    }  # fmt: skip
    create_file(path, json.dumps(said).encode() + b"\n")


def drop(repository: Repository, run: RunDir) -> None:
    """Withdraw the scopes of a run, once nothing more can happen in it."""
    holding_path(repository, run).unlink(missing_ok=True)


@contextmanager
def held(repository: Repository, run: RunDir, manifest: Manifest) -> Iterator[None]:
    """Own the scopes of a run during the block, whatever happens to `.taskers/`."""
    path = holding_path(repository, run)
    if not path.exists():  # a closed run that is judged again
        with suppress(FileExistsError):
            write(repository, run, manifest)
    with held_lock(path):
        yield


def fingerprint(repository: Repository) -> Collection[Any]:
    """Return a value that changes whenever a scope may have been released."""
    seen: list[Any] = [_living(repository)]
    for path, said in _said(repository):
        journal = RunDir(Path(said["root"]), said["run"]).path / "events.jsonl"
        size = journal.stat().st_size if journal.exists() else None
        seen.append((path.name, _is_run(path, said), size))
    return seen


def drop_stale(repository: Repository) -> None:
    """Remove the files of runs in which nothing more can happen, `.taskers/` deleted or not."""
    living = _living(repository)
    for path, said in _said(repository):
        run = RunDir(Path(said["root"]), said["run"])
        state = read_run(run)
        # An unreadable run is not gone: its work may still be to land.
        gone = not state.is_unfinished if state else not run.manifest_path.exists()
        if gone and said["run"] not in living and not _is_run(path, said):
            path.unlink(missing_ok=True)
    for path in (repository.own / "scopes").glob("*.json"):
        # Cut short by a crash: it names no owner.
        if read_json(path) is None and path.is_file() and not is_locked(path):
            path.unlink(missing_ok=True)


def claimed(repository: Repository, branch: str | None, besides: RunDir | None = None) -> list[Claimed]:
    """List what other runs own at this moment; changes that wait to land count where they would land here."""
    living = _living(repository)
    found: list[Claimed] = []
    for path, said in _said(repository):
        run = RunDir(Path(said["root"]), said["run"])
        if besides is not None and path == holding_path(repository, besides):
            continue
        state = read_run(run)
        runs = _is_run(path, said)
        # A run of an older version does not list the reserved paths.
        rules = PathRules(tuple(said.get("reserved", ())), said["links"], files=tuple(said["files"]))
        is_hidden = state is None and run.manifest_path.exists()
        for one in said["tickets"]:
            is_alive = one["worker"] in living.get(run.id, ())
            standing, files = _standing(state, one["worker"], runs=runs, is_alive=is_alive)
            if is_hidden and standing is None:
                standing = "interrupted"  # its unlanded changes cannot be known
            if standing == "not landed" and (said["branch"] != branch or run.root != repository.root):
                continue
            if standing is not None:
                found.append(
                    Claimed(
                        run.id, run.root, one["worker"], tuple(one["owns"]), tuple(one["excludes"]),
                        standing, files, rules,
                    )
                )  # fmt: skip
    return found


def conflicts(
    tickets: Collection[Ticket],
    scopes: Mapping[str, Scope],
    others: Collection[Claimed],
    *,
    ignore_case: bool,
) -> list[Conflict]:
    """List every conflict of a ticket with a worker of another run. Raises PatternError."""
    mine = {ticket.id: ticket for ticket in tickets if ticket.id in scopes}
    if not others or not mine:
        return []
    theirs = {
        f"2 {number}": (other, other.scope(ignore_case=ignore_case))
        for number, other in enumerate(others)
        if not other.files
    }
    together = {f"1 {id_}": scopes[id_] for id_ in mine}
    together.update({name: scope for name, (_, scope) in theirs.items()})
    found = []
    for first, second, witness in find_overlaps(together, lambda one, two: one[0] == two[0]):
        other, scope = theirs[second]
        found.append(_conflict(mine[first[2:]], scopes[first[2:]], other, scope, witness))
    for other in others:
        for id_, ticket in mine.items():
            path = next((path for path in other.files if scopes[id_].covers(path)), None)
            if path is not None:
                found.append(_conflict(ticket, scopes[id_], other, None, path))
    return found


def refuse_conflicts(found: Collection[Conflict]) -> None:
    """Refuse to start tickets whose paths others own. Raises Refusal with exit code 5 on a conflict."""
    if not found:
        return
    problems = [conflict.problem() for conflict in found][:MOST_SHOWN]
    if len(found) > MOST_SHOWN:
        more = count_of(len(found) - MOST_SHOWN, "more ticket")
        problems.append(
            Problem("run", f"{more} with paths that other runs hold", "resolve them one run after another")
        )
    raise Refusal(*problems, exit_code=HELD, next_action=next_action(found))


def next_action(found: Collection[Conflict]) -> Step:
    """Return the command that would resolve the first conflict; the wait where no command can."""
    other = next(iter(found)).other
    if not RunDir(other.root, other.run).manifest_path.exists():
        what = f"{other.worker} of run {other.run} still runs, although the folder of that run is gone"
        return Waits("outside", f"{what}; `orchestrate ps` names its processes")
    if other.standing == "running":
        return wait_for(RunDir(other.root, other.run))
    return f"orchestrate {'resume' if other.standing == 'interrupted' else 'integrate'} {other.run}"


def is_holding(found: Any) -> bool:
    """Return whether this is the content of a run's file."""
    try:
        typed(_Holding, found)
    except UnsoundError:
        return False
    return True


def _said(repository: Repository) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    folder = repository.own / "scopes"
    with suppress(FileNotFoundError, NotADirectoryError):
        for path in sorted(folder.glob("*.json")):
            said = read_json(path)
            if said is not None and said.get("schema") == SCHEMA and is_holding(said):
                yield path, said


def _living(repository: Repository) -> dict[str, set[str]]:
    """Return the workers that hold a slot, by run: their shims live, or are being started."""
    found: dict[str, set[str]] = {}
    for taken in holders(repository.own / "slots"):
        if not taken.dirty:
            found.setdefault(taken.holder.get("run", ""), set()).add(taken.holder.get("worker", ""))
    return found


def _is_run(path: Path, said: Mapping[str, Any]) -> bool:
    """Return whether a runtime works on a run, its folder deleted or not."""
    return is_locked(path) or is_locked(RunDir(Path(said["root"]), said["run"]).path / "run.lock")


def _standing(
    state: RunState | None, worker: str, *, runs: bool, is_alive: bool
) -> tuple[Standing | None, tuple[str, ...]]:
    """Return why a worker's scope is in use, and the files to which that is limited; None where it is not."""
    known = state.workers.get(worker) if state is not None else None
    if state is None or known is None:
        # `.taskers/` was deleted: no file shows which workers have ended, and living ones may still write.
        return ("running", ()) if runs or is_alive else (None, ())
    if is_alive or (runs and not known.ended):
        return "running", ()
    if not state.is_unfinished:
        return None, ()
    if not known.ended:
        return "interrupted", ()
    waits = known.verdict == "pending" or state.is_to_land(worker)
    if waits and worker not in state.landings and known.evidence.files:
        return "running" if runs else "not landed", known.evidence.files
    return None, ()


def _conflict(ticket: Ticket, mine: Scope, other: Claimed, theirs: Scope | None, witness: str) -> Conflict:
    patterns = tuple(pattern.text for pattern in mine.owns if pattern.matches(witness))
    owned = theirs.owns if theirs else ()
    others = tuple(pattern.text for pattern in owned if pattern.matches(witness))
    return Conflict(ticket, other, witness, patterns, others)


def _listed(patterns: Collection[str]) -> str:
    return ", ".join(f"`{pattern}`" for pattern in patterns)
