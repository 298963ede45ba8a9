"""Finds three kinds of fault in Python files by their syntax trees, and fixes those that it can fix exactly.

The demo's workers run it as a program of its own, so it needs nothing but a Python from 3.8 on.
An edit inserts or replaces bytes: every byte that is not part of a fault stays.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

FINDING = re.compile(r"^(\S+\.py):\d+: (fixed: )?(.+)$", re.MULTILINE)
BRANCHES = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.IfExp, ast.BoolOp, ast.comprehension)
MANY_BRANCHES = 4
PATIENCE = 50.0
"""Seconds to wait for another worker's word, or the lead's."""


class Fault(NamedTuple):
    """A fault on one line, and the bytes that replace others; None: left to a person."""

    line: int
    what: str
    edit: "tuple[int, int, bytes] | None"


class Source:
    """A file: its bytes, its tree, and where each node is in the bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.tree = ast.parse(data)
        self._starts = [0]
        for line in data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: "ast.expr | ast.excepthandler") -> "tuple[int, int]":
        """Return the offsets of a node's first byte and of the byte after its last."""
        end_line, end_col = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[end_line - 1] + end_col


def faults(source: Source) -> "list[Fault]":
    """Find every fault of a file, in the order of its lines."""
    nodes = list(ast.walk(source.tree))
    # Before Python 3.12 nodes inside an f-string have the places of another text.
    texts = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    unplaced = {id(below) for text in texts for below in ast.walk(text)}
    found = [fault for node in nodes if id(node) not in unplaced for fault in _faults_at(source, node)]
    return sorted(found, key=lambda fault: fault.line)


def fixed(source: Source, found: "list[Fault]") -> bytes:
    """Return the file with the edits of all faults."""
    data = source.data
    # From the end, so that no edit moves the place of another.
    for start, end, text in sorted((fault.edit for fault in found if fault.edit), reverse=True):
        data = data[:start] + text + data[end:]
    return data


def _faults_at(source: Source, node: ast.AST) -> "Iterator[Fault]":
    if isinstance(node, ast.Compare):
        yield from _none_compared(source, node)
    elif isinstance(node, ast.ExceptHandler) and node.type is None:
        end = source.span(node)[0] + len("except")
        yield Fault(node.lineno, "bare except also catches exits and interrupts", (end, end, b" Exception"))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
        yield from _no_encoding(source, node)


def _none_compared(source: Source, node: ast.Compare) -> "Iterator[Fault]":
    left = node.left
    for operator, right in zip(node.ops, node.comparators):  # noqa: B905 - `strict` came with 3.10
        is_none = isinstance(right, ast.Constant) and right.value is None
        if is_none and isinstance(operator, (ast.Eq, ast.NotEq)):
            old, new = (b"==", b"is") if isinstance(operator, ast.Eq) else (b"!=", b"is not")
            start, end = source.span(left)[1], source.span(right)[0]
            between = source.data[start:end]
            text = re.sub(rb"[ \t]*" + old + rb"[ \t]*", b" " + new + b" ", between, count=1)
            what = f"`{old.decode()} None` asks the object; `{new.decode()} None` asks the language"
            yield Fault(node.lineno, what, None if b"#" in between else (start, end, text))
        left = right


def _no_encoding(source: Source, call: ast.Call) -> "Iterator[Fault]":
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    mode = call.args[1] if len(call.args) > 1 else keywords.get("mode", ast.Constant("r"))
    is_text = isinstance(mode, ast.Constant) and "b" not in str(mode.value)
    is_known = len(call.args) in (1, 2) and not isinstance(call.args[0], ast.Starred)
    if not (is_text and is_known) or keywords.keys() & {"encoding", None}:
        return
    end = source.span(call)[1] - 1
    before = source.data[:end].rstrip(b" \t")
    is_plain = not before.endswith((b",", b"\n")) and call.lineno == call.end_lineno
    edit = (end, end, b', encoding="utf-8"') if is_plain else None
    yield Fault(call.lineno, "open() without an encoding reads differently on each system", edit)


# What workers and their lead say to each other


def ask(whom: str, question: str) -> str:
    """Ask another worker, or the lead, and wait for the answer."""
    sent = _orchestrate("send", "--to", whom, "--type", "question", question)
    return f"asked {whom}: {question} It said: {_heard(lambda one: one['re'] == sent['id'])['body']}"


def answer(text: str) -> str:
    """Wait for a question, and answer it."""
    question = _heard(lambda one: one["type"] == "question")
    _orchestrate("send", "--to", question["from"], "--re", question["id"], text)
    return f"was asked: {question['body']} Answered: {text}"


def _heard(is_it: "Callable[[dict[str, str]], bool]") -> "dict[str, str]":
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        heard: list[dict[str, str]] = _orchestrate("inbox", "--wait", "5")["messages"]
        for one in filter(is_it, heard):
            return one
    sys.exit("nobody has said anything")


def _orchestrate(*call: str) -> "dict[str, Any]":
    command = [os.environ["ORCHESTRATE_CLI"], "worker", *call, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# What a worker is asked for


def audit(paths: "list[Path]") -> "list[str]":
    """List the faults of some files."""
    found = [(path, fault) for path in paths for fault in faults(Source(path.read_bytes()))]
    lines = [f"{path.as_posix()}:{fault.line}: {fault.what}" for path, fault in found]
    return [f"{_count(len(lines), 'fault')} in {_count(len({path for path, _ in found}), 'file')}", *lines]


def survey(paths: "list[Path]") -> "list[str]":
    """List the functions without a docstring, and those with many branches."""
    lines, functions = [], 0
    for path in paths:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            functions += 1
            place = f"{path.as_posix()}:{node.lineno}: {node.name}()"
            if ast.get_docstring(node) is None and not node.name.startswith("_"):
                lines.append(f"{place} has no docstring")
            branches = sum(isinstance(below, BRANCHES) for below in ast.walk(node))
            if branches >= MANY_BRANCHES:
                lines.append(f"{place} has {branches} branches")
    return [f"{_count(functions, 'function')}, {_count(len(lines), 'remark')}", *lines]


def fix(paths: "list[Path]") -> "list[str]":
    """Fix some files in place."""
    lines = []
    for path in paths:
        source = Source(path.read_bytes())
        found = faults(source)
        path.write_bytes(fixed(source, found))
        for fault in found:
            word = "fixed" if fault.edit else "left to a person"
            lines.append(f"{path.as_posix()}:{fault.line}: {word}: {fault.what}")
    number = sum(": fixed: " in line for line in lines)
    return [f"{_count(number, 'fault')} fixed in {', '.join(path.as_posix() for path in paths)}", *lines]


def report(target: Path, ticket: str, paths: "list[Path]") -> "list[str]":
    """Write what the earlier workers found and fixed, as their outputs in the ticket report it."""
    done: dict[str, list[str]] = {}
    noted: list[str] = []
    for path, word, what in FINDING.findall(ticket):
        if word:
            done.setdefault(path, []).append(what)
        elif what.endswith(("has no docstring", "branches")):
            noted.append(f"- `{path}`: {what}")
    left = sum(len(faults(Source(path.read_bytes()))) for path in paths)
    total = _count(sum(map(len, done.values())), "fault")
    lines = ["# Faults", "", f"{total} fixed, {left} left.", ""]
    for path in sorted(done):
        lines += [f"## `{path}`", "", *(f"- {what}" for what in done[path]), ""]
    lines += ["## For a person to decide", "", *(noted or ["Nothing."])]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [f"{target.as_posix()}: {total} fixed in {_count(len(done), 'file')}, {left} left"]


def main() -> int:
    """Run the action of the arguments; the last line printed is the result that the runtime reads."""
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--audit", action="store_true", help="list the faults")
    what.add_argument("--survey", action="store_true", help="list what is hard to read")
    what.add_argument("--fix", action="store_true", help="fix the faults")
    what.add_argument("--report", type=Path, metavar="FILE", help="write what the outputs in the ticket say")
    said = parser.add_mutually_exclusive_group()
    said.add_argument("--ask", nargs=2, metavar=("WHOM", "TEXT"), help="ask somebody first")
    said.add_argument("--answer", metavar="TEXT", help="answer a question first")
    parser.add_argument("paths", nargs="+", type=Path, help="files, or folders of Python files")
    given = parser.parse_args()
    paths = [
        file for path in given.paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])
    ]
    talk = [ask(*given.ask)] if given.ask else [answer(given.answer)] if given.answer else []
    if given.report:
        lines = report(given.report, sys.stdin.read(), paths)
    else:
        lines = (audit if given.audit else survey if given.survey else fix)(paths)
    summary = "\n".join([*lines, *talk])
    sys.stdout.write(
        f"{summary}\nORCHESTRATE-RESULT {json.dumps({'status': 'complete', 'summary': summary})}\n"
    )
    return 0


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


if __name__ == "__main__":
    sys.exit(main())
