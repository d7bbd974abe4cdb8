"""Translates questions and answers for peers of earlier handshake revisions, and names the notifications they lack.

Objects are open in every revision, so that fields which a later one adds are passed on unchanged. Enumerations are
closed: the notifications, the kinds of content, the fields of a form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gaia_bridge.errors import AnswerError
from gaia_bridge.protocol.revisions import LATEST_HANDSHAKE
from gaia_bridge.text.json_types import JSON, is_array, is_object

_OF_THE_LAST: Final = frozenset({"notifications/elicitation/complete", "notifications/tasks/status"})
"""The notifications that 2025-11-25 added, and 2026-07-28 took out."""

_SAMPLED: Final[Mapping[str, frozenset[str]]] = {
    "2024-11-05": frozenset({"image", "text"}),
    **dict.fromkeys(("2025-03-26", "2025-06-18"), frozenset({"audio", "image", "text"})),
}
"""The types of content in messages for a model, in the revisions where a message has one block."""


def has_notification(revision: str, method: str) -> bool:
    """Whether clients of a handshake revision know a notification, which must be one of some revision of MCP."""
    return revision == LATEST_HANDSHAKE or method not in _OF_THE_LAST


def declares_context(revision: str) -> bool:
    """Whether clients of a revision declare `sampling.context`; in earlier ones, any client may include context."""
    return revision not in _SAMPLED


def question_for(revision: str, method: str, params: JSON) -> JSON:
    """Translate a question to the form of a handshake revision; raise `AnswerError` if it has none there."""
    if revision not in _SAMPLED:
        return params
    if method == "sampling/createMessage" and is_array(messages := params.get("messages")):
        return {**params, "messages": [*_messages(messages, _SAMPLED[revision], revision)]}
    if method == "elicitation/create" and is_object(schema := params.get("requestedSchema")):
        return {**params, "requestedSchema": _form(schema, revision)}
    return params


def answer_for(revision: str, method: str, answer: JSON) -> JSON:
    """Translate an answer to the form of a revision: of a model, one block. Raises `AnswerError` if it does not fit."""
    kinds, content = _SAMPLED.get(revision), answer.get("content")
    if kinds is None or method != "sampling/createMessage":
        return answer
    blocks = content if is_array(content) else [content]
    objects = [block for block in blocks if is_object(block)]
    types = {str(block.get("type")) for block in objects}
    if unknown := sorted(types - kinds):
        raise AnswerError(f"the answer to {method} cannot be given: MCP {revision} has no {unknown[0]} in messages")
    if content is not blocks:
        return answer
    if len(blocks) == 1:
        return {**answer, "content": blocks[0]}
    if types <= {"text"}:
        return {**answer, "content": {"type": "text", "text": "\n".join(str(block.get("text")) for block in objects)}}
    raise AnswerError(f"the answer to {method} cannot be given: MCP {revision} has one block of content in it")


def _messages(messages: list[Any], kinds: frozenset[str], revision: str) -> Iterator[Any]:
    """Split messages into messages of one block each, in the same order."""
    for message in messages:
        if not is_object(message):
            yield message
            continue
        content = message.get("content")
        for block in content if is_array(content) else [content]:
            kind = block.get("type") if is_object(block) else None
            if kind not in kinds:
                raise AnswerError(f"sampling/createMessage cannot be asked: MCP {revision} has no {kind} in messages")
            yield {**message, "content": block}


def _form(schema: JSON, revision: str) -> JSON:
    """Remove the optional fields with several values from a form; raise `AnswerError` if one is required."""
    properties = schema.get("properties")
    if not is_object(properties):
        return schema
    lists = [name for name, field in properties.items() if is_object(field) and field.get("type") == "array"]
    required = schema.get("required")
    if demanded := [name for name in lists if is_array(required) and name in required]:
        problem = f"MCP {revision} has no fields of several values, as {', '.join(demanded)} would be"
        raise AnswerError(f"elicitation/create cannot be asked: {problem}")
    return {**schema, "properties": {name: field for name, field in properties.items() if name not in lists}}
