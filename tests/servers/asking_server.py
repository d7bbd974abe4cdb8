"""A server whose tools ask the user of their client something.

    python asking_server.py [MODE]

With `modern-only`, it asks by its results, as servers of 2026-07-28 do; otherwise by requests.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

raw: Any = importlib.import_module("raw_server")

JSON = dict[str, Any]

FORM: JSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "description": "Who comes", "minLength": 2},
        "count": {"type": "integer", "minimum": 1, "default": 2},
        "window": {"type": "boolean"},
        "day": {"type": "string", "enum": ["fri", "sat"], "enumNames": ["Friday", "Saturday"], "default": "sat"},
        "dishes": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "Soup"}, {"const": "b"}]}},
        "note": {"type": "string"},
    },
    "required": ["name", "window"],
}
QUESTIONS: dict[str, JSON] = {
    "form": {"mode": "form", "message": "A table?\nFor \x1b[2Kwhom?", "requestedSchema": FORM},
    "agree": {"message": "Really?", "requestedSchema": {"type": "object", "properties": {}}},
    "link": {"mode": "url", "message": "Pay there", "url": "https://pay.example/1?a=b", "elicitationId": "1"},
}


def asks(tool: str) -> Any:
    def ask(number: Any, params: JSON) -> None:
        raw.notify("message", {"level": "info", "data": f"about to ask {tool}"})
        question = {"method": "elicitation/create", "params": QUESTIONS[tool]}
        if raw.mode != "modern-only":
            raw.waiting.append((number, params))
            raw.send({"id": "question", **question})
        elif answers := params.get("inputResponses"):
            raw.text(number, answers["it"])
        else:
            raw.answer(number, {"resultType": "input_required", "inputRequests": {"it": question}})

    return ask


def linger(number: Any, params: JSON) -> None:
    """Ask, and do not end whatever is answered."""
    raw.send({"id": "other", "method": "elicitation/create", "params": QUESTIONS["agree"]})


def handle(message: JSON) -> None:
    if message.get("id") == "question" and "error" in message:
        content = [{"type": "text", "text": message["error"]["message"]}]
        raw.answer(raw.waiting.pop()[0], {"content": content, "isError": True})
    else:
        plain(message)


plain, raw.handle = raw.handle, handle
raw.tools[:] = [{"name": name, "inputSchema": {"type": "object"}} for name in (*QUESTIONS, "linger", "greeted")]
raw.CALLS.update({name: asks(name) for name in QUESTIONS}, linger=linger)

if __name__ == "__main__":
    raw.main()
