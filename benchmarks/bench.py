"""All benches in turn; each rival is measured in the same run. `bench.py start workers` runs some."""

import sys
from importlib import import_module

from lab import cores

NAMES = (
    "start",
    "commands",
    "workers",
    "pool",
    "lives",
    "scope",
    "state",
    "worktree",
    "fence",
    "redact",
    "phases",
    "messages",
    "talk",
    "agents",
)


def main(names: list[str]) -> None:
    print(f"Python {sys.version.split()[0]}, {cores()} processors")
    for name in names or NAMES:
        print(f"\n== {name}")
        import_module(f"bench_{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
