"""Filters as LFS sets them: workers and checks see the content, and its pointer lands."""

import sys

import pytest
from support.repository import shell

pytestmark = pytest.mark.hardening

PROCESS = """
import sys

def read():
    head = sys.stdin.buffer.read(4)
    if not head:
        sys.exit(0)
    return None if head == b"0000" else sys.stdin.buffer.read(int(head, 16) - 4)

def lines():
    found = []
    while (line := read()) is not None:
        found.append(line)
    return found

def write(*parts):
    for part in parts:
        sys.stdout.buffer.write(b"%04x" % (len(part) + 4) + part)
    sys.stdout.buffer.write(b"0000")
    sys.stdout.buffer.flush()

lines()
write(b"git-filter-server", b"version=2")
lines()
write(b"capability=clean", b"capability=smudge")
while True:
    asked = lines()
    data = b"".join(lines())
    if b"command=clean\\n" in asked:
        data = data.replace(b"CONTENT", b"P")
    else:
        data = data.replace(b"P", b"CONTENT")
    write(b"status=success")
    write(*([data] if data else []))
    write()
"""


@pytest.mark.parametrize(("pointer", "required"), [("POINTER", "true"), ("POINTER", "false"), ("P", "true")])
@pytest.mark.parametrize("form", ["commands", "process"])
def test_workers_and_checks_see_the_content_and_a_pointer_to_it_lands(lab, tmp_path, pointer, required, form):
    """T47: required filters, those whose sides are equally long, and those of a process."""
    lab.git("config", "filter.big.required", required)
    if form == "process":
        (tmp_path / "filter.py").write_text(PROCESS.replace('b"P"', f'b"{pointer}"'))
        lab.git("config", "filter.big.process", f"{sys.executable} {tmp_path}/filter.py")
    else:
        lab.git("config", "filter.big.clean", f"sed s/CONTENT/{pointer}/")
        lab.git("config", "filter.big.smudge", f"sed s/{pointer}/CONTENT/")
    lab.commit({
        ".gitattributes": "*.bin filter=big\n", "src/a.bin": "CONTENT one\n",
        "orchestrate.toml": "[integration]\ngate = ['grep -q \"CONTENT one\" src/a.bin']\n",
    })  # fmt: skip
    assert lab.git("show", "HEAD:src/a.bin") == f"{pointer} one\n"
    seen = 'grep -q "CONTENT one" src/a.bin'
    lab.templates(
        command_1=shell(
            f"{seen} && echo CONTENT two >> src/a.bin", mode="write", owns=["src/**"], acceptance=[seen]
        ),
        command_2=shell(seen),
    )
    called = lab.call("run", "phase-1", "--json")
    assert [one["verdict"] for one in called.document["workers"]] == ["accepted", "accepted"], called.out
    assert lab.git("show", "HEAD:src/a.bin") == f"{pointer} one\n{pointer} two\n"
    assert (lab.root / "src/a.bin").read_text() == "CONTENT one\nCONTENT two\n"
    assert lab.git("status", "--porcelain") == ""
