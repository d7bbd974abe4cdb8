#!/usr/bin/env bash
# FastMCP 4.2.3 (Python): `ctx.elicit` works in the handshake era and refuses 2026-07-28, also within one process.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/pip install -qq --disable-pip-version-check fastmcp==4.2.3 mcp==2.3.0
cat > elicit.py <<'PY'
import asyncio
import sys

from fastmcp import Client, Context, FastMCP

server = FastMCP("finding")


@server.tool
async def ask(ctx: Context) -> str:
    return str((await ctx.elicit("Your name?", response_type=str)).data)


async def answer(message, response_type, params, context):
    return {"value": "Ada"}


async def result(mode):
    async with Client(server, elicitation_handler=answer, mode=mode) as client:
        called = await client.call_tool("ask", {}, raise_on_error=False)
    return called.is_error, called.content[0].text


legacy, modern = asyncio.run(result("legacy")), asyncio.run(result("2026-07-28"))
print("handshake: ", legacy)
print("2026-07-28:", modern)
sys.exit(not (legacy == (False, "Ada") and modern[0]))
PY
env/bin/pip list 2>/dev/null | grep -E '^(fastmcp|mcp) '
env/bin/python elicit.py 2>errors.log
