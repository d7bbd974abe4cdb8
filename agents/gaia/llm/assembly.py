"""A reply is put together from the pieces in which servers send it, whatever they make of the protocol. Pure.

The protocol: each chunk has a `delta`, whose `tool_calls` name a call by `index`, tell `id` and name in the first piece
and the arguments in text pieces; then a `finish_reason`; then, if asked for, `usage` in a chunk without choices.
What servers make of it: no `index`, the same one for all calls, no ids, the same id again and again or for
different calls, names in pieces or repeated, arguments as an object, twice, or after an empty object, no finish reason
or the wrong one. A whole answer has a `message` of the same shape, and is taken as a single chunk.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection
from typing import Any

from msgspec import Struct, field

from gaia_bridge.chat_types import Reply, ToolCall, Usage
from gaia_bridge.text.json_types import JSON, is_array, is_object

__all__ = ["Assembly", "repaired_arguments"]

_FINISHES = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}
"""Finish reasons that say more than that it was said."""

_THOUGHTS = ("reasoning_content", "reasoning")
"""Fields of what a model says to itself: llama.cpp, vLLM, LM Studio and DeepSeek have the first, Ollama the second."""

_LONGEST_NAME = 1_000
"""Characters of a tool's name; nothing that goes on for longer is one."""

_LOOKED_THROUGH = 16 * 1024 * 1024
"""Characters of one call's arguments, counted as often as they are parsed to see whether they are complete."""


class _Call(Struct):
    """One tool call in the making."""

    index: object = None
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])
    """Of the arguments; none is empty."""
    size: int = 0
    """Characters of the arguments."""
    may_be_complete: bool = False
    looked_through: int = 0

    @property
    def arguments(self) -> str:
        """As far as they came."""
        return "".join(self.pieces)

    def is_complete(self) -> bool:
        """Whether the arguments are a whole object. A server that has it asked for ever is told that they are not."""
        if not self.may_be_complete:
            return False
        self.looked_through += self.size
        return self.looked_through <= _LOOKED_THROUGH and _is_complete(self.arguments)

    def extend(self, piece: str) -> None:
        """Take the next piece of the arguments."""
        if piece:
            self.pieces.append(piece)
            self.size += len(piece)
        if text := piece.rstrip():
            self.may_be_complete = text.endswith("}")


class Assembly:
    """Takes chunks, gives text at once, and in the end the reply.

    Args:
        offered: Names of the tools that the model may call, which help where names come in pieces.
        new_id: Makes up an id for a call that has none.
        most_calls: More tool calls are not taken; see `overfull`.
    """

    def __init__(
        self,
        offered: Collection[str] = (),
        new_id: Callable[[], str] = lambda: f"call_{uuid.uuid4().hex[:24]}",
        most_calls: int = 128,
    ) -> None:
        self.has_begun = False
        """Whether the model has begun to say something, if only to itself."""
        self.is_finished = False
        """Whether the server said that this is all."""
        self.failed = False
        """Whether the server said that it failed."""
        self.thought = ""
        """The last chunk's part of the model's thinking."""
        self.overfull = False
        """Whether there were more tool calls than there may be."""
        self._offered = offered
        self._new_id = new_id
        self._most_calls = most_calls
        self._text: list[str] = []
        self._calls: list[_Call] = []
        self._finish = ""
        self._usage = Usage()

    def feed(self, chunk: JSON) -> str:
        """Take a chunk, or a whole answer; returns the text in it."""
        self.thought = ""
        self._take_usage(chunk.get("usage"))
        choices = chunk.get("choices")
        choice = choices[0] if is_array(choices) and choices else None
        if not is_object(choice) or choice.get("index") not in (0, None):
            return ""
        delta = choice.get("delta") or choice.get("message")
        text = ""
        if is_object(delta):
            self.has_begun = self.has_begun or any(value for field, value in delta.items() if field != "role")
            text = _text_of(delta.get("content")) or _text_of(delta.get("refusal"))
            self.thought = next((thought for field in _THOUGHTS if (thought := _text_of(delta.get(field)))), "")
            self._take_calls(delta.get("tool_calls"))
        if text:
            self._text.append(text)
        self._take_finish(choice.get("finish_reason"))
        return text

    def reply(self) -> Reply:
        """Return the whole reply."""
        seen: set[str] = set()
        calls: list[ToolCall] = []
        for call in self._calls:
            while not call.id or call.id in seen:
                call.id = self._new_id()
            seen.add(call.id)
            calls.append(ToolCall(call.id, call.name, _repaired(call.arguments)))
        finish = self._finish or "stop"
        if calls and finish == "stop":
            finish = "tool_calls"
        elif not calls and finish == "tool_calls":
            finish = "stop"
        return Reply("".join(self._text), tuple(calls), finish, self._usage)

    def _take_usage(self, usage: object) -> None:
        if is_object(usage):
            prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
            self._usage = Usage(_count(prompt) or self._usage.prompt_tokens, _count(completion))

    def _take_finish(self, reason: object) -> None:
        if isinstance(reason, str) and reason:
            self.is_finished = True
            self.failed = reason == "error"
            self._finish = _FINISHES.get(reason, "stop")

    def _take_calls(self, deltas: object) -> None:
        taken: list[_Call] = []  # two pieces in one chunk never belong to the same call
        for delta in deltas if is_array(deltas) else ():
            if is_object(delta) and (call := self._call_for(delta, taken)):
                taken.append(call)
                self._extend(call, delta)

    def _call_for(self, delta: JSON, taken: Collection[_Call]) -> _Call | None:
        """Return the call that a piece belongs to, or a new one; `None` if there are too many."""
        index, call_id = delta.get("index"), _id_of(delta)
        if index is not None:
            candidates = [call for call in self._calls if call.index == index]
        elif call_id:
            candidates = [call for call in self._calls if call.id == call_id]
        else:
            candidates = self._calls
        current = candidates[-1] if candidates else None
        if current is not None and not any(current is call for call in taken):
            if not self._begins_another(current, delta, call_id):
                return current
        if len(self._calls) >= self._most_calls:
            self.overfull = True
            return None
        self._calls.append(_Call(index))
        return self._calls[-1]

    def _begins_another(self, current: _Call, delta: JSON, call_id: str) -> bool:
        """Whether a piece that could go on with a call is the first one of another."""
        function = delta.get("function")
        function = function if is_object(function) else {}
        name = function.get("name")
        if not (isinstance(name, str) and name and current.name):
            return False
        if call_id and current.id and call_id != current.id:
            return True
        if current.pieces:  # a name comes before any arguments, so this is a repetition, or another call
            repeats = name == current.name and not (function.get("arguments") and current.is_complete())
            return not repeats
        return name != current.name and current.name in self._offered and not self._is_offered(current.name + name)

    def _extend(self, call: _Call, delta: JSON) -> None:
        call.id = call.id or _id_of(delta)
        function = delta.get("function")
        if not is_object(function):
            return
        name, arguments = function.get("name"), function.get("arguments")
        if isinstance(name, str) and name and len(call.name) < _LONGEST_NAME:
            call.name = self._longer_name(call.name, name)
        if isinstance(arguments, str):
            call.extend(arguments)
        elif arguments is not None:
            call.extend(json.dumps(arguments, ensure_ascii=False))

    def _longer_name(self, name: str, piece: str) -> str:
        """Return a name with its next piece, unless that is the same name again."""
        return name if piece == name and not self._is_offered(name + piece) else name + piece

    def _is_offered(self, start: str) -> bool:
        return any(name.startswith(start) for name in self._offered)


def _id_of(delta: JSON) -> str:
    call_id = delta.get("id")
    return str(call_id) if isinstance(call_id, str | int) and call_id != "" else ""


def _text_of(content: object) -> str:
    """Return text, also where it comes as a list of parts."""
    if is_array(content):
        parts = [part.get("text") for part in content if is_object(part) and part.get("type", "text") == "text"]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _is_complete(arguments: str) -> bool:
    return is_object(_parsed(arguments))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _repaired(text: str) -> str:
    """Repair arguments that came empty, twice, or as JSON in a JSON text; malformed ones stay as they are."""
    if not text.strip():
        return "{}"
    if is_object(value := _parsed(text)):
        return text
    if isinstance(value, str) and _is_complete(value):
        return value  # JSON in a JSON text
    try:
        first, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return text
    rest = text[end:]
    if is_object(first) and is_object(second := _parsed(rest)) and first in ({}, second):
        return rest  # after an empty object, or sent twice
    return text


def repaired_arguments(text: object) -> str:
    """Arguments of an earlier call as they can be sent to any server: many refuse a conversation with malformed ones.

    Args:
        text: As they are in the conversation; the tool's result tells the model what was wrong with them.
    """
    if is_object(text):
        return json.dumps(text, ensure_ascii=False)
    return text if isinstance(text, str) and _is_complete(text) else "{}"
