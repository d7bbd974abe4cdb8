"""An MCP server on pipes that does, at one method, what servers must not.

    python -S hostile_child.py METHOD FAULT

`FAULTS` has them by name; each is given the request that it is to answer.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["FAULTS"]

JSON = dict[str, Any]

TOOL = {"name": "work", "description": "Work.", "inputSchema": {"type": "object"}}
_RESULTS: dict[str, JSON] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "hostile", "version": "1"},
    },
    "ping": {},
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "done"}]},
}


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def send(**message: Any) -> None:
    say(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def answer(request: JSON, result: Any = None) -> None:
    send(id=request["id"], result=_RESULTS[request["method"]] if result is None else result)


def endless_line(request: JSON) -> None:
    while True:
        say("x" * 65_536)


def endless_lines(request: JSON) -> None:
    while True:
        say("no message\n")


def endless_notes(request: JSON) -> None:
    while True:
        send(method="notifications/tools/list_changed")


def endless_pages(request: JSON) -> None:
    page = int(request.get("params", {}).get("cursor", 0))
    answer(request, {"tools": [{**TOOL, "name": f"work-{page}"}], "nextCursor": str(page + 1)})


def endless_slow_pages(request: JSON) -> None:
    time.sleep(0.1)
    endless_pages(request)


def hundred_thousand_tools(request: JSON) -> None:
    answer(request, {"tools": [{**TOOL, "name": f"work-{number}"} for number in range(100_000)]})


def no_tools(request: JSON) -> None:
    odd = [5, None, {}, {"name": 5}, {"name": "a", "inputSchema": 5}, {"name": "b", "inputSchema": {"type": 7}}]
    answer(request, {"tools": [*odd, {"name": "c", "inputSchema": {"$ref": "#/none"}}, TOOL]})


def deep_json(request: JSON) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    say(f'{{"jsonrpc":"2.0","id":{request["id"]},"result":{{"tools":{deep},"content":{deep}}}}}\n')


def huge_numbers(request: JSON) -> None:
    numbers = f'{{"a":{"9" * 5_000},"b":1e999,"c":NaN}}'
    say(f'{{"jsonrpc":"2.0","id":{request["id"]},"result":{{"content":[],"structuredContent":{numbers}}}}}\n')


def surrogates(request: JSON) -> None:
    answer(request, {"content": [{"type": "text", "text": "a\ud800b"}]})


def silence(request: JSON) -> None:
    pass


def sudden_death(request: JSON) -> None:
    say('{"jsonrpc": "2.0", "id":')
    os._exit(3)


def answers_to_others(request: JSON) -> None:
    for number in (request["id"] + 1_000, f"{request['id']}x", [request["id"]], None):
        send(id=number, result={"content": [{"type": "text", "text": "stolen"}]})


def two_answers(request: JSON) -> None:
    for number in range(2):
        answer(request, {"content": [{"type": "text", "text": f"answer {number}"}]})


def questions(request: JSON) -> None:
    for number in range(2_000):
        send(id=f"question-{number}", method="sampling/createMessage", params={})
    answer(request)


def no_object(request: JSON) -> None:
    answer(request, [5])


def wrong_error(request: JSON) -> None:
    send(id=request["id"], error="boom")


def stubborn_child(request: JSON) -> None:
    """A child in a session of its own; neither of them ends when it is asked to."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"], start_new_session=True)
    answer(request)
    time.sleep(600)


FAULTS: dict[str, Callable[[JSON], None]] = {
    fault.__name__: fault
    for fault in (
        endless_line,
        endless_lines,
        endless_notes,
        endless_pages,
        endless_slow_pages,
        hundred_thousand_tools,
        no_tools,
        deep_json,
        huge_numbers,
        surrogates,
        silence,
        sudden_death,
        answers_to_others,
        two_answers,
        questions,
        no_object,
        wrong_error,
        stubborn_child,
    )
}


def main() -> None:
    """Answer as servers do, save where the fault is."""
    method, fault = sys.argv[1], FAULTS[sys.argv[2]]
    for line in sys.stdin:
        request: JSON = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        if request["method"] == method:
            fault(request)
        elif request["method"] in _RESULTS:
            answer(request)
        else:
            send(id=request["id"], error={"code": -32601, "message": "Method not found"})


if __name__ == "__main__":
    main()
