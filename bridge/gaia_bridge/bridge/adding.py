"""Adds several sources at the same time, which are published one after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise

import anyio

from gaia_bridge.errors import BridgeError


async def added_in_order(
    names: Sequence[str], add: Callable[[str, anyio.Event], Awaitable[None]]
) -> dict[str, BridgeError]:
    """Add them.

    Args:
        names: What they are called, in the order in which they are published.
        add: Adds one: reads what it offers, then waits for its turn to publish it.

    Returns:
        For each that could not be added, why.
    """
    refused: dict[str, BridgeError] = {}

    async def add_one(name: str, turn: anyio.Event, next_turn: anyio.Event) -> None:
        try:
            await add(name, turn)
        except BridgeError as error:
            refused[name] = error
        await turn.wait()  # also where it was refused before its turn
        next_turn.set()

    turns = [anyio.Event() for _ in range(len(names) + 1)]
    turns[0].set()
    async with anyio.create_task_group() as tasks:
        for name, (turn, next_turn) in zip(names, pairwise(turns), strict=True):
            tasks.start_soon(add_one, name, turn, next_turn)
    return {name: refused[name] for name in names if name in refused}
