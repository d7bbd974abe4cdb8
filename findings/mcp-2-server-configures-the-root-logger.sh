#!/usr/bin/env bash
# mcp 2.3.0: making an MCPServer configures logging for the whole program, with a handler of Rich, where there is none yet.
# A tool that raises then prints a box with the frames of the SDK, of a hundred lines and more on a narrow terminal.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/pip install -qq --disable-pip-version-check mcp==2.3.0 rich==15.0.0
cat > server.py <<'PY'
import logging
import sys

import anyio
from mcp import Client
from mcp.server.mcpserver import MCPServer

before = list(logging.getLogger().handlers)
server = MCPServer("shop")
after = [type(handler).__name__ for handler in logging.getLogger().handlers]


@server.tool()
def price(article: str) -> float:
    return {"tea": 2.5}[article]


async def main():
    async with Client(server) as client:
        return await client.call_tool("price", {"article": "milk"})


result = anyio.run(main)
print("handlers of the root logger before and after:", before, after)
print("the client is sent:", result.content[0].text)
sys.exit((before, after) != ([], ["RichHandler"]))
PY
env/bin/pip list 2>/dev/null | grep -E '^(mcp|rich) '
COLUMNS=35 env/bin/python server.py 2>errors.log
lines=$(wc -l <errors.log)
echo "lines on stderr for one call that failed, 35 columns wide: $lines"
((lines > 100))
