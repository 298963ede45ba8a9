"""An intent that we did not write is never carried out, whatever it contains."""

import copy
import json

import pytest

from orchestrator.errors import StateError
from orchestrator.store.intent import read_intent

MOVE = ["STATUS.md", ".STATUS.md.tmp", "STATUS.md", "0" * 64, "1" * 64, "\xe9"]
COMMIT = {"paths": ["STATUS.md"], "message": "m", "branch": None, "saved": {"STATUS.md": ["a", "b"]}}
CHANGE = {"moves": [MOVE], "commit": COMMIT}
LANDING = {
    "run": "r", "ref": "refs/heads/main", "old": "0" * 40, "new": "1" * 40,
    "changes": [["src/a.py", "100644", "2" * 40, "100644", "3" * 40]],
}  # fmt: skip
WRONG = (None, -1, "x", [], {}, True, ["x"], {"a": 1}, "../../etc/passwd", "/etc/passwd", 10**30, "\u20ac\0")


def places(value, at=()):
    if at:
        yield at
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield from places(one, (*at, key))


def changed(value, at, new):
    found = copy.deepcopy(value)
    inside = found
    for key in at[:-1]:
        inside = inside[key]
    if new is KeyError:
        del inside[at[-1]]
    else:
        inside[at[-1]] = new
    return found


def is_taken(path, value):
    path.write_text(json.dumps(value))
    try:
        return read_intent(path) == value
    except StateError:
        return False


def test_what_the_store_writes_is_taken(tmp_path):
    free = {**COMMIT, "branch": "refs/heads/main"}
    without = {name: value for name, value in COMMIT.items() if name != "saved"}
    for value in (CHANGE, LANDING, {"moves": [], "commit": None}, {"moves": [], "commit": free},
                  {"moves": [], "commit": without}, {**LANDING, "ref": "", "changes": []}):  # fmt: skip
        assert is_taken(tmp_path / "intent.json", value)


@pytest.mark.parametrize("value", [CHANGE, LANDING], ids=["change", "landing"])
def test_a_part_of_another_kind_makes_it_none_of_ours(tmp_path, value):
    taken = [
        (at, new)
        for at in places(value)
        for new in (KeyError, *WRONG)
        if is_taken(tmp_path / "intent.json", changed(value, at, new))
    ]
    texts = {"x", "../../etc/passwd", "/etc/passwd", "\u20ac\0"}
    # Text for text, where it is no path; and lists that may be empty, or without what is optional.
    assert {json.dumps(at) for at, new in taken if isinstance(new, str) and new in texts - {"x"}} <= {
        json.dumps(at)
        for at in places(value)
        if at[-1] in ("run", "ref", "old", "new", "message", "branch")
        or at[-1] in (3, 4, 5)
        or (at[0] == "changes" and at[-1] in (1, 2))
        or (at[-2:-1] == ("STATUS.md",))
    }
    assert all(new is KeyError or new is None or isinstance(new, str | list | dict) for _, new in taken)


def test_a_forged_intent_moves_nothing_and_every_command_says_so(lab):
    (lab.root.parent / "outside").write_text("theirs\n")
    (lab.root / "evil").write_text("evil\n")
    intent = lab.root / ".git/orchestrate/intent.json"
    intent.parent.mkdir()
    intent.write_text(json.dumps({"moves": [["STATUS.md", "evil", "../outside", *MOVE[3:]]], "commit": None}))
    before = (lab.root / "STATUS.md").read_bytes()
    for arguments in (("status",), ("resume",), ("todo", "list"), ("todo", "add", "New")):
        called = lab.call(*arguments, "--json")
        assert called.code in (1, 2), arguments
        assert any("is not a valid intent file" in one for one in called.says()), arguments
    assert (lab.root.parent / "outside").read_text() == "theirs\n"
    assert ((lab.root / "STATUS.md").read_bytes(), intent.exists()) == (before, True)
