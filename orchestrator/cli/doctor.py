"""`orchestrate doctor` on the command line."""

from typing import TYPE_CHECKING

from orchestrator import __version__
from orchestrator.cli.terminal.width import wrapped
from orchestrator.cli.text import with_ending
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import NoArguments
from orchestrator.report.doctor import AgentFound, Examination

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments of `doctor`: it has none."""


def lines(answer: Answer[Examination], _: NoArguments) -> list[str]:
    """Return the answer as text."""
    return with_ending(_lines(answer.view), answer)


def _lines(found: Examination) -> list[str]:
    fence = found.fence
    taken = [
        f"{one.slot} ({one.holder.get('worker', '?')}{', dirty' if one.dirty else ''})" for one in found.slots
    ]
    return [
        f"orchestrate  {__version__}, Python {found.python}",
        f"git          {found.git or 'not installed'}",
        *(line for one in found.agents for line in _agent_lines(one)),
        f"fence        {fence.level}: {fence.reason}{', and this is root' if fence.root else ''}",
        f"store        {'held by another orchestrate' if found.store_locked else 'free'}",
        f"slots        {', '.join(taken) or 'all free'}",
        *(f"run          {one.run} ({one.phase}): {one.status}" for one in found.runs),
        f"disk         {found.free / 10**9:.1f} GB free",
    ]


def _agent_lines(one: AgentFound) -> list[str]:
    told = wrapped(one.config, " " * 13) if one.config and one.enabled else []
    if one.messages and one.usable:
        told.append(f"{'':<13}messages reach it {one.messages}")
    return [f"{one.agent:<12} {_agent(one)}", *told]


def _agent(one: AgentFound) -> str:
    said = one.reason or "usable"
    where = f", {one.executable}" if one.executable else ""
    return f"{said}{f' ({one.version})' if one.version else ''}{where}"
