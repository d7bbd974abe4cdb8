"""The model of the client that an agent works for, as the agent's own model (MCP client/sampling).

A client whose model takes tools (`sampling.tools`, since 2025-11-25) is given them. To any other the tools are
described in the system prompt, and its model calls one by answering with a JSON object.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

from gaia_bridge.calls.request_context import RequestContext
from gaia_bridge.chat_types import Reply, ToolCall
from gaia_bridge.errors import ModelError, RequestError
from gaia_bridge.text.json_types import JSON, is_array, is_object

__all__ = ["SamplingModel"]

_FINISHED: Final = {"endTurn": "stop", "stopSequence": "stop", "maxTokens": "length"}

_FENCED: Final = re.compile(r"\A\s*(?:```(?:json)?\s*)?(\{.*\})\s*(?:```)?\s*\Z", re.DOTALL)

_HOW_TO_CALL: Final = """

You have tools. To use one, answer with nothing but a JSON object: {"tool": "NAME", "arguments": {...}}. You are then
told its result, and go on. When you need no tool any more, answer in plain text. The tools, with the JSON Schemas of
their arguments:
"""

_NO_ANSWER: Final = "Try again, or configure a model server for the agent: GAIA_BASE_URL, or Agent(base_url=...)."


class SamplingModel:
    """A `ChatModel` that asks the client of one request. What it answers comes in one piece, without counted tokens.

    Args:
        request: Of whom.
        max_tokens: How long an answer may be, where nobody says it.
    """

    def __init__(self, request: RequestContext, max_tokens: int) -> None:
        self._request = request
        self._max_tokens = max_tokens
        declared = request.client_capabilities.get("sampling")
        self._takes_tools = is_object(declared) and declared.get("tools") is not None

    @property
    def name(self) -> str:
        """The model's name, for messages to people."""
        return "the client's model"

    async def stream(
        self, messages: Sequence[JSON], tools: Sequence[JSON] = (), options: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[str | Reply]:
        """Continue a conversation; see `ChatModel.stream`.

        Raises:
            ModelError: The client gave no answer.
        """
        asked = options or {}
        functions = [tool["function"] for tool in tools]
        system = "\n\n".join(_text_of(item) for item in messages if item["role"] in ("system", "developer"))
        conversation = [item for item in messages if item["role"] not in ("system", "developer")]
        params: JSON = {}
        if functions and self._takes_tools:
            params["tools"] = [_tool(function) for function in functions]
            params["toolChoice"] = {"mode": "auto"}
        elif functions:
            described = (json.dumps(_tool(function), ensure_ascii=False) for function in functions)
            system += _HOW_TO_CALL + "\n".join(described)
        if system:
            params["systemPrompt"] = system
        if isinstance(asked.get("temperature"), int | float):
            params["temperature"] = asked["temperature"]
        max_tokens = asked.get("max_completion_tokens") or asked.get("max_tokens") or self._max_tokens
        try:
            result = await self._request.asample(self._messages(conversation), int(max_tokens), **params)
        except RequestError as error:
            problem = str(error).rstrip(".")
            raise ModelError(f"The client's model gave no answer: {problem}.", _NO_ANSWER) from error
        reply = self._reply(result, bool(functions))
        if reply.text:
            yield reply.text
        yield reply

    async def aclose(self) -> None:
        """Do nothing: no connection is held."""

    def _messages(self, conversation: Sequence[JSON]) -> list[JSON]:
        """Convert the conversation to messages of sampling, where results of tools are user messages of their own."""
        converted: list[JSON] = []
        for item in conversation:
            blocks = self._blocks(item)
            role = "assistant" if item["role"] == "assistant" else "user"
            is_result = self._takes_tools and item["role"] == "tool"
            if is_result and converted and _holds_results(converted[-1]):
                converted[-1]["content"] += blocks
            elif blocks:
                converted.append({"role": role, "content": blocks if is_result or len(blocks) > 1 else blocks[0]})
        return converted

    def _blocks(self, item: JSON) -> list[JSON]:
        text = _text_of(item)
        calls = item.get("tool_calls")
        if item["role"] == "tool":
            if self._takes_tools:
                block = _text_block(text)
                return [{"type": "tool_result", "toolUseId": str(item.get("tool_call_id")), "content": [block]}]
            return [_text_block(f"Result of the tool:\n{text}")]
        blocks = [_text_block(text)] if text else []
        for call in calls if is_array(calls) else ():
            name, arguments = call["function"]["name"], _object(call["function"]["arguments"])
            if self._takes_tools:
                blocks.append({"type": "tool_use", "id": call["id"], "name": name, "input": arguments})
            else:
                blocks.append(_text_block(json.dumps({"tool": name, "arguments": arguments}, ensure_ascii=False)))
        return blocks

    def _reply(self, result: JSON, has_tools: bool) -> Reply:
        content = result.get("content")
        blocks: list[Any] = list(content) if is_array(content) else [content]
        objects = [block for block in blocks if is_object(block)]
        text = "".join(str(block.get("text", "")) for block in objects if block.get("type") == "text")
        calls = [_call(block) for block in objects if block.get("type") == "tool_use"]
        if has_tools and not calls and not self._takes_tools and (call := _written_call(text)) is not None:
            text, calls = "", [call]
        reason = "tool_calls" if calls else _FINISHED.get(str(result.get("stopReason")), "stop")
        return Reply(text, tuple(calls), reason)


def _text_of(item: JSON) -> str:
    content = item.get("content")
    if isinstance(content, str):
        return content
    parts = content if is_array(content) else []
    return "".join(str(part.get("text", "")) for part in parts if is_object(part))


def _tool(function: JSON) -> JSON:
    schema = function.get("parameters") or {"type": "object"}
    return {"name": function["name"], "description": function.get("description", ""), "inputSchema": schema}


def _text_block(text: str) -> JSON:
    return {"type": "text", "text": text}


def _object(text: object) -> JSON:
    try:
        value = json.loads(str(text))
    except (ValueError, RecursionError):
        return {}
    return value if is_object(value) else {}


def _call(block: JSON) -> ToolCall:
    arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
    return ToolCall(str(block.get("id") or secrets.token_hex(8)), str(block.get("name")), arguments)


def _written_call(text: str) -> ToolCall | None:
    """Return the call that a model wrote as text, as `_HOW_TO_CALL` asks; `None` for any other text."""
    match = _FENCED.match(text)
    written = _object(match[1]) if match is not None else {}
    name, arguments = written.get("tool"), written.get("arguments", {})
    if not isinstance(name, str) or not is_object(arguments):
        return None
    return ToolCall(f"call_{secrets.token_hex(8)}", name, json.dumps(arguments, ensure_ascii=False))


def _holds_results(message: JSON) -> bool:
    content = message["content"]
    return is_array(content) and bool(content) and content[0].get("type") == "tool_result"
