"""A worker that sends by its server and by shell commands, reads by its hooks, and kills all three.

`python mail_sender.py OUTSIDE KILLS PLANS PAUSE SEED [--phase-worker]`. Below OUTSIDE it notes, a line each:
`NAME.told` (ids that it was told to be written), `NAME.seen` (ids that it was shown), `NAME.killed` (kinds of
what was killed). It goes on until `enough` is there and its plans are done, then waits until as many workers
have as the file `workers` says, and reads what is left.
"""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOM = Path(__file__).parents[2] / "workers" / "messages"
PYTHON = (sys.executable, "-I", "-S")
LOG = os.environ.get("ORCHESTRATE_MESSAGES", "")
KINDS = ("server", "hook", "command")
SHOWN = re.compile(r"^    id (\S+:\d+)[,\n]", re.MULTILINE)
HOOK = {"hook_event_name": "PostToolUse"}
PATIENCE = 200.0


class Sender:
    """The worker."""

    def __init__(self, outside, kills, pause, rng, is_phase_worker):
        self.outside, self.pause, self.rng = outside, pause, rng
        self.name = os.environ["ORCHESTRATE_WORKER"]
        self.left = dict.fromkeys(KINDS, kills)
        self.flags = ("--phase-worker",) * is_phase_worker
        self.server, self.numbers, self.heard = None, 0, []

    def note(self, kind, *lines):
        """Append lines in one write: this process is never killed."""
        with (self.outside / f"{self.name}.{kind}").open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))

    @contextlib.contextmanager
    def killing(self, kind, process, longest):
        """Kill a process at a random moment of the block, unless enough of its kind were."""
        if not self.left[kind] or self.rng.random() < 0.3:
            yield
            return
        timer = threading.Timer(self.rng.uniform(0, longest), process.kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def ended(self, kind, process):
        """Wait for the end of a process, and count it where it was killed."""
        if process.wait(PATIENCE) == -signal.SIGKILL:
            self.left[kind] = max(0, self.left[kind] - 1)
            self.note("killed", kind)

    def read(self, text):
        """Note which messages a text shows."""
        self.note("seen", *(found := SHOWN.findall(text)))
        self.heard = (self.heard + [one for one in found if f".{self.name}:" not in one])[-20:]

    # By the server

    def begin(self):
        options = {
            "log": LOG, "phase": "phase-1", "events": "transitions", "on-blocker": "skip",
            "pause-limit": "60", "ack-limit": "900", "scratch": os.environ["TMPDIR"],
        }  # fmt: skip
        given = [word for key, value in options.items() for word in (f"--{key}", value)]
        self.server = subprocess.Popen(
            [*PYTHON, ROOM / "mail_server.py", *given, *self.flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with self.killing("server", self.server, 0.1):
            self.ask("initialize", {"protocolVersion": "2025-06-18"})

    def ask(self, method, params):
        """Return the server's answer; None where it was killed before it had given it whole."""
        self.numbers += 1
        asked = {"jsonrpc": "2.0", "id": self.numbers, "method": method, "params": params}
        line = b""
        with contextlib.suppress(BrokenPipeError):
            self.server.stdin.write(json.dumps(asked).encode() + b"\n")
            self.server.stdin.flush()
        line = self.server.stdout.readline()
        if line.endswith(b"\n"):
            return json.loads(line)["result"]
        self.over()
        return None

    def over(self):
        """See the server dead."""
        with contextlib.suppress(BrokenPipeError):
            self.server.stdin.close()
        self.server.stdout.close()
        self.ended("server", self.server)
        self.server = None

    def by_server(self, tool, **given):
        """Call a tool; return what its sender was told; None where the server was killed."""
        if self.server is None:
            self.begin()
        if self.server is None:
            return None
        with self.killing("server", self.server, 0.4):
            found = self.ask("tools/call", {"name": tool, "arguments": given})
        if found is None:
            return None
        said = found["structuredContent"]
        self.read(said.get("messages_for_you") or found["content"][0]["text"].partition("\n\n")[2])
        for one in said.get("messages", ()):
            self.note("seen", one["id"])
        return said

    # By the shell

    def by_shell(self, *words):
        """Call `orchestrate worker`; return what its sender was told; None where it was killed."""
        called = [os.environ["ORCHESTRATE_CLI"], "worker", *words, "--json"]
        with subprocess.Popen(called, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            with self.killing("command", process, 0.5):
                out, _ = process.communicate(timeout=PATIENCE)
            self.ended("command", process)
        try:
            return json.loads(out)
        except ValueError:
            assert process.returncode == -signal.SIGKILL, (words, process.returncode, out)
            return None

    def hook(self):
        """Run the hook after a tool call, as a CLI does."""
        called = [*PYTHON, ROOM / "mail_hook.py", "after", "codex", LOG]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(called, **pipes) as process:
            with self.killing("hook", process, 0.12):
                out, _ = process.communicate(json.dumps(HOOK).encode(), timeout=PATIENCE)
            self.ended("hook", process)
        if out.endswith(b"\n"):
            shown = json.loads(out).get("hookSpecificOutput", {})
            self.read(shown.get("additionalContext", ""))

    # What it says

    def tell(self, tool, words, **given):
        """Send something until it is known to be written, now by the server, now by the shell."""
        said = None
        while said is None:
            is_by_server = self.rng.random() < 0.5
            said = self.by_server(tool, **given) if is_by_server else self.by_shell(*words)
            if said and said["id"]:
                self.note("told", said["id"])
        return said

    def chat(self, number):
        """Send something to somebody; what the limit for each pair refuses is not written."""
        workers = int((self.outside / "workers").read_text())
        peer = f"Command-Worker-{self.rng.randint(1, workers)}"
        to = self.rng.choice(["coordinator", "lead", "all", peer, peer])
        kind = self.rng.choice(["question", "chat"])
        if self.heard and self.rng.random() < 0.3:
            asked = self.rng.choice(self.heard)
            to, kind = asked.rpartition(":")[0], "answer"
            more = {"re": asked}
        else:
            more = {}
        body, also = f"say {number}", [f"--{key}={value}" for key, value in more.items()]
        self.tell(
            "send_message",
            ["send", "--to", to, "--type", kind, *also, body],
            to=to,
            type=kind,
            body=body,
            **more,
        )

    def plan(self, number):
        """Take a plan from its start to its end, and say of each second one that it failed after all."""
        id_ = f"01-{number:02}"
        self.tell("plan_started", ["plan", "start", id_], plan=id_)
        task = {"plan": id_, "task": f"Task {number}", "state": "done"}
        self.tell("task_progress", ["task", id_, f"Task {number}", "--state", "done"], **task)
        self.tell("note", ["note", f"Context {number}"], kind="context", text=f"Context {number}")
        wall = {"title": f"Wall {number}", "body": "It is high.", "plan": id_}
        self.tell("blocker", ["block", wall["title"], "--body", wall["body"], "--plan", id_], **wall)
        Path(f"src/{number}.txt").write_text(id_)
        done = f"done {number}"
        self.tell("plan_complete", ["plan", "complete", id_, "--summary", done], plan=id_, summary=done)
        if number % 2:
            why = "it was complete"
            self.tell("plan_failed", ["plan", "fail", id_, "--reason", why], plan=id_, reason=why)

    def go(self, plans):
        """Talk, report, and kill, until it is enough; then read what all have said."""
        number = 0
        while number < plans or any(self.left.values()) or not (self.outside / "enough").exists():
            number += 1
            if number <= plans:
                self.plan(number)
            self.chat(number)
            self.hook()
            if not any(self.left.values()):
                (self.outside / f"{self.name}.enough").touch()
            time.sleep(self.rng.uniform(0, self.pause))
        if plans:
            self.tell("phase_complete", ["phase-complete", "--summary", "all of it"], summary="all of it")
        (self.outside / f"{self.name}.sent").touch()
        while len(list(self.outside.glob("*.sent"))) < int((self.outside / "workers").read_text()):
            time.sleep(0.05)  # between two looks
        # A text has at most 32 KiB.
        while self.by_server("inbox")["messages"]:
            pass
        self.over()


def main(outside, kills, plans, pause, seed, *flags):
    name = os.environ["ORCHESTRATE_WORKER"]
    rng = random.Random(f"{seed} {name}")
    Sender(Path(outside), int(kills), float(pause), rng, "--phase-worker" in flags).go(int(plans))


if __name__ == "__main__":
    main(*sys.argv[1:])
