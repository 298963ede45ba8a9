"""A scripted model on loopback that serves the three APIs of the agent CLIs.

The script stands in the prompt, as steps: `<<step {"do": "shell", "cmd": "echo hi > a.txt"}>>`. Steps are
played in order, one a turn; the server keeps no conversations, for each request brings its own. Steps:

    answer  text, in, out            end the turn with this text; where the agent is held back at its end, the
                                     next step follows, else the last answer again ("DONE" without one)
    write   path, text               create a file with the CLI's own edit tool
    shell   cmd                      run a command with the CLI's own shell tool
    call    tool, given, namespace   call a tool by its own name; codex has those of servers in namespaces
    fail    status, message          an HTTP error
    stall                            begin the answer, then send nothing more
    cut                              begin the answer, then close the connection
    mute                             accept the request and send nothing

Each may have `once`, a path that must exist before it is played.

Run by itself: `python stub_model.py --port 0 --port-file F --log F`. Headers hold keys and are never kept.
"""

import argparse
import contextlib
import itertools
import json
import re
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

STEP = re.compile(r"<<step (\{.*?\})>>", re.DOTALL)
NUMBERS = itertools.count(1)
TOOLS = ("write", "shell", "call")
ERRORS = {  # status: what Anthropic, OpenAI and Google call it
    400: ("invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"),
    401: ("authentication_error", "invalid_api_key", "UNAUTHENTICATED"),
    403: ("permission_error", "forbidden", "PERMISSION_DENIED"),
    429: ("rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"),
    500: ("api_error", "server_error", "INTERNAL"),
    503: ("api_error", "server_error", "UNAVAILABLE"),
    529: ("overloaded_error", "server_error", "UNAVAILABLE"),
}


def step(do, **fields):
    """Format one step for a prompt."""
    return f"<<step {json.dumps({'do': do, **fields})}>>"


class ModelServer(ThreadingHTTPServer):
    """The server, and the requests so far."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, port=0, log=None):
        super().__init__(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self._log = Path(log) if log else None
        self._asked = []
        self._news = threading.Condition()
        self.closing = threading.Event()
        self.step = step

    def requests(self):
        """Return every model request so far: `api`, `path`, `do`, `tools` and the `body` as text."""
        with self._news:
            return list(self._asked)

    def wait_for(self, do, timeout):
        """Wait until a step of this kind has been played; False when the time (seconds) is over."""
        with self._news:
            return self._news.wait_for(lambda: any(asked["do"] == do for asked in self._asked), timeout)

    def note(self, **asked):
        with self._news:
            self._asked.append(asked)
            if self._log:
                with self._log.open("a") as log:
                    log.write(json.dumps(asked) + "\n")
            self._news.notify_all()

    def handle_error(self, request, client_address):
        if not isinstance(sys.exception(), OSError):  # a CLI that was killed is no news
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.reply(200, b"")

    def do_GET(self):
        known = self.path.split("?")[0].endswith("/models")
        self.reply(200 if known else 404, b'{"object": "list", "data": [], "models": []}' if known else b"{}")

    def do_POST(self):
        raw = self.body()
        path = self.path.split("?")[0]
        api = api_of(path)
        if api is None:
            self.reply(404, b'{"error": {"message": "no such path"}}')
            return
        asked = json.loads(raw)
        texts, tools = READ[api](asked)
        due = step_due(texts)
        self.server.note(
            api=api, path=self.path, do=due["do"], tools=tools, body=json.dumps(asked, ensure_ascii=False)
        )
        while "once" in due and not Path(due["once"]).exists() and not self.server.closing.wait(0.02):
            pass
        with contextlib.suppress(OSError):
            self.play(api, due, tools, streamed="stream" in path.lower() or bool(asked.get("stream")))

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def play(self, api, due, tools, *, streamed):
        if due["do"] == "fail":
            self.reply(due["status"], json.dumps(failure(api, due)).encode())
            return
        if due["do"] == "mute":
            self.wait_until_nobody_cares()
            return
        begun = due["do"] in ("stall", "cut")
        call = tool_call(api, due, tools) if due["do"] in TOOLS else None
        text = "half of an ans" if begun else due.get("text", "DONE") if call is None else ""
        events = list(WRITE[api](text, call, due))
        if not streamed:
            self.reply(200, json.dumps(events[-1][1] if api == "gemini" else {}).encode())
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for name, data in events[: -2 if api != "gemini" else 1] if begun else events:
            head = f"event: {name}\n" if name else ""
            self.chunk(f"{head}data: {json.dumps(data)}\n\n".encode())
        if due["do"] == "stall":
            self.wait_until_nobody_cares()
        elif due["do"] == "cut":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.chunk(b"")

    def reply(self, status, data):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def wait_until_nobody_cares(self):
        self.close_connection = True
        self.connection.settimeout(0.2)
        while not self.server.closing.is_set():
            with contextlib.suppress(TimeoutError):
                if self.connection.recv(1) == b"":
                    return


def api_of(path):
    if path.endswith("/messages"):
        return "anthropic"
    if path.endswith("/responses"):
        return "openai"
    return "gemini" if re.search(r":(?:stream)?[gG]enerateContent$", path) else None


def step_due(texts):
    """Return the step to play: the script is in the last text that has one, and what came after it counts."""
    steps, played = [], 0
    for kind, text in texts:
        found = STEP.findall(text) if kind == "user" else []
        if found:
            steps, played = [json.loads(each) for each in found], 0
        elif kind != "user":
            played += 1
    last = [step for step in steps[-1:] if step["do"] == "answer"]
    return (steps[played:] or last or [{"do": "answer", "text": "DONE"}])[0]


def read_anthropic(asked):
    texts = []
    for message in asked["messages"]:
        content, role = message["content"], message["role"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "text":
                texts.append(("user" if role == "user" else "answer", block["text"]))
            elif block["type"] == "tool_result":
                texts.append(("result", ""))
    return texts, [tool.get("name", "") for tool in asked.get("tools") or []]


def read_openai(asked):
    texts, tools = [], list(asked.get("tools") or [])
    for item in asked["input"]:
        if item.get("type") == "message" and item["role"] in ("user", "assistant"):
            kind = "user" if item["role"] == "user" else "answer"
            texts += [(kind, part.get("text", "")) for part in item["content"]]
        elif item.get("type", "").endswith("_output"):
            texts.append(("result", ""))
        elif item.get("type") == "additional_tools":
            tools += item.get("tools") or []
    return texts, [tool.get("name") or tool.get("type", "") for tool in tools]


def read_gemini(asked):
    texts = []
    for content in asked["contents"]:
        content["parts"] = without_doubles(content["parts"])
        for part in content["parts"]:
            if "functionResponse" in part:
                texts.append(("result", ""))
            elif content.get("role") == "user":
                texts.append(("user", part.get("text", "")))
            elif part.get("text", "").strip():
                texts.append(("answer", ""))
    declared = [each for tool in asked.get("tools") or [] for each in tool.get("functionDeclarations") or []]
    return texts, [each["name"] for each in declared]


def without_doubles(parts):
    """Leave out what follows twice: in a resumed thread gemini sends each result of a tool so."""
    return [part for at, part in enumerate(parts) if "functionResponse" not in part or part not in parts[:at]]


def tool_call(api, due, tools):
    """Return the CLI's tool and its arguments; text instead of a dict is a free-form input."""
    if due["do"] == "call":
        return due["tool"], due["given"]
    path, text, command = due.get("path"), due.get("text", ""), due.get("cmd")
    if api == "anthropic":
        if due["do"] == "write":
            return "Write", {"file_path": path, "content": text}
        return "Bash", {"command": command, "description": "as scripted"}
    if api == "gemini":
        if due["do"] == "write":
            return "write_file", {"file_path": path, "content": text}
        return "run_shell_command", {"command": command, "description": "as scripted"}
    if due["do"] == "write":
        added = "".join(f"+{line}\n" for line in text.splitlines())
        patch = f"*** Begin Patch\n*** Add File: {path}\n{added}*** End Patch\n"
        if "apply_patch" in tools:
            return "apply_patch", patch
        command = f"apply_patch <<'EOF'\n{patch}EOF"
        if "exec" in tools:  # its newest models call tools from a script
            return "exec", f"text(await tools.apply_patch({json.dumps(patch)}));\n"
    if "exec" in tools:
        return "exec", f"text(await tools.exec_command({json.dumps({'cmd': command})}));\n"
    # The longest that it waits; after 10 s it would go on while the command still runs.
    return "exec_command", {"cmd": command, "yield_time_ms": 30_000}


def write_anthropic(text, call, due) -> Iterator[tuple[str, dict]]:
    counted = {"input_tokens": due.get("in", 100), "output_tokens": due.get("out", 10)}
    # Blocks of one id are one message.
    message = {
        "id": f"msg_{next(NUMBERS)}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
    }
    ends = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    if call:
        block = {"type": "tool_use", "id": f"toolu_{id(due)}", "name": call[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
    begun = {**message, "stop_reason": None, "stop_sequence": None, "usage": {**counted, "output_tokens": 1}}
    yield "message_start", {"type": "message_start", "message": begun}
    yield "content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}
    yield "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": 0}
    yield "message_delta", {"type": "message_delta", "delta": ends, "usage": counted}
    yield "message_stop", {"type": "message_stop"}


def write_openai(text, call, due) -> Iterator[tuple[str, dict]]:
    if call is None:
        part = {"type": "output_text", "text": text, "annotations": []}
        item = {"type": "message", "id": "m_1", "status": "completed", "role": "assistant", "content": [part]}
    elif isinstance(call[1], str):
        item = {"type": "custom_tool_call", "id": "c_1", "call_id": f"call_{id(due)}", "input": call[1]}
        item.update(name=call[0], status="completed")
    else:
        item = {"type": "function_call", "id": "f_1", "call_id": f"call_{id(due)}", "name": call[0]}
        item.update(arguments=json.dumps(call[1]), status="completed")
        item.update({"namespace": due["namespace"]} if "namespace" in due else {})
    spent, got = due.get("in", 100), due.get("out", 10)
    usage = {"input_tokens": spent, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": got}
    usage.update(output_tokens_details={"reasoning_tokens": 0}, total_tokens=spent + got)
    whole = {"id": "r_1", "object": "response", "status": "completed", "output": [item], "usage": usage}
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"type": "response.created", "response": begun}
    yield (
        "response.output_item.added",
        {"type": "response.output_item.added", "output_index": 0, "item": item},
    )
    yield "response.output_item.done", {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield "response.completed", {"type": "response.completed", "response": whole}


def write_gemini(text, call, due) -> Iterator[tuple[str, dict]]:
    spent, got = due.get("in", 100), due.get("out", 10)
    usage = {"promptTokenCount": spent, "candidatesTokenCount": got, "totalTokenCount": spent + got}
    parts = [{"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": text}]
    for finish in ({}, {"finishReason": "STOP"}):
        content = {"role": "model", "parts": [{"text": ""}] if finish else parts}
        yield "", {"candidates": [{"content": content, "index": 0, **finish}], "usageMetadata": usage}


def failure(api, due):
    message = due.get("message", f"scripted failure {due['status']}")
    anthropic, openai, gemini = ERRORS[due["status"]]
    if api == "anthropic":
        return {"type": "error", "error": {"type": anthropic, "message": message}}
    if api == "gemini":
        return {"error": {"code": due["status"], "message": message, "status": gemini}}
    return {"error": {"message": message, "type": openai, "code": openai, "param": None}}


READ = {"anthropic": read_anthropic, "openai": read_openai, "gemini": read_gemini}
WRITE = {"anthropic": write_anthropic, "openai": write_openai, "gemini": write_gemini}


@contextlib.contextmanager
def serving(log=None):
    """Serve on a free port while the block runs."""
    with ModelServer(0, log) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()


def main():
    parser = argparse.ArgumentParser(description="a scripted model on loopback, for agent CLIs under test")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--port-file", type=Path, help="gets the port once the server listens")
    parser.add_argument("--log", type=Path, help="gets one JSON line for each model request")
    given = parser.parse_args()
    with ModelServer(given.port, given.log) as server, contextlib.suppress(KeyboardInterrupt):
        if given.port_file:
            beside = given.port_file.with_suffix(".new")
            beside.write_text(str(server.server_address[1]))
            beside.rename(given.port_file)  # whoever waits for the file must not read half of it
        print(server.url, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
