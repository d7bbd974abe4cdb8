"""A server as its author writes it with version 2 of the official SDK: it speaks both eras, and asks by requests.

That works with clients of the handshake era only: in a request of 2026-07-28, the SDK refuses to send one.
`python pushing_server.py` serves over stdio, `python pushing_server.py http PORT` over Streamable HTTP.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    NotificationParams,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

__all__ = ["SERVER"]

SERVER: Final = MCPServer("pushing", instructions="Ask me to ask you.", version="2.0")


class Name(BaseModel):
    """A form."""

    name: str


@SERVER.tool()
async def ask_name(ctx: Context[Any, Any]) -> str:
    """Ask the user for a name."""
    answer = await ctx.elicit("Who are you?", Name)
    return f"Hello, {answer.data.name}" if answer.action == "accept" else answer.action


ARRIVED: Final[list[asyncio.Event]] = []
"""One for each call of `ask_together` that waits for others."""


@SERVER.tool()
async def ask_together(ctx: Context[Any, Any], who: str, calls: int) -> str:
    """Ask somebody for a name once so many calls wait to ask, without saying for which of them."""
    arrived = asyncio.Event()
    ARRIVED.append(arrived)
    if len(ARRIVED) >= calls:
        for event in ARRIVED:
            event.set()
        ARRIVED.clear()
    await arrived.wait()
    answer = await ctx.session.elicit_form(f"Are you {who}?", Name.model_json_schema())
    return f"Hello, {(answer.content or {}).get('name')}"


@SERVER.tool()
async def ask_model(ctx: Context[Any, Any]) -> str:
    """Ask the client's model."""
    question = SamplingMessage(role="user", content=TextContent(text="2 + 2?"))
    answer = await ctx.session.create_message([question], max_tokens=10)  # pyright: ignore[reportDeprecated]
    return f"It says {getattr(answer.content, 'text', '')}"


@SERVER.tool()
async def ask_roots(ctx: Context[Any, Any]) -> str:
    """Ask for the client's folders."""
    found = await ctx.session.list_roots()  # pyright: ignore[reportDeprecated]
    return " ".join(str(root.uri) for root in found.roots)


@SERVER.tool()
async def watch_model(ctx: Context[Any, Any]) -> str:
    """Ask the client's model, and tell how far it said it was meanwhile; at once as progress of our own, too."""
    steps: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        steps.append(f"{progress:g}/{total:g} {message}")
        await ctx.report_progress(progress, total, message)

    question = SamplingMessage(role="user", content=TextContent(text="2 + 2?"))
    request = CreateMessageRequest(params=CreateMessageRequestParams(messages=[question], max_tokens=10))
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    await ctx.session.send_request(request, CreateMessageResult, metadata=related, progress_callback=hear)
    return ", ".join(steps)


FOLDERS: Final[list[str]] = []
"""The client's folders, as far as they are known."""


@SERVER.tool()
async def watch_roots(ctx: Context[Any, Any]) -> str:
    """Ask for the client's folders, to be told when they are others."""
    FOLDERS[:] = (await ask_roots(ctx)).split()
    return "watching"


@SERVER.tool()
def known_roots() -> str:
    """Tell the client's folders, without asking."""
    return " ".join(FOLDERS)


async def _ask_again(ctx: ServerRequestContext[Any, Any], params: NotificationParams) -> None:
    found = await ctx.session.list_roots()  # pyright: ignore[reportDeprecated]
    FOLDERS[:] = [str(root.uri) for root in found.roots]


_LOW: Final[Any] = SERVER._lowlevel_server  # pyright: ignore[reportPrivateUsage]
_LOW.add_notification_handler("notifications/roots/list_changed", NotificationParams, _ask_again)


@SERVER.tool()
async def grow(ctx: Context[Any, Any]) -> str:
    """Have one more tool, and say so on the connection that asked for it."""

    @SERVER.tool(name="grown")
    def grown() -> str:
        return "grown"

    await ctx.session.send_tool_list_changed()
    return "done"


@SERVER.tool()
def pid() -> str:
    """Tell the process."""
    return str(os.getpid())


@SERVER.tool()
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


if __name__ == "__main__":
    gc.freeze()  # many tests start it: it ends sooner where the SDK is not looked through for garbage
    if sys.argv[1:2] == ["http"]:
        SERVER.run("streamable-http", port=int(sys.argv[2]))
    else:
        SERVER.run()
