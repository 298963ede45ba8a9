"""`orchestrate worker`: a worker's messages from its shell, in a process of its own, as workers call it."""

import json
import subprocess
from pathlib import Path

import pytest
from support.mail import COORDINATOR, LEAD, ONE, RUN, TWO, Post
from support.repository import SCRIPT

from orchestrator.cli.arguments import UsageError, parser_for
from orchestrator.cli.main import typed
from orchestrator.cli.worker import ACTIONS, read_words
from orchestrator.commands import worker
from orchestrator.commands.worker import Arguments
from workers.messages.mailbox import Mailbox
from workers.messages.roster import Roster, write_roster

WORKERS = {"Claude-Worker-1": "Lead the core phase", "Codex-Worker-1": "Port the formatter"}


class Shell(Post):
    """The shell of a worker of a project."""

    def __init__(self, root):
        super().__init__(root / ".taskers/messages")
        self.root = root
        self.folder.mkdir(parents=True)
        write_roster(str(self.folder), Roster(RUN, "phase-2", "Ada", "Claude-Worker-1", WORKERS))

    def env(self, worker="Claude-Worker-1", **more):
        return {
            "PATH": "/usr/bin:/bin", "HOME": str(self.root), "ORCHESTRATE_PROJECT": str(self.root),
            "ORCHESTRATE_RUN": RUN, "ORCHESTRATE_WORKER": worker,
            "ORCHESTRATE_MESSAGES": str(self.path(f"{RUN}.{worker}")), **more,
        }  # fmt: skip

    def call(self, *words, worker="Claude-Worker-1", text="", env=None):
        """Call it; return its exit code, standard output and standard error."""
        done = subprocess.run(
            [SCRIPT, "worker", *words], cwd=self.root, env=env or self.env(worker), input=text,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def document(self, *words, **more):
        code, out, err = self.call(*words, "--json", **more)
        return code, json.loads(out), err

    def newest(self):
        return [record for record in self.records() if record.sender == ONE][-1]


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


def test_a_message_is_in_the_workers_own_log(shell):
    code, out, err = shell.call("send", "--to", "all", "Tests run by", "make")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"{ONE}:1 to {RUN}.all: new"
    record = shell.newest()
    assert (record.type, record.body, record.phase) == ("chat", "Tests run by make", "phase-2")


def test_the_keys_of_a_tools_answer_are_in_the_envelope(shell):
    code, found, _ = shell.document(
        "send", "--to", "Codex-Worker-1", "--type", "question", "--plan", "02-02", "?"
    )
    assert code == 0
    assert list(found) == [
        "schema", "ok", "id", "to", "receipt", "reason", "answer", "pointer", "commit", "do", "new",
        "unacknowledged", "problems", "next_action",
    ]  # fmt: skip
    assert (found["to"], found["receipt"], shell.newest().plan) == (TWO, "new", "02-02")


def test_a_text_may_come_by_standard_input(shell):
    assert shell.call("send", "--to", "all", "-", text="two\nlines\n")[0] == 0
    assert shell.newest().body == "two\nlines"


def test_an_answer_names_what_it_answers(shell):
    asked = shell.send(LEAD, ONE, "?", kind="question")
    assert shell.call("send", "--to", "lead", "--re", "lead:1", "yes")[0] == 0
    assert (shell.newest().type, shell.newest().re) == ("answer", asked.id)


@pytest.mark.parametrize(
    ("words", "kind", "facts"),
    [
        (("block", "Which", "licence?", "--body", "b", "--task", "t", "--mode", "skip"), "blocker",
         {"title": "Which licence?", "task": "t", "attempted": "", "needs": "", "mode": "skip"}),
        (("plan", "start", "02-01"), "plan_started", {}),
        (("plan", "complete", "02-01", "--summary", "s"), "plan_complete", {}),
        (("plan", "fail", "02-01", "--reason", "r"), "error", {"state": "failed"}),
        (("task", "02-01", "Left", "recursion", "--state", "done"), "task_progress",
         {"task": "Left recursion", "state": "done"}),
        (("note", "all", "is", "well"), "state_change", {"context": "all is well"}),
        (("note", "d", "--decision", "t", "--context", "c"), "state_change",
         {"decision": {"title": "t", "context": "c", "decision": "d"}}),
        (("phase-complete", "--summary", "s"), "phase_complete", {}),
    ],
)  # fmt: skip
def test_each_call_writes_its_message_to_the_coordinator(shell, words, kind, facts):
    asking = subprocess.Popen(
        [SCRIPT, "worker", *words, "--json"],
        cwd=shell.root,
        env=shell.env(),
        stdout=subprocess.PIPE,
        text=True,
    )
    while not shell.path(ONE).exists() or not shell.records():
        assert asking.poll() is None, asking.stdout.read()
    shell.ack(shell.newest(), "handled")
    found = json.loads(asking.communicate()[0])
    assert (asking.returncode, found["receipt"]) == (0, "handled")
    record = shell.newest()
    assert (record.to, record.type, record.facts) == (COORDINATOR, kind, facts)
    assert record.plan == ("02-01" if words[0] in ("plan", "task") else None)


def test_a_report_is_read_from_a_file_or_standard_input(shell):
    report = {
        "summary": "s", "analysis": "a", "proposal": {}, "risks_and_alternatives": "r", "status": "COMPLETE",
    }  # fmt: skip
    Path(shell.root / "report.json").write_text(json.dumps(report))
    assert shell.call("report", "report.json")[0] == 0
    assert shell.newest().facts == {"report": report}
    assert shell.call("report", "-", text=json.dumps(report))[0] == 0
    for text, words in (
        ("{", "is not JSON"),
        ("{}", "report.summary is missing"),
        ("[]", "report is no object"),
    ):
        code, _, err = shell.call("report", "-", text=text)
        assert (code, words in err) == (2, True), err
    assert shell.call("report", "nowhere.json")[0] == 2


def test_the_inbox_is_printed_and_acknowledged(shell):
    message = shell.send(LEAD, ONE, "Yes: MIT.")
    code, out, _ = shell.call("inbox")
    assert code == 0
    assert "[1] chat from lead, who leads this run: do as it says" in out
    assert "    | Yes: MIT." in out
    assert shell.stands(message) == "shown"
    assert shell.call("inbox")[1] == "no new messages\n"
    assert "0 new" not in shell.call("send", "--to", "all", "x")[1]


def test_the_inbox_as_json_holds_the_messages(shell):
    question = shell.send(TWO, ONE, "?", kind="question")
    code, found, _ = shell.document("inbox", "--open")
    assert code == 0
    assert [one["id"] for one in found["messages"]] == [one["id"] for one in found["open"]] == [question.id]
    assert shell.stands(question) == "shown"
    assert shell.document("inbox", "--wait", "0.1")[1]["messages"] == []


def test_the_inbox_acknowledges_just_what_it_has_printed(shell):
    """What comes while it is computed is printed as well, or stays new."""
    message = shell.send(LEAD, ONE, "before")
    box = Mailbox(str(shell.path(ONE)), "phase-2")
    done = worker.done(box, Arguments(action="inbox"))
    later = shell.send(LEAD, ONE, "after")
    with worker.handing_over(box, done) as (found, text):
        assert [one["body"] for one in found.document["messages"]] == ["before", "after"]
        assert "    | after" in text
    assert [shell.stands(one) for one in (message, later)] == ["shown", "shown"]


def test_the_answer_that_a_paused_worker_has_waited_for_is_not_shown_once_more(shell):
    asking = subprocess.Popen(
        [SCRIPT, "worker", "block", "Which licence?", "--mode", "pause", "--json"],
        cwd=shell.root, env=shell.env(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not shell.path(ONE).exists() or not shell.records():
        assert asking.poll() is None, asking.stdout.read()
    answer = shell.send(LEAD, ONE, "Yes: MIT.", "answer", re=shell.newest())
    other = shell.send(LEAD, ONE, "beside it")
    found = json.loads(asking.communicate(timeout=100)[0])
    assert (found["answer"], found["new"], "messages" in found) == ("Yes: MIT.", 1, False)
    assert [shell.stands(one) for one in (answer, other)] == ["shown", "new"]


def test_what_could_not_be_printed_stays_new(shell):
    message = shell.send(LEAD, ONE, "x")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [SCRIPT, "worker", "inbox"], env=shell.env(), stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert shell.stands(message) == "new"


def test_other_calls_count_what_is_new_and_leave_it(shell):
    message = shell.send(LEAD, ONE, "x")
    assert "1 new: `orchestrate worker inbox` shows them" in shell.call("send", "--to", "all", "y")[1]
    assert shell.stands(message) == "new"


def test_an_unknown_receiver_is_refused_and_named(shell):
    code, found, _ = shell.document("send", "--to", "Codx-Worker-1", "x")
    assert (code, found["ok"], found["id"]) == (1, False, None)
    assert "the nearest are Codex-Worker-1" in found["problems"][0]["what"]
    code, out, _ = shell.call("send", "--to", "Codx-Worker-1", "x")
    assert (code, "the nearest are Codex-Worker-1" in out) == (1, True)


def test_a_log_that_cannot_be_written_is_exit_1(shell):
    shell.path(ONE).mkdir()
    code, found, _ = shell.document("send", "--to", "all", "x")
    assert (code, "cannot be written" in found["reason"]) == (1, True)
    code, _, err = shell.call("inbox")
    assert (code, "cannot be written" in err) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        ("send", "x"), ("send", "--to", "all"), ("send", "--to"),
        ("send", "--to", "all", "x", "--type", "ack"),
        ("inbox", "--wait", "soon"), ("inbox", "--wait", "601"), ("inbox", "more"), ("block",),
        ("block", "x" * 121), ("plan", "begin", "02-01"), ("plan", "start"), ("plan", "complete", "02-01"),
        ("plan", "fail", "02-01"), ("task", "02-01", "t"), ("task", "02-01", "t", "--state", "50%"),
        ("phase-complete",), ("report",), ("send", "--to", "all", "x", "--js"), ("approve",), (),
        ("plan", "start", "02-01", "02-02"), ("send", "--to", "all", ""),
        ("plan", "start", "02-01", "--summary", "s"),
    ],
)  # fmt: skip
def test_a_call_that_is_wrong_is_exit_2_and_writes_nothing(shell, words):
    code, _, err = shell.call(*words)
    assert code == 2, err
    assert err.startswith("error: orchestrate worker"), err
    assert not shell.path(ONE).exists()


@pytest.mark.parametrize(
    "lacks",
    [{"ORCHESTRATE_WORKER": ""}, {"ORCHESTRATE_MESSAGES": ""}, {"ORCHESTRATE_RUN": "20260216_142900"},
     {"ORCHESTRATE_PROJECT": "/elsewhere"}, {"ORCHESTRATE_WORKER": "lead"}],
)  # fmt: skip
def test_outside_of_a_worker_it_refuses(shell, lacks):
    code, _, err = shell.call("send", "--to", "lead", "x", env=shell.env(**lacks))
    assert code == 2
    assert "orchestrate worker: not inside a worker; leads use `orchestrate msg`" in err
    assert list(shell.folder.glob("*.jsonl")) == []


def test_only_the_phase_worker_has_plans(shell):
    code, found, _ = shell.document("plan", "start", "02-01", worker="Codex-Worker-1")
    assert (code, "you are none" in found["reason"]) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        "worker send --to lead hello there",
        "worker send hello --to=lead --type question --re x:1 --plan 02-01 --json",
        "worker inbox", "worker inbox --wait 2.5 --open --json", "worker block a b --needs - --mode pause",
        "worker plan complete 02-01 --summary done", "worker task 02-01 a b --state done --note n",
        "worker note x --decision t --context c", "worker phase-complete --summary s", "worker report -",
        "worker send --to lead -", "worker send --to= x",
    ],
)  # fmt: skip
def test_a_plain_call_means_the_same_with_and_without_argparse(words):
    plain, parsed = read_words(words.split()), parser_for(words.split()).parse_args(words.split())
    assert typed(Arguments, plain) == typed(Arguments, parsed)
    assert (plain.json, plain.project, plain.command) == (parsed.json, parsed.project, parsed.command)


@pytest.mark.parametrize(
    "words",
    ["worker", "worker --json", "worker send --to lead", "worker send --help",
     "worker send --to lead x --project .",
     "worker send --to lead -x", "worker send --to lead -- x", "--json worker inbox", "worker inbox x",
     "worker plan begin 1", "worker inbox --wait x", "worker inbox --open=1", "worker send --tto lead x"],
)  # fmt: skip
def test_any_other_call_is_left_to_argparse(words):
    assert read_words(words.split()) is None


def test_every_action_is_explained(capsys):
    for name, action in ACTIONS.items():
        with pytest.raises(SystemExit):
            parser_for(["worker"]).parse_args(["worker", name, "--help"])
        said = capsys.readouterr().out
        assert all(word.name in said or word.field.upper() in said for word in action.words)
    with pytest.raises(UsageError):
        parser_for(["worker"]).parse_args(["worker", "approve"])
