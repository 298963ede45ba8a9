"""The pinned CLIs go on in a thread of theirs: what was said before is before the model again."""

import pytest

pytestmark = pytest.mark.real_cli

each_agent = pytest.mark.parametrize("name", ["codex", "claude", "gemini"])


def home_of(lab, name):
    home = lab.homes / f"{name}-home"
    home.mkdir(parents=True)
    return home


def went_on(lab, name, home, thread, **fields):
    """Send one more message in a thread; return its result and what the model was shown for it."""
    prompt = "The second word is bittern. " + lab.server.step("answer", text="I went on.")
    ran = lab.run(name, prompt, home=home, thread=thread, **fields)
    return ran, [asked["body"] for asked in lab.server.requests()][-1]


@each_agent
@pytest.mark.parametrize("fields", [{}, {"mode": "write", "fenced": True}], ids=["own-sandbox", "fenced"])
def test_a_second_prompt_arrives_in_the_thread_of_the_first(lab, name, fields):
    home = home_of(lab, name)
    answer = lab.server.step("answer", text="I begin.", **{"in": 1000, "out": 20})
    first = lab.run(name, f"The first word is heron. {answer}", home=home, **fields)
    assert first.answer.ended == "success", first
    ran, body = went_on(lab, name, home, first.answer.thread, **fields)
    assert (ran.answer.ended, ran.answer.text) == ("success", "I went on."), ran
    assert ran.answer.thread == first.answer.thread
    assert body.index("first word is heron") < body.index("I begin.") < body.index("second word is bittern")
    # Codex alone tells the sum of the whole thread.
    assert ran.answer.usage.input_tokens == (1100 if name == "codex" else 100)


@each_agent
def test_a_thread_that_was_killed_goes_on(lab, name):
    home = home_of(lab, name)
    step = lab.server.step
    # In its second request: one that is killed in its very first may not have kept a thread yet.
    script = step("shell", cmd="echo found") + step("stall")
    first = lab.run(
        name, f"The first word is heron. {script}", until="stall", kept="heron", home=home, mode="write"
    )
    assert (first.exit_code, first.answer.ended) == (None, "none")
    ran, body = went_on(lab, name, home, first.answer.thread)
    assert (ran.answer.ended, ran.answer.text) == ("success", "I went on."), ran
    assert body.index("first word is heron") < body.index("second word is bittern")


@each_agent
def test_a_thread_that_it_does_not_know_is_told_as_one(lab, name):
    home = home_of(lab, name)
    prompt = lab.server.step("answer", text="ok")
    ran = lab.run(name, prompt, home=home, thread="01a21ee5-2ad3-7a52-a724-3c6cfea7006c")
    assert ran.answer.ended != "success", ran
    assert "thread_lost" in ran.answer.flags, ran
    assert lab.server.requests() == []
