"""Answers in the shapes of OpenAI's API: a completion in one piece, or the chunks of a stream."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Final

from gaia_bridge.chat_types import Reply, ToolCall, Usage
from gaia_bridge.text.escaping import valid_text
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.conversation.errors import ChatError
from gaia_bridge_doors.openai_api.completion_request import CompletionRequest
from gaia_bridge_doors.openai_api.turn_endpoint import Event

DONE: Final = "[DONE]"
"""The data of the event that ends a stream."""


class Completion:
    """One request for a completion. Implements `gaia_bridge_doors.openai_api.turn_endpoint.TurnExchange`.

    Args:
        asked: The request.
    """

    def __init__(self, asked: CompletionRequest) -> None:
        self.asked = asked
        self.id = f"chatcmpl-{secrets.token_hex(16)}"
        self._model = asked.model
        self._created = int(time.time())
        self._include_usage = asked.include_usage

    def whole(self, reply: Reply) -> bytes:
        """The answer in one piece."""
        message: JSON = {"role": "assistant", "content": reply.text, "refusal": None}
        if reply.tool_calls:
            message |= {"content": reply.text or None, "tool_calls": _calls(reply.tool_calls)}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(reply)}
        answer = self._head("chat.completion") | {"choices": [choice], "usage": _usage(reply.usage)}
        return to_json(answer)

    def first(self) -> list[Event]:
        """The chunk that begins a stream."""
        return [self._chunk({"role": "assistant", "content": ""})]

    def piece(self, text: str) -> list[Event]:
        """A piece of text."""
        return [self._chunk({"content": text})]

    def last(self, reply: Reply, rest: str) -> list[Event]:
        """What ends a stream.

        Args:
            reply: How the turn ended.
            rest: What of its text was not sent yet.
        """
        chunks = self.piece(rest) if rest else []
        calls = enumerate(_calls(reply.tool_calls))
        chunks += [self._chunk({"tool_calls": [{"index": number, **call}]}) for number, call in calls]
        chunks.append(self._chunk({}, _reason(reply)))
        if self._include_usage:
            tokens: JSON = {"choices": [], "usage": _usage(reply.usage)}
            tokens = self._head("chat.completion.chunk") | tokens
            chunks.append(Event(to_json(tokens).decode()))
        return [*chunks, Event(DONE)]

    def broken(self, error: ChatError) -> list[Event]:
        """What ends a stream that failed."""
        return [Event(to_json(error.payload()).decode())]

    def refused(self, error: ChatError) -> ChatError:
        """The error, whose words are those of this API."""
        return error

    def _chunk(self, delta: JSON, finish_reason: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = self._head("chat.completion.chunk") | {"choices": [choice]}
        if self._include_usage:
            chunk["usage"] = None
        return Event(to_json(chunk).decode())

    def _head(self, kind: str) -> JSON:
        return {"id": self.id, "object": kind, "created": self._created, "model": self._model}


def _reason(reply: Reply) -> str:
    return "tool_calls" if reply.tool_calls else reply.finish_reason


def _calls(calls: Sequence[ToolCall]) -> list[JSON]:
    return [
        {
            "id": valid_text(call.id),
            "type": "function",
            "function": {"name": valid_text(call.name), "arguments": valid_text(call.arguments)},
        }
        for call in calls
    ]


def _usage(usage: Usage) -> JSON:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
