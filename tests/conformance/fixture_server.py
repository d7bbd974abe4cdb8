"""Everything that the official MCP conformance suite wants to find, on a server that is written with the SDK alone.

    python -m tests.conformance.fixture_server --era dual
    python -m tests.conformance.fixture_server --era legacy --port 3100

It stands behind the bridge in `through_runner.py`: over stdio, or with a port, as Streamable HTTP at `/mcp` and as
HTTP+SSE at `/sse`. It offers what `fixture_agent.py` does; whatever has to do with the wire is done by the SDK. Its
tools ask in the way of whoever calls: a client of the handshake era by requests, one of 2026-07-28 by their results.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import anyio
import click
import uvicorn
from mcp import MCPError
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.runner import serve_dual_era_loop, serve_loop
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    CreateMessageRequest,
    CreateMessageResult,
    ElicitRequest,
    ElicitResult,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    JSONRPCMessage,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListRootsRequest,
    ListRootsResult,
    ListToolsResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    SetLevelRequestParams,
)
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from gaia.agents.base import ToolError
from gaia_bridge.calls.results.conversion import resource_result
from gaia_bridge.content import (
    elicitation_request,
    input_required,
    roots_request,
    sampling_request,
    text,
    user_message,
)
from gaia_bridge.text.json_types import JSON
from tests.conformance.fixture_agent import (
    HANG_UP_SECONDS,
    PROMPTS,
    RESOURCES,
    STEP_SECONDS,
    TEMPLATE,
    ConformanceAgent,
)

__all__ = ["ERAS", "MODERN", "TOOLS", "make_server"]

Context = ServerRequestContext[Any, Any]

HOST: Final = "127.0.0.1"
REFUSED: Final = {"dual": "", "legacy": "server/discover", "modern": "initialize"}
"""The eras that the server can be of, and the introduction that it then does not know."""
ERAS: Final = tuple(REFUSED)
MODERN: Final = "2026-07-28"
AWAY_SECONDS: Final = 10.5
"""Where there is no stream to hang up: how long until the suite hangs up itself, which is after ten seconds."""
RESULT_BYTES: Final = 1_000_000

ANSWERS: Final[Mapping[str, tuple[type[BaseModel], type[BaseModel]]]] = {
    "elicitation/create": (ElicitRequest, ElicitResult),
    "sampling/createMessage": (CreateMessageRequest, CreateMessageResult),
    "roots/list": (ListRootsRequest, ListRootsResult),
}
CACHED: Final = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")

NAME_FORM: Final = {"name": {"type": "string"}}
CONFIRM_FORM: Final = {"ok": {"type": "boolean"}}


class InputNeededError(Exception):
    """A client of 2026-07-28 has to be asked."""

    def __init__(self, questions: Mapping[str, JSON], state: str | None) -> None:
        super().__init__("input is needed")
        self.result = InputRequiredResult.model_validate(input_required(questions, state))


class Call:
    """One call of a tool, or of a prompt.

    Args:
        ctx: The SDK's request context.
        arguments: What the tool is called with.
        server: What is called.
    """

    def __init__(self, ctx: Context, arguments: JSON, server: Fixture) -> None:
        self.ctx = ctx
        self.arguments = arguments
        self.server = server
        self.modern = ctx.protocol_version == MODERN
        params = ctx.params or {}
        self.answers: Mapping[str, JSON] = params.get("inputResponses") or {}
        self.state: str | None = params.get("requestState")

    async def log(self, message: str) -> None:
        """Send a log message; the SDK drops it where a client of 2026-07-28 does not want any."""
        send = self.ctx.session.send_log_message  # pyright: ignore[reportDeprecated]  # as old as the feature
        await send("info", message, "fixture", related_request_id=self.ctx.request_id)

    async def ask(self, questions: Mapping[str, JSON], state: str | None = None) -> Mapping[str, JSON]:
        """Ask the client.

        Args:
            questions: What, by keys of the tool's choice.
            state: Has to come back with the answers.

        Raises:
            InputNeededError: This is how the client is asked.
        """
        if not self.modern:
            return {key: await self._push(question) for key, question in questions.items()}
        if questions.keys() <= self.answers.keys() and state == self.state:
            return self.answers
        raise InputNeededError(questions, state)

    async def fill_in(self, key: str, message: str, form: JSON, state: str | None = None) -> JSON:
        """Show the user a form; nothing if they do not fill it in."""
        answers = await self.ask({key: elicitation_request(message, form)}, state)
        content: JSON | None = answers[key].get("content")
        return content or {}

    def can(self, capability: str) -> bool:
        """Whether the client declared a capability."""
        return getattr(self.ctx.session.client_capabilities, capability, None) is not None

    async def _push(self, question: JSON) -> JSON:
        request, answer = ANSWERS[question["method"]]
        belongs = ServerMessageMetadata(related_request_id=self.ctx.request_id)
        sent: Any = request.model_validate(question)
        result = await self.ctx.session.send_request(sent, answer, metadata=belongs)
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)


Tool = Callable[[Call], Awaitable[str]]

# Tools that talk while they work. All others are the agent's.

TOOLS: dict[str, Tool] = {}


def _tool(run: Tool) -> Tool:
    TOOLS[run.__name__] = run
    return run


@_tool
async def test_tool_with_progress(call: Call) -> str:
    """Reports in three steps."""
    for done in (0, 50, 100):
        await call.ctx.session.report_progress(done, 100, f"{done} of 100")
        await anyio.sleep(STEP_SECONDS)
    return "All steps are done"


@_tool
async def test_tool_with_logging(call: Call) -> str:
    """Logs three messages."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await call.log(message)
        await anyio.sleep(STEP_SECONDS)
    return "Three messages were logged"


@_tool
async def test_logging_tool(call: Call) -> str:
    """Logs one message."""
    await call.log("Diagnostic message")
    return "One message was logged"


@_tool
async def test_reconnection(call: Call) -> str:
    """Has its result only when the client comes back on another stream."""
    hang_up = call.ctx.close_sse_stream
    if hang_up is not None:
        await hang_up()
    await anyio.sleep(AWAY_SECONDS if hang_up is None else HANG_UP_SECONDS)
    return "The client came back for this"


@_tool
async def test_sampling(call: Call) -> str:
    """Asks the client's model."""
    answers = await call.ask({"question": sampling_request(call.arguments["prompt"], 100)})
    return f"LLM response: {answers['question'].get('content', {}).get('text', '(no text)')}"


async def _show_form(call: Call, message: str, form: JSON) -> str:
    answer = (await call.ask({"form": elicitation_request(message, form)}))["form"]
    return f"User response: action={answer['action']}, content={json.dumps(answer.get('content') or {})}"


@_tool
async def test_elicitation(call: Call) -> str:
    """Asks the user for a name and an address."""
    return await _show_form(
        call,
        call.arguments["message"],
        {
            "username": {"type": "string", "description": "Your name"},
            "email": {"type": "string", "description": "Your email address"},
        },
    )


@_tool
async def test_elicitation_sep1034_defaults(call: Call) -> str:
    """Shows the user a form with a default in every field."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await _show_form(call, "Check these values", {"type": "object", "properties": fields})


@_tool
async def test_elicitation_sep1330_enums(call: Call) -> str:
    """Shows the user a form with every kind of choice."""
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{number}", "title": f"Value {number}"} for number in (1, 2, 3)]
    fields = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await _show_form(call, "Choose", {"type": "object", "properties": fields})


@_tool
async def test_streaming_elicitation(call: Call) -> str:
    """Reports progress, then asks the user."""
    await call.ctx.session.report_progress(50, 100)
    return await _show_form(call, "Go on?", {"sure": {"type": "boolean"}})


@_tool
async def test_missing_capability(call: Call) -> str:
    """Refuses clients without sampling."""
    if not call.can("sampling"):
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "This tool needs a client with sampling",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return "The client has sampling"


@_tool
async def test_trigger_tool_change(call: Call) -> str:
    """Changes a tool and announces it."""
    call.server.tool_changes += 1
    await call.server.changes.publish(ToolsListChanged())
    if not call.modern:
        await call.ctx.session.send_tool_list_changed()
    return "The tools changed"


@_tool
async def test_trigger_prompt_change(call: Call) -> str:
    """Changes a prompt and announces it."""
    call.server.prompt_changes += 1
    await call.server.changes.publish(PromptsListChanged())
    if not call.modern:
        await call.ctx.session.send_prompt_list_changed()
    return "The prompts changed"


@_tool
async def test_input_required_result_elicitation(call: Call) -> str:
    """Needs a form."""
    filled_in = await call.fill_in("user_name", "What is your name?", NAME_FORM)
    return f"Hello, {filled_in.get('name', 'stranger')}!"


@_tool
async def test_input_required_result_sampling(call: Call) -> str:
    """Needs the client's model."""
    answers = await call.ask({"capital_question": sampling_request("What is the capital of France?", 100)})
    return f"The model says: {answers['capital_question'].get('content', {}).get('text', '(no text)')}"


@_tool
async def test_input_required_result_list_roots(call: Call) -> str:
    """Needs the client's root folders."""
    answers = await call.ask({"client_roots": roots_request()})
    return "Roots: " + ", ".join(root["uri"] for root in answers["client_roots"]["roots"])


@_tool
async def test_input_required_result_request_state(call: Call) -> str:
    """Needs a form, and its own state back."""
    await call.fill_in("confirm", "Please confirm", CONFIRM_FORM, "waiting")
    return "state-ok"


@_tool
async def test_input_required_result_tampered_state(call: Call) -> str:
    """Needs its own state back unaltered; the SDK refuses any other."""
    await call.fill_in("confirm", "Please confirm", CONFIRM_FORM, "sealed")
    return "The state is unaltered"


@_tool
async def test_input_required_result_multiple_inputs(call: Call) -> str:
    """Needs a form, the client's model and its root folders."""
    needed = {
        "user_name": elicitation_request("What is your name?", NAME_FORM),
        "greeting": sampling_request("Write a greeting", 50),
        "client_roots": roots_request(),
    }
    await call.ask(needed, "waiting")
    return "Everything arrived"


@_tool
async def test_input_required_result_multi_round(call: Call) -> str:
    """Needs two forms, one after the other."""
    known: JSON = json.loads(call.state or "{}")
    for key, field, message in (
        ("step1", "name", "What is your name?"),
        ("step2", "color", "Which color do you like?"),
    ):
        if field not in known:
            known |= await call.fill_in(key, message, {field: {"type": "string"}}, json.dumps(known))
    return f"{known['name']} likes {known['color']}"


@_tool
async def test_input_required_result_capabilities(call: Call) -> str:
    """Needs whatever the client is able to give."""
    possible = {
        "sampling": sampling_request("Say something", 50),
        "elicitation": elicitation_request("Say something", {"value": {"type": "string"}}),
    }
    if needed := {name: question for name, question in possible.items() if call.can(name)}:
        await call.ask(needed)
    return "Everything possible arrived"


class Fixture:
    """What the server offers."""

    def __init__(self) -> None:
        self.agent = ConformanceAgent()
        self.tools: dict[str, JSON] = {tool["name"]: tool for tool in self.agent.get_mcp_tool_definitions()}
        self.changes = InMemorySubscriptionBus()
        self.tool_changes = self.prompt_changes = 0

    def schema(self, name: str) -> JSON | None:
        """The input schema of a tool; the SDK compares headers with it."""
        return self.tools[name]["inputSchema"] if name in self.tools else None

    async def list_tools(self, _ctx: Context, _params: object) -> ListToolsResult:
        """List the tools; the one that changes them counts how often it did."""
        changes = {"_meta": {"test/changes": self.tool_changes}}
        tools = {**self.tools, "test_trigger_tool_change": self.tools["test_trigger_tool_change"] | changes}
        return ListToolsResult.model_validate({"tools": list(tools.values())})

    async def list_prompts(self, _ctx: Context, _params: object) -> ListPromptsResult:
        """List the prompts; the first one counts how often they changed."""
        first = {**PROMPTS[0], "_meta": {"test/changes": self.prompt_changes}}
        return ListPromptsResult.model_validate({"prompts": [first, *PROMPTS[1:]]})

    async def list_resources(self, _ctx: Context, _params: object) -> ListResourcesResult:
        """List the resources."""
        listed = [{"uri": uri, **definition} for uri, (definition, _) in RESOURCES.items()]
        return ListResourcesResult.model_validate({"resources": listed})

    async def list_templates(self, _ctx: Context, _params: object) -> ListResourceTemplatesResult:
        """List the one template."""
        return ListResourceTemplatesResult.model_validate({"resourceTemplates": [TEMPLATE]})

    async def call_tool(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        """Run a tool."""
        if params.name not in self.tools:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        arguments = params.arguments or {}
        try:
            if (run := TOOLS.get(params.name)) is not None:
                content: Any = text(await run(Call(ctx, arguments, self)))
            else:
                content = self.agent.execute_mcp_tool(params.name, arguments)
        except InputNeededError as needed:
            return needed.result
        except ToolError as error:
            return CallToolResult.model_validate({"content": [text(str(error))], "isError": True})
        return CallToolResult.model_validate({"content": content if isinstance(content, list) else [content]})

    async def get_prompt(self, ctx: Context, params: GetPromptRequestParams) -> GetPromptResult | InputRequiredResult:
        """Fill in a prompt."""
        if params.name not in {prompt["name"] for prompt in PROMPTS}:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name}")
        if params.name == "test_input_required_result_prompt":
            form = {"context": {"type": "string"}}
            try:
                filled_in = await Call(ctx, {}, self).fill_in("user_context", "What is it about?", form)
            except InputNeededError as needed:
                return needed.result
            said: Any = f"It is about {filled_in.get('context')}."
        else:
            said = self.agent.get_mcp_prompt(params.name, params.arguments or {})
        messages = user_message(said) if isinstance(said, str) else said
        return GetPromptResult.model_validate({"messages": messages})

    async def read_resource(self, _ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Read a resource."""
        value = self.agent.read_mcp_resource(params.uri)
        if value is None:
            raise MCPError(INVALID_PARAMS, "Resource not found", {"uri": params.uri})
        mime_type = RESOURCES[params.uri][0]["mimeType"] if params.uri in RESOURCES else TEMPLATE["mimeType"]
        return ReadResourceResult.model_validate(resource_result(value, params.uri, mime_type, RESULT_BYTES))

    async def complete(self, _ctx: Context, params: CompleteRequestParams) -> CompleteResult:
        """Suggest cities."""
        values = self.agent.complete_mcp_argument({}, params.argument.name, params.argument.value, {})
        return CompleteResult.model_validate({"completion": {"values": values, "total": len(values), "hasMore": False}})


async def _done(_ctx: Context, _params: object) -> EmptyResult:
    return EmptyResult()


async def _without(refused: str, ctx: Context, call_next: CallNext) -> HandlerResult:
    if ctx.method == refused:
        raise MCPError(METHOD_NOT_FOUND, "Method not found")
    return await call_next(ctx)


def make_server(era: str) -> Server[Any]:
    """The server.

    Args:
        era: One of `ERAS`: with which clients it speaks.
    """
    fixture = Fixture()
    server: Server[Any] = Server(
        "conformance-server",
        version="1.0.0",
        cache_hints={method: CacheHint(ttl_ms=300_000, scope="public") for method in CACHED},
        get_tool_input_schema=fixture.schema,
        on_list_tools=fixture.list_tools,
        on_call_tool=fixture.call_tool,
        on_list_resources=fixture.list_resources,
        on_list_resource_templates=fixture.list_templates,
        on_read_resource=fixture.read_resource,
        on_subscribe_resource=_done,
        on_unsubscribe_resource=_done,
        on_subscriptions_listen=ListenHandler(fixture.changes),
        on_list_prompts=fixture.list_prompts,
        on_get_prompt=fixture.get_prompt,
        on_completion=fixture.complete,
    )
    # Not through the constructor, which warns.
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, _done)
    server.middleware.append(partial(_without, REFUSED[era]))
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=server.name))
    return server


class Memory(EventStore):
    """Every event of every stream."""

    def __init__(self) -> None:
        self._events: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep an event."""
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send what followed on the same stream."""
        number = int(last_event_id)
        stream = self._events[number - 1][0]
        for following, (other, message) in enumerate(self._events[number:], number + 1):
            if other == stream and message is not None:
                await send_callback(EventMessage(message, str(following)))
        return stream


async def serve_streams(server: Server[Any], era: str, read: Any, write: Any) -> None:
    """Serve one client over a pair of streams."""
    # The SDK's usual loop, once asked for `server/discover`, takes no handshake, even if that was refused.
    serve = serve_loop if era == "legacy" else serve_dual_era_loop
    changes = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
    options = server.create_initialization_options(changes)
    await serve(server, read, write, lifespan_state={}, init_options=options)


async def serve_stdio(era: str) -> None:
    """Serve whoever started this process."""
    async with stdio_server() as (read, write):
        await serve_streams(make_server(era), era, read, write)


def serve_http(era: str, port: int) -> None:
    """Serve on both HTTP transports, each of which is a server of its own."""
    sse, behind_sse = SseServerTransport("/messages/"), make_server(era)

    async def connect(request: Request) -> Response:
        channel = sse.connect_sse(request.scope, request.receive, request._send)  # pyright: ignore[reportPrivateUsage]
        async with channel as (read, write):
            await serve_streams(behind_sse, era, read, write)
        return Response()

    routes: list[Any] = [Route("/sse", connect), Mount("/messages/", app=sse.handle_post_message)]
    app = make_server(era).streamable_http_app(event_store=Memory(), retry_interval=100, custom_starlette_routes=routes)
    uvicorn.run(app, host=HOST, port=port, log_level="warning", http="h11", timeout_graceful_shutdown=1)


@click.command(help=__doc__.partition("\n")[0] if __doc__ else None)
@click.option("--era", type=click.Choice(ERAS), default="dual", show_default=True, help="With which clients it speaks.")
@click.option("--port", type=int, help="Serve over HTTP there, instead of over stdio.")
def main(era: str, port: int | None) -> None:
    """Serve until stopped."""
    logging.basicConfig(level=logging.WARNING)
    if port is None:
        anyio.run(serve_stdio, era)
    else:
        serve_http(era, port)


if __name__ == "__main__":
    main()
