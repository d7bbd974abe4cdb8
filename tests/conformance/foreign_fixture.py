#!/usr/bin/env python3
"""Fixture server for @modelcontextprotocol/conformance, on the low-level `mcp` 2.x Server.

It offers every tool / prompt / resource the suite's *server* scenarios look for, at both
protocol eras (initialize handshake <= 2025-11-25, stateless 2026-07-28).

  everything_fixture.py --transport stdio
  everything_fixture.py --transport http --port 3100 [--json] [--stateless] [--no-event-store]
  everything_fixture.py --transport sse  --port 3101

Not written by the authors of gaia-mcp-bridge: `foreign_runner.py` asks what others expect of a server. Written from the scenarios' stated requirements; needs only `mcp>=2.3`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from typing import Any, Awaitable, Callable

import mcp_types as t
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="

Handler = Callable[..., Awaitable[Any]]
TOOLS: dict[str, tuple[t.Tool, Handler]] = {}
bus = InMemorySubscriptionBus()


def text(s: str) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(type="text", text=s)])


def tool(name: str, description: str, schema: dict[str, Any] | None = None):
    def deco(fn: Handler) -> Handler:
        TOOLS[name] = (
            t.Tool(name=name, description=description, input_schema=schema or {"type": "object", "properties": {}}),
            fn,
        )
        return fn

    return deco


# ---------------------------------------------------------------- plain results
@tool("test_simple_text", "Tests simple text content response")
async def _(ctx, p):
    return text("This is a simple text response for testing.")


@tool("test_image_content", "Tests image content response")
async def _(ctx, p):
    return t.CallToolResult(content=[t.ImageContent(type="image", data=PNG, mime_type="image/png")])


@tool("test_audio_content", "Tests audio content response")
async def _(ctx, p):
    return t.CallToolResult(content=[t.AudioContent(type="audio", data=WAV, mime_type="audio/wav")])


def _embedded(uri: str, mime: str, body: str) -> t.EmbeddedResource:
    return t.EmbeddedResource(
        type="resource", resource=t.TextResourceContents(uri=uri, mime_type=mime, text=body)
    )


@tool("test_embedded_resource", "Tests embedded resource content response")
async def _(ctx, p):
    return t.CallToolResult(
        content=[_embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]
    )


@tool("test_multiple_content_types", "Tests text + image + resource in one response")
async def _(ctx, p):
    return t.CallToolResult(
        content=[
            t.TextContent(type="text", text="Multiple content types test:"),
            t.ImageContent(type="image", data=PNG, mime_type="image/png"),
            _embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
        ]
    )


@tool("test_error_handling", "Tests error response handling")
async def _(ctx, p):
    return t.CallToolResult(
        is_error=True,
        content=[t.TextContent(type="text", text="This tool intentionally returns an error for testing")],
    )


# ---------------------------------------------------------------- notifications
async def _log(ctx, message: str) -> None:
    await ctx.session.send_log_message("info", message, logger="fixture", related_request_id=ctx.request_id)


@tool("test_tool_with_logging", "Emits three info log messages while running")
async def _(ctx, p):
    for i, m in enumerate(("Tool execution started", "Tool processing data", "Tool execution completed")):
        if i:
            await asyncio.sleep(0.05)
        await _log(ctx, m)
    return text("Tool with logging executed successfully")


@tool("test_logging_tool", "Emits a log message only when the request opted in (2026-07-28)")
async def _(ctx, p):
    await _log(ctx, "Diagnostic trace")  # the SDK drops it unless _meta.../logLevel asked for it
    return text("Logging evaluated")


@tool("test_tool_with_progress", "Reports progress 0/50/100 of 100")
async def _(ctx, p):
    for i, v in enumerate((0, 50, 100)):
        if i:
            await asyncio.sleep(0.05)
        await ctx.session.report_progress(v, 100, f"Completed step {v} of 100")
    return text("Progress reported")


@tool("test_streaming_elicitation", "Streams a progress notification, then the result (2026-07-28)")
async def _(ctx, p):
    await ctx.session.report_progress(50, 100, "half way")
    return text("Streaming complete")


@tool("test_reconnection", "Closes the SSE stream mid-call; the result comes after reconnection (SEP-1699)")
async def _(ctx, p):
    await _log(ctx, "Before disconnect")
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    await asyncio.sleep(0.2)
    await _log(ctx, "After reconnect")
    return text("Reconnection test completed successfully")


# ---------------------------------------------------------------- server -> client requests (handshake era)
@tool(
    "test_sampling",
    "Asks the client for an LLM completion",
    {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]},
)
async def _(ctx, p):
    r = await ctx.session.create_message(
        messages=[
            t.SamplingMessage(role="user", content=t.TextContent(type="text", text=p.arguments["prompt"]))
        ],
        max_tokens=100,
        related_request_id=ctx.request_id,
    )
    return text(f"LLM response: {getattr(r.content, 'text', 'no text')}")


async def _elicit(ctx, message: str, schema: dict[str, Any], prefix: str) -> t.CallToolResult:
    r = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return text(f"{prefix}: action={r.action}, content={json.dumps(r.content or {})}")


@tool(
    "test_elicitation",
    "Asks the user for username and email",
    {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]},
)
async def _(ctx, p):
    schema = {
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    }
    return await _elicit(ctx, p.arguments["message"], schema, "User response")


@tool("test_elicitation_sep1034_defaults", "Elicitation with defaults for every primitive type")
async def _(ctx, p):
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
        "required": [],
    }
    return await _elicit(ctx, "Please provide user information", schema, "Elicitation completed")


@tool("test_elicitation_sep1330_enums", "Elicitation with the five enum schema variants")
async def _(ctx, p):
    opts = ["option1", "option2", "option3"]
    titled = [{"const": f"value{i}", "title": f"{w} Option"} for i, w in ((1, "First"), (2, "Second"), (3, "Third"))]
    schema = {
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": opts},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": opts}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
        "required": [],
    }
    return await _elicit(ctx, "Please select values", schema, "Elicitation completed")


# ---------------------------------------------------------------- SEP-2575 / SEP-2243 (2026-07-28)
@tool("test_missing_capability", "Requires the client's sampling capability, else -32021")
async def _(ctx, p):
    caps = ctx.session.client_capabilities
    if caps is None or caps.sampling is None:
        raise MCPError(
            code=t.MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="This tool requires the client 'sampling' capability",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return text("Client declared sampling")


@tool(
    "test_x_mcp_header",
    "Its argument is mirrored into the Mcp-Param-Region header",
    {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
)
async def _(ctx, p):
    return text(f"region={(p.arguments or {}).get('region')}")


@tool("test_trigger_tool_change", "Announces a tool list change")
async def _(ctx, p):
    await bus.publish(ToolsListChanged())
    if ctx.protocol_version != "2026-07-28":
        await ctx.session.send_tool_list_changed()
    return text("tool list changed")


@tool("test_trigger_prompt_change", "Announces a prompt list change")
async def _(ctx, p):
    await bus.publish(PromptsListChanged())
    if ctx.protocol_version != "2026-07-28":
        await ctx.session.send_prompt_list_changed()
    return text("prompt list changed")


TOOLS["json_schema_2020_12_tool"] = (
    t.Tool(
        name="json_schema_2020_12_tool",
        description="Tool with JSON Schema 2020-12 features",
        input_schema={
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                }
            },
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": False,
        },
    ),
    TOOLS["test_simple_text"][1],
)


# ---------------------------------------------------------------- SEP-2322 input_required results (2026-07-28)
def _ask(message: str, **props: str) -> t.ElicitRequest:
    return t.ElicitRequest(
        params=t.ElicitRequestFormParams(
            message=message,
            requested_schema={
                "type": "object",
                "properties": {k: {"type": v} for k, v in props.items()},
                "required": list(props),
            },
        )
    )


def _sample(prompt: str, max_tokens: int) -> t.CreateMessageRequest:
    return t.CreateMessageRequest(
        params=t.CreateMessageRequestParams(
            messages=[t.SamplingMessage(role="user", content=t.TextContent(type="text", text=prompt))],
            max_tokens=max_tokens,
        )
    )


def _need(state: str | None = None, **requests: Any) -> t.InputRequiredResult:
    return t.InputRequiredResult(input_requests=requests, request_state=state)


def _content(answer: Any) -> dict[str, Any]:
    return (getattr(answer, "content", None) or {}) if isinstance(answer, t.ElicitResult) else {}


@tool("test_input_required_result_elicitation", "One elicitation round")
async def _(ctx, p):
    r = p.input_responses or {}
    if "user_name" in r:
        return text(f"Hello, {_content(r['user_name']).get('name', 'stranger')}!")
    return _need(user_name=_ask("What is your name?", name="string"))


@tool("test_input_required_result_sampling", "One sampling round")
async def _(ctx, p):
    r = p.input_responses or {}
    if "capital_question" in r:
        return text(f"Model said: {getattr(getattr(r['capital_question'], 'content', None), 'text', '?')}")
    return _need(capital_question=_sample("What is the capital of France?", 100))


@tool("test_input_required_result_list_roots", "One roots/list round")
async def _(ctx, p):
    r = p.input_responses or {}
    if "client_roots" in r:
        return text("Roots: " + ", ".join(str(x.uri) for x in getattr(r["client_roots"], "roots", [])))
    return _need(client_roots=t.ListRootsRequest())


@tool("test_input_required_result_request_state", "requestState round trip")
async def _(ctx, p):
    if "confirm" in (p.input_responses or {}) and p.request_state == "nonce-1":
        return text("state-ok: confirmation received")
    return _need("nonce-1", confirm=_ask("Please confirm", ok="boolean"))


@tool("test_input_required_result_multiple_inputs", "Elicitation + sampling + roots together")
async def _(ctx, p):
    if {"user_name", "greeting", "client_roots"} <= set(p.input_responses or {}):
        return text("All inputs received")
    return _need(
        "multi",
        user_name=_ask("What is your name?", name="string"),
        greeting=_sample("Generate a greeting", 50),
        client_roots=t.ListRootsRequest(),
    )


@tool("test_input_required_result_multi_round", "Three rounds with evolving requestState")
async def _(ctx, p):
    r = p.input_responses or {}
    st = json.loads(p.request_state) if p.request_state else {"round": 0}
    if st["round"] == 1 and "step1" in r:
        nxt = {"round": 2, "name": _content(r["step1"]).get("name")}
        return _need(json.dumps(nxt), step2=_ask("Step 2: What is your favorite color?", color="string"))
    if st["round"] == 2 and "step2" in r:
        return text(f"{st.get('name')} likes {_content(r['step2']).get('color')}")
    return _need(json.dumps({"round": 1}), step1=_ask("Step 1: What is your name?", name="string"))


@tool("test_input_required_result_tampered_state", "Rejects a tampered requestState")
async def _(ctx, p):
    if p.request_state is None:
        return _need("sealed", confirm=_ask("Please confirm", ok="boolean"))
    return text("integrity-ok: state verified")  # RequestStateBoundary has refused anything tampered


@tool("test_input_required_result_capabilities", "Asks only for what the client declared")
async def _(ctx, p):
    caps = ctx.session.client_capabilities
    req: dict[str, Any] = {}
    if caps is not None and caps.sampling is not None:
        req["sample_input"] = _sample("Sample request", 50)
    if caps is not None and caps.elicitation is not None:
        req["elicit_input"] = _ask("Elicitation input", value="string")
    if p.input_responses or not req:
        return text("capabilities-ok")
    return _need("caps", **req)


# ---------------------------------------------------------------- prompts
PROMPTS = [
    t.Prompt(name="test_simple_prompt", description="A simple prompt without arguments"),
    t.Prompt(
        name="test_prompt_with_arguments",
        description="A prompt with required arguments",
        arguments=[
            t.PromptArgument(name="arg1", description="First test argument", required=True),
            t.PromptArgument(name="arg2", description="Second test argument", required=True),
        ],
    ),
    t.Prompt(
        name="test_prompt_with_embedded_resource",
        description="A prompt that embeds a resource",
        arguments=[t.PromptArgument(name="resourceUri", description="URI of the resource to embed", required=True)],
    ),
    t.Prompt(name="test_prompt_with_image", description="A prompt with image content"),
    t.Prompt(name="test_input_required_result_prompt", description="A prompt that needs elicitation (2026-07-28)"),
]


def _msg(content: Any) -> t.PromptMessage:
    return t.PromptMessage(role="user", content=content)


def _txt(s: str) -> t.TextContent:
    return t.TextContent(type="text", text=s)


async def get_prompt(ctx, p: t.GetPromptRequestParams):
    a = p.arguments or {}
    if p.name == "test_simple_prompt":
        return t.GetPromptResult(messages=[_msg(_txt("This is a simple prompt for testing."))])
    if p.name == "test_prompt_with_arguments":
        return t.GetPromptResult(
            messages=[_msg(_txt(f"Prompt with arguments: arg1='{a.get('arg1')}', arg2='{a.get('arg2')}'"))]
        )
    if p.name == "test_prompt_with_embedded_resource":
        return t.GetPromptResult(
            messages=[
                _msg(_embedded(a["resourceUri"], "text/plain", "Embedded resource content for testing.")),
                _msg(_txt("Please process the embedded resource above.")),
            ]
        )
    if p.name == "test_prompt_with_image":
        return t.GetPromptResult(
            messages=[
                _msg(t.ImageContent(type="image", data=PNG, mime_type="image/png")),
                _msg(_txt("Please analyze the image above.")),
            ]
        )
    if p.name == "test_input_required_result_prompt":
        r = p.input_responses or {}
        if "user_context" in r:
            return t.GetPromptResult(messages=[_msg(_txt(f"Context: {_content(r['user_context']).get('context')}"))])
        return _need(user_context=_ask("What context should the prompt use?", context="string"))
    raise MCPError(code=t.INVALID_PARAMS, message=f"Unknown prompt: {p.name}")


# ---------------------------------------------------------------- resources
RESOURCES = [
    t.Resource(uri="test://static-text", name="static-text", description="Static text", mime_type="text/plain"),
    t.Resource(uri="test://static-binary", name="static-binary", description="Static PNG", mime_type="image/png"),
    t.Resource(uri="test://watched-resource", name="watched", description="Subscribable", mime_type="text/plain"),
]
TEMPLATES = [
    t.ResourceTemplate(
        uri_template="test://template/{id}/data",
        name="template",
        description="Template with parameter substitution",
        mime_type="application/json",
    )
]


async def read_resource(ctx, p: t.ReadResourceRequestParams):
    uri = str(p.uri)
    if uri == "test://static-text":
        c: Any = t.TextResourceContents(
            uri=uri, mime_type="text/plain", text="This is the content of the static text resource."
        )
    elif uri == "test://static-binary":
        c = t.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    elif uri == "test://watched-resource":
        c = t.TextResourceContents(uri=uri, mime_type="text/plain", text="Watched resource content")
    elif uri.startswith("test://template/") and uri.endswith("/data"):
        i = uri.split("/")[3]
        c = t.TextResourceContents(
            uri=uri,
            mime_type="application/json",
            text=json.dumps({"id": i, "templateTest": True, "data": f"Data for ID: {i}"}),
        )
    else:
        raise MCPError(code=t.INVALID_PARAMS, message="Resource not found", data={"uri": uri})
    return t.ReadResourceResult(contents=[c])


async def list_tools(ctx, p):
    return t.ListToolsResult(tools=[x for x, _ in TOOLS.values()])


async def call_tool(ctx, p: t.CallToolRequestParams):
    entry = TOOLS.get(p.name)
    if entry is None:
        raise MCPError(code=t.INVALID_PARAMS, message=f"Unknown tool: {p.name}")
    try:
        return await entry[1](ctx, p)
    except MCPError:
        raise
    except Exception as e:  # tool execution errors are results, not protocol errors
        return t.CallToolResult(is_error=True, content=[_txt(f"{type(e).__name__}: {e}")])


async def list_resources(ctx, p):
    return t.ListResourcesResult(resources=RESOURCES)


async def list_templates(ctx, p):
    return t.ListResourceTemplatesResult(resource_templates=TEMPLATES)


async def list_prompts(ctx, p):
    return t.ListPromptsResult(prompts=PROMPTS)


async def complete(ctx, p):
    values = [v for v in ("paris", "park", "party") if v.startswith(p.argument.value)]
    return t.CompleteResult(completion=t.Completion(values=values, total=len(values), has_more=False))


async def empty(ctx, p):
    return t.EmptyResult()


class MemoryEventStore(EventStore):
    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id, message):
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id, send_callback):
        n = int(last_event_id)
        if not 1 <= n <= len(self.events):
            return None
        stream = self.events[n - 1][0]
        for i in range(n, len(self.events)):
            sid, message = self.events[i]
            if sid == stream and message is not None:
                await send_callback(EventMessage(message, str(i + 1)))
        return stream


CACHEABLE = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")


def build() -> Server:
    s: Server = Server(
        "mcp-conformance-fixture",
        version="1.0.0",
        instructions="Conformance fixture server",
        cache_hints={m: CacheHint(ttl_ms=300_000, scope="public") for m in CACHEABLE},
        get_tool_input_schema=lambda name: TOOLS[name][0].input_schema if name in TOOLS else None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=empty,
        on_unsubscribe_resource=empty,
        on_subscriptions_listen=ListenHandler(bus),
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_set_logging_level=empty,
    )
    s.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=s.name))
    return s


def main() -> int:
    ap = argparse.ArgumentParser()
    ap.add_argument("--transport", choices=("stdio", "sse", "http"), default="http")
    ap.add_argument("--host", default="127.0.0.1")
    ap.add_argument("--port", type=int, default=3100)
    ap.add_argument("--json", action="store_true", help="JSON responses instead of SSE (http)")
    ap.add_argument("--stateless", action="store_true", help="no Mcp-Session-Id (http)")
    ap.add_argument("--no-event-store", action="store_true")
    ap.add_argument(
        "--http", choices=("h11", "httptools"), default="h11",
        help="uvicorn's parser; httptools leaves trailing blanks in header values, which fails one SEP-2243 check",
    )
    a = ap.parse_args()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    server = build()

    if a.transport == "stdio":
        from mcp.server.stdio import stdio_server

        async def go() -> None:
            async with stdio_server() as (r, w):
                opts = server.create_initialization_options(
                    NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
                )
                await server.run(r, w, opts)

        asyncio.run(go())
        return 0

    import uvicorn

    if a.transport == "http":
        app = server.streamable_http_app(
            host=a.host,
            json_response=a.json,
            stateless_http=a.stateless,
            event_store=None if a.no_event_store or a.stateless else MemoryEventStore(),
            retry_interval=100,
        )
    else:
        from mcp.server.sse import SseServerTransport
        from mcp.server.transport_security import TransportSecuritySettings
        from starlette.applications import Starlette
        from starlette.responses import Response
        from starlette.routing import Mount, Route

        hosts = [f"{h}:*" for h in ("127.0.0.1", "localhost", "[::1]")]
        sse = SseServerTransport(
            "/messages/",
            security_settings=TransportSecuritySettings(
                enable_dns_rebinding_protection=True,
                allowed_hosts=hosts,
                allowed_origins=[f"http://{h}" for h in hosts],
            ),
        )

        async def handle(request):
            async with sse.connect_sse(request.scope, request.receive, request._send) as (r, w):
                await server.run(r, w, server.create_initialization_options())
            return Response()

        app = Starlette(routes=[Route("/sse", handle), Mount("/messages/", app=sse.handle_post_message)])
    uvicorn.run(app, host=a.host, port=a.port, log_level="warning", http=a.http)
    return 0


if __name__ == "__main__":
    sys.exit(main())
