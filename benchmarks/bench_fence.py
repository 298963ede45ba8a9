"""Fifteen write workers of a second each, template to landing and record; beside peers, and by fence."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from lab import ORCHESTRATE, repository, say, timed

from workers.fence._bubblewrap import programs

WORKERS, AGENT_SECONDS, ROUNDS = 15, 1.0, 3
LEVELS = {"off": "off", "landlock": "landlock", "namespaces": "auto"}
PEERS = ("parallel-orchestra==0.1.4", "agent-orchestration-process==0.6.0")
# Each gives its agent the name of the file to write in a way of its own: an argument, or standard input.
AGENT = """#!/bin/sh
[ "$1" = auth ] && exec echo '{}'
for name; do :; done
case "$name" in task-*) ;; *) read -r name ;; esac
sleep 1
mkdir -p src && echo "$name" > "src/$name.txt"
echo '{"type": "system", "subtype": "init", "session_id": "s", "model": "m"}'
echo '{"type": "result", "subtype": "success", "is_error": false, "result": "done", "session_id": "s"}'
"""
LIBRARIES = "import anyio._backends._asyncio, filelock, jinja2, psutil, pydantic, yaml; pydantic.BaseModel"
"""The libraries that a run imports before it can read a ticket, without GitPython."""
# What nobody who fences and lands can be quicker than: no proof, no judgement, no record, no runtime.
BARE = """set -e
one() {
  bwrap --die-with-parent --new-session --unshare-user --unshare-pid --unshare-ipc --unshare-uts \\
    --cap-drop ALL --ro-bind / / --dev /dev --proc /proc --tmpfs /run \\
    --bind "$PWD/.trees/$1" "$PWD/.trees/$1" --chdir "$PWD/.trees/$1" \\
    -- sh agent.sh "task-$1" < /dev/null > ".trees/$1.out" 2> ".trees/$1.err"
  git -C ".trees/$1" add -A
  git -C ".trees/$1" diff --cached --binary HEAD > ".trees/$1.patch"
}
mkdir .trees
for n in $(seq 0 14); do git worktree add -q --detach ".trees/$n" HEAD; one "$n" & done
wait
git apply --index .trees/*.patch
git commit -qm landed
"""
TICKET = """---
phase: phase-1
title: Write
mode: write
owns: ["src/task-{{{{ matrix.number }}}}.txt"]
matrix: {{number: [{numbers}]}}
command: ["sh", "agent.sh", "task-{{{{ matrix.number }}}}"]
---
x
"""


def main() -> None:
    # Peers look along PATH; where the system has no bubblewrap they get the one that we bring along.
    os.environ["PATH"] += "".join(f"{os.pathsep}{Path(program).parent}" for program in programs())
    folder = Path(tempfile.mkdtemp(prefix="orchestrate-peers-"))
    try:
        contenders: dict[str, Callable[[], float]] = {}
        for name, level in LEVELS.items():
            contenders[f"orchestrate, {name}"] = partial(ours, level)
        if shutil.which("bwrap"):
            contenders["git and bwrap alone, by a shell"] = bare
        else:
            say("BWRAP IS NOT INSTALLED", "BARE TOOLS NOT MEASURED")
        contenders["an interpreter with the libraries alone"] = libraries
        contenders |= peers(folder)
        walls: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(ROUNDS):
            for name, act in contenders.items():
                try:
                    walls[name].append(act())
                except SystemExit as error:
                    if name.startswith("orchestrate"):
                        raise
                    # A peer whose `git worktree add`s run into each other has lost that round.
                    say(f"{name} FAILED A ROUND", "NOT COUNTED")
                    print(str(error)[-500:], file=sys.stderr)
    finally:
        shutil.rmtree(folder)
    report({name: min(found) for name, found in walls.items() if found})


def report(best: dict[str, float]) -> None:
    for name, wall in best.items():
        target = "<= 1.6 s" if name == "orchestrate, namespaces" else ""
        work = "" if name.startswith("an interpreter") else f"{WORKERS} x 1 s, "
        say(f"{work}{name}", f"{wall:.2f} s", target)
    mine = best["orchestrate, namespaces"]
    rivals = {name: wall for name, wall in best.items() if name.startswith(("parallel-", "agent-"))}
    if rivals:
        name, wall = min(rivals.items(), key=lambda one: one[1])
        over = (mine - AGENT_SECONDS) / (wall - AGENT_SECONDS)
        say(f"  beyond the agent's second, beside {name}", f"{over:.2f} x", "<= 0.5")
    for level in ("landlock", "namespaces"):
        added = (best[f"orchestrate, {level}"] - best["orchestrate, off"]) / WORKERS * 1000
        say(f"  added by {level}", f"{added:+.1f} ms each")


@contextmanager
def project(settings: str) -> Iterator[Path]:
    """Make a repository with the agent in it, and our templates."""
    numbers = ", ".join(str(number) for number in range(WORKERS))
    with repository({"command-n": TICKET.format(numbers=numbers)}, settings) as folder:
        agent = folder / "agent.sh"
        agent.write_text(AGENT)
        agent.chmod(0o755)
        for command in (["add", "-A"], ["commit", "-qm", "agent"]):
            subprocess.run(["git", *command], cwd=folder, check=True)
        yield folder


def ours(level: str) -> float:
    with project(f'fence = "{level}"\n') as folder:
        wall, _ = timed([ORCHESTRATE, "run", "phase-1", "--json"], folder)
        landed(folder)
    return wall


def bare() -> float:
    """Write, fence and land the same files by a shell with git and bubblewrap."""
    with project("") as folder:
        wall, _ = timed(["sh", "-c", BARE], folder)
        landed(folder)
    return wall


def libraries() -> float:
    """Start an interpreter that imports our libraries, and does nothing."""
    return timed([sys.executable, "-c", LIBRARIES], Path.cwd())[0]


def landed(folder: Path) -> None:
    """Check that the whole work was measured. Raises if not."""
    there = subprocess.run(["git", "ls-files", "src"], cwd=folder, check=True, capture_output=True, text=True)
    if len(there.stdout.split()) != WORKERS:
        raise SystemExit(f"{folder}: {len(there.stdout.split())} of {WORKERS} files landed")


def peers(folder: Path) -> dict[str, Callable[[], float]]:
    """Install the peers, and return how each does the same work; an unavailable one is named, loudly."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    binaries = folder / "bin"
    found: dict[str, Callable[[], float]] = {}
    for peer, run in zip(PEERS, (parallel_orchestra, agent_orchestration_process), strict=True):
        pip = [str(binaries / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", peer]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode:
            say(f"{peer.upper()} COULD NOT BE INSTALLED", "NOT MEASURED")
            print(done.stderr[-500:], file=sys.stderr)
        else:
            found[peer] = partial(run, binaries)
    return found


def parallel_orchestra(binaries: Path) -> float:
    """Run its plan: worktrees, a commit each, merged; no fence."""
    tasks = [{"id": f"task-{n}", "agent": "a", "read_only": False, "prompt": f"task-{n}",
              "writes": [f"src/task-{n}.txt"]} for n in range(WORKERS)]  # fmt: skip
    plan = {"po_plan_version": "0.1", "name": "bench", "cwd": ".", "tasks": tasks}
    with project("") as folder:
        path = folder / "plan.md"
        path.write_text(f"---\n{json.dumps(plan)}\n---\nx\n")
        for command in (["add", "-A"], ["commit", "-qm", "plan"]):
            subprocess.run(["git", *command], cwd=folder, check=True)
        command = [str(binaries / "parallel-orchestra"), "run", str(path), "--no-dashboard"]
        wall, _ = timed(
            [*command, "--max-workers", str(WORKERS), "--claude-exe", str(folder / "agent.sh")], folder
        )
        landed(folder)
    return wall


def agent_orchestration_process(binaries: Path) -> float:
    """Run its batch: worktrees behind bubblewrap; landing is another command of its own."""
    with project("") as folder:
        (folder / ".gitignore").write_text(f"{(folder / '.gitignore').read_text()}\n/.aop/\n")
        tables = (
            f'[[tasks]]\nid = "task-{n}"\nagent = "claude"\nprompt = "task-{n}"\n' for n in range(WORKERS)
        )
        manifest = folder / "batch.toml"
        manifest.write_text("".join(tables))
        for command in (["add", "-A"], ["commit", "-qm", "batch"]):
            subprocess.run(["git", *command], cwd=folder, check=True)
        (home := folder.with_name(f"{folder.name}-home")).mkdir()
        try:
            binary = f"AOP_CLAUDE_BIN={folder / 'agent.sh'}"
            command = ["env", binary, f"HOME={home}", str(binaries / "aop"), "batch", "--jobs", str(WORKERS)]
            wall, _ = timed([*command, str(manifest)], folder)
        finally:
            shutil.rmtree(home)
    return wall


if __name__ == "__main__":
    main()
