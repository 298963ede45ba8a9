"""The log of the runtime, by structlog, which is imported with the first line that is shown.

It brings rich and pygments where those are installed: a fifth of all that a run imports, for lines that
most runs never print.
"""

import sys
from functools import cache
from typing import Any, Literal, NamedTuple, TextIO

from orchestrator.redaction import output_redactor

Level = Literal["info", "warning"]


class _Settings(NamedTuple):
    stream: TextIO
    is_terminal: bool
    level: Level


_chosen: list[_Settings] = []


def configure(stream: TextIO, *, is_terminal: bool, level: Level) -> None:
    """Set where lines go, in which form, and from which level on."""
    _chosen[:] = [_Settings(stream, is_terminal, level)]
    _logger.cache_clear()


def info(event: str, **facts: Any) -> None:
    """Log what happened; nothing where only warnings are wanted."""
    if _chosen and _chosen[0].level == "info":
        _logger().info(event, **facts)


def warning(event: str, **facts: Any) -> None:
    """Log a warning."""
    _logger().warning(event, **facts)


@cache
def _logger() -> Any:
    import structlog  # noqa: PLC0415 - for start-up time: see above

    stream, is_terminal, _ = _chosen[0] if _chosen else _Settings(sys.stderr, sys.stderr.isatty(), "warning")
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            lambda _, __, facts: output_redactor().value(facts)[0],
            structlog.dev.ConsoleRenderer() if is_terminal else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        logger_factory=structlog.PrintLoggerFactory(stream),
    )
    return structlog.get_logger()
