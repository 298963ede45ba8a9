"""What one runtime has of `schedule` and `budget`: its queue, rate limits, logins and ledger in one value."""

from collections.abc import Callable, Mapping
from typing import Any

import anyio

from orchestrator.budget.ledger import ledger_of
from orchestrator.log import warning
from orchestrator.project import Project
from orchestrator.schedule.login_lock import LoginLock
from orchestrator.schedule.pacing import Pacing
from orchestrator.schedule.queue import Queue
from orchestrator.schedule.rate_limits import Providers
from workers.engine.process import kill_marked
from workers.pool.slots import Pool, PoolLimits


class Schedule:
    """The slots, turns, providers, logins and budgets of one runtime; `warn` reports delays of all."""

    def __init__(self, project: Project, warn: Callable[[str], None]) -> None:
        own, settings = project.repository.own, project.settings
        limits = PoolLimits(settings.slots.total, settings.slots.agents)

        def now() -> float:
            return project.clock().timestamp()

        self.pool = Pool(own / "slots", limits, on_dirty=_clean_up)
        self.providers = Providers(own / "providers", limits, now, settings.pool.provider_pause)
        self.parked_by: dict[tuple[str, int], float] = {}
        """Worker and attempt to the time until which its provider was parked by them."""
        self.queue = Queue(limits.total, self.providers.room)
        self.pacing = Pacing(settings.pool.start_interval, settings.pool.max_memory, warn=warn)
        self.logins = LoginLock(own / "logins", project.environ, now)
        self.ledger = ledger_of(project.repository, project.clock)
        self.reserving = anyio.Lock()
        """What is left of a budget goes to the ticket whose turn is first, not to the quicker thread."""
        self.budget_waits = 0
        """Tickets that wait until others release what they hold of a budget."""


def _clean_up(holder: Mapping[str, Any]) -> None:
    """Kill a worker whose shim was killed, before its slot is given to another."""
    killed = kill_marked(str(holder.get("mark", "")))
    warning("dirty slot cleaned", killed=killed, **holder)
