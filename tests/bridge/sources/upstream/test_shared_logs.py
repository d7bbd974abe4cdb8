"""Log messages of a server that several clients use at once: each to whom it is for, and to nobody else."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing
from typing import Any

import anyio
import pytest

from gaia_bridge.text.json_types import JSON
from tests.bridge.client.scripted import Script, Wire, legacy
from tests.conformance.raw_clients import RawClient, connect_sse
from tests.support.agents import one_tool
from tests.translation.test_beyond_the_core import publishing

pytestmark = pytest.mark.anyio

LEVELS = {"ada": "info", "ben": "info", "cleo": "error"}
"""What each client wants to hear; Cleo calls nothing."""


def narrator(*, says: bool) -> Script:
    """A server that says something about each of two calls when both are in flight, and then something about neither.

    Args:
        says: Whether it says so on the streams of the calls, as over HTTP.
    """

    async def narrate(wire: Wire) -> None:
        calls: list[JSON] = []

        def tell(data: str, level: str, call: JSON | None = None) -> None:
            during = call["id"] if says and call is not None else None
            wire.notify("notifications/message", {"level": level, "data": data}, during)

        while True:
            request = await wire.next()
            if request["method"] == "tools/list":
                wire.answer(request, {"tools": [{"name": "wait", "inputSchema": {"type": "object"}}]})
            elif request["method"] == "tools/call":
                calls.append(request)
            elif "id" in request:
                wire.answer(request, {})
            if len(calls) == 2:
                for call in calls:
                    tell(f"about {call['params']['arguments']['who']}", "info", call)
                tell("about nobody", "info")
                tell("a fire", "error")
                while calls:
                    wire.answer(calls.pop(), {"content": []})

    return legacy(narrate, capabilities={"tools": {}, "logging": {}})


class Listener:
    """A client that is connected by one stream, and what it was told on it."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        self.told: list[str] = []

    async def until(self, number: int, method: str, params: JSON, more: Callable[[], bool] = lambda: True) -> None:
        """Send a request, and listen until it is answered and something else holds."""
        answered = False
        following: AsyncGenerator[Any] = self._client.exchange(
            {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        )
        async with aclosing(following):
            async for message in following:
                answered = answered or message.get("id") == number
                if message.get("method") == "notifications/message":
                    self.told.append(message["params"]["data"])
                if answered and more():
                    return


@pytest.mark.requirement("F-344")
@pytest.mark.parametrize("path", ["", "/servers/up0"], ids=["of two sources", "of one server"])
@pytest.mark.parametrize("says", [True, False])
async def test_what_is_said_about_a_call_is_for_its_caller_and_what_is_about_none_for_all(
    says: bool, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with publishing(narrator(says=says)) as (url, bridge, _), AsyncExitStack() as stack:
        await bridge.add_agent(one_tool(lambda _: "worked"), "agent")
        people: dict[str, Listener] = {}
        for name, level in LEVELS.items():
            client = await stack.enter_async_context(connect_sse(f"{url}{path}/sse"))
            await client.initialize("2025-06-18")
            people[name] = Listener(client)
            await people[name].until(100, "logging/setLevel", {"level": level})
        everything = {name: [f"about {name}", "about nobody", "a fire"] if says else [] for name in ("ada", "ben")}
        everything["cleo"] = ["a fire"] if says else []

        async def listen(name: str) -> None:
            def heard() -> bool:
                return len(people[name].told) >= len(everything[name])

            call = {"name": "wait" if path else "up0__wait", "arguments": {"who": name}}
            nothing: JSON = {}
            method, params = ("ping", nothing) if name == "cleo" else ("tools/call", call)
            await people[name].until(101, method, params, more=heard)
            await people[name].until(102, "ping", {})

        async with anyio.create_task_group() as tasks:
            for name in people:
                tasks.start_soon(listen, name)
        assert {name: sorted(listener.told) for name, listener in people.items()} == {
            name: sorted(told) for name, told in everything.items()
        }
        ours = [text for text in caplog.messages if "about ada" in text]
        assert len(ours) == (0 if says else 1), "what is told nobody is in our log"
