"""A ledger on a clock of the test's own, with a list of living attempts."""

from datetime import UTC, datetime

from orchestrator.budget.ledger import Ledger
from orchestrator.budget.limits import Budget
from orchestrator.budget.prices import Cost
from orchestrator.settings.values import SpendingLimits
from workers.files.run_dir import RunDir

AT = datetime(2026, 2, 16, 14, 28, tzinfo=UTC)
DAY = "2026-02-16"


class Books:
    """A ledger, its clock, and the living attempts."""

    def __init__(self, folder):
        self.at, self.dead = AT, set()
        self.run = RunDir(folder, "20260216_142834")
        (self.run.path / "shims").mkdir(parents=True)
        self.folder = folder / "orchestrate" / "spending"
        self.ledger = Ledger(
            self.folder, lambda: self.at, lambda run, worker: not {run.id, worker} & self.dead
        )

    def start(
        self,
        worker="Codex-Worker-1",
        attempt=1,
        usd=None,
        tokens=None,
        run=None,
        *,
        worker_usd=None,
        **limits,
    ):
        """Reserve the start of an attempt."""
        budget = Budget(usd, tokens, worker_usd)
        return self.ledger.reserve(run or self.run, worker, attempt, budget, SpendingLimits(**limits))

    def spend(self, worker, usd, tokens=1000, attempt=1, run=None):
        """Start an attempt, and end it with that cost."""
        found = self.start(worker, attempt, run=run)
        self.ledger.settle(found, Cost(usd, "agent" if usd is not None else "unpriced", tokens))

    def path(self, day=DAY):
        """Return the ledger of a day."""
        return self.folder / f"{day}.jsonl"


def used(usd, tokens=10):
    """Return the usage in a worker's record."""
    return {"input_tokens": tokens, "cached_tokens": 0, "output_tokens": 0, "cost_usd": usd}
