"""A ticket has one scope: what the proof compared is what other runs see taken, and what it is judged by."""

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from orchestrator.execute.judgement import violations_of
from orchestrator.execute.landable import landable
from orchestrator.runs.manifest import Manifest, read_manifest, write_manifest
from orchestrator.runs.scopes_in_use import claimed, conflicts, holding_path, write
from tickets.plan import make_plan
from tickets.scopes.rules import PathRules
from tickets.ticket import Ticket
from workers.files.run_dir import new_run_dir
from workers.git.run import find_repository
from workers.worktree.changes import Change, Found

NAMES = ("a", "b", "A", "link", "STATUS.md")
TEXTS = st.lists(st.sampled_from((*NAMES, "*", "**")), min_size=1, max_size=3).map("/".join)
PATHS = [path for one in NAMES for path in (one, *(f"{one}/{two}" for two in NAMES), f"{one}/b/{one}")]
RULES = st.builds(
    PathRules,
    reserved=st.lists(st.sampled_from(("STATUS.md", "a/b/", "link", "**/.git/")), unique=True).map(tuple),
    links=st.dictionaries(st.sampled_from(("link", "STATUS.md")), st.sampled_from(("a", "b/a", None))),
    ignore_case=st.booleans(),
    files=st.lists(st.sampled_from(("a", "b", "a/b", "STATUS.md")), unique=True).map(tuple),
)


@pytest.fixture(scope="module")
def root():
    with TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", folder], check=True)
        yield Path(folder)


def began(root, ticket, rules):
    """Write down a run of one ticket, as it begins."""
    repository = find_repository(root)
    run = new_run_dir(root, datetime.now(UTC))
    manifest = Manifest(
        run=run.id, phase="p", created="", lead="", base="", branch=None, fence="none", tickets=(ticket,),
        dependencies={}, project="", reserved=rules.reserved, links=dict(rules.links),
        ignore_case=rules.ignore_case, files=rules.files,
    )  # fmt: skip
    write(repository, run, manifest)
    write_manifest(run, manifest)
    return repository, run


def ticket_of(owns, excludes=(), id_="t"):
    return Ticket(
        id=id_, template=f"{id_}.md", worker=id_, agent="codex", phase="p", title="t", body="b", mode="write",
        owns=tuple(owns), excludes=tuple(excludes),
    )  # fmt: skip


def claimed_by(repository, run):
    (found,) = [one for one in claimed(repository, None) if one.run == run.id]
    return found


@given(st.lists(TEXTS, min_size=1, max_size=3), st.lists(TEXTS, max_size=2), RULES)
@settings(max_examples=50, deadline=None)
def test_proof_holding_judging_and_landing_have_one_scope(root, owns, excludes, rules):
    ticket = ticket_of(owns, excludes)
    plan = make_plan([ticket], rules)
    assume(ticket.id in plan.scopes)
    proved = plan.scopes[ticket.id]
    repository, run = began(root, ticket, rules)
    try:
        manifest = read_manifest(run)
        assert manifest.rules.scope_of(ticket) == manifest.scopes[ticket.id] == proved
        assert claimed_by(repository, run).scope(ignore_case=rules.ignore_case) == proved
        changes = tuple(Change(path, "000000", "", "100644", "") for path in PATHS)
        judged = violations_of(
            ticket, Found(changes, ()), manifest.scopes["t"], manifest.rules.reserved_scope, ()
        )
        owned = [path for path in PATHS if proved.covers(path)]
        assert [path for path in PATHS if path not in {one.path for one in judged}] == owned
        assert [one.path for one in landable(ticket, changes, manifest.scopes["t"])] == owned
    finally:
        holding_path(repository, run).unlink()


def test_what_is_reserved_to_both_runs_is_no_conflict_between_them(root):
    rules = PathRules(("a/",))
    repository, run = began(root, ticket_of(["a", "b"]), rules)
    mine = ticket_of(["a", "c"], id_="mine")
    others = [claimed_by(repository, run)]
    # As a run sees it whose settings reserve nothing: the other one may not change `a` either way.
    assert not conflicts([mine], {"mine": PathRules().scope_of(mine)}, others, ignore_case=False)
    holding_path(repository, run).unlink()


def test_the_scopes_of_a_run_that_an_older_version_began_are_read(root):
    rules = PathRules(("a/",), {"link": "b"}, files=("b",))
    repository, run = began(root, ticket_of(["a", "link"]), rules)
    path = holding_path(repository, run)
    said = json.loads(path.read_bytes())
    del said["reserved"]
    path.write_text(json.dumps(said))
    taken = claimed_by(repository, run).scope(ignore_case=False)
    assert [one for one in ("a", "b", "b/c", "link") if taken.covers(one)] == ["a", "b"]
    path.unlink()
