"""A model that says one word in four protocols, and keeps what editors of the terminal gave it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

__all__ = ["MeasuringModel", "measuring_model"]

_USAGE: Final = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}


def _events(*events: tuple[str, dict[str, Any]]) -> str:
    return "".join(f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in events)


def _anthropic(request: dict[str, Any]) -> str:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": request.get("model")}
    usage = {"input_tokens": 1, "output_tokens": 1}
    text = {"type": "text", "text": "Done."}
    if not request.get("stream"):
        return json.dumps({**message, "content": [text], "stop_reason": "end_turn", "usage": usage})
    begun: dict[str, Any] = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    return _events(
        ("message_start", {"message": begun}),
        ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "Done."}}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage}),
        ("message_stop", {}),
    )


def _responses(request: dict[str, Any]) -> str:
    text: dict[str, Any] = {"type": "output_text", "text": "Done.", "annotations": []}
    item: dict[str, Any] = {
        "type": "message",
        "id": "m_1",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }
    whole: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "output": [item],
        "usage": _USAGE,
    }
    return _events(
        ("response.created", {"response": {**whole, "output": [], "status": "in_progress"}}),
        ("response.output_item.added", {"output_index": 0, "item": item}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": whole}),
    )


def _chat(request: dict[str, Any], *, calls: bool) -> str:
    base = {"id": "c1", "created": 1, "model": "measuring"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    said: dict[str, Any] = {"role": "assistant", "content": "Done."}
    reason = "stop"
    if calls and all(message["role"] != "tool" for message in request["messages"]):
        name = next(tool["function"]["name"] for tool in request["tools"] if "more_0" in tool["function"]["name"])
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": "{}"}}
        said, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    if not request.get("stream"):
        choice = {"index": 0, "message": said, "finish_reason": reason}
        return json.dumps({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": said, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
    ]
    lines = [json.dumps({**base, "object": "chat.completion.chunk", **chunk}) for chunk in chunks]
    return "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"])


def _gemini(request: dict[str, Any], *, streamed: bool) -> str:
    candidate = {"content": {"role": "model", "parts": [{"text": "Done."}]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    told = json.dumps({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "measuring"})
    return f"data: {told}\r\n\r\n" if streamed else told


class MeasuringModel:
    """What came, of all requests that brought tools.

    Args:
        wait: Called before each answer to one that did; returns whether its client listed again. A client that did not
            is had to call a tool, as some list again before the next request only (Copilot CLI 1.0.102).
    """

    def __init__(self, wait: Callable[[], bool]) -> None:
        self.url = ""
        """Where it listens: the root of all four protocols."""
        self.requests: list[dict[str, Any]] = []
        self._wait = wait

    @property
    def text(self) -> str:
        """Everything that it was given in the last such request, as JSON."""
        return json.dumps(self.requests[-1], ensure_ascii=False) if self.requests else ""

    def words(self, mark: str) -> int:
        """Characters of the numbered words of a mark that came, counted from the first to the first that is missing."""
        number = 0
        while f"{mark}{number:06d}" in self.text:
            number += 1
        return number * 8

    def answer(self, path: str, request: dict[str, Any]) -> tuple[str, str]:
        """The body, and its media type."""
        calls = False
        if request.get("tools"):
            self.requests.append(request)
            calls = not self._wait()
        if "ount" in path and "oken" in path:
            return json.dumps({"totalTokens": 1, "input_tokens": 1}), "application/json"
        if "enerateContent" in path:
            body = _gemini(request, streamed="stream" in path)
        elif path.endswith("/messages"):
            body = _anthropic(request)
        elif path.endswith("/responses"):
            body = _responses(request)
        else:
            body = _chat(request, calls=calls)
        return body, "application/json" if body.startswith("{") else "text/event-stream"


@contextmanager
def measuring_model(wait: Callable[[], bool]) -> Generator[MeasuringModel]:
    """A model that listens on loopback.

    Args:
        wait: Called before each answer to a request with tools; returns whether its client listed again.
    """
    model = MeasuringModel(wait)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            models = {"object": "list", "data": [{"id": "measuring", "object": "model"}]}
            self._give(json.dumps(models), "application/json")

        def do_HEAD(self) -> None:
            self._give("", "application/json")

        def do_POST(self) -> None:
            told = self.rfile.read(int(self.headers.get("content-length") or 0))
            request: dict[str, Any] = {}
            with suppress(ValueError):
                request = dict(json.loads(told))
            self._give(*model.answer(self.path.partition("?")[0], request))

        def _give(self, body: str, kind: str) -> None:
            data = body.encode()
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
