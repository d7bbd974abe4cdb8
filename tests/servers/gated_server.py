"""An MCP server that tells a test what it does, and starts only when it may: see `tests/support/gated_servers.py`.

    python -S gated_server.py NAME [TOOL ...]

With `HOLD` in its environment it answers `initialize` only after the test let it. Each further TOOL answers with the
server's name; one whose name begins with `view_` is for the views of MCP Apps only.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any

JSON = dict[str, Any]

ANYTHING: JSON = {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "integer"}}}
FOR_VIEWS: JSON = {"_meta": {"ui": {"visibility": ["app"]}}}
NAME, TOOLS = sys.argv[1], ["answer", "pid", "env", "crash", "hang", "change", *sys.argv[2:]]

gate = socket.create_connection(("127.0.0.1", int(os.environ["GATE"]))) if "GATE" in os.environ else None
listed = list(TOOLS)
hanging: set[Any] = set()


def tell(word: str) -> None:
    if gate is not None:
        gate.sendall(f"{NAME} {word}\n".encode())
        gate.recv(1)  # until it is counted: what the server does next may make the test look


def send(message: JSON) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def described(name: str) -> JSON:
    tool: JSON = {"name": name, "description": f"{name} of {NAME}", "inputSchema": ANYTHING}
    return tool | FOR_VIEWS if name.startswith("view_") else tool


def text(number: Any, value: str) -> None:
    send({"id": number, "result": {"content": [{"type": "text", "text": value}]}})


def call(number: Any, name: str, arguments: JSON) -> None:
    match name:
        case "answer":
            send({"id": number, **arguments})
        case "pid":
            text(number, str(os.getpid()))
        case "env":
            text(number, json.dumps(dict(os.environ)))
        case "crash":
            os._exit(3)
        case "hang":
            hanging.add(number)
            tell("hanging")
        case "change":
            listed[:] = arguments["tools"]
            send({"method": "notifications/tools/list_changed"})
            text(number, "changed")
        case _:
            text(number, NAME)


def answer(number: Any, method: str, params: JSON) -> None:
    match method:
        case "initialize":
            if gate is not None and "HOLD" in os.environ:
                gate.recv(1)
            result: JSON = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": NAME, "version": "1"},
            }
            send({"id": number, "result": result})
        case "tools/list":
            send({"id": number, "result": {"tools": [described(name) for name in listed]}})
        case "tools/call":
            call(number, params["name"], params.get("arguments", {}))
        case "ping":
            send({"id": number, "result": {}})
        case _:
            send({"id": number, "error": {"code": -32601, "message": f"no {method}"}})


tell("born")
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "notifications/cancelled" and message["params"]["requestId"] in hanging:
        tell("cancelled")
    elif "id" in message:
        answer(message["id"], message["method"], message.get("params", {}))
