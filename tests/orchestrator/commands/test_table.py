"""The table of commands: each has a module that does it and a twin that spells it on the command line."""

import inspect
from argparse import Namespace
from importlib import import_module
from itertools import combinations

import pytest
from support.repository import AT

from orchestrator.cli.arguments import parser_for
from orchestrator.cli.main import _without_parser, typed
from orchestrator.commands.answer import answer
from orchestrator.commands.caller import Caller
from orchestrator.commands.table import COMMANDS
from tickets.problems import Problem

BUILT = {name: command.module for name, command in COMMANDS.items() if command.module}


def options(parser):
    """Return the names that a parser sets, those of its actions too."""
    found = set()
    for action in parser._actions:
        found.add(action.dest)
        for inner in (action.choices or {}).values() if isinstance(action.choices, dict) else ():
            found |= options(inner)
    return found - {"help", "project", "json", "version", "lead", "background"}


@pytest.mark.parametrize("name", BUILT)
def test_a_commands_options_are_the_fields_of_its_arguments(name):
    module = import_module(f"orchestrator.commands.{BUILT[name]}")
    (subparsers,) = [action for action in parser_for([name])._actions if action.dest == "command"]
    assert options(subparsers.choices[name]) == set(module.Arguments._fields)


@pytest.mark.parametrize("name", BUILT)
def test_a_command_is_called_with_its_caller_and_typed_arguments(name):
    module = import_module(f"orchestrator.commands.{BUILT[name]}")
    assert next(iter(inspect.signature(module.call).parameters)) == "caller"
    assert len(inspect.signature(module.call).parameters) == 2
    assert callable(import_module(f"orchestrator.cli.{BUILT[name]}").lines)


@pytest.mark.parametrize("name", sorted(set(BUILT) - {"_runtime"}))
def test_what_is_not_given_is_left_to_the_defaults(name):
    module = import_module(f"orchestrator.commands.{BUILT[name]}")
    required = [field for field in module.Arguments._fields if field not in module.Arguments._field_defaults]
    made = typed(module.Arguments, Namespace(**dict.fromkeys(required, "x")))
    assert made == module.Arguments(*["x"] * len(required))


@pytest.mark.parametrize("name", [name for name, one in COMMANDS.items() if one.switches is not None])
def test_a_call_without_values_says_the_same_without_a_parser(name):
    module = import_module(f"orchestrator.commands.{BUILT[name]}")
    flags = ["--json", *COMMANDS[name].switches]
    for given in (given for count in range(len(flags) + 1) for given in combinations(flags, count)):
        for words in ([name, *given], [*given, name]):
            plain = _without_parser(words, name)
            if words[0] != name and set(given) - {"--json"}:
                assert plain is None  # before the name of its command no parser knows an option of it
                continue
            parsed = parser_for(words).parse_args(words)
            assert typed(module.Arguments, plain) == typed(module.Arguments, parsed)
            assert vars(plain).items() <= vars(parsed).items()
    for words in ([name, name], [name, "--project", "."], [name, "--help"], [name, "--js"], [name, "x"]):
        assert _without_parser(words, name) is None


def test_words_make_one_text_and_repeated_options_a_tuple():
    todo = import_module("orchestrator.commands.todo")
    found = parser_for(["todo"]).parse_args(["todo", "add", "Fix", "the lexer", "--priority", "P0"])
    assert typed(todo.Arguments, found) == todo.Arguments("add", "Fix the lexer", "P0")
    decide = import_module("orchestrator.commands.decide")
    found = parser_for(["decide"]).parse_args(["decide", "--alternative", "a", "--alternative", "b c"])
    assert typed(decide.Arguments, found) == decide.Arguments(alternative=("a", "b c"))


@pytest.mark.parametrize(("severity", "code"), [("error", 1), ("warning", 0), ("info", 0)])
def test_exit_code_and_ok_come_from_the_problems(severity, code):
    made = answer([Problem("a", "is wrong", severity=severity)], "orchestrate status", found=1)
    assert (made.exit_code, made.document["ok"]) == (code, not code)
    assert list(made.document) == ["schema", "ok", "found", "problems", "next_action"]


@pytest.mark.parametrize(
    ("name", "given"),
    [("todo", ("add", "Fix the lexer")), ("todo", ("list",)), ("status", ()), ("ps", ()), ("validate", ()),
     ("phase", ("list",)), ("doctor", ()), ("archive", (True,)), ("checkpoint", ("list",))],
)  # fmt: skip
def test_another_front_end_calls_a_command_and_nothing_is_printed(lab, capfd, name, given):
    module = import_module(f"orchestrator.commands.{BUILT[name]}")
    caller = Caller(lab.root, lambda: AT, lab.env(), "Ada")
    made = module.call(caller, module.Arguments(*given))
    assert made.document["ok"] is True
    assert capfd.readouterr() == ("", "")
