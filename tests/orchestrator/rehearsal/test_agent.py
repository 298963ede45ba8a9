"""The fake agents: they print what the real ones print, and each step ends as documented."""

import hashlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.faults import AGENTS, step
from support.paths import ROOT
from support.runtimes import PATIENCE

from orchestrator.rehearsal.agent import BAD_STEP, NESTED, report
from tickets.report import STATUSES, read_report
from workers.agents.agent import agent_named

STREAMS = ROOT / "tests" / "workers" / "agents" / "streams"

each_cli = pytest.mark.parametrize("name", AGENTS)


class Played:
    """What a fake left that was given some steps."""

    def __init__(self, folder, name, *steps, arguments=(), env=None, cwd=None):
        self.name = name
        done = subprocess.run(
            [folder / name, *arguments], input="\n".join(steps).encode(), capture_output=True, check=False,
            env={"PATH": "/usr/bin:/bin", **(env or {})}, cwd=cwd, timeout=20,
        )  # fmt: skip
        self.code, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr.decode()
        self.progress = []
        reader = agent_named(name).new_reader()
        for line in self.stdout.splitlines():
            if found := reader.feed(line):
                self.progress.append(found)
        code = None if self.code < 0 else self.code
        self.ended = time.time()
        self.answer = reader.answer(exit_code=code, stderr_tail=self.stderr, now=self.ended)

    @property
    def kinds(self):
        """What its reader saw, in order."""
        return [progress.kind for progress in self.progress]


def kind_of(record):
    """Name a kind of record: records of one kind have the same keys."""
    below = record.get("item") or record.get("message")
    block = below.get("content") if isinstance(below, dict) else None
    inner = (block[0] if isinstance(block, list) and block else below) or {}
    said = inner.get("type") if isinstance(inner, dict) else None
    return (record["type"], record.get("subtype"), record.get("role"), record.get("status"), said)


def keys_by_kind(text):
    """Return the keys of each kind of record in a stream."""
    found = {}
    for line in text.splitlines():
        record = json.loads(line)
        found.setdefault(kind_of(record), set()).update(keys(record))
    return found


def keys(value, at=""):
    """Return the keys of an object and of those in it, dotted; the input of a tool is left out."""
    found = set()
    for key, inner in value.items():
        place = f"{at}.{key}" if at else key
        found.add(place)
        if isinstance(inner, dict) and key not in ("input", "parameters", "tool_use_result", "models"):
            found |= keys(inner, place)
        elif isinstance(inner, list) and inner and isinstance(inner[0], dict) and key == "content":
            found |= keys(inner[0], f"{place}[]")
    return found


LEFT_OUT = re.compile(
    r"ttft|time_to_request|fast_mode|usage\.(?:server_tool|service|cache_creation(?:$|\.)|infer|iter|speed)"
)
"""How fast it was and what is billed how: nothing that a reader looks at."""


@each_cli
def test_a_fake_prints_the_records_of_a_real_turn(fakes, tmp_path, name):
    steps = (step("say"), step("shell", command="exit 3"), step("answer", text="All done", report=False))
    fake = Played(fakes, name, *steps, cwd=tmp_path)
    real = keys_by_kind((STREAMS / f"{name}-tool.jsonl").read_text())
    spoken = keys_by_kind(fake.stdout.decode())
    assert spoken.keys() <= real.keys()
    missing = {f"{kind}: {key}" for kind, found in spoken.items() for key in real[kind] - found}
    assert {key for key in missing if not LEFT_OUT.search(key)} == set()
    assert fake.kinds == ["session", "text", "tool", "tool_end", "text", "end"]
    assert (fake.answer.ended, fake.answer.text, fake.answer.flags) == ("success", "All done", ())
    assert (fake.answer.usage.input_tokens, fake.answer.usage.output_tokens) == (100, 10)
    assert fake.answer.thread in fake.stdout.decode()


@each_cli
def test_a_fake_fails_with_the_records_of_a_real_failure(fakes, name):
    fake = Played(fakes, name, step("error", status=429, message="slow down", retries=2, every=0))
    real = keys_by_kind((STREAMS / f"{name}-error429.jsonl").read_text())
    spoken = keys_by_kind(fake.stdout.decode())
    closing = max(kind for kind in real if kind[0] in ("turn.failed", "result"))
    assert {key for key in real[closing] - spoken[closing] if not LEFT_OUT.search(key)} == set()
    assert (fake.answer.ended, fake.answer.failure) == ("error", "rate_limited")
    assert "slow down" in fake.answer.error
    assert fake.code == {"codex": 1, "claude": 1, "gemini": 173}[name]
    told = fake.stderr.count("Retrying") if name == "gemini" else fake.kinds.count("retry")
    assert told == 2


@each_cli
def test_without_a_step_a_fake_gives_a_whole_report(fakes, name):
    fake = Played(fakes, name, "Look around and report.")
    found = read_report(fake.answer.text)
    assert (found.status, found.complaints) == ("COMPLETE", ())


@pytest.mark.parametrize("status", STATUSES)
def test_a_report_lacks_nothing_whatever_its_status(status):
    found = read_report(report("Stuck on a door.", status, ["src/a.py"]))
    assert (found.status, found.complaints) == (status, ())
    assert found.proposal.affected_files != ()


@each_cli
def test_a_fake_has_the_hash_of_what_it_was_asked(fakes, name):
    prompt = f"{step('hash')}\n\u00e9\u20ac"
    fake = Played(fakes, name, prompt)
    assert hashlib.sha256(prompt.encode()).hexdigest() in fake.answer.text


@each_cli
@pytest.mark.parametrize("variable", NESTED)
def test_a_fake_sees_a_session_around_it(fakes, name, variable):
    fake = Played(fakes, name, step("env"), env={variable: "1"})
    assert (fake.code, fake.stdout) == (1, b"")
    assert variable in fake.stderr


HOMES = {"codex": "CODEX_HOME", "claude": "CLAUDE_CONFIG_DIR", "gemini": "GEMINI_CLI_HOME"}


def going_on(name, thread):
    """Return the arguments by which a CLI resumes a thread."""
    return ("exec", "resume", "--json", thread, "-") if name == "codex" else ("--resume", thread)


@each_cli
@pytest.mark.parametrize(
    ("kind", "failure"), [("rate", "rate_limited"), ("quota", "rate_limited"), ("overloaded", "overloaded")]
)
def test_a_limit_ends_at_the_time_that_it_names(fakes, tmp_path, name, kind, failure):
    until = time.time() + 3000
    fake = Played(fakes, name, step("limit", kind=kind, at=until), env={HOMES[name]: str(tmp_path)})
    answer = fake.answer
    assert (answer.ended, answer.failure) == ("error", failure), fake.stdout
    named = answer.resets_at or fake.ended + answer.retry_after
    assert until - 1 <= named <= until + 10
    over = Played(fakes, name, step("limit", kind=kind, at=time.time() - 1))
    assert (over.code, over.answer.ended) == (0, "success")


@each_cli
def test_a_quota_of_hours_names_a_time(fakes, name):
    until = time.time() + 4 * 3600
    answer = (fake := Played(fakes, name, step("limit", kind="quota", at=until))).answer
    named = answer.resets_at or fake.ended + answer.retry_after
    assert until - 1 <= named <= until + 61


@each_cli
def test_a_limit_is_counted_from_the_first_time_that_it_was_met(fakes, tmp_path, name):
    env = {HOMES[name]: str(tmp_path)}
    first = Played(fakes, name, step("limit", seconds=900), env=env)
    kept = next(tmp_path.rglob("first.limit-*"))
    met = float(kept.read_text())
    assert Played(fakes, name, step("limit", seconds=900), env=env).answer.failure == "rate_limited"
    assert float(kept.read_text()) == met
    kept.write_text(str(met - 1000))  # as if it was long ago
    again = Played(fakes, name, step("limit", seconds=900), env=env)
    assert (first.answer.failure, again.answer.ended) == ("rate_limited", "success")


@each_cli
def test_an_expired_login_and_an_untrusted_directory_are_known_as_such(fakes, name):
    for do, failure in (("login", "login"), ("untrusted", "refused")):
        fake = Played(fakes, name, step(do))
        assert (fake.answer.ended != "success", fake.answer.failure) == (True, failure), fake.stderr
        assert fake.code != 0
    assert Played(fakes, name, step("untrusted")).stdout == b""


@each_cli
def test_one_of_two_that_share_a_directory_finds_it_locked(fakes, tmp_path, name):
    env = {HOMES[name]: str(tmp_path), "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(
        [fakes / name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True
    ) as holder:
        try:
            holder.stdin.write(f"{step('lock', seconds=0)}{step('say')}{step('lock', seconds=60)}")
            holder.stdin.close()
            holder.stdout.readline()
            until = time.monotonic() + PATIENCE
            while not is_held(tmp_path / "fake-state.sqlite"):
                assert time.monotonic() < until
            other = Played(fakes, name, step("lock", seconds=0), env=env)
            assert (other.code, other.answer.error) == (1, "Error: database is locked")
            assert other.answer.failure == "provider", "it is tried again"
        finally:
            holder.kill()
    assert Played(fakes, name, step("lock", seconds=0), env=env).code == 0


def is_held(path):
    """Return whether a process has locked a file, without a try, which would lock out other processes."""
    return path.exists() and f":{path.stat().st_ino} " in Path("/proc/locks").read_text()


@each_cli
@pytest.mark.parametrize("how", ["text", "tool"])
def test_a_question_is_read_from_one_that_was_stopped_while_it_waited(fakes, tmp_path, name, how):
    stderr = tmp_path / "stderr"
    with stderr.open("wb") as said, subprocess.Popen(
        [fakes / name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said
    ) as worker:  # fmt: skip
        worker.stdin.write(step("ask", how=how, text="May I go?").encode())
        worker.stdin.close()
        reader, seen = agent_named(name).new_reader(), []
        late = threading.Timer(20, worker.kill)
        late.start()
        while "May I go?" not in " ".join(progress.text for progress in seen):
            if progress := reader.feed(worker.stdout.readline()):
                seen.append(progress)
        until = time.monotonic() + PATIENCE
        while how == "text" and b"[y/N]" not in stderr.read_bytes():
            assert time.monotonic() < until
        worker.kill()
        late.cancel()
    answer = reader.answer(exit_code=None, stderr_tail=stderr.read_text())
    assert answer.question.startswith("May I go?")
    assert "tool" not in [progress.kind for progress in seen]


@each_cli
def test_a_refusal_that_ends_the_work_is_its_question(fakes, name):
    fake = Played(fakes, name, step("ask", how="refused", command="make clean"))
    assert (fake.code, fake.answer.ended) == (0, "success")
    assert fake.answer.question.startswith("no permission for ")
    assert "make clean" in fake.answer.question


@each_cli
@pytest.mark.parametrize("learns", [True, False])
def test_a_report_that_lacks_its_status_has_it_when_asked_in_the_same_thread(fakes, tmp_path, name, learns):
    env = {HOMES[name]: str(tmp_path)}
    first = Played(fakes, name, step("unreported", learns=learns, text="Looked."), env=env)
    assert read_report(first.answer.text).status is None
    assert "Looked." in first.answer.text
    for turn in (2, 3):
        asked = Played(fakes, name, "What of it?", arguments=going_on(name, first.answer.thread), env=env)
        assert asked.answer.thread == first.answer.thread
        assert read_report(asked.answer.text).status == ("COMPLETE" if learns else None)
        assert asked.answer.usage.input_tokens == (100 * turn if name == "codex" else 100)


@each_cli
def test_a_thread_plays_on_what_it_was_told_unless_it_is_told_something_else(fakes, tmp_path, name):
    env = {HOMES[name]: str(tmp_path)}
    first = Played(fakes, name, step("answer", text="Heron."), env=env)
    arguments = going_on(name, first.answer.thread)
    assert "Heron." in Played(fakes, name, "Go on.", arguments=arguments, env=env).answer.text
    told = step("answer", text="Egret.")
    assert "Egret." in Played(fakes, name, told, arguments=arguments, env=env).answer.text


@each_cli
def test_a_thread_that_was_never_begun_is_lost(fakes, tmp_path, name):
    env = {HOMES[name]: str(tmp_path)}
    fake = Played(fakes, name, "Go on.", arguments=going_on(name, "0-1"), env=env)
    assert (fake.code, fake.answer.ended != "success") == (42 if name == "gemini" else 1, True)
    assert "thread_lost" in fake.answer.flags


@each_cli
@pytest.mark.parametrize(
    ("steps", "code", "ended"),
    [
        ((step("exit", code=7),), 7, "none"),
        ((step("refuse"),), 1, "none"),
        ((step("die", signal=9),), -9, "none"),
        ((step("die", signal=15),), -15, "none"),
        ((step("cut", bytes=300),), 0, "none"),
        ((step("lie"),), 0, "success"),
        ((step("lie", code=1),), 1, "error"),
        ((step("answer"), step("exit", code=1)), 1, "error"),
        ((step("answer"), step("noise"), step("raw", stdout="Bye.")), 0, "success"),
        ((step("noise"), step("long", bytes=5000), step("split", gap=0)), 0, "success"),
    ],
)  # fmt: skip
def test_a_step_ends_as_it_says(fakes, name, steps, code, ended):
    fake = Played(fakes, name, *steps)
    assert (fake.code, fake.answer.ended) == (code, ended)


@each_cli
def test_a_step_that_cannot_be_played_is_named(fakes, name):
    for bad in (step("dance"), '<<fake {"do": >>', '<<fake {"do": "hang"}', "<<fake []>>", step("write")):
        fake = Played(fakes, name, bad)
        assert (fake.code, fake.stdout) == (BAD_STEP, b"")
        assert "docs/rehearsing.md" in fake.stderr


@each_cli
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_fake_ends_on_a_signal_as_the_real_one_does(fakes, name, number):
    worker = subprocess.Popen([fakes / name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    worker.stdin.write(step("stall", records=1).encode())
    worker.stdin.close()
    while b"Step 1." not in worker.stdout.readline():
        assert worker.poll() is None
    worker.send_signal(number)
    worker.stdout.close()
    by_signal = {"codex": (1, -15), "claude": (0, 143), "gemini": (0, 0)}[name]
    assert worker.wait(10) == by_signal[number == signal.SIGTERM]


def test_a_fake_starts_with_next_to_nothing():
    path = f"import sys; sys.path.append({str(ROOT)!r})"
    found = f"{path}; import orchestrator.rehearsal.agent; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", found], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert {name for name in loaded if name.startswith(("orchestrator", "workers", "tickets"))} == {
        "orchestrator", "orchestrator.rehearsal", "orchestrator.rehearsal.agent",
        "orchestrator.rehearsal._memory", "orchestrator.rehearsal._troubles",
        "orchestrator.rehearsal._streams", "orchestrator.rehearsal._server",
        "workers", "workers.messages", "workers.messages.scratch",
    }  # fmt: skip
    assert loaded.isdisjoint({"pathlib", "subprocess", "argparse", "hashlib", "uuid", "datetime"})


def test_steps_among_the_arguments_hold_for_every_ticket(fakes):
    fake = Played(fakes, "codex", step("say"), arguments=("--fake", json.dumps({"do": "refuse"}), "-"))
    assert (fake.code, fake.stdout) == (1, b"")
    assert "trusted" in fake.stderr
