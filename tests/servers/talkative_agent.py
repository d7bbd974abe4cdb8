"""All that any revision of MCP has, and more; and an agent that says it, whatever its client speaks.

gaia-bridge serve tests/servers/talkative_agent.py:TalkativeAgent
"""

from __future__ import annotations

import json
from typing import Any, Final

from gaia_bridge.calls.request_context import get_request_context
from gaia_bridge.text.json_types import JSON

__all__ = [
    "BLOCKS",
    "CAPABILITIES",
    "COMPLETION",
    "CONTENTS",
    "INTRODUCTION",
    "LISTS",
    "MESSAGES",
    "META",
    "NOTIFICATIONS",
    "OF_NEWER_RESULTS",
    "QUESTIONS",
    "RESULT",
    "TASK",
    "TalkativeAgent",
]

META: Final[JSON] = {"example.org/said": {"by": ["somebody"]}}
ANNOTATIONS: Final[JSON] = {
    "audience": ["user", "assistant"],
    "priority": 0.5,
    "lastModified": "2026-01-01T00:00:00Z",
    "x-annotation": 1,
}
ICONS: Final = [{"src": "https://example.org/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}]
_DESCRIBED: Final[JSON] = {"title": "A title", "description": "Words", "icons": ICONS, "_meta": META, "x-more": [None]}
_RESOURCE: Final[JSON] = {
    **_DESCRIBED,
    "uri": "note://1",
    "name": "note",
    "mimeType": "text/plain",
    "size": 3,
    "annotations": ANNOTATIONS,
}
INTRODUCTION: Final[JSON] = {
    "name": "talkative",
    "version": "7",
    "title": "Talkative",
    "description": "Says everything",
    "websiteUrl": "https://example.org",
    "icons": ICONS,
    "x-info": True,
}
CAPABILITIES: Final[JSON] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "completions": {},
    "logging": {},
    "experimental": {"example.org/trial": {}},
    "extensions": {"example.org/extension": {}, "io.modelcontextprotocol/tasks": {}},
    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    "x-capability": {},
}
_SCHEMA: Final[JSON] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"what": {"type": "string"}},
    "required": [],
    "additionalProperties": True,
}
_ANYTHING: Final[JSON] = {"type": "object", "properties": {}}
TOOL: Final[JSON] = {
    **_DESCRIBED,
    "name": "tell",
    "inputSchema": _SCHEMA,
    "outputSchema": {**_SCHEMA, "properties": {}},
    "annotations": {
        "title": "Teller",
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
        "x-hint": "",
    },
    "execution": {"taskSupport": "optional", "x-execution": 1},
}
LISTS: Final[JSON] = {
    "tools": [
        TOOL,
        {"name": "list", "inputSchema": _ANYTHING, "outputSchema": {"type": "array"}},
        *({"name": f"ask-{name}", "inputSchema": _ANYTHING} for name in ("form", "link", "model", "roots")),
        *({"name": name, "inputSchema": _ANYTHING} for name in ("ask-conversation", "ask-spoken", "announce")),
    ],
    "prompts": [
        {
            **_DESCRIBED,
            "name": "letter",
            "arguments": [{"name": "to", "title": "To", "description": "Whom", "required": True, "x-argument": 1}],
        }
    ],
    "resources": [_RESOURCE],
    "resourceTemplates": [
        {
            **_DESCRIBED,
            "uriTemplate": "note://{number}/part",
            "name": "part",
            "mimeType": "text/plain",
            "annotations": ANNOTATIONS,
        }
    ],
}
_OF_A_BLOCK: Final[JSON] = {"annotations": ANNOTATIONS, "_meta": META, "x-block": 0}
CONTENTS: Final[list[JSON]] = [
    {"uri": "note://1", "mimeType": "text/plain", "text": "one", "_meta": META, "x-contents": 1},
    {"uri": "note://2", "mimeType": "image/png", "blob": "aGk=", "_meta": META},
]
BLOCKS: Final[list[JSON]] = [
    {"type": "text", "text": "words", **_OF_A_BLOCK},
    {"type": "image", "data": "aGk=", "mimeType": "image/png", **_OF_A_BLOCK},
    {"type": "audio", "data": "aGk=", "mimeType": "audio/wav", **_OF_A_BLOCK},
    {"type": "resource_link", **_RESOURCE},
    *({"type": "resource", "resource": contents, **_OF_A_BLOCK} for contents in CONTENTS),
]
RESULT: Final[JSON] = {
    "content": BLOCKS,
    "structuredContent": {"answer": [1, None]},
    "isError": False,
    "_meta": META,
    "x-result": {"kept": True},
}
MESSAGES: Final[JSON] = {
    "description": "A letter",
    "messages": [{"role": "user", "content": block, "x-message": 1} for block in BLOCKS],
    "_meta": META,
}
COMPLETION: Final[JSON] = {
    "completion": {"values": ["Ada"], "total": 1, "hasMore": False, "x-values": 1},
    "_meta": META,
}
OF_NEWER_RESULTS: Final[JSON] = {"resultType": "complete", "ttlMs": 1000, "cacheScope": "public"}

_OF_QUESTIONS: Final[JSON] = {"task": {"ttl": 1000}, "x-question": 1}
FORM: Final[JSON] = {
    **_OF_QUESTIONS,
    "mode": "form",
    "message": "Who comes?",
    "requestedSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Name", "description": "Who", "minLength": 1, "default": "Ada"},
            "mail": {"type": "string", "format": "email"},
            "age": {"type": "integer", "minimum": 0, "maximum": 150, "default": 1},
            "height": {"type": "number", "minimum": 0.5},
            "vegan": {"type": "boolean", "default": False},
            "day": {"type": "string", "enum": ["fri", "sat"], "enumNames": ["Friday", "Saturday"], "default": "sat"},
            "seat": {"type": "string", "oneOf": [{"const": "in", "title": "Inside"}, {"const": "out", "title": "Out"}]},
            "dishes": {"type": "array", "items": {"type": "string", "enum": ["soup", "cake"]}, "maxItems": 2},
            "drinks": {"type": "array", "items": {"anyOf": [{"const": "tea", "title": "Tea"}]}, "default": ["tea"]},
        },
        "required": ["name"],
    },
}
LINK: Final[JSON] = {
    **_OF_QUESTIONS,
    "mode": "url",
    "message": "Pay",
    "url": "https://example.org/pay",
    "elicitationId": "e1",
}
_MODEL: Final[JSON] = {
    **_OF_QUESTIONS,
    "maxTokens": 10,
    "systemPrompt": "Be brief",
    "includeContext": "none",
    "temperature": 0.5,
    "stopSequences": ["."],
    "metadata": {"a": 1},
    "modelPreferences": {
        "hints": [{"name": "small", "x-hint": 1}],
        "costPriority": 0.1,
        "speedPriority": 1,
        "intelligencePriority": 0,
    },
}
QUESTIONS: Final[dict[str, JSON]] = {
    "form": {"method": "elicitation/create", "params": FORM},
    "link": {"method": "elicitation/create", "params": LINK},
    "roots": {"method": "roots/list", "params": {"_meta": META}},
    "model": {
        "method": "sampling/createMessage",
        "params": {**_MODEL, "messages": [{"role": "user", "content": BLOCKS[0], "_meta": META}]},
    },
    "spoken": {
        "method": "sampling/createMessage",
        "params": {**_MODEL, "messages": [{"role": "user", "content": BLOCKS[2]}]},
    },
    "conversation": {
        "method": "sampling/createMessage",
        "params": {
            **_MODEL,
            "messages": [
                {"role": "user", "content": [BLOCKS[0], BLOCKS[1]]},
                {"role": "assistant", "content": [{"type": "text", "text": "Well"}]},
            ],
        },
    },
}
"""What each tool `ask-...` asks."""

TASK: Final[JSON] = {
    "taskId": "t1",
    "status": "working",
    "statusMessage": "on it",
    "createdAt": "2026-01-01T00:00:00Z",
    "lastUpdatedAt": "2026-01-01T00:00:00Z",
    "ttl": 1000,
    "pollInterval": 5,
    "x-task": 1,
}
NOTIFICATIONS: Final[dict[str, JSON | None]] = {
    "notifications/message": {"level": "error", "logger": "l", "data": {"a": None}, "_meta": META, "x-note": 1},
    "notifications/elicitation/complete": {"elicitationId": "e1", "x-note": 1},
    "notifications/tasks/status": TASK,
    "notifications/resources/updated": {"uri": "note://1", "title": "of a draft", "_meta": META},
    "notifications/tools/list_changed": {"_meta": META},
    "notifications/prompts/list_changed": None,
    "notifications/resources/list_changed": None,
    "notifications/unheard-of": {},
}
"""What the tool `announce` sends."""


class TalkativeAgent:
    """Says all of it but the capabilities, which follow from what it has, and the notifications."""

    def get_mcp_server_info(self) -> JSON:
        return {**INTRODUCTION, "instructions": "Ask."}

    def get_mcp_tool_definitions(self) -> list[JSON]:
        tools: list[JSON] = LISTS["tools"]
        return tools

    def get_mcp_prompts(self) -> list[JSON]:
        prompts: list[JSON] = LISTS["prompts"]
        return prompts

    def get_mcp_resources(self) -> list[JSON]:
        resources: list[JSON] = LISTS["resources"]
        return resources

    def get_mcp_resource_templates(self) -> list[JSON]:
        templates: list[JSON] = LISTS["resourceTemplates"]
        return templates

    def get_mcp_prompt(self, name: str, arguments: JSON) -> Any:
        return MESSAGES

    def read_mcp_resource(self, uri: str) -> Any:
        return {"contents": CONTENTS, "_meta": META}

    def complete_mcp_argument(self, ref: JSON, argument: str, value: str, context: JSON) -> Any:
        return COMPLETION["completion"]

    def execute_mcp_tool(self, tool_name: str, arguments: JSON) -> Any:
        if tool_name == "tell":
            get_request_context().report_progress(1, 2, "half")
            return {key: value for key, value in RESULT.items() if key != "x-result"}  # with it, it is data
        if tool_name == "list":
            return {**{key: value for key, value in RESULT.items() if key != "x-result"}, "structuredContent": [1]}
        context = get_request_context()
        question = QUESTIONS[tool_name.removeprefix("ask-")]
        if context.input_responses:
            return json.dumps(context.input_responses["it"])
        return {"resultType": "input_required", "inputRequests": {"it": question}}
