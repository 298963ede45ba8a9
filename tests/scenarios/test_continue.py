"""Unfinished tickets go on in a new run: from their patch on the branch as it is now, or from their notes."""

import shutil

import pytest
from support.faults import step, ticket
from support.repository import TEMPLATES, shell

from orchestrator.state.checkpoints.read import read

STEPS = """\
for i in 1 2 3 4 5; do
  if [ -e src/s$i ]; then continue; fi
  echo $i > src/s$i
  if [ $i = 2 ]; then sed -i s/five/FIVE/ src/app.txt; fi
  if [ $i = 3 ] && [ ! -e .go ]; then sleep 60; fi
done
"""
LINES = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
ONLY = "orchestrate run phase-1 --continue --only command-1"


@pytest.fixture
def cut(lab):
    """Return a repository whose command was cut off at its third step; with a file `.go` it goes further."""
    lab.commit({"src/app.txt": LINES, "docs/spec.md": "one\n"})
    lab.templates(command_1=_steps())
    lab.first = lab.call("run", "phase-1", "--json").document
    lab.commit({".go": "go\n"})
    return lab


def _steps(**more):
    fields = {"mode": "write", "owns": ["src/**"], "reads": ["docs/spec.md"], "timeout": "3s", "retries": 0}
    return shell(STEPS, **{**fields, **more})


def checkpoint(lab):
    path = "docs/progress/code-review-command-1.md"
    return read(path, (lab.root / path).read_bytes())


def made(lab):
    return {path.name: path.read_text() for path in (lab.root / "src").iterdir() if path.name != "app.py"}


def undisturbed(text=LINES):
    return {"app.txt": text.replace("five", "FIVE"), **{f"s{i}": f"{i}\n" for i in range(1, 6)}}


def test_a_cut_off_worker_goes_on_from_its_patch_on_a_branch_that_has_moved(cut):
    assert cut.first["next_action"] == f"{ONLY} --detach"
    cut.commit({"src/app.txt": LINES.replace("one", "ONE"), "other.txt": "x\n"})
    shown = cut.call("plan", "phase-1", "--continue", "--json").document
    expected = {
        "run": cut.first["run"], "from": "patch", "files": ["src/app.txt", "src/s1", "src/s2", "src/s3"],
        "changed_since": ["src/app.txt"], "conflict": None,
    }  # fmt: skip
    assert shown["tickets"][0]["continues"] == expected
    assert cut.git("status", "--porcelain") == ""
    called = cut.call(*ONLY.split()[1:], "--json")
    assert (called.code, called.document["workers"][0]["continues"]) == (0, expected)
    assert made(cut) == undisturbed(LINES.replace("one", "ONE"))
    assert cut.git("status", "--porcelain") == ""
    one = checkpoint(cut)
    assert one.status == "complete"
    assert [note.text for note in one.notes][:2] == [
        "Cut off: ran longer than its timeout of 3 s; 4 files are kept",
        f"Accepted (run {called.document['run']}), landed as {called.document['commit']['landing'][:10]}",
    ]
    prompt = (cut.root / f".taskers/runs/{called.document['run']}/tickets/Command-Worker-1.md").read_text()
    assert "What was changed stands in the files: `src/app.txt`, `src/s1`, `src/s2`, `src/s3`." in prompt
    assert "On the branch this has changed since then: `src/app.txt`. Look there first." in prompt
    assert "Why Earlier Work Was Not Accepted" not in prompt
    again = cut.call("run", "phase-1", "--continue")
    assert again.code == 2
    assert "--continue: nothing of phase-1 is unfinished; " in again.err


def test_what_does_not_fit_the_branch_is_not_applied_but_given_to_read(cut):
    cut.commit({"src/app.txt": LINES.replace("five", "5")})
    cut.templates(command_1=_steps().replace("for i in", 'cp \\"$TMPDIR/earlier.patch\\" src/s0; for i in'))
    shown = cut.call("plan", "phase-1", "--continue")
    assert (
        "     does not fit the branch: src/app.txt; the worker gets the patch of 4 files to read" in shown.out
    )
    assert f"     changed since: {TEMPLATES}/command-1.md, src/app.txt" in shown.out
    document = cut.call("run", "phase-1", "--continue", "--json").document
    assert document["workers"][0]["continues"]["conflict"] == "src/app.txt"
    assert document["workers"][0]["continues"]["from"] == "notes"
    found = made(cut)
    assert "+FIVE" in found.pop("s0")
    assert found == {**undisturbed(), "app.txt": LINES.replace("five", "5")}
    prompt = (cut.root / f".taskers/runs/{document['run']}/tickets/Command-Worker-1.md").read_text()
    assert "do not fit the branch any more (`src/app.txt`) and are not here" in prompt


def test_run_without_a_phase_goes_on_and_a_plain_run_begins_afresh_and_warns(cut):
    plain = cut.call("plan", "phase-1", "--json").document
    assert plain["tickets"][0]["continues"] is None
    warned = "phase-1: command-1 was cut off, and would begin afresh"
    assert any(line.startswith(warned) for line in cut.call("plan", "phase-1", "--json").says())
    called = cut.call("run", "--json")
    assert (called.code, called.document["workers"][0]["continues"]["from"]) == (0, "patch")
    nothing = cut.call("run", "--json")
    assert (nothing.code, nothing.says()[0]) == (
        2, "run: nothing is unfinished, and no phase was named; name a phase"
    )  # fmt: skip


def test_cut_off_twice_without_a_new_change_waits_for_a_person(cut):
    cut.templates(command_1=_steps().replace("then continue", "then sleep 60"))
    document = cut.call("run", "--json").document
    assert document["workers"][0]["outcome"] == "timed_out"
    assert (document["next_action"], document["waiting_for"]) == (None, "lead")
    assert checkpoint(cut).status == "blocked"
    refused = cut.call("run", "--json")
    assert refused.code == 2
    assert refused.says()[0].startswith(
        "docs/progress/code-review-command-1.md: command-1 is blocked: Cut off: ran longer"
    )
    assert cut.call("run", "phase-1", "--continue", "--again").code == 2


@pytest.mark.parametrize("lost", ["patch", "everything"])
def test_what_is_left_is_enough(cut, lost):
    folder = cut.root / ".taskers"
    if lost == "patch":
        (folder / "runs" / cut.first["run"] / "Command-Worker-1.patch").unlink()
    else:
        shutil.rmtree(folder)
    called = cut.call("run", "phase-1", "--continue", "--json")
    found = called.document["workers"][0]["continues"]
    assert (called.code, found["from"], found["files"]) == (0, "notes", [])
    assert found["run"] == (cut.first["run"] if lost == "patch" else None)
    assert made(cut) == {**undisturbed(), "app.txt": LINES.replace("five", "FIVE")}


def test_a_base_that_is_gone_means_that_everything_may_have_changed(cut):
    for _ in range(2):
        cut.git("commit", "--quiet", "--amend", "--allow-empty", "--message=rewritten")
    first = cut.git("rev-list", "--max-parents=0", "HEAD").strip()
    cut.git("reset", "--quiet", "--soft", first)
    cut.git("commit", "--quiet", "--amend", "--message=all in one")
    cut.git("reflog", "expire", "--expire=now", "--all")
    cut.git("gc", "--quiet", "--prune=now")
    shown = cut.call("plan", "phase-1", "--continue", "--json").document["tickets"][0]["continues"]
    assert shown["changed_since"] == ["src/**", "docs/spec.md"]
    assert cut.call("run", "--json").code == 0
    assert made(cut) == undisturbed()


def test_what_was_skipped_because_of_it_goes_with_it_and_what_is_done_does_not_run_again(lab):
    lab.commit({"src/app.txt": LINES})
    lab.templates(
        command_1=_steps(reads=[]),
        command_2=shell("true", depends_on=["command-1"]),
        command_3=shell("true"),
    )
    lab.call("run", "phase-1")
    lab.commit({".go": "go\n"})
    shown = lab.call("plan", "phase-1", "--continue", "--json").document
    assert [one["ticket"] for one in shown["tickets"]] == ["command-1", "command-2"]
    assert shown["tickets"][1]["continues"] is None
    document = lab.call("run", "--json").document
    assert [one["verdict"] for one in document["workers"]] == ["accepted", "accepted"]
    (lab.root / TEMPLATES / "command-1.md").unlink()


def test_a_template_that_is_gone_is_reported_and_never_the_next_step(cut):
    cut.git("rm", "--quiet", f"{TEMPLATES}/command-1.md")
    cut.git("commit", "--quiet", "--message=gone")
    cut.templates(command_9=shell("true"))
    assert "--continue" not in (cut.call("resume", "--json").document["next_action"] or "")
    assert cut.call("run", "phase-1", "--continue").code == 2


def test_an_agent_that_has_lost_its_thread_is_told_what_was_done(rehearsal):
    write = step("write", path="src/a.py", text="a\n")
    hang = ticket(write, step("hang"), mode="write", owns=["src/*"], timeout="3s", retries=0)
    rehearsal.prepare({"claude-1": hang})
    first = rehearsal.run()
    assert rehearsal.worker(first, "claude-1")["outcome"] == "timed_out"
    shown = rehearsal.lab.call("plan", "phase-1", "--continue", "--json").document["tickets"][0]
    assert shown["continues"]["from"] == "thread"
    ends = ticket(step("write", path="src/b.py", text="b\n"), mode="write", owns=["src/*"], retries=0)
    rehearsal.lab.commit({f"{TEMPLATES}/claude-1.md": ends})
    second = rehearsal.run("run", "phase-1", "--continue")
    worker = rehearsal.worker(second, "claude-1")
    assert worker["continues"]["from"] == "patch"
    assert worker["continues"]["changed_since"] == [f"{TEMPLATES}/claude-1.md"]
    assert worker["files"] == ["src/a.py", "src/b.py"]
    said = (rehearsal.root / f".taskers/runs/{second['run']}/tickets/Claude-Worker-1.md").read_text()
    assert "### Earlier Work" in said
    assert "> [" in said
