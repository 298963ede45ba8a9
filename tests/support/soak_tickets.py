"""Random phases for a soak: agents that work, agents that misbehave, and their dependencies."""

import os
from typing import NamedTuple

from support.faults import AGENTS, step
from support.repository import shell, template

LONGEST = 12.0 if os.environ.get("ORCHESTRATE_SOAK") == "1" else 5.0
"""Seconds of the longest step: long ones keep fifteen busy on a machine that starts few in a second."""
POISON = "poison"
"""Content that the gate refuses."""
SETTINGS = """\
fence = "{fence}"
[pool]
start_interval = 0.05
fallback_after = 4
[limits]
grace = 1
output_cap = "2 MB"
[integration]
gate = ["! grep -rqs {poison} out"]
[budget]
run_tokens = 1_000_000
[agents.claude]
enabled = true
executable = "{fakes}/claude"
[agents.codex]
enabled = true
executable = "{fakes}/codex"
[agents.gemini]
enabled = true
executable = "{fakes}/gemini"
"""


class Drawn(NamedTuple):
    """A random ticket: steps of a fake or lines of shell, and front matter."""

    steps: list[str]
    front: dict


def settings_with(fakes, *, fence):
    """Return settings with three fakes and a gate."""
    return SETTINGS.format(fakes=fakes, fence=fence, poison=POISON)


def phase_of(rng, phase, folder, first, count):
    """Generate a phase's templates: stem to text; each write ticket owns a file of its name in `folder`."""
    texts = {}
    for number in range(first, first + count):
        agent = rng.choice((*AGENTS, "command"))
        stem = f"{agent}-{number}"
        kinds = COMMANDS if agent == "command" else FAKES
        (draw,) = rng.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])
        drawn = draw(rng, f"{folder}/{stem}")
        front = {"phase": phase, "timeout": "90s", "retries": rng.choice((0, 1, 1, 2)), **drawn.front}
        front["priority"] = rng.choice(("P0", "P1", "P2"))
        if texts and rng.random() < 0.25:
            front["depends_on"] = rng.sample(sorted(texts), min(len(texts), rng.choice((1, 1, 2))))
        if agent == "command":
            texts[stem] = shell("\n".join(drawn.steps), **front)
        else:
            if rng.random() < 0.4:
                front.setdefault("fallback", [name for name in AGENTS if name != agent])
            text = template(command=None, agent=agent, **front)
            texts[stem] = text + "\n".join(["", *drawn.steps, ""])
    stem, path = f"command-{first + count}", f"{folder}/{{{{ matrix.part }}}}"
    script = f"mkdir -p {folder}; sleep 1; echo {{{{ ticket.id }}}} > {path}"
    parts = {"part": [f"part-{letter}" for letter in "abc"[: rng.randint(2, 3)]]}
    texts[stem] = shell(script, phase=phase, mode="write", owns=[path], matrix=parts)
    after = {"depends_on": [stem], "phase": phase, "timeout": "60s"}
    texts[f"command-{first + count + 1}"] = shell(f"ls {folder}", **after)
    return texts


# Agents that do their work


def writes(rng, path):
    accepted = {"acceptance": [f"test -s {path}"]} if rng.random() < 0.5 else {}
    steps = [takes(rng), step("write", path=path, text=f"{path}\n"), takes(rng), answer(rng)]
    return Drawn(steps, {"mode": "write", "owns": [path], **accepted})


def reads(rng, _path):
    return Drawn([step("say"), takes(rng), step("say", text="Half of it."), takes(rng), answer(rng)], {})


def uses_tool(rng, path):
    command = f"sleep {seconds(rng)}; mkdir -p $(dirname {path}); echo {path} > {path}"
    return Drawn([step("shell", command=command), answer(rng)], {"mode": "write", "owns": [path]})


def has_budget(rng, _path):
    return Drawn([takes(rng), answer(rng)], {"budget_tokens": 5000, "budget_usd": 1.5})


# Agents that do not


def is_limited(rng, path):
    kind = rng.choice(("rate", "rate", "quota", "overloaded"))
    drawn = writes(rng, path)
    limit = step("limit", kind=kind, seconds=rng.choice((2, 4, 8)))
    return Drawn([limit, *drawn.steps], {**drawn.front, "retries": 2})


def fails(rng, _path):
    return Drawn([takes(rng), step("error", status=rng.choice((500, 502)), message="broken")], {})


def is_cut(rng, _path):
    return Drawn([takes(rng), step("cut", bytes=20_000)], {})


def stalls(rng, _path):
    return Drawn([takes(rng), step("stall")], {"idle_timeout": "3s"})


def dies(rng, path):
    drawn = writes(rng, path)
    return Drawn([*drawn.steps[:2], step("die")], drawn.front)


def hangs(_rng, _path):
    return Drawn([step("hang")], {"timeout": "5s", "retries": 0})


def is_deaf(rng, path):
    drawn = writes(rng, path)
    return Drawn([step("ignore-term"), *drawn.steps], drawn.front)


def lies(rng, path):
    return Drawn([takes(rng), step("lie", path=path)], {"mode": "write", "owns": [path]})


def lacks(rng, path):
    drawn = writes(rng, path)
    return Drawn([*drawn.steps[:-1], step("unreported", learns=rng.random() < 0.7)], drawn.front)


def asks(rng, _path):
    return Drawn([step("ask", how=rng.choice(("text", "tool", "refused")))], {"idle_timeout": "3s"})


def refuses(rng, _path):
    return Drawn([rng.choice((step("untrusted"), step("login"), step("refuse")))], {})


def floods(_rng, _path):
    return Drawn([step("flood", seconds=0.3)], {})


def stays(rng, path):
    return Drawn([*writes(rng, path).steps, step("never-exit")], writes(rng, path).front)


def forks(rng, path):
    drawn = writes(rng, path)
    return Drawn([step("fork", seconds=600), *drawn.steps], drawn.front)


def strays(rng, path):
    drawn = writes(rng, path)
    return Drawn([step("write", path=f"{path}.stray"), *drawn.steps], drawn.front)


def spends(rng, _path):
    return Drawn([takes(rng), step("cut", bytes=20_000)], {"budget_tokens": 1, "retries": 1})


# Commands


def command_writes(rng, path):
    accepted = {"acceptance": [f"test -s {path}"]} if rng.random() < 0.5 else {}
    script = [f"sleep {seconds(rng)}", f"mkdir -p $(dirname {path})", f"echo {path} > {path}"]
    return Drawn(script, {"mode": "write", "owns": [path], **accepted})


def command_reads(rng, _path):
    return Drawn(["ls", f"sleep {seconds(rng)}", "echo seen"], {})


def leaves_daemon(rng, path):
    drawn = command_writes(rng, path)
    daemon = "(setsid sh -c 'trap \"\" TERM; sleep 600; sleep 600' >/dev/null 2>&1 &)"
    return Drawn([daemon, *drawn.steps], drawn.front)


def command_fails(rng, _path):
    return Drawn([f"sleep {seconds(rng)}", "echo no >&2", "exit 3"], {})


def poisons(rng, path):
    drawn = command_writes(rng, path)
    return Drawn([*drawn.steps[:-1], f"echo {POISON} > {path}"], {"mode": "write", "owns": [path]})


def fails_acceptance(rng, path):
    drawn = command_writes(rng, path)
    return Drawn(drawn.steps, {**drawn.front, "acceptance": ["sleep 0.2; false"]})


def seconds(rng):
    return round(rng.uniform(0.2, LONGEST), 1)


def takes(rng):
    return step("sleep", seconds=seconds(rng))


def answer(rng):
    return step("answer", **{"in": rng.randrange(10, 900), "out": rng.randrange(1, 90)})


FAKES = (
    (writes, 8), (reads, 5), (uses_tool, 6), (has_budget, 2), (is_limited, 1), (fails, 1), (is_cut, 1),
    (stalls, 1), (dies, 1), (hangs, 0.5), (is_deaf, 1), (lies, 1), (lacks, 1), (asks, 1), (refuses, 1),
    (floods, 0.5), (stays, 1), (forks, 1), (strays, 1), (spends, 1),
)  # fmt: skip
COMMANDS = (
    (command_writes, 8), (command_reads, 4), (leaves_daemon, 2), (command_fails, 1), (poisons, 0.3),
    (fails_acceptance, 0.5),
)  # fmt: skip
