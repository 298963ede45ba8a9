"""Rules that are held by the syntax trees of the packages: who replaces files, prints, asks the clock."""

import ast
from itertools import combinations
from pathlib import Path

import pytest
from support.paths import ROOT
from support.sources import modules, other_modules

from orchestrator.prepare.templates import path_rules
from orchestrator.state import FAMILIES, copies, documents, owned_paths
from orchestrator.store.repo import UserRepo
from tickets.scopes.scope import Scope
from workers.git.run import find_repository

REPLACES = {
    "orchestrator/cli/main.py": ({"open"}, "the null device, in the place of a closed standard stream"),
    "orchestrator/cli/background.py": (
        {"open", "rename"}, "what a call in the background prints, under its lock"
    ),
    "orchestrator/execute/runtime_lifecycle.py": ({"write_text"}, "its process id, in the run's own lock"),
    "orchestrator/schedule/login_lock.py": ({"replace_file"}, "who goes alone, beside the slots"),
    "orchestrator/store/_replace.py": (
        {"exchange", "replace", "replace_file", "write_over"},
        "the sole writer's hands: written beside a target, then moved over it",
    ),
    "orchestrator/messages/_copy.py": ({"append_line"}, "the copy of messages, under the run's lock"),
    "orchestrator/messages/plans.py": ({"write_text"}, "what a plan's check printed, in scratch"),
    "orchestrator/archive/_pack.py": ({"rename"}, "the folder of an old run that is packed"),
    "orchestrator/schedule/rate_limits.py": ({"replace_file"}, "a provider's state, beside the slots"),
    "orchestrator/store/repo.py": ({"write_bytes"}, "texts to merge, a HEAD for a moment: in own folders"),
    "orchestrator/store/folding.py": ({"write_over"}, "the note of the last state commit, under the lock"),
    "orchestrator/store/store.py": ({"open"}, "its lock file"),
    "orchestrator/store/uncommitted.py": ({"write_over"}, "the note of what runs wrote, under the lock"),
    "orchestrator/store/_placing.py": (
        {"exchange", "rename", "replace", "write_over"}, "the user's code, as the store has decided"
    ),
    "orchestrator/demo/fix_faults.py": ({"write_bytes", "write_text"}, "a worker's program, in its worktree"),
    "orchestrator/rehearsal/agent.py": ({"open"}, "a rehearsed worker's own file, in its worktree"),
    "orchestrator/budget/ledger.py": ({"append_line"}, "the ledger of the days, under its lock"),
    "orchestrator/commands/_detach.py": ({"open"}, "the log of a runtime of its own, appended to"),
    "orchestrator/cli/terminal/terminal.py": ({"open"}, "/dev/null, where a reader of ours has gone"),
    "workers/worktree/worktree.py": (
        {"copy2", "replace", "rename", "write_bytes"}, "a worktree in the making: nobody else knows its place"
    ),
    "workers/worktree/changes.py": (
        {"write_text", "write_bytes", "copy2", "replace"}, "our bare repository and our indexes"
    ),
    "workers/worktree/carry.py": ({"write_text"}, "a repository of ours in a temporary folder"),
    "workers/git/metadata.py": ({"append_line"}, "the list of our own moves of refs"),
    "workers/worktree/_filters.py": ({"copy2"}, "an index of our own, for one question"),
    "workers/worktree/checkout.py": ({"copy2"}, "into a fresh worktree, where no file may be at the path"),
    "workers/worktree/environments.py": ({"write_bytes"}, "copies in a fresh worktree of its own"),
    "workers/files/journal.py": ({"open"}, "the journal of a run, appended to"),
    "workers/files/durable.py": (
        {"open", "replace", "write_over"}, "the one place that does it for those above and below"
    ),
    "workers/files/locks.py": ({"open"}, "lock files"),
    "workers/pool/slots.py": ({"open", "ftruncate"}, "a slot is a lock file that says who holds it"),
    "workers/engine/local.py": (
        {"write_text", "write_bytes"}, "a check's own worktree and temporary files, before it begins"
    ),
    "workers/engine/process.py": ({"open"}, "the shims' log, appended to"),
    "workers/messages/own_log.py": (
        {"open", "ftruncate"}, "the own log of a participant: appended to, and a short write undone"
    ),
    "workers/messages/scratch.py": ({"open"}, "signs and notes of server and hooks, in the worker's scratch"),
    "workers/shim/shim.py": ({"ftruncate"}, "a slot that is given back says nobody any more"),
    "workers/shim/atomic.py": ({"open"}, "a file that gets a free name once it is whole"),
}  # fmt: skip
"""What may write over a file: module, by which calls, and why that breaks no promise."""

DOCUMENTS = (*documents(FAMILIES), *copies(FAMILIES))
"""Every document there is."""

READS = {
    "orchestrator/cli/decide.py": "a form in a folder that was made for it",
    "orchestrator/commands/fake_agent.py": "a stand-in that `fake-agent` made, looked at by kind first",
    "orchestrator/commands/init.py": "templates of the package",
    "orchestrator/demo/fix_faults.py": "a worker's own program, in its worktree",
    "orchestrator/demo/sample.py": "files of the package",
    "orchestrator/rehearsal/_memory.py": "a rehearsed agent's own memory",
    "orchestrator/settings/settings.py": "a file of the package: all settings with their defaults",
    "orchestrator/state/facts.py": "files of the package: the texts of new state files",
    "orchestrator/store/intent.py": "a work tree's git file, by which it was found",
    "orchestrator/archive/garbage.py": "git's own list of work trees",
    "orchestrator/schedule/pacing.py": "/proc and /sys",
    "workers/worktree/changes.py": "settings of git's own folder, a patch that we have just made",
    "workers/worktree/carry.py": "a patch that git has just read",
    "workers/worktree/_filters.py": "files of a worktree, listed as regular",
    "workers/git/run.py": "a work tree's git file",
    "workers/files/durable.py": "a file that we have just made",
    "workers/git/snapshot.py": "git's own folder, looked at by kind first",
    "workers/engine/process.py": "/proc, and what a living shim has written",
    "workers/git/refs.py": "git's own folder",
    "workers/shim/shim.py": "/proc",
    "workers/shim/start.py": "what a program that we started has printed",
    "workers/worktree/submodules.py": "an index of git's",
}
"""Who opens files to read them past `workers.files.read`, and what these are: in place of any other a
pipe may stand, at which we would wait for ever, or a device without end."""

ONLY_HERE = {
    "git": ("orchestrator/store/repo.py",),
    "filelock": ("orchestrator/store/store.py",),
    "jinja2": ("tickets/templates/_sandbox.py",),
    "pyromark": ("tickets/markdown/",),
    "yaml": ("tickets/templates/_front_matter.py", "tickets/markdown/_front_matter.py"),
    "structlog": ("orchestrator/log.py",),
    "psutil": ("orchestrator/schedule/pacing.py",),
    "argparse": ("orchestrator/cli/", "orchestrator/demo/fix_faults.py"),
    "anyio": ("workers/", "orchestrator/"),
    "subprocess": ("workers/", "orchestrator/"),
}

OWN_CLOCK = ("workers/shim/shim.py", "orchestrator/rehearsal/_streams.py")
"""A shim outlives the runtime, so it cannot be told the time; a fake agent is a program of its own."""

CLOCK = {"now", "utcnow", "today", "time", "time_ns", "ctime", "localtime", "gmtime", "strftime"}


DURABLE = ("append_line", "exchange", "replace_file", "write_over")
"""What `workers.files.durable` offers beside creating files: each caller needs a reason, too."""


def called(node):
    """Return (object, name) of a call; `os.replace(…)` is ("os", "replace")."""
    if isinstance(node.func, ast.Attribute):
        on = node.func.value
        return getattr(on, "id", getattr(on, "attr", "")), node.func.attr
    return "", getattr(node.func, "id", "")


def calls(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def overwrites(node):
    """Name the way in which a call may write over a file that is there; None where it does not."""
    on, name = called(node)
    plain = len(node.args) + len(node.keywords)
    if name == "replace":
        # Texts take two arguments, dates take names: one plain argument is a path's.
        return "replace" if on == "os" or (plain == 1 and len(node.args) == 1) else None
    if name in ("rename", "renames", "write_text", "write_bytes", *DURABLE):
        return name
    if (on in ("os", "shutil") and name in ("truncate", "ftruncate", "move")) or (
        name.startswith("copy") and on == "shutil"
    ):
        return name
    if (on, name) == ("os", "open"):
        flags = ast.unparse(node.args[1])
        writes = any(flag in flags for flag in ("O_WRONLY", "O_RDWR", "O_TRUNC", "O_APPEND"))
        return "open" if writes and ("O_EXCL" not in flags or "O_TRUNC" in flags) else None
    if name in ("open", "fdopen"):
        at = 0 if isinstance(node.func, ast.Attribute) and on not in ("os", "io") else 1
        modes = [*node.args[at : at + 1], *(word.value for word in node.keywords if word.arg == "mode")]
        return "open" if any(set(str(getattr(mode, "value", ""))) & set("wa+") for mode in modes) else None
    return None


def test_only_the_store_and_a_few_with_a_reason_write_over_files():
    found = {}
    for path, tree in modules().items():
        ways = {way for node in calls(tree) if (way := overwrites(node))}
        if ways:
            found[path] = ways
    allowed = {path: ways for path, (ways, _) in REPLACES.items()}
    # Both ways: an entry that nothing needs any more would let the next writer in unseen.
    assert found == allowed


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("os.replace(a, b)", "replace"), ("path.replace(other)", "replace"), ("text.replace('a', 'b')", None),
        ("at.replace(tzinfo=UTC)", None), ("path.rename(b)", "rename"), ("open(p, 'w')", "open"),
        ("path.open(mode='ab')", "open"), ("path.open()", None), ("path.open('rb')", None),
        ("open(p, 'x')", None),
        ("path.write_text('')", "write_text"), ("os.open(p, os.O_WRONLY | os.O_CREAT)", "open"),
        ("os.open(p, os.O_WRONLY | os.O_CREAT | os.O_EXCL)", None), ("shutil.copyfile(a, b)", "copyfile"),
        ("os.fdopen(d, 'r+')", "open"), ("replace_file(p, b'', synced=True)", "replace_file"),
        ("exchange(p, q)", "exchange"),
         ("shutil.move(a, b)", "move"), ("os.truncate(p, 0)", "truncate"),
    ],
)  # fmt: skip
def test_a_call_that_writes_over_a_file_is_seen(text, way):
    assert overwrites(ast.parse(text).body[0].value) == way


def reads(node):
    """Return whether a call opens a file for reading without a check of its kind."""
    on, name = called(node)
    if name in ("read_bytes", "read_text"):
        return True
    if name != "open" or on in ("os", "tarfile", "io"):
        return False
    at = 0 if isinstance(node.func, ast.Attribute) else 1
    modes = [*node.args[at : at + 1], *(word.value for word in node.keywords if word.arg == "mode")]
    return not any(set(str(getattr(mode, "value", ""))) & set("wax") for mode in modes)


def test_files_are_read_at_one_door_but_for_a_few_with_a_reason():
    found = {path for path, tree in modules().items() if any(map(reads, calls(tree)))}
    assert found == set(READS)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("path.read_bytes()", True), ("path.read_text()", True), ("path.open()", True), ("open(p)", True),
        ("path.open('rb')", True), ("path.open('x')", False), ("path.open(mode='ab')", False),
        ("open(p, 'w')", False), ("read_whole(path)", False), ("os.open(p, 0)", False),
    ],
)  # fmt: skip
def test_a_call_that_reads_a_file_is_seen(text, is_one):
    assert reads(ast.parse(text).body[0].value) is is_one


def imports(tree):
    """Yield (line, top-level package) of each import."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        yield from ((node.lineno, name.partition(".")[0]) for name in names)


def test_each_library_is_used_where_it_belongs():
    strays = [
        f"{path}:{line} imports {top}"
        for path, tree in modules().items()
        for line, top in imports(tree)
        if top in ONLY_HERE and not path.startswith(ONLY_HERE[top])
    ]
    assert strays == []


def test_only_the_store_has_files_moved():
    users = [
        path for path in modules() if "from orchestrator.store._replace import" in (ROOT / path).read_text()
    ]
    assert users == ["orchestrator/store/store.py"]


def test_only_the_command_line_prints_and_asks_the_clock():
    strays = []
    for path, tree in modules().items():
        if path.startswith("orchestrator/cli/"):
            continue
        for node in calls(tree):
            on, name = called(node)
            asks = name in CLOCK and on in ("datetime", "date", "time") and path not in OWN_CLOCK
            if asks or (not on and name == "print"):
                strays.append(f"{path}:{node.lineno} calls {name}")
    assert strays == []


def test_every_path_has_one_document_that_owns_it():
    scopes = {document.__name__: Scope.of(document.OWNS) for document in DOCUMENTS}
    assert len(scopes) == len(DOCUMENTS) > 1
    for (first, one), (second, two) in combinations(scopes.items(), 2):
        assert one.overlaps(two) is None, (first, second)


def test_the_table_of_documents_has_what_each_owns():
    assert sorted(owned_paths()) == sorted(path for document in DOCUMENTS for path in document.OWNS)


def test_no_ticket_can_own_what_a_document_owns(lab):
    rules = path_rules(lab.root, UserRepo(find_repository(lab.root)), FAMILIES, (), has_base=True)
    for document in DOCUMENTS:
        assert Scope.of(document.OWNS).within(rules.reserved_scope), document.__name__


def long_functions(trees):
    """Name the functions that fit no screen."""
    functions = [
        (path, node)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return [f"{path}: {one.name}" for path, one in functions if (one.end_lineno or 0) - one.lineno >= 60]


def test_modules_and_functions_can_be_read():
    assert long_functions(modules()) == []


def test_test_modules_can_be_read_too():
    found = [path for path in other_modules() if path.startswith("tests/")]
    assert len(found) > 100
    assert long_functions({path: other_modules()[path] for path in found}) == []
    # Helpers are imported, so that a reader and an editor can follow them.
    others = [ROOT / path for path in found if ROOT / path != Path(__file__)]
    loaded = [path.name for path in others if "run_path" in path.read_text()]
    assert loaded == []


def test_no_module_has_a_name_that_says_nothing():
    vague = {"utils", "util", "helpers", "helper", "common", "base", "manager", "service", "misc", "tools"}
    assert [path for path in modules() if vague & set(Path(path).stem.split("_"))] == []


def docstrings(tree):
    """Yield (line, docstring) of a module, its classes and its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


def test_docstrings_begin_with_the_verb_that_the_value_needs():
    vague = {"Give", "Gives", "Say", "Says", "Tell", "Tells"}
    found = [
        f"{path}:{line} {text.splitlines()[0]}"
        for path, tree in {**modules(), **other_modules()}.items()
        for line, text in docstrings(tree)
        if text.split()[0].rstrip(".,:;") in vague
    ]
    assert found == []


SAME_NAME = {"Arguments": "the arguments of one command, one class in each module of orchestrator/commands"}
"""Public classes that share their name within a package, and why."""


def test_public_class_names_are_unique_in_each_package():
    places = {}
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault((path.partition("/")[0], node.name), []).append(path)
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert {name for _, name in shared} == set(SAME_NAME), shared
    assert all(path.startswith("orchestrator/commands/") for path in shared["orchestrator", "Arguments"])
