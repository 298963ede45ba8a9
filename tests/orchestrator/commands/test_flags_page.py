"""The flags of workers: docs/commands.md explains those that the code sets, all of them and no others."""

import ast
import re

from support.paths import ROOT

PAGE = (ROOT / "docs" / "commands.md").read_text()


def set_in(tree):
    """Return the flags that a module sets: texts in a list assigned, passed or returned as `flags`."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)]) | ast.keyword(arg=name):
                places = [node.value]
            case ast.FunctionDef(name=name):
                places = node.body
            case _:
                continue
        if name not in ("flags", "_flags"):
            continue
        for each in (one for place in places for one in ast.walk(place)):
            match each:
                case ast.Tuple(elts=texts) | ast.List(elts=texts):
                    pass
                case ast.Call(func=ast.Attribute(attr="append"), args=texts):
                    pass
                case _:
                    continue
            found |= {text.value for text in texts if isinstance(text, ast.Constant)}
    return found


def test_the_page_explains_each_flag_that_there_is():
    modules = [*(ROOT / "workers").rglob("*.py"), *(ROOT / "orchestrator").rglob("*.py")]
    flags = set().union(*(set_in(ast.parse(module.read_text())) for module in modules))
    assert {"silent", "no_changes", "left_processes", "cut_record", "unreported"} < flags
    table = PAGE[PAGE.index("| flag | means |") :].partition("\n\n")[0]
    rows = re.findall(r"^\| `([a-z_]+)` \| .{20,} \|$", table, re.MULTILINE)
    assert sorted(rows) == sorted(flags)
