"""A worker's MCP server as its CLI starts it, driven by the official client and by broken ones."""

# These tests wait for what other processes write into files: there is no event to wait for.
# ruff: noqa: ASYNC110
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread
import pytest
from support.mail import LEAD, ONE, TWO
from support.paths import ROOT
from support.runtimes import PATIENCE

from workers.messages.scratch import FAULTS, GREETED
from workers.messages.server import NEWS

PROGRAM = str(ROOT / "workers" / "messages" / "mail_server.py")
ALL_TOOLS = [
    *("send_message", "inbox", "blocker", "submit_report", "plan_started", "plan_complete", "plan_failed"),
    *("task_progress", "note", "phase_complete"),
]
KEYS = [
    *("ok", "id", "to", "receipt", "reason", "answer", "pointer", "commit", "do", "new", "unacknowledged"),
]


class Desk:
    """The server of ONE, and how to talk to it."""

    def __init__(self, post, scratch):
        self.post, self.scratch = post, scratch
        self.options = {
            "log": str(post.path(ONE)), "phase": "phase-2", "events": "transitions", "on-blocker": "skip",
            "pause-limit": "1800", "ack-limit": "900", "deadline": str(int(time.time()) + 3600),
            "scratch": str(scratch),
        }  # fmt: skip

    def argv(self, *flags, **options):
        options = self.options | {name.replace("_", "-"): value for name, value in options.items()}
        words = [part for name, value in options.items() for part in (f"--{name}", value)]
        return [sys.executable, "-I", "-S", PROGRAM, *words, *flags]

    @asynccontextmanager
    async def session(self, *flags, **options):
        """Open a session of the official client, whose import takes a second."""
        import mcp

        command, *args = self.argv(*flags, **options)
        server = mcp.StdioServerParameters(command=command, args=args, env={})
        async with mcp.stdio_client(server) as streams, mcp.ClientSession(*streams) as session:
            with anyio.fail_after(PATIENCE):
                session.introduced = await session.initialize()
            yield session

    def say(self, *lines):
        """Send raw lines, close, and return the answers and the standard error."""
        ran = subprocess.run(
            self.argv(), input=b"".join(lines), env={}, capture_output=True, timeout=PATIENCE, check=True
        )
        return [json.loads(line) for line in ran.stdout.splitlines()], ran.stderr


@pytest.fixture
def desk(post, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    post.now = time.time()
    post.folder = tmp_path / "messages"
    post.folder.mkdir()
    return Desk(post, scratch)


def request(id_, method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}).encode() + b"\n"


def text_of(result):
    return "".join(part.text for part in result.content)


@pytest.mark.anyio
async def test_the_client_is_told_who_speaks_and_the_runtime_that_it_was_started(desk):
    async with desk.session() as session:
        assert session.introduced.server_info.name == "orchestrate"
        said = session.introduced.instructions
        assert said.startswith("Messages of this run: the lead, the coordinator and the other workers.")
        assert said.endswith("nobody can widen your scope.")
        assert (desk.scratch / GREETED).exists()
        await session.send_ping()
    async with desk.session("--phase-worker") as session:
        assert session.introduced.instructions.removeprefix(said) == (
            " You own phase-2: plan_started before each plan, plan_complete or plan_failed after it,"
            " phase_complete at the end."
        )


@pytest.mark.anyio
async def test_a_client_that_asks_in_a_newer_way_first_finds_the_tools_all_the_same(desk):
    import mcp

    command, *args = desk.argv()
    async with mcp.Client(mcp.StdioServerParameters(command=command, args=args, env={})) as client:
        assert len((await client.list_tools()).tools) == 4


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("flags", "events", "names"),
    [
        ((), "transitions", ALL_TOOLS[:4]),
        (("--phase-worker",), "transitions", ALL_TOOLS),
        (
            ("--phase-worker",),
            "milestones",
            [name for name in ALL_TOOLS if name not in ("plan_started", "task_progress")],
        ),
    ],
)
async def test_a_worker_has_the_tools_of_its_part(desk, flags, events, names):
    async with desk.session(*flags, events=events) as session:
        tools = (await session.list_tools()).tools
        assert [tool.name for tool in tools] == names
        for tool in tools:
            assert tool.input_schema["additionalProperties"] is False
            hints = tool.annotations
            assert (hints.read_only_hint, hints.destructive_hint, hints.open_world_hint) == (False,) * 3


@pytest.mark.anyio
async def test_a_message_is_sent_and_what_is_new_comes_with_the_answer_once(desk):
    news = desk.post.send(LEAD, ONE, "Yes: MIT.", "answer")
    async with desk.session() as session:
        told = await session.call_tool("send_message", {"to": "lead", "body": "Hello.", "type": "question"})
        found = dict(told.structured_content)
        assert not told.is_error
        shown = found.pop(NEWS)
        assert list(found) == KEYS
        assert (found["ok"], found["id"], found["to"], found["receipt"]) == (True, f"{ONE}:1", LEAD, "new")
        said, _, after = text_of(told).partition("\n\n")
        assert (json.loads(said), after) == (found, shown)
        assert "    | Yes: MIT." in shown.splitlines()
        assert desk.post.stands(news) == "shown"
        again = await session.call_tool("send_message", {"to": "lead", "body": "Hello?"})
        assert NEWS not in again.structured_content
    assert [record.body for record in desk.post.records() if record.sender == ONE] == ["Hello.", "", "Hello?"]


@pytest.mark.anyio
async def test_an_inbox_holds_each_message_once(desk):
    record = desk.post.send(LEAD, ONE, "heron", "question")
    async with desk.session() as session:
        told = await session.call_tool("inbox", {})
        assert [one["body"] for one in told.structured_content["messages"]] == ["heron"]
        assert NEWS not in told.structured_content
        assert text_of(told).count("heron") == 1
        assert desk.post.stands(record) == "shown"
        told = await session.call_tool("inbox", {"open": True})
        assert told.structured_content["messages"] == []
        assert [one["id"] for one in told.structured_content["open"]] == [record.id]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("send_message", {"to": "leed", "body": "x"}, "nobody is called `leed`; the nearest are lead"),
        ("send_message", {"to": "lead"}, "body is missing"),
        ("send_message", {"to": "lead", "body": "x", "zebra": 1}, "zebra is unknown"),
        ("send_message", {"to": "lead", "body": 3}, "body is no string"),
        ("plan_started", {"plan": "02-01"}, "for the phase worker"),
    ],
)
async def test_a_call_that_cannot_be_done_says_why_and_writes_nothing(desk, tool, given, said):
    async with desk.session() as session:
        told = await session.call_tool(tool, given)
        assert told.is_error
        assert said in told.structured_content["reason"]
        assert said in text_of(told)
    assert desk.post.records() == []


@pytest.mark.anyio
async def test_a_tool_that_does_not_exist_is_an_error_of_the_protocol(desk):
    import mcp

    async with desk.session() as session:
        with pytest.raises(mcp.MCPError) as refused:
            await session.call_tool("zebra", {})
        assert refused.value.error.code == -32602
        await session.send_ping()


@pytest.mark.anyio
async def test_a_paused_call_waits_for_its_answer_and_others_are_answered_meanwhile(desk):
    async with desk.session(on_blocker="pause") as session, anyio.create_task_group() as group:
        told = []

        async def ask():
            told.append(await session.call_tool("blocker", {"title": "Which licence?", "body": "Two."}))

        group.start_soon(ask)
        with anyio.fail_after(PATIENCE):
            while not (asked := [one for one in desk.post.records() if one.type == "blocker"]):
                await anyio.sleep(0.02)
            await session.send_ping()
            assert (await session.call_tool("inbox", {})).structured_content["ok"]
            assert told == []
            desk.post.send(LEAD, ONE, "MIT.", "answer", re=asked[0])
            while not told:
                await anyio.sleep(0.02)
        assert told[0].structured_content["answer"] == "MIT."


def test_a_client_that_says_nonsense_is_told_so_and_served_on(desk):
    garbage = [
        *(b"{\n", b"\xff\n", b"[]\n", b"3\n", b'{"id": 3}\n', b"\n", b"[" * 10_000 + b"\n"),
        b'{"method": "notifications/initialized"}\n',
        b'{"jsonrpc": "2.0", "id": 1, "result": {}}\n',
        b'{"id": 9, "method": 3}\n',
        request(4, "resources/list"),
        request(5, "tools/call"),
        request(6, "tools/call", name=["x"], arguments=3),
        request(7, "initialize", protocolVersion=5),
        request(8, "ping"),
    ]
    answers, stderr = desk.say(*garbage)
    assert stderr == b""
    by_id = {one["id"]: one for one in answers if one["id"] is not None}
    assert {at: one["error"]["code"] for at, one in by_id.items() if "error" in one} == {
        9: -32601, 4: -32601, 5: -32602, 6: -32602,
    }  # fmt: skip
    assert by_id[7]["result"]["protocolVersion"] == "2025-06-18"
    assert by_id[8]["result"] == {}
    codes = [one["error"]["code"] for one in answers if one["id"] is None]
    assert codes == [-32700, -32700, -32600, -32600, -32700]


def test_a_request_is_read_however_it_is_cut(desk):
    with subprocess.Popen(desk.argv(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}) as server:
        for byte in request(1, "ping") + request(2, "send", body="é" * 10).replace(b"\n", b"\r\n"):
            server.stdin.write(bytes([byte]))
            server.stdin.flush()
        assert [json.loads(server.stdout.readline())["id"] for _ in range(2)] == [1, 2]
        server.stdin.close()
        assert server.wait(PATIENCE) == 0


def test_a_server_ends_with_its_client_also_in_the_middle_of_a_paused_call(desk):
    call = request(1, "tools/call", name="blocker", arguments={"title": "t", "body": "b"})
    began = time.monotonic()
    with subprocess.Popen(
        desk.argv(on_blocker="pause"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env={}
    ) as server:
        server.stdin.write(call)
        server.stdin.flush()
        while not desk.post.path(ONE).exists():
            assert time.monotonic() < began + PATIENCE
            time.sleep(0.02)  # between two looks
        server.stdin.close()
        assert server.wait(PATIENCE) == 0


@pytest.mark.anyio
@pytest.mark.parametrize("spoil", [lambda path: path.mkdir(), os.mkfifo, lambda path: path.symlink_to("x")])
async def test_a_log_that_cannot_be_written_is_a_reason_and_no_end(desk, spoil):
    spoil(desk.post.path(ONE))
    desk.post.send(LEAD, ONE, "Yes.")
    async with desk.session() as session:
        told = await session.call_tool("send_message", {"to": "lead", "body": "x"})
        assert told.is_error
        assert NEWS not in told.structured_content
        await session.send_ping()
    assert "NotSentError" in (desk.scratch / FAULTS).read_text()


@pytest.mark.anyio
async def test_without_a_scratch_directory_it_serves_all_the_same(desk):
    async with desk.session(scratch=str(desk.scratch / "gone")) as session:
        assert (await session.call_tool("send_message", {"to": "lead", "body": "x"})).structured_content["ok"]


@pytest.mark.anyio
async def test_what_nobody_acknowledges_is_sent_again_with_its_id(desk):
    async with desk.session() as session:
        await session.call_tool("send_message", {"to": "lead", "body": "Anybody?", "type": "question"})
        with anyio.fail_after(PATIENCE):
            while len(lines := desk.post.lines(ONE)) < 2:
                await anyio.sleep(0.05)
        first, again = (json.loads(line) for line in lines[:2])
        assert (first.pop("try"), again.pop("try")) == (1, 2)
        assert first == again
        desk.post.ack(desk.post.records()[0])


@pytest.mark.anyio
async def test_a_server_and_hooks_of_one_worker_show_each_message_once(desk):
    """Two servers and a hook at once, each asking for what is new, while ten messages come."""
    program = PROGRAM.replace("server", "hook")
    hook = [sys.executable, "-I", "-S", program, "after", "codex", desk.options["log"]]
    seen, done = [], threading.Event()

    def hooks():
        while not done.is_set():
            ran = subprocess.run(hook, input=b"{}", env={}, capture_output=True, timeout=PATIENCE, check=True)
            seen.append(ran.stdout.decode())

    async def ask(session):
        while not done.is_set():
            told = await session.call_tool("send_message", {"to": "leed", "body": "x"})
            seen.append(str(told.structured_content))

    beside = threading.Thread(target=hooks)
    beside.start()
    try:
        async with desk.session() as one, desk.session() as two, anyio.create_task_group() as group:
            group.start_soon(ask, one)
            group.start_soon(ask, two)
            records = []
            for at in range(10):
                records.append(desk.post.send(TWO, ONE, f"word-{at}."))
                await anyio.sleep(0.05)
            with anyio.fail_after(PATIENCE):
                while any(desk.post.stands(one) == "new" for one in records):
                    await anyio.sleep(0.05)
            done.set()
    finally:
        done.set()
        beside.join(PATIENCE)
    everything = "".join(seen)
    assert [everything.count(f"word-{at}.") for at in range(10)] == [1] * 10
