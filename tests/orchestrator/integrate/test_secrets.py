"""Secrets in the added lines of a patch: path and line as they land."""

from support.secrets import PLANTED

from orchestrator.integrate._secrets import added_secrets
from tickets.redact import Redactor

TOKEN = next(one.value for one in PLANTED if one.kind == "github-token")
BLOCK = next(one.value for one in PLANTED if "\n" in one.value)


def found_in(lab):
    lab.git("add", "--all")
    patch = lab.git("diff", "--cached", "--binary", "--full-index")
    return [(path, line, one.kind) for path, line, one in added_secrets(patch.encode(), Redactor())]


def test_only_added_lines_count_with_their_new_numbers(lab):
    lines = [f"line {number}" for number in range(1, 41)]
    lab.commit({"src/a.py": "\n".join([*lines, f"old = {TOKEN}", "end", ""])})
    lines[0:1] = ["first", "second"]
    lines[20:20] = [f"a = {TOKEN}", f"b = {TOKEN}"]
    lab.write("src/a.py", "\n".join([*lines, f"old = {TOKEN}", "new end", ""]))
    assert found_in(lab) == [("src/a.py", 21, "github-token"), ("src/a.py", 22, "github-token")]


def test_removed_lines_do_not_count(lab):
    lab.commit({"src/a.py": f"one\n{TOKEN}\n"})
    lab.write("src/a.py", "one\n")
    assert found_in(lab) == []


def test_a_key_of_many_lines_is_one_and_names_are_as_git_quotes_them(lab):
    lab.write("src/a b.pem", f"{BLOCK}\n")
    lab.write("src/c.py", f"x = '{TOKEN}'")
    assert found_in(lab) == [("src/a b.pem", 1, "private-key"), ("src/c.py", 1, "github-token")]
