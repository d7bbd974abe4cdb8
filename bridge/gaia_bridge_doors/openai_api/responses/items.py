"""`input` in a request for a response: items, checked, as the messages that chat completions have for them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.conversation.errors import ChatError
from gaia_bridge_doors.openai_api.checks import array_at, invalid, object_at, string_at
from gaia_bridge_doors.openai_api.messages import since_last_answer
from gaia_bridge_doors.openai_api.parts import call_of, content_at, text_part
from gaia_bridge_doors.openai_api.tools import function_name

_ROLES: Final = {"assistant": "assistant", "developer": "system", "system": "system", "user": "user"}
_TEXTS: Final = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
"""Where the text is in a part of a content."""
_SKIPPED: Final = frozenset(
    {"reasoning", "compaction", "mcp_list_tools", "mcp_call", "mcp_approval_request", "mcp_approval_response"}
    | {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "computer_call"}
)
"""What a client sends back of other models' answers, and no model here has a use for."""


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
            return _chat_message(at, item)
        case "function_call":
            return {"role": "assistant", "content": None, "tool_calls": [_call(at, item)]}
        case "function_call_output":
            call_id = string_at(f"{at}.call_id", item.get("call_id"), "the call_id of a function_call")
            output = content_at(f"{at}.output", item.get("output"), partial(_read_part, images=False))
            return {"role": "tool", "content": output, "tool_call_id": call_id}
        case str() if kind in _SKIPPED:
            return None
        case _:
            raise invalid(f"{at}.type", kind, "message, function_call or function_call_output")


def _chat_message(at: str, item: JSON) -> JSON:
    role = item.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise invalid(f"{at}.role", role, f"one of {', '.join(_ROLES)}")
    read = partial(_read_part, images=role == "user")
    return {"role": _ROLES[role], "content": content_at(f"{at}.content", item.get("content"), read)}


def _call(at: str, item: JSON) -> JSON:
    return call_of(
        at,
        item,
        name=lambda: function_name(item.get("namespace"), string_at(f"{at}.name", item.get("name"))),
        call_id=lambda: string_at(f"{at}.call_id", item.get("call_id")),
    )


def _read_part(at: str, fields: JSON, *, images: bool) -> JSON:
    """One part, an image as chat completions have it."""
    kind = fields.get("type")
    if isinstance(kind, str) and (field := _TEXTS.get(kind)):
        return text_part(at, fields, field)
    if kind == "input_image" and images:
        url = string_at(f"{at}.image_url", fields.get("image_url"), "a URL, such as data:image/png;base64,...")
        detail = fields.get("detail")
        return {"type": "image_url", "image_url": {"url": url} | ({"detail": detail} if detail else {})}
    texts = "input_text or output_text"
    raise invalid(f"{at}.type", kind, f"{texts}, or input_image with a URL" if images else texts)
