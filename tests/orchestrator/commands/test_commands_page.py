"""docs/commands.md shows what the commands answer: the same keys, the same types."""

import json
import re

import pytest
from support.paths import ROOT
from support.repository import TEMPLATES, Lab, shell, template

from orchestrator.commands.table import COMMANDS
from orchestrator.runs.events import EVENTS
from workers.messages.own_log import OwnLog

TEXT = (ROOT / "docs" / "commands.md").read_text()
EXAMPLES = {
    title.strip("`").split()[1] if title.startswith("`") else title: json.loads(block)
    for title, block in re.findall(r"^## (.+?)\n.*?^```json\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
}
STREAMS = {"logs", "watch"}
"""Commands that print an object a line; the first is shown."""
LISTS = {
    "The workers that `logs RUN` lists": ("logs", "last"),
    "The items of `todo list`": ("todo", "list"),
    "The checkpoints of `checkpoint list`": ("checkpoint", "list"),
    "The checkpoint of `checkpoint show`": ("checkpoint", "show", "Code review", "--agent", "command-2"),
    "The deliverables of `deliverable list`": ("deliverable", "list"),
    "The criteria of `criterion list`": ("criterion", "list"),
}
PLANS = {
    "The plan of `phase plan`": (
        "phase",
        "plan",
        "Grammar",
        "--verify",
        "make grammar",
        "--task",
        "Recursion",
    ),
    "The note of `phase note`": ("phase", "note", "Everything must run without a network."),
    "The plans of `phase show`": ("phase", "show"),
    "The phases of `phase list`": ("phase", "list"),
}
"""Calls with the family `phases` on."""
CONTEXT = {
    "context": ("context", "init"),
    "The changes of `context sync`": ("context", "sync", "--add", "next=Mend the lexer"),
    "The sections of `context show`": ("context", "show", "--section", "Progress"),
    "The points of `context check`": ("context", "check"),
    "The tasks of `context switch`": (
        "context",
        "switch",
        "new",
        "--id",
        "WRITER-001",
        "--reason",
        "it waits",
    ),
    "The text of `context export`": ("context", "export", "--for", "claude", "--write"),
}
SESSIONS = {
    "session": ("session", "note", "Escapes are undone in the lexer", "--for-next", "Ask the users"),
    "The sessions of `session list`": ("session", "list"),
}
"""Calls with the family `ai_memory` on."""
TURNED_ON = {next(iter(PLANS)): "phases", next(iter(CONTEXT)): "ai_memory"}
"""Families, before their first call."""
MESSAGES = {
    "msg": ("msg", "inbox"),
    "The message of `msg send`": ("msg", "send", "--re", "Command-Worker-2:1", "Yes: MIT."),
    "The receipts of `msg ack`": ("msg", "ack", "Command-Worker-2:1"),
    "The messages of `msg log`": ("msg", "log", "last", "--with", "lead", "--type", "question"),
}
"""Calls after a worker has asked the lead something."""
WORKERS = {
    "worker": ("worker", "send", "--to", "lead", "--type", "question", "Which licence?"),
    "The messages of `worker inbox`": ("worker", "inbox", "--open"),
}
"""Calls from the shell of a worker."""
"""Examples of further answers of a command, and the calls that print them."""
MAPS = {"progress", "todo", "outcomes", "counts"}
"""Objects whose keys are the project's own words."""


def ask(lab):
    """Let a worker of the last run have asked the lead something."""
    run = max((lab.root / ".taskers/runs").iterdir()).name
    log = OwnLog(str(lab.root / f".taskers/messages/{run}.Command-Worker-2.jsonl"), f"{run}.Command-Worker-2")
    facts = {"title": "Which licence?", "task": None, "attempted": "", "needs": "a yes or no", "mode": "skip"}
    log.append("blocker", f"{run}.coordinator", "Two are named.", facts=facts, phase="phase-1", plan="01-01")
    first = log.append("question", f"{run}.lead", "Which?")
    answered = OwnLog(str(lab.root / f".taskers/messages/{run}.lead.jsonl"), f"{run}.lead")
    answered.append("answer", first.sender, "MIT.", re=first)


def inside(lab):
    """Return the variables of a worker of the last run, to which the lead has said something."""
    folder, run = lab.root / ".taskers/messages", max((lab.root / ".taskers/runs").iterdir()).name
    lead, name = f"{run}.lead", "Command-Worker-1"
    OwnLog(str(folder / f"{lead}.jsonl"), lead).append("chat", f"{run}.all", "Hello.", facts={"by": "Ada"})
    return {
        "ORCHESTRATE_PROJECT": str(lab.root), "ORCHESTRATE_RUN": run, "ORCHESTRATE_WORKER": name,
        "ORCHESTRATE_MESSAGES": str(folder / f"{run}.{name}.jsonl"),
    }  # fmt: skip


def calls(folder):
    """Return the calls whose answers are compared, in their order."""
    accept = ("--accept", "Command-Worker-2", "--reason", "the notes are of no use")
    return {
        "plan": ("plan", "phase-1"), "run": ("run", "phase-1"), **WORKERS, "status": ("status",),
        "resume": ("resume",), **MESSAGES, "integrate": ("integrate", "last", *accept), "doctor": ("doctor",),
        "ps": ("ps",), "watch": ("watch", "last"), "logs": ("logs", "last", "command-1"),
        "wait": ("wait", "last"), "A brief answer of `wait`": ("wait", "last", "--since", "0"),
        "The next step": ("phase", "complete", "--force", "--reason", "enough", "--no-verify"),
        "cancel": ("cancel", "last", "command-1"),
        "todo": ("todo", "add", "Fix the lexer", "--priority", "P0"),
        "checkpoint": ("checkpoint", "write", "Parser", "--action", "Lexer reads 14 of 20 fixtures"),
        "decide": ("decide", "Keep one parser", "--context", "a", "--decision", "b", "--supersedes", "1"),
        "deploy": ("deploy", "phase-1", "--again"),
        "deliverable": ("deliverable", "done", "1"),
        "criterion": ("criterion", "done", "documentation agrees", "--in", "v1"),
        "milestone": ("milestone", "list"), "phase": ("phase", "start", "1"),
        "approve": ("approve", "technology-database", "--by", "Ada", "--condition", "only for the cache"),
        "report": ("report",), "handoff": ("handoff",),
        "archive": ("archive", "--dry-run", "--older-than", "-1"),
        "validate": ("validate",),
        "fake-agent": ("fake-agent", str(folder / "fakes")), "A refusal": ("plan", "phase-9"),
        **LISTS, **PLANS, **CONTEXT, **SESSIONS,
    }  # fmt: skip


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Call each command once, in a project where it has something to report."""
    folder = tmp_path_factory.mktemp("docs")
    lab = Lab(folder / "shop", folder / "home")
    lab.root.mkdir()
    lab.home.mkdir()
    lab.git("init", "--quiet", "--initial-branch=main")
    lab.git("config", "user.name", "Ada")
    lab.git("config", "user.email", "ada@localhost")
    lab.commit({"README.md": "# Shop\n"})
    found = {"init": lab.call("init", "--json")}
    for shipped in (lab.root / TEMPLATES).glob("*-*.md"):
        shipped.unlink()
    lab.templates(
        command_1=shell(
            "mkdir -p src; echo 1 > src/lex.py; echo done",
            mode="write",
            owns=["src/**"],
            acceptance=["test -s src/lex.py"],
        ),
        command_2=shell(
            "mkdir -p out; echo 1 > out/a; echo 1 > notes.txt", mode="write", owns=["out/**"],
            depends_on=["command-1"],
        ),
        gemini_1=template(agent="gemini", command=None),
    )  # fmt: skip
    for name, arguments in calls(folder).items():
        if name == "msg":
            ask(lab)
        if family := TURNED_ON.get(name):
            lab.call("init", "--with", family)
        found[name] = lab.call(*arguments, "--json", env=inside(lab) if name in WORKERS else None)
    # A command without arguments needs no line above.
    found |= {name: lab.call(name, "--json") for name in EXAMPLES if name not in (*found, "demo")}
    return {
        name: json.loads(called.out.partition("\n")[0]) if name in STREAMS else called.document
        for name, called in found.items()
    }


def shape(value, at=""):
    """Return the type at each place of a document; the elements of a list share one place."""
    found = {at: {type(value).__name__}}
    if isinstance(value, dict):
        anything = at.rpartition(".")[2] in MAPS
        inner = [(f"{at}.*" if anything else f"{at}.{key}", each) for key, each in value.items()]
    else:
        inner = [(f"{at}[]", each) for each in value] if isinstance(value, list) else []
    for place, each in inner:
        for deeper, kinds in shape(each, place).items():
            found.setdefault(deeper, set()).update(kinds)
    return found


def differences(example, actual):
    """Yield where two documents differ in keys or types; null fits all, an empty list fits any list."""
    one, two = shape(example), shape(actual)
    for place in sorted(one.keys() ^ two.keys()):
        has, lacks = (one, two) if place in one else (two, one)
        above = place[: place.rfind("[]") + 2] if "[]" in place else place
        if "[]" not in place or any(each.startswith(above) for each in lacks):
            yield f"{place} is {has[place]} here and nothing there"
    for place in sorted(one.keys() & two.keys()):
        known = {"NoneType"}
        if one[place] - known and two[place] - known and one[place] - known != two[place] - known:
            yield f"{place}: {one[place]} in the page, {two[place]} in the answer"


def test_every_command_that_exists_has_an_example():
    existing = {name for name, command in COMMANDS.items() if command.module and name[0] != "_"}
    further = {
        "A refusal",
        "The next step",
        "A brief answer of `wait`",
        *LISTS,
        *PLANS,
        *CONTEXT,
        *SESSIONS,
        *MESSAGES,
        *WORKERS,
    } - {
        "session",
        "msg",
        "worker",
        "context",
    }
    assert set(EXAMPLES) - further == existing


def test_every_event_is_in_the_table_with_its_keys():
    rows = re.findall(r"^\| ((?:`\w+` ?)+)\| ((?:`\w+` ?)*)\|", TEXT, re.MULTILINE)
    told = {name: keys.replace("`", "").split() for names, keys in rows for name in re.findall(r"\w+", names)}
    keys = {name: [key for key in kind._fields if key != "event"] for name, kind in EVENTS.items()}
    keys["message"][2] = "from"  # no name in Python
    keys |= {"ended": ["worker", "facts"], "gate_seen": ["workers"], "opened": ["status"]}
    assert {name: told.get(name) for name in keys} == keys


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - {"demo"}))
def test_an_example_has_the_keys_and_types_of_the_answer(name, answers):
    assert list(differences(EXAMPLES[name], answers[name])) == []
    # The order is for the reader, and no accident.
    assert list(EXAMPLES[name]) == list(answers[name])


def test_demo_answers_about_a_run_and_adds_where_the_sample_is():
    run, demo = EXAMPLES["run"], dict(EXAMPLES["demo"])
    assert [type(demo.pop(name)) for name in ("project", "deliverables", "tests")] == [str, list, str]
    assert set(demo) == set(run)
    assert {frozenset(one) for one in demo["workers"]} == {frozenset(one) for one in run["workers"]}


@pytest.mark.parametrize(
    ("actual", "differs"),
    [
        ({"a": [{"b": 1}], "n": None}, False),
        ({"a": [], "n": "x"}, False),
        ({"a": [{"b": "1"}], "n": None}, True),
        ({"a": [{"b": 1, "c": 2}], "n": None}, True),
        ({"a": [{"b": 1}]}, True),
        ({"a": [{}], "n": None}, True),
    ],
)
def test_a_difference_is_seen(actual, differs):
    assert bool(list(differences({"a": [{"b": 1}], "n": None}, actual))) is differs
