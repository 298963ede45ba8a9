"""The text of a new orchestrate.toml: every key with what it means and its default, none of them set."""

TEXT = """\
# Settings of orchestrate for this repository. Every key is here, behind a `#` and with its default:
# take the `#` away to set it. How many workers may run, and what needs approval, stands in AGENTS.md.
# Times are written 90s, 30m, 1h or as seconds; sizes 64 MB, 500 KiB or as bytes.

# Which families of state files are kept. `canonical` is STATUS.md, DECISIONS.md and AGENTS.md;
# `checkpoints` is docs/progress/. Further ones: `ai_memory`, `phases`, `chief_of_staff`.
# families = ["canonical", "checkpoints"]

# What keeps workers, acceptance commands and the gate inside their own tree. `auto`: the strongest that
# this system has, as `orchestrate doctor` says; `required`: refuse to start without one; `landlock`: this
# one, even where namespaces are to be had; `off`: rely on what is checked afterwards.
# fence = "auto"

# What becomes of workers whose runtime dies. `continue`: they go on, and `resume RUN` takes them over, so
# that nothing paid for is lost; `stop`: they end with it, and `resume RUN` starts them again.
# on_runtime_death = "continue"

# Whether agent CLIs may load the repository's own configuration of them (hooks, MCP servers, plugins),
# which can run programs. Instructions such as AGENTS.md are always read.
# trust_repository = false

[pool]
# Pause between the starts of two agent CLIs, so that they do not all log in at once.
# start_interval = "0.3s"

# Percent of the memory (of a container's own limit, where it has one) above which no worker starts, until
# there is less in use again; 0: memory is not measured.
# max_memory = 90

# How long a ticket with a `fallback` waits for a provider that is parked (rate limit, overload) before
# another agent does it.
# fallback_after = "10m"

# How long a provider is left alone that does not say for how long; twice as long each further time, up to
# 15 minutes.
# provider_pause = "15s"

# Pause before the second attempt at a ticket; before each further one it is twice as long.
# retry_pause = "2s"

[budget]
# The most that one run, and all runs of one day (UTC), may cost: no worker starts that would go past it.
# Left out, it is counted and not limited; docs/budgets.md of orchestrate says when each limit strikes.
# run_usd = 20.00
# day_usd = 50.00

# The same in tokens, those that went in (cached ones too) and those that came out.
# run_tokens = 20_000_000
# day_tokens = 50_000_000

# What is reserved of `run_usd` and `day_usd` for each worker that is out and whose ticket has no
# `budget_usd`: others wait for room. It is no limit of that worker. Left out, nothing is reserved for it.
# worker_usd = 2.00

[prices]
# USD for a million tokens, for agents that do not say what they cost (codex, gemini), by the model
# that the template or `[agents.NAME] model` asks for; a name also stands for those that begin with it. What
# has no price is counted in tokens alone. Write each line without the `#`; `cached_input` may be left out.
# "gpt-5.1-codex" = { input = 1.25, cached_input = 0.125, output = 10.00 }

[limits]
# Most that is kept of a worker's standard output, and of its standard error.
# output_cap = "64 MB"

# Largest patch that a worker may hand in.
# patch_cap = "256 MB"

# How long a worker may take to exit after its last word, or after it was asked to stop.
# grace = "5s"

# Longest time for one acceptance command, or for the gate.
# acceptance_timeout = "30m"

[worktree]
# What a worker's tree gets before the worker starts, as do the trees of acceptance commands and the gate:
# a fresh checkout has no virtual environment, no .env, no node_modules. None of it counts as a change.
# Commands run in the tree by `sh -c`, one after the other, below the same fence and without keys; one that
# fails, fails the ticket: ["npm ci"]. They take nothing off the worker's own timeout.
# setup = []

# Longest time for one of these commands.
# setup_timeout = "10m"

# Files of your checkout that git does not track, copied; patterns as in `owns`: [".env", "**/*.local"].
# copy = []

# Files or folders of your checkout that git does not track, linked to: ["node_modules", ".venv"]. A worker
# reads your own through the link; where the fence does not hold, it can write there as well. What is
# not there is passed over.
# link = []

# Whether read-only tickets share one tree of their base. `auto`: where the fence keeps them from writing
# there; `always` (who wrote where nobody may can then not be said); `never`: each has its own.
# shared = "auto"

[integration]
# What becomes of a worker that touched paths outside its scope. `hold`: the lead decides;
# `reject`: nothing of it lands; `land-in-scope`: the part inside its scope lands.
# on_violation = "hold"

# Commands, run by `sh -c`, that must all pass before anything lands: ["make test"]. They run in a fresh tree
# behind the fence: /tmp is empty, there are no keys, and only the tree and $TMPDIR can be written.
# gate = []

# Where the gate fails with the work of several workers and passes without it, find out by further runs of it
# who breaks it (for one of 15, about nine in all), reject those and land the rest. `false`: nothing lands,
# and the lead decides.
# bisect = true

[git]
# When commits are made. `integration`: what has landed, and the state files after it;
# `never`: files are written all the same, and committing them is up to you.
# commit = "integration"

# Whether landing runs the repository's own git hooks. Commits of state files never do.
# hooks = false

[checks]
# The project's own commands, run by `sh -c` in the work tree where a deliverable, a milestone or a phase is
# done, and when `--verify` asks for them: a quick one that shows that it works at all, the unit tests, the
# integration tests, and all tests. What they come to is read from the JUnit XML that they write to
# "$ORCHESTRATE_JUNIT", else from what they print, else from their exit code.
# Example: "python -m pytest -q --junitxml=$ORCHESTRATE_JUNIT".
# smoke = ""
# unit = ""
# integration = ""
# test = ""

# One table for each agent: codex, claude, gemini, command.
#
# enabled      true or false overrides AGENTS.md; left out, AGENTS.md says
# executable   name or path of the CLI; left out, the agent's own name, looked for on PATH
# args         further arguments for the CLI
# model        model to ask for where a template names none; left out, the CLI's own choice
# env          names of environment variables that its workers may see beside the usual ones
# network      only for command: "none" shuts command workers, acceptance commands and the gate off from every
#              network, loopback included; needs a fence of namespaces

[agents.codex]
# enabled = true
# executable = "codex"
# args = []
# model = "MODEL"
# env = []

[agents.claude]
# enabled = true
# executable = "claude"
# args = []
# model = "MODEL"
# env = []

[agents.gemini]
# enabled = false
# executable = "gemini"
# args = []
# model = "MODEL"
# env = []

[agents.command]
# enabled = true
# args = []
# env = []
# network = "open"
"""
