"""The one way a percentage is computed, so that every file and report shows the same."""


def percent(done: int, total: int) -> int:
    """Give whole percents, rounded half up; 100 only where all are done, 0 only where none is."""
    if done <= 0 or total <= 0:
        return 0
    if done >= total:
        return 100
    return min(99, max(1, (200 * done + total) // (2 * total)))
