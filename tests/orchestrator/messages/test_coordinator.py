"""The coordinator: each message is handled once, whoever was killed, and an answer reaches who has ended."""

import json
import subprocess
from pathlib import Path

import pytest
from support.messages import SENDS, Talk
from support.repository import SCRIPT
from support.runtimes import PATIENCE, wait_until

from workers.messages.own_log import OwnLog

ASKS = """
import pathlib, sys
note, ticket = pathlib.Path("src/note.txt"), sys.stdin.read()
if note.exists():
    note.write_text(note.read_text() + ("told: MIT\\n" if "> Yes: MIT." in ticket else "told nothing\\n"))
    print('ORCHESTRATE-RESULT {"status": "complete", "summary": "licensed"}')
else:
    note.write_text("begun\\n")
    print('ORCHESTRATE-RESULT {"status": "blocked", "summary": "Which licence holds?"}')
"""


@pytest.fixture
def talk(lab):
    return Talk(lab)


def test_what_a_worker_has_ended_with_is_asked_and_the_answer_lets_it_go_on(talk):
    talk.commit(ASKS)
    told = talk.lab.call("run", "phase-1", "--json").document
    (worker,) = told["workers"]
    assert (worker["outcome"], told["status"]) == ("blocked", "integrated"), told
    (asked,) = talk.book()
    assert (asked.record.type, asked.record.body, asked.is_open) == ("question", "Which licence holds?", True)
    talk.answer(asked.record, "Yes: MIT.")
    told = talk.lab.call("resume", talk.run.name, "--json").document
    (worker,) = told["workers"]
    assert (worker["outcome"], worker["verdict"], worker["attempts"]) == ("complete", "accepted", 2), told
    assert (talk.lab.root / "src/note.txt").read_text() == "begun\ntold: MIT\n"
    # Twice is once.
    assert talk.lab.call("resume", talk.run.name, "--json").document["workers"][0]["attempts"] == 2
    assert len(talk.journal("reopened")) == 1
    assert talk.messages()["question"].stands(0) == "answered"


def test_what_a_runtime_was_killed_before_it_asked_is_asked_by_the_next_one_once(talk):
    talk.commit(ASKS)
    assert talk.lab.call("run", "phase-1", "--json").document["workers"][0]["outcome"] == "blocked"
    # As if it had been killed between the end of the worker and the question.
    assert [one["body"] for one in talk.journal("message")] == ["Which licence holds?"]
    (talk.run / "messages.jsonl").unlink()
    (talk.folder / f"{talk.run.name}.coordinator.jsonl").unlink()
    assert not list(talk.book())
    for _ in range(2):
        talk.lab.call("resume", talk.run.name, "--json")
        assert [one.record.body for one in talk.book()] == ["Which licence holds?"]
    (told,) = talk.lab.call("msg", "inbox", "--json").document["messages"]
    assert told["body"] == "Which licence holds?"


def test_messages_are_copied_acknowledged_and_in_the_journal(talk):
    talk.commit(SENDS + 'send("question", "coordinator", "Where?\\nNow.")\nsend("chat", "Nobody", "hello")\n')
    assert talk.lab.call("run", "phase-1", "--json").code == 0
    found = talk.messages()
    assert found["question"].stands(0) == "handled"
    assert found["question"].is_open
    assert found["chat"].acks[0].reason == f"run {talk.run.name} has no worker Nobody"
    logs = b"".join(path.read_bytes() for path in sorted(talk.folder.glob("*.jsonl")))
    copied = (talk.run / "messages.jsonl").read_bytes()
    assert sorted(copied.splitlines()) == sorted(logs.splitlines())
    assert [(one["type"], one["body"], one["told"]) for one in talk.journal("message")] == [
        ("question", "Where?", True), ("chat", "hello", False)]  # fmt: skip


def test_what_was_said_while_no_runtime_lived_is_copied_and_noted_once_and_so_is_what_was_handled(talk):
    talk.commit("print('done')\n", "print('done')\n")
    assert talk.lab.call("run", "phase-1", "--json").code == 0
    run, one, two = talk.run.name, *(f"{talk.run.name}.Command-Worker-{at}" for at in (1, 2))
    logs = {who: OwnLog(str(talk.folder / f"{who}.jsonl"), who) for who in (one, two)}
    for number in range(10):
        said = logs[one].append("chat", two, f"step {number}")
        logs[two].append("ack", one, facts={"how": "shown"}, re=said)
    last = logs[one].append("chat", two, "still there?")
    for _ in range(2):
        assert talk.lab.call("resume", run, "--json").code == 0
        copied = (talk.run / "messages.jsonl").read_bytes()
        written = b"".join(path.read_bytes() for path in sorted(talk.folder.glob("*.jsonl")))
        assert sorted(copied.splitlines()) == sorted(written.splitlines())
        noted = [f"step {number}" for number in range(10)] + ["still there?"]
        assert [told["body"] for told in talk.journal("message")] == noted
        (ack,) = talk.book().get(last.id).acks
        assert (ack.how, ack.reason) == ("undeliverable", "Command-Worker-2 has ended: complete")


def test_an_answer_to_a_chat_that_is_settled_lets_its_sender_go_on_that_has_ended_blocked(talk):
    talk.commit(
        SENDS + 'send("chat", "Command-Worker-2", "I look at the licence.")\n' + ASKS, "print('done')\n"
    )
    assert talk.lab.call("run", "phase-1", "--json").document["status"] == "integrated"
    chat = talk.messages()["chat"].record
    peer = OwnLog(str(talk.folder / f"{chat.to}.jsonl"), chat.to)
    if not talk.messages()["chat"].acks:
        peer.append("ack", chat.sender, facts={"how": "shown"}, re=chat)
    talk.answer(chat, "Yes: MIT.")
    (worker, _) = talk.lab.call("resume", talk.run.name, "--json").document["workers"]
    assert (worker["outcome"], worker["attempts"]) == ("complete", 2)
    assert (talk.lab.root / "src/note.txt").read_text() == "begun\ntold: MIT\n"


def test_an_answer_reaches_who_has_ended_while_the_run_is_on(talk, tmp_path):
    talk.commit(
        ASKS, f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}):\n    time.sleep(0.05)\n"
    )
    run = subprocess.Popen([SCRIPT, "run", "phase-1", "--json"], cwd=talk.lab.root, env=talk.lab.env(),
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        wait_until(lambda: talk.folder.is_dir() and talk.messages())
        talk.answer(talk.messages()["question"].record, "Yes: MIT.")
        wait_until(lambda: [one for one in talk.journal("ended") if one["facts"]["outcome"] == "complete"])
        (tmp_path / "go").touch()
        told = json.loads(run.communicate(timeout=PATIENCE)[0])
    finally:
        (tmp_path / "go").touch()
        run.wait()
    assert [(one["outcome"], one["attempts"]) for one in told["workers"]] == [
        ("complete", 2),
        ("complete", 1),
    ]
    assert (talk.lab.root / "src/note.txt").read_text() == "begun\ntold: MIT\n"
    assert (told["status"], told["counts"]["accepted"]) == ("integrated", 2)


def test_ps_says_what_a_running_worker_asks(talk, tmp_path):
    go = tmp_path / "go"
    talk.commit(
        SENDS + 'import time\nsend("question", "lead", "Which licence?\\nMIT?")\nprint("asked", flush=True)\n'
        f"while not os.path.exists({str(go)!r}):\n    time.sleep(0.05)\n"
    )
    run = subprocess.Popen([SCRIPT, "run", "phase-1", "--json"], cwd=talk.lab.root, env=talk.lab.env(),
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        wait_until(lambda: talk.folder.is_dir() and talk.messages())
        wait_until(
            lambda: (
                [row["asks"] for row in talk.lab.call("ps", "--json").document["workers"]]
                == ["Which licence?"]
            )
        )
        assert "\n                    asks: Which licence?\n" in talk.lab.call("ps").out
    finally:
        go.touch()
        run.communicate(timeout=PATIENCE)


def test_a_question_to_all_is_news_for_the_lead_and_asks_it_for_nothing(talk, tmp_path):
    go = tmp_path / "go"
    talk.commit(
        SENDS + 'import time\nsend("question", "all", "Which licence?")\n'
        f"while not os.path.exists({str(go)!r}):\n    time.sleep(0.05)\n"
    )
    run = subprocess.Popen([SCRIPT, "run", "phase-1", "--json"], cwd=talk.lab.root, env=talk.lab.env(),
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        wait_until(lambda: talk.folder.is_dir() and talk.messages())
        inbox = talk.lab.call("msg", "inbox", "--json").document
        assert [(one["body"], one["open"], one["answer_with"]) for one in inbox["messages"]] == [
            ("Which licence?", False, None)]  # fmt: skip
        # It owes no answer, and could not close the question.
        assert inbox["next_action"].startswith(f"orchestrate wait {talk.run.name}")
        assert talk.lab.call("msg", "inbox", "--json").document["messages"] == []
    finally:
        go.touch()
        run.communicate(timeout=PATIENCE)


def test_the_lead_reads_its_inbox_answers_and_the_worker_goes_on(talk):
    talk.commit(ASKS)
    talk.lab.call("run", "phase-1", "--json")
    inbox = talk.lab.call("msg", "inbox", "--json").document
    (item,) = inbox["messages"]
    assert (item["body"], item["open"], item["stands"], inbox["new"], inbox["open"]) == (
        "Which licence holds?", True, "new", 1, 1)  # fmt: skip
    assert item["answer_with"] == f'orchestrate msg send --re {item["id"]} "..."'
    again = talk.lab.call("msg", "inbox", "--json").document
    assert (again["new"], again["open"], again["messages"][0]["stands"]) == (0, 1, "shown")
    assert again["waiting_for"] == "lead"
    sent = talk.lab.call("msg", "send", "--re", item["id"].rpartition(".")[2], "Yes: MIT.", "--json").document
    assert (sent["resumes"], sent["next_action"]) == (True, f"orchestrate resume {talk.run.name} --detach")
    assert talk.lab.call("resume", talk.run.name, "--json").document["workers"][0]["attempts"] == 2
    assert talk.lab.call("msg", "inbox", "--json").document["messages"] == []
    told = talk.lab.call("msg", "log", talk.run.name, "--json").document
    assert [(one["type"], one["stands"], one["record"]) for one in told["messages"]] == [
        ("question", "answered", "same"), ("answer", "handled", "same")]  # fmt: skip


def test_what_the_lead_could_not_be_shown_stays_new(talk):
    talk.commit(ASKS)
    talk.lab.call("run", "phase-1", "--json")
    argv, where = [SCRIPT, "msg", "inbox"], {"cwd": talk.lab.root, "env": talk.lab.env()}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(argv, **where, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"")
    assert talk.messages()["question"].acks == ()


def test_a_log_of_the_lead_that_cannot_be_written_is_told_in_a_line(talk):
    talk.commit(ASKS)
    talk.lab.call("run", "phase-1", "--json")
    (talk.folder / f"{talk.run.name}.lead.jsonl").mkdir()
    shown = talk.lab.call("msg", "inbox", "--json")
    (one,) = shown.document["messages"]
    assert (shown.code, shown.err.count("\n"), "stay new" in shown.err) == (0, 1, True), shown
    closed = talk.lab.call("msg", "ack", one["id"], "--json")
    assert (closed.code, "Is a directory" in closed.says()[0]) == (2, True), closed


def test_what_an_accepted_worker_has_asked_is_shown_once_and_asks_for_no_answer(talk):
    talk.commit(SENDS + 'send("question", "lead", "Which?")\nsend("blocker", "coordinator", "Wall")\n')
    told = talk.lab.call("run", "phase-1", "--json").document
    assert (told["status"], told["counts"]["accepted"]) == ("integrated", 1)
    assert (told["next_action"], told["messages"]["new"]) == ("orchestrate msg inbox", 2)
    inbox = talk.lab.call("msg", "inbox", "--json").document
    assert [(one["body"], one["open"], one["answer_with"]) for one in inbox["messages"]] == [
        ("Which?", False, None), ("Wall", False, None)]  # fmt: skip
    # Shown, they lead nobody in a circle.
    assert inbox["next_action"] == "orchestrate status"
    assert talk.lab.call("msg", "inbox", "--json").document["messages"] == []
    assert talk.lab.call("status", "--json").document["next_action"] != "orchestrate msg inbox"
