"""The JSON Schema of a worker's report: data alone, for those who must not import what reads reports."""

from typing import Any


def _strings(*names: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(names),
    }


_LIST = {"type": "array", "items": {"type": "string"}}
REPORT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["summary", "analysis", "proposal", "risks_and_alternatives", "status"],
    "properties": {
        "summary": {"type": "string"},
        "analysis": {"type": "string"},
        "proposal": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "affected_files": _LIST,
                "sketch": {"type": "string"},
                "testing": {"type": "string"},
                "integration_notes": {"type": "string"},
            },
        },
        "risks_and_alternatives": {"type": "string"},
        "status": {"enum": ["COMPLETE", "BLOCKED", "NEEDS_CLARIFICATION"]},
        "blocked": _strings("blocker", "attempted", "needs"),
        "clarification": _strings("question", "context", "impact"),
        "follow_ups": _LIST,
        "decisions": _LIST,
    },
}
"""For agents that can be asked for structured output, and for the tool by which a worker submits a report."""
