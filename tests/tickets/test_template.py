"""Templates: read strictly, rendered string by string, every problem named with its line."""

import json
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickets.fields import WrongValueError, read_seconds
from tickets.problems import TicketError
from tickets.template import (
    Values,
    is_template,
    phase_of,
    read_template,
    read_templates,
    render_body,
    render_tickets,
)

VALUES = Values("demo", "phase-2", "Parser", "STATUS TEXT", "DECISIONS TEXT")
FOLDER = "docs/worker-ticket-templates"


def template(stem, text):
    return read_template(f"{FOLDER}/{stem}.md", dedent(text).encode())


def render(**texts):
    return render_tickets([template(stem.replace("_", "-"), text) for stem, text in texts.items()], VALUES)


def front(lines, body="Do it.\n"):
    return f"---\n{dedent(lines).strip()}\n---\n{body}"


def complaints(stem, text):
    with pytest.raises(TicketError) as caught:
        render_tickets([template(stem, text)], VALUES)
    return [str(problem).removeprefix(f"{FOLDER}/") for problem in caught.value.problems]


ABOVE = "above it"
RAW = "close it, or wrap literal braces in {% raw %}"
FULL = """\
---
agent: codex                  # a comment
phase: phase-2
deliverable: Parser
title: "Port {{ deliverable }}"
mode: write
owns: ["src/parser/**", "tests/parser/**"]
excludes: ["src/parser/generated/**"]
reads: ["docs/spec.md"]
depends_on: [claude-1]
acceptance: ["python -m pytest tests/parser -q"]
timeout: 1h30m
idle_timeout: 90
retries: 0
fallback: [claude]
model: null
budget_usd: 2.50
budget_tokens: 200000
priority: P0
max_files_changed: 20
command: null
---
# {{ worker }}
{{ outputs["claude-1"] }} / {{ project }} {{ phase }} {{ deliverable }} {{ ticket.id }} {{ status }} \
{{ decisions }}
"""


def test_a_full_template_becomes_the_ticket_that_it_describes():
    tickets = render(codex_3=FULL, claude_1="Read the spec.\n")
    ticket = tickets[1]
    assert (ticket.id, ticket.worker, ticket.agent, ticket.title) == (
        "codex-3",
        "Codex-Worker-3",
        "codex",
        "Port Parser",
    )
    assert ticket.owns == ("src/parser/**", "tests/parser/**")
    assert (ticket.timeout, ticket.idle_timeout, ticket.retries, ticket.budget_usd) == (5400, 90, 0, 2.5)
    assert (ticket.priority, ticket.budget_tokens) == ("P0", 200_000)
    assert (ticket.model, ticket.command, ticket.fallback, ticket.max_files_changed) == (
        None,
        None,
        ("claude",),
        20,
    )
    assert render_body(ticket, VALUES, {"claude-1": "{{ 7 * 7 }}", "other": "x"}) == (
        "# Codex-Worker-3\n{{ 7 * 7 }} / demo phase-2 Parser codex-3 STATUS TEXT DECISIONS TEXT\n"
    )


def test_two_lines_without_front_matter_are_a_template():
    (ticket,) = render(gemini_4="# {{ worker }}\nPort the parser\n")
    assert (ticket.agent, ticket.worker, ticket.phase, ticket.title, ticket.mode, ticket.timeout) == (
        "gemini",
        "Gemini-Worker-4",
        "phase-2",
        "Port the parser",
        "read-only",
        1800,
    )


@pytest.mark.parametrize("wrapped", [b"\xef\xbb\xbf%s", b"%s"])
def test_a_bom_and_carriage_returns_change_nothing(wrapped):
    data = wrapped % FULL.replace("\n", "\r\n").encode()
    other = template("claude-1", "Read.\n")
    read = render_tickets([read_template(f"{FOLDER}/codex-3.md", data), other], VALUES)
    assert read == render_tickets([template("codex-3", FULL), other], VALUES)


def test_values_keep_the_spelling_of_the_file():
    text = front("""
        phase: 07
        title: yes
        deliverable: 2026-02-16
        matrix: {version: [1.10, 10:30, no]}
    """)
    tickets = render(codex_1=text)
    assert [ticket.id for ticket in tickets] == [
        f"codex-1[version={value}]" for value in ("1.10", "10:30", "no")
    ]
    assert (tickets[0].phase, tickets[0].title, tickets[0].deliverable) == ("07", "yes", "2026-02-16")


def test_a_later_rule_in_the_body_is_not_the_end_of_the_front_matter():
    (ticket,) = render(codex_1=front("title: T", "one\n---\nkey: value\n---\ntwo\n"))
    assert render_body(ticket, VALUES, {}) == "one\n---\nkey: value\n---\ntwo\n"


def test_a_matrix_makes_one_ticket_for_each_combination():
    text = front(
        """
        agent: claude
        mode: write
        owns: ["src/{{ matrix.module }}/{{ matrix['items'] }}/**"]
        matrix: {module: [api, db], items: [x, y]}
        """,
        "{{ matrix.module }}.{{ matrix.items }}",
    )
    tickets = render(port=text)
    assert [(ticket.id, ticket.worker, ticket.owns) for ticket in tickets] == [
        ("port[module=api,items=x]", "Claude-Worker-1", ("src/api/x/**",)),
        ("port[module=api,items=y]", "Claude-Worker-2", ("src/api/y/**",)),
        ("port[module=db,items=x]", "Claude-Worker-3", ("src/db/x/**",)),
        ("port[module=db,items=y]", "Claude-Worker-4", ("src/db/y/**",)),
    ]
    assert render_body(tickets[3], VALUES, {}) == "db.y"


def test_depending_on_a_fan_out_is_depending_on_all_of_it():
    tickets = render(
        codex_1=front("matrix: {m: [a, b]}"),
        codex_2=front("depends_on: [codex-1]", "{{ outputs['codex-1[m=a]'] }}|{{ outputs['codex-1'] }}"),
        codex_3=front('depends_on: ["codex-1[m=b]"]'),
    )
    assert tickets[2].depends_on == ("codex-1[m=a]", "codex-1[m=b]")
    assert tickets[3].depends_on == ("codex-1[m=b]",)
    both = render_body(tickets[2], VALUES, {"codex-1[m=a]": "A", "codex-1[m=b]": "B"})
    assert both == "A|codex-1[m=a]:\n\nA\n\ncodex-1[m=b]:\n\nB"


def test_numbered_names_keep_their_number_and_others_take_what_is_free():
    tickets = render(
        codex_10="x",
        codex_2="x",
        codex_fix="x",
        a_review=front("agent: codex"),
        codex_1=front("agent: claude"),
        claude_x="x",
    )
    assert {ticket.id: ticket.worker for ticket in tickets} == {
        "a-review": "Codex-Worker-1",
        "claude-x": "Claude-Worker-1",
        "codex-1": "Claude-Worker-2",
        "codex-2": "Codex-Worker-2",
        "codex-10": "Codex-Worker-10",
        "codex-fix": "Codex-Worker-3",
    }
    assert [ticket.id for ticket in tickets].index("codex-2") < [ticket.id for ticket in tickets].index(
        "codex-10"
    )


def test_the_same_templates_in_another_order_make_the_same_tickets():
    texts = [template(f"codex-{name}", "x") for name in ("b", "a", "2", "c", "1")]
    assert render_tickets(texts, VALUES) == render_tickets(texts[::-1], VALUES)


def test_a_command_needs_no_prompt_and_its_arguments_stay_apart():
    (ticket,) = render(docs=front('agent: command\ncommand: [make, "", "{{ phase }}", make]', ""))
    assert ticket.command == ("make", "", "phase-2", "make")
    assert render_body(ticket, VALUES, {}) == ""


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("ownz: [a]", "2: `ownz` is not a key of a template; did you mean `owns`?"),
        ("owns: src", '2: `owns` must be a list of strings; write `owns: ["src/parser/**"]`'),
        ("owns: [[a]]", '2: `owns` must be a list of strings; write `owns: ["src/parser/**"]`'),
        ("title: [a]", "2: `title` must be a single value; write `title: Port the parser`"),
        ("timeout: {a: b}", "2: `timeout` must be a single value; write `timeout: 30m`"),
        ("mode: rite", "2: `mode`: `rite` is not a mode; did you mean `write`?"),
        ("agent: codexx", "2: `agent`: `codexx` is not an agent; did you mean `codex`?"),
        ("mode: write", '2: writes but owns nothing; add `owns: ["src/…/**"]`'),
        ("agent: command", '2: an agent `command` needs a command; add `command: ["make", "docs"]`'),
        ("command: [make]", "2: `codex` takes no command; take it out, or write `agent: command`"),
        ("retries: -1", "2: `retries`: -1 is too few; write 0 or more"),
        ("retries: 1.5", "2: `retries`: `1.5` is not a whole number; write 0 or more"),
        ("budget_usd: 0", "2: `budget_usd`: `0` is not an amount in USD; write one like 2.50"),
        ("budget_tokens: 0", "2: `budget_tokens`: 0 is too few; write 1 or more"),
        ("budget_tokens: 2.5", "2: `budget_tokens`: `2.5` is not a whole number; write 1 or more"),
        ("priority: P3", "2: `priority`: `P3` is not a priority; write one of P0, P1, P2"),
        ("priority: high", "2: `priority`: `high` is not a priority; write one of P0, P1, P2"),
        ("fallback: [codex]", "2: `codex` cannot stand in for `codex`; name another agent"),
        (
            "matrix: {m: []}",
            "2: `matrix.m` must be a list of at least one value; write `matrix: {module: [api, db]}`",
        ),
        (
            "matrix: {m: [a, a]}",
            "2: `matrix.m` holds `a` twice; write each value once",
        ),
        ('title: "{{ matrix.m }}"', "2: `title`: `matrix` has no `m`; add it to `matrix`"),
        ('title: "{{ worker }}"', "2: `title`: `worker` is not defined; it is known in the body only"),
        ('title: "{{ projct }}"', "2: `title`: `projct` is not defined; did you mean `project`?"),
        ('title: ""', "2: `title`: is empty; write a value, or take the key out"),
        ('title: "a\\0b"', "2: `title`: holds a NUL character; take it out"),
        ("title: a\ntitle: b", "3: `title` stands here twice; keep one of them"),
        ("- a", "2: the front matter is not a mapping; write lines like `agent: codex`"),
    ],
)
def test_a_wrong_key_is_named_with_its_line_and_the_way_out(lines, said):
    assert f"codex-1.md:{said}" in complaints("codex-1", f"---\n{lines}\n---\nDo it.\n")


@pytest.mark.parametrize(
    ("line", "quoted"),
    [
        ("owns: [*.py]", '"*.py"'),
        ("owns: [**/x.py]", '"**/x.py"'),
        ("owns: *foo", '"*foo"'),
        ("owns: [!foo]", '"!foo"'),
        ("owns: {a,b}/x", '"{a,b}/x"'),
        ("owns: [src/{a,b}.py]", '"src/{a,b}.py"'),
        ("owns: [src/[ab].py]", '"src/[ab].py"'),
        ("title: &x y", '"&x"'),
        ("title: a: b", '"a: b"'),
        ("title: `x`", '"`x`"'),
    ],
)
def test_an_unquoted_pattern_is_told_to_be_quoted(line, quoted):
    said = complaints("codex-1", f"---\ntimeout: 1m\n{line}\n---\nDo it.\n")
    assert any(text.startswith("codex-1.md:3: ") and text.endswith(f"quote it: {quoted}") for text in said)


def test_an_unquoted_expression_is_told_to_be_quoted():
    (said,) = complaints("codex-1", front("title: {{ matrix.module }}"))
    assert said.startswith("codex-1.md:2: ")
    assert "quote" in said


def test_a_backslash_in_double_quotes_is_told_to_be_in_single_ones():
    (said,) = complaints("codex-1", front('owns: ["app/\\[slug\\]"]'))
    assert said.endswith("put it in single quotes")
    (ticket,) = render(codex_1=front("owns: ['app/\\[slug\\]']"))
    assert ticket.owns == ("app/\\[slug\\]",)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a\n\xff\n", "codex-1.md:2: is not UTF-8; save it as UTF-8"),
        (b"---\ntitle: x\n", "codex-1.md:1: the front matter is never closed; add a line `---` after it"),
        (
            b"\n---\ntitle: x\n---\n",
            "codex-1.md:2: the front matter does not begin on the first line; take out the blank lines "
            + ABOVE,
        ),
        (b"---\ntitle: x\n---\n \n", "codex-1.md:4: there is no prompt; write it below the front matter"),
        (b"", "codex-1.md:1: there is no prompt; write it below the front matter"),
    ],
)
def test_a_file_that_is_no_template_is_refused(data, said):
    with pytest.raises(TicketError) as caught:
        read_template("codex-1.md", data)
    assert [str(problem) for problem in caught.value.problems] == [said]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("a\n{{ projec }}", "2: the body: `projec` is not defined; did you mean `project`?"),
        (
            "a\n{% if 0 %}\n{{ projec }}{% endif %}",
            "3: the body: `projec` is not defined; did you mean `project`?",
        ),
        ("a\n\n{{ outputs['claude-1'] }}", "3: `outputs` has no `claude-1`; add it to `depends_on`"),
        ("{{ ticket.own }}", "1: `ticket` has no `own`; did you mean `owns`?"),
        (
            "{{ a b }}",
            "1: the body: is not valid Jinja2: expected token 'end of print statement', got 'b'; " + RAW,
        ),
        (
            "{% include '/etc/passwd' %}",
            "1: the body: reads another file; write its text here: a template is one file",
        ),
        (
            "{{ ''.__class__.__mro__ }}",
            "1: access to attribute '__class__' of 'str' object is unsafe.; templates may not do this",
        ),
        (
            "{{ 'a' * 1000000000000 }}",
            "1: `*` is for numbers of a usual size only; templates may not do this",
        ),
        ("{{ 1 / 0 }}", "1: ZeroDivisionError: division by zero; check it"),
        ("{% if false %}x{% endif %}", "1: the prompt renders to nothing; write it"),
    ],
)
def test_what_a_body_does_wrong_is_found_before_anything_starts(body, said):
    assert complaints("codex-1", body) == [f"codex-1.md:{said}"]


def test_a_body_may_take_an_output_apart_though_its_stand_in_cannot_be():
    body = "{{ outputs['claude-1'].split('## ')[2] }}"
    tickets = render(claude_1="x", codex_1=front("depends_on: [claude-1]", body))
    assert render_body(tickets[1], VALUES, {"claude-1": "a## b## c"}) == "c"
    with pytest.raises(TicketError, match=r"codex-1\.md:4: list object has no element 2"):
        render_body(tickets[1], VALUES, {"claude-1": "a"})


def test_every_problem_of_every_template_is_told_at_once():
    files = {
        f"{FOLDER}/README.md": b"{{ nothing }}",
        f"{FOLDER}/notes.txt": b"x",
        f"{FOLDER}/codex-1.md": b"---\nownz: [a]\ntimeot: 3\n---\n{% if %}",
        f"{FOLDER}/codex-2.md": b"\xff",
    }
    with pytest.raises(TicketError) as caught:
        read_templates(files)
    assert len(caught.value.problems) == 4
    bad = [
        template("codex-1", front("mode: write\nretries: x\ntimeout: 0", "{{ a }}\n{{ b }}")),
        template("codex-2", "{{ matrix.x }}"),
        template("notes", "x"),
    ]
    with pytest.raises(TicketError) as caught:
        render_tickets(bad, VALUES)
    assert len(caught.value.problems) == 7


def test_two_templates_of_one_name_are_refused():
    twins = [template("codex-1", "x"), read_template("elsewhere/codex-1.md", b"x")]
    with pytest.raises(TicketError, match="has the same id as"):
        render_tickets(twins, VALUES)


def test_the_readme_and_hidden_files_are_no_templates():
    names = ["README.md", "readme.md", ".draft.md", "codex-1.txt", "codex-1.md"]
    assert [name for name in names if is_template(f"{FOLDER}/{name}")] == ["codex-1.md"]


def test_a_template_says_its_phase_before_it_is_rendered():
    assert phase_of(template("codex-1", front('phase: "{{ project }}-1"')), VALUES) == "demo-1"
    assert phase_of(template("codex-1", "x"), VALUES) == "phase-2"
    with pytest.raises(TicketError, match="did you mean `project`"):
        phase_of(template("codex-1", front('phase: "{{ projec }}"')), VALUES)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1800), ("90s", 90), ("1h30m", 5400), ("1h0m5s", 3605), ("0.5", 0.5), ("1.5h", 5400), ("7", 7)],
)
def test_durations_are_read_as_people_write_them(text, seconds):
    assert read_seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["0", "-5", "0s", "", "never", "30 m", "m", "1m1h", "inf", "nan", "9" * 400, "1_000"]
)
def test_no_duration_is_endless_or_nothing(text):
    with pytest.raises(WrongValueError):
        read_seconds(text)


keys = st.sampled_from(
    ["agent", "owns", "matrix", "title", "timeout", "command", "depends_on", "mode", "x", "{", "*a"]
)
scraps = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "[a, b]",
            "{m: [1, 2]}",
            "write",
            "{{ matrix.m }}",
            '"{{ x }}"',
            "command",
            "- |\n  x",
            "0",
            "[[[[[[",
        ]
    ),
)


@given(st.lists(st.tuples(keys, scraps), max_size=5), st.one_of(st.text(max_size=30), scraps))
def test_whatever_a_template_says_only_a_ticket_error_comes_of_it(pairs, body):
    text = "---\n" + "".join(f"{key}: {value}\n" for key, value in pairs) + f"---\n{body}"
    try:
        tickets = render_tickets([read_template("codex-1.md", text.encode())], VALUES)
    except TicketError as error:
        problems = error.problems
    else:
        assert json.loads(tickets[0].model_dump_json())["id"].startswith("codex-1")
        return
    assert problems
    assert all(problem.place.startswith("codex-1.md") and problem.do for problem in problems)


@given(
    st.binary(max_size=60),
    st.sampled_from([b"", b"---\n", b"---\nowns: "]),
    st.sampled_from([b"", b"\n---\nx"]),
)
def test_whatever_bytes_a_file_holds_only_a_ticket_error_comes_of_it(data, before, after):
    try:
        render_tickets([read_template("codex-1.md", before + data + after)], VALUES)
    except TicketError as error:
        problems = error.problems
    else:
        return
    assert problems


@pytest.mark.parametrize(
    "data",
    [
        b"---\na: " + b"[" * 100_000,
        b"---\n" + b"- " * 5000 + b"\n---\n",
        b"{{" * 50_000,
        b"{% if 1 %}" * 3000,
        b"---\na: " + b"[" * 5000 + b"\n---\n",
        b"{{ " + b"(" * 3000,
        b"{{ " + b"1+" * 5000 + b"1 }}",
        b"{{ " + b"9" * 5000 + b" }}",
    ],
)
def test_deep_nesting_is_a_problem_and_not_a_crash(data):
    with pytest.raises(TicketError):
        render_tickets([read_template("codex-1.md", data)], VALUES)
