"""The hooks of an agent CLI: what is new for its worker, between its tool calls and before it stops.

The CLI's JSON comes on standard input, and what it is to do goes to standard output: `{}` where nothing is
new. No fault of ours is one of the CLI's: it gets `{}`, and the scratch directory a line about the fault.
What takes time to import is imported once something may be new, since mostly nothing is.
"""

import os

from workers.messages.glance import Glance, has_in
from workers.messages.scratch import note_fault

NOTHING = b"{}\n"
_CHUNK = 1 << 16


def main(argv: list[str]) -> None:
    """Answer a hook: `after` a tool call or at a `stop`, of an agent, for the worker with this log."""
    scratch = os.environ.get("TMPDIR")
    answer = HookAnswer()
    try:
        given = _read_all(0)  # also where nothing is new: the CLI must be able to write it
        _look(answer, argv, given, scratch)
    except Exception as fault:  # noqa: BLE001 - it must not end the turn of an agent
        note_fault(scratch, "hook", fault)
    answer.give(NOTHING)


class HookAnswer:
    """Standard output, which takes one answer."""

    def __init__(self) -> None:
        self._is_given = False

    def give(self, data: bytes) -> None:
        """Write the answer, unless there is one."""
        if not self._is_given:
            self._is_given = True
            while data:
                data = data[os.write(1, data) :]


def _look(answer: HookAnswer, argv: list[str], given: bytes, scratch: str | None) -> None:
    way, agent, log = argv
    glance = Glance(log, scratch)
    glance.look()
    is_known = not glance.finds
    if glance.finds or (way == "stop" and has_in(log, b'"plan_started"')):
        from workers.messages.hook_answer import tell  # noqa: PLC0415 - see above

        is_known = tell(answer.give, way, agent, log, given)
    if is_known:
        glance.keep()


def _read_all(source: int) -> bytes:
    parts = []
    while part := os.read(source, _CHUNK):
        parts.append(part)
    return b"".join(parts)
