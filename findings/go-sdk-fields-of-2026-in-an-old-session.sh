#!/usr/bin/env bash
# kubernetes-mcp-server 0.0.67, which is written with the Go SDK: results in a session of 2025-11-25 have `ttlMs` and
# `cacheScope`, which only 2026-07-28 knows. No cluster is needed for the lists.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-fund --no-audit kubernetes-mcp-server@0.0.67
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

command = ["node", "node_modules/.bin/kubernetes-mcp-server", "--kubeconfig", "config.yaml"]
server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def send(**message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()


def result(number, method, params):
    send(id=number, method=method, params=params)
    return json.loads(server.stdout.readline())["result"]


handshake = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "finding", "version": "1"}}
revision = result(1, "initialize", handshake)["protocolVersion"]
send(method="notifications/initialized")
listed = result(2, "tools/list", {})
server.kill()
more = {key: value for key, value in listed.items() if key != "tools"}
print("session:", revision, "- beside the tools:", more)
sys.exit(not (revision == "2025-11-25" and more == {"ttlMs": 0, "cacheScope": "public"}))
PY
npm ls kubernetes-mcp-server | tail -n +2 | head -1
python3 client.py
