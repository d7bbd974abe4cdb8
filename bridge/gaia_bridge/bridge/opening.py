"""What is said of a bridge that nobody has opened."""

from __future__ import annotations


def expect_open(is_open: bool) -> None:
    """Refuse to work with a bridge that is not open.

    Raises:
        RuntimeError: It is not.
    """
    if not is_open:
        raise RuntimeError("the bridge is not open; use it inside `async with Bridge(...) as bridge:`")
