"""Finds simple faults in Python files by their syntax tree, and mends those that it can mend exactly.

The demo's workers run it as a program of its own, so it needs nothing but a Python from 3.8 on.
Edits are ranges of bytes: every byte that is not part of a fault stays.
"""

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FINDING = re.compile(r"^(\S+\.py):\d+: (fixed: )?(.+)$", re.MULTILINE)
BRANCHES = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.IfExp, ast.BoolOp, ast.comprehension)
MANY_BRANCHES = 4
_PLAIN = (ast.List, ast.Dict, ast.Set, ast.Constant, ast.Name, ast.expr_context)
"""A default made of these holds no fault of its own, so no two edits can meet in it."""


class Edit(NamedTuple):
    """One range of bytes and what takes its place."""

    start: int
    end: int
    text: str


class Fault(NamedTuple):
    """Something that is wrong on one line; without edits it is left to a person."""

    line: int
    what: str
    edits: "tuple[Edit, ...]" = ()


class Source:
    """One file: its bytes, its tree, and where each node stands in the bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.tree = ast.parse(data)
        self.lines = data.splitlines(keepends=True)
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line))

    def line_start(self, line: int) -> int:
        """Give the offset of a line, counted from 1."""
        return self._starts[line - 1]

    def span(self, node: "ast.expr | ast.stmt | ast.excepthandler") -> "tuple[int, int]":
        """Give the offsets of a node's first byte and of the byte after its last."""
        end_line, end_col = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self.line_start(node.lineno) + node.col_offset, self.line_start(end_line) + end_col


def faults(source: Source) -> "list[Fault]":
    """Find every fault of a file, in the order of its lines."""
    nodes = list(ast.walk(source.tree))
    specs = {id(node.format_spec) for node in nodes if isinstance(node, ast.FormattedValue)}
    # Before Python 3.12 what stands inside an f-string has the places of another text.
    texts = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    unplaced = {id(below) for text in texts for below in ast.walk(text) if below is not text}
    found = list(_unused_imports(source))
    for node in nodes:
        if id(node) not in specs:
            here = _faults_at(source, node)
            found += (fault._replace(edits=()) for fault in here) if id(node) in unplaced else here
    return sorted(found, key=lambda fault: fault.line)


def mended(source: Source, found: "list[Fault]") -> bytes:
    """Give the file with the edits of all faults. Raises ValueError where the result would still hold one."""
    data = source.data
    edits = [edit for fault in found for edit in fault.edits]
    # From the end, so that no edit moves the place of another.
    for edit in reversed(sorted(edits, key=lambda edit: edit.start)):  # noqa: C413 - `reverse=True` would turn insertions at one place around
        data = data[: edit.start] + edit.text.encode() + data[edit.end :]
    left = [fault for fault in faults(Source(data)) if fault.edits]
    if left:
        raise ValueError(f"line {left[0].line} would still have: {left[0].what}")
    return data


# One function for each kind of fault


def _faults_at(source: Source, node: ast.AST) -> "Iterator[Fault]":
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield from _mutable_defaults(source, node)
    elif isinstance(node, ast.Compare):
        yield from _none_compared(source, node)
    elif isinstance(node, ast.ExceptHandler) and node.type is None:
        start = source.span(node)[0]
        edit = Edit(start, start + len("except"), "except Exception")
        yield Fault(node.lineno, "bare except also catches exits and interrupts", (edit,))
    elif isinstance(node, ast.Call):
        yield from _no_encoding(source, node)
    elif isinstance(node, ast.JoinedStr):
        yield from _empty_f_string(source, node)


def _mutable_defaults(
    source: Source, function: "ast.FunctionDef | ast.AsyncFunctionDef"
) -> "Iterator[Fault]":
    named = function.args
    positional = [*named.posonlyargs, *named.args]
    pairs = list(zip(positional[len(positional) - len(named.defaults) :], named.defaults))  # noqa: B905 - `strict` came with 3.10
    pairs += [(arg, default) for arg, default in zip(named.kwonlyargs, named.kw_defaults) if default]  # noqa: B905 - as above
    for arg, default in pairs:
        if not isinstance(default, (ast.List, ast.Dict, ast.Set)):
            continue
        what = f"default of `{arg.arg}` is shared by all calls of {function.name}()"
        place = _body_start(source, function)
        plain = all(isinstance(below, _PLAIN) for below in ast.walk(default))
        if arg.annotation or place is None or not plain:
            yield Fault(arg.lineno, what)
            continue
        start, end = source.span(default)
        value, at, indent = source.data[start:end].decode(), *place
        guard = f"{indent}if {arg.arg} is None:\n{indent}    {arg.arg} = {value}\n"
        yield Fault(arg.lineno, what, (Edit(start, end, "None"), Edit(at, at, guard)))


def _body_start(
    source: Source, function: "ast.FunctionDef | ast.AsyncFunctionDef"
) -> "tuple[int, str] | None":
    """Give where a function's first statement after its docstring begins, and the indent there."""
    rest = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if not rest:
        return None
    first = rest[0]
    line = min([first.lineno, *(node.lineno for node in getattr(first, "decorator_list", []))])
    indent = source.lines[line - 1][: first.col_offset].decode()
    return None if indent.strip() else (source.line_start(line), indent)


def _none_compared(source: Source, node: ast.Compare) -> "Iterator[Fault]":
    left = node.left
    for operator, right in zip(node.ops, node.comparators):  # noqa: B905 - `strict` came with 3.10
        if (
            isinstance(operator, (ast.Eq, ast.NotEq))
            and isinstance(right, ast.Constant)
            and right.value is None
        ):
            old, new = ("==", "is") if isinstance(operator, ast.Eq) else ("!=", "is not")
            start, end = source.span(left)[1], source.span(right)[0]
            between = source.data[start:end].decode()
            text = re.sub(rf"[ \t]*{old}[ \t]*", f" {new} ", between, count=1)
            edits = () if "#" in between else (Edit(start, end, text),)
            yield Fault(node.lineno, f"`{old} None` asks the object; `{new} None` asks the language", edits)
        left = right


def _unused_imports(source: Source) -> "Iterator[Fault]":
    nodes = list(ast.walk(source.tree))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    # A name in a string may be a forward reference or stand in `__all__`.
    texts = (n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str))
    used.update(word for text in texts for word in re.findall(r"\w+", text) if "\n" not in text)
    for node in source.tree.body:
        if not isinstance(node, (ast.Import, ast.ImportFrom)) or getattr(node, "module", "") == "__future__":
            continue
        bound = {alias: (alias.asname or alias.name).partition(".")[0] for alias in node.names}
        unused = [alias for alias in node.names if bound[alias] not in used and alias.name != "*"]
        if not unused:
            continue
        start, end = source.span(node)
        what = f"{', '.join(bound[alias] for alias in unused)} is imported and never used"
        line = source.lines[node.lineno - 1].strip()
        if node.lineno != node.end_lineno or line != source.data[start:end]:
            yield Fault(node.lineno, what)
        elif len(unused) == len(node.names):
            around = source.lines[node.lineno - 2 : node.lineno + 1 : 2]
            # Of two blank lines around it one is enough.
            after = node.lineno + 2 if len(around) == 2 and not b"".join(around).strip() else node.lineno + 1
            edit = Edit(source.line_start(node.lineno), source.line_start(after), "")
            yield Fault(node.lineno, what, (edit,))
        else:
            kept = [alias for alias in node.names if alias not in unused]
            names = ", ".join(f"{a.name} as {a.asname}" if a.asname else a.name for a in kept)
            head = source.data[start:end].decode().partition("import")[0]
            yield Fault(node.lineno, what, (Edit(start, end, f"{head}import {names}"),))


def _no_encoding(source: Source, call: ast.Call) -> "Iterator[Fault]":
    if not (isinstance(call.func, ast.Name) and call.func.id == "open" and call.args) or len(call.args) > 3:
        return
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    mode = call.args[1] if len(call.args) > 1 else keywords.get("mode", ast.Constant("r"))
    if keywords.keys() & {"encoding", None} or any(isinstance(arg, ast.Starred) for arg in call.args):
        return
    if not isinstance(mode, ast.Constant) or "b" in str(mode.value):
        return
    last = max(source.span(node)[1] for node in (*call.args, *keywords.values()))
    end = source.span(call)[1] - 1
    rest = source.data[last:end].decode()
    comma = "" if "," in rest else ","
    edits = () if "#" in rest or "\n" in rest else (Edit(end, end, f'{comma} encoding="utf-8"'),)
    yield Fault(call.lineno, "open() without an encoding reads differently on each system", edits)


def _empty_f_string(source: Source, node: ast.JoinedStr) -> "Iterator[Fault]":
    if any(isinstance(part, ast.FormattedValue) for part in node.values):
        return
    start, end = source.span(node)
    text = source.data[start:end].decode()
    prefix = re.match(r"[A-Za-z]*", text)
    shorter = re.sub("[fF]", "", prefix[0]) + text[prefix.end() :] if prefix else text
    meant = "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    try:
        exact = ast.literal_eval(shorter) == meant
    except (ValueError, SyntaxError):
        # Several literals side by side: only some of them may be f-strings.
        exact = False
    yield Fault(node.lineno, "f-string without a placeholder", (Edit(start, end, shorter),) if exact else ())


# What a worker is asked for


def audit(paths: "list[Path]") -> "list[str]":
    """List the faults of some files."""
    found = [(path, fault) for path in paths for fault in faults(Source(path.read_bytes()))]
    lines = [f"{path.as_posix()}:{fault.line}: {fault.what}" for path, fault in found]
    return [f"{_count(len(lines), 'fault')} in {_count(len({path for path, _ in found}), 'file')}", *lines]


def survey(paths: "list[Path]") -> "list[str]":
    """List the functions that nothing describes, and those with many branches."""
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
    """Mend some files in their places."""
    lines = []
    for path in paths:
        source = Source(path.read_bytes())
        found = faults(source)
        path.write_bytes(mended(source, found))
        for fault in found:
            word = "fixed" if fault.edits else "left to a person"
            lines.append(f"{path.as_posix()}:{fault.line}: {word}: {fault.what}")
    fixed = sum(": fixed: " in line for line in lines)
    return [f"{_count(fixed, 'fault')} fixed in {', '.join(path.as_posix() for path in paths)}", *lines]


def report(target: Path, ticket: str, paths: "list[Path]") -> "list[str]":
    """Write what the workers before this one found and fixed, as their outputs in the ticket say."""
    fixed: dict[str, list[str]] = {}
    noted: list[str] = []
    for path, word, what in FINDING.findall(ticket):
        if word:
            fixed.setdefault(path, []).append(what)
        elif what.endswith(("has no docstring", "branches")):
            noted.append(f"- `{path}`: {what}")
    left = sum(len(faults(Source(path.read_bytes()))) for path in paths)
    total = sum(len(done) for done in fixed.values())
    lines = ["# Faults", "", f"{_count(total, 'fault')} fixed, {left} left.", ""]
    for path in sorted(fixed):
        lines += [f"## `{path}`", "", *(f"- {what}" for what in fixed[path]), ""]
    lines += ["## For a person to decide", "", *(noted or ["Nothing."])]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [
        f"{target.as_posix()}: {_count(total, 'fault')} fixed in {_count(len(fixed), 'file')}, {left} left"
    ]


def main() -> int:
    """Do what the arguments say; the last line printed is the result that the runtime reads."""
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--audit", action="store_true", help="list the faults")
    what.add_argument("--survey", action="store_true", help="list what is hard to read")
    what.add_argument("--fix", action="store_true", help="mend the faults")
    what.add_argument("--report", type=Path, metavar="FILE", help="write what the outputs in the ticket say")
    parser.add_argument("paths", nargs="+", type=Path, help="files, or folders of Python files")
    given = parser.parse_args()
    paths = [
        file for path in given.paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])
    ]
    if given.report:
        lines = report(given.report, sys.stdin.read(), paths)
    else:
        lines = (audit if given.audit else survey if given.survey else fix)(paths)
    summary = "\n".join(lines)
    sys.stdout.write(
        f"{summary}\nORCHESTRATE-RESULT {json.dumps({'status': 'complete', 'summary': summary})}\n"
    )
    return 0


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


if __name__ == "__main__":
    sys.exit(main())
