"""One server, written with whatever framework is named: `small_server.py mcp.server.fastmcp:FastMCP`.

The frameworks of the two generations of the Python SDK, and FastMCP, agree on what is used here. Runs where they are
installed, which is not where the type checkers look.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def add(a: float, b: float = 1) -> float:
    """Adds two numbers — exactly."""
    return a + b


def fail(reason: str) -> str:
    """Fails."""
    raise ValueError(reason)


def greet(name: str) -> str:
    """Greets somebody."""
    return f"Say hello to {name}."


def today() -> str:
    """What is to be done"""
    return "Buy milk — today."


def note(day: str) -> str:
    """The note of a day"""
    return f"Buy milk — {day}."


def main(reference: str) -> None:
    """Serve over stdio.

    Args:
        reference: The class of the framework's servers, as `module:Class`.
    """
    module, _, name = reference.partition(":")
    server: Any = getattr(import_module(module), name)("small")
    server.tool()(add)
    server.tool()(fail)
    server.prompt()(greet)
    server.resource("note://today", mime_type="text/plain")(today)
    server.resource("note://{day}", mime_type="text/plain")(note)
    server.run()


if __name__ == "__main__":
    main(sys.argv[1])
