"""A server whose calls say step by step what it does; it remembers what it was sent.

python scripted_server.py [modern]
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

JSON = dict[str, Any]
HOPS = "io.gaia-mcp-bridge/hops"

tools: list[JSON] = [{"name": name, "inputSchema": {"type": "object"}} for name in ("do", "also")]
received: list[Any] = []
held: dict[str, tuple[Any, list[Any]]] = {}
"""The calls that wait until another releases them, by name, and their further steps."""
asked: dict[str, tuple[Any, list[Any]]] = {}
"""The calls that wait for the answer to a question."""
metas: dict[Any, JSON] = {}
"""The `_meta` of each call."""


SHOWN: dict[str, Callable[[JSON], str]] = {
    "received": lambda meta: json.dumps(received),
    "meta": lambda meta: json.dumps(
        [*sorted(meta), len(meta[HOPS]), meta.get("io.modelcontextprotocol/clientCapabilities")]
    ),
    "pid": lambda meta: str(os.getpid()),
}


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(number: Any, said: str) -> None:
    send(id=number, result={"content": [{"type": "text", "text": said}]})


def play(number: Any, steps: list[Any]) -> None:
    for at, (word, *more) in enumerate(steps, 1):
        match word:
            case "text":
                text(number, more[0])
            case "received" | "meta" | "pid":
                text(number, SHOWN[word](metas[number]))
            case "log":
                send(method="notifications/message", params={"level": "error", "data": more[0]})
            case "progress":
                params = {"progressToken": metas[number].get("progressToken"), "progress": more[0]}
                send(method="notifications/progress", params=params)
            case "ask":
                name = f"question {len(asked)}"
                asked[name] = number, steps[at:]
                send(id=name, method=more[0], params=more[1])
                return
            case "hold":
                held[more[0]] = number, steps[at:]
                return
            case "release":
                play(*held.pop(more[0]))
            case "list":
                tools[:] = more
                send(method="notifications/tools/list_changed")
            case _:
                os._exit(3)


def greeting(params: JSON) -> JSON:
    tasks: JSON = {"requests": {"tools": {"call": {}}}}
    capabilities: JSON = {"tools": {"listChanged": True}, "logging": {}, "tasks": tasks}
    info = {"name": "scripted", "version": "1"}
    if "protocolVersion" in params:
        return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
    about = {"io.modelcontextprotocol/serverInfo": info}
    return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "_meta": about}


def handle(message: JSON) -> None:
    method, number, params = message.get("method"), message.get("id"), message.get("params", {})
    match method:
        case "tools/call":
            metas[number] = params.get("_meta", {})
            received.append(params["arguments"].get("tag"))
            play(number, params["arguments"]["steps"])
        case "notifications/cancelled":
            received.append("cancelled")
        case None if number in asked:
            received.append(message.get("result", message.get("error")))
            play(*asked.pop(number))
        case "initialize":
            send(id=number, result=greeting(params))
        case "server/discover" if "modern" in sys.argv:
            send(id=number, result=greeting({}))
        case "tools/list":
            send(id=number, result={"tools": tools})
        case "ping" | "logging/setLevel":
            received.extend(params[key] for key in params if key == "level")
            send(id=number, result={})
        case _ if number is not None and method is not None:
            send(id=number, error={"code": -32601, "message": f"no {method}"})
        case _:
            pass


if __name__ == "__main__":
    for line in sys.stdin.buffer:
        handle(json.loads(line))
