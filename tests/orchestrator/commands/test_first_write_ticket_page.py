"""docs/first-write-ticket.md, done literally: each command in its order, and what the page shows of each."""

import json
import re
import shutil
import subprocess

from support.paths import ROOT
from support.repository import SCRIPT

PAGE = (ROOT / "docs" / "first-write-ticket.md").read_text()
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEW = {
    "src/slug.py": 'def slug(text):\n    return "-".join(text.lower().split())\n',
    "tests/check.py": "from slug import slug\n\n"
    'assert slug("Two Words") == "two-words"\nassert slug("Two  Words") == "two-words"\n',
}
"""What the stand-in for claude writes."""


def as_pattern(text):
    """Return the pattern of what a page shows: a line that is `…` stands for any lines."""
    lines = (
        r"(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + r"\n"
        for line in re.sub(" +", " ", text).splitlines()
    )
    return re.compile("".join(lines))


def test_the_page_does_what_it_shows(lab, fakes, tmp_path):
    steps = [{"do": "write", "path": path, "text": text} for path, text in NEW.items()]
    said = " ".join(f"--fake '{json.dumps(step)}'" for step in [*steps, {"do": "answer", "text": "Done."}])
    folder = tmp_path / "bin"
    shutil.copytree(fakes, folder)  # beside each other: a fence shows a worker the folder of its agent
    (folder / "claude").rename(folder / "stand-in")
    (folder / "claude").write_text(f'#!/bin/sh\nexec {folder}/stand-in {said} "$@"\n')
    (folder / "claude").chmod(0o755)
    (folder / "orchestrate").symlink_to(SCRIPT)
    env = lab.env()
    env["PATH"] = f"{folder}:{env['PATH']}"
    env["ANTHROPIC_API_KEY"] = "sk-test-not-real"
    place, printed = tmp_path, ""
    shown = 0
    for kind, text in BLOCK.findall(PAGE):
        if kind == "sh":
            done = subprocess.run(
                ["sh", "-e", "-c", f"{text}\npwd > {tmp_path}/here"], cwd=place, env=env,
                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (text, done.stdout, done.stderr)
            place, printed = (tmp_path / "here").read_text().strip(), done.stdout
        else:
            assert as_pattern(text).fullmatch(re.sub(" +", " ", printed)), printed
            shown += 1
    assert shown == 3
    assert (tmp_path / "textkit" / "src" / "slug.py").read_text() == NEW["src/slug.py"]
