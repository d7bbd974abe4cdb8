"""An upstream without an SDK: it starts in no time, and can do what no SDK lets a server do.

    python raw_server.py [MODE]

Each tool is one behaviour; the modes change how the server starts, lists and stops.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

JSON = dict[str, Any]

INFO = {
    "name": "raw",
    "version": "9.1",
    "title": "Raw",
    "websiteUrl": "https://example.com",
    "icons": [{"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"]}],
}
CAPABILITIES: JSON = {
    "tools": {"listChanged": True},
    "prompts": {},
    "resources": {"subscribe": True},
    "logging": {},
    "completions": {},
}
ODD_RESULT = {
    "content": [
        {"type": "text", "text": "ü\u2028😀", "annotations": {"priority": 0.5}, "x-block": [1]},
        {"type": "image", "data": "aGk=", "mimeType": "image/png", "_meta": {"block": None}},
    ],
    "structuredContent": {"null": None, "nested": {"deep": [1, 2.5, True, None]}, "x-extra": ""},
    "isError": False,
    "_meta": {"vendor/key": {"a": [None]}},
    "x-result": {"unknown": 1},
}

tools: list[Any] = [
    {"name": name, "inputSchema": {"type": "object"}}
    for name in ("pid", "env", "odd", "meta", "crash", "hang", "grow", "refuse", "invalid", "progress", "reverse")
]
mode = sys.argv[1] if len(sys.argv) > 1 else ""
waiting: list[tuple[Any, JSON]] = []
hanging: dict[Any, str] = {}


def send(message: JSON) -> None:
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def notify(method: str, params: JSON | None = None) -> None:
    send({"method": f"notifications/{method}", **({} if params is None else {"params": params})})


def answer(number: Any, result: JSON) -> None:
    send({"id": number, "result": result})


def text(number: Any, value: object) -> None:
    shown = value if isinstance(value, str) else json.dumps(value)
    answer(number, {"content": [{"type": "text", "text": shown}]})


def crash(number: Any, params: JSON) -> None:
    sys.stderr.write("reading the key\nboom: \x1b[31mthese are my last words\n")
    sys.stderr.flush()
    os._exit(5)


def leave(number: Any, params: JSON) -> None:
    """Answer, and then end as if all was well."""
    text(number, "bye")
    sys.exit(0)


def fall_silent(number: Any, params: JSON) -> None:
    """Close the standard output, and stay."""
    sys.stderr.write("I have said enough\n")
    sys.stderr.flush()
    os.close(1)


def hang(number: Any, params: JSON) -> None:
    hanging[number] = params["arguments"].get("name", "")
    notify("resources/updated", {"uri": f"hanging://{hanging[number]}"})


def reverse(number: Any, params: JSON) -> None:
    """Answer only when as many calls wait as the arguments say, the last one first."""
    waiting.append((number, params))
    if len(waiting) == params["arguments"]["calls"]:
        while waiting:
            other, its_params = waiting.pop()
            text(other, its_params["arguments"])


def grow(number: Any, params: JSON) -> None:
    for count in range(params["arguments"].get("by", 1)):
        tools.append({"name": f"new-{count}", "inputSchema": {"type": "object"}})
        notify("tools/list_changed")
    text(number, "grown")


def progress(number: Any, params: JSON) -> None:
    token = params.get("_meta", {}).get("progressToken")
    for step in (1, 2, 3):
        notify("progress", {"progressToken": token, "progress": step, "total": 3, "message": f"step {step}"})
    text(number, "done")


def log(number: Any, params: JSON) -> None:
    notify("message", {"level": "warning", "logger": "part", "data": {"said": "hello\nworld"}})
    text(number, "logged")


def ask(number: Any, params: JSON) -> None:
    waiting.append((number, params))
    send({"id": "question", "method": params["arguments"]["method"], "params": params["arguments"]["params"]})


def noise(number: Any, params: JSON) -> None:
    sys.stdout.buffer.write(b"Listening on stdio...\n\x00\x1b[2J\n\n{}\n[]\n\xff\xfe broken utf-8 \xc3\n")
    sys.stderr.buffer.write(b"x" * 300_000 + b"\n\xff the end\n")
    sys.stderr.flush()
    text(number, "made noise")


def split(number: Any, params: JSON) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": "é" * 9}]}})
    for byte in line.encode() + b"\r\n":
        sys.stdout.buffer.write(bytes([byte]))
        sys.stdout.buffer.flush()


CALLS: dict[str, Callable[[Any, JSON], None]] = {
    "pid": lambda number, params: text(number, str(os.getpid())),
    "env": lambda number, params: text(number, dict(os.environ)),
    "cwd": lambda number, params: text(number, os.getcwd()),
    "meta": lambda number, params: text(number, params.get("_meta", {})),
    "odd": lambda number, params: answer(number, ODD_RESULT),
    "invalid": lambda number, params: answer(number, {"content": [{"type": "hologram"}]}),
    "refuse": lambda number, params: send(
        {"id": number, "error": {"code": -31999, "message": "not today", "data": {"until": "monday"}}}
    ),
    "crash": crash,
    "hang": hang,
    "leave": leave,
    "fall silent": fall_silent,
    "reverse": reverse,
    "grow": grow,
    "progress": progress,
    "log": log,
    "ask": ask,
    "noise": noise,
    "split": split,
}


def listed(number: Any, field: str, items: list[Any], cursor: str | None) -> None:
    if mode == "pages":
        at = int(cursor or 0)
        more = {"nextCursor": str(at + 1)} if at + 1 < len(items) else {}
        answer(number, {field: items[at : at + 1], **more})
    elif mode == "endless":
        at = int(cursor or 0)
        answer(number, {field: [{"name": f"t{at}", "inputSchema": {}}], "nextCursor": str(at + 1)})
    elif mode == "cycle":
        answer(number, {field: items, "nextCursor": "again"})
    else:
        answer(number, {field: items})


def initialize(number: Any, params: JSON) -> None:
    match mode:
        case "silent":
            return
        case "exit":
            sys.stderr.write("ModuleNotFoundError: No module named 'x'\n")
            sys.exit(3)
        case "refuse":
            send({"id": number, "error": {"code": -32022, "message": "Unsupported\nversion"}})
        case "future":
            answer(number, {"protocolVersion": "9999-01-01", "capabilities": {}, "serverInfo": INFO})
        case "malformed":
            answer(number, {"protocolVersion": 5})
        case _:
            capabilities: JSON = {"tools": {}} if mode == "plain" else CAPABILITIES
            version = "2024-11-05" if mode == "old" else params["protocolVersion"]
            answer(
                number,
                {
                    "protocolVersion": version,
                    "capabilities": capabilities,
                    "serverInfo": INFO,
                    "instructions": "Be raw.",
                },
            )


def resources_read(number: Any, params: JSON) -> None:
    if params["uri"] == "raw://gone":
        send({"id": number, "error": {"code": -32002, "message": "no such thing"}})
    else:
        answer(number, {"contents": [{"uri": params["uri"], "blob": "aGk=", "mimeType": "a/b", "x-extra": 1}]})


def subscribed(number: Any, params: JSON) -> None:
    if params["uri"] == "raw://refused":
        send({"id": number, "error": {"code": -32602, "message": "cannot watch that"}})
        return
    answer(number, {})
    notify("resources/updated", {"uri": params["uri"]})


def tools_list(number: Any, params: JSON) -> None:
    if mode == "dies listing":
        os._exit(1)
    listed(number, "tools", tools, params.get("cursor"))


METHODS: dict[str, Callable[[Any, JSON], None]] = {
    "initialize": initialize,
    "tools/list": tools_list,
    "tools/call": lambda number, params: CALLS[params["name"]](number, params),
    "prompts/list": lambda number, params: answer(number, {"prompts": [{"name": "p", "x-extra": 1}]}),
    "prompts/get": lambda number, params: answer(
        number, {"messages": [{"role": "user", "content": {"type": "text", "text": json.dumps(params)}}]}
    ),
    "resources/list": lambda number, params: answer(number, {"resources": [{"uri": "raw://r", "name": "r"}]}),
    "resources/read": resources_read,
    "resources/subscribe": subscribed,
    "resources/unsubscribe": subscribed,
    "completion/complete": lambda number, params: answer(
        number, {"completion": {"values": [json.dumps(params)], "total": 1}}
    ),
    "ping": lambda number, params: answer(number, {}),
}


def handle(message: JSON) -> None:
    method, number, params = message.get("method"), message.get("id"), message.get("params", {})
    if method is None and number == "question":
        text(waiting.pop()[0], message["error"])
    elif method == "notifications/cancelled" and params["requestId"] in hanging:
        notify("resources/updated", {"uri": f"cancelled://{hanging.pop(params['requestId'])}"})
    elif number is not None and method in METHODS:
        METHODS[method](number, params)
    elif number is not None and method is not None:
        send({"id": number, "error": {"code": -32601, "message": f"no {method}"}})


def hostile_tools() -> list[Any]:
    """Tools with schemas that harm whoever believes in them, and two that only look like it."""
    deep: JSON = {}
    for _ in range(200):
        deep = {"properties": {"a": deep}}
    twice: JSON = {
        f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]} for n in range(21)
    }
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    schemas: dict[str, Any] = {
        "remote": {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/schema"}}},
        "file": {"type": "object", "$ref": "file:///etc/passwd"},
        "nowhere": {"type": "object", "properties": {"a": {"$ref": "#/$defs/gone"}}},
        "deep": {"type": "object", **deep},
        "bomb": {"type": "object", "$ref": "#/$defs/a0", "$defs": {**twice, "a21": {}}},
        "large": {"type": "object", "description": "x" * 300_000},
        "list": [],
        "boolean": True,
        "recursive": {"type": "object", "$ref": "#/$defs/node", "$defs": {"node": node}},
        "slow-pattern": {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}},
    }
    return [{"name": name, "inputSchema": schema} for name, schema in schemas.items()]


def main() -> None:
    if mode == "bad tools":
        tools[1:] = [
            {"name": "list-schema", "inputSchema": []},
            {"inputSchema": {"type": "object"}},
            "not even an object",
            {"name": "pid", "inputSchema": {"type": "object"}},
            {"name": "bare"},
            {
                "name": "rich",
                "inputSchema": {"type": "object", "$defs": {}},
                "x-extra": [None],
                "_meta": {"a": 1},
            },
        ]
    if mode == "hostile tools":
        tools[1:] = hostile_tools()
    if mode == "slow":
        time.sleep(float(os.environ["SLOW"]))
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        handle(json.loads(line))
    while mode == "stubborn":
        signal.pause()


if __name__ == "__main__":
    main()
