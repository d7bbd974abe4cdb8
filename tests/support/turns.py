"""Several who work at once, step by step, in the order that a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from hypothesis import strategies as st

from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.errors import AnswerError, ClientCapabilityError, ToolError
from gaia_bridge.text.json_types import JSON

__all__ = ["STEPS", "Turns", "Worker", "in_turns", "secret"]

STEPS: Final[tuple[str, ...]] = ("ask", "look", "log", "report", "fail")
"""What a `Worker` does by itself."""

_FORM: Final[JSON] = {"type": "object", "properties": {"word": {"type": "string"}}}


def secret(name: str) -> str:
    """What nobody else may see."""
    return f"secret of {name}"


def in_turns(steps: dict[str, list[str]]) -> st.SearchStrategy[tuple[dict[str, list[str]], Sequence[str]]]:
    """The steps of all, and whose turn it is each time."""
    return st.tuples(st.just(steps), st.permutations([name for name, own in steps.items() for _ in own]))


class Turns:
    """Whose step is next. Only on one event loop.

    Args:
        order: A name for each step.
    """

    def __init__(self, order: Sequence[str]) -> None:
        self._order = list(order)
        self._news = asyncio.Condition()

    @asynccontextmanager
    async def step(self, name: str) -> AsyncGenerator[None]:
        """Wait for a step."""
        async with self._news:
            await self._news.wait_for(lambda: self._order[0] == name)
        try:
            yield
        finally:
            await self._pass(lambda: self._order.pop(0))

    async def leave(self, name: str) -> None:
        """Take no further steps."""

        def remove() -> None:
            self._order = [other for other in self._order if other != name]

        await self._pass(remove)

    async def _pass(self, change: Callable[[], object]) -> None:
        async with self._news:
            change()
            self._news.notify_all()


class Worker:
    """A tool that works for several at once. All that it says in a call has the secret of whose call it is.

    Args:
        order: Whose step is next.
    """

    def __init__(self, order: Sequence[str]) -> None:
        self._turns = Turns(order)
        self.answered: list[tuple[str, str]] = []
        """Whose calls got which answers to what they asked."""

    async def work(self, arguments: JSON) -> str:
        """Take the `steps` of `who`. One that is not known is asked for by its name, and never ends by itself."""
        name: str = arguments["who"]
        try:
            for step in arguments["steps"]:
                async with self._turns.step(name):
                    await self._take(step, name)
        finally:
            await self._turns.leave(name)
        return secret(name)

    async def _take(self, step: str, name: str) -> None:
        request = get_request_context()
        match step:
            case "report":
                request.report_progress(1, message=secret(name))
            case "log":
                request.log(secret(name), "error")
            case "fail":
                raise ToolError(f"{secret(name)} failed")
            case "ask" | "look":
                with suppress(AnswerError, ClientCapabilityError):
                    asked = request.aelicit(secret(name), _FORM) if step == "ask" else request.alist_roots()
                    self.answered.append((name, str(await asked)))
            case _:
                await request.aelicit(f"{step} {secret(name)}", _FORM)
                await asyncio.Event().wait()
