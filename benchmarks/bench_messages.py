"""Messages: 15 participants that write to each other, beside a queue in SQLite (WAL) with the same polling.

Each participant is a process. It sends to random others, polls, handles what is new, and acknowledges it. The
first figures are for senders without pauses, the others for 300 messages a second in all. Then long logs are
read, alone and by a runtime that takes over.
"""

import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from lab import ORCHESTRATE, peak_kib, repository, say, timed

from workers.messages.delivery import Reading, receipt
from workers.messages.logs import Logs
from workers.messages.own_log import OwnLog
from workers.messages.record import Record, encode, log_name, stamp
from workers.messages.standing import Book

PEOPLE, EACH = 15, 1000
POLL = 0.02
"""Seconds between two polls, also of a sender without pauses: as in the second after a message."""
RATE = 300.0
RECORDS = 100_000
ROUNDS = 3


def main() -> None:
    for name, rate, each in (("without pauses", 0.0, EACH), ("at 300 a second", RATE, EACH // 5)):
        ours, theirs, one = (measured(kind, rate, each) for kind in MAKERS)
        if not rate:
            rates = f"{ours[0]:,.0f} / {theirs[0]:,.0f} / {one[0]:,.0f}"
            say("messages a second: logs / SQLite / with single receipts", rates, "as many")
        late = f"{ours[1]:,.0f} / {theirs[1]:,.0f} / {one[1]:,.0f}"
        say(f"append to handling, 99 of 100, ms, {name}", late, "1.2 times SQLite's")
        say(f"lost, handled twice, unacknowledged, {name}", f"{ours[2]} {ours[3]} {ours[4]}", "0 0 0")
    reading()
    resuming()


def measured(kind: str, rate: float, each: int) -> tuple[float, float, int, int, int]:
    """Return the rate, the 99th percentile, and how many were lost, doubled, and not acknowledged."""
    with tempfile.TemporaryDirectory(prefix="orchestrate-bench-") as folder:
        MAKERS[kind](folder, 0)
        command = [sys.executable, __file__, kind, folder, str(rate / PEOPLE), str(each)]
        started = [
            subprocess.Popen([*command, str(at)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for at in range(PEOPLE)
        ]
        for one in started:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        begin = time.time()
        for one in started:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        said = [json.loads(one.stdout.readline()) for one in started if one.stdout]
        for one in started:
            one.communicate("end\n")
    handled = Counter(id_ for one in said for id_ in one["handled"])
    delays = sorted(delay for one in said for delay in one["delays"])
    seconds = max(one["end"] for one in said) - begin
    total = PEOPLE * each
    late = sum(one["unacknowledged"] for one in said)
    return (
        total / seconds,
        delays[len(delays) * 99 // 100] * 1000,
        total - len(handled),
        sum(count - 1 for count in handled.values()),
        late,
    )


class InLogs:
    """A participant with a log of its own."""

    def __init__(self, folder: str, at: int) -> None:
        # Leads, since a worker is held to 20 messages a minute to each receiver.
        self.name = f"20260216_1428{at:02}.lead"
        self.log = OwnLog(str(Path(folder) / log_name(self.name)), self.name)
        self.reading = Reading(folder, self.name)

    def send(self, to: int, body: str) -> None:
        self.log.append("chat", f"20260216_1428{to:02}.lead", body)

    def take(self) -> list[tuple[str, str]]:
        """Handle what is new; return id and body of each."""
        self.reading.catch_up()
        new = [message.record for message in self.reading.book.new_for(self.name)]
        if new:
            with self.log.held() as held:
                acks = held.append(*(receipt(record, "handled") for record in new))
            for ack in acks:
                self.reading.book.add(ack)
        return [(record.id, record.body) for record in new]

    def unacknowledged(self) -> int:
        return len(self.reading.book.unheard(self.name))


class InSqlite:
    """A participant of a queue in one database."""

    def __init__(self, folder: str, at: int) -> None:
        self.me, self.last = at, 0
        self.db = sqlite3.connect(f"{folder}/queue.db", isolation_level=None, timeout=60)
        self.db.execute("pragma journal_mode=wal")
        self.db.execute("pragma synchronous=normal")
        self.db.execute(
            "create table if not exists queue (id integer primary key, sender int, receiver int, body text,"
            " acked int default 0)"
        )
        self.db.execute("create index if not exists received on queue (receiver, id)")
        self.db.execute("create index if not exists sent on queue (sender) where acked = 0")

    def send(self, to: int, body: str) -> None:
        self.db.execute("insert into queue (sender, receiver, body) values (?, ?, ?)", (self.me, to, body))

    def take(self) -> list[tuple[str, str]]:
        """Handle what is new; return id and body of each."""
        query = "select id, body from queue where receiver = ? and id > ? order by id"
        new = self.db.execute(query, (self.me, self.last)).fetchall()
        if new:
            self.db.execute("begin immediate")
            self.db.executemany("update queue set acked = 1 where id = ?", [(id_,) for id_, _ in new])
            self.db.execute("commit")
            self.last = new[-1][0]
        return [(str(id_), body) for id_, body in new]

    def unacknowledged(self) -> int:
        query = "select count(*) from queue where sender = ? and acked = 0"
        return int(self.db.execute(query, (self.me,)).fetchone()[0])


class OneByOne(InSqlite):
    """The same, with a transaction for each receipt, as queues have it whose consumers take one at a time."""

    def take(self) -> list[tuple[str, str]]:
        query = "select id, body from queue where receiver = ? and id > ? order by id"
        new = self.db.execute(query, (self.me, self.last)).fetchall()
        for self.last, _ in new:
            self.db.execute("update queue set acked = 1 where id = ?", (self.last,))
        return [(str(id_), body) for id_, body in new]


MAKERS = {"logs": InLogs, "sqlite": InSqlite, "one": OneByOne}


def take_part(kind: str, folder: str, rate: float, each: int, at: int) -> None:
    """Be one participant: send all messages, and handle those of the others until none is left."""
    one, chance = MAKERS[kind](folder, at), random.Random(at)
    others = [other for other in range(PEOPLE) if other != at]
    handled: list[str] = []
    delays: list[float] = []
    print("ready", flush=True)
    sys.stdin.readline()
    start, sent, end = time.time(), 0, 0.0
    last_news = start
    while sent < each or one.unacknowledged() or time.time() - last_news < 1:
        due = min(each, int((time.time() - start) * rate) + 1) if rate else each
        poll = time.time() + POLL
        while sent < due and time.time() < poll:
            one.send(chance.choice(others), repr(time.time()))
            sent += 1
        time.sleep(max(0.0, poll - time.time()))
        for id_, body in one.take():
            end = last_news = time.time()
            handled.append(id_)
            delays.append(end - float(body))
    said = {"handled": handled, "delays": delays, "end": end, "unacknowledged": one.unacknowledged()}
    print(json.dumps(said), flush=True)
    sys.stdin.readline()


def reading() -> None:
    """Measure how long it takes to read long logs from their beginning, and the memory for it."""
    with tempfile.TemporaryDirectory(prefix="orchestrate-bench-") as folder:
        write_long_logs(folder)
        done = subprocess.run(
            [sys.executable, __file__, "read", folder], capture_output=True, text=True, check=True
        )
    seconds, more = json.loads(done.stdout)
    say(f"{RECORDS:,} records read from 0, processor seconds", f"{seconds:.2f}", "3")
    say(f"{RECORDS:,} records, and how they stand, MiB more", f"{more:.1f}", "32")


def write_long_logs(folder: str) -> None:
    """Write as many messages as acks: all logs of one run, each message handled."""
    run, number = "20260216_142834", Counter[str]()
    coordinator = f"{run}.coordinator"
    lines: dict[str, list[bytes]] = {}
    for at in range(RECORDS // 2):
        worker = f"{run}.Codex-Worker-{at % PEOPLE + 1}"
        number[worker] += 1
        number[coordinator] += 1
        where, facts = ("phase-1", "01-01"), {"task": f"Task {at}", "state": "doing"}
        ids = f"{worker}:{number[worker]}", f"{coordinator}:{number[coordinator]}"
        told = (worker, coordinator, "task_progress", *where, None, 1, "all is well so far", facts)
        heard = (coordinator, worker, "ack", *where, ids[0], 1, "", {"how": "handled"})
        sent, ack = Record(ids[0], stamp(at * 10), *told), Record(ids[1], stamp(at * 10 + 1), *heard)
        lines.setdefault(worker, []).append(encode(sent))
        lines.setdefault(coordinator, []).append(encode(ack))
    for who, written in lines.items():
        (Path(folder) / log_name(who)).write_bytes(b"\n".join(written) + b"\n")


def read(folder: str) -> None:
    before, start = memory("VmRSS"), time.process_time()
    logs, book = Logs(folder), Book(is_brief=True)
    while True:
        poll = logs.poll()
        for seen in poll.records:
            book.add(seen.record)
        if not poll.is_behind:
            break
    seconds = time.process_time() - start
    assert book.new_for("20260216_142834.coordinator") == []
    print(json.dumps([seconds, memory("VmHWM") - before]))


def resuming() -> None:
    """Measure `resume RUN` after a long talk of its workers, beside that of a silent run."""
    plain = 'fence = "off"\n[worktree]\nshared = "always"\n'
    ticket = '---\nphase: phase-1\ntitle: Talk\ncommand: ["true"]\n---\nx\n'
    with repository({f"command-{at}": ticket for at in range(1, PEOPLE + 1)}, plain) as folder:
        timed([ORCHESTRATE, "run", "phase-1"], folder)
        run = max((folder / ".taskers" / "runs").iterdir()).name
        resume = [ORCHESTRATE, "resume", run, "--json"]
        silent = min(peak_mib(resume, folder) for _ in range(ROUNDS))
        write_talk(folder / ".taskers" / "messages", run)
        for what in ("that no runtime has seen", "that an earlier runtime has handled"):
            start = time.perf_counter()
            more = peak_mib(resume, folder) - silent
            say(f"{RECORDS:,} records {what}: `resume RUN`", f"{time.perf_counter() - start:.2f} s", "3 s")
            say("  memory beyond that without records", f"{more:.1f} MiB", "32 MiB")


def peak_mib(command: list[str], folder: Path) -> float:
    """Run a command; return the most memory that it has had. Raises if it fails."""
    started, peak = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL), 0
    # Not what `wait4` says: that begins with the memory of this process.
    while started.poll() is None:
        peak = max(peak, peak_kib(started.pid))
        time.sleep(0.005)
    if started.returncode:
        raise SystemExit(f"{command}: exit {started.returncode}")
    return peak / 1024


def write_talk(folder: Path, run: str) -> None:
    """Write as many messages as receipts: each worker to its neighbours in turn, who are shown them."""
    lines: dict[str, list[bytes]] = {f"{run}.Command-Worker-{at}": [] for at in range(1, PEOPLE + 1)}
    people = list(lines)
    began = round(time.time() * 1000) - RECORDS * 10
    for at in range(RECORDS // 2):
        sender, receiver = people[at % PEOPLE], people[(at + 1 + at // PEOPLE % (PEOPLE - 1)) % PEOPLE]
        ids = [f"{one}:{len(lines[one]) + 1}" for one in (sender, receiver)]
        told = (
            sender,
            receiver,
            "chat",
            "phase-1",
            None,
            None,
            1,
            f"the parser keeps line ends, as of step {at}",
        )
        heard = (receiver, sender, "ack", "phase-1", None, ids[0], 1, "", {"how": "shown"})
        lines[sender].append(encode(Record(ids[0], stamp(began + at * 10), *told)))
        lines[receiver].append(encode(Record(ids[1], stamp(began + at * 10 + 1), *heard)))
    for who, written in lines.items():
        (folder / log_name(who)).write_bytes(b"\n".join(written) + b"\n")


def memory(name: str) -> float:
    """Return the memory of this process now, or the most that it ever had, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


if __name__ == "__main__":
    if sys.argv[1:2] == ["read"]:
        read(sys.argv[2])
    elif len(sys.argv) > 1:
        take_part(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    else:
        main()
