"""The calls of a worker: what is written, what it is told, and how long it waits for a receipt."""

import json
import subprocess
import sys
import time

import pytest
from support.mail import COORDINATOR, LEAD, NOW, ONE, RUN, THREE, TWO, Post
from support.paths import ROOT

from tickets.report_schema import REPORT_SCHEMA
from workers.messages import calls
from workers.messages.calls import CORRECT, UNANSWERED, UNHEARD, Desk, call, offered
from workers.messages.mailbox import Mailbox
from workers.messages.roster import Roster, write_roster
from workers.messages.standing import Book
from workers.messages.tool_schemas import TOOLS, complaints

OTHER = "20260216_142900"
WORKERS = {
    "Claude-Worker-1": "Lead the core phase",
    "Codex-Worker-1": "Port the formatter",
    "Codex-Worker-2": "x",
}
REPORT = {
    "summary": "s",
    "analysis": "a",
    "proposal": {"text": "p"},
    "risks_and_alternatives": "r",
    "status": "COMPLETE",
}


class Run(Post):
    """A run with a worker's mailbox, and others who act while it waits."""

    def __init__(self, folder):
        super().__init__(folder)
        write_roster(str(folder), Roster(RUN, "phase-2", "Ada", "Claude-Worker-1", WORKERS))
        self.acts = []
        """What the others do, one after the other, each time the worker waits."""
        self.waited = []

    def box(self, who=ONE, **more):
        options = {
            "phase": "phase-2",
            "is_phase_worker": True,
            "clock": lambda: self.now,
            "wait": self.wait,
            **more,
        }
        return Mailbox(str(self.path(who)), **options)

    def wait(self, seconds):
        self.waited.append(seconds)
        if self.acts:
            self.acts.pop(0)()
        else:
            time.sleep(seconds / 10)

    def newest(self, who=ONE):
        return [record for record in self.records() if record.sender == who][-1]

    def handles(self, how="handled", reason="", by=COORDINATOR, **facts):
        """Have the coordinator acknowledge the newest message of the worker, at its next wait."""
        self.acts.append(
            lambda: self.send(by, ONE, reason, "ack", facts={"how": how, **facts}, re=self.newest())
        )

    def answers(self, body, by=LEAD):
        self.acts.append(lambda: self.send(by, ONE, body, "answer", re=self.newest()))


@pytest.fixture
def run(tmp_path, monkeypatch):
    for name in ("QUICK", "USUAL", "VERIFYING"):
        monkeypatch.setattr(calls, name, 0.1)
    return Run(tmp_path)


def test_the_result_has_the_keys_of_the_format(run):
    run.handles(pointer="phases/phase-2/STATUS.md#b1")
    given = {
        "title": "Which licence has the\ngrammar?", "body": "two licences", "plan": "02-02",
        "task": "Left recursion", "attempted": "read LICENSE", "needs": "a yes or no",
    }  # fmt: skip
    assert json.dumps(call(run.box(), "blocker", given)) == json.dumps({
        "ok": True, "id": f"{ONE}:1", "to": COORDINATOR, "receipt": "handled", "reason": "", "answer": None,
        "pointer": "phases/phase-2/STATUS.md#b1", "commit": None,
        "do": "recorded as B1; go on with the next task that does not need it, the answer will reach you",
        "new": 0, "unacknowledged": [],
    })  # fmt: skip
    record = run.newest()
    assert (record.type, record.phase, record.plan, record.body) == (
        "blocker",
        "phase-2",
        "02-02",
        "two licences",
    )
    assert record.facts == {
        "title": "Which licence has the grammar?", "task": "Left recursion", "attempted": "read LICENSE",
        "needs": "a yes or no", "mode": "skip",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("plan_started", {"plan": "02-01"}, ("plan_started", "", {})),
        ("plan_started", {"plan": "02-01", "note": "n"}, ("plan_started", "n", {})),
        ("plan_complete", {"plan": "02-01", "summary": "s"}, ("plan_complete", "s", {})),
        ("plan_failed", {"plan": "02-01", "reason": "r"}, ("error", "r", {"state": "failed"})),
        ("task_progress", {"plan": "02-01", "task": "t", "state": "done"}, ("task_progress", "",
         {"task": "t", "state": "done"})),
        ("note", {"text": "x", "kind": "context"}, ("state_change", "", {"context": "x"})),
        ("note", {"text": "x", "kind": "decision", "title": "a\nb", "context": "c"}, ("state_change", "",
         {"decision": {"title": "a b", "context": "c", "decision": "x"}})),
        ("phase_complete", {"summary": "s"}, ("phase_complete", "s", {})),
    ],
)  # fmt: skip
def test_what_a_phase_worker_reports_goes_to_the_coordinator(run, name, given, told):
    run.handles(commit="97f3cfdb")
    found = call(run.box(), name, given)
    record = run.newest()
    assert (found["ok"], found["receipt"], found["commit"]) == (True, "handled", "97f3cfdb")
    assert (record.to, record.type, record.body, record.facts) == (COORDINATOR, *told)
    assert record.plan == given.get("plan")


def test_what_the_coordinator_refuses_is_told_with_its_reason(run):
    run.handles("refused", "02-02 is in progress already")
    found = call(run.box(), "plan_started", {"plan": "02-02"})
    assert (found["ok"], found["receipt"], found["reason"]) == (
        False,
        "refused",
        "02-02 is in progress already",
    )


def test_a_message_without_a_receipt_is_in_the_log_and_the_worker_goes_on(run):
    found = call(run.box(), "plan_started", {"plan": "02-02"})
    assert (found["ok"], found["receipt"], found["do"]) == (True, "new", UNHEARD)


def test_that_the_lead_has_seen_a_blocker_is_not_yet_what_its_worker_waits_for(run):
    run.handles("shown", by=LEAD)
    run.handles(pointer="phases/phase-2/STATUS.md#b2")
    assert "recorded as B2" in call(run.box(), "blocker", {"title": "t", "body": ""})["do"]


@pytest.mark.parametrize(
    ("to", "receiver"),
    [
        ("lead", LEAD), ("coordinator", COORDINATOR), ("all", f"{RUN}.all"),
        ("Codex-Worker-1", TWO), (TWO, TWO),
        (f"{OTHER}.Codex-Worker-7", f"{OTHER}.Codex-Worker-7"), (f"{OTHER}.lead", f"{OTHER}.lead"),
        ("phase-3", f"{OTHER}.Codex-Worker-7"), (f"{OTHER}.Claude-Worker-9", f"{OTHER}.Claude-Worker-9"),
    ],
)  # fmt: skip
def test_a_receiver_is_named_in_each_way(run, to, receiver):
    roster = Roster(OTHER, "phase-3", "Ada", "Codex-Worker-7", {"Codex-Worker-7": "x"})
    write_roster(str(run.folder), roster)
    write_roster(str(run.folder), roster._replace(run="20260216_142901", phase_worker=None))
    write_roster(str(run.folder), roster._replace(run="20260216_140000"))
    run.send(f"{OTHER}.Claude-Worker-9", LEAD)
    assert call(run.box(), "send_message", {"to": to, "body": "x"})["to"] == receiver


@pytest.mark.parametrize(
    ("to", "words"),
    [
        (
            "Codex-Worker-11",
            "nobody is called `Codex-Worker-11`; the nearest are Codex-Worker-1, Codex-Worker-2",
        ),
        ("codex-worker-1", "the nearest are Codex-Worker-1"),
        ("Bob", "there are lead, coordinator, Claude-Worker-1, Codex-Worker-1, Codex-Worker-2, all"),
        ("", "there are lead"),
        ("phase-7", "the nearest are phase-2"),
        (f"{OTHER}.Codex-Worker-1", f"the nearest are {RUN}.Codex-Worker-1"),
        (f"{OTHER}.all", "nobody is called"),
        (f"{OTHER}.lead", "nobody is called"),
        ("Claude-Worker-1", "this message is to yourself"),
        (ONE, "this message is to yourself"),
        ("../lead", "the nearest are lead"),
    ],
)
def test_an_unknown_receiver_is_refused_with_the_nearest_names_and_nothing_is_written(run, to, words):
    run.send(TWO, LEAD)
    found = call(run.box(), "send_message", {"to": to, "body": "x"})
    assert words in found["reason"]
    assert (found["ok"], found["id"], found["receipt"], found["do"]) == (False, None, None, CORRECT)
    assert not run.path(ONE).exists()


def test_a_receiver_that_has_ended_is_told_at_once(run):
    run.handles("undeliverable", "Codex-Worker-1 has ended")
    found = call(run.box(), "send_message", {"to": "Codex-Worker-1", "body": "x"})
    assert (found["ok"], found["receipt"], found["reason"]) == (
        False,
        "undeliverable",
        "Codex-Worker-1 has ended",
    )
    assert len(run.waited) == 1


@pytest.mark.parametrize("end", [f"{TWO}:1", "Codex-Worker-1:1", "Worker-1:1"])
def test_an_answer_is_to_the_message_that_an_end_of_its_id_names(run, end):
    question = run.send(TWO, ONE, "?", kind="question", plan="02-02")
    found = call(run.box(), "send_message", {"to": "Codex-Worker-1", "body": "yes", "re": end})
    assert found["ok"]
    record = run.newest()
    assert (record.type, record.re, record.plan) == ("answer", question.id, "02-02")
    assert run.stands(question) == "answered"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"re": "Codex-Worker-1:9"}, "no message `Codex-Worker-1:9`"),
        ({"re": "2"}, "2 messages end in `2`"),
        ({"re": "Codex-Worker-2:1"}, "no message"),
        ({"re": "orker-1:1"}, "no message"),
        ({"re": "lead:1"}, "is from 20260216_142834.lead; send the answer there"),
        ({"type": "answer"}, "an answer needs `re`"),
    ],
)
def test_an_answer_to_nothing_is_refused(run, given, words):
    run.send(LEAD, ONE, "?", kind="question")
    run.send(THREE, TWO, "between others")
    for sender in (TWO, LEAD):
        for _ in range(2):
            run.send(sender, ONE)
    found = call(run.box(), "send_message", {"to": "Codex-Worker-1", "body": "x", **given})
    assert words in found["reason"]
    assert not run.path(ONE).exists()


def test_chat_may_be_about_the_message_of_another(run):
    asked = run.send(LEAD, ONE, "?", kind="question")
    found = call(
        run.box(), "send_message", {"to": "Codex-Worker-1", "body": "x", "type": "chat", "re": asked.id}
    )
    assert found["ok"]
    assert (run.newest().re, run.newest().to) == (asked.id, TWO)


def test_21_messages_in_a_minute_are_refused_in_plain_words(run):
    box = run.box()
    for _ in range(20):
        run.log(ONE).append("chat", TWO)
    found = call(box, "send_message", {"to": "Codex-Worker-1", "body": "x"})
    assert found["reason"] == "20 messages to Codex-Worker-1 in a minute; combine them into one"


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("send_message", {"to": "lead"}, "body is missing"),
        ("send_message", {"to": "lead", "body": ""}, "body is empty"),
        ("send_message", {"to": "lead", "body": "x" * 16_385}, "16,385 characters, and 16,384 is the limit"),
        ("send_message", {"to": "lead", "body": "é" * 16_384}, "32,768 bytes, and 16,384 is the limit"),
        (
            "send_message",
            {"to": "lead", "body": "x", "type": "ack"},
            "type is none of question, answer, chat",
        ),
        ("send_message", {"to": ["lead"], "body": "x"}, "to is no string"),
        ("send_message", {"to": "lead", "body": "x", "cc": "all"}, "cc is unknown; there are to, body"),
        ("send_message", {"to": "lead", "body": "x", "plan": "p" * 33}, "`plan` cannot be"),
        ("inbox", {"wait": 601}, "wait is not from 0 to 600"),
        ("inbox", {"wait": float("nan")}, "wait is no number"),
        ("inbox", {"wait": True}, "wait is no number"),
        ("blocker", {"title": "x" * 121, "body": ""}, "121 characters, and 120 is the limit"),
        ("blocker", {"title": " \n", "body": ""}, "title is empty"),
        ("task_progress", {"plan": "1", "task": "t", "state": "50%"}, "state is none of todo, doing, done"),
        ("note", {"text": "x", "kind": "decision", "title": "t"}, "a decision needs `title` and `context`"),
        ("submit_report", {"report": {**REPORT, "status": "DONE"}}, "report.status is none of COMPLETE"),
        ("submit_report", {"report": {"summary": 1}}, "report.analysis is missing"),
        ("submit_report", {"report": {**REPORT, "decisions": ["a", 2]}}, "report.decisions[1] is no string"),
        ("submit_report", {"report": {**REPORT, "summary": "x" * 70_000}}, "65,536 bytes and 32 levels"),
    ],
)
def test_an_input_that_is_wrong_is_refused_and_says_why(run, name, given, words):
    found = call(run.box(), name, given)
    assert words in found["reason"], found["reason"]
    assert not found["ok"]
    assert not run.path(ONE).exists() or run.lines(ONE) == []


def test_there_is_no_other_call(run):
    with pytest.raises(KeyError):
        call(run.box(), "approve", {})


def test_who_has_which_tools(run):
    every = [tool.name for tool in TOOLS]
    assert every == [
        "send_message", "inbox", "blocker", "submit_report", "plan_started", "plan_complete", "plan_failed",
        "task_progress", "note", "phase_complete",
    ]  # fmt: skip
    assert [tool.name for tool in offered(run.box())] == every
    assert [tool.name for tool in offered(run.box(is_phase_worker=False))] == every[:4]
    milestones = [tool.name for tool in offered(run.box(events="milestones"))]
    assert milestones == [name for name in every if name not in ("plan_started", "task_progress")]
    assert "you are none" in call(run.box(is_phase_worker=False), "plan_started", {"plan": "1"})["reason"]
    assert "milestones" in call(run.box(events="milestones"), "plan_started", {"plan": "1"})["reason"]
    assert not run.path(ONE).exists()


def test_every_tool_is_listed_as_mcp_wants_it(run):
    for tool in Desk(run.box()).tools():
        assert tool.keys() == {"name", "description", "inputSchema", "annotations"}
        assert tool["inputSchema"]["additionalProperties"] is False
        assert set(tool["inputSchema"]["required"]) <= set(tool["inputSchema"]["properties"])
        assert tool["annotations"] == {
            "readOnlyHint": False,
            "destructiveHint": False,
            "openWorldHint": False,
        }
    assert list(complaints(REPORT_SCHEMA, REPORT)) == []


def test_a_report_is_sent_without_waiting_and_told_what_it_lacks(run):
    found = call(run.box(), "submit_report", {"report": REPORT})
    assert (found["ok"], found["receipt"], found["reason"]) == (True, "new", "")
    assert run.newest().facts == {"report": REPORT}
    found = call(run.box(), "submit_report", {"report": {**REPORT, "status": "BLOCKED"}})
    assert (found["ok"], found["reason"]) == (True, "it says BLOCKED without `blocked`")
    assert run.waited == []


def test_a_paused_blocker_returns_with_the_first_answer(run):
    run.handles(pointer="phases/phase-2/STATUS.md#b1")
    run.answers("Yes: MIT.")
    found = call(run.box(on_blocker="pause"), "blocker", {"title": "t", "body": ""})
    assert (found["ok"], found["receipt"], found["answer"]) == (True, "answered", "Yes: MIT.")
    assert found["pointer"] == "phases/phase-2/STATUS.md#b1"
    assert run.newest().facts["mode"] == "pause"
    assert found["new"] == 0


def test_the_answer_to_a_paused_blocker_goes_out_once(run):
    run.handles()
    run.answers("Yes: MIT.")
    desk, given = Desk(run.box(on_blocker="pause")), []
    found = desk.call("blocker", {"title": "t", "body": ""})
    run.send(LEAD, ONE, "beside it")
    desk.deliver(found, given.append)
    assert "Yes: MIT." not in given[0]
    assert "    | beside it" in given[0]
    assert desk.call("inbox", {})["messages"] == []


def test_what_a_hook_has_shown_meanwhile_is_not_in_an_inbox_once_more(run):
    run.send(LEAD, ONE, "here")
    desk, given = Desk(run.box()), []
    found = desk.call("inbox", {})
    with run.box().delivering() as news:
        assert "    | here" in news.text
    desk.deliver(found, given.append)
    assert (found["messages"], given) == ([], [""])


def test_a_paused_blocker_goes_on_after_the_limit(run):
    run.handles()
    found = call(run.box(on_blocker="pause", pause_limit=0.2), "blocker", {"title": "t", "body": ""})
    assert (found["ok"], found["answer"], found["do"]) == (True, None, UNANSWERED)


def test_a_paused_blocker_goes_on_120_seconds_before_the_ticket_ends(run):
    box = run.box(on_blocker="pause", deadline=NOW + 120.2)
    assert call(box, "blocker", {"title": "t", "body": ""})["do"] == UNANSWERED


@pytest.mark.parametrize("how", ["handled", "refused"])
def test_a_paused_blocker_that_is_closed_or_refused_goes_on_at_once(run, how):
    run.handles(how, "no", by=LEAD if how == "handled" else COORDINATOR)
    found = call(run.box(on_blocker="pause"), "blocker", {"title": "t", "body": ""})
    assert (found["receipt"], found["answer"]) == (how, None)
    assert "go on" in found["do"]


def test_a_paused_worker_that_is_asked_to_leave_its_plan_goes_on(run):
    run.send(LEAD, ONE, kind="cancel")
    run.acts.append(lambda: run.send(LEAD, ONE, kind="chat"))
    run.acts.append(lambda: run.send(LEAD, ONE, kind="cancel"))
    found = call(run.box(on_blocker="pause"), "blocker", {"title": "t", "body": ""})
    assert (found["do"], found["new"]) == (UNANSWERED, 3)


def test_the_inbox_has_what_is_new_and_what_is_open(run):
    own = run.send(ONE, LEAD, "which?", kind="question")
    old = run.send(TWO, ONE, "old?", kind="question")
    run.ack(old)
    new = run.send(TWO, ONE, "new", plan="02-01")
    run.now += 1.5
    found = call(run.box(), "inbox", {})
    assert [one["id"] for one in found["messages"]] == [new.id]
    assert found["messages"][0] == {
        "id": new.id, "at": new.at, "from": TWO, "to": ONE, "type": "chat", "phase": None, "plan": "02-01",
        "re": None, "body": "new", "facts": {}, "stands": "new", "open": False, "seconds": 1.5,
        "worker_state": None,
    }  # fmt: skip
    assert found["open"] == []
    assert list(found) == ["ok", "messages", "open", "do", "new", "unacknowledged"]
    assert [one["id"] for one in call(run.box(), "inbox", {"open": True})["open"]] == [own.id, old.id]


def test_the_inbox_waits_for_a_new_message(run):
    run.acts += [lambda: None, lambda: run.send(LEAD, ONE, "here")]
    assert [one["body"] for one in call(run.box(), "inbox", {"wait": 60})["messages"]] == ["here"]
    assert run.waited == [0.02, 0.02]


def test_news_go_out_with_the_answer_of_a_call_and_once(run):
    run.send(LEAD, ONE, "here")
    desk, given = Desk(run.box()), []
    desk.deliver({}, given.append)
    desk.deliver({}, given.append)
    assert "    | here" in given[0]
    assert given[1:] == [""]
    assert desk.call("inbox", {})["messages"] == []


def test_an_inbox_and_what_came_since_go_out_with_its_answer_each_once(run):
    shown = run.send(LEAD, ONE, "here")
    desk, given = Desk(run.box()), []
    found = desk.call("inbox", {})
    assert ([one["body"] for one in found["messages"]], found["new"]) == (["here"], 0)
    later = run.send(LEAD, ONE, "there")
    desk.deliver(found, given.append)
    assert "    | there" in given[0]
    assert "| here" not in given[0]
    assert [run.stands(one) for one in (shown, later)] == ["shown", "shown"]
    assert desk.call("inbox", {})["messages"] == []


def test_a_living_sender_sends_again_what_nobody_acknowledges(run):
    desk = Desk(run.box())
    desk.call("plan_started", {"plan": "02-01"})
    run.now += 4
    assert desk.resend()
    assert len(run.lines(ONE)) == 1
    run.now += 1
    assert desk.resend()
    assert [seen.record.tries for seen in run.read().records] == [1, 2]
    run.now += 900
    assert not desk.resend()
    found = desk.call("inbox", {})
    assert found["unacknowledged"] == [f"{ONE}:1"]
    run.ack(run.newest(), "handled")
    assert not desk.resend()
    assert desk.call("inbox", {})["unacknowledged"] == []


def test_a_log_that_cannot_be_written_is_told_and_the_worker_goes_on(run):
    run.path(ONE).mkdir()
    found = call(run.box(), "blocker", {"title": "t", "body": ""})
    assert not found["ok"]
    assert "cannot be written" in found["reason"]


def test_a_mailbox_is_that_of_a_log(run):
    with pytest.raises(ValueError, match="not the name of a message log"):
        Mailbox(str(run.folder / "notes.jsonl"))


def test_what_each_worker_pays_for_is_the_standard_library_and_this_room():
    code = "import sys, workers.messages.calls\nprint('\\n'.join(sys.modules))"
    root = str(ROOT)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = [{root!r}]\n{code}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    loaded = done.stdout.split()
    ours = [name for name in loaded if name.partition(".")[0] in ("tickets", "workers", "orchestrator")]
    assert {one for one in ours if not one.startswith("workers.messages")} == {
        "workers", "workers.shim", "workers.shim.atomic", "tickets", "tickets.report_schema",
    }  # fmt: skip
    strays = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    assert strays <= {"tickets", "workers", "__main__"}
    assert not {"pathlib", "difflib", "dataclasses", "inspect", "subprocess", "socket"} & set(loaded)


def test_two_leads_may_answer_one_question_and_the_first_counts(run):
    run.answers("one")
    run.answers("two")
    box = run.box(on_blocker="pause")
    assert call(box, "blocker", {"title": "t", "body": ""})["answer"] == "one"
    run.acts.pop()()
    book = Book()
    for record in run.records():
        book.add(record)
    (message,) = (one for one in book if one.record.type == "blocker")
    assert [answer.body for answer in message.answers] == ["one", "two"]


def test_a_message_to_all_reaches_the_one_other_worker_that_there_is(run):
    write_roster(
        str(run.folder),
        Roster(RUN, "phase-2", "Ada", "Claude-Worker-1", {"Claude-Worker-1": "x", "Codex-Worker-1": "y"}),
    )
    sent = call(run.box(), "send_message", {"to": "all", "body": "I take the lexer"})
    assert (sent["ok"], sent["to"]) == (True, f"{RUN}.all")
    (shown,) = call(run.box(TWO), "inbox", {})["messages"]
    assert (shown["from"], shown["body"]) == (ONE, "I take the lexer")
    assert call(run.box(), "inbox", {})["messages"] == []
    run.ack(run.newest(), by=TWO)
    assert call(run.box(TWO), "inbox", {})["messages"] == []
    assert run.stands(run.newest()) == "shown"
