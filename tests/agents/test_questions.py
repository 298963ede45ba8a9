"""The pinned CLIs without a user: what their streams show of a question and of a refusal."""

import pytest

pytestmark = pytest.mark.real_cli

WHICH = "Which database shall it be?"
OPTIONS = [{"label": "A", "description": "the first"}, {"label": "B", "description": "the second"}]
CALLS = {
    "codex": ("request_user_input", {"questions": [
        {"id": "db", "header": "DB", "question": WHICH, "options": OPTIONS}]}),
    "claude": ("AskUserQuestion", {"questions": [
        {"header": "DB", "question": WHICH, "options": OPTIONS, "multiSelect": False}]}),
    "gemini": ("ask_user", {"questions": [
        {"header": "DB", "question": WHICH, "type": "choice", "options": OPTIONS}]}),
}  # fmt: skip


@pytest.mark.parametrize("name", ["claude", "gemini"])
def test_a_question_is_refused_at_once_and_told(lab, name):
    tool, given = CALLS[name]
    script = lab.server.step("call", tool=tool, given=given) + lab.server.step("answer", text="I stop here.")
    ran = lab.run(name, script, mode="write", fenced=True)
    assert (ran.answer.ended, ran.answer.text, ran.answer.question) == ("success", "I stop here.", WHICH), ran
    assert [said.kind for said in ran.progress].count("question") == 1


def test_of_a_question_of_codex_only_its_answer_tells(lab):
    tool, given = CALLS["codex"]
    script = lab.server.step("call", tool=tool, given=given) + lab.server.step("answer", text=WHICH)
    ran = lab.run("codex", script, mode="write", fenced=True)
    assert (ran.answer.ended, ran.answer.question) == ("success", WHICH), ran
    assert tool not in ran.stdout.decode()


@pytest.mark.parametrize("name", ["claude", "gemini"])
def test_a_command_that_it_may_not_run_is_what_it_waits_for(lab, name):
    script = lab.server.step("shell", cmd="touch made.txt") + lab.server.step("answer", text="I stop here.")
    ran = lab.run(name, script, mode="read-only")
    assert ran.answer.question.startswith("no permission for "), ran
    assert "touch made.txt" in ran.answer.question
    assert "permission_denied" in ran.answer.flags
    assert lab.changes() == ""
