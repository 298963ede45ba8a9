"""Who breaks the gate is found by few runs of it, falls with whoever built on it, and the others land."""

import json
import re
import runpy
import signal
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.bisection import breakers
from orchestrator.fitting import Standing
from workers.changes import ABSENT, Change

LAB = runpy.run_path(str(Path(__file__).with_name("lives_lab.py")))
shell, _pattern, cli_lab, lives = (LAB[name] for name in ("shell", "_pattern", "cli_lab", "lives"))
wait_until, journal = LAB["wait_until"], LAB["journal"]

FIFTEEN = [f"w{number:02}" for number in range(1, 16)]
AROUND = 2
"""Runs beside those of the search: all together, and the base."""


def drive(order, green, needs=None):
    """Answer a search from a function of sets; give what it found and what it asked."""
    search, asked = breakers(order, needs or {}), []
    try:
        ask = next(search)
        while True:
            assert ask.again or ask.kept not in [one.kept for one in asked], "a set was asked twice"
            for name in ask.kept:
                assert set((needs or {}).get(name, ())) <= ask.kept, "a set lacks what it builds on"
            asked.append(ask)
            assert len(asked) < 500
            ask = search.send(green(ask.kept))
    except StopIteration as end:
        return end.value, asked


# The search


def test_one_breaker_of_fifteen_is_named_by_about_five_runs_more_than_there_must_be():
    figures = {}
    for breaker in FIFTEEN:
        found, asked = drive(FIFTEEN, lambda kept, breaker=breaker: breaker not in kept)
        assert found.dropped == (breaker,)
        assert found.breaking[0].members == (breaker,)
        assert found.kept == set(FIFTEEN) - {breaker}
        figures[breaker] = len(asked) + AROUND
    print("gate runs by position of the breaker:", figures)
    assert max(figures.values()) <= 9


def test_two_who_break_it_only_together_are_both_named_and_the_later_one_goes():
    for pair in combinations(FIFTEEN, 2):
        found, asked = drive(FIFTEEN, lambda kept, pair=pair: not set(pair) <= kept)
        assert found.dropped == (pair[1],)
        assert found.breaking[0].members == (pair[1], pair[0])
        assert len(asked) + AROUND <= 15


def test_one_who_breaks_it_with_each_of_three_others_goes_alone():
    found, _ = drive(FIFTEEN, lambda kept: "w02" not in kept or not kept & {"w05", "w09", "w14"})
    assert found.dropped == ("w02",)
    assert len(found.kept) == 14


def test_of_a_pair_the_one_goes_on_whom_nobody_builds():
    needs = {"w09": ["w05"], "w11": ["w09"]}
    found, _ = drive(FIFTEEN, lambda kept: not {"w02", "w05"} <= kept, needs)
    assert found.dropped == ("w02",)
    assert len(found.kept) == 14


def test_many_breakers_cost_fewer_runs_than_a_search_by_halves_for_each():
    found, asked = drive(FIFTEEN, lambda kept: not kept)
    assert (len(found.dropped), found.kept) == (15, frozenset())
    assert len(asked) + AROUND <= 40


def closed(order, needs, dropped):
    kept = []
    for name in order:
        if name not in dropped and set(needs.get(name, ())) <= set(kept):
            kept.append(name)
    return frozenset(kept)


@st.composite
def worlds(draw):
    """Draw workers, who builds on whom, and sets that break the gate, none of them empty."""
    order = FIFTEEN[: draw(st.integers(2, 7))]
    needs = {
        name: draw(st.lists(st.sampled_from(order[:at]), max_size=2, unique=True))
        for at, name in enumerate(order)
        if at
    }
    breaking = draw(st.lists(st.sets(st.sampled_from(order), min_size=1, max_size=3), min_size=1, max_size=4))
    return order, needs, breaking


@given(worlds())
@settings(max_examples=150, deadline=None)
def test_no_fewer_could_have_been_dropped(world):
    order, needs, breaking = world

    def green(kept):
        return not any(one <= kept for one in breaking)

    found, _ = drive(order, green, needs)
    assert green(found.kept)
    assert found.kept == closed(order, needs, found.dropped)
    assert found.flaky is None
    others = (closed(order, needs, gone) for size in range(len(order)) for gone in combinations(order, size))
    assert len(found.kept) == max((len(kept) for kept in others if green(kept)), default=0)
    for one in found.breaking:  # each of its members is needed for it
        assert not green(frozenset(one.seen))


@given(worlds(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_a_gate_without_rhyme_or_reason_comes_to_an_end_that_was_seen_green(world, random):
    order, needs, _ = world
    known = {frozenset(): True, frozenset(order): False}
    found, asked = drive(order, lambda kept: known.setdefault(kept, random.random() < 0.5), needs)
    assert found.kept == closed(order, needs, found.dropped)
    assert known[found.kept]
    assert not found.kept or found.kept in [ask.kept for ask in asked]


@given(st.integers(2, 15), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_a_gate_that_answers_by_chance_comes_to_an_end_and_lands_what_passed_last(count, random):
    answers = {}

    def green(kept):
        answers[kept] = random.random() < 0.7
        return answers[kept]

    found, _ = drive(FIFTEEN[:count], green)
    assert not found.kept or answers[found.kept]


def test_a_gate_that_failed_once_for_no_reason_blames_nobody():
    found, asked = drive(FIFTEEN, lambda _: True)
    assert found.dropped == ()
    assert found.kept == found.flaky == set(FIFTEEN)
    assert asked[-1] == (frozenset(FIFTEEN), True)


def test_one_alone_is_not_named_where_the_gate_passes_the_second_time():
    found, asked = drive(["w01"], lambda _: True)
    assert (found.dropped, found.breaking) == ((), ())
    assert found.kept == found.flaky == {"w01"}
    assert asked == [(frozenset({"w01"}), True)]


def test_a_gate_that_fails_once_for_one_of_many_without_the_others_blames_nobody_either():
    odd = [frozenset(FIFTEEN[:7]), frozenset({"w07"})]

    def green(kept):
        if kept in odd:
            odd.remove(kept)
            return False
        return True

    found, _ = drive(FIFTEEN, green)
    assert odd == []
    assert (found.dropped, found.breaking, found.flaky) == ((), (), {"w07"})
    assert found.kept == set(FIFTEEN)


@given(st.integers(1, 15), st.floats(0.3, 0.9), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_who_is_named_was_seen_to_break_it_twice(count, share, random):
    order = FIFTEEN[:count]
    reds = {frozenset(order): 1}

    def green(kept):
        answer = random.random() < share
        reds[kept] = reds.get(kept, 0) + (not answer)
        return answer

    found, _ = drive(order, green)
    assert all(reds[one.seen] >= 2 for one in found.breaking)
    assert {name for one in found.breaking for name in one.members} >= set(found.dropped)


def test_a_gate_that_is_red_at_one_time_and_green_at_another_blames_nobody_in_the_middle_either():
    seen = [frozenset(FIFTEEN)]

    def green(kept):
        seen.append(kept)
        return seen.count(kept) > 1 or len(kept) < 4  # the first look at more than three always fails

    found, _ = drive(FIFTEEN, green)
    assert found.dropped == ()
    assert len(found.flaky) == 4
    assert found.kept == set(FIFTEEN)


# Runs


def writer(number, *, text="good", **more):
    """Write a template whose worker makes one file of its own."""
    return shell(f"mkdir -p out && echo {text} > out/{number}", mode="write", owns=[f"out/{number}"], **more)


def gate(lab, *commands, more="", fence="auto"):
    lab.commit(
        {"orchestrate.toml": f'fence = "{fence}"\n[integration]\n{more}gate = {json.dumps(commands)}\n'}
    )


def call(lab, command, run, *arguments, code):
    called = lab.call(command, run, "--json", *arguments)
    assert called.code == code, called
    return called.document


def verdicts(document):
    return {one["ticket"]: one["verdict"] for one in document["workers"]}


def reasons(document):
    return {one["ticket"]: one["reason"] for one in document["workers"]}


def said(document):
    return [f"{one['place']}: {one['what']}" for one in document["problems"]]


def folder_of(lab, document):
    return lab.root / ".taskers" / "runs" / document["run"]


def gate_runs(lab, document):
    """Count the runs of the gate by the files that they left."""
    return len(list((folder_of(lab, document) / "checks").glob("gate-1*.exit.json")))


def trees(lab, document):
    """List the trees that the gate ran on, with its answers."""
    notes = (one for one in journal(folder_of(lab, document)) if one["event"] == "gate_run")
    return [(one["tree"], one["passed"]) for one in notes]


def out(lab):
    return {path.name for path in (lab.root / "out").glob("*")}


NOT_BAD = "! grep -rl bad out"


@pytest.mark.parametrize("breaker", [1, 8, 15])
def test_a_planted_breaker_out_of_fifteen_is_named_and_the_fourteen_others_land(cli_lab, breaker):
    lab = cli_lab
    gate(lab, f"{NOT_BAD} >&2 || {{ echo 'out is broken'; exit 3; }}")
    lab.templates(**{
        f"command_{n}": writer(n, text="bad" if n == breaker else "good") for n in range(1, 16)
    })  # fmt: skip
    document = call(lab, "run", "phase-1", code=1)
    name = f"Command-Worker-{breaker}"
    assert [one for one, verdict in verdicts(document).items() if verdict != "accepted"] == [
        f"command-{breaker}"
    ]
    assert out(lab) == {str(n) for n in range(1, 16)} - {str(breaker)}
    count = gate_runs(lab, document)
    assert count <= 9
    line = f"failed, {count} runs, broken by {name}; without it passed: "
    assert any(one.startswith(f"gate: {line}") for one in said(document))
    decisions, state = (lab.root / "DECISIONS.md").read_text(), lab.git("log", "-1", "--format=%B")
    assert f"- Neutral: gate {line}" in decisions
    assert f"Gate: {line}" in state
    reason = reasons(document)[f"command-{breaker}"]
    assert reason.startswith("breaks the gate: `! grep -rl bad out")
    assert reason.endswith("): out is broken")
    path = re.search(r"see (\S+?)\)", reason)[1]
    assert (lab.root / path).read_text() == "out is broken\n"
    ran = trees(lab, document)
    assert len(set(ran)) == len({tree for tree, _ in ran})
    landed = lab.git("rev-parse", f"{document['commit']['landing']}^{{tree}}").strip()
    assert (landed, True) in ran
    assert (folder_of(lab, document) / f"{name}.patch").stat().st_size
    print(f"breaker {breaker} of 15: {count} gate runs")


def test_two_who_do_not_go_together_are_both_named_and_who_builds_on_the_later_falls_with_it(cli_lab):
    lab = cli_lab
    gate(lab, "test ! -e out/1 || test ! -e out/3")
    lab.templates(
        command_1=writer(1, depends_on=[]), command_2=writer(2), command_3=writer(3),
        command_4=writer(4, depends_on=["command-1"]),
        command_5=shell("true", depends_on=["command-3"]), command_6=writer(6, depends_on=["command-5"]),
        command_7=writer(7, depends_on=["command-4"]), command_8=writer(8, depends_on=["command-7"]),
    )  # fmt: skip
    document = call(lab, "run", "phase-1", code=1)
    assert verdicts(document) == {
        "command-1": "accepted", "command-2": "accepted", "command-3": "rejected", "command-4": "accepted",
        "command-5": "rejected", "command-6": "rejected", "command-7": "accepted", "command-8": "accepted",
    }  # fmt: skip
    why = reasons(document)
    assert why["command-3"].startswith("breaks the gate together with Command-Worker-1: `test ! -e out/1 ||")
    assert why["command-5"] == "depends on command-3, which was rejected"
    assert why["command-6"] == "depends on command-5, which was rejected"
    assert out(lab) == {"1", "2", "4", "7", "8"}
    assert "broken by Command-Worker-3; without it" in " ".join(said(document))
    again = call(lab, "integrate", document["run"], code=1)
    assert again == document


def test_one_alone_is_rejected_by_three_runs_and_the_leads_word_asks_the_gate_again(cli_lab):
    lab = cli_lab
    gate(lab, NOT_BAD)
    lab.templates(command_1=writer(1, text="bad"), command_2=shell("true", depends_on=["command-1"]))
    document = call(lab, "run", "phase-1", code=1)
    assert verdicts(document) == {"command-1": "rejected", "command-2": "rejected"}
    assert document["status"] == "integrated"
    assert gate_runs(lab, document) == 3
    assert "gate: failed, 3 runs, broken by Command-Worker-1" in said(document)
    assert not out(lab)

    again = call(lab, "integrate", document["run"], "--accept", "Command-Worker-1", code=1)
    assert verdicts(again) == verdicts(document)
    assert "gate: failed, 3 runs, broken by Command-Worker-1" in said(again)
    assert gate_runs(lab, document) == 6
    assert not out(lab)

    gate(lab, "true")
    names = ("Command-Worker-1", "Command-Worker-2")
    mended = call(lab, "integrate", document["run"], "--accept", *names, code=0)
    assert set(verdicts(mended).values()) == {"accepted"}
    assert out(lab) == {"1"}
    assert said(mended) == []


def test_a_gate_that_was_red_before_is_run_twice_and_nobody_is_looked_for(cli_lab):
    lab = cli_lab
    gate(lab, "true", "test ! -e src/app.py")
    lab.templates(**{f"command_{n}": writer(n) for n in range(1, 4)})
    document = call(lab, "run", "phase-1", code=1)
    assert set(verdicts(document).values()) == {"pending"}
    assert "the gate fails without these changes too" in " ".join(said(document))
    ran = [one["command"] for one in journal(folder_of(lab, document)) if one["event"] == "gate_run"]
    assert ran == ["true", "test ! -e src/app.py", "test ! -e src/app.py"]


def test_each_command_of_the_gate_has_a_breaker_of_its_own(cli_lab):
    lab = cli_lab
    gate(lab, "test ! -e out/2", "test ! -e out/3")
    lab.templates(**{f"command_{n}": writer(n) for n in range(1, 5)})
    document = call(lab, "run", "phase-1", code=1)
    assert out(lab) == {"1", "4"}
    why = reasons(document)
    assert why["command-2"].startswith("breaks the gate: `test ! -e out/2`")
    assert why["command-3"].startswith("breaks the gate: `test ! -e out/3`")
    assert "broken by Command-Worker-2, Command-Worker-3; without them passed" in " ".join(said(document))


def test_a_gate_that_passes_the_second_time_is_told_of_and_everything_lands(cli_lab):
    lab = cli_lab
    once = lab.root.parent / "once"
    gate(lab, f"test ! -e out/1 || test ! -e out/2 || test -e {once} || ! touch {once}", fence="off")
    lab.templates(command_1=writer(1), command_2=writer(2))
    document = call(lab, "run", "phase-1", code=0)
    assert set(verdicts(document).values()) == {"accepted"}
    assert out(lab) == {"1", "2"}
    (problem,) = document["problems"]
    assert problem["severity"] == "warning"
    assert "failed once and passed once on the same tree, so nobody is blamed" in problem["what"]
    tree, passed = trees(lab, document)[-1]
    assert (tree, passed) == (
        lab.git("rev-parse", f"{document['commit']['landing']}^{{tree}}").strip(), True,
    )  # fmt: skip


def test_one_alone_lands_where_the_gate_passes_the_second_time_and_both_outputs_are_told(cli_lab):
    lab = cli_lab
    once = lab.root.parent / "once"
    words = "echo odd; exit 3"
    gate(lab, f"test ! -e out/1 || test -e {once} || {{ touch {once}; {words}; }}; echo even", fence="off")
    lab.templates(command_1=writer(1))
    document = call(lab, "run", "phase-1", code=0)
    assert verdicts(document) == {"command-1": "accepted"}
    assert out(lab) == {"1"}
    (problem,) = document["problems"]
    assert problem["severity"] == "warning"
    assert "failed once and passed once on the same tree, so nobody is blamed" in problem["what"]
    outputs = re.findall(r"\((exit code \d); see (\S+?)\)", problem["what"])
    assert [(code, (lab.root / path).read_text()) for code, path in outputs] == [
        ("exit code 3", "odd\n"), ("exit code 0", "even\n"),
    ]  # fmt: skip
    assert gate_runs(lab, document) == 3  # it, the base, it once more


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_search_that_is_stopped_goes_on_where_it_was_and_no_tree_is_run_twice(lives, number):
    fifth = lives.outside / "fifth"
    # The fifth run waits until it is stopped; the files outside say how many there were.
    script = (
        f"echo >> {lives.outside}/ran; test $(wc -l < {lives.outside}/ran) -ne 5 || "
        f"{{ touch {fifth}; {lives.waits}; }}; {NOT_BAD}"
    )
    gate(lives.lab, script, fence="off")
    lives.lab.templates(**{f"command_{n}": writer(n, text="bad" if n == 5 else "good") for n in range(1, 9)})
    runtime = lives.begin("run", "phase-1")
    wait_until(fifth.exists)
    runtime.send_signal(number)
    runtime.communicate(timeout=60)
    (run,) = (lives.root / ".taskers" / "runs").glob("2*")
    before = [(one["tree"], one["passed"]) for one in journal(run) if one["event"] == "gate_run"]
    assert len(before) == 4
    assert not [one for one in journal(run) if one["event"] in ("settled", "landed")]
    lives.let_go(1)
    document = call(lives, "resume", run.name, code=1)
    ran = trees(lives.lab, document)
    assert ran[:4] == before
    looks = [(one["tree"], one["look"]) for one in journal(run) if one["event"] == "gate_run"]
    # One tree twice: that of the worker who is named.
    assert (len(looks), len(set(looks)), len(dict(looks))) == (8, 8, 7)
    assert f"failed, {len(ran)} runs, broken by Command-Worker-5" in " ".join(said(document))
    assert out(lives.lab) == {str(n) for n in range(1, 9)} - {"5"}
    assert lives.living() == []


def test_harm_by_a_gate_that_takes_its_runtime_along_is_found_by_the_next(lives):
    harmed = lives.outside / "harmed"
    evil = 'git -C "$ORCHESTRATE_PROJECT" config core.pager evil'
    gate(lives.lab, f"test -e {harmed} || {{ {evil}; touch {harmed}; {lives.waits}; }}", fence="off")
    lives.lab.templates(command_1=writer(1))
    runtime = lives.begin("run", "phase-1")
    wait_until(harmed.exists)
    runtime.kill()
    runtime.communicate(timeout=60)
    (run,) = (lives.root / ".taskers" / "runs").glob("2*")
    for _ in range(2):
        document = call(lives, "integrate", run.name, code=1)
        assert verdicts(document) == {"command-1": "pending"}
        assert reasons(document)["command-1"].endswith("meanwhile .git/config changed")
        assert not out(lives.lab)
    landed = call(lives, "integrate", run.name, "--accept", "Command-Worker-1", code=0)
    assert verdicts(landed) == {"command-1": "accepted"}
    assert lives.living() == []


def test_a_runtime_killed_when_all_had_fallen_leaves_no_search_to_be_done_again(cli_lab):
    lab = cli_lab
    gate(lab, NOT_BAD)
    lab.templates(command_1=writer(1, text="bad"))
    document = call(lab, "run", "phase-1", code=1)
    run = folder_of(lab, document)
    lines = (run / "events.jsonl").read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if '"event": "settled"' in line)
    (run / "events.jsonl").write_text("".join(lines[: at + 1]))
    again = call(lab, "integrate", document["run"], code=1)
    assert said(again) == said(document)
    assert gate_runs(lab, document) == 3


# What is not landed is kept


def fits(entries, *changes):
    return Standing({path: ("100644", digit * 40) for path, digit in entries.items()}).clash(changes)


def change(path, old=None, new=None):
    sides = ("100644" if side else ABSENT for side in (old, new))
    return Change(path, next(sides), (old or "0") * 40, next(sides), (new or "0") * 40)


@pytest.mark.parametrize(
    ("entries", "changes", "path"),
    [
        ({"a": "1"}, [change("a", "1", "2")], None),
        ({"a": "2"}, [change("a", "1", "2")], None),
        ({"a": "3"}, [change("a", "1", "2")], "a"),
        ({}, [change("a", "1", "2")], "a"),
        ({"a": "3"}, [change("a", "1")], "a"),
        ({}, [change("a", "1")], None),
        ({}, [change("d/e/f", None, "1")], None),
        ({"d/e": "1"}, [change("d/e/f", None, "1")], "d/e/f"),
        ({"d": "1"}, [change("d/e/f", None, "1")], "d/e/f"),
        ({"d": "1"}, [change("d", "1"), change("d/e/f", None, "1")], None),
        ({"d/e/f": "1"}, [change("d", None, "1")], "d"),
        ({"d/e/f": "1"}, [change("d/e", None, "1")], "d/e"),
        ({"d/e/f": "1"}, [change("d/e/f", "1"), change("d", None, "1")], None),
        ({"d/e/f": "1", "d/g": "1"}, [change("d/e/f", "1"), change("d", None, "1")], "d"),
        ({"ab/c": "1"}, [change("a", None, "1")], None),
    ],
)  # fmt: skip
def test_what_the_branch_has_gained_meanwhile_is_in_the_way_or_is_not(entries, changes, path):
    assert fits(entries, *changes) == path


def test_what_lands_first_stands_in_the_way_of_what_comes_after():
    standing = Standing({"a": ("100644", "1" * 40)})
    standing.take([change("a", "1"), change("b/c/d", None, "2")])
    assert standing.clash([change("b/c", None, "3")]) == "b/c"
    assert standing.clash([change("a/b", None, "3")]) is None
    assert standing.clash([change("a", "1", "3")]) == "a"


COMMIT = "git -c user.name=u -c user.email=u@v commit -qm user"


@pytest.mark.hardening
def test_a_conflict_is_kept_through_every_clean_up_and_so_is_what_builds_on_it_at_any_remove(cli_lab):
    """T28: what cannot land stays pending, its patch in the run's folder."""
    lab = cli_lab
    gate(lab, fence="off")
    # The worker acts for the user meanwhile, as no clock of the test's could be as exact.
    script = f"echo worker > src/app.py; cd {lab.root} && echo user > src/app.py && git add src && {COMMIT}"
    lab.templates(
        command_1=shell(script, mode="write", owns=["src/**"]),
        command_2=shell("true", depends_on=["command-1"]),
        command_3=writer(3, depends_on=["command-2"]),
        command_4=writer(4),
    )
    document = call(lab, "run", "phase-1", code=1)
    run = document["run"]
    kept = {name: folder_of(lab, document) / f"Command-Worker-{name}.patch" for name in (1, 3)}
    patches = {name: path.read_bytes() for name, path in kept.items()}
    assert b"+worker" in patches[1]
    for command in ("integrate", "resume", "integrate"):
        document = call(lab, command, run, code=1)
        assert document["status"] == "finished"
        why = reasons(document)
        assert why["command-1"] == "conflict: src/app.py has changed on main since"
        assert why["command-3"] == "command-1, which it builds on, did not land"
        assert [verdicts(document)[f"command-{n}"] for n in (1, 3, 4)] == ["pending", "pending", "accepted"]
        assert {name: path.read_bytes() for name, path in kept.items()} == patches
    assert (lab.root / "src/app.py").read_text() == "user\n"
    assert out(lab) == {"4"}
    lab.git("revert", "--no-edit", lab.git("log", "--format=%H", "--grep=^user$").split()[0])
    assert set(verdicts(call(lab, "integrate", run, code=0)).values()) == {"accepted"}
    assert (lab.root / "src/app.py").read_text() == "worker\n"
    assert out(lab) == {"3", "4"}


def test_a_tree_stays_until_its_patch_is_on_the_disk(cli_lab):
    lab = cli_lab
    gate(lab, fence="off")
    runs, trees = lab.root / ".taskers/runs", lab.root / ".taskers/worktrees"
    # A link that leads nowhere is in the way of a file that is only ever created.
    blocks = f"ln -s nowhere $(ls -d {runs}/2*)/Command-Worker-1.patch"
    lab.templates(command_1=shell(f"mkdir out; echo 1 > out/1; {blocks}", mode="write", owns=["out/**"]))
    document = call(lab, "run", "phase-1", code=1)
    (worker,) = document["workers"]
    assert worker["outcome"] == "failed"
    assert "Command-Worker-1.patch" in worker["reason"]
    for _ in range(2):
        assert (trees / document["run"] / "Command-Worker-1/out/1").read_text() == "1\n"
        document = call(lab, "integrate", document["run"], code=1)
    record = json.loads((runs / document["run"] / "Command-Worker-1.json").read_text())
    assert (lab.root / record["worktree"] / "out/1").read_text() == "1\n"


def test_what_a_cancelled_run_had_completed_lands_through_the_gate(lives):
    gate(lives.lab, "test -e src/app.py", fence="off")
    lives.lab.templates(command_1=writer(1), command_2=shell(f"{lives.waits}; true", timeout="5m"))
    run, _ = lives.detached()
    wait_until(lambda: [one for one in journal(run) if one["event"] == "ended"])
    call(lives, "cancel", run.name, code=0)
    call(lives, "wait", run.name, code=1)
    document = call(lives, "integrate", run.name, code=1)
    assert verdicts(document) == {"command-1": "accepted", "command-2": "rejected"}
    assert out(lives.lab) == {"1"}
