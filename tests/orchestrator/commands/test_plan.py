"""`plan`: owners, collisions with their lines in the templates, and files without an owner."""

import json

from support.repository import shell, template
from support.runtimes import PATIENCE, journal, kill_and_see_dead, started, wait_until


def writer(*owns, **more):
    return template(mode="write", owns=list(owns), **more)


def colliding(lab):
    lab.commit({"src/lex.py": "", "src/gen/x.py": "", "README.md": "", "lib/a b.py": ""})
    lab.templates(
        command_1=writer("src/**", excludes=["src/gen/**"]),
        command_2=writer("src/[l-z]*.py", title="Second"),
        command_3=writer("docs/**"),
    )


def test_a_conflict_is_shown_with_its_witness_and_both_places(lab):
    colliding(lab)
    told = lab.call("plan", "phase-1", "--json")
    assert (told.code, told.document["ok"]) == (2, False)
    [overlap] = told.document["overlaps"]
    folder = "docs/worker-ticket-templates"
    assert (overlap["first"], overlap["second"]) == ("command-1", "command-2")
    assert overlap["places"] == [f"{folder}/command-1.md:8", f"{folder}/command-2.md:8"]
    for place in overlap["places"]:
        path, _, line = place.partition(":")
        assert (lab.root / path).read_text().splitlines()[int(line) - 1].startswith("owns:")
    [problem] = told.document["problems"]
    assert problem["witness"] == overlap["witness"]
    assert (told.document["next_action"], told.document["waiting_for"]) == (None, "lead")
    plain = lab.call("plan", "phase-1")
    assert plain.code == 2
    for said in (*overlap["places"], overlap["witness"], "owns src/** (2 files)", "but not src/gen/**"):
        assert said in plain.out


def test_the_map_counts_what_each_owns_and_names_what_nobody_does(lab):
    colliding(lab)
    document = lab.call("plan", "phase-1", "--on-overlap", "serialize", "--json").document
    assert {one["ticket"]: one["files"] for one in document["tickets"]} == {
        "command-1": 2, "command-2": 1, "command-3": 0,
    }  # fmt: skip
    assert document["unowned"] == {"count": 3, "paths": ["README.md", "lib/a b.py", "src/gen/x.py"]}
    assert document["reserved"] == 6  # three state files, three templates
    plain = lab.call("plan", "phase-1", "--on-overlap", "serialize").out
    assert "nobody owns 3 files: README.md, lib/a b.py, src/gen/x.py" in plain


def test_no_ticket_owns_the_files_of_a_family_while_it_is_on(lab):
    lab.commit({"phases/notes.txt": "", "STATE.md": "# Ours\n"})
    lab.templates(command_1=writer("phases/**"), command_2=writer("STATE.md", "src/**"))
    assert lab.call("plan", "phase-1").code == 0
    valid = lab.call("validate", "--json").document["problems"]
    lab.commit({"orchestrate.toml": 'families = ["phases"]\n'})
    told = lab.call("plan", "phase-1", "--json")
    assert told.code == 2
    places = [f"docs/worker-ticket-templates/command-{number}.md:8" for number in (1, 2)]
    wrong = [one for one in told.document["problems"] if one["severity"] == "error"]
    assert [one["place"] for one in wrong] == places
    assert ["phases/**" in wrong[0]["what"], "STATE.md" in wrong[1]["what"]] == [True, True]
    more = [one for one in lab.call("validate", "--json").document["problems"] if one not in valid]
    assert {*places} <= {one["place"] for one in more}


def test_of_tickets_that_write_nothing_nobody_is_told_what_they_do_not_own(lab):
    lab.templates(command_1=shell("true"), command_2=shell("true"))
    said = lab.call("plan", "phase-1").out
    assert "the first 2 start at once" in said
    assert "nobody owns" not in said
    assert lab.call("plan", "phase-1", "--json").document["unowned"]["count"] > 0


def test_where_something_is_wrong_nothing_is_said_to_start(lab):
    colliding(lab)
    said = lab.call("plan", "phase-1").out
    assert "nothing can start: see the errors below" in said
    assert "at once" not in said


def test_serialize_says_who_waits_for_whom(lab):
    colliding(lab)
    told = lab.call("plan", "phase-1", "--on-overlap", "serialize", "--json")
    assert (told.code, told.document["ok"]) == (0, True)
    waits = {one["ticket"]: one["waits_for"] for one in told.document["tickets"]}
    assert waits == {"command-1": [], "command-2": ["command-1"], "command-3": []}
    assert any("`command-2` waits for `command-1`" in said for said in told.says())
    assert lab.call("plan", "phase-1", "--on-overlap", "serialize", "--json").out == told.out


def test_the_first_of_a_pair_is_the_one_that_runs_first(lab):
    lab.templates(
        command_1=writer("a", depends_on=["command-3"]), command_2=writer("a", "c"), command_3=writer("c"),
    )  # fmt: skip
    document = lab.call("plan", "phase-1", "--on-overlap", "serialize", "--json").document
    order = [one["ticket"] for one in document["tickets"]]
    assert order == ["command-3", "command-1", "command-2"]
    assert [(one["first"], one["second"]) for one in document["overlaps"]] == [
        ("command-1", "command-2"), ("command-3", "command-2"),
    ]  # fmt: skip


def test_a_link_behind_a_link_is_followed_as_the_system_does(lab):
    lab.commit({"deep/er/x.py": "", "deep/d.py": "", "d.py": ""})
    (lab.root / "c").symlink_to("deep/er")
    (lab.root / "l.py").symlink_to("c/../d.py")
    assert (lab.root / "l.py").resolve() == lab.root / "deep" / "d.py"
    lab.templates(command_1=writer("l.py"), command_2=writer("deep/d.py"), command_3=writer("d.py"))
    told = lab.call("plan", "phase-1", "--json").document
    assert [(one["first"], one["second"], one["witness"]) for one in told["overlaps"]] == [
        ("command-1", "command-2", "deep/d.py")
    ]


def test_a_file_that_is_there_is_owned_alone_however_it_is_spelled(lab):
    lab.commit({"src/notes": "", "src/plan": ""})
    lab.templates(command_1=writer("./src//{notes,plan}"), command_2=writer("src/*/x.py"))
    assert lab.call("plan", "phase-1", "--json").code == 0
    lab.templates(command_1=writer("src/other"))
    assert lab.call("plan", "phase-1", "--json").code == 2


def test_what_another_run_holds_is_shown_and_nothing_is_written(lives):
    lives.lab.templates(
        command_1=shell(lives.waits, mode="write", owns=["src/a.py"]),
        command_2=writer("src", phase="phase-2"),
    )
    run, _ = lives.detached()
    wait_until(lambda: len(started(run)) == 1)
    told = lives.call("plan", "phase-2", "--json")
    assert told.code == 0
    assert told.document["next_action"].startswith(f"orchestrate wait {run.name} --timeout 90")
    assert told.document["in_use"] == [
        {"ticket": "command-2", "run": run.name, "worker": "Command-Worker-1", "standing": "running",
         "witness": "src/a.py"}
    ]  # fmt: skip
    warned = [one for one in told.document["problems"] if "witness" in one]
    assert [(one["severity"], one["witness"]) for one in warned] == [("warning", "src/a.py")]
    lives.let_go(1)


def test_a_serialized_run_keeps_its_order_when_it_is_resumed(lives):
    say = f"echo ready; {lives.waits}"
    lives.lab.templates(
        command_1=shell(f"{say}; echo 1 > a", mode="write", owns=["a"]),
        command_2=shell(f"cat a && {lives.waits} && echo 2 >> a", mode="write", owns=["a*"]),
    )
    assert lives.call("deploy", "phase-1", "--json").code == 2
    run, runtime = lives.detached("--on-overlap", "serialize")
    wait_until(lambda: len(started(run)) == 1)
    kill_and_see_dead(runtime)
    assert json.loads((run / "run.json").read_text())["dependencies"]["command-2"] == ["command-1"]
    lives.let_go(1)
    resumed = lives.begin("resume", run.name)
    wait_until(lambda: len(started(run)) == 2)
    lives.let_go(1)
    out, err = resumed.communicate(timeout=PATIENCE)
    assert (resumed.returncode, json.loads(out)["status"]) == (0, "integrated"), err
    assert (lives.root / "a").read_text() == "1\n2\n"
    ended = [one["worker"] for one in journal(run) if one["event"] == "ended"]
    assert ended == ["Command-Worker-1", "Command-Worker-2"]


def test_of_many_files_that_nobody_owns_a_thousand_are_named_and_all_counted(lab):
    for number in range(2_000):
        path = lab.root / f"src/area{number % 40}/file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    lab.templates(**{f"command_{n}": writer(f"src/area{n}/**", f"tests/**/t{n}_*.py") for n in range(15)})
    document = lab.call("plan", "phase-1", "--json").document
    assert {one["files"] for one in document["tickets"]} == {50}
    assert document["unowned"]["count"] == 1_251  # and src/app.py
    assert len(document["unowned"]["paths"]) == 1_000
