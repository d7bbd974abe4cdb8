#!/usr/bin/env bash
# mcp 2.3.0 (Python): a `ping` before `server/discover` on stdio settles the connection on the handshake era for good.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/pip install -qq --disable-pip-version-check mcp==2.3.0
cat > server.py <<'PY'
from mcp.server import MCPServer

MCPServer("finding").run()
PY
cat > client.py <<'PY'
import json
import subprocess
import sys

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "finding", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
PING = {"method": "ping"}
DISCOVER = {"method": "server/discover", "params": {"_meta": META}}


def answers(*requests):
    with subprocess.Popen([sys.executable, "server.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        found = []
        for number, request in enumerate(requests):
            server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, **request}) + "\n")
            server.stdin.flush()
            found.append(json.loads(server.stdout.readline()))
        server.stdin.close()
    return found


[alone] = answers(DISCOVER)
_, after_ping = answers(PING, DISCOVER)
print("server/discover first:      ", "result" if "result" in alone else alone["error"])
print("server/discover after ping: ", "result" if "result" in after_ping else after_ping["error"])
sys.exit(not ("result" in alone and after_ping.get("error", {}).get("code") == -32600))
PY
env/bin/pip list 2>/dev/null | grep '^mcp '
env/bin/python client.py
