"""How agent CLIs start: with prompts of any size, inside other sessions, refused, and fifteen at once."""

import hashlib
import json
import subprocess
import time

import pytest
from support.faults import AGENTS, step, ticket
from support.repository import SCRIPT

pytestmark = pytest.mark.hardening
NESTED = (
    "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CODEX_SANDBOX", "CODEX_THREAD_ID",
    "CODEX_SANDBOX_NETWORK_DISABLED", "GEMINI_CLI", "GEMINI_SANDBOX",
)  # fmt: skip
NEWER = '#!/bin/sh\ntest "$1" = --version && echo "9.9.9 (Claude Code)" && exit\n'
OLD = "0.0.0 (Claude Code)"


def prompt(lab, worker):
    return lab.run_folder() / "tickets" / f"{worker['worker']}.md"


def of_size(lab, agent, size):
    """Write a ticket whose whole prompt, with what we add to it, has a size in bytes."""
    lab.prepare({f"{agent}-1": ticket(step("hash"), agent=agent)})
    (small,) = lab.run()["workers"]
    more = size - prompt(lab, small).stat().st_size
    # A line end at the very end would be stripped, and the prompt be a byte short.
    body = ("Look at every one of these lines.\n" * (more // 34 + 1))[: more - 2] + "."
    text = ticket(step("hash"), body, agent=agent, retries=3)
    lab.lab.commit({f"docs/worker-ticket-templates/{agent}-1.md": text})
    return lab.run("run", "phase-1", "--new")["workers"][0]


@pytest.mark.parametrize("size", [131_071, 131_072, 2_000_000])
@pytest.mark.parametrize("agent", AGENTS)
def test_a_prompt_arrives_as_it_is_or_is_refused_before_the_start(rehearsal, agent, size):
    """T02: at and about the kernel's limit of one argument, and far beyond it."""
    worker = of_size(rehearsal, agent, size)
    data = prompt(rehearsal, worker).read_bytes()
    assert len(data) == size
    if (agent, size) == ("codex", 2_000_000):
        assert (worker["outcome"], worker["attempts"]) == ("failed", 1)
        said = "the prompt has 2000000 bytes; codex takes 1000000 at most, so shorten it"
        assert worker["reason"] == f"{worker['worker']}.md: {said}"
        assert not list(rehearsal.run_folder().glob("shims/*"))  # nothing was started
        return
    assert worker["outcome"] == "complete"
    answer = (rehearsal.root / worker["output"]).read_text()
    assert f"sha256 {hashlib.sha256(data).hexdigest()} of {size} bytes" in answer


def test_no_worker_believes_itself_inside_another_session(rehearsal, tmp_path):
    """T03: variables of an outer session do not reach the workers, and stay as they are around them."""
    rehearsal.prepare({f"{agent}-1": ticket(step("env"), agent=agent) for agent in AGENTS})
    marked = rehearsal.lab.env(**dict.fromkeys(NESTED, "1"))
    # A shell around the run tells afterwards what it has in its own environment.
    script = f'"$@" > {tmp_path}/document; code=$?; env > {tmp_path}/around; exit $code'
    command = [SCRIPT, "run", "phase-1", "--json"]
    done = subprocess.run(
        ["sh", "-c", script, "sh", *command],
        cwd=rehearsal.root,
        env=marked,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    document = json.loads((tmp_path / "document").read_text())
    assert done.returncode == 0, document
    assert [one["outcome"] for one in document["workers"]] == ["complete"] * 3
    around = (tmp_path / "around").read_text().splitlines()
    assert all(f"{name}=1" in around for name in NESTED)


@pytest.mark.parametrize(
    ("agent", "said"),
    [("codex", "trusted directory"), ("claude", "cannot be used with root"), ("gemini", "trusted directory")],
)
def test_a_refused_directory_fails_its_ticket_alone_and_at_once(rehearsal, agent, said):
    """T05: one line on standard error and an exit, each time; five good tickets beside it."""
    tickets = {f"{agent}-1": ticket(step("untrusted"), agent=agent, retries=3)}
    others = [name for name in AGENTS if name != agent]
    tickets |= {f"{name}-{number}": ticket(agent=name) for name in others for number in (1, 2)}
    tickets[f"{agent}-2"] = ticket(agent=agent)
    rehearsal.prepare(tickets)
    document = rehearsal.run()
    refused = rehearsal.worker(document, f"{agent}-1")
    assert (refused["outcome"], refused["attempts"]) == ("failed", 1)
    assert said in refused["reason"]
    line = refused["reason"] in rehearsal.stdout(refused, ".stderr").decode()
    assert line, refused["reason"]
    good = [one["outcome"] for one in document["workers"] if one is not refused]
    assert good == ["complete"] * 5


@pytest.mark.parametrize("login", ["keys", "user"])
def test_fifteen_at_once_do_not_fail_over_what_they_share(rehearsal, login):
    """T07: each locks a file of its configuration directory for a second, and gives up where it is busy."""
    names = [f"{agent}-{number}" for agent in AGENTS for number in range(1, 6)]
    rehearsal.prepare({name: ticket(step("lock"), agent=name.split("-")[0], timeout="60s") for name in names})
    text = (rehearsal.root / "orchestrate.toml").read_text()
    rehearsal.lab.commit({"orchestrate.toml": text.replace("start_interval = 0", "start_interval = 0.1")})
    for folder in (".codex", ".claude", ".gemini"):
        (rehearsal.lab.home / folder).mkdir()  # the user has logged in
    keys = {"CODEX_API_KEY": "none", "ANTHROPIC_API_KEY": "none", "GEMINI_API_KEY": "none"}
    runtime = subprocess.Popen(
        [SCRIPT, "run", "phase-1", "--json"], cwd=rehearsal.root,
        env=rehearsal.lab.env(**(keys if login == "keys" else {})), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    rehearsal.begun.append(runtime)
    workers = rehearsal.end(runtime)["workers"]
    assert [one["outcome"] for one in workers] == ["complete"] * 15, [one["reason"] for one in workers]
    for one in workers:
        record = json.loads((rehearsal.root / one["output"]).with_suffix(".json").read_text())
        assert len(record["tries"]) == one["attempts"]
        assert all("database is locked" in tried["reason"] for tried in record["tries"][:-1])
    if login == "keys":
        assert {one["attempts"] for one in workers} == {1}  # they share nothing


def test_a_program_that_is_replaced_while_a_run_is_on_is_tried_again(rehearsal, tmp_path):
    """T72: fifteen tickets of a program that is a link; a self-update breaks the link for two seconds."""
    link = tmp_path / "claude"
    link.symlink_to(rehearsal.fakes / "claude")
    tickets = {f"claude-{number}": ticket(step("sleep", seconds=1), retries=1) for number in range(1, 16)}
    rehearsal.prepare(tickets)
    settings = (rehearsal.root / "orchestrate.toml").read_text()
    settings = settings.replace(str(rehearsal.fakes / "claude"), str(link))
    settings = settings.replace("start_interval = 0\n", 'start_interval = 0\nretry_pause = "3s"\n')
    rehearsal.lab.commit({"orchestrate.toml": settings})
    runtime = rehearsal.begin("run", "phase-1")
    rehearsal.wait_until(lambda: len(rehearsal.journal("started")) >= 5)
    link.unlink()
    link.symlink_to(tmp_path / "nowhere")
    time.sleep(2)
    newer = tmp_path / "newer"
    newer.write_text((rehearsal.fakes / "claude").read_text().replace("#!/bin/sh\n", NEWER))
    newer.chmod(0o755)
    link.unlink()
    link.symlink_to(newer)
    document = rehearsal.end(runtime)
    assert [one["outcome"] for one in document["workers"]] == ["complete"] * 15
    records = [json.loads(rehearsal.stdout(one, ".json")) for one in document["workers"]]
    tries = [one for record in records for one in record["tries"]]
    assert max(len(record["tries"]) for record in records) == 2
    assert {one["version"] for one in tries if one["outcome"] == "complete"} == {OLD, "9.9.9 (Claude Code)"}
    assert {one["reason"] for one in tries if one["outcome"] != "complete"} == {f"no such program: {link}"}
