#!/usr/bin/env bash
# Two tools of one name: mcp 2.3.0 (Python) keeps the first, FastMCP 4.2.3 (Python) the last, and the TypeScript SDK
# 1.32.2 throws. The Python libraries only log a warning.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/pip install -qq --disable-pip-version-check fastmcp==4.2.3 mcp==2.3.0
npm install --silent --no-fund --no-audit @modelcontextprotocol/sdk@1.32.2
cat > twice.py <<'PY'
import asyncio
import sys

from fastmcp import Client as FastClient
from fastmcp import FastMCP
from mcp import Client
from mcp.server import MCPServer


def with_two(server):
    for text in ("first", "last"):
        add(server, text)
    return server


def add(server, text):
    def same() -> str:
        return text

    server.tool(name="same")(same)


async def called(client):
    async with client:
        return (await client.call_tool("same", {})).content[0].text


sdk = asyncio.run(called(Client(with_two(MCPServer("finding")))))
fastmcp = asyncio.run(called(FastClient(with_two(FastMCP("finding")))))
print("mcp keeps the", sdk)
print("fastmcp keeps the", fastmcp)
sys.exit((sdk, fastmcp) != ("first", "last"))
PY
cat > twice.mjs <<'JS'
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";

const server = new McpServer({ name: "finding", version: "1" });
server.registerTool("same", {}, async () => ({ content: [] }));
try {
  server.registerTool("same", {}, async () => ({ content: [] }));
  console.log("@modelcontextprotocol/sdk takes both");
  process.exit(1);
} catch (error) {
  console.log("@modelcontextprotocol/sdk throws:", error.message);
}
JS
env/bin/pip list 2>/dev/null | grep -E '^(fastmcp|mcp) '
npm ls --depth=0 | tail -n +2
env/bin/python twice.py 2>warnings.log
node twice.mjs
