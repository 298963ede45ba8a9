"""`context export`: what makes a new session of an agent CLI begin with the active context."""

from collections.abc import Mapping
from datetime import UTC

from orchestrator.commands._record import Writer
from orchestrator.commands.answer import Answer, answer
from orchestrator.errors import Refusal
from orchestrator.settings.recording import read_recording
from orchestrator.state import Tree
from orchestrator.state.ai_memory.context_read import PATH
from orchestrator.state.document import editable, state_errors
from orchestrator.state.events import Decided, Decision
from orchestrator.state.transition import transition
from orchestrator.store.read import read_file
from orchestrator.store.store import Store
from tickets.markdown import append_section, field, header, parse, set_field
from tickets.problems import Problem
from tickets.types import AgentName
from workers.agents.agent import agent_named

RULES = "AGENTS.md"
SECTION = "Where the Work Stands"
_TEXT = f"""\
## {SECTION}

- First run `orchestrate resume --json --max-tokens 1500`: it says where the work stands and what is next.
- Without it, read `{PATH}`, and go on from its `next`.
- Before you end, run `orchestrate context sync` and `orchestrate context check`.
"""


def export(writer: Writer, agent: AgentName, *, write: bool) -> Answer[None]:
    """Show what a CLI needs, or add it once to the file that this CLI reads. Raises Refusal, StateError."""
    cli = agent_named(agent)
    file, text = cli.INSTRUCTION_FILES[0], cli.IMPORTS.format(path=PATH) or _TEXT
    before = writer.text(file) if file == RULES else _read(writer, file)
    has_it = text.splitlines()[0].encode() in (before or b"").splitlines()
    changed: list[str] = []
    problems: list[Problem] = []
    commit: str | None = None
    if write and not has_it:
        families, commits = read_recording(writer.repository.root)

        def added(tree: Tree) -> Mapping[str, bytes | None]:
            return (
                _rules(writer, tree, families)
                if file == RULES
                else {file: _with_line(tree.get(file), file, text)}
            )

        done = Store(writer.repository).change(
            added, paths=(file,), message=f"Begin sessions of {agent} with the active context", commit=commits
        )
        changed, problems, commit = list(done.changed), list(done.problems), done.commit
    return answer(
        problems,
        "orchestrate context check",
        **{"for": agent},
        file=file,
        text=text,
        written=has_it or bool(changed),
        changed=changed,
        commit=commit,
    )


def _read(writer: Writer, file: str) -> bytes | None:
    found = read_file(writer.repository.root, file)
    target = (writer.repository.root / file).resolve()
    if not target.is_relative_to(writer.repository.root.resolve()):
        raise Refusal(Problem(file, f"is a link to {target}, outside the repository", "make it a file"))
    return found


def _with_line(before: bytes | None, file: str, line: str) -> bytes:
    """Return a file with one more line at its end; every other byte stays."""
    if not before:
        return f"{line}\n".encode()
    with state_errors():
        end = parse(before, file).newline
    gap = b"" if before.endswith((b"\n", b"\r")) else end
    return before + gap + end + line.encode() + end


def _rules(writer: Writer, tree: Tree, families: tuple[str, ...]) -> Mapping[str, bytes | None]:
    """Return AGENTS.md with the section, its version raised, and the decision about it."""
    at = writer.at.astimezone(UTC)
    with state_errors():
        document = append_section(editable(RULES, tree), _TEXT.rstrip("\n"))
        version, day = (field(document, header(document), name) for name in ("Version", "Last Updated"))
        if version is not None:
            document = set_field(document, header(document), "Version", _raised(version.value))
        if day is not None:
            document = set_field(document, header(document), "Last Updated", f"{at:%Y-%m-%d}")
    decision = Decision(
        f"Begin sessions of codex with {PATH}",
        "A new session that knows nothing of the work repeats what was done.",
        f"{RULES} has a section `{SECTION}`, which names the command and the file to begin with.",
    )
    made = transition(tree, [Decided((decision,), writer.at, writer.lead)], families).texts
    return {**made, RULES: document.data}


def _raised(version: str) -> str:
    stem, dot, last = version.rpartition(".")
    return f"{stem}{dot}{int(last) + 1}" if last.isdecimal() else version
