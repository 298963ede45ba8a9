"""The project and the phase that a command is about."""

from typing import Protocol

from orchestrator.commands.caller import Caller, lead_of, repository_of
from orchestrator.errors import APPROVAL, Refusal
from orchestrator.prepare.prepare import Request, problems_besides
from orchestrator.project import Project
from orchestrator.settings.settings import read_settings
from orchestrator.state.canonical.rules import rules
from orchestrator.step import Waits
from tickets.plan import OnOverlap
from tickets.problems import Problem


def project_of(caller: Caller, request: Request | None = None) -> Project:
    """Read the project for a command. Raises Refusal; for a phase, with all its problems."""
    repository = repository_of(caller)
    try:
        settings = read_settings(repository.root)
    except Refusal as refusal:
        besides = problems_besides(repository, request) if request else []
        raise Refusal(*refusal.problems, *besides) from None
    if request and settings.unapproved:
        # Required of a command that starts workers; a run that has begun continues within the approved pool.
        raise Refusal(
            settings.unapproved,
            exit_code=APPROVAL,
            next_action=Waits("user", settings.unapproved.what, rules.asks_approval(settings.unapproved)),
        )
    tell, warn = caller.tell or _tell_nothing, caller.warn or _tell_nothing
    return Project(repository, settings, dict(caller.environ), tell, caller.now, warn)


class OfPhase(Protocol):
    """The arguments that all commands on a phase have."""

    @property
    def only(self) -> tuple[str, ...]: ...
    @property
    def again(self) -> bool: ...
    @property
    def continues(self) -> bool: ...
    @property
    def strict_agents(self) -> bool: ...
    @property
    def on_overlap(self) -> OnOverlap: ...


def request_of(caller: Caller, phase: str, arguments: OfPhase) -> Request:
    """Return the request for a phase, with the caller's lead and day. Raises Refusal."""
    lead, day = lead_of(caller, repository_of(caller)), f"{caller.now():%Y-%m-%d}"
    if arguments.again and arguments.continues:
        what = "`--again` begins what is done, `--continue` goes on with what is not"
        raise Refusal(Problem("--continue", what, "leave one out"))
    return Request(
        phase, lead, arguments.only, arguments.again, arguments.continues,
        strict_agents=arguments.strict_agents, on_overlap=arguments.on_overlap, day=day,
    )  # fmt: skip


def _tell_nothing(*_: object) -> None:
    """Do nothing with an event or a warning: the caller only wants the answer."""
