"""The error of this package: a worker that could not be prepared or started."""


class WorkerError(Exception):
    """Raised for a worker that could not be prepared or started; `reason` is one plain line."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class ProgramMissingError(WorkerError):
    """Raised where an agent's program is not there at that moment; nothing has begun."""
