"""A stand-in for an agent CLI: prints the stream of codex, claude or gemini, and misbehaves on request.

A program of its own, started by the scripts that `orchestrate fake-agent` writes: standard library only,
and little of it. What it plays stands in its prompt, `<<fake {"do": "hang"}>>`, or among its arguments,
`--fake '{"do": "hang"}'`; steps of the arguments are played before the prompt is read.
docs/rehearsing.md lists the steps.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from orchestrator.rehearsal._memory import AgentMemory
from orchestrator.rehearsal._server import Tools
from orchestrator.rehearsal._streams import VOICES, Claude, Codex, Gemini, Record, new_id
from orchestrator.rehearsal._troubles import AGES, TROUBLES

VERSIONS = {"codex": "codex-cli 0.0.0", "claude": "0.0.0 (Claude Code)", "gemini": "0.0.0"}
ON_INTERRUPT = {"codex": 1, "claude": 0, "gemini": 0}
ON_TERMINATE = {"claude": 143, "gemini": 0}
"""Exit codes of the real CLIs; codex dies of the signal."""
NESTED = (
    *("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CODEX_SANDBOX", "CODEX_THREAD_ID"),
    *("CODEX_SANDBOX_NETWORK_DISABLED", "GEMINI_CLI", "GEMINI_SANDBOX"),
)
"""Variables by which a CLI detects that it was started inside another session."""
OPENING = "<<fake "
BAD_STEP = 64
"""Exit code of a script that cannot be played."""


def main() -> NoReturn:
    """Play the steps, and answer if none of them has ended the stream."""
    name, *arguments = sys.argv[1:]
    if "--version" in arguments:
        put(1, f"{VERSIONS[name]}\n".encode())
        sys.exit(0)
    signal.signal(signal.SIGINT, lambda *_: os._exit(ON_INTERRUPT[name]))
    if name in ON_TERMINATE:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(ON_TERMINATE[name]))
    fake = Fake(name, arguments)
    try:
        fake.play(json.loads(step) for step in _values(arguments, "--fake"))
        fake.read_prompt()
        fake.play(fake.steps())
    except (ValueError, KeyError, TypeError) as error:
        put(2, f"fake-agent: a step cannot be played: {error!r}; see docs/rehearsing.md\n".encode())
        sys.exit(BAD_STEP)
    fake.close()
    fake.exit(0)


def steps_in(prompt: str) -> Iterator[Record]:
    """Yield the steps in a prompt. Raises ValueError for one that is not a JSON object."""
    at = prompt.find(OPENING)
    while at >= 0:
        step, end = json.JSONDecoder().raw_decode(prompt, at + len(OPENING))
        if not isinstance(step, dict) or not prompt.startswith(">>", end):
            raise ValueError(prompt[at : end + 2])
        yield step
        at = prompt.find(OPENING, end)


def report(summary: str, status: str, files: Iterable[str], lacks: str = "") -> str:
    """Write a report in the form that a ticket asks for, without the section that it `lacks`."""
    affected = "\n".join(f"- {path}: written" for path in files) or "- none"
    details = {
        "BLOCKED": "\n\nBlocker: {0}\nAttempted: {0}\nNeeds: {0}",
        "NEEDS_CLARIFICATION": "\n\nQuestion: {0}\nContext: {0}\nImpact: {0}",
    }.get(status, "")
    parts = {
        "Summary": summary,
        "Analysis": "A rehearsal: nothing was analysed.",
        "Proposal": f"### Affected Files\n\n{affected}",
        "Risks and Alternatives": "None.",
        "Status": status + details.format(summary),
    }
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in parts.items() if title != lacks)


def put(descriptor: int, data: bytes) -> None:
    """Write all of it at once, past every buffer, so that it is printed however the process ends."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def lines(records: Iterable[Record]) -> bytes:
    """Return records as they are printed: one a line, characters unescaped."""
    texts = (json.dumps(record, ensure_ascii=False, separators=(",", ":")) for record in records)
    return "".join(text + "\n" for text in texts).encode()


class Fake:
    """A fake agent; a public method `do_NAME` is a step."""

    def __init__(self, name: str, arguments: list[str]) -> None:
        self.name = name
        self.arguments = arguments
        self.memory = AgentMemory(name)
        self.tools = Tools(name, arguments)
        self.thread = _thread(name, arguments)
        self.prompt = b""
        self.text = "Done."
        self.written: list[str] = []
        self.voice: Codex | Claude | Gemini | None = None
        self.is_open = False
        self.has_ended = False
        self.sum: Any = None
        self.printed = 0

    def read_prompt(self) -> None:
        """Read the prompt, standard input to its end; once."""
        self.prompt = self.prompt or sys.stdin.buffer.read()

    def steps(self) -> list[Record]:
        """Return the steps to play: those of the prompt, else those kept for the resumed thread."""
        steps = list(steps_in(self.prompt.decode("utf-8", "replace")))
        if not self.thread:
            self.memory.begin(self.stream().session, steps)
        elif not self.memory.knows(self.thread):
            records, said, code = self.stream().lost()
            if records:
                self.print_records(records)
            self.print_error(said)
            self.exit(code)
        return steps or self.memory.steps(self.thread)

    def play(self, steps: Iterable[Record]) -> None:
        """Play steps in order. Raises ValueError for an unknown one."""
        for step in steps:
            name = str(step.get("do"))
            known: Callable[[Record], None] | None = getattr(self, "do_" + name.replace("-", "_"), None)
            if known is not None:
                known(step)
            elif name in TROUBLES:
                TROUBLES[name](self, step)
            else:
                self._refuse(f"fake-agent: there is no step {step.get('do')!r}; see docs/rehearsing.md", 64)

    def close(self) -> None:
        """Answer, unless a step has done so."""
        if not self.has_ended:
            self.do_answer({})

    def print_records(self, records: Iterable[Record]) -> None:
        """Print records, one a line; before the first of all, the beginning of the stream."""
        self._print(lines(self._opened(records)))

    def exit(self, code: int) -> NoReturn:
        """Exit."""
        self.tools.close()
        if self.sum is not None:
            put(2, f"sha256 {self.sum.hexdigest()} of {self.printed} bytes\n".encode())
        sys.exit(code)

    def do_answer(self, step: Record) -> None:
        """Print the final answer: `text`, or a `report` with a `status`; and tokens (`in`, `out`)."""
        text = str(step.get("text", self.text)) * int(step.get("times", 1))
        if step.get("report", True):
            lacks = str(step.get("lacks", ""))
            text = report(text, str(step.get("status", "COMPLETE")), self.written, lacks)
        taken, given = int(step.get("in", 100)), int(step.get("out", 10))
        if self.name == "codex":  # the sum of the whole thread
            taken, given = self.memory.use(self.stream().session, taken, given)
        self.has_ended = True
        self.print_records(self.stream().ended(text, taken, given))

    def do_say(self, step: Record) -> None:
        """Print a message of `text`, repeated `times`, in one record."""
        self.print_records(self.stream().said(str(step.get("text", "On it.")) * int(step.get("times", 1))))

    def do_write(self, step: Record) -> None:
        """Write `text` to `path`, as a tool call."""
        path, text = str(step["path"]), str(step.get("text", "written by a fake agent\n"))
        self.print_records(self.stream().tool(f"write {path}"))
        if folder := os.path.dirname(path):  # noqa: PTH120 - pathlib is half of a start
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - as above
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - as above
            file.write(text)
        self.written.append(path)
        self.print_records(self.stream().tool_end(f"write {path}", "", 0))

    def do_shell(self, step: Record) -> None:
        """Run `command` by `sh -c`, as a tool call that takes `seconds` at least; just that without one."""
        import subprocess  # noqa: PLC0415 - a third of a start

        until = time.monotonic() + float(step.get("seconds", 0))
        command = str(step.get("command") or f"sleep {step.get('seconds', 1)}")
        self.print_records(self.stream().tool(command))
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        time.sleep(max(0.0, until - time.monotonic()))
        self.print_records(self.stream().tool_end(command, done.stdout + done.stderr, done.returncode))

    def do_call(self, step: Record) -> None:
        """Call a tool of orchestrate: `tool` with what is `given`."""
        tool, given = str(step["tool"]), dict(step.get("given", {}))
        self.print_records(self.stream().tool(tool))
        self.print_records(self.stream().tool_end(tool, self.tools.call(tool, given), 0))

    def do_sleep(self, step: Record) -> None:
        """Do nothing for `seconds`."""
        time.sleep(float(step.get("seconds", 1)))

    def do_hang(self, _step: Record) -> None:
        """Never print again, never exit."""
        self.print_records([])
        time.sleep(AGES)

    def do_stall(self, step: Record) -> None:
        """Print `records` messages, then hang."""
        for number in range(int(step.get("records", 2))):
            self.print_records(self.stream().said(f"Step {number + 1}."))
        time.sleep(AGES)

    def do_flood(self, step: Record) -> None:
        """Print records as fast as possible for `seconds`, then exit without an end of the stream."""
        until = time.monotonic() + float(step.get("seconds", 5))
        self.print_records([])
        chunk = lines(self.stream().said("flood " * 150)) * 60
        while time.monotonic() < until:
            self._print(chunk)
        self.exit(0)

    def do_fork(self, step: Record) -> None:
        """Leave a child of `seconds` behind: own session, same output, ignoring TERM, INT and HUP."""
        if os.fork():
            return
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        time.sleep(float(step.get("seconds", 60)))
        os._exit(0)

    def do_ignore_term(self, _step: Record) -> None:
        """Ignore TERM and INT from here on."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)

    def do_cut(self, step: Record) -> None:
        """Print the first `bytes` of a longer answer, without an end of line, and exit with 0."""
        size = int(step.get("bytes", 65536))
        self._print(lines(self._opened(self.stream().ended("x" * (size + size // 2), 100, 10)))[:size])
        self.exit(0)

    def do_long(self, step: Record) -> None:
        """Print a record of at least `bytes` on one line: the output of a tool."""
        self.print_records(self.stream().tool("cat large"))
        self.print_records(self.stream().tool_end("cat large", "x" * int(step.get("bytes", 200_000)), 0))

    def do_split(self, step: Record) -> None:
        """Print a record byte by byte, `gap` seconds apart: characters come in parts."""
        self.print_records([])
        gap = float(step.get("gap", 0.02))
        for number in lines(self.stream().said(str(step.get("text", "\u00e9\u20ac\U0001f600")))):
            self._print(bytes([number]))
            time.sleep(gap)

    def do_noise(self, step: Record) -> None:
        """Print lines that are no record: a log line, a blank line, an escape before the next record."""
        self._print(str(step.get("text", "[WARN] a log line\n\n\x1b[6n")).encode())

    def do_raw(self, step: Record) -> None:
        """Print `stdout` and `stderr` unchanged, `times` over, standard error first."""
        times = int(step.get("times", 1))
        put(2, str(step.get("stderr", "")).encode() * times)
        self._print(str(step.get("stdout", "")).encode() * times)

    def do_never_exit(self, _step: Record) -> None:
        """Print the answer, unless that is done, and do not exit."""
        self.close()
        time.sleep(AGES)

    def do_lie(self, step: Record) -> None:
        """Claim work that was not done; with a `code`, report success and exit with that."""
        path = str(step.get("path", "src/never_written.py"))
        self.written.append(path)
        self.do_answer({"text": f"Wrote {path}; all tests pass."})
        self.exit(int(step.get("code", 0)))

    def do_error(self, step: Record) -> None:
        """Fail as a provider does: `status`, `message`, after `retries` notices `every` seconds, or for ever.

        With `"final": false` the stream has no end, and the next step continues it.
        """
        status, message = int(step.get("status", 429)), str(step.get("message", "too many requests"))
        attempt = 0
        while step.get("forever") or attempt < int(step.get("retries", 0)):
            attempt += 1
            records, said = self.stream().retry(attempt, status, message)
            self.print_records(records)
            put(2, said.encode())
            time.sleep(float(step.get("every", 1)))
        final = bool(step.get("final", True))
        whole = str(step.get("whole") or self.stream().wording(status, message))
        records, said, code = self.stream().failed(status, whole, final=final)
        self.print_records(records)
        put(2, said.encode())
        if final:
            self.exit(code)

    def do_exit(self, step: Record) -> None:
        """Exit with `code`, after whatever was printed."""
        self.exit(int(step.get("code", 0)))

    def do_die(self, step: Record) -> None:
        """Die of `signal` in the middle of a record."""
        whole = lines(self._opened(self.stream().said("This sentence is cut off in the middle.")))
        self._print(whole[:-20])
        number = signal.Signals(int(step.get("signal", 9)))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        time.sleep(AGES)

    def do_hash(self, _step: Record) -> None:
        """Put the SHA-256 of the prompt into the answer."""
        import hashlib  # noqa: PLC0415 - for start-up time

        self.text = f"sha256 {hashlib.sha256(self.prompt).hexdigest()} of {len(self.prompt)} bytes"

    def do_sum(self, _step: Record) -> None:
        """Print the digest of all output from here on, at the end, as the last line of standard error."""
        import hashlib  # noqa: PLC0415 - for start-up time

        self.sum, self.printed = hashlib.sha256(), 0

    def do_env(self, step: Record) -> None:
        """Refuse to work where a variable of another session (or one of `names`) is set."""
        seen = [name for name in (*NESTED, *step.get("names", ())) if name in os.environ]
        if seen:
            self._refuse(f"cannot be started inside another session: {', '.join(seen)} is set", 1)

    def do_refuse(self, step: Record) -> None:
        """Print one line on standard error and exit with `code`."""
        message = str(step.get("message", "Not inside a trusted directory."))
        self._refuse(message, int(step.get("code", 1)))

    def stream(self) -> Codex | Claude | Gemini:
        """Return the stream format; made on demand, since it quotes the prompt."""
        if self.voice is None:
            model = next(_values(self.arguments, "-m", "--model"), "")
            session = self.thread or next(_values(self.arguments, "--session-id"), "") or new_id()
            self.voice = VOICES[self.name](session, model, self.prompt.decode("utf-8", "replace"))
        return self.voice

    def print_error(self, text: str) -> None:
        """Print to standard error."""
        put(2, text.encode())

    def _opened(self, records: Iterable[Record]) -> list[Record]:
        start = [] if self.is_open else self.stream().start()
        self.is_open = True
        return [*start, *records]

    def _print(self, data: bytes) -> None:
        put(1, data)
        self.printed += len(data)
        if self.sum is not None:
            self.sum.update(data)

    def _refuse(self, message: str, code: int) -> NoReturn:
        put(2, f"{message}\n".encode())
        self.exit(code)


def _thread(name: str, arguments: list[str]) -> str:
    """Return the thread to resume, as the CLI names it; empty for a new one."""
    if name == "codex":
        return arguments[-2] if arguments[:2] == ["exec", "resume"] and len(arguments) > 3 else ""
    return next(_values(arguments, "--resume"), "")


def _values(arguments: list[str], *options: str) -> Iterator[str]:
    # pairwise would be one more module to load at every start.
    return (arguments[at + 1] for at, option in enumerate(arguments[:-1]) if option in options)
