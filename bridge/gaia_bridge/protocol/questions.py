"""The shapes of requests to clients, of their results, and of server capabilities and notifications (MCP, schema)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gaia_bridge.model import LOG_LEVELS
from gaia_bridge.protocol.content import BLOCK, BLOCKS, ROLE, TOOL
from gaia_bridge.protocol.kinds import LIST_CHANGED
from gaia_bridge.protocol.shapes import (
    ANYTHING,
    FLAG,
    FRACTION,
    NUMBER,
    OBJECT,
    TEXT,
    TEXTS,
    TOKEN,
    WHOLE,
    Chosen,
    Field,
    Items,
    Record,
    Shape,
    Tagged,
    one_of,
    optional,
    required,
)
from gaia_bridge.text.json_types import is_object

_META: Final = Field("_meta", OBJECT)
_SAMPLED: Final = Tagged(
    "type",
    {
        **{kind: BLOCKS[kind] for kind in ("text", "image", "audio")},
        "tool_use": Record(required("id", TEXT), required("name", TEXT), required("input", OBJECT), _META),
        "tool_result": Record(
            required("toolUseId", TEXT), required("content", Items(BLOCK)), Field("isError", FLAG), _META
        ),
    },
)
_SAMPLED_LIST: Final = Items(_SAMPLED)
_ONE_OR_MORE: Final = Chosen(_SAMPLED.expected, lambda value: _SAMPLED if is_object(value) else _SAMPLED_LIST)
_MESSAGE: Final = Record(required("role", ROLE), required("content", _ONE_OR_MORE), _META)
_PREFERENCES: Final = Record(
    Field("hints", Items(Record(Field("name", TEXT)))),
    *optional("costPriority", "intelligencePriority", "speedPriority", shape=FRACTION),
)
_REQUESTED: Final = Record(
    required("type", one_of("object")), required("properties", OBJECT), Field("required", TEXTS), Field("$schema", TEXT)
)


_FORM: Final = Record(required("message", TEXT), required("requestedSchema", _REQUESTED), Field("mode", one_of("form")))
_LINK: Final = Record(
    required("message", TEXT), required("url", TEXT), required("mode", one_of("url")), Field("elicitationId", TEXT)
)


QUESTIONS: Final[Mapping[str, Shape]] = {
    "elicitation/create": Chosen(
        "a form or a link", lambda value: _LINK if is_object(value) and value.get("mode") == "url" else _FORM
    ),
    "roots/list": OBJECT,
    "sampling/createMessage": Record(
        required("messages", Items(_MESSAGE)),
        required("maxTokens", WHOLE),
        Field("systemPrompt", TEXT),
        Field("includeContext", one_of("none", "thisServer", "allServers")),
        Field("temperature", NUMBER),
        Field("stopSequences", TEXTS),
        Field("metadata", OBJECT),
        Field("modelPreferences", _PREFERENCES),
        Field("tools", Items(TOOL)),
        Field("toolChoice", Record(Field("mode", one_of("auto", "required", "none")))),
    ),
}
"""The parameters of each request that a server may send to a client, by method."""

_ENTERED: Final = Shape(
    "a string, a number, true or false, or a list of strings",
    lambda value: value is None or isinstance(value, str | int | float) or TEXTS.fits(value),
)
ANSWERS: Final[Mapping[str, Shape]] = {
    "elicitation/create": Record(
        required("action", one_of("accept", "cancel", "decline")), Field("content", Record(values=_ENTERED))
    ),
    "roots/list": Record(required("roots", Items(Record(required("uri", TEXT), Field("name", TEXT), _META)))),
    "sampling/createMessage": Record(*_MESSAGE.fields, required("model", TEXT), Field("stopReason", TEXT)),
}
"""The results of these requests, by method."""

_ABILITIES: Final = Record(*optional("listChanged", "subscribe", shape=FLAG))
CAPABILITIES: Final[Mapping[str, Shape]] = {
    "completions": OBJECT,
    "experimental": Record(values=OBJECT),
    "extensions": Record(values=OBJECT),
    "logging": OBJECT,
    "prompts": _ABILITIES,
    "resources": _ABILITIES,
    "tasks": Record(
        *optional("list", "cancel", shape=OBJECT),
        Field("requests", Record(Field("tools", Record(Field("call", OBJECT))))),
    ),
    "tools": _ABILITIES,
}
"""The capabilities that a server may declare, by name."""

NOTIFICATIONS: Final[Mapping[str, Record]] = {
    "notifications/message": Record(
        required("level", one_of(*LOG_LEVELS)), required("data", ANYTHING), Field("logger", TEXT)
    ),
    "notifications/progress": Record(
        required("progressToken", TOKEN), required("progress", NUMBER), Field("total", NUMBER), Field("message", TEXT)
    ),
    "notifications/resources/updated": Record(required("uri", TEXT)),
    "notifications/cancelled": Record(Field("requestId", TOKEN), Field("reason", TEXT)),
    "notifications/elicitation/complete": Record(required("elicitationId", TEXT)),
    "notifications/tasks/status": Record(required("taskId", TEXT), required("status", TEXT)),
    **dict.fromkeys(LIST_CHANGED, OBJECT),
}
"""The parameters of each notification that a server may send in the handshake era, by method."""
