#!/usr/bin/env bash
# A tool that is not there, called in a session of 2025-11-25: mcp 2.3.0 (Python) answers with a result that is an error,
# fastmcp 4.20.16 (npm) with -32601, and kubernetes-mcp-server 0.0.67 (Go SDK) with -32602.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/pip install -qq --disable-pip-version-check mcp==2.3.0
npm install --silent --no-fund --no-audit fastmcp@4.20.16 kubernetes-mcp-server@0.0.67
cat > server.py <<'PY'
from mcp.server import MCPServer

server = MCPServer("finding")


@server.tool()
def known() -> str:
    return "known"


server.run()
PY
cat > server.mjs <<'JS'
import { FastMCP } from "fastmcp";

const server = new FastMCP({ name: "finding", version: "1.0.0" });
server.addTool({ name: "known", execute: async () => "known" });
await server.start({ transportType: "stdio" });
JS
cat > config.yaml <<'YAML'
apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: none, context: {cluster: none, user: nobody}}]
users: [{name: nobody, user: {}}]
current-context: none
YAML
cat > client.py <<'PY'
import json
import subprocess
import sys

SERVERS = {
    "mcp 2.3.0": ["env/bin/python", "server.py"],
    "fastmcp 4.20.16 (npm)": ["node", "server.mjs"],
    "kubernetes-mcp-server 0.0.67": ["node", "node_modules/.bin/kubernetes-mcp-server", "--kubeconfig", "config.yaml"],
}
HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "finding", "version": "1"}}
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}


def answer(command):
    with subprocess.Popen(command, **PIPES, text=True) as server:

        def send(**message):
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            server.stdin.flush()

        def received(number):
            while (message := json.loads(server.stdout.readline())).get("id") != number:
                pass
            return message

        send(id=1, method="initialize", params=HANDSHAKE)
        received(1)
        send(method="notifications/initialized")
        send(id=2, method="tools/call", params={"name": "unknown", "arguments": {}})
        found = received(2)
        server.kill()
    return found["error"]["code"] if "error" in found else {"isError": found["result"].get("isError")}


seen = {name: answer(command) for name, command in SERVERS.items()}
for name, code in seen.items():
    print(f"{name}: {code}")
sys.exit([*seen.values()] != [{"isError": True}, -32601, -32602])
PY
env/bin/pip list 2>/dev/null | grep '^mcp '
npm ls --depth=0 | tail -n +2
python3 client.py
