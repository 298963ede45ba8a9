"""The tools of a worker: their names, inputs and purposes, as data, and the check of an input."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tickets.report_schema import REPORT_SCHEMA
from workers.messages.record import MAX_BODY

TASK_STATES = ("todo", "doing", "done", "blocked", "dropped")
LONGEST_WAIT = 600
LONGEST_TITLE = 120


class Tool(NamedTuple):
    """A tool; its call has its name in `workers.messages.calls`."""

    name: str
    description: str
    properties: Mapping[str, Any]
    required: tuple[str, ...]
    is_of_phase: bool = False
    """Whether it is for phase workers alone."""
    is_of_transitions: bool = False
    """Whether it is there only where changes of state are reported."""

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of its input."""
        return {
            "type": "object",
            "properties": dict(self.properties),
            "required": list(self.required),
            "additionalProperties": False,
        }

    def listed(self) -> dict[str, Any]:
        """Return the tool as `tools/list` of MCP has it."""
        hints = {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.schema(),
            "annotations": hints,
        }


def _text(description: str, **limits: int) -> dict[str, Any]:
    return {"type": "string", "description": description, **limits}


_PLAN = _text("the plan's id, such as 02-01")
_RECEIVER = _text("lead, coordinator, all, a worker, RUN.NAME, or a phase such as phase-3")
TOOLS = (
    Tool(
        "send_message",
        "Send a message to the lead, the coordinator or another worker.",
        {
            "to": _RECEIVER,
            "body": _text("the message", minLength=1, maxLength=MAX_BODY),
            "type": {
                "enum": ["question", "answer", "chat"],
                "description": "default: answer with `re`, else chat",
            },
            "re": _text("the id of the message that this one answers"),
            "plan": _PLAN,
        },
        ("to", "body"),
    ),
    Tool(
        "inbox",
        "Ask for new messages. They also reach you by themselves.",
        {
            "wait": {
                "type": "number",
                "minimum": 0,
                "maximum": LONGEST_WAIT,
                "description": "seconds to wait for one",
            },
            "open": {"type": "boolean", "description": "list those without an answer, too"},
        },
        (),
    ),
    Tool(
        "blocker",
        "Report that a task cannot go on until somebody answers.",
        {
            "title": _text("one line", minLength=1, maxLength=LONGEST_TITLE),
            "body": _text("what is in the way", maxLength=MAX_BODY),
            "plan": _PLAN,
            "task": _text("the task that cannot go on"),
            "attempted": _text("what you have tried"),
            "needs": _text("what you need from whoever answers"),
        },
        ("title", "body"),
    ),
    Tool(
        "submit_report",
        "Submit your report. It counts where your final answer holds none.",
        {"report": REPORT_SCHEMA},
        ("report",),
    ),
    Tool(
        "plan_started",
        "Say that you begin a plan; call it before each plan.",
        {"plan": _PLAN, "note": _text("what others should know")},
        ("plan",),
        is_of_phase=True,
        is_of_transitions=True,
    ),
    Tool(
        "plan_complete",
        "Say that a plan is done. Its verification runs then; what does not pass is not complete.",
        {"plan": _PLAN, "summary": _text("what was done")},
        ("plan", "summary"),
        is_of_phase=True,
    ),
    Tool(
        "plan_failed",
        "Say that a plan has failed.",
        {"plan": _PLAN, "reason": _text("why")},
        ("plan", "reason"),
        is_of_phase=True,
    ),
    Tool(
        "task_progress",
        "Say how a task of a plan is doing.",
        {
            "plan": _PLAN,
            "task": _text("the task, in the words of the plan"),
            "state": {"enum": list(TASK_STATES)},
            "note": _text("what others should know"),
        },
        ("plan", "task", "state"),
        is_of_phase=True,
        is_of_transitions=True,
    ),
    Tool(
        "note",
        "Write down a decision or a context of your phase.",
        {
            "text": _text("the context, or what was decided", minLength=1),
            "kind": {"enum": ["context", "decision"]},
            "title": _text("the decision in one line; required for a decision"),
            "context": _text("why it was taken; required for a decision"),
        },
        ("text", "kind"),
        is_of_phase=True,
    ),
    Tool(
        "phase_complete",
        "Say that all plans of your phase are complete.",
        {"summary": _text("what the phase has achieved")},
        ("summary",),
        is_of_phase=True,
    ),
)


def complaints(schema: Mapping[str, Any], value: Any, place: str = "") -> Iterator[str]:
    """Yield what is wrong with a value, for the part of JSON Schema that the tools use."""
    name = place or "the input"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{name} is none of {', '.join(schema['enum'])}"
    if "type" in schema and not _is_of(schema["type"], value):
        yield f"{name} is no {schema['type']}"
        return
    match schema.get("type"):
        case "string":
            yield from _of_text(schema, value, name)
        case "number":
            if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
                yield f"{name} is not from {schema['minimum']} to {schema['maximum']}"
        case "array":
            for at, one in enumerate(value):
                yield from complaints(schema["items"], one, f"{place}[{at}]")
        case "object":
            yield from _of_object(schema, value, place)


def _of_text(schema: Mapping[str, Any], value: str, name: str) -> Iterator[str]:
    if len(value.strip()) < schema.get("minLength", 0):
        yield f"{name} is empty"
    if len(value) > schema.get("maxLength", len(value)):
        yield f"{name} has {len(value):,} characters, and {schema['maxLength']:,} is the limit"


def _of_object(schema: Mapping[str, Any], value: Mapping[str, Any], place: str) -> Iterator[str]:
    known, start = schema["properties"], f"{place}." if place else ""
    yield from (f"{start}{key} is missing" for key in schema.get("required", ()) if key not in value)
    for key, one in value.items():
        if key in known:
            yield from complaints(known[key], one, f"{start}{key}")
        elif schema.get("additionalProperties") is False:
            yield f"{start}{key} is unknown; there are {', '.join(known)}"


def _is_of(kind: str, value: Any) -> bool:
    if kind == "number":
        # NaN is not equal to itself, and there is no sense in it.
        return type(value) in (int, float) and value == value  # noqa: PLR0124
    kinds = {"string": str, "boolean": bool, "array": list, "object": dict}
    return isinstance(value, kinds[kind])
