"""`orchestrate resume` on the command line."""

from typing import TYPE_CHECKING, Any

from orchestrator.cli.options import add_checks, add_detach
from orchestrator.cli.terminal.width import cut
from orchestrator.cli.text import blocker_lines, clean, with_ending
from orchestrator.commands import resume
from orchestrator.commands.answer import Answer
from orchestrator.commands.caller import Caller
from orchestrator.commands.resume import Arguments
from orchestrator.runs.state import RunState
from tickets.wording import rest_of

if TYPE_CHECKING:
    import argparse

SHOWN = 5
"""How many lines of a kind are shown before the rest is counted."""
_WIDE = 200


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments of `resume`."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="continue this run: its workers, its queue")
    add_detach(parser)
    parser.add_argument("--max-tokens", type=int, metavar="N",
                        help="omit the least important parts until the JSON fits")  # fmt: skip
    add_checks(parser, "run the smoke tests too")


def call(caller: Caller, arguments: Arguments, *, as_json: bool) -> Answer[Any]:
    """Call the command; where it continues a run, show events as they happen."""
    if arguments.run is None:
        return resume.call(caller, arguments)
    from orchestrator.cli.terminal.screen import on_screen  # noqa: PLC0415 - the report needs less

    return on_screen(resume.call, caller, arguments, as_json=as_json)


def lines(answer: Answer[Any], arguments: Arguments) -> list[str]:
    """Return the answer as text."""
    if isinstance(answer.view, RunState):
        from orchestrator.cli.terminal.progress import detached_lines, run_lines  # noqa: PLC0415 - as above

        return detached_lines(answer) if arguments.detach else run_lines(answer)
    return with_ending(_lines(answer.view), answer)


def _lines(document: dict[str, Any]) -> list[str]:
    lines = [f"repaired      {done}" for done in document["repaired"]]
    named = document["deliverable"]
    owner = f", {named['owner']}" if named["owner"] else ""
    status = f" ({named['status']}{owner})" if named["status"] else ""
    lines += [
        f"project       {document['project']}, led by {document['lead'] or 'nobody'}",
        f"phase         {document['phase'] or 'none'}",
        f"milestone     {document['milestone'] or 'none'}",
        f"deliverable   {named['name'] or 'none'}{status}",
        f"updated       {document['last_updated'] or 'never'} UTC",
        _git_line(document["git"]),
    ]
    lines += [_check_line(one) for one in document["checks"]]
    for run in document["runs"]:
        lines.append(f"run           {run['run']} ({run['phase']}) is {run['status']}")
        shown = run["workers"][:SHOWN]
        lines += [f"  {one['worker']:<17} {_doing(one)}" for one in shown]
        lines += _more(run["workers"], "  ")
    if not document["runs"]:
        lines.append("run           no run is unfinished")
    if of := document["git"]["roster_of"]:
        whose = f"run {', '.join(of)}; its" if len(of) == 1 else f"runs {', '.join(of)}; each"
        lines.append(f"state         STATUS.md shows the workers of {whose} commit comes with the run's")
    lines += [f"stale         {one['what']}; {one['do']}" for one in document["stale"][:SHOWN]]
    lines += _more(document["stale"], "stale         ")
    if context := document["context"]:
        lines.append(f"task          {context['task_id']}: {context['goal']}")
        lines += [f"  next        {text}" for text in context["next"][:SHOWN]]
        lines += [f"  blocked by  {text}" for text in context["blockers"][:SHOWN]]
    lines += [f"checkpoint    {one['agent']} ({one['team']}), {one['status']}: {one['last_action']}"
              for one in document["checkpoints"][:SHOWN]]  # fmt: skip
    lines += _more(document["checkpoints"], "checkpoint    ")
    lines.append(f"decisions     {len(document['decisions'])} since {document['decisions_since']}")
    lines += [f"  {one['date']}  {cut(one['title'], _WIDE)}" for one in document["decisions"][:SHOWN]]
    lines += _more(document["decisions"], "  ")
    lines.append(_rules_line(document["rules"]))
    lines += [f"P0            {text}" for text in document["todo"]["P0"][:SHOWN]]
    lines += _more(document["todo"]["P0"], "P0            ")
    lines += [f"blocker       {text}" for text in blocker_lines(document["phases"])]
    return [clean(line) for line in lines]


def _more(listed: list[Any], indent: str) -> list[str]:
    return [indent + line for line in rest_of(len(listed), SHOWN)]


def _git_line(git: dict[str, Any]) -> str:
    where = f"{git['branch'] or 'no branch'} at {(git['commit'] or 'no commit')[:10]}"
    return f"git           {where}, {git['uncommitted'] or 'nothing'} uncommitted"


def _check_line(one: dict[str, Any]) -> str:
    word = "" if one["passed"] else ", failed"
    at = f"{one['commit'][:10]}{' with changes' if one['changed'] else ''}"
    return f"{one['name']:<13} {one['good']}/{one['total']} passing{word}, at {at}, {one['at'][:16]}"


def _doing(worker: dict[str, Any]) -> str:
    said = (worker["state"], worker["outcome"], worker["verdict"])
    return ", ".join(word for word in said if word)


def _rules_line(rules: dict[str, Any] | None) -> str:
    if rules is None:
        return "rules         AGENTS.md cannot be read"
    pool = rules["pool"]
    names = [name for name in pool if f"{name}_enabled" in pool]
    kinds = ", ".join(f"{name} {pool[name] if pool[f'{name}_enabled'] else 'off'}" for name in names)
    version = f"version {rules['version']}, " if rules["version"] else ""
    gates = len(rules["gates"])
    return f"rules         {version}{pool['total']} workers ({kinds}); {gates} approval gates"
