"""Who holds a slot, for the tests of slots and of the line at them."""

HOLDER = {"run": "20260216_142834", "worker": "Codex-Worker-1", "at": "2026-02-16T14:28:34Z"}
