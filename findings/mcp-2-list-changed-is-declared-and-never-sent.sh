#!/usr/bin/env bash
# mcp 2.3.0 (Python): in 2026-07-28, MCPServer declares `tools.listChanged`, and `add_tool` notifies nobody who listens.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/pip install -qq --disable-pip-version-check mcp==2.3.0
cat > server.py <<'PY'
from mcp.server import MCPServer

server = MCPServer("finding")


def planted() -> str:
    return "grown"


@server.tool()
def grow() -> str:
    """Add a tool."""
    server.add_tool(planted)
    return "done"


server.run()
PY
cat > client.py <<'PY'
import json
import select
import subprocess
import sys

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "finding", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
server = subprocess.Popen([sys.executable, "-u", "server.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
notified = []


def send(number, method, **params):
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": META}}
    server.stdin.write(json.dumps(message).encode() + b"\n")
    server.stdin.flush()


def answer(number):
    while True:
        message = json.loads(server.stdout.readline())
        if message.get("id") == number:
            return message
        notified.append(message["method"])


send(1, "server/discover")
declared = answer(1)["result"]["capabilities"]["tools"]
send(2, "subscriptions/listen", notifications={"toolsListChanged": True})
notified.append(json.loads(server.stdout.readline())["method"])
send(3, "tools/call", name="grow", arguments={})
answer(3)
late, _, _ = select.select([server.stdout], [], [], 3)
send(4, "tools/list")
listed = answer(4)["result"]
names = [tool["name"] for tool in listed["tools"]]
server.kill()
print("declared:", declared, "- ttlMs of the list:", listed.get("ttlMs"))
print("notifications:", notified, "- anything within 3 s after the change:", bool(late))
print("tools in the next list:", names)
told = [method for method in notified if method.endswith("list_changed")]
sys.exit(not (declared == {"listChanged": True} and not told and not late and "planted" in names))
PY
env/bin/pip list 2>/dev/null | grep '^mcp '
env/bin/python client.py
