"""Answers in the shapes of the Responses API: a response in one piece, or the typed events of a stream."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from gaia_bridge.chat_types import Reply, ToolCall, Usage
from gaia_bridge.text.escaping import valid_text
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.conversation.errors import ChatError
from gaia_bridge_doors.openai_api.completion_request import CompletionRequest
from gaia_bridge_doors.openai_api.responses.response_request import ResponseRequest, StoredResponses
from gaia_bridge_doors.openai_api.turn_endpoint import Event

_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""The reasons for an incomplete answer, by the finish reasons of chat completions."""


class ResponseExchange:
    """One request for a response. Implements `gaia_bridge_doors.openai_api.turn_endpoint.TurnExchange`.

    Args:
        request: The request.
        stored: The store of responses.
    """

    def __init__(self, request: ResponseRequest, stored: StoredResponses) -> None:
        self._request = request
        self._stored = stored
        self._id = _new_id("resp")
        self._created = int(time.time())
        self._sequence = 0
        self._message_id: str | None = None
        self._texts: list[str] = []

    @property
    def asked(self) -> CompletionRequest:
        """The request as the agent gets it."""
        return self._request.asked

    def whole(self, reply: Reply) -> bytes:
        """Return the answer in one piece."""
        output = [*self._message(reply.text), *map(self._call_item, reply.tool_calls)]
        if not output:
            output = [_message_item(_new_id("msg"), "")]
        return to_json(self._finish(reply, output))

    def first(self) -> list[Event]:
        """Return the events that begin a stream."""
        response = self._response("in_progress")
        return [self._event(f"response.{state}", response=response) for state in ("created", "in_progress")]

    def piece(self, text: str) -> Iterator[Event]:
        """Yield the events for a piece of text; the first begins a message."""
        if self._message_id is None:
            yield from self._open_message()
        self._texts.append(text)
        yield self._of_text("response.output_text.delta", delta=text, logprobs=[])

    def last(self, reply: Reply, rest: str) -> Iterator[Event]:
        """Yield the events that end a stream: the rest of the message, the calls of functions, the response."""
        if rest:
            yield from self.piece(rest)
        elif self._message_id is None and not reply.tool_calls:
            yield from self._open_message()
        output: list[JSON] = []
        if self._message_id is not None:
            output.append(_message_item(self._message_id, "".join(self._texts)))
            yield from self._close_message(output[0])
        for call in reply.tool_calls:
            output.append(self._call_item(call))
            yield from self._call_events(output[-1], len(output) - 1)
        response = self._finish(reply, output)
        yield self._event(f"response.{response['status']}", response=response)

    def broken(self, error: ChatError) -> list[Event]:
        """Return the event that ends a failed stream."""
        problem = {"code": error.code or "server_error", "message": valid_text(error.message)}
        response = self._response("failed") | {"error": problem, "output": self._message("".join(self._texts))}
        return [self._event("response.failed", response=response)]

    def refused(self, error: ChatError) -> ChatError:
        """Return the error for this API: the field `messages` is called `input` here."""
        if error.param != "messages":
            return error
        message = f"input{rest}" if (rest := error.message.removeprefix("messages")) != error.message else error.message
        return ChatError(error.status, message, error.code, "input", error.headers)

    def _finish(self, reply: Reply, output: list[JSON]) -> JSON:
        """Return the whole response, and store it if the client wants that."""
        reason = None if reply.tool_calls else _INCOMPLETE.get(reply.finish_reason)
        response = self._response("completed" if reason is None else "incomplete")
        response |= {
            "completed_at": int(time.time()) if reason is None else None,
            "incomplete_details": None if reason is None else {"reason": reason},
            "output": output,
            "usage": _usage(reply.usage),
        }
        if self._request.store:
            text = "".join(part["text"] for item in output for part in item.get("content", ()))
            self._stored.add(response, [*self._request.history, _as_message(text, reply.tool_calls)])
        return response

    def _response(self, status: str) -> JSON:
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "completed_at": None,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self.asked.model,
            "output": [],
            "usage": None,
            "store": self._request.store,
            **self._request.echo,
        }

    def _message(self, text: str) -> list[JSON]:
        return [_message_item(self._message_id or _new_id("msg"), text)] if text else []

    def _call_item(self, call: ToolCall) -> JSON:
        namespace, name = self.asked.tools.namespaces.get(call.name, (None, call.name))
        item: JSON = {
            "id": _new_id("fc"),
            "type": "function_call",
            "status": "completed",
            "call_id": valid_text(call.id),
            "name": valid_text(name),
            "arguments": valid_text(call.arguments),
        }
        return item if namespace is None else {**item, "namespace": namespace}

    def _open_message(self) -> Iterator[Event]:
        self._message_id = _new_id("msg")
        begun: JSON = {**_message_item(self._message_id, ""), "status": "in_progress", "content": []}
        yield self._event("response.output_item.added", output_index=0, item=begun)
        yield self._of_text("response.content_part.added", part=_text_part(""))

    def _close_message(self, item: JSON) -> Iterator[Event]:
        [part] = item["content"]
        yield self._of_text("response.output_text.done", text=part["text"], logprobs=[])
        yield self._of_text("response.content_part.done", part=part)
        yield self._event("response.output_item.done", output_index=0, item=item)

    def _call_events(self, item: JSON, index: int) -> Iterator[Event]:
        at = {"item_id": item["id"], "output_index": index}
        name = "response.function_call_arguments"
        begun = item | {"status": "in_progress", "arguments": ""}
        yield self._event("response.output_item.added", output_index=index, item=begun)
        yield self._event(f"{name}.delta", **at, delta=item["arguments"])
        yield self._event(f"{name}.done", **at, name=item["name"], arguments=item["arguments"])
        yield self._event("response.output_item.done", output_index=index, item=item)

    def _of_text(self, name: str, **fields: Any) -> Event:
        return self._event(name, item_id=self._message_id, output_index=0, content_index=0, **fields)

    def _event(self, name: str, /, **fields: Any) -> Event:
        data = {"type": name, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return Event(to_json(data).decode(), name)


def _new_id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(16)}"


def _text_part(text: str) -> JSON:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message_item(item_id: str, text: str) -> JSON:
    return {
        "id": item_id,
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [_text_part(text)],
    }


def _as_message(text: str, calls: Sequence[ToolCall]) -> JSON:
    """Return the answer in the shape of chat completions, in which the agent gets it again later."""
    message: JSON = {"role": "assistant", "content": text or (None if calls else "")}
    if not calls:
        return message
    functions = ((call.id, {"name": valid_text(call.name), "arguments": valid_text(call.arguments)}) for call in calls)
    tool_calls = [{"id": valid_text(name), "type": "function", "function": function} for name, function in functions]
    return {**message, "tool_calls": tool_calls}


def _usage(usage: Usage) -> JSON:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
