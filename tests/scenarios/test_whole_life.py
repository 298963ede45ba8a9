"""The whole life of a project by commands alone, in a repository that had its own STATUS.md and AGENTS.md."""

import re

import pytest
from support.repository import Lab, shell

from orchestrator.state.canonical.status import status

STATUS = (
    b"Where we are\n============\n\nSome *prose* of ours.\tWith a tab.\n\n"
    b"| Area | Who |\n|------|:---:|\n| api  | Bo  |\n\n"
    b"## Notes\n\n* keep this `exactly`  \n1. and this\n\n"
    b"```markdown\n## TODO (Prioritized)\n- [ ] not one of ours\n```\n"
)
RULES = (
    b"\xef\xbb\xbf# AGENTS.md\r\n\r\nUse spaces.\r\n\r\n## Testing\r\n\r\n    make test\r\n\r\n"
    b"- [ ] never tick me\r\n"
)
THEIRS = {"STATUS.md": STATUS, "AGENTS.md": RULES}
OURS = {"STATUS.md", "DECISIONS.md", "AGENTS.md", "docs/backlog.md"}
SETTINGS = """\
[checks]
test = 'echo 7 passed in 0.1s'

[integration]
gate = ['test -s src/calc.py']
"""
PLAN = [
    ("Parser", "Parser usable", ["Lexer", "Grammar"], ["parses all fixtures"]),
    ("Release", "Released", ["Packaging"], ["a user has installed it", "the page says how"]),
]


@pytest.fixture
def life(tmp_path):
    root, home = tmp_path / "project", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    made = Lab(root, home)
    made.git("init", "--quiet", "--initial-branch=main")
    made.git("config", "user.name", "Ada")
    made.git("config", "user.email", "ada@example.org")
    (root / "STATUS.md").write_bytes(STATUS)
    (root / "AGENTS.md").write_bytes(RULES)
    made.commit({"src/calc.py": "def add(a, b):\n    return a + b\n"})
    return made


def holds(lab, name, text):
    """Return whether all lines of a text are still in a file, in their order, byte for byte."""
    now = iter((lab.root / name).read_bytes().splitlines(keepends=True))
    return all(line in now for line in text.splitlines(keepends=True))


def do(lab, *arguments, code=0):
    """Return the answer of one command; it changes its subject, and nothing that others wrote."""
    before = {name: (lab.root / name).read_bytes() for name in ("STATUS.md", "AGENTS.md")}
    head = lab.git("rev-parse", "HEAD")
    told = lab.call(*arguments, "--json")
    assert told.code == code, (arguments, told)
    assert all(holds(lab, name, text) for name, text in THEIRS.items())
    assert lab.git("status", "--porcelain") == ""
    if code:
        assert before == {name: (lab.root / name).read_bytes() for name in before}
        assert lab.git("rev-parse", "HEAD") == head
    return told.document


def commits(lab):
    """Return each commit, its subject, and the lines that it removed from and added to each file."""
    found = []
    for sha in lab.git("rev-list", "--reverse", "HEAD").split()[1:]:
        subject = lab.git("show", "-s", "--format=%s", sha).strip()
        text = lab.git("show", "--format=", "--unified=0", "--no-renames", sha)
        changes = {}
        for part in re.split(r"^diff --git a/", text, flags=re.MULTILINE)[1:]:
            name = part.partition(" b/")[0]
            lines = part.splitlines()[1:]
            gone = [line[1:] for line in lines if line.startswith("-") and not line.startswith("--- ")]
            come = [line[1:] for line in lines if line.startswith("+") and not line.startswith("+++ ")]
            changes[name] = (gone, come)
        found.append((sha, subject, changes))
    return found


def set_up(lab):
    do(lab, "init")
    lab.commit(
        {
            "orchestrate.toml": SETTINGS,
            "docs/worker-ticket-templates/command-lexer.md": shell(
                "echo 'TOKENS = []' > src/lexer.py",
                mode="write",
                owns=["src/lexer.py"],
                phase="phase-2",
                deliverable="Lexer",
                title="Write the lexer",
            ),
            "docs/worker-ticket-templates/command-pack.md": shell(
                "echo '[project]' > pyproject.toml",
                mode="write",
                owns=["pyproject.toml"],
                phase="phase-3",
                deliverable="Packaging",
                title="Package it",
            ),
        }
    )


def grow_the_plan(lab):
    do(lab, "approve", "first-plan", "--by", "Grace")
    for number, (name, milestone, deliverables, criteria) in enumerate(PLAN, 2):
        told = [
            *("phase", "add", name, "--milestone", milestone),
            *(part for one in deliverables for part in ("--deliverable", one)),
            *(part for one in criteria for part in ("--criterion", one)),
        ]
        asked = do(lab, *told, code=4)
        assert asked["when_approved"].startswith(
            f"orchestrate approve scope-phase-{number} --by NAME --then "
        )
        do(lab, "approve", f"scope-phase-{number}", "--by", "Grace")
        do(lab, *told)


def live_through(lab, number):
    """Finish a phase as a lead does: run it, finish what it was to bring, tick, ask, go on."""
    run = do(lab, "run", f"phase-{number}")
    assert run["status"] == "integrated"
    plan = do(lab, "deliverable", "list")
    assert plan["phase"].startswith(f"Phase {number}:")
    for one in plan["deliverables"]:
        do(lab, "deliverable", "start", one["name"])
        do(lab, "deliverable", "done", one["name"])
    do(lab, "phase", "complete", code=2)
    for one in do(lab, "criterion", "list")["criteria"]:
        if one["in"].startswith(f"Phase {number}:"):
            do(lab, "criterion", "done", one["text"])
    asked = do(lab, "phase", "complete", code=4)
    gate = asked["when_approved"].split()[2]
    assert asked["when_approved"] == f"orchestrate approve {gate} --by NAME --then 'phase complete'"
    do(lab, "approve", gate, "--by", "Grace")
    do(lab, "phase", "complete")


def agrees_with_itself(lab):
    """Hold that no section of STATUS.md contradicts another one after a phase."""
    found = status.read((lab.root / "STATUS.md").read_bytes())
    assert found.active == ()
    assert {one.verdict for one in found.completions} <= {"accepted", "partial"}
    assert found.phases[0].complete
    assert found.current is not None
    assert found.current.title.startswith("Phase 2:")
    (following,) = (one for one in found.current.deliverables if one.name == found.deliverable.name)
    assert following.status == found.deliverable.status == "NEXT"
    # What `init` gave the lead to do first is done.
    assert [text for is_done, text in found.todo["P0"] if not is_done] == []
    whats = [one["what"] for one in do(lab, "validate")["problems"]]
    assert whats == ["no P0 item is open, so what comes next is unclear"]


def test_a_project_lives_from_init_over_three_phases_to_a_handoff_by_commands_alone(life):
    lab = life
    set_up(lab)
    grow_the_plan(lab)
    live_through(lab, 1)
    agrees_with_itself(lab)
    do(lab, "todo", "add", "Write the grammar of numbers", "--priority", "P0")
    do(lab, "decide", "Write the lexer by hand", "--context", "Speed", "--decision", "No generator")
    live_through(lab, 2)
    do(lab, "todo", "done", "Write the grammar of numbers")
    do(lab, "archive")
    live_through(lab, 3)
    seen = do(lab, "status")
    assert seen["progress"]["Overall"] == "100% (3/3 milestones complete)"
    do(lab, "todo", "add", "Tell the users", "--priority", "P0")
    left = do(lab, "handoff")
    assert left["written"]
    assert all(one["ok"] for one in do(lab, "handoff", "--check")["points"])
    again = do(lab, "resume")
    assert again["todo"]["P0"][-1] == "Tell the users"
    assert do(lab, "validate")["ok"]
    landed = lab.git("log", "--format=%H", "--grep=^Orchestrate-Run: ").split()
    for sha, subject, changes in commits(lab):
        if subject.startswith(("files", "Set up")) or sha in landed:
            continue
        assert set(changes) <= OURS or all(
            name in OURS or name.startswith(("docs/history/", "docs/decisions/")) for name in changes
        ), (subject, changes)
        gone, come = changes.get("DECISIONS.md", ([], []))
        assert gone == [], subject
        gone, come = changes.get("STATUS.md", ([], []))
        assert len(gone) + len(come) < 60, (subject, gone, come)
