"""The command line: arguments, exit codes, text. The only place that prints.

Most modules here are fronts of under 60 lines, one for each module of `orchestrator.commands` and named like
it: it declares the command's arguments, calls it and prints its answer. All decisions are in the twin.
"""
