"""`approve GATE`: the user's answer to a request for approval, in DECISIONS.md."""

import difflib
import re
from typing import NamedTuple

from orchestrator.commands._phase_plan import Plan, Summary, left_open, plan_of
from orchestrator.commands._record import Writer, given, read_back, record, shortened
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.errors import Refusal
from orchestrator.report.decision_history import fresh_edits
from orchestrator.state.canonical.decisions.gates import KINDS, phase_gate
from orchestrator.state.canonical.rules import rules
from orchestrator.state.canonical.status.read import PATH, slug
from orchestrator.state.events import GateAnswered
from orchestrator.step import Waits
from tickets.problems import Problem
from tickets.wording import some_of

_GATE = re.compile(r"(?P<kind>" + "|".join(KINDS) + r")(?:[- ](?P<which>[a-z0-9][a-z0-9.-]*))?")


_PLACEHOLDER = re.compile(r"(?i)<.*>|\[.*\]|\.\.\.|(?:the |your |a )?(?:user(?:[ _-]?name)?|name|lead)")
AGENT_VARIABLES = (
    "CLAUDECODE", "CODEX_THREAD_ID", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_CI",
    "GEMINI_CLI", "CURSOR_AGENT", "COPILOT_CLI", "OPENCODE", "GOOSE_TERMINAL", "QWEN_CODE", "AUGMENT_AGENT",
    "CLINE_ACTIVE", "AI_AGENT",
)  # fmt: skip
"""Variables that agent CLIs set for what they start."""


class Arguments(NamedTuple):
    """The arguments of `approve`."""

    gate: str
    by: str
    """The person who answered."""
    condition: str = ""
    reject: bool = False
    then: str = ""
    """The command that waits for the answer, without its first word."""


def call(caller: Caller, arguments: Arguments) -> Answer[Summary]:
    """Record the answer."""
    plan = plan_of(caller)
    if ".taskers" in plan.writer.repository.root.parts:
        what = "this is a worker's tree, and approvals are the user's"
        raise Refusal(Problem("approve", what, "approve in the checkout of the user"))
    gate, about = _meant(plan, arguments.gate)
    by = given("--by", arguments.by)
    if _PLACEHOLDER.fullmatch(by):
        do = "ask the user, and write the name of the person who answered"
        problem = Problem("--by", f"`{by}` is no name: it stands for one", do)
        raise Refusal(problem, next_action=Waits("user", f"the answer to gate {gate}: {about}"))
    inside = next((name for name in AGENT_VARIABLES if caller.environ.get(name)), "")
    condition = given("--condition", arguments.condition) if arguments.condition else ""
    word = "rejected" if arguments.reject else "approved"
    event = GateAnswered(gate, by, word, condition, about, plan.writer.at, plan.writer.lead, inside)  # type: ignore[arg-type]  # one of the two words
    subject = f"Gate {gate}: {word} by {shortened(by)}"
    bullets = [f"- About: {about}", *([f"- Condition: {shortened(condition, 200)}"] if condition else [])]
    warnings = [one.problem() for one in fresh_edits(plan.writer.repository.root)]
    if inside:
        what = f"came from inside an agent's environment ({inside}); the entry says so"
        warnings.append(Problem("approve", what, "an approval is the user's own call", "warning"))
    if word == "approved":
        warnings += _open_work(plan, gate)
    fact = {
        "gate": gate, "answer": word, "by": by, "condition": condition or None, "about": about,
        "inside": inside or None,
    }  # fmt: skip
    waited = f"orchestrate {then}" if (then := read_back(arguments.then).strip()) else _blocked(plan, gate)
    next_action = "orchestrate status" if arguments.reject else waited
    recorded = record(plan.writer, event, f"{subject}\n\n" + "\n".join(bullets) + "\n",
                      next_action=next_action, warnings=warnings, approval=fact)  # fmt: skip
    return recorded.showing((subject, about))


def _open_work(plan: Plan, gate: str) -> list[Problem]:
    """Warn of an approved milestone whose phase has work left open: it is reached only without any."""
    phase = next((one for one in plan.status.phases if phase_gate(one, "milestone") == gate), None)
    left = left_open(phase) if phase is not None and gate.startswith("milestone-") else []
    if not left or phase is None:
        return []
    open_work = some_of([one.what.removesuffix(f" ({phase.title})") for one in left], between="; ")
    do = "`orchestrate milestone complete` records it once nothing is open"
    return [Problem(PATH, f"{phase.title} has work left open ({open_work})", do, "warning")]


def _blocked(plan: Plan, gate: str) -> str:
    """Return the command that waited for the answer, where it is known."""
    kind = gate.partition("-")[0]
    current = plan.status.current
    if kind == "pool" and current is not None:
        return f"orchestrate plan {slug(current.title)}"
    phases = plan.status.phases
    if kind == "milestone":
        meant = next((one for one in phases if phase_gate(one, kind) == gate), None)
        if meant is not None and all(met for met, _ in meant.criteria):
            return f"orchestrate milestone complete --phase {slug(meant.title)}"
    if kind in ("phase", "first") and current is not None:
        later = phases[phases.index(current) + 1 :]
        follows = next((one for one in later if not one.complete), None)
        begun = follows if kind == "first" else next(one for one in phases if phase_gate(one) == gate)
        if current.complete and begun is not None:
            return f"orchestrate phase start {slug(begun.title)}"
        is_over = all(one.done for one in current.deliverables) and all(met for met, _ in current.criteria)
        if is_over and begun == follows:
            return "orchestrate phase complete"
    # Options such as `--force`, or the start of another phase, are not recorded anywhere.
    return "orchestrate status"


def _meant(plan: Plan, word: str) -> tuple[str, str]:
    """Return the gate's name and its subject. Raises Refusal for an unknown gate."""
    match = _GATE.fullmatch(word.strip().casefold())
    if match is None:
        near = difflib.get_close_matches(word, KINDS, 1)
        do = f"did you mean `{near[0]}`?" if near else f"there are: {', '.join(KINDS)}, as in `phase-2`"
        raise Refusal(Problem("approve", f"there is no gate `{word}`", do))
    kind, which = match["kind"], match["which"]
    if kind == "pool":
        return _pool(plan.writer, which)
    if kind in ("phase", "milestone"):
        phase = plan.phase(which)
        return phase_gate(phase, kind), f"{KINDS[kind]}, {phase.title}"
    if which and kind == "first-plan":
        raise Refusal(
            Problem("approve", f"there is no gate `{word}`", "there is one first plan: `first-plan`")
        )
    return (f"{kind}-{which}", f"{KINDS[kind]}, {which}") if which else (kind, KINDS[kind])


def _pool(writer: Writer, which: str | None) -> tuple[str, str]:
    if which is not None and not which.isdecimal():
        raise Refusal(Problem("approve", f"`{which}` is not a number of workers", "write it as `pool-20`"))
    size = int(which) if which else rules.read_pool(writer.text(rules.PATH), approved=10**6)[0].total
    if size <= rules.LIMIT:
        do = f"write the new number into {rules.PATH} first, or name it: `pool-20`"
        raise Refusal(Problem("approve", f"a pool of {size} workers needs no approval", do))
    return f"pool-{size}", f"a pool of {size} workers in place of {rules.LIMIT}"
