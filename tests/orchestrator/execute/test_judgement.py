"""What comes back is judged by its evidence, and the lead's word settles what the rules leave open."""

import json

import pytest
from support.judgement import OUT, head, integrate, message_of, run, settle, verdicts, write
from support.repository import shell

# Evidence

RESULT = """printf 'ORCHESTRATE-RESULT {"status": "%s", "summary": "%s"}'"""


@pytest.mark.parametrize(
    ("script", "outcome", "reason"),
    [
        ("exit 3", "failed", "exit"),
        ("echo 'API error: 500' >&2; exit 1", "failed", "API error: 500"),
        ("kill -9 $$", "failed", "killed by signal 9 (SIGKILL), not by us"),
        (RESULT % ("blocked", "no key"), "blocked", "no key"),
        (RESULT % ("needs_clarification", "which?"), "needs_clarification", "which?"),
    ],
)  # fmt: skip
def test_a_worker_that_is_not_complete_is_rejected_with_its_reason_and_takes_its_dependents_along(
    lab, script, outcome, reason
):
    lab.templates(
        command_1=shell(f"mkdir out; echo 1 > out/1; {script}", retries=0, **OUT),
        command_2=shell("true", depends_on=["command-1"]),
        command_3=shell("true", depends_on=["command-2"]),
    )
    document = run(lab, 1)
    assert verdicts(document) == {
        "command-1": (outcome, "rejected"), "command-2": ("skipped", None), "command-3": ("skipped", None),
    }  # fmt: skip
    first, second, _ = document["workers"]
    assert reason in first["reason"]
    assert second["reason"] == "depends on command-1, which was rejected"
    assert document["status"] == "integrated"
    assert (lab.root / ".taskers/runs" / document["run"] / "Command-Worker-1.patch").stat().st_size
    assert not (lab.root / "out").exists()


def test_an_acceptance_command_sees_a_fresh_tree_with_what_would_land_and_no_key(lab):
    checks = [
        "test -f out/1 && test ! -e ignored.tmp && test ! -e stray",
        'test -z "$SECRET_KEY" && ! env | grep -q hidden',
        "echo x > made-by-a-check; (sleep 60 &) ; true",
        "test ! -e made-by-a-check",
    ]  # fmt: skip
    lab.commit({".gitignore": "*.tmp\n"})
    lab.templates(command_1=shell("mkdir out; echo 1 > out/1; touch ignored.tmp", acceptance=checks, **OUT))
    called = lab.call("run", "phase-1", "--json", env={"SECRET_KEY": "hidden"})
    assert called.code == 0, called
    assert lab.git("show", "--name-only", "--format=", "HEAD^").split() == ["out/1"]
    assert not (lab.root / "made-by-a-check").exists()


def test_a_failing_acceptance_command_is_named_with_where_its_output_is(lab):
    lab.templates(command_1=write(1, acceptance=["true", "echo broken; exit 7", "touch /nowhere/at/all"]))
    document = run(lab, 1)
    (worker,) = document["workers"]
    assert (worker["outcome"], worker["verdict"]) == ("failed", "rejected")
    assert worker["reason"].startswith("acceptance failed: `echo broken; exit 7` (exit code 7; see .taskers/")
    path = worker["reason"].rpartition("see ")[2].rstrip(")")
    assert (lab.root / path).read_text() == "broken\n"


def test_an_acceptance_command_has_a_time_limit(lab):
    settle(lab, "[limits]\nacceptance_timeout = 0.3\ngrace = 0.1\n")
    lab.templates(command_1=write(1, acceptance=["sleep 60"]))
    (worker,) = run(lab, 1)["workers"]
    assert "`sleep 60` (timed out;" in worker["reason"]


def test_a_worker_whose_changes_cannot_be_taken_keeps_its_tree(lab):
    settle(lab, '[limits]\npatch_cap = "1 KB"\n')
    lab.templates(command_1=shell("mkdir out; head -c 5000 /dev/zero > out/big", **OUT))
    document = run(lab, 1)
    (worker,) = document["workers"]
    assert "more than patch_cap" in worker["reason"]
    kept = lab.root / ".taskers" / "worktrees" / document["run"] / "Command-Worker-1"
    assert (kept / "out" / "big").stat().st_size == 5000
    record = json.loads((lab.root / ".taskers/runs" / document["run"] / "Command-Worker-1.json").read_text())
    assert lab.root / record["worktree"] == kept


def test_a_worktree_that_cannot_be_made_fails_its_worker_alone_and_leaves_the_repository_as_it_was(lab):
    lab.write(".taskers/worktrees", "a file where a folder belongs\n")
    lab.templates(command_1=write(1))
    document = run(lab, 1)
    (worker,) = document["workers"]
    assert (worker["outcome"], worker["verdict"]) == ("failed", "rejected")
    assert worker["reason"]
    assert lab.git("worktree", "list").count("\n") == 1


# Violations


def stray(lab, rule=None, **more):
    if rule:
        settle(lab, f'[integration]\non_violation = "{rule}"\n')
    lab.templates(
        command_1=shell("mkdir out; echo 1 > out/1; echo x > stray; echo y >> STATUS.md", **OUT, **more)
    )


def test_a_worker_that_leaves_its_scope_waits_for_the_lead(lab):
    stray(lab)
    base = head(lab)
    document = run(lab, 1)
    (worker,) = document["workers"]
    assert (worker["outcome"], worker["verdict"], worker["files"]) == ("complete", "pending", ["out/1"])
    assert {(one["kind"], one["path"]) for one in worker["violations"]} == {
        ("out_of_scope", "stray"), ("touched_state_file", "STATUS.md"),
    }  # fmt: skip
    assert document["status"] == "finished"
    assert document["next_action"].endswith("--accept Command-Worker-1")
    assert document["commit"]["landing"] is None
    assert lab.git("diff", "--name-only", base, "HEAD", "--", "out", "stray") == ""

    accepted = integrate(lab, document, "--accept", "Command-Worker-1")
    assert verdicts(accepted) == {"command-1": ("complete", "partial")}
    assert accepted["status"] == "integrated"
    assert lab.git("show", "--name-only", "--format=", accepted["commit"]["landing"]).split() == ["out/1"]
    assert not (lab.root / "stray").exists()
    assert "y\n" not in (lab.root / "STATUS.md").read_text().splitlines(keepends=True)
    after = head(lab)
    assert integrate(lab, document, "--accept", "Command-Worker-1") == accepted
    assert integrate(lab, document) == accepted
    assert head(lab) == after
    refused = integrate(lab, document, "--reject", "Command-Worker-1", code=2)
    assert "has landed already" in message_of(refused)
    back = f"`git revert {accepted['commit']['landing'][:10]}` reverts it"
    assert refused["problems"][0]["do"] == back


def test_a_rejected_worker_lands_nothing_and_its_reason_is_the_leads(lab):
    stray(lab)
    document = run(lab, 1)
    rejected = integrate(lab, document, "--reject", "Command-Worker-1", "--reason", "not asked for", code=1)
    (worker,) = rejected["workers"]
    assert (worker["verdict"], worker["reason"]) == ("rejected", "not asked for")
    assert rejected["status"] == "integrated"
    assert integrate(lab, document, code=1) == rejected
    assert not (lab.root / "out").exists()


@pytest.mark.parametrize(
    ("rule", "verdict", "code"), [("reject", "rejected", 1), ("land-in-scope", "partial", 0)]
)
def test_the_setting_settles_violations_without_asking(lab, rule, verdict, code):
    stray(lab, rule)
    document = run(lab, code)
    assert verdicts(document) == {"command-1": ("complete", verdict)}
    assert (lab.root / "out/1").exists() == (verdict == "partial")


def test_a_commit_of_the_worker_is_a_violation_and_its_content_is_judged_all_the_same(lab):
    commit = "git add -A; git -c user.name=w -c user.email=w commit -qm mine"
    lab.templates(command_1=shell(f"mkdir out; echo 1 > out/1; {commit}", **OUT))
    document = run(lab, 1)
    (worker,) = document["workers"]
    if worker["outcome"] == "complete":  # where a fence holds, the commit itself fails
        assert [one["kind"] for one in worker["violations"]] == ["git_write"]
        assert worker["files"] == ["out/1"]
        integrate(lab, document, "--accept", "Command-Worker-1")
        assert (lab.root / "out/1").read_text() == "1\n"


def test_a_read_only_worker_lands_nothing_even_when_it_is_accepted(lab):
    lab.templates(command_1=shell("echo x > note", owns=["note"]))
    document = run(lab, 1)
    (worker,) = document["workers"]
    if worker["outcome"] == "complete":  # where a fence holds, it cannot write at all
        assert [one["kind"] for one in worker["violations"]] == ["read_only_wrote"]
        document = integrate(lab, document, "--accept", "Command-Worker-1")
        assert document["commit"]["landing"] is None
    assert not (lab.root / "note").exists()


def test_too_many_files_is_a_violation(lab):
    lab.templates(command_1=shell("mkdir out; touch out/1 out/2 out/3", max_files_changed=2, **OUT))
    (worker,) = run(lab, 1)["workers"]
    assert worker["violations"] == [{"kind": "too_many_files", "path": "3 of 2"}]


def test_what_cannot_be_settled_is_refused_and_changes_nothing(lab):
    lab.templates(command_1=shell("exit 1", retries=0), command_2=shell("true", depends_on=["command-1"]))
    document = run(lab, 1)
    before = lab.everything()
    for arguments, word in (
        (("--accept", "Nobody"), "is not a worker of run"),
        (("--accept", "Command-Worker-2"), "left nothing to judge"),
        (("--accept", "Command-Worker-1"), "changed nothing"),
        (("--accept", "Command-Worker-1", "--reject", "Command-Worker-1"), "both accepted and rejected"),
    ):
        assert word in message_of(integrate(lab, document, *arguments, code=2))
    after = lab.everything()
    assert {k for k in after if after[k] != before.get(k)} <= {
        path
        for path in after
        if path.endswith(("run.lock", "nursery.log", "store.lock")) or "orchestrate" in path
    }


# Dependencies


def test_a_dependent_starts_from_the_accepted_work_of_all_that_it_builds_on(lab):
    def step(number, needs, **more):
        have = " && ".join(f"test -f out/{one}" for one in needs) or "true"
        others = [one for one in range(1, 5) if one not in needs and one != number]
        lack = " && ".join(f"test ! -e out/{one}" for one in others) or "true"
        script = f"mkdir -p out && {have} && {lack} && echo {number} > out/{number}"
        return shell(script, mode="write", owns=[f"out/{number}"], **more)

    lab.templates(
        command_1=step(1, []),
        command_2=step(2, [1], depends_on=["command-1"]),
        command_3=step(3, [1], depends_on=["command-1"]),
        command_4=step(4, [1, 2, 3], depends_on=["command-2", "command-3"], acceptance=["test -f out/2"]),
    )
    document = run(lab)
    assert {one["verdict"] for one in document["workers"]} == {"accepted"}
    assert len(lab.git("log", "--format=%H", "--grep=^Orchestrate-Run: ").split()) == 4
    assert sorted(path.name for path in (lab.root / "out").iterdir()) == ["1", "2", "3", "4"]


def test_a_dependent_may_change_delete_and_follow_what_another_made(lab):
    lab.templates(
        command_1=shell("mkdir out; echo 1 > out/a; echo 1 > out/b; echo 1 > out/c", **OUT),
        command_2=shell("echo 2 >> out/a; rm out/b; rm out/c; mkdir out/c; echo 2 > out/c/d",
                        depends_on=["command-1"], **OUT),
        command_3=shell('test "$(cat out/a)" = "1\n2" && test ! -e out/b && cat out/c/d',
                        depends_on=["command-2"]),
    )  # fmt: skip
    document = run(lab)
    assert {one["outcome"] for one in document["workers"]} == {"complete"}
    assert (lab.root / "out/a").read_text() == "1\n2\n"
    assert sorted(str(path.relative_to(lab.root)) for path in (lab.root / "out").rglob("*")) == [
        "out/a", "out/c", "out/c/d",
    ]  # fmt: skip


def test_a_dependent_of_a_held_worker_is_skipped(lab):
    lab.templates(
        command_1=shell("mkdir out; echo 1 > out/1; echo > stray", **OUT),
        command_2=shell("true", depends_on=["command-1"]),
    )
    document = run(lab, 1)
    assert verdicts(document)["command-2"] == ("skipped", None)
    assert document["workers"][1]["reason"] == "depends on command-1, which was pending"


def test_a_worker_falls_with_the_one_that_it_built_on(lab):
    settle(lab, '[integration]\ngate = ["test -e open"]\n')
    lab.templates(command_1=write(1), command_2=write(2, depends_on=["command-1"]), command_3=write(3))
    document = run(lab, 1)
    assert {one["verdict"] for one in document["workers"]} == {"pending"}
    lab.commit({"open": ""})
    document = integrate(lab, document, "--reject", "Command-Worker-1", code=1)
    assert verdicts(document) == {
        "command-1": ("complete", "rejected"), "command-2": ("complete", "rejected"),
        "command-3": ("complete", "accepted"),
    }  # fmt: skip
    assert [path.name for path in (lab.root / "out").iterdir()] == ["3"]
