"""A server on stdio that lists what a file says, and answers each call: `odd_lists.py FILE`.

The file is JSON: the result of each method that lists something, by method.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

CAPABILITIES: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {}}
CALLED: dict[str, Any] = {"content": [], "structuredContent": {"a": "yes"}}


def answer(lists: dict[str, Any], method: str) -> dict[str, Any]:
    """The result of a request, or its error."""
    if method == "initialize":
        info = {"name": "odd", "version": "1"}
        return {"result": {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": info}}
    if method == "tools/call":
        return {"result": CALLED}
    if method in lists:
        return {"result": lists[method]}
    return {"error": {"code": -32601, "message": "Method not found"}}


def main() -> None:
    """Serve until the input ends."""
    lists = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            response = {"jsonrpc": "2.0", "id": message["id"], **answer(lists, message["method"])}
            sys.stdout.write(f"{json.dumps(response)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
