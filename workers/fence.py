"""What the kernel lets a worker write. It holds nothing yet: scopes are proved before, checked after."""

from typing import Literal

Level = Literal["namespaces", "landlock", "advisory"]


def level_in_force() -> Level:
    """Tell what holds a worker while it runs; `advisory` is nothing of ours."""
    return "advisory"
