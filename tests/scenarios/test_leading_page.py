"""docs/leading.md: a lead that types its commands, word for word, leads a phase and hands it over."""

import re
import shlex

from support.paths import ROOT
from support.repository import shell

PAGE = (ROOT / "docs" / "leading.md").read_text()
COMMANDS = [
    shlex.split(line)[1:]
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]


def test_the_page_holds_from_the_first_word_to_the_last(lab):
    lab.templates(command_1=shell("mkdir -p out; echo 1 > out/a", mode="write", owns=["out/**"]))
    assert lab.call("init", "--with", "ai_memory").code == 0
    assert len(COMMANDS) == 10
    for words in COMMANDS:
        called = lab.call(*words)
        expected = (0, 1) if words[:2] == ["context", "check"] else (0,)
        assert called.code in expected, (words, called)
    assert (lab.root / "out" / "a").exists()
    assert lab.git("status", "--porcelain") == ""
    context = (lab.root / "ai_memory/active_context.md").read_text()
    assert "Read the report of command-1, then fix what it names" in context
    assert "Keep one parser" in context
    assert lab.call("session", "list", "--json").document["sessions"][0]["status"] == "completed"
    # The next lead begins with one answer.
    document = lab.call("resume", "--json").document
    assert document["context"]["next"][-1] == "Read the report of command-1, then fix what it names"
    assert document["session"]["summary"] == "Ran the first phase."
    assert document["stale"] == []
    assert document["next"]["why"]
