"""Amounts and counts as a person reads them."""


def dollars(usd: float) -> str:
    """Write an amount: in cents, or finer where that would say nothing."""
    return f"${amount(usd)}"


def amount(usd: float) -> str:
    """Write an amount without its sign."""
    return f"{usd:.2f}" if usd >= 0.005 or not usd else f"{usd:.4f}"


def thousands(number: int) -> str:
    """Write a count in short."""
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 999_950 else f"{number / 1_000_000:.1f}M"
