#!/usr/bin/env bash
# Which servers answer a request of the other era on a stream that has begun in one: mcp-grafana 2.1.1 (Go SDK),
# logseq-mcp-server 2.1.0 (Rust SDK), and a server with the Python SDK, mcp 2.3.0.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check mcp-grafana==2.1.1 logseq-mcp-server==2.1.0 mcp==2.3.0
echo '{"apiUrl": "http://127.0.0.1:9", "authToken": "none"}' > logseq.json
cat > plain.py <<'PY'
from mcp.server import MCPServer

MCPServer("plain").run("stdio")
PY
cat > client.py <<'PY'
import json
import os
import subprocess
import sys

PREFIX = "io.modelcontextprotocol/"
OPENINGS = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "finding", "version": "1"}},
    "server/discover": {"_meta": {f"{PREFIX}protocolVersion": "2026-07-28", f"{PREFIX}clientCapabilities": {}}},
}
SERVERS = {
    "mcp-grafana": (["venv/bin/python", "-m", "mcp_grafana"], {"GRAFANA_URL": "http://127.0.0.1:9", "DO_NOT_TRACK": "1"}),
    "logseq": (["venv/bin/logseq-mcp-server"], {"LOGSEQ_MCP_CONFIG": os.path.abspath("logseq.json")}),
    "mcp": (["venv/bin/python", "plain.py"], {}),
}
SEEN = {
    ("mcp-grafana", "initialize"): True,
    ("mcp-grafana", "server/discover"): False,
    ("logseq", "initialize"): True,
    ("logseq", "server/discover"): True,
    ("mcp", "initialize"): False,
    ("mcp", "server/discover"): False,
}


def is_answered(command, more, first, second):
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    server = subprocess.Popen(command, env={**os.environ, **more}, stdin=pipe, stdout=pipe, stderr=null, text=True)
    try:
        for number, method in enumerate((first, second)):
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": OPENINGS[method]}
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
            while True:
                answer = json.loads(server.stdout.readline())
                if answer.get("id") == number:
                    break
        return "result" in answer
    finally:
        server.kill()
        server.wait()


found = {}
for name, (command, more) in SERVERS.items():
    for first, second in (("initialize", "server/discover"), ("server/discover", "initialize")):
        found[name, first] = is_answered(command, more, first, second)
        print(f"{name}: {second} after {first} is {'answered' if found[name, first] else 'refused'}")
sys.exit(found != SEEN)
PY
venv/bin/pip list --disable-pip-version-check 2>/dev/null | grep -E "^(mcp|mcp-grafana|logseq-mcp-server) "
venv/bin/python client.py
