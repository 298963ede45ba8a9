"""Amounts and counts as text for a person."""


def dollars(usd: float) -> str:
    """Format an amount: in cents, or finer where cents would show nothing."""
    return f"${amount(usd)}"


def amount(usd: float) -> str:
    """Format an amount without its sign."""
    return f"{usd:.2f}" if usd >= 0.005 or not usd else f"{usd:.4f}"


def thousands(number: int) -> str:
    """Format a count in short."""
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 999_950 else f"{number / 1_000_000:.1f}M"
