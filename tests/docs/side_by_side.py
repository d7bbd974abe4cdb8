"""Does with the blocks of `docs/coming-from.md` what they are for: `side_by_side.py FOLDER COMMAND...`.

The folder has the blocks of one library, as files; the command is the one that reloads, if there is one. Runs in an
environment that has that library, and writes what came of each block, as JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import runpy
import socket
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal

import anyio
import anyio.to_thread
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from gaia_bridge import Client, ProtocolError, ServerUnavailableError, ToolError

PATIENCE: Final = 30.0
"""Seconds for what only a broken program needs."""
ADDRESS: Final = "http://127.0.0.1:8000"
"""What the blocks call the server that this program starts."""
BEFORE, AFTER = '"tea": 9.5', '"tea": 10.25'
"""What is saved while a program reloads: of another length, or Python takes its bytecode of that second for current."""


def edit(file: str, old: str, new: str) -> None:
    path = Path(file)
    path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")


def module_of(name: str) -> ModuleType:
    """A block, run anew with all that it imports."""
    for other in Path.cwd().glob("*.py"):
        sys.modules.pop(other.stem, None)
    return importlib.import_module(name)


def server_of(name: str) -> Any:
    """What a block publishes: its server, its bridge, or the module itself."""
    module = module_of(name)
    return getattr(module, "mcp", None) or getattr(module, "bridge", module)


async def price(client: Client) -> Any:
    return (await client.call_tool("price", article="tea")).structured_content


async def published(client: Client) -> Any:
    return [[tool["name"], tool["description"]] for tool in await client.list_tools()]


async def publish() -> Any:
    async with Client(server_of("shop")) as client:
        return [await published(client), await price(client)]


async def inject(era: Literal["legacy", "modern"]) -> Any:
    """What the tool said, and how it got on; or that it could not ask."""
    told: list[Any] = []
    answer = {"value": True}
    async with Client(server_of("context"), era=era, on_elicitation=lambda message, schema: answer) as client:
        try:
            result = await client.call_tool("buy", article="tea", on_progress=lambda each: told.append(each.message))
        except (ToolError, ProtocolError):
            return "cannot ask"
    return [result.text, told]


@asynccontextmanager
async def served(app: Any) -> AsyncGenerator[str]:
    """The address of an application."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        program = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=program.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            program.should_exit = True
            await anyio.to_thread.run_sync(thread.join, PATIENCE)


async def mount() -> Any:
    """What clients of the mounted server are given, and what the program of the client's block prints."""
    async with served(module_of("application").app) as url:
        async with Client(f"{url}/assistant/mcp") as client:
            given = await price(client)
        edit("client.py", ADDRESS, f"{url}/assistant")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            await anyio.to_thread.run_sync(runpy.run_path, "client.py")
    return [given, printed.getvalue()]


async def chain(era: Literal["legacy", "modern"]) -> Any:
    """The tools, and what those of the other server say."""
    async with Client(server_of("chain"), era=era) as client:
        names = sorted(tool["name"] for tool in await client.list_tools())
        return [names, await price(client), [(await client.call_tool(name)).text for name in names if "clock" in name]]


async def only_some() -> Any:
    async with Client(server_of("filtered")) as client:
        return [await published(client), await price(client)]


async def api() -> Any:
    async def item(request: Request) -> JSONResponse:
        return JSONResponse({"number": request.path_params["number"], "name": "tea"})

    async with served(Starlette(routes=[Route("/items/{number:int}", item)])) as url:
        edit("api.py", ADDRESS, url)
        async with Client(server_of("api")) as client:
            [tool] = await client.list_tools()
            answer = await client.call_tool(tool["name"], number=7)
            return [tool["name"], list(tool["inputSchema"]["properties"]), answer.structured_content]


async def prompts() -> Any:
    async with Client(server_of("prompts")) as client:
        [prompt] = await client.list_prompts()
        told = await client.get_prompt("recommend", occasion="rain")
        return [prompt["arguments"][0]["name"], told["messages"][0]["content"]["text"]]


async def reload(command: list[str]) -> Any:
    """The prices before and after the file was saved."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    url = f"http://127.0.0.1:{port}/mcp"
    prices: list[float] = []
    async with await anyio.open_process([*command, "--port", str(port)], stdout=None, stderr=None) as process:
        try:
            while len(prices) < 2:
                with contextlib.suppress(ServerUnavailableError):
                    async with Client(url) as client:
                        said = (await price(client))["result"]
                        prices += [said] if said not in prices else []
                        edit("shop.py", BEFORE, AFTER)
                await anyio.sleep(0.02)
        finally:
            process.terminate()
    edit("shop.py", AFTER, BEFORE)
    return prices


async def use(command: list[str]) -> dict[str, Any]:
    """What came of all blocks but the test."""
    found: dict[str, Any] = {}
    with anyio.fail_after(PATIENCE):
        found["publish"] = await publish()
        found["inject"] = {"legacy": await inject("legacy"), "modern": await inject("modern")}
        found["mount"], found["client"] = await mount()
        found["chain"] = {"legacy": await chain("legacy"), "modern": await chain("modern")}
        found["filter"] = await only_some()
        found["openapi"] = await api()
        found["prompts"] = await prompts()
        if command:
            found["reload"] = await reload(command)
    return found


def main() -> None:
    folder, *command = sys.argv[1:]
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    found = anyio.run(use, command)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = pytest.main(["-q", "-p", "no:cacheprovider", "test_shop.py"])
    found["test"] = "passed" if code == 0 else said.getvalue()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
