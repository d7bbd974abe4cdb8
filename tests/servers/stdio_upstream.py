"""An upstream server as its author would write it with the SDK: tools of every kind, prompts, resources."""

from __future__ import annotations

import gc
from typing import Any, Final

import anyio
import mcp_types as t
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

Context = ServerRequestContext[Any, Any]

PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
OBJECT: Final[dict[str, Any]] = {"type": "object"}
PAIR: Final = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number", "default": 0}},
    "required": ["a"],
}

TOOLS: Final = [
    t.Tool(
        name="add",
        title="Add",
        description="Add two numbers.",
        input_schema=PAIR,
        output_schema={"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]},
        annotations=t.ToolAnnotations(read_only_hint=True, title="Adder"),
        icons=[t.Icon(src="https://example.com/add.png", mime_type="image/png")],
        _meta={"example.com/order": 1},
    ),
    t.Tool(name="echo", description="Return the arguments and the _meta of the request.", input_schema=OBJECT),
    t.Tool(name="mix", description="Return every kind of content.", input_schema=OBJECT),
    t.Tool(name="structured", description="Break the promise of the output schema.", input_schema=OBJECT,
           output_schema={"type": "object", "required": ["never"]}),
    t.Tool(name="fail", description="Fail.", input_schema=OBJECT),
    t.Tool(name="progress", description="Report progress and log.", input_schema=OBJECT),
    t.Tool(name="hang", description="Never return.", input_schema=OBJECT),
]  # fmt: skip

MIX: Final[list[t.ContentBlock]] = [
    t.TextContent(text="plain", annotations=t.Annotations(audience=["user"], priority=0.25), _meta={"m": 1}),
    t.ImageContent(data=PIXEL, mime_type="image/png"),
    t.AudioContent(data="UklGRg==", mime_type="audio/wav"),
    t.ResourceLink(uri="demo://linked", name="linked", title="Linked", size=3, mime_type="text/plain"),
    t.EmbeddedResource(resource=t.TextResourceContents(uri="demo://text", text="inside", mime_type="text/plain")),
    t.EmbeddedResource(resource=t.BlobResourceContents(uri="demo://blob", blob="aGk=")),
]


async def list_tools(ctx: Context, params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
    return t.ListToolsResult(tools=TOOLS)


async def call_tool(ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
    arguments = params.arguments or {}
    match params.name:
        case "add":
            total = arguments["a"] + arguments.get("b", 0)
            return t.CallToolResult(content=[t.TextContent(text=str(total))], structured_content={"sum": total})
        case "echo":
            return t.CallToolResult(
                content=[], structured_content={"arguments": arguments}, _meta={"received": dict(ctx.meta or {})}
            )
        case "mix":
            return t.CallToolResult(content=MIX, structured_content={"kinds": len(MIX), "none": None}, _meta={"x/y": 1})
        case "structured":
            return t.CallToolResult(content=[], structured_content={"always": True})
        case "fail":
            return t.CallToolResult(content=[t.TextContent(text="it did not work")], is_error=True)
        case "progress":
            for step in (1, 2, 3):
                await ctx.session.report_progress(step, 3, f"step {step}")
            return t.CallToolResult(content=[t.TextContent(text="done")])
        case "hang":
            await anyio.sleep_forever()
            return t.CallToolResult(content=[])
        case name:
            raise MCPError(t.INVALID_PARAMS, f"Unknown tool: {name}", {"name": name})


async def list_prompts(ctx: Context, params: t.PaginatedRequestParams | None) -> t.ListPromptsResult:
    return t.ListPromptsResult(
        prompts=[t.Prompt(name="greet", arguments=[t.PromptArgument(name="who", description="Whom", required=True)])]
    )


async def get_prompt(ctx: Context, params: t.GetPromptRequestParams) -> t.GetPromptResult:
    who = (params.arguments or {}).get("who", "nobody")
    return t.GetPromptResult(
        description="A greeting.",
        messages=[
            t.PromptMessage(role="user", content=t.TextContent(text=f"Greet {who}.")),
            t.PromptMessage(role="assistant", content=t.ImageContent(data=PIXEL, mime_type="image/png")),
        ],
    )


async def list_resources(ctx: Context, params: t.PaginatedRequestParams | None) -> t.ListResourcesResult:
    return t.ListResourcesResult(resources=[t.Resource(uri="demo://note", name="note", mime_type="text/plain")])


async def list_templates(ctx: Context, params: t.PaginatedRequestParams | None) -> t.ListResourceTemplatesResult:
    return t.ListResourceTemplatesResult(
        resource_templates=[t.ResourceTemplate(uri_template="demo://note/{number}", name="numbered")]
    )


async def read_resource(ctx: Context, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
    return t.ReadResourceResult(
        contents=[
            t.TextResourceContents(uri=params.uri, text="noted", mime_type="text/plain", _meta={"r": 1}),
            t.BlobResourceContents(uri=f"{params.uri}#blob", blob="aGk="),
        ]
    )


async def complete(ctx: Context, params: t.CompleteRequestParams) -> t.CompleteResult:
    values = [name for name in ("anna", "anton", "berta") if name.startswith(params.argument.value)]
    return t.CompleteResult(completion=t.Completion(values=values, total=len(values), has_more=False))


SERVER: Final = Server[Any](
    "sdk-upstream",
    version="1.2.3",
    title="An upstream",
    instructions="Ask me anything.",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_completion=complete,
)


async def main() -> None:
    async with stdio_server() as (read, write):
        await SERVER.run(read, write, SERVER.create_initialization_options())


if __name__ == "__main__":
    gc.freeze()  # many tests start it: it ends sooner where the SDK is not looked through for garbage
    anyio.run(main)
