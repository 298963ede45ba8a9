"""Three phases at once: three real CLIs lead them, talk, move their plans, and meet every kind of trouble."""

import json
import time

import pytest
from support import stub_model
from support.fences import people, walled_for
from support.messages import book_of
from support.real_phase import AGENTS, MODELS, REPORT, arguments_of, environ_of, found_clis, survivors
from support.runtimes import PATIENCE, kill_and_see_dead, pids, wait_until
from support.runtimes import read as read_process

from orchestrator.state.phases.phase_status.read import read
from workers.messages.logs import Logs

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(600)]
step = stub_model.step

PHASE = {name: f"phase-{number}" for number, name in enumerate(AGENTS, 1)}
WORKER = {name: f"{name.title()}-Worker-1" for name in AGENTS}
ASKS = {"codex": "claude", "claude": "gemini", "gemini": "codex"}
"""Whom each asks; the answer goes back."""
OURS = {
    "codex": lambda tool: {"tool": tool, "namespace": "mcp__orchestrate"},
    "claude": lambda tool: {"tool": f"mcp__orchestrate__{tool}"},
    "gemini": lambda tool: {"tool": f"mcp_orchestrate_{tool}"},
}
"""What each calls a tool of our server."""
UNCLEAR = REPORT.replace(
    "COMPLETE", "NEEDS_CLARIFICATION\n\nQuestion: Which colour?\nContext: c.\nImpact: i."
)


class Script:
    """What the model has one CLI do, a step a turn."""

    def __init__(self, name, *, is_lean):
        self.name, self.is_lean, self.steps = name, is_lean, []
        self.waits = {}
        """By name, the step of each wait, and of the last call of each tool."""

    def wait(self, name):
        """Run a command until the test lets it go on: what comes meanwhile is in the next request."""
        self.waits[name] = len(self.steps)
        does = f"touch begun-{name}; until [ -e go-{name} ]; do sleep 0.05; done; rm begun-{name} go-{name}"
        self.steps.append(step("shell", cmd=does))

    def tool(self, tool, **given):
        """Call a tool of ours."""
        self.waits[tool] = len(self.steps)
        self.steps.append(step("call", given=given, **OURS[self.name](tool)))

    def write(self, path):
        self.steps.append(step("write", path=path, text="made\n"))

    def end(self, text):
        self.waits["end"] = len(self.steps)
        self.steps.append(step("answer", text=text))

    def start(self, plan):
        """Report that a plan begins, where that is reported."""
        if not self.is_lean:
            self.tool("plan_started", plan=plan)

    def make(self, number):
        """Do the work of a plan, up to its end."""
        self.start(plan(self.name, number))
        self.write(f"{self.name}/made-{number}.txt")

    def complete(self, number):
        self.tool("plan_complete", plan=plan(self.name, number), summary=f"made {number}")


def plan(name, number):
    return f"0{PHASE[name][-1]}-0{number}"


def scripts(begin, *, is_lean, is_paused):
    """Return what each CLI does. All begin by asking the next one, and answering the one before.

    Codex asks first, once `begin` is there: a command of its own it would follow for 30 s only.
    """
    found = {name: Script(name, is_lean=is_lean) for name in AGENTS}
    for name, asked in ASKS.items():
        one, asker = found[name], next(other for other in AGENTS if ASKS[other] == name)
        if name == "codex":
            one.steps.append(step("shell", cmd="true", once=str(begin)))
        else:
            one.wait("start")
        one.tool("send_message", to=PHASE[asked], type="question", body=question(name))
        one.wait("asked")
        number = 1 if asker == "codex" else 2  # the two others have a receipt before their question
        one.tool("send_message", to=PHASE[asker], re=f"{WORKER[asker]}:{number}", body=reply(name))
        one.wait("answered")
    codex, claude, gemini = found.values()
    codex.make(1)
    codex.complete(1)
    codex.start(plan("codex", 2))
    codex.tool("blocker", title="Which licence?", body="Two are named.", plan=plan("codex", 2))
    if not is_paused:
        codex.wait("blocked")
    codex.write("codex/made-2.txt")
    codex.complete(2)
    codex.tool("phase_complete", summary="all of it")
    claude.make(1)
    claude.wait("alone")
    claude.complete(1)
    claude.start(plan("claude", 2))
    claude.tool("plan_failed", plan=plan("claude", 2), reason="the grammar is ambiguous")
    gemini.make(1)
    gemini.complete(1)
    gemini.end(UNCLEAR)
    gemini.waits["unclear"] = gemini.waits["end"]
    gemini.make(2)
    gemini.complete(2)
    gemini.tool("phase_complete", summary="all of it")
    for one in found.values():
        one.end(REPORT)
    return found


def question(name):
    return f"{name} asks for the heron."


def reply(name):
    return f"{name} tells of the plover."


class Office:
    """The project, its three runs, and its lead."""

    def __init__(self, lab, server, clis, *, events, on_blocker):
        self.lab, self.server = lab, server
        self.env = {"ORCHESTRATE_LEAD": "Ada"}
        for name in AGENTS:
            self.env |= environ_of(name, server.url)
        self.all_are_there = lab.folder / "all-are-there"
        self.scripts = scripts(
            self.all_are_there, is_lean=events == "milestones", is_paused=on_blocker == "pause"
        )
        self.runs = {}
        self.ok("init", "--with", "phases")
        for number in (2, 3):
            self.ok("phase", "add", f"Part {number}", "--milestone", f"Part {number} stands")
        agents = "\n".join(
            f'[agents.{name}]\nenabled = true\nexecutable = "{clis / name}"\nmodel = "{MODELS[name]}"\n'
            f"args = {json.dumps(arguments_of(name, server.url))}"
            for name in AGENTS
        )
        said = f'[messages]\nevents = "{events}"\non_blocker = "{on_blocker}"\n{agents}\n'
        files = {"orchestrate.toml": f'fence = "required"\nfamilies = ["phases"]\n{said}'}
        for name, script in self.scripts.items():
            files[f"docs/worker-ticket-templates/{name}-1.md"] = (
                f"---\nphase: {PHASE[name]}\ntitle: Lead {PHASE[name]}\nmode: write\n"
                f'owns: ["{name}/**"]\nphase_worker: true\nretries: 0\n---\n{"".join(script.steps)}\n'
            )
            for number in (1, 2):
                check = "none" if name == "claude" and number == 2 else f"test -s {name}/made-{number}.txt"
                verify = () if check == "none" else ("--verify", check)
                self.ok("phase", "plan", f"Plan {number}", "--phase", PHASE[name], *verify)
        for shipped in (lab.root / "docs/worker-ticket-templates").glob("*-*.md"):
            shipped.unlink()
        lab.commit(files)

    def call(self, *words):
        return self.lab.call(*words, "--json", env=self.env)

    def ok(self, *words):
        """Call the command line; return what it says."""
        called = self.call(*words)
        assert called.code == 0, called
        return called.document

    def begin(self):
        for name in AGENTS:
            self.runs[name] = self.ok("run", PHASE[name], "--detach")["run"]

    def tree(self, name):
        return self.lab.root / ".taskers" / "worktrees" / self.runs[name] / WORKER[name]

    def let_go(self, name, wait):
        """Let a worker go on that waits in a command."""
        (self.tree(name) / f"go-{wait}").touch()

    def await_wait(self, name, wait):
        wait_until((self.tree(name) / f"begun-{wait}").exists)

    def records(self):
        return [seen.record for seen in Logs(str(self.lab.root / ".taskers/messages")).read_all().records]

    def sent(self, name, kind, body=""):
        """Wait until a worker has sent a message; return it."""
        me = f"{self.runs[name]}.{WORKER[name]}"
        return wait_until(
            lambda: next(
                (one for one in self.records() if (one.sender, one.type) == (me, kind) and body in one.body),
                None,
            )
        )

    def runtime_of(self, name):
        wanted = b"\0_runtime\0" + self.runs[name].encode()
        return wait_until(
            lambda: next((pid for pid in pids() if wanted in read_process(pid, "cmdline")), None)
        )

    def finish(self, name):
        """Wait until a run is integrated, and read what it returns for before."""
        until = time.monotonic() + PATIENCE
        while (told := self.call("wait", self.runs[name], "--timeout", "20").document)["status"] == "running":
            assert time.monotonic() < until, told
            self.ok("msg", "inbox")
        return told

    def counts(self, name, text):
        """Return how often a text is in each request of a worker."""
        bodies = [one["body"] for one in self.server.requests() if f"{name}/**" in one["body"]]
        return [body.count(text) for body in bodies]

    def was_shown(self, name, text, wait):
        """Hold that a message is in each request after the step during which it came, and once."""
        found, at = self.counts(name, text), self.scripts[name].waits[wait]
        assert found == [0] * (at + 1) + [1] * (len(found) - at - 1), (name, text, found)


@pytest.fixture
def office(request, tmp_path, pattern_repository):
    events, on_blocker, who = request.param
    clis = found_clis()
    somebody = next((one for one in people() if one.name == who), None)
    if somebody is None:
        pytest.skip(f"these tests are not run as {who}")
    with (
        stub_model.serving(tmp_path / "requests.jsonl") as server,
        walled_for(pattern_repository, somebody) as lab,
    ):
        made = Office(lab, server, clis, events=events, on_blocker=on_blocker)
        try:
            yield made
        finally:
            for run in made.runs.values():
                made.call("cancel", run)
                wait_until(lambda run=run: survivors(run) == [])


@pytest.mark.parametrize(
    "office",
    [("transitions", "skip", "root"), ("milestones", "pause", "ordinary")],
    ids="-".join,
    indirect=True,
)
def test_three_phases_at_once_end_with_right_files_and_each_message_shown_once(office):
    office.begin()
    they_ask_and_answer_each_other(office)
    the_lead_answers_a_blocker(office)
    a_coordinator_is_killed(office)
    a_worker_goes_on_with_the_leads_answer(office)
    for name in AGENTS:
        told = office.finish(name)
        (worker,) = told["workers"]
        assert (told["status"], worker["outcome"], worker["verdict"]) == (
            "integrated",
            "complete",
            "accepted",
        ), told
    the_files_are_right(office)
    the_receipts_are_right(office)


def they_ask_and_answer_each_other(office):
    """Let one go on at a time, so that each message comes while its receiver runs a command."""
    for name in ("claude", "gemini"):
        office.await_wait(name, "start")
    office.all_are_there.touch()
    for name in AGENTS:
        if name != "codex":
            office.let_go(name, "start")
        office.sent(name, "question")
        office.await_wait(name, "asked")
    for name in ("codex", "gemini", "claude"):
        office.let_go(name, "asked")
        office.sent(name, "answer")
        office.await_wait(name, "answered")
    for name in AGENTS:
        office.let_go(name, "answered")


def the_lead_answers_a_blocker(office):
    asked = office.sent("codex", "blocker")
    if asked.facts["mode"] == "skip":
        office.await_wait("codex", "blocked")
    (one,) = [one for one in office.ok("msg", "inbox")["messages"] if one["id"] == asked.id]
    assert one["open"]
    office.ok("msg", "send", "--re", asked.id, "The licence of the wren.")
    if asked.facts["mode"] == "skip":
        office.let_go("codex", "blocked")


def a_coordinator_is_killed(office):
    """Its worker goes on, and what it reports meanwhile is handled by the next runtime."""
    office.await_wait("claude", "alone")
    kill_and_see_dead(office.runtime_of("claude"))
    office.ok("msg", "send", "--to", f"{office.runs['claude']}.{WORKER['claude']}", "Mind the dunlin.")
    office.let_go("claude", "alone")
    office.sent("claude", "plan_complete")
    office.ok("resume", office.runs["claude"], "--detach")


def a_worker_goes_on_with_the_leads_answer(office):
    told = office.finish("gemini")
    (worker,) = told["workers"]
    assert worker["outcome"] == "needs_clarification", told
    (asked,) = [
        one
        for one in office.records()
        if one.type == "question" and one.to == f"{office.runs['gemini']}.lead"
    ]
    assert asked.body == "Which colour?"
    assert office.ok("msg", "send", "--re", asked.id, "As the knot.")["resumes"]
    office.ok("resume", office.runs["gemini"], "--detach")


def the_files_are_right(office):
    """Hold states, counts and commits; each commit is there, and its plan's check passes on it."""
    lab, complete = office.lab, {"codex": 2, "claude": 1, "gemini": 2}
    state = (lab.root / "STATE.md").read_text()
    for name in AGENTS:
        path = f"phases/{PHASE[name]}/STATUS.md"
        status = read(path, (lab.root / path).read_bytes())
        states = ["complete"] * complete[name] + ["failed"] * (2 - complete[name])
        assert [row.state for row in status.plans] == states, (lab.root / path).read_text()
        assert status.state == ("failed" if "failed" in states else "complete")
        row = next(line for line in state.splitlines() if f"| {PHASE[name]} |" in line)
        assert f"| 0 | 0 | {complete[name]} | {2 - complete[name]} | - |" in row
        for row in status.plans[: complete[name]]:
            assert row.verified == row.commit
            assert (
                lab.git("rev-parse", f"refs/orchestrate/plans/{PHASE[name]}/{row.plan}").strip() == row.commit
            )
            passes(lab, row.commit, f"test -s {name}/made-{int(row.plan[-1])}.txt")
            lab.git("merge-base", "--is-ancestor", row.landed, "HEAD")
            assert (lab.root / name / f"made-{int(row.plan[-1])}.txt").read_text() == "made\n"
        chat = (lab.root / "phases" / PHASE[name] / "chat" / f"{office.runs[name]}.jsonl").read_text()
        stands = {one["id"]: one["stands"] for one in map(json.loads, chat.splitlines())}
        assert set(stands.values()) == {"answered", "handled", "shown"}, stands
    path = "phases/phase-1/STATUS.md"
    (blocker,) = read(path, (lab.root / path).read_bytes()).blockers
    assert (blocker.state, blocker.answered_by) == ("closed", f"{office.runs['codex']}.lead:2"), blocker
    assert lab.git("status", "--porcelain") == ""
    assert office.ok("validate")


def passes(lab, commit, check):
    """Run a check on the files of a commit."""
    place = lab.folder / f"tree-{commit}"
    lab.git("worktree", "add", "--quiet", "--detach", str(place), commit)
    assert lab.somebody.run(["sh", "-c", check], cwd=place).returncode == 0, (commit, check)
    lab.git("worktree", "remove", str(place))


def the_receipts_are_right(office):
    """Hold that each message was handled, shown or answered, once, and seen by the model once."""
    for message in book_of(office.lab.root):
        record, acks = message.record, [(ack.sender, ack.how) for ack in message.acks]
        name = record.to.partition(".")[2]
        if name == "coordinator":
            assert acks.count((record.to, "handled")) == 1, (record, acks)
        elif name != "lead":
            assert [how for sender, how in acks if sender == record.to] == ["shown"], (record, acks)
    for name, asked in ASKS.items():
        office.was_shown(asked, question(name), "asked" if asked == "codex" else "start")
        office.was_shown(name, reply(asked), "answered" if name == "codex" else "asked")
    waits = office.scripts["codex"].waits
    office.was_shown("codex", "The licence of the wren.", "blocked" if "blocked" in waits else "blocker")
    office.was_shown("claude", "Mind the dunlin.", "alone")
    office.was_shown("gemini", "As the knot.", "unclear")
