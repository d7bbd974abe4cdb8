#!/usr/bin/env bash
# langchain-mcp-adapters 0.3.2: of a result with structured content alone, which is valid, the model is given an empty
# list; the content is only in the artifact, which models do not see.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/pip install -qq --disable-pip-version-check langchain-mcp-adapters==0.3.2 mcp==1.30.0
cat > server.py <<'PY'
import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, Tool

server = Server("finding")


@server.list_tools()
async def tools():
    return [Tool(name="price", inputSchema={"type": "object"})]


@server.call_tool()
async def call(name, arguments):
    return CallToolResult(content=[], structuredContent={"price": 9.5})


async def main():
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())


anyio.run(main)
PY
cat > client.py <<'PY'
import asyncio
import sys

from langchain_mcp_adapters.client import MultiServerMCPClient

SERVER = {"transport": "stdio", "command": sys.executable, "args": ["server.py"]}


async def called():
    [tool] = await MultiServerMCPClient({"finding": SERVER}).get_tools()
    return await tool.ainvoke({"type": "tool_call", "id": "1", "name": "price", "args": {}})


message = asyncio.run(called())
print("for the model:", message.content)
print("artifact:     ", message.artifact)
sys.exit((message.content, message.artifact["structured_content"]) != ([], {"price": 9.5}))
PY
env/bin/pip list 2>/dev/null | grep -E '^(langchain-mcp-adapters|mcp) '
env/bin/python client.py 2>errors.log
