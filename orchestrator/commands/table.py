"""The table of commands: the module of each, its purpose, its permitted callers."""

from tickets.value import Value


class Command(Value):
    """The module and the purpose of a command; one without a module is not built yet."""

    module: str | None
    help: str
    of_run: bool = False
    """Whether it answers with the document of a run."""
    of_lead: bool = True
    """Whether workers must not call it."""
    lasts: bool = False
    """Whether it may run for hours; every other command ends before a garbage collection would pay."""
    switches: tuple[str, ...] | None = None
    """Options of a call without values, which needs no parser: most calls are such, and argparse is slow."""
    is_quick: bool = False
    """Whether its module in `cli` reads plain calls by itself, and its answers have no next step."""


COMMANDS = {
    "init": Command("init", "write missing state files, settings and templates"),
    "plan": Command("plan", "show what would run: tickets, order, scopes, overlaps", of_lead=False),
    "run": Command("run", "deploy a phase, wait, integrate", of_run=True, lasts=True),
    "deploy": Command(
        "deploy", "render, prove and start a phase, without integrating it", of_run=True, lasts=True
    ),
    "ps": Command("ps", "what is running", of_lead=False, switches=()),
    "watch": Command("watch", "what is running, live", of_lead=False, lasts=True),
    "logs": Command("logs", "a worker's output", of_lead=False, lasts=True),
    "wait": Command("wait", "wait until a run ends or something new happens", of_run=True, lasts=True),
    "cancel": Command("cancel", "stop a run, or some of its workers"),
    "integrate": Command("integrate", "judge, gate, land, record, commit", of_run=True, lasts=True),
    "resume": Command(
        "resume", "after a stop: the state and the next step; with RUN: continue it", lasts=True, switches=()
    ),
    "status": Command("status", "the state at a glance", of_lead=False, switches=()),
    "report": Command("report", "the seven-section status report", switches=()),
    "todo": Command("todo", "add, finish, move TODO items"),
    "decide": Command("decide", "record a decision"),
    "deliverable": Command("deliverable", "add, start, finish or block a deliverable"),
    "criterion": Command("criterion", "add or tick an acceptance criterion"),
    "milestone": Command("milestone", "record that a milestone is reached"),
    "phase": Command("phase", "add, start or complete a phase"),
    "approve": Command("approve", "record the user's approval"),
    "handoff": Command("handoff", "write a document for the next lead", switches=("--check",)),
    "checkpoint": Command("checkpoint", "write and show how far work on a feature has come"),
    "context": Command("context", "write, synchronize, show and check the active context"),
    "session": Command("session", "begin, note in, end and list the sessions of a lead"),
    "msg": Command("msg", "send, show, acknowledge and list messages between participants"),
    "worker": Command(
        "worker", "a worker's own messages and plans, from its shell", of_lead=False, is_quick=True
    ),
    "team": Command(None, "the team roster"),
    "alert": Command(None, "alerts"),
    "backup": Command(None, "back the state files up"),
    "validate": Command(
        "validate", "graded problems of state, templates and settings", of_lead=False, switches=()
    ),
    "repair": Command(None, "repair state files from backup, history or logs"),
    "archive": Command("archive", "archive old entries of state files, or old runs"),
    "doctor": Command("doctor", "agents, fence, git, locks, disk", of_lead=False, switches=()),
    "mcp": Command(None, "the same calls as an MCP server"),
    "_runtime": Command("runtime", "what `--detach` starts", of_run=True, lasts=True),
    "fake-agent": Command(
        "fake_agent", "stand-ins for the agent CLIs, to rehearse a set-up", of_lead=False, lasts=True
    ),
    "demo": Command("demo", "a sample project, one phase, no account needed", of_run=True, lasts=True),
}
