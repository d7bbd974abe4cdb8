"""The pytest plugin: the fixture `mcp_client`, which runs a test once in each era of MCP.

    async def test_greets(mcp_client):
        async with mcp_client(HelloAgent()) as client:
            assert (await client.call_tool("greet", name="Ada")).text == "Hello, Ada!"

It is `gaia_bridge.testing.connected` without `era`. Tests that use it may be coroutines without any mark. What it needs
is imported when a test uses it: the plugin is loaded by every run of pytest where the bridge is installed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

if TYPE_CHECKING:
    from gaia_bridge.bridge.testing.recording_client import RecordingClient

_OTHERS: Final = ("anyio", "asyncio", "trio")
"""Marks that say who runs a coroutine."""


@pytest.fixture(params=["legacy", "modern"])
def mcp_client(request: pytest.FixtureRequest) -> Callable[..., RecordingClient]:
    """Makes clients of one era; see `gaia_bridge.testing.connected`."""
    from gaia_bridge.bridge.testing.recording_client import connected

    return partial(connected, era=request.param)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine that uses the fixture, where nobody else is told to."""
    test: Any = pyfuncitem.obj
    if "mcp_client" not in pyfuncitem.fixturenames or not inspect.iscoroutinefunction(test):
        return None
    if any(pyfuncitem.get_closest_marker(name) for name in _OTHERS):
        return None
    import anyio

    names = cast("Any", pyfuncitem)._fixtureinfo.argnames  # those that the function itself takes
    given = {name: pyfuncitem.funcargs[name] for name in names}
    anyio.run(partial(test, **given), backend="asyncio")
    return True
