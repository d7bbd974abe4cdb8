"""One agent as a running source, and requests to it without a client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from gaia_bridge.settings import AgentLimits
from gaia_bridge.sources.agent.source import AgentSource
from gaia_bridge.text.json_types import JSON
from tests.support.upstreams import FakeRequest
from tests.support.waiting import PATIENCE

__all__ = ["call", "nothing", "of_method", "published", "returning"]


@asynccontextmanager
async def published(agent: Any, limits: AgentLimits | None = None) -> AsyncGenerator[AgentSource]:
    """A source that runs until the end of the block."""
    source = AgentSource(agent, "test", limits or AgentLimits())
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await tasks.start(source.run)
            yield source
            tasks.cancel_scope.cancel()


async def call(source: AgentSource, name: str = "work", **arguments: Any) -> JSON:
    """The result of a tool, called by a client that declares nothing."""
    return await source.call_tool(name, arguments, FakeRequest())


def nothing(*_: Any) -> None:
    """Any hook or tool."""


def returning(value: Any) -> Callable[..., Any]:
    """A tool or hook that always returns the same."""

    def run(*_: Any) -> Any:
        return value

    return run


def of_method(method: str) -> FakeRequest:
    """A request of another method than `tools/call`."""
    request = FakeRequest()
    request.method = method
    return request
