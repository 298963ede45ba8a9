"""The start of a worker: its standard input, its prompt, its messages when it fails."""

import json
import os

import pytest
from support.faults import AGENTS, step, ticket

pytestmark = pytest.mark.hardening


@pytest.mark.parametrize("silent", [False, True])
def test_a_worker_reads_its_prompt_to_the_end_also_where_our_own_input_never_ends(rehearsal, silent):
    """T01: standard input is the prompt and ends, whatever the runtime's own is."""
    rehearsal.prepare({f"{name}-1": ticket(step("hash"), agent=name) for name in AGENTS})
    reading, writing = os.pipe()
    try:
        document = rehearsal.run(**({"stdin": reading} if silent else {}))
    finally:
        os.close(reading)
        os.close(writing)
    assert [one["outcome"] for one in document["workers"]] == ["complete"] * 3
    for one in document["workers"]:
        prompt = rehearsal.run_folder() / "tickets" / f"{one['worker']}.md"
        assert f"of {prompt.stat().st_size} bytes".encode() in rehearsal.stdout(one)


def test_a_worker_that_exits_before_it_reads_its_prompt_fails_with_what_it_said(rehearsal):
    """T06: a prompt of a megabyte, of which nothing is read."""
    refuse = {"do": "refuse", "message": "error: bad option", "code": 2}
    body = "Look at every one of these lines.\n" * 29412
    assert len(body) > 1_000_000
    rehearsal.prepare({"claude-1": ticket(body, retries=2)}, args=("--fake", json.dumps(refuse)))
    (one,) = rehearsal.run()["workers"]
    assert (one["outcome"], one["exit_code"]) == ("failed", 2)
    assert "bad option" in one["reason"]
    assert one["attempts"] == 1
