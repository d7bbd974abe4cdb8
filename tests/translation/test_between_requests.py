"""What a server of the handshake era says when nobody called: every client that can be told hears it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from gaia_bridge.model import StdioServerSpec
from tests.bridge.client.scripted import ScriptedTransport, Wire, legacy
from tests.interaction.connecting import DEADLINE, client_of, serving
from tests.interaction.results import older, wire
from tests.support.on_demand import mcp_types
from tests.support.upstreams import until_ready

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]


async def test_logs_and_finished_links_reach_every_legacy_client_that_wants_them() -> None:
    transport = ScriptedTransport(legacy(capabilities={"logging": {}}))
    loud, quiet = list[Any](), list[Any]()
    done = anyio.Event()

    async def hear_all(message: object) -> None:
        loud.append(message)
        if isinstance(message, mcp_types.ElicitCompleteNotification):
            done.set()

    async def hear_errors(message: object) -> None:
        quiet.append(message)

    with anyio.fail_after(DEADLINE):
        async with serving({}) as (url, bridge):
            await bridge.add_upstream(StdioServerSpec("up", command="none"), transport)
            [source] = bridge.sources
            await until_ready(source)
            [server] = transport.wires
            async with (
                client_of(f"{url}/sse", "legacy", message_handler=hear_all) as curious,
                client_of(f"{url}/sse", "legacy", message_handler=hear_errors) as calm,
            ):
                await older(curious).set_logging_level("debug")
                await older(calm).set_logging_level("error")
                _say(server, "debug", "a detail")
                _say(server, "error", "a fire")
                server.notify("notifications/message", {"level": "loud", "data": "no such level"})
                server.notify("notifications/elicitation/complete", {"elicitationId": "7"})
                await done.wait()
                await older(calm).send_ping()
    assert [wire(item)["params"] for item in loud if isinstance(item, mcp_types.LoggingMessageNotification)] == [
        {"level": "debug", "data": "a detail", "logger": "crier"},
        {"level": "error", "data": "a fire", "logger": "crier"},
    ]
    assert [
        wire(item)["params"]["data"] for item in quiet if isinstance(item, mcp_types.LoggingMessageNotification)
    ] == ["a fire"]


def _say(server: Wire, level: str, data: str) -> None:
    server.notify("notifications/message", {"level": level, "data": data, "logger": "crier"})
