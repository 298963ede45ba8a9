"""Processes that hold slots, for the tests of slots and of their queue."""

HOLDER = {"run": "20260216_142834", "worker": "Codex-Worker-1", "at": "2026-02-16T14:28:34Z"}
