"""The time that a lead agent waits for an answer, beside the interpreter alone."""

import sys

from lab import ORCHESTRATE, medians, repository, say


def main() -> None:
    with repository({"command-1": '---\nphase: phase-1\ntitle: One\ncommand: ["true"]\n---\nx\n'}) as folder:
        found = medians(
            {
                "python -c pass": [sys.executable, "-c", "pass"],
                "--version": [ORCHESTRATE, "--version"],
                "--help": [ORCHESTRATE, "--help"],
                "status --json": [ORCHESTRATE, "status", "--json"],
            },
            folder,
            rounds=15,
        )
    bare = found.pop("python -c pass")
    say("python -c pass", f"{bare * 1000:.1f} ms")
    for name, wall in found.items():
        target = "<= 8" if name.startswith("status") else "<= 5"
        say(f"orchestrate {name}", f"{wall * 1000:.1f} ms = {wall / bare:.1f} x", target)


if __name__ == "__main__":
    main()
