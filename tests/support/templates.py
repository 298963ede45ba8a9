"""Short templates for tests, their tickets, and the problems of the wrong ones."""

from textwrap import dedent

import pytest

from tickets.problems import TicketError
from tickets.templates.render import Values, read_template, render_tickets

VALUES = Values("demo", "phase-2", "Parser", "STATUS TEXT", "DECISIONS TEXT")
FOLDER = "docs/worker-ticket-templates"


def template(stem, text):
    """Read a template of that name."""
    return read_template(f"{FOLDER}/{stem}.md", dedent(text).encode())


def render(**texts):
    """Render templates to tickets; `codex_1` is the stem `codex-1`."""
    return render_tickets([template(stem.replace("_", "-"), text) for stem, text in texts.items()], VALUES)


def front(lines, body="Do it.\n"):
    """Return a template of this front matter and body."""
    return f"---\n{dedent(lines).strip()}\n---\n{body}"


def complaints(stem, text):
    """Return the problems of a wrong template, with places without the folder."""
    with pytest.raises(TicketError) as caught:
        render_tickets([template(stem, text)], VALUES)
    return [str(problem).removeprefix(f"{FOLDER}/") for problem in caught.value.problems]
