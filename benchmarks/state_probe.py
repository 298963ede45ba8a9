"""Programs that the bench of state files starts: our command with its parts timed, and the same by hand."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

PROBE = """
import json, os, sys, time
first = time.monotonic()
import orchestrator.commands.invoke, orchestrator.cli.todo, orchestrator.cli.main
import orchestrator.store.store, orchestrator.store.repo
import pyromark, tomllib, contextlib, io
from orchestrator import state
documents, main = state.documents(state.ALWAYS), orchestrator.cli.main.main
parts = dict.fromkeys(("record", "compute", "fsync", "fsyncs", "commit", "git", "parses", "all parses"), 0)
parts["start"], parts["imports"] = first - float(sys.argv[1]), time.monotonic() - first

def wrapped(where, name, part, count=None):
    inner = getattr(where, name)
    def outer(*given, **named):
        begin, before = time.monotonic(), parts["all parses"]
        try:
            return inner(*given, **named)
        finally:
            parts[part] += time.monotonic() - begin
            if count:
                parts[count] += parts["all parses"] - before if count == "parses" else 1
    setattr(where, name, outer)

def counted(*given, inner=pyromark.events_with_range, **named):
    parts["all parses"] += 1
    return inner(*given, **named)

pyromark.events_with_range = counted
sys.addaudithook(lambda name, _: parts.update(git=parts["git"] + 1) if name == "subprocess.Popen" else None)
wrapped(orchestrator.store.store.Store, "record", "record")
wrapped(orchestrator.store.repo.UserRepo, "commit_paths", "commit")
wrapped(os, "fsync", "fsync", "fsyncs")
for document in documents:
    wrapped(document, "changes", "compute", "parses")
begin = time.monotonic()
with contextlib.redirect_stdout(io.StringIO()) as said:
    code = main(sys.argv[2:])
parts["whole"] = time.monotonic() - begin
if code:
    sys.exit(said.getvalue())
parts["finding"] = parts["whole"] - parts["record"]
parts["read parses"] = parts["all parses"] - parts["parses"]
parts["files"] = parts["record"] - parts["compute"] - parts["commit"] - parts["fsync"]
parts["last"] = time.monotonic()
print(json.dumps(parts))
"""
"""Calls the command of `sys.argv[2:]` in this process; `sys.argv[1]` is when it was started."""

BY_HAND = """
import fcntl, json, os, subprocess, sys, time
begin = time.monotonic()
path, words = sys.argv[2:4]
with open(".git/by-hand.lock", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    with open(path, "rb") as file:
        old = file.read()
    item = b"- [ ] " + words.encode()
    assert old.count(item) == 1
    new = old.replace(item, b"- [x] " + words.encode())
    temporary = f".{path}.tmp"
    with open(temporary, "wb") as file:
        file.write(new)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)
    work = time.monotonic() - begin
    subprocess.run(["git", "commit", "-qo", path, "-m", "by hand"], check=True)
last = time.monotonic()
print(json.dumps({"work": work, "commit": last - begin - work, "last": last}))
"""
"""Ticks the item of `sys.argv[3]` in the file of `sys.argv[2]`, and commits the file."""


def told(program: str, folder: Path, *arguments: str, python: str) -> dict[str, float]:
    """Run a program of ours and return the seconds that it prints; `wall` is from its start to its exit."""
    begin = time.monotonic()
    command = [python, "-c", program, str(begin), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    wall = time.monotonic() - begin
    if done.returncode:
        raise SystemExit(f"{arguments}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "wall": wall, "end": begin + wall - found["last"]}
