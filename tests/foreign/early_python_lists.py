"""Lists everything at an endpoint with the Python SDK 1.x, and calls each tool: `early_python_lists.py URL`.

Prints as JSON the names in each list, and the text that each tool answered, or the error in place of one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any


async def attempt(ask: Callable[[], Awaitable[Any]]) -> Any:
    """What is asked for, or the error."""
    try:
        return await ask()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]


async def main(url: str) -> None:
    """List and call."""
    told: dict[str, Any] = {}
    mcp: Any = import_module("mcp")  # another generation than the one that is installed here
    opened: Any = import_module("mcp.client.streamable_http").streamablehttp_client(url)
    async with opened as (read, write, _), mcp.ClientSession(read, write) as session:
        await session.initialize()

        async def tools() -> list[str]:
            return [tool.name for tool in (await session.list_tools()).tools]

        async def prompts() -> list[str]:
            return [prompt.name for prompt in (await session.list_prompts()).prompts]

        async def resources() -> list[str]:
            return [resource.name for resource in (await session.list_resources()).resources]

        async def templates() -> list[str]:
            return [template.name for template in (await session.list_resource_templates()).resourceTemplates]

        for listed in (tools, prompts, resources, templates):
            told[listed.__name__] = await attempt(listed)
        told["calls"] = {}
        offered: Any = told["tools"]
        names: list[str] = offered if isinstance(offered, list) else []  # pyright: ignore[reportUnknownVariableType]
        for name in names:

            async def called(name: str = name) -> str:
                [block] = (await session.call_tool(name, {})).content
                return str(getattr(block, "text", block))

            told["calls"][name] = await attempt(called)
    sys.stdout.write(json.dumps(told))


asyncio.run(main(sys.argv[1]))
