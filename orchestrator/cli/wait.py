"""`orchestrate wait` on the command line."""

import argparse
from _signal import SIGTERM, signal  # type: ignore[import-not-found]  # as in `main`: for start-up time

from orchestrator.cli.terminal.progress import counted, record_line, summary_lines
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.commands.wait import Arguments, WaitView, wait
from orchestrator.runs.live import STAGES
from orchestrator.step import step_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `wait`."""
    parser.add_argument("run", metavar="RUN", help="a run's id, or `last`")
    parser.add_argument("--timeout", type=float, metavar="S", help="seconds to wait at most")
    parser.add_argument("--brief", action=argparse.BooleanOptionalAction,
                        help="answer with what changed (default: with --since)")  # fmt: skip
    parser.add_argument(
        "--since", metavar="CURSOR", help="return as soon as there is something newer than this cursor"
    )


def call(caller: Caller, arguments: Arguments, *, as_json: bool) -> Answer[WaitView]:  # noqa: ARG001 - as others
    """Wait; a limit of the caller's, which sends TERM, ends the wait and not its answer."""
    caught: list[int] = []
    before = signal(SIGTERM, lambda number, _: caught.append(number))
    try:
        answer = wait(caller, arguments, lambda: bool(caught))
    finally:
        signal(SIGTERM, before)
    return answer._replace(exit_code=128 + caught[0]) if caught else answer


def lines(answer: Answer[WaitView], _: Arguments) -> list[str]:
    """Return the answer as text: the events, then the state of the run."""
    state, events = answer.view
    said = [line for record in events if (line := record_line(record, state))]
    if answer.document["status"] != "running":
        return [*said, *summary_lines(state, answer.problems, answer.step)]
    stage = STAGES.get(state.stage or "", "")
    running = f"run {state.run.id} is running{stage and f': {stage}'}; tickets: {counted(state)}"
    return [*said, running, *step_lines(answer.step)]
