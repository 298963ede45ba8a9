"""Proposals of workers in their reports: listed with numbers, taken over on the lead's decision."""

from collections.abc import Collection
from typing import Literal, NamedTuple

from orchestrator.commands._record import Writer
from orchestrator.commands.answer import Answer, answer
from orchestrator.errors import Refusal
from orchestrator.step import Waits
from orchestrator.store.read import read_file
from tickets.problems import Problem

ProposalKind = Literal["follow_ups", "decisions"]


class Proposal(NamedTuple):
    """One proposal of a worker's report."""

    number: int
    worker: str
    verdict: str | None
    text: str


class Proposals(NamedTuple):
    """The proposals of one run."""

    run: str
    listed: tuple[Proposal, ...]


def proposed(writer: Writer, name: str, kind: ProposalKind) -> Proposals:
    """Read the reports of a run. Raises Refusal where there is no such run."""
    from orchestrator.commands._names import run_named  # noqa: PLC0415 - few calls of `todo` name a run
    from orchestrator.runs.state import read_run, unreadable  # noqa: PLC0415 - as above
    from tickets.report import read_report  # noqa: PLC0415 - as above

    run = run_named(writer.repository, name)
    problems: list[Problem] = []
    state = read_run(run, problems)
    if state is None:
        raise Refusal(*(problems or [unreadable(run, run.roster_path.name, "it is damaged")]))
    found: list[Proposal] = []
    for worker in state.workers.values():
        output = worker.evidence.output
        text = read_file(writer.repository.root, output) if output else None
        report = read_report((text or b"").decode("utf-8", "replace"))
        # The same line in two reports is one proposal.
        new = [" ".join(line.split()) for line in getattr(report, kind)]
        known = {one.text for one in found}
        found += [
            Proposal(len(found) + number, worker.worker, worker.verdict, line)
            for number, line in enumerate((line for line in dict.fromkeys(new) if line not in known), 1)
        ]
    return Proposals(run.id, tuple(found))


def taken(found: Proposals, words: Collection[str]) -> list[Proposal]:
    """Return the chosen proposals. Raises Refusal for an unknown number."""
    if "all" in words:
        chosen = list(found.listed)
    else:
        known = {str(one.number): one for one in found.listed}
        odd = [word for word in words if word not in known]
        if odd:
            do = f"write numbers from 1 to {len(known)}, or `all`" if known else "there is nothing to take"
            raise Refusal(*(Problem("--take", f"there is no proposal `{word}`", do) for word in odd))
        chosen = [known[word] for word in dict.fromkeys(words)]
    if not chosen:
        raise Refusal(
            Problem(f"run {found.run}", "its workers proposed nothing of this kind", "see their reports")
        )
    return chosen


def listing(found: Proposals, command: str, there: Collection[str]) -> Answer[None]:
    """Answer with the proposals; `there` are the texts that have been taken over already."""
    listed = [{**one._asdict(), "taken": one.text in there} for one in found.listed]
    is_new = any(not one["taken"] for one in listed)
    take = f"orchestrate {command} --from {found.run} --take all"
    choice = Waits("lead", f"choose which proposals are taken over: `{take}`, or numbers in place of `all`")
    return answer((), choice if is_new else "orchestrate status", run=found.run, proposals=listed)
