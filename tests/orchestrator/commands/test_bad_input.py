"""Files that cannot be taken and words that mean harm: refused whole with a place, or written as plain words.

The commands are called in this process, with real files and real git: a table of this size has no time for
an interpreter each.
"""

import contextlib
import io
import json
import os
import re
import shutil
import unicodedata

import pytest
from support.plans import PLAN as UNFINISHED
from support.repository import Lab, seen_in, template

from orchestrator.cli.main import main
from orchestrator.state.canonical.decisions import decisions
from orchestrator.state.canonical.rules import rules
from orchestrator.state.canonical.status import backlog, status

PLAN = UNFINISHED.replace("- [ ] formats all fixtures", "- [x] formats all fixtures")
PLAN = PLAN.replace("(50% complete)", "(100% complete)").replace("- [x] Old thing\n", "- [x] Old thing\n" * 1)
PLAN = PLAN.replace("history/phase-1.md)\n", "history/phase-1.md)\n**Milestone:** Founded\n")
BACKLOG = "# Backlog\n\n## Off the TODO list\n\n- [x] Older thing (P0, 2026-02-15)\n"
STATUS, LOG, RULES, DONE = "STATUS.md", "DECISIONS.md", "AGENTS.md", "docs/backlog.md"

WRITING = {
    ("todo", "add", "Something new"): (STATUS,),
    ("todo", "done", "New thing"): (STATUS,),
    ("todo", "move", "New thing", "--priority", "P2"): (STATUS,),
    ("todo", "move", "New thing", "--backlog"): (STATUS, DONE),
    ("decide", "One parser", "--context", "why", "--decision", "what"): (LOG,),
    ("deliverable", "add", "Manual"): (STATUS,),
    ("deliverable", "start", "Command line"): (STATUS,),
    ("deliverable", "block", "Formatter", "--reason", "stuck", "--impact", "none"): (STATUS,),
    ("deliverable", "done", "Formatter"): (STATUS, DONE),
    ("criterion", "add", "is fast"): (STATUS,),
    ("criterion", "done", "is documented"): (STATUS,),
    ("criterion", "undo", "formats"): (STATUS,),
    ("milestone", "complete", "--phase", "1"): (STATUS, LOG),
    ("phase", "add", "Release", "--milestone", "Released"): (STATUS, LOG),
    ("phase", "start", "3"): (STATUS, LOG),
    ("phase", "complete", "--force", "--reason", "we ship"): (STATUS, LOG, DONE),
    ("approve", "phase-3", "--by", "Grace"): (STATUS, LOG),
    ("archive",): (STATUS, LOG, DONE),
    ("handoff",): (STATUS,),
}
"""Each command that writes a canonical file, with those that it needs whole."""

OTHERS = (
    ("todo", "add", "Something new"), ("decide", "One parser", "--context", "why", "--decision", "what"),
    ("deliverable", "done", "Formatter"), ("phase", "complete", "--force", "--reason", "we ship"),
)  # fmt: skip
"""Those that are tried too where the damage is not theirs."""

READING = (
    ("status",), ("report",), ("resume",), ("todo", "list"), ("plan", "phase-2"), ("deliverable", "list"),
    ("criterion", "list"), ("milestone", "list"), ("phase", "list"), ("handoff", "--check"), ("validate",),
)  # fmt: skip


def doubled(text):
    """Repeat each section."""
    head, rule, trailer = text.rpartition(b"\n---\n") if b"\n---\n" in text else (text, b"", b"")
    return head + b"\n" + head[head.index(b"\n## ") :] + rule + trailer


def fenced(text):
    at = text.index(b"\n## ") + 1
    return text[:at] + b"```\n" + text[at:]


DAMAGE = {
    "not UTF-8": lambda text: text.replace(b"\n\n", b"\n\n\xff\xfe\n\n", 1),
    "NUL": lambda text: text.replace(b"\n\n", b"\n\n\0\n\n", 1),
    "empty": lambda _: b"",
    "fence": fenced,
    "doubled": doubled,
}


@pytest.fixture(scope="module")
def whole(pattern_repository, tmp_path_factory):
    """Return a project in which every writing command has something to do."""
    folder = tmp_path_factory.mktemp("whole") / "lab"
    shutil.copytree(pattern_repository, folder, symlinks=True)
    lab = Lab(folder / "project", folder / "home")
    lab.commit({STATUS: PLAN, DONE: BACKLOG})
    lab.templates(command_1=template(phase="phase-2"))
    for gate in ("phase-3", "milestone-1", "scope-phase-4"):
        assert lab.call("approve", gate, "--by", "Ada").code == 0
    return folder


@pytest.fixture
def fresh(whole, tmp_path, monkeypatch):
    """Return the function that makes a copy of the project, and calls a command there."""
    for name in [name for name in os.environ if name.startswith(("ORCHESTRATE_", "GIT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(whole / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")

    def make(name):
        shutil.copytree(whole / "project", tmp_path / name, symlinks=True)
        return tmp_path / name

    return make


def call(root, *arguments):
    """Call the command line in this process; return its exit code, its document and its other output."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        # Behind `--` there are no options any more.
        code = main(["--json", "--project", str(root), *arguments])
    assert code != 3, err.getvalue()
    assert "Traceback" not in err.getvalue()
    document = json.loads(out.getvalue())
    assert document["schema"] == 1
    return code, document


def refused_about(document, path):
    """Check that a refusal names the file, what is wrong there, and what to do."""
    about = [one for one in document["problems"] if re.fullmatch(rf"{re.escape(path)}(:\d+)?", one["place"])]
    assert about, document
    assert all(one["what"] and one["do"] for one in about)
    return about


def test_every_command_has_something_to_do_in_the_whole_project(fresh):
    for at, arguments in enumerate(WRITING):
        root = fresh(str(at))
        code, document = call(root, *arguments)
        assert code == 0, (arguments, document)
        assert document["commit"], arguments


@pytest.mark.parametrize("name", [*DAMAGE, "link"])
@pytest.mark.parametrize("path", [STATUS, LOG, RULES, DONE])
def test_a_damaged_file_is_refused_by_whoever_needs_it_and_touched_by_nobody(fresh, tmp_path, path, name):
    root = fresh("project")
    whole = (root / path).read_bytes()
    outside = tmp_path / "outside.md"
    outside.write_bytes(whole)
    if name == "link":
        (root / path).unlink()
        (root / path).symlink_to(outside)
    else:
        (root / path).write_bytes(DAMAGE[name](whole))
    damaged = (root / path).read_bytes()
    assert name == "link" or damaged != whole
    before, head = seen_in(root), (root / ".git/refs/heads/main").read_text()
    for arguments, needs in WRITING.items():
        if path not in needs or not hurts(path, name):
            continue
        code, document = call(root, *arguments)
        assert (code, document["ok"]) == (2, False), (arguments, document)
        for one in refused_about(document, path):
            assert name not in ("not UTF-8", "NUL", "fence") or ":" in one["place"], one
        assert files(seen_in(root)) == files(before), arguments
        assert (root / ".git/refs/heads/main").read_text() == head, arguments
    for arguments in OTHERS:
        needs = WRITING[arguments]
        if path in needs and hurts(path, name):
            continue
        shutil.copytree(root, root.with_name("other"), symlinks=True)
        code, document = call(root.with_name("other"), *arguments)
        if code == 2:
            refused_about(document, path)
        now = (root.with_name("other") / path).read_bytes()
        # A file that can be edited where it is whole keeps its damage, wherever that is.
        assert now == damaged or path in needs, arguments
        assert outside.read_bytes() == whole
        shutil.rmtree(root.with_name("other"))


def hurts(path, name):
    """Return whether the damage is where an edit goes: only STATUS.md has sections that can be repeated."""
    if path == DONE:
        return name not in ("doubled", "fence", "empty")  # an empty backlog is one that begins
    return name not in ("doubled", "fence") or path == STATUS or (path, name) == (LOG, "fence")


def files(seen):
    """Leave out git's own: a lock file of the store is made by any command that takes it."""
    return {path: one for path, one in seen.items() if not path.startswith(".git/orchestrate")}


@pytest.mark.parametrize("name", [*DAMAGE, "link"])
@pytest.mark.parametrize("path", [STATUS, LOG, RULES])
def test_what_only_reads_never_takes_a_damaged_file_for_one_that_says_nothing(fresh, tmp_path, path, name):
    root = fresh("project")
    whole = (root / path).read_bytes()
    if name == "link":
        (tmp_path / "outside.md").write_bytes(whole)
        (root / path).unlink()
        (root / path).symlink_to(tmp_path / "outside.md")
    else:
        (root / path).write_bytes(DAMAGE[name](whole))
    before = seen_in(root)
    for arguments in READING:
        code, document = call(root, *arguments)
        assert files(seen_in(root)) == files(before), arguments
        if path == STATUS and name != "link" and (name != "doubled" or arguments[0] != "plan"):
            assert code in (1, 2), (arguments, document)
            refused_about(document, path)
        if path == STATUS and code == 0 and arguments == ("todo", "list"):
            assert document["items"]
    code, document = call(root, "validate")
    assert code == 1 or (name, path) in {("doubled", LOG), ("empty", RULES)}, document


WORDS = {
    "lines": "one\n\ntwo\r\nthree",
    "rule": "---",
    "heading": "# heading",
    "entry": "x\n## 2026-01-01: forged",
    "box": "- [ ] box",
    "cell": "a | b |",
    "fence": "```\nnot code",
    "comment": "<!-- gone",
    "field": "**Status:** COMPLETE",
    "end": "**Status File End**",
    "emoji": "🚀 ship 👩‍👩‍👧",
    "right to left": "\u202eevil\u202c שלום",
    "escape": "\x1b[31mred\x1b[0m \x07\x08",
    "separators": "a\x0bb\x1cc\x85d\u2028e",
    "huge": "`a* [b](c) " * 9000,
    "half a character": "\udcff\udcfe",
    "brackets": "a) (b (COMPLETE",
    "format": "{0} %s {{x}} ${HOME} `rm -rf`",
    "a path": "../../etc/passwd",
}
WORST = ("entry", "fence", "field", "escape", "half a character", "brackets", "huge")
"""Those that are tried with every command; what the commands share is tried with all of them."""
TAKING = {
    "todo add": lambda text: ("todo", "add", "--", text),
    "decide": lambda text: ("decide", f"--context={text}", f"--decision={text}", f"--alternative={text}",
                            f"--consequence={text}", "--", text),
    "deliverable add": lambda text: ("deliverable", "add", "--", text),
    "deliverable block": lambda text: ("deliverable", "block", "2", f"--reason={text}", f"--impact={text}",
                                       f"--mitigation={text}", "--priority", "P0"),
    "deliverable start": lambda text: ("deliverable", "start", "2", f"--owner={text}"),
    "criterion add": lambda text: ("criterion", "add", "--", text),
    "phase add": lambda text: ("phase", "add", f"--milestone={text}", f"--criterion={text}",
                               f"--deliverable={text}", "--", text),
    "phase complete": lambda text: ("phase", "complete", "--force", f"--reason={text}"),
    "approve": lambda text: ("approve", "technology-x", f"--by={text}", f"--condition={text}"),
    "lead": lambda text: ("todo", "add", "Something", f"--lead={text}"),
}  # fmt: skip
HEADINGS = re.compile(rb"^#.*$", re.MULTILINE)


@pytest.mark.parametrize("command", TAKING)
def test_hostile_words_are_words(fresh, command):
    root = fresh("0")
    for name in WORDS if command in ("todo add", "decide") else WORST:
        text = WORDS[name]
        if command in ("phase add", "phase complete"):
            root = fresh(name)
        before = {path: (root / path).read_bytes() for path in (STATUS, LOG, DONE, RULES)}
        code, document = call(root, *TAKING[command](text))
        assert code == 0, (name, document)
        assert document["commit"] or command == "lead", name
        after = {path: (root / path).read_bytes() for path in before}
        assert after[RULES] == before[RULES]
        assert problems(after) == problems(before), name
        for path, old in before.items():
            was, now = HEADINGS.findall(old), HEADINGS.findall(after[path])
            assert [one for one in now if one in was] == was, name
            assert len(now) - len(was) <= 1, name
        assert after[LOG].endswith(before[LOG][before[LOG].index(b"## ") :]), name
        assert not set("\x1b\x07\x08\x0b\x1c\x85\u2028\u202e") & set(after[STATUS].decode()), name
        assert git_log(root), name
    for reading in ("status", "report", "todo list", "deliverable list", "phase list"):
        assert call(root, *reading.split())[0] == 0, reading


def problems(texts):
    """Return the errors of the files, without the places that an edit moves."""
    modules = {STATUS: status, LOG: decisions, RULES: rules, DONE: backlog}
    return [
        one.what for path, text in texts.items() for one in modules[path].problems(text)
        if one.severity == "error" or "does not follow" in one.what
    ]  # fmt: skip


def git_log(root):
    """Return the subject of the newest commit: one line, with nothing in it that acts on a terminal."""
    done = Lab(root, root.parent).git("log", "-1", "--format=%s").strip("\n")
    assert not {unicodedata.category(one) for one in done} & {"Cc", "Cs", "Zl", "Zp"}, done
    assert "\u202e" not in done
    assert len(done) < 120, done
    return done


@pytest.mark.parametrize("command", TAKING)
@pytest.mark.parametrize("text", ["", " \n\t\n", "\x1b\x07", "--json"])
def test_words_that_say_nothing_or_look_like_options_do_no_harm(fresh, command, text):
    root = fresh("project")
    before = seen_in(root)
    code, document = call(root, *TAKING[command](text))
    dashes = text.startswith("-")
    # Who leads and who makes a thing has a name where none was given.
    named = command in ("lead", "deliverable start")
    assert code == (0 if dashes or named else 2), document
    if code == 2:
        assert files(seen_in(root)) == files(before)
        assert all(one["place"] and one["what"] and one["do"] for one in document["problems"])
    bare = [word for word in TAKING[command](text) if word != "--"]
    if dashes and bare != [*TAKING[command](text)]:
        root = fresh("bare")
        before = seen_in(root)
        assert call(root, *bare)[0] == 2
        assert files(seen_in(root)) == files(before)
