"""A registry of MCP servers on loopback, with entries in the shapes that the official one documents."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

__all__ = ["LISTED", "Registry", "listed", "package", "registry"]

OFFICIAL: Final = "io.modelcontextprotocol.registry/official"
STDIO: Final = {"type": "stdio"}
PAGE: Final = 30


def listed(name: str, version: str = "1.0.0", *, status: str = "active", **server: Any) -> dict[str, Any]:
    """One version of a server, as the API has it."""
    message = server.pop("statusMessage", None)
    official = {
        "status": status,
        "publishedAt": "2025-12-01T10:30:00Z",
        "updatedAt": "2025-12-01T11:00:00Z",
        "isLatest": server.pop("isLatest", True),
        **({"statusMessage": message} if message else {}),
    }
    schema = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
    described = {"description": f"About {name}", **server}
    return {"server": {"$schema": schema, "name": name, "version": version, **described}, "_meta": {OFFICIAL: official}}


def package(kind: str, identifier: str, version: str | None = "1.0.0", **more: Any) -> dict[str, Any]:
    """A package of a server."""
    pinned = {} if version is None else {"version": version}
    return {"registryType": kind, "identifier": identifier, **pinned, "transport": STDIO, **more}


LISTED: Final = [
    listed(
        "io.github.modelcontextprotocol/everything",
        "2026.8.31",
        title="Everything",
        description="Exercises every feature of the protocol",
        repository={"url": "https://github.com/modelcontextprotocol/servers", "source": "github"},
        packages=[
            package(
                "npm",
                "@modelcontextprotocol/server-everything",
                "2026.8.31",
                registryBaseUrl="https://registry.example.org",
                runtimeHint="npx",
                runtimeArguments=[{"type": "positional", "value": "-y"}],
                packageArguments=[{"type": "positional", "value": "stdio"}],
            )
        ],
    ),
    listed(
        "io.github.example/mcp-server-time",
        "2026.10.19",
        packages=[
            package(
                "pypi",
                "mcp-server-time",
                "2026.10.19",
                runtimeHint="uvx",
                packageArguments=[
                    {"type": "named", "name": "--local-timezone", "description": "A time zone", "default": "UTC"}
                ],
            )
        ],
    ),
    listed(
        "io.github.example/database-manager",
        "3.1.0",
        packages=[
            package(
                "oci",
                "docker.io/example/database-manager-mcp:3.1.0",
                None,
                runtimeArguments=[
                    {"type": "named", "name": "--network", "value": "host", "description": "Use host network mode"},
                    {
                        "type": "named",
                        "name": "-e",
                        "value": "DB_TYPE={db_type}",
                        "isRepeated": True,
                        "variables": {"db_type": {"choices": ["postgres", "mysql"], "isRequired": True}},
                    },
                ],
                packageArguments=[
                    {"type": "named", "name": "--host", "default": "localhost", "isRequired": True},
                    {"type": "named", "name": "--port", "description": "Database port", "format": "number"},
                    {"type": "positional", "valueHint": "database_name", "isRequired": True},
                ],
                environmentVariables=[
                    {"name": "DB_PASSWORD", "isRequired": True, "isSecret": True},
                    {"name": "SSL_MODE", "default": "prefer", "choices": ["disable", "prefer", "require"]},
                ],
            )
        ],
    ),
    listed(
        "com.example/acme",
        "2.0.0",
        remotes=[
            {"type": "sse", "url": "https://acme.example.com/sse"},
            {
                "type": "streamable-http",
                "url": "https://{region}.acme.example.com/mcp",
                "variables": {"region": {"choices": ["us", "eu"], "default": "us"}},
                "headers": [
                    {
                        "name": "Authorization",
                        "value": "Bearer {token}",
                        "isRequired": True,
                        "variables": {"token": {"description": "From the settings page", "isSecret": True}},
                    },
                    {"name": "X-Trace", "description": "Left out if empty"},
                ],
            },
        ],
    ),
    listed(
        "io.github.example/filesystem",
        "1.0.2",
        packages=[
            package(
                "npm",
                "@example/server-filesystem",
                "1.0.2",
                packageArguments=[
                    {"type": "positional", "valueHint": "target_dir", "isRequired": True, "isRepeated": True},
                    {"type": "named", "name": "--verbose"},
                    {"type": "named", "name": "--color", "format": "boolean", "default": "true"},
                    {"type": "named", "name": "--label=", "value": "{a}-{b}{c}", "variables": {"a": {"default": "x"}}},
                ],
            ),
            package(
                "oci",
                "example/filesystem",
                "1.0.2",
                registryBaseUrl="https://ghcr.example.org",
                runtimeArguments=[
                    {
                        "type": "named",
                        "name": "--mount",
                        "value": "type=bind,src={source_path},dst={target_path}",
                        "isRequired": True,
                        "isRepeated": True,
                        "variables": {
                            "source_path": {"format": "filepath", "isRequired": True},
                            "target_path": {"isRequired": True, "default": "/project"},
                        },
                    }
                ],
                packageArguments=[{"type": "positional", "valueHint": "target_dir", "value": "/project"}],
            ),
        ],
        remotes=[{"type": "streamable-http", "url": "https://files.example.com/mcp"}],
    ),
    listed(
        "io.github.example/old-weather",
        "0.9.5",
        status="deprecated",
        statusMessage="take weather-v2",
        packages=[package("npm", "@legacy/old-weather", "0.9.5")],
    ),
    listed("io.github.example/gone", "0.1.0", status="deleted", packages=[package("npm", "gone", "0.1.0")]),
    listed(
        "io.github.example/text-editor",
        "1.0.2",
        packages=[
            package(
                "mcpb", "https://example.com/mcp/text-editor.mcpb", fileSha256="fe333e598595000ae021bd27117db32e" * 2
            )
        ],
    ),
]
"""Servers of each kind."""


@dataclass
class Registry:
    """A registry that runs.

    Args:
        servers: What it lists.
        url: Its address.
        asked: The paths that it was asked for.
        answer: What it answers instead: a status, headers and a body.
    """

    servers: list[dict[str, Any]]
    url: str = ""
    asked: list[str] = field(default_factory=list[str])
    answer: tuple[int, Mapping[str, str], bytes] | None = None

    def page(self, query: Mapping[str, list[str]]) -> dict[str, Any]:
        """One page, as the official registry makes it: a cursor is a number here."""
        word, limit = query.get("search", [""])[0].lower(), int(query.get("limit", [str(PAGE)])[0])
        found = [item for item in self.servers if word in str(item["server"]["name"]).lower()]
        start = int(query.get("cursor", ["0"])[0])
        page = found[start : start + limit]
        after = start + limit
        metadata = {"count": len(page), **({"nextCursor": str(after)} if after < len(found) else {})}
        return {"servers": page, "metadata": metadata}

    def found(self, path: str) -> dict[str, Any] | None:
        """What a path leads to."""
        parts = path.split("/")
        if parts[1:3] != ["v0.1", "servers"]:
            return None
        versions = [item for item in self.servers if item["server"]["name"] == unquote(parts[3])]
        if len(parts) == 5:
            return {"servers": versions, "metadata": {"count": len(versions)}} if versions else None
        wanted = unquote(parts[5])
        return next((item for item in versions if wanted in ("latest", item["server"]["version"])), None)


@contextmanager
def registry(*servers: dict[str, Any]) -> Generator[Registry]:
    """Run a registry.

    Args:
        servers: What it lists; `LISTED` if nothing is given.
    """
    running = Registry(list(servers or LISTED))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            running.asked.append(self.path)
            if running.answer is not None:
                self._send(*running.answer)
                return
            parts = urlsplit(self.path)
            is_list = parts.path == "/v0.1/servers"
            found = running.page(parse_qs(parts.query)) if is_list else running.found(parts.path)
            if found is None:
                body = json.dumps({"title": "Not Found", "status": 404, "detail": "Server not found"})
                self._send(404, {"content-type": "application/problem+json"}, body.encode())
            else:
                self._send(200, {"content-type": "application/json"}, json.dumps(found).encode())

        def _send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False  # so that closing it waits for the connections
    running.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
