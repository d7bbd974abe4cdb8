"""`input` in a request for a response: items, checked, as the messages that chat completions have for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gaia_bridge.inbound.openai.checks import array_at, invalid, object_at, string_at
from gaia_bridge.inbound.openai.errors import ChatError
from gaia_bridge.inbound.openai.messages import joined, since_last_answer
from gaia_bridge.inbound.openai.tools import function_name
from gaia_bridge.jsontypes import JSON, is_array

__all__ = ["read_items"]

_ROLES: Final = {"assistant": "assistant", "developer": "system", "system": "system", "user": "user"}
_TEXTS: Final = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
"""Where the text is in a part of a content."""
_SKIPPED: Final = frozenset(
    {"reasoning", "compaction", "mcp_list_tools", "mcp_call", "mcp_approval_request", "mcp_approval_response"}
    | {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "computer_call"}
)
"""What a client sends back of other models' answers, and no model here has a use for."""
_MAX_PARTS: Final = 1_000


def read_items(value: Any, limit: int, history: Iterable[JSON] = (), *, whole: bool) -> list[JSON]:
    """The messages of the field `input`.

    Args:
        value: The field: a text, or a list of items.
        limit: How many items there may be.
        history: The messages before.
        whole: Whether these are all messages before, or the agent may remember more.

    Raises:
        ChatError: Something is wrong with an item, or there is nothing to answer.
    """
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    items = array_at("input", value, limit, "a text, or a list of items, the last of them what is asked")
    calls = {call["id"] for message in history for call in message.get("tool_calls", ())}
    messages: list[JSON] = []
    for number, item in enumerate(items):
        at = f"input[{number}]"
        message = _message(at, object_at(at, item, "an item, such as a message with role and content"))
        if message is None:
            continue
        calls.update(call["id"] for call in message.get("tool_calls", ()))
        if whole and message["role"] == "tool" and message["tool_call_id"] not in calls:
            expected = "the call_id of an earlier function_call, in input or in the response of previous_response_id"
            raise invalid(f"{at}.call_id", message["tool_call_id"], expected)
        _add(messages, message)
    if not any(message["role"] in ("user", "tool") for message in since_last_answer(messages)):
        problem = (
            "input: nothing to answer came; expected a message of the role user, or a function_call_output, at the end."
        )
        raise ChatError(400, problem, "invalid_value", "input")
    return messages


def _add(messages: list[JSON], message: JSON) -> None:
    """Calls belong to the words before them, and to the other calls beside them: to models they are one message."""
    before = messages[-1] if messages else None
    if "tool_calls" in message and before is not None and before["role"] == "assistant":
        messages[-1] = {**before, "tool_calls": [*before.get("tool_calls", ()), *message["tool_calls"]]}
    else:
        messages.append(message)


def _message(at: str, item: JSON) -> JSON | None:
    kind = item.get("type", "message" if "role" in item else None)
    match kind:
        case "message":
            return _said(at, item)
        case "function_call":
            return {"role": "assistant", "content": None, "tool_calls": [_call(at, item)]}
        case "function_call_output":
            call_id = string_at(f"{at}.call_id", item.get("call_id"), "the call_id of a function_call")
            output = _content(f"{at}.output", item.get("output"), images=False)
            return {"role": "tool", "content": output, "tool_call_id": call_id}
        case str() if kind in _SKIPPED:
            return None
        case _:
            raise invalid(f"{at}.type", kind, "message, function_call or function_call_output")


def _said(at: str, item: JSON) -> JSON:
    role = item.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise invalid(f"{at}.role", role, f"one of {', '.join(_ROLES)}")
    return {"role": _ROLES[role], "content": _content(f"{at}.content", item.get("content"), images=role == "user")}


def _call(at: str, item: JSON) -> JSON:
    arguments = item.get("arguments")
    if not isinstance(arguments, str):
        raise invalid(f"{at}.arguments", arguments, "a text with JSON in it")
    name = function_name(item.get("namespace"), string_at(f"{at}.name", item.get("name")))
    function = {"name": name, "arguments": arguments}
    return {"id": string_at(f"{at}.call_id", item.get("call_id")), "type": "function", "function": function}


def _content(at: str, value: Any, *, images: bool) -> str | list[JSON]:
    """One text, or parts of chat completions where an image is among them."""
    if isinstance(value, str):
        return value
    if not is_array(value):
        raise invalid(at, value, "a text, or a list of parts")
    items = array_at(at, value, _MAX_PARTS, "a list of parts")
    parts = [_part(f"{at}[{number}]", item, images=images) for number, item in enumerate(items)]
    return joined(parts) if all(part["type"] == "text" for part in parts) else parts


def _part(at: str, item: Any, *, images: bool) -> JSON:
    fields = object_at(at, item, "an object with type")
    kind = fields.get("type")
    if isinstance(kind, str) and (field := _TEXTS.get(kind)):
        text = fields.get(field)
        if not isinstance(text, str):
            raise invalid(f"{at}.{field}", text, "a text")
        return {"type": "text", "text": text}
    if kind == "input_image" and images:
        url = string_at(f"{at}.image_url", fields.get("image_url"), "a URL, such as data:image/png;base64,...")
        detail = fields.get("detail")
        return {"type": "image_url", "image_url": {"url": url} | ({"detail": detail} if detail else {})}
    texts = "input_text or output_text"
    raise invalid(f"{at}.type", kind, f"{texts}, or input_image with a URL" if images else texts)
