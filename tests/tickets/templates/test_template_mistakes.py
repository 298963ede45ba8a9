"""Every fault of a template is reported at once, with its line and a remedy, and none is a crash."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.templates import FOLDER, VALUES, complaints, front, render, template

from tickets.problems import TicketError
from tickets.templates.render import read_template, read_templates, render_tickets

ABOVE = "above it"
RAW = "close it, or wrap literal braces in {% raw %}"


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
        ("fallback: [codex]", "2: `codex` cannot replace `codex`; name another agent"),
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
        ("title: a\ntitle: b", "3: `title` is here twice; keep one of them"),
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
            "1: access to attribute '__class__' of 'str' object is unsafe.; templates must not do this",
        ),
        (
            "{{ 'a' * 1000000000000 }}",
            "1: `*` is for numbers of a usual size only; templates must not do this",
        ),
        ("{{ 1 / 0 }}", "1: ZeroDivisionError: division by zero; check it"),
        ("{% if false %}x{% endif %}", "1: the prompt renders to nothing; write it"),
    ],
)
def test_what_a_body_does_wrong_is_found_before_anything_starts(body, said):
    assert complaints("codex-1", body) == [f"codex-1.md:{said}"]


def test_every_problem_of_every_template_is_told_at_once():
    files = {
        f"{FOLDER}/README.md": b"{{ nothing }}",
        f"{FOLDER}/notes.txt": b"x",
        f"{FOLDER}/codex-1.md": b"---\nownz: [a]\ntimeot: 3\n---\n{% if %}",
        f"{FOLDER}/codex-2.md": b"\xff",
    }
    templates, problems = read_templates(files)
    assert (templates, len(problems)) == ([], 4)
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
        assert json.loads(json.dumps(tickets[0]._asdict()))["id"].startswith("codex-1")
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
