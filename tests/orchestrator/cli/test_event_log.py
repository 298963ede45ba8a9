"""The log of a run where nobody sits at a terminal: nothing is cut, and a long silence is broken."""

import time

import anyio
import pytest
from support.repository import AT, shell
from support.runtimes import PATIENCE

from orchestrator.cli.terminal.screen import EventLog
from orchestrator.runs.events import Noted, WorkerStarted
from orchestrator.runs.state import read_run
from workers.files.run_dir import runs_of

LONG = "word " * 60


def test_no_line_of_a_log_is_cut_whatever_the_width_that_a_shell_has_left(lab):
    lab.templates(command_1=shell(f"echo '{LONG}' >&2; exit 3", title="Fail"))
    said = " ".join(lab.call("run", "phase-1", env={"COLUMNS": "80"}).out.split())
    line = said.partition(" failed Command-Worker-1 ")[2].partition(" Command-Worker-1 ")[0]
    assert line.count("word") >= 30
    assert "…" not in line


@pytest.mark.anyio
async def test_a_long_silence_is_broken_by_who_is_still_on(lab, capsys):
    lab.templates(command_1=shell("true", title="Look"))
    assert lab.call("run", "phase-1").code == 0
    state = read_run(runs_of(lab.root)[0])
    state.workers["Command-Worker-1"].ended = False
    log = EventLog(quiet=0.05)
    async with anyio.create_task_group() as group:
        group.start_soon(log.watch, lambda: AT)
        await anyio.sleep(0.2)
        assert capsys.readouterr().out == ""  # nothing is on yet
        log(Noted(AT.isoformat(), WorkerStarted("Command-Worker-1", 1, "")), state)
        first = capsys.readouterr().out
        until = time.monotonic() + PATIENCE
        while not (said := capsys.readouterr().out) and time.monotonic() < until:  # noqa: ASYNC110 - it is polled
            await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    assert "start" in first
    assert said.split()[1:4] == ["still", "on", "Command-Worker-1"]
    assert "tickets: 1: " in said
