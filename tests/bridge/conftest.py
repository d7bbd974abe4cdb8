"""Beside every server that misbehaves there is one that does not, and afterwards nothing is left over."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from gaia_bridge.server.catalog import Catalog
from gaia_bridge.sources.upstream.source import Upstream
from tests.support.bystanders import answering, nothing_left, shared_endpoint, working_server

__all__ = ["bystander", "endpoint", "nothing_left", "working"]


@pytest.fixture(scope="module")
async def working(anyio_backend: Any) -> AsyncGenerator[Upstream]:
    """The server that does not misbehave, for all tests of a module."""
    async with working_server() as upstream:
        yield upstream


@pytest.fixture(scope="module")
async def endpoint(working: Upstream) -> AsyncGenerator[Catalog]:
    """An endpoint with that server, an agent, and whatever a test starts."""
    async with shared_endpoint(working) as catalog:
        yield catalog


@pytest.fixture
async def bystander(
    working: Upstream, endpoint: Catalog, nothing_left: None, request: pytest.FixtureRequest
) -> AsyncGenerator[None]:
    """The test leaves nothing behind, and those on the same endpoint answer within a second all the while."""
    async with AsyncExitStack() as stack:
        if inspect.iscoroutinefunction(request.function):  # else the loop stands still meanwhile
            await stack.enter_async_context(answering(working, endpoint))
        yield
