"""Stands in for `npx -y <package> [folder]`: a server that reads and writes files, started in no time.

With the package `@modelcontextprotocol/server-github` it tells which token it was given instead.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

PATH = {"path": {"type": "string", "description": "File path"}}
FILE_TOOLS = [
    {"name": "read_file", "description": "Read file contents",
     "inputSchema": {"type": "object", "properties": PATH, "required": ["path"]}},
    {"name": "write_file", "description": "Write a file",
     "inputSchema": {"type": "object", "properties": {**PATH, "text": {"type": "string"}}, "required": ["path"]}},
]  # fmt: skip
GITHUB_TOOLS = [{"name": "read_file", "description": "Read from a repository", "inputSchema": {"type": "object"}}]

package = sys.argv[2]
on_github = package.endswith("-github")


def call(name: str, arguments: dict[str, Any]) -> str:
    if on_github:
        return os.environ["GITHUB_TOKEN"]
    path = Path(arguments["path"])
    if name == "write_file":
        path.write_text(arguments["text"], "utf-8")
    return path.read_text("utf-8")


def result_of(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            info = {"name": package, "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": GITHUB_TOOLS if on_github else FILE_TOOLS}
        case _:
            return {"content": [{"type": "text", "text": call(params["name"], params["arguments"])}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            answer["result"] = result_of(message["method"], message.get("params", {}))
        except KeyError as error:
            answer["error"] = {"code": -32602, "message": f"Invalid params: missing required parameter {error}"}
        except OSError as error:
            answer["error"] = {"code": -32603, "message": str(error)}
        print(json.dumps(answer), flush=True)  # noqa: T201 - the protocol
