"""Workers that make a file each, a gate that decides which of them go together, and a run's answers."""

import json

from support.repository import shell


def writer(number, *, text="good", **more):
    """Write a template whose worker makes one file of its own."""
    return shell(f"mkdir -p out && echo {text} > out/{number}", mode="write", owns=[f"out/{number}"], **more)


def gate(lab, *commands, more="", fence="auto"):
    """Commit settings with these commands as the gate."""
    lab.commit(
        {"orchestrate.toml": f'fence = "{fence}"\n[integration]\n{more}gate = {json.dumps(commands)}\n'}
    )


def call(lab, command, run, *arguments, code):
    """Call a command on a run or a phase, check its exit code, and return its document."""
    called = lab.call(command, run, "--json", *arguments)
    assert called.code == code, called
    return called.document


def verdicts(document):
    """Return the verdict of each ticket."""
    return {one["ticket"]: one["verdict"] for one in document["workers"]}


def reasons(document):
    """Return the reason of each ticket's verdict."""
    return {one["ticket"]: one["reason"] for one in document["workers"]}


def folder_of(lab, document):
    """Return the folder of a run."""
    return lab.root / ".taskers" / "runs" / document["run"]


def out(lab):
    """Return the workers' files that have landed."""
    return {path.name for path in (lab.root / "out").glob("*")}
