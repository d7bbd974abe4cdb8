#!/usr/bin/env bash
# @modelcontextprotocol/server 2.4.0: a server of the second generation on `StdioServerTransport` does not know
# `server/discover`, so that clients of 2026-07-28 have to fall back to the handshake.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-fund --no-audit @modelcontextprotocol/server@2.4.0
cat > server.mjs <<'JS'
import { McpServer } from "@modelcontextprotocol/server";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";

await new McpServer({ name: "finding", version: "1" }).connect(new StdioServerTransport());
JS
cat > client.py <<'PY'
import json
import subprocess
import sys

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "finding", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "finding", "version": "1"}}
server = subprocess.Popen(["node", "server.mjs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
answers = {}
for method, params in (("server/discover", {"_meta": META}), ("initialize", HANDSHAKE)):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}) + "\n")
    server.stdin.flush()
    answers[method] = json.loads(server.stdout.readline())
    print(method, "->", answers[method].get("error") or answers[method]["result"]["protocolVersion"])
server.kill()
sys.exit(not (answers["server/discover"].get("error", {}).get("code") == -32601 and "result" in answers["initialize"]))
PY
npm ls @modelcontextprotocol/server | tail -n +2
python3 client.py
