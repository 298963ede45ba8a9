"""The words that stand in tickets. A module of its own: whoever needs only words need not import pydantic."""

from typing import Literal

AgentName = Literal["codex", "claude", "gemini", "command"]
Mode = Literal["read-only", "write"]
Priority = Literal["P0", "P1", "P2"]
