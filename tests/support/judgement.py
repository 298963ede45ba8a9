"""Workers whose work is judged, and the answers of the commands about it."""

from support.repository import shell

OUT = {"mode": "write", "owns": ["out/**"]}


def write(number, **more):
    """Write a template whose worker makes one file of its own."""
    return shell(
        f"mkdir -p out && echo {number} > out/{number}", mode="write", owns=[f"out/{number}"], **more
    )


def run(lab, code=0, *arguments):
    """Run the phase, check the exit code, and return the document."""
    called = lab.call("run", "phase-1", "--json", *arguments)
    assert called.code == code, called
    return called.document


def integrate(lab, document, *arguments, code=0):
    """Judge a run, check the exit code, and return the document."""
    called = lab.call("integrate", document["run"], "--json", *arguments)
    assert called.code == code, called
    return called.document


def settle(lab, text):
    """Commit settings."""
    lab.commit({"orchestrate.toml": text})


def verdicts(document):
    """Return the outcome and the verdict of each ticket."""
    return {one["ticket"]: (one["outcome"], one["verdict"]) for one in document["workers"]}


def head(lab):
    """Return the last commit."""
    return lab.git("rev-parse", "HEAD").strip()


def message_of(document):
    """Return the texts of all problems."""
    return " ".join(one["what"] for one in document["problems"])
