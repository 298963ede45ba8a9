"""The open question of a stream: a permission or an answer that nobody is there to give."""

import re
from collections.abc import Mapping
from typing import Any, Literal

from workers.agents.agent import Progress
from workers.agents.stream import printable, text_at, value_at

ASKING = frozenset({"AskUserQuestion", "ask_user", "ask_user_question", "request_user_input"})
"""Tools by which an agent asks its user; headless, they are refused or never end."""
LONGEST = 300
"""Characters of a question."""
_HEAD = 4096
"""Bytes of a record that is too long to be read, in which a tool call is named."""
_MOST_OPEN = 64
"""Calls that are remembered until they end."""

# Kept as text until it is needed, as in `_failures`.
_DENIED = (
    r"(?is)requested permissions? to|haven't granted it|requires (?:approval|user confirmation)"
    r"|permission (?:to use|for this action)\b.*\bdenied|denied by (?:policy|the user)|rejected by user"
)
_PROMPT = r"(?i)[\[(](?:y/n|yes/no)[^\])]{0,12}[\])]\s*[:?>]?\s*$"


class Asking:
    """The last question of an agent, and whether it continued without an answer."""

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}
        self._asked: dict[str, str] = {}
        self._denied = ""

    def called(self, call: str, tool: str, given: object) -> Progress:
        """Note a tool call: an agent that calls another tool continues without what it was denied."""
        self._denied = ""
        if tool in ASKING:
            self._asked[call] = _question_in(given)
            return Progress("question", self._asked[call])
        if len(self._calls) >= _MOST_OPEN:
            del self._calls[next(iter(self._calls))]
        self._calls[call] = f"{tool}: {_brief(given)}".rstrip(": ")
        return Progress("tool", printable(self._calls[call]))

    def ended(self, call: str, said: str = "", *, failed: bool = False, denied: bool = False) -> Progress:
        """Note the end of a call: `denied` where the record states it, else by the text of a failed one."""
        wanted, question = self._calls.pop(call, ""), self._asked.pop(call, "")
        if not (failed or denied):
            self._denied = ""
        elif question:
            self._denied = question
        elif denied or re.search(_DENIED, said[:2000]):
            self._denied = f"no permission for {wanted}" if wanted else f"no permission: {said}"
        return Progress("text" if question else "tool_end", printable(said)[:LONGEST])

    def skipped(self, line: bytes) -> Progress | None:
        """End the call that an unread record names: the result of a tool may be too long to be read."""
        named = (call for call in (*self._calls, *self._asked) if f'"{call}"'.encode() in line[:_HEAD])
        call = next(named, None)
        return None if call is None else self.ended(call)

    @property
    def in_call(self) -> bool:
        """Return whether a tool call is open."""
        return bool(self._calls or self._asked)

    def question(self, said: Literal["success", "error", "none"], *, text: str = "", stderr: str = "") -> str:
        """Return the question that is open at the end, on one line; `""` where there is none.

        Of a stream that was cut off only a question that it waited at: refusals do not make it wait. Of one
        that closed well also a refusal after which it tried nothing more, and an answer that is a question.
        """
        found = ""
        if said == "none":
            found = next(reversed(self._asked.values()), "") or _prompt_in(stderr)
        elif said == "success":
            last = text.rstrip().rpartition("\n")[2]
            found = self._denied or (last if last.endswith("?") else "")
        return printable(found)[:LONGEST]


def _question_in(given: object) -> str:
    """Return the questions in a tool's input, of any shape."""
    questions = value_at(given, "questions")
    asked = [one for one in questions if isinstance(one, Mapping)] if isinstance(questions, list) else []
    words = [text_at(one, "question") or text_at(one, "header") for one in asked]
    if not any(words) and isinstance(given, Mapping):
        words = [text_at(given, "question") or text_at(given, "prompt") or text_at(given, "text")]
    return printable(" ".join(filter(None, words)))[:LONGEST] or "it asks a question without a text"


def _brief(given: Any) -> str:
    if isinstance(given, str):
        return printable(given)[:200]
    if not isinstance(given, Mapping):
        return ""
    keys = ("command", "file_path", "path", "url", "pattern")
    return printable(next((found for key in keys if (found := text_at(given, key))), ""))[:200]


def _prompt_in(stderr: str) -> str:
    last = stderr.rstrip().rpartition("\n")[2]
    return last if re.search(_PROMPT, last) else ""
