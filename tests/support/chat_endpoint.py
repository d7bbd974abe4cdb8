"""Agents that answer chats as a test says, and a real server with them behind it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2

from gaia_bridge.bridge import Bridge
from gaia_bridge.chat_types import ChatRequest, Reply
from gaia_bridge.server.http.access_policy import AccessPolicy
from gaia_bridge.server.http.listener import HttpServer, bind
from gaia_bridge.settings import Settings
from gaia_bridge.text.json_types import JSON
from tests.support.on_demand import openai
from tests.support.waiting import PATIENCE

__all__ = ["QUESTION", "ChatAgent", "Chatting", "QueryAgent", "Script", "chatting", "events_of", "saying"]

Script = Callable[[ChatRequest], AsyncGenerator[str | Reply]]
QUESTION: JSON = {"role": "user", "content": "How are you?"}


def failing(error: BaseException, *before: str) -> Script:
    """A script that says something, and then fails."""

    async def script(request: ChatRequest) -> AsyncGenerator[str | Reply]:
        for piece in before:
            yield piece
        raise error
        yield ""

    return script


class ChatAgent:
    """A chat model that is no MCP server.

    Args:
        script: What it answers.
        model_id: What it calls itself.
        info: What it says about itself.
    """

    def __init__(self, script: Script, model_id: str = "gaia-test", info: JSON | None = None) -> None:
        self._script = script
        self._model_id = model_id
        self._info = info or {}
        self.requests: list[ChatRequest] = []

    def get_model_id(self) -> str:
        return self._model_id

    def get_model_info(self) -> JSON:
        return self._info

    def answer_chat(self, request: ChatRequest) -> AsyncGenerator[str | Reply]:
        self.requests.append(request)
        return self._script(request)


class QueryAgent:
    """A chat model that answers in one piece.

    Args:
        answer: What `process_query` does; may be a coroutine function.
    """

    def __init__(self, answer: Callable[[str], Any]) -> None:
        self.process_query = answer

    def get_model_id(self) -> str:
        return "gaia-query"

    def get_model_info(self) -> JSON:
        return {}


def saying(*pieces: str | Reply) -> Script:
    """Always the same."""

    async def script(request: ChatRequest) -> AsyncGenerator[str | Reply]:
        for piece in pieces:
            yield piece

    return script


class Chatting:
    """A server that is being called.

    Args:
        bridge: Its bridge.
        server: It.
        client: An HTTP client of it.
    """

    def __init__(self, bridge: Bridge, server: HttpServer, client: httpx2.AsyncClient) -> None:
        self.bridge = bridge
        self.server = server
        self.client = client

    @property
    def openai(self) -> openai.AsyncOpenAI:
        """OpenAI's own client, which is to be entered. It sends nothing twice."""
        return openai.AsyncOpenAI(base_url=str(self.client.base_url.join("/v1")), api_key="none", max_retries=0)

    def body(self, model: str = "gaia-test", **fields: Any) -> JSON:
        """A request for a completion."""
        return {"model": model, "messages": [QUESTION], **fields}

    async def complete(
        self, model: str = "gaia-test", headers: Mapping[str, str] | None = None, **fields: Any
    ) -> httpx2.Response:
        """Ask for a completion."""
        return await self.client.post("/v1/chat/completions", json=self.body(model, **fields), headers=headers)

    async def text(self, **fields: Any) -> str:
        """The text of a completion."""
        response = await self.complete(**fields)
        assert response.status_code == 200, response.text
        text: str = response.json()["choices"][0]["message"]["content"]
        return text

    async def error(self, **fields: Any) -> JSON:
        """The error that a request is answered with, and its status."""
        response = await self.complete(**fields)
        assert response.json().keys() == {"error"}
        error: JSON = response.json()["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        return {**error, "status": response.status_code}


def events_of(text: str) -> list[Any]:
    """The data of the events of a stream."""
    data = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    return [item if item == "[DONE]" else json.loads(item) for item in data]


@asynccontextmanager
async def chatting(
    *agents: Any, settings: Settings | None = None, named: Mapping[str, Any] | None = None, token: str | None = None
) -> AsyncGenerator[Chatting]:
    """A real server on a port of this machine.

    Args:
        agents: Published as `a0`, `a1`.
        settings: Limits of the bridge.
        named: Further agents, by the names they are published under.
        token: What clients need, if anything.
    """
    sockets = bind("127.0.0.1", 0)
    port: int = sockets[0].getsockname()[1]
    async with Bridge(settings=settings) as bridge:
        for name, agent in {**{f"a{number}": agent for number, agent in enumerate(agents)}, **(named or {})}.items():
            await bridge.add_agent(agent, name)
        app = bridge.asgi(AccessPolicy.for_address("127.0.0.1", port, token=token))
        server = HttpServer(app, sockets=sockets, on_shutdown=[bridge.close_streams])
        with anyio.fail_after(PATIENCE * 2):
            async with (
                anyio.create_task_group() as tasks,
                httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client,
            ):
                await tasks.start(server.run)
                yield Chatting(bridge, server, client)
                tasks.cancel_scope.cancel()
