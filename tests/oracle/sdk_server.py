"""The agent of `endpoints` as a server of the SDK, which takes long to import: see `tests.support.on_demand`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_PARAMS,
    CompleteResult,
    Completion,
    EmptyResult,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ReadResourceResult,
    SetLevelRequestParams,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from gaia_bridge.errors import ToolError
from gaia_bridge.settings import Settings
from gaia_bridge.text.json_types import JSON, is_object
from tests.oracle.endpoints import ASKED, MODERN, PROMPTS, QUESTION, RESOURCES, TEMPLATES, TOOLS, Agent, confirmed

__all__ = ["make", "streams"]

Write = Callable[[bytes], Awaitable[None]]
Read = Callable[[], Awaitable[Any]]

_KEPT: Final[JSON] = {"ttlMs": 0, "cacheScope": "private"}
_LISTED: Final[JSON] = {**_KEPT, "ttlMs": round(Settings().list_ttl)}


class _Handlers:
    """What the agent does, as handlers of the SDK."""

    def __init__(self) -> None:
        self._agent = Agent()

    async def list_tools(self, _: Any, params: Any) -> ListToolsResult:
        _check_cursor(params)
        return ListToolsResult.model_validate({"tools": TOOLS, **_LISTED})

    async def list_prompts(self, _: Any, params: Any) -> ListPromptsResult:
        _check_cursor(params)
        return ListPromptsResult.model_validate({"prompts": PROMPTS, **_LISTED})

    async def list_resources(self, _: Any, params: Any) -> ListResourcesResult:
        _check_cursor(params)
        return ListResourcesResult.model_validate({"resources": RESOURCES, **_LISTED})

    async def list_templates(self, _: Any, params: Any) -> ListResourceTemplatesResult:
        _check_cursor(params)
        return ListResourceTemplatesResult.model_validate({"resourceTemplates": TEMPLATES, **_LISTED})

    async def call_tool(self, context: Any, params: Any) -> Any:
        if params.name == "ask":
            return await _confirm(context, params.input_responses)
        if params.name not in [tool["name"] for tool in TOOLS]:
            raise MCPError(INVALID_PARAMS, "Unknown tool")
        try:
            result = self._agent.execute_mcp_tool(params.name, params.arguments or {})
        except (KeyError, ToolError) as error:
            result = {"content": [{"type": "text", "text": str(error)}], "isError": True}
        return {"resultType": "complete", **result} if is_object(result) else result

    async def get_prompt(self, _: Any, params: Any) -> GetPromptResult:
        if params.name != "greet" or "whom" not in (params.arguments or {}):
            raise MCPError(INVALID_PARAMS, "Unknown prompt, or an argument is missing")
        text = self._agent.get_mcp_prompt(params.name, params.arguments)
        return GetPromptResult.model_validate(
            {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
        )

    async def read(self, context: Any, params: Any) -> ReadResourceResult:
        text = self._agent.read_mcp_resource(params.uri)
        if text is None:
            code = INVALID_PARAMS if context.protocol_version == MODERN else -32002
            raise MCPError(code, "Resource not found", {"uri": params.uri})
        contents = [{"uri": params.uri, "text": text, "mimeType": "text/plain"}]
        return ReadResourceResult.model_validate({"contents": contents, **_KEPT})

    async def nothing(self, *_: Any) -> EmptyResult:
        return EmptyResult()

    async def complete(self, _: Any, params: Any) -> CompleteResult:
        named = (getattr(params.ref, "name", None), getattr(params.ref, "uri", None))
        if "greet" not in named and "odd://{number}" not in named:
            raise MCPError(INVALID_PARAMS, "Unknown reference")
        return CompleteResult(completion=Completion(values=["world"], total=1))


async def _confirm(context: Any, answers: Any) -> Any:
    if context.protocol_version != MODERN:
        message, schema = QUESTION["message"], QUESTION["requestedSchema"]
        answer = await context.session.elicit_form(message, schema, related_request_id=context.request_id)
    elif answers is None:
        return InputRequiredResult.model_validate({"inputRequests": ASKED, "requestState": "asked"})
    else:
        answer = answers["sure"]
    return {"resultType": "complete", **confirmed(answer.model_dump())}


def _check_cursor(params: Any) -> None:
    if params is not None and params.cursor is not None:
        raise MCPError(INVALID_PARAMS, "Unknown cursor")


def make() -> Server[Any]:
    """The server, which is not connected."""
    handlers = _Handlers()
    listen = ListenHandler(InMemorySubscriptionBus())
    server: Server[Any] = Server(
        "theirs",
        version="1",
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read,
        on_subscribe_resource=handlers.nothing,
        on_unsubscribe_resource=handlers.nothing,
        on_subscriptions_listen=listen,
        on_completion=handlers.complete,
    )
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, handlers.nothing)
    return server


@asynccontextmanager
async def streams() -> AsyncGenerator[tuple[Write, Read]]:
    """The server on streams of messages: takes what `stdio_server()` makes of a line, and gives messages."""
    server = make()
    async with create_client_server_memory_streams() as ((reading, writing), server_streams):

        async def write(line: bytes) -> None:
            try:
                message = jsonrpc_message_adapter.validate_json(line.decode(errors="replace"), by_name=False)
            except ValidationError as error:
                await writing.send(error)
            else:
                await writing.send(SessionMessage(message))

        async def read() -> Any:
            item = await reading.receive()
            assert isinstance(item, SessionMessage)
            return item.message.model_dump(by_alias=True, exclude_unset=True, mode="json")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run, *server_streams, server.create_initialization_options())
            yield write, read
            tasks.cancel_scope.cancel()
