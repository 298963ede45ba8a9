"""`orchestrate status` on the command line."""

from typing import TYPE_CHECKING, Any

from orchestrator.cli.text import blocker_lines, with_ending
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import NoArguments
from orchestrator.commands.status import View
from orchestrator.runs.state import RunState
from tickets.wording import rest_of, some_of

if TYPE_CHECKING:
    import argparse

P0_SHOWN = 3
RESULTS = 5
NAMED = 3
"""How many workers of a kind a line names before it counts the rest."""


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments of `status`: it has none."""


def lines(answer: Answer[View], _: NoArguments) -> list[str]:
    """Return the answer as text."""
    view = answer.view
    today = [] if view.today.is_nothing else [f"spent today   {view.today.in_words()}"]
    return with_ending([*_lines(answer.document, view), *today], answer)


def _lines(document: dict[str, Any], view: View) -> list[str]:
    lines = [f"project       {document['project']}"]
    if "phase" in document:
        named = document["deliverable"]
        lines += [
            f"phase         {document['phase']}",
            f"milestone     {document['milestone']}",
            f"deliverable   {named['name'] or 'none'}"
            + (f" ({named['status']})" if named["name"] and named["status"] else ""),
            *(f"{name.lower():<13} {text}" for name, text in document["progress"].items()),
            f"lead          {document['lead']}, {document['last_updated']} UTC",
        ]
        lines += [f"P0            {text}" for text in view.p0[:P0_SHOWN]]
        lines += [f"blocker       {text}" for text in blocker_lines(document["phases"])]
        # The roster keeps a worker until its run is integrated; one that has ended is counted with its run.
        ended = {
            (run.run.id, name)
            for run, _ in view.runs.values()
            for name, one in run.workers.items()
            if one.ended
        }
        lines += [
            f"active        {one['worker']}: {one['title']} (run {one['run'] or '?'})"
            for one in document["active_workers"]
            if (one["run"], one["worker"]) not in ended
        ]
    for told in document["runs"]:
        run, cost = view.runs[told["run"]]
        counted = ", ".join(f"{number} {_named(word, run)}" for word, number in told["outcomes"].items())
        pending = f"; pending: {some_of(run.pending, NAMED)}" if run.pending else ""
        money = "" if cost.is_nothing else f"; {cost.in_words()}"
        lines.append(f"run           {run.run.id} ({run.phase}) {told['status']}: {counted}{pending}{money}")
    return lines + _results(view)


def _results(view: View) -> list[str]:
    """Return the results of the newest run in its workers' own words."""
    newest = max(view.runs, default="")
    workers = view.runs[newest][0].workers.values() if newest else ()
    said = [one for one in workers if one.lands and one.evidence.summary]
    lines = [f'result        {one.worker} {one.ticket}: "{one.evidence.summary}"' for one in said[:RESULTS]]
    return lines + [f"{'':<14}{more}" for more in rest_of(len(said), RESULTS)]


def _named(word: str, run: RunState) -> str:
    """Name the workers that did not end well, for the lead to examine."""
    failed = [name for name in run.failed if run.workers[name].outcome == word]
    if word == "rejected":
        failed = [name for name, one in run.workers.items() if one.standing == word]
    return f"{word} ({some_of(failed, NAMED)})" if failed else word
