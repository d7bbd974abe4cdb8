"""Requests of 2026-07-28 over HTTP: an answer is plain JSON, unless it takes longer than a response may stay silent."""

from __future__ import annotations

import anyio
import pytest

from gaia_bridge.bridge import Bridge
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.settings import HttpLimits, Settings
from tests.bridge.server.transports.test_handshake_http import Agent, Request
from tests.support.http_links import modern
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.anyio

HEAD = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "wait"}
LONG = 3600.0


@pytest.mark.parametrize(
    ("limits", "is_stream"),
    [
        (HttpLimits(quick_answer=LONG, ping_interval=0.01), True),
        (HttpLimits(quick_answer=0, ping_interval=LONG), False),
    ],
    ids=["longer than the interval of signs of life", "within it"],
)
async def test_an_answer_that_takes_long_is_in_an_event_stream(limits: HttpLimits, is_stream: bool) -> None:
    agent = Agent()
    async with Bridge(settings=Settings(http=limits)) as bridge:
        await bridge.add_agent(agent, "a")
        app = bridge.asgi(AccessPolicy.for_address("127.0.0.1", 8765))
        request = Request(app, HEAD, modern(name="wait", arguments={"secret": "done"}))
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(request)
                await until(lambda: request.begun.is_set() if is_stream else agent.calls == 1)
                agent.let.set()
    assert request.head["content-type"].startswith("text/event-stream" if is_stream else "application/json")
    assert '"done"' in request.text
