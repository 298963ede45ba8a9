"""What `resume` answers without a run: one screen for a person, one document for an agent."""

import argparse
import os
from typing import Any

from orchestrator.cli.answer import Answer, clean, envelope, problem_lines
from orchestrator.cli.calling import lead_of, now, repository_of
from orchestrator.cli.terminal.width import cut
from orchestrator.commands._checks import run_checks
from orchestrator.errors import Refusal
from orchestrator.report.gather import gather
from orchestrator.report.recover import look, standing_of
from orchestrator.report.summary import fitted, standing, step_of, tokens_of
from orchestrator.settings.settings import read_settings
from tickets.problems import Problem
from workers.errors import WorkerError
from workers.git.run import Repository

SHOWN = 5
"""How many of a kind stand on the screen before the rest is counted."""
_WIDE = 200


def answer_standing(arguments: argparse.Namespace) -> Answer:
    """Say where the project stands, what was repaired, what is stale, and what is next."""
    repository, at = repository_of(arguments), now()
    problems: list[Problem] = []
    commits = _commits(repository, problems)
    stood = look(repository, at, lead_of(arguments, repository), commit=commits)
    if arguments.verify:
        problems += _verified(arguments, repository)
    found = gather(repository, at)
    step = step_of(found, stood.runs)
    problems = list(dict.fromkeys((*stood.problems, *found.problems, *problems)))
    errors = any(problem.severity == "error" for problem in problems)
    runs = [
        {
            "run": state.run.id,
            "phase": state.phase,
            "status": state.status(),
            "workers": standing_of(state),
            "next_action": state.next_action(),
        }
        for state in stood.runs
    ]
    document = envelope(
        problems, step.command, ok=not errors, repaired=list(stood.repaired), runs=runs,
        **standing(found, step), left_out=[],
    )  # fmt: skip
    lines = (*_lines(document), *problem_lines(problems, step.command))
    if arguments.max_tokens is not None:
        document = _within(document, arguments.max_tokens)
    return Answer(1 if errors else 0, document, lines)


def _commits(repository: Repository, problems: list[Problem]) -> bool:
    try:
        return read_settings(repository.root).git.commit != "never"
    except Refusal as refusal:
        # A new lead needs to know where things stand, above all where the settings are broken.
        problems += refusal.problems
        return True


def _verified(arguments: argparse.Namespace, repository: Repository) -> list[Problem]:
    try:
        settings = read_settings(repository.root)
        return run_checks(
            repository, settings, ("smoke",), at=now(), timeout=arguments.timeout, environ=os.environ
        )
    except WorkerError as error:
        return [Problem("[checks] smoke", str(error), "`orchestrate doctor` says more")]


def _within(document: dict[str, Any], tokens: int) -> dict[str, Any]:
    shorter, out = fitted(document, tokens)
    shorter = {**shorter, "left_out": list(out)}
    if tokens_of(shorter) > tokens:
        what = f"{tokens} tokens are fewer than the least that has to be said ({tokens_of(shorter)})"
        more = Problem("--max-tokens", what, "give more", "warning").as_json()
        shorter["problems"] = [*shorter["problems"], more]
    return shorter


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
    lines.append(f"decisions     {len(document['decisions'])} since {document['decisions_since']}")
    lines += [f"  {one['date']}  {cut(one['title'], _WIDE)}" for one in document["decisions"][:SHOWN]]
    lines += _more(document["decisions"], "  ")
    lines.append(_rules_line(document["rules"]))
    lines += [f"P0            {text}" for text in document["todo"]["P0"][:SHOWN]]
    lines += _more(document["todo"]["P0"], "P0            ")
    return [clean(line) for line in lines]


def _more(listed: list[Any], indent: str) -> list[str]:
    return [f"{indent}and {len(listed) - SHOWN} more"] if len(listed) > SHOWN else []


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
