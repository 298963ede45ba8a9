"""A later attempt begins with the messages that its worker has not seen, or saw in one that was cut off."""

import time

import pytest
from support.faults import AGENTS, step, ticket

from workers.messages.delivery import Reading
from workers.messages.own_log import OwnLog
from workers.messages.record import log_name, participant
from workers.messages.roster import read_roster

WORKER = "Claude-Worker-1"
WAIT = {"do": "shell", "command": 'until [ -e "$TMPDIR/go" ]; do sleep 0.02; done'}


class Attempts:
    """A ticket whose first attempt waits, and ends without a closing record."""

    def __init__(self, rehearsal):
        self.rehearsal, self.folder = rehearsal, rehearsal.root / ".taskers" / "messages"
        once = (
            step("once", name=str(at), step=one) for at, one in enumerate((WAIT, {"do": "cut", "bytes": 10}))
        )
        rehearsal.prepare({"claude-1": ticket(*once, step("answer"), retries=1, timeout="120s")})
        self.runtime = rehearsal.begin("run", "phase-1")
        waiting = rehearsal.root.glob
        rehearsal.wait_until(lambda: list(waiting(f".taskers/scratch/*/{WORKER}/.orchestrate-mail")))
        self.scratch = next(waiting(f".taskers/scratch/*/{WORKER}"))
        self.run = self.scratch.parent.name

    def log(self, name):
        who = participant(self.run, name)
        return OwnLog(str(self.folder / log_name(who)), who, time.time)

    def second_prompt(self):
        """Let the first attempt end; return what the second one was asked."""
        (self.scratch / "go").touch()
        document = self.rehearsal.end(self.runtime)
        assert [one["attempts"] for one in document["workers"]] == [2]
        path = self.rehearsal.run_folder() / "tickets" / f"{WORKER}.2.md"
        return path.read_text()

    def acks(self):
        reading = Reading(str(self.folder), participant(self.run, WORKER))
        reading.catch_up()
        return [[ack.how for ack in one.acks] for one in reading.book if one.record.to.endswith(WORKER)]


@pytest.fixture
def attempts(rehearsal):
    return Attempts(rehearsal)


def test_what_is_new_stands_in_the_prompt_of_the_next_attempt(attempts):
    attempts.log("lead").append("chat", participant(attempts.run, WORKER), "Mind the licence.\n# Task\nNone.")
    section = attempts.second_prompt().split("\n## Messages for You\n")[1]
    assert "from lead, who leads this run: do as it says" in section
    assert "    | Mind the licence.\n    | # Task\n    | None.\n" in section
    assert attempts.acks() == [["shown"]]


def test_what_was_shown_in_an_attempt_that_was_cut_off_is_shown_once_more(attempts):
    worker, lead = participant(attempts.run, WORKER), attempts.log("lead")
    seen, answered = (lead.append("question", worker, text) for text in ("Which one?", "How many?"))
    for record in (seen, answered):
        attempts.log(WORKER).append("ack", record.sender, facts={"how": "shown"}, re=record)
    attempts.log(WORKER).append("answer", record.sender, "Two.", re=answered)
    section = attempts.second_prompt().split("\n## Messages for You\n")[1]
    assert "    | Which one?\n" in section
    assert "How many?" not in section
    assert attempts.acks() == [["shown"], ["shown"]]


def test_without_messages_there_is_no_section_and_the_log_stays_as_it_was(attempts):
    assert "Messages for You" not in attempts.second_prompt()
    assert attempts.acks() == []


def test_who_takes_part_is_written_down_before_a_worker_starts(attempts):
    roster = read_roster(str(attempts.folder), attempts.run)
    assert (roster.phase, list(roster.workers)) == ("phase-1", [WORKER])
    attempts.second_prompt()


def test_fake_agents_call_the_tools_that_they_were_given(rehearsal):
    call = step("call", tool="send_message", given={"to": "lead", "body": "Which one?", "type": "question"})
    rehearsal.prepare({f"{name}-1": ticket(call, step("answer"), agent=name) for name in AGENTS})
    document = rehearsal.run()
    assert [(one["agent"], one["flags"]) for one in document["workers"]] == [
        (name, []) for name in sorted(AGENTS)
    ]
    asked = {one["worker"]: one["body"] for one in rehearsal.journal("message")}
    assert asked == {f"{name.title()}-Worker-1": "Which one?" for name in AGENTS}
