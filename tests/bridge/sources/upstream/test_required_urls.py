"""Errors of servers of the handshake era, as clients of each era may be told them; links to be opened first."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from gaia_bridge.settings import Settings
from gaia_bridge.text.json_types import JSON
from tests.support.agents import one_tool
from tests.support.bridges import RunningBridge, both_eras, running_bridge, text_of
from tests.support.on_demand import mcp, mcp_types
from tests.support.upstreams import PATIENT, raw_server, until_ready

pytestmark = pytest.mark.anyio

LINK: JSON = {"mode": "url", "message": "Log in", "url": "https://example.com/login", "elicitationId": "e1"}
NEEDS_LINK: JSON = {"code": -32042, "message": "a link is needed", "data": {"elicitations": [LINK]}}


@asynccontextmanager
async def among_three() -> AsyncGenerator[RunningBridge]:
    """A bridge with an agent and two servers, one of which is `up`."""
    async with running_bridge(one_tool(lambda _: "worked"), settings=Settings(upstream=PATIENT)) as running_one:
        for name in ("up", "beside"):
            await running_one.bridge.add_upstream(replace(raw_server(), name=name))
        await until_ready(*running_one.bridge.sources)
        yield running_one


class User:
    """Somebody who is shown links."""

    def __init__(self, action: Any = "accept") -> None:
        self.shown: list[Any] = []
        self._action = action

    async def __call__(self, context: Any, params: Any) -> mcp_types.ElicitResult:
        self.shown.append(params.model_dump(by_alias=True, exclude_none=True))
        return mcp_types.ElicitResult(action=self._action)


@pytest.mark.requirement("P-204")
async def test_a_link_that_a_server_needs_is_shown_to_clients_of_2026_and_the_server_asked_again() -> None:
    user = User()
    async with among_three() as running_one, running_one.client(elicitation_callback=user) as client:
        result = await client.call_tool("up__refuse", {**NEEDS_LINK, "once": True})
        assert text_of(result) == "asked 2 times"
        [shown] = user.shown
        assert (shown["mode"], shown["url"], shown["message"]) == ("url", LINK["url"], LINK["message"])


@pytest.mark.requirement("P-204")
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_server_is_not_asked_again_when_the_user_does_not_open_its_link(action: str) -> None:
    async with among_three() as running_one, running_one.client(elicitation_callback=User(action)) as client:
        result = await client.call_tool("up__refuse", {**NEEDS_LINK, "once": True})
        assert result.is_error
        assert action in text_of(result)
        assert text_of(await client.call_tool("up__refuse", {"once": True})) == "asked 2 times"


@pytest.mark.requirement("P-204")
async def test_a_client_of_the_handshake_is_told_the_error_that_its_revision_has() -> None:
    async with among_three() as running_one, running_one.client("legacy") as client:
        with pytest.raises(mcp.MCPError) as refused:
            await client.call_tool("up__refuse", NEEDS_LINK)
        assert (refused.value.error.code, refused.value.error.data) == (-32042, {"elicitations": [LINK]})


@pytest.mark.requirement("P-204")
@pytest.mark.parametrize(
    ("code", "data", "told"),
    [
        (-32042, {"elicitations": [LINK]}, -32021),  # it did not declare that it opens links
        (-32042, {"elicitations": []}, -32603),
        (-32042, {"elicitations": [{"url": 5}]}, -32603),
        (-32042, None, -32603),
        (-32002, {"a": 1}, -32602),
        (-32002, None, -32602),
        (-32023, None, -32603),
        (-32099, None, -32603),
        (-32020, None, -32020),
        (-32019, None, -32019),
        (-32000, None, -32000),
        (-32100, None, -32100),
        (7, {"b": 2}, 7),
    ],
)
async def test_no_code_reaches_clients_of_2026_that_is_not_theirs(code: int, data: JSON | None, told: int) -> None:
    async with running_bridge(settings=Settings(upstream=PATIENT)) as running_one:
        await running_one.bridge.add_upstream(raw_server())
        await until_ready(*running_one.bridge.sources)
        asked = {"code": code, "message": "no", "data": data}
        async with running_one.client() as client, running_one.client("legacy") as old:
            with pytest.raises(mcp.MCPError) as refused:
                await client.call_tool("up__refuse", asked)
            assert refused.value.error.code == told
            if told != -32021:
                assert (refused.value.error.message, refused.value.error.data) == ("no", data)
            with pytest.raises(mcp.MCPError) as refused:
                await old.call_tool("up__refuse", asked)
            assert refused.value.error.code == code


@both_eras
@pytest.mark.requirement("P-205")
@pytest.mark.parametrize(
    ("uri", "words", "data"),
    [("raw://gone", "no such thing", {}), ("raw://moved", "it moved", {"to": "elsewhere"})],
)
async def test_what_is_not_there_is_told_in_the_words_of_the_server_and_the_code_of_the_client(
    mode: str, uri: str, words: str, data: JSON
) -> None:
    async with running_bridge(settings=Settings(upstream=PATIENT)) as running_one:
        await running_one.bridge.add_upstream(raw_server())
        await until_ready(*running_one.bridge.sources)
        async with running_one.client(mode, "servers/up") as client:
            with pytest.raises(mcp.MCPError) as absent:
                await client.read_resource(uri)
    error = absent.value.error
    assert (error.code, error.message) == (-32002 if mode == "legacy" else -32602, words)
    assert error.data == ((data or None) if mode == "legacy" else {"uri": uri, **data})  # untouched in its own era
