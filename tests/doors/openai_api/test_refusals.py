"""The guard stands in front of this API as well, and answers in its words."""

from __future__ import annotations

import json

import pytest

from gaia_bridge.server.http.error_bodies import body_for
from tests.support.chat_endpoint import ChatAgent, chatting, saying
from tests.support.on_demand import openai

pytestmark = pytest.mark.anyio

TOKEN = "t" * 43


@pytest.mark.requirement("S-3")
async def test_the_token_is_the_api_key() -> None:
    async with chatting(ChatAgent(saying("ok")), token=TOKEN) as server:
        base_url = str(server.client.base_url.join("/v1"))
        async with openai.AsyncOpenAI(base_url=base_url, api_key=TOKEN, max_retries=0) as client:
            assert [model.id for model in (await client.models.list()).data] == ["gaia-test"]
        async with openai.AsyncOpenAI(base_url=base_url, api_key="other", max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError, match="the API key") as raised:
                await client.models.list()
    assert raised.value.code == "invalid_api_key"
    assert 'error="invalid_token"' in raised.value.response.headers["www-authenticate"]


@pytest.mark.requirement("S-1")
async def test_a_page_from_elsewhere_is_refused() -> None:
    async with chatting(ChatAgent(saying("ok"))) as server:
        async with server.openai as client:
            with pytest.raises(openai.PermissionDeniedError) as raised:
                await client.with_options(default_headers={"Origin": "https://evil.example"}).models.list()
            assert raised.value.code == "origin_not_allowed"
            own = str(server.client.base_url).rstrip("/")
            assert (await client.with_options(default_headers={"Origin": own}).models.list()).data


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{}", {"content-type": "text/plain"}, 415),
        (b" " * (4 * 1024 * 1024 + 1), {"content-type": "application/json"}, 413),
        (b"[]", {"content-type": "application/json"}, 400),
        (b"{}", {"content-type": "application/json", "host": "evil.example"}, 421),
    ],
)
async def test_every_refusal_has_the_shape_of_this_api(body: bytes, headers: dict[str, str], status: int) -> None:
    async with chatting(ChatAgent(saying("ok"))) as server:
        response = await server.client.post("/v1/chat/completions", content=body, headers=headers)
    assert response.status_code == status
    assert response.json()["error"].keys() == {"message", "type", "param", "code"}
    assert "JSON-RPC" not in response.text


def test_elsewhere_refusals_are_json_rpc_errors() -> None:
    assert json.loads(body_for("/mcp", 401, "No."))["jsonrpc"] == "2.0"
    assert json.loads(body_for("/v1", 401, "No."))["jsonrpc"] == "2.0"
    assert json.loads(body_for("/v1/models", 503, "No."))["error"]["type"] == "server_error"
