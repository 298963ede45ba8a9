"""The lead's word for work that was not complete, or that has landed: what is kept, said and offered."""

import pytest
from support.judgement import head, integrate, run, write
from support.repository import shell


@pytest.mark.parametrize(("words", "said"), [((), "accepted by the lead"), (("--reason", "ok"), "ok")])
def test_why_work_was_not_complete_stands_beside_the_leads_word_everywhere(lab, words, said):
    lab.templates(command_1=write(1, acceptance=["exit 7"]))
    document = run(lab, 1)
    before = document["workers"][0]["reason"]
    assert before.startswith("acceptance failed: `exit 7` (exit code 7; see ")
    accepted = integrate(lab, document, "--accept", "Command-Worker-1", *words)
    (worker,) = accepted["workers"]
    assert (worker["verdict"], worker["reason"]) == ("partial", f"{said}, although {before}")
    (problem,) = accepted["problems"]
    assert (problem["place"], problem["severity"]) == ("Command-Worker-1", "warning")
    assert problem["what"] == f"landed, although {before}"
    assert problem["do"].endswith(f"git revert {accepted['commit']['landing'][:10]}")
    after = head(lab)
    again = lab.call("integrate", document["run"], "--accept", "Command-Worker-1", *words).out
    assert f"failed: {said}, although acceptance failed: `exit 7`" in " ".join(again.split())
    assert head(lab) == after
    newest = (lab.root / "DECISIONS.md").read_text().partition("\n---\n\n## ")[2].partition("\n---\n")[0]
    why = "no reason given" if said == "accepted by the lead" else said
    assert "(Look around): acceptance failed: `exit 7` (exit code 7; see " in newest
    assert f" accepted Command-Worker-1: {why}.\n" in newest
    because = why.replace("no reason given", "the lead decided otherwise")
    assert f"\n1. Reject Command-Worker-1 - Rejected because {because}\n" in newest
    assert f"\n- Positive: landed out/1 (commit {accepted['commit']['landing'][:10]})\n" in newest
    assert "not landed" not in newest


def test_of_overruled_work_just_those_are_named_of_whom_something_was_left_out(lab):
    lab.templates(
        command_1=shell("mkdir out; echo 1 > out/1; echo > stray; exit 3", retries=0, mode="write",
                        owns=["out/1"]),
        command_2=shell("mkdir out; touch out/2a out/2b", max_files_changed=1, mode="write",
                        owns=["out/2*"]),
    )  # fmt: skip
    document = run(lab, 1)
    integrate(lab, document, "--accept", "Command-Worker-1", "Command-Worker-2")
    log = (lab.root / "DECISIONS.md").read_text()
    settled = log[log.index(": Settled run ") :].partition("\n---\n")[0]
    assert "accepted Command-Worker-2 and accepted Command-Worker-1 in part: no reason given.\n" in settled
    assert "): exit code 3; Command-Worker-2 (" in settled
    assert "): changed too many files: 2 of 1\n" in settled
    assert "\n- Negative: not landed: stray\n" in settled


@pytest.mark.parametrize("commits", ["worker", "run"])
def test_what_lands_in_part_says_so_in_its_commit_and_in_the_completions(lab, commits):
    lab.commit({"orchestrate.toml": f'[integration]\ncommits = "{commits}"\n'})
    script = "mkdir out; echo 1 > out/1; echo 2 > stray; echo edits in out and stray"
    lab.templates(command_1=shell(script, mode="write", owns=["out/**"]))
    run = lab.call("run", "phase-1", "--json").document["run"]
    document = lab.call("integrate", run, "--accept", "command-1", "--json").document
    message = lab.git("show", "-s", "--format=%B", document["commit"]["landing"])
    said = (
        "In part: stray outside its scope did not land" if commits == "worker" else "in part: without stray"
    )
    assert said in message
    assert lab.git(
        "show", "-s", "--format=%(trailers:key=Orchestrate-Run)", document["commit"]["landing"]
    ).strip()
    line = next(one for one in (lab.root / "STATUS.md").read_text().splitlines() if "partial" in one)
    assert line.endswith("edits in out and stray; landed in part, without stray")
