"""The wire vocabulary: the one place that spells the SDK's method names, fields and revisions.

A definition is checked against the SDK's own wire models before it is published, one by one and once per era, because
the SDK refuses a whole list for one bad item.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types import LOG_LEVEL_META_KEY, Implementation, InputRequiredResult, ServerCapabilities
from mcp_types.methods import (
    SERVER_RESULTS,
    SPEC_CLIENT_METHODS,
    parse_server_notification,
    parse_server_request,
    serialize_server_result,
    validate_client_result,
)
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from gaia_bridge.jsontypes import JSON, is_array, is_object
from gaia_bridge.model import LOG_LEVELS, ServerInfo
from gaia_bridge.repairs import with_object_properties

__all__ = [
    "CAPABILITY_OF",
    "CONTENT_TYPES",
    "LIST_FIELDS",
    "LOG_LEVEL_KEY",
    "LOG_MESSAGE",
    "answer_problem",
    "as_declared",
    "capability_problem",
    "definition_problem",
    "for_legacy",
    "for_legacy_question",
    "implementation",
    "info_problem",
    "is_loud_enough",
    "is_modern",
    "missing_capability",
    "notification_problem",
    "question_problem",
    "result_problem",
    "server_info",
]

LIST_FIELDS: Final[Mapping[str, tuple[str, str]]] = {
    "tool": ("tools/list", "tools"),
    "prompt": ("prompts/list", "prompts"),
    "resource": ("resources/list", "resources"),
    "resource template": ("resources/templates/list", "resourceTemplates"),
}
"""For each kind of definition, the method that lists it and the field that holds the list."""

CAPABILITY_OF: Final[Mapping[str, str]] = {
    "elicitation/create": "elicitation",
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
}
"""For each request that a server may put to a client, the capability that the client must have declared."""

CONTENT_TYPES: Final = frozenset({"audio", "image", "resource", "resource_link", "text"})
"""The content blocks of MCP 2025-06-18 and later (P-11)."""

LOG_LEVEL_KEY: Final = LOG_LEVEL_META_KEY
"""Where the `_meta` of a request says how severe log messages have to be that belong to it (2026-07-28)."""

LOG_MESSAGE: Final = "notifications/message"
"""The notification that carries a log message."""

_CACHE_FIELDS: Final = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def is_modern(protocol_version: str) -> bool:
    """Whether the revision has no handshake and no sessions: 2026-07-28 and later."""
    return protocol_version in MODERN_PROTOCOL_VERSIONS


def server_info(info: ServerInfo) -> JSON:
    """The `Implementation` object that introduces a server."""
    fields = {
        "name": info.name,
        "version": info.version,
        "title": info.title,
        "description": info.description,
        "websiteUrl": info.website_url,
        "icons": [dict(icon) for icon in info.icons] or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def implementation(info: ServerInfo) -> JSON:
    """The same as keyword arguments of the SDK's `Server`."""
    model = Implementation.model_validate(server_info(info))
    return {name: getattr(model, name) for name in ("version", "title", "description", "website_url", "icons")}


def info_problem(info: ServerInfo, more: Mapping[str, Any] | None = None) -> str | None:
    """Why a server cannot introduce itself like this, or `None` if it can.

    Args:
        info: What is known to be said of it.
        more: What else it says of itself.
    """
    try:
        Implementation.model_validate({**(more or {}), **server_info(info)}, by_name=False)
    except ValidationError as error:
        return _first_problem(error)
    return None


def definition_problem(
    kind: str, definition: Mapping[str, Any], protocol_version: str = LATEST_MODERN_VERSION
) -> str | None:
    """Why a definition cannot be carried by a revision of the protocol, or `None` if it can.

    Args:
        kind: A key of `LIST_FIELDS`.
        definition: The definition, wire-shaped.
        protocol_version: The revision.
    """
    method, field = LIST_FIELDS[kind]
    problem = _problem(method, {field: [definition], **_CACHE_FIELDS}, protocol_version)
    if problem is None and kind == "tool" and is_modern(protocol_version):
        return find_invalid_x_mcp_header(definition["inputSchema"])
    return problem


def result_problem(method: str, result: Mapping[str, Any]) -> str | None:
    """Why a result cannot be sent, or `None` if it can.

    The handshake revision's models judge complete results: the modern ones let malformed content slip through.
    """
    if result.get("resultType") == "input_required":
        try:
            InputRequiredResult.model_validate(result, by_name=False)
        except ValidationError as error:
            return _first_problem(error)
        questions: Mapping[str, JSON] = result.get("inputRequests") or {}
        problems = (question_problem(item["method"], item.get("params") or {}) for item in questions.values())
        return next(filter(None, problems), None)
    if _is_of_an_extension(method, result):
        return None
    if not is_object(result.get("structuredContent")):  # any JSON may be, since 2026-07-28
        result = {key: value for key, value in result.items() if key != "structuredContent"}
    if is_array(content := result.get("content")) and not all(map(_is_known_block, content)):
        result = {**result, "content": [block for block in content if _is_known_block(block)]}
    try:
        # Not `serialize_server_result`, which also writes it: a call would be paid for with its size.
        _results(method).validate_python(result, by_name=False)
    except ValidationError as error:
        return _first_problem(error)
    return None


@cache
def _results(method: str) -> TypeAdapter[Any]:
    surface: Any = SERVER_RESULTS[method, LATEST_HANDSHAKE_VERSION]
    return TypeAdapter(surface)


def question_problem(method: str, params: Mapping[str, Any]) -> str | None:
    """Why a client cannot be asked this, or `None` if it can.

    Args:
        method: A key of `CAPABILITY_OF`.
        params: The parameters, wire-shaped, of either era.
    """
    try:
        parse_server_request(method, LATEST_HANDSHAKE_VERSION, for_legacy_question(method, params, ""))
    except ValidationError as error:
        return _first_problem(error)
    return None


def _is_known_block(block: object) -> bool:
    """Whether a block of content can be judged: a kind that is not known here may be known to the client."""
    kind = block.get("type") if is_object(block) else None
    return not isinstance(kind, str) or kind in CONTENT_TYPES


def _is_of_an_extension(method: str, result: Mapping[str, Any]) -> bool:
    """Whether a result is none of the core: of an unknown method, of an unknown kind, or a task of 2025-11-25."""
    kind = result.get("resultType", "complete")
    return method not in SPEC_CLIENT_METHODS or kind != "complete" or is_object(result.get("task"))


def capability_problem(name: str, declared: object) -> str | None:
    """Why a capability of a server cannot be told to clients, or `None` if it can."""
    try:
        ServerCapabilities.model_validate({name: declared}, by_name=False)
    except ValidationError as error:
        return _first_problem(error)
    return None


def notification_problem(method: str, params: Mapping[str, Any]) -> str | None:
    """Why a client of the handshake era cannot be sent this notification, or `None` if it can."""
    try:
        parse_server_notification(method, LATEST_HANDSHAKE_VERSION, params)
    except (ValidationError, KeyError) as error:
        return _first_problem(error) if isinstance(error, ValidationError) else "it is not known"
    return None


def is_loud_enough(level: object, least: str | None) -> bool:
    """Whether a client that wants log messages of `least` and above wants one of `level`; `None` wants none."""
    return level in LOG_LEVELS and least is not None and LOG_LEVELS.index(level) >= LOG_LEVELS.index(least)


def for_legacy_question(method: str, params: Mapping[str, Any], elicitation_id: str) -> Mapping[str, Any]:
    """A question as the handshake revisions spell it: there, one that sends the user to a link has an id.

    Args:
        method: A key of `CAPABILITY_OF`.
        params: The parameters, wire-shaped, of either era.
        elicitation_id: The id, if it has none.
    """
    if method == "elicitation/create" and params.get("mode") == "url":
        return {"elicitationId": elicitation_id, **params}
    return params


def answer_problem(method: str, answer: Mapping[str, Any]) -> str | None:
    """Why something is no answer to a question, or `None` if it is one."""
    try:
        validate_client_result(method, LATEST_HANDSHAKE_VERSION, answer)
    except ValidationError as error:
        return _first_problem(error)
    return None


def missing_capability(method: str, params: Mapping[str, Any], declared: Mapping[str, Any]) -> JSON | None:
    """The capability that a client would have to declare to be asked this, or `None` if it did (S-32).

    Args:
        method: A key of `CAPABILITY_OF`.
        params: The parameters, wire-shaped.
        declared: What the client declared, wire-shaped.
    """
    capability = CAPABILITY_OF[method]
    have = declared.get(capability)
    if have is None:
        return {capability: {}}
    parts = {name for name, value in have.items() if value is not None} if is_object(have) else set[str]()
    part = ""
    if method == "elicitation/create":
        part = "url" if params.get("mode") == "url" else "form"
        if not parts & {"form", "url"}:
            parts.add("form")  # what clients had before there was a choice
    elif params.get("tools") is not None or params.get("toolChoice") is not None:
        part = "tools"
    return {capability: {part: {}}} if part and part not in parts else None


def as_declared(method: str, params: JSON, declared: Mapping[str, Any]) -> JSON:
    """A question as the client can be asked it: without context of servers, if it did not declare that.

    A client may ignore that wish in every revision, so the question need not fail because of it.

    Args:
        method: A key of `CAPABILITY_OF`.
        params: The parameters, wire-shaped.
        declared: What the client declared, wire-shaped.
    """
    have = declared.get("sampling")
    if "includeContext" not in params or method != "sampling/createMessage":
        return params
    if is_object(have) and have.get("context") is not None:
        return params
    return {key: value for key, value in params.items() if key != "includeContext"}


def for_legacy(kind: str, definition: JSON) -> JSON | None:
    """The definition as clients before 2026-07-28 can be given it, or `None` if they cannot.

    Their output schemas describe objects only; a tool with another output goes without. The schema of a property is an
    object there.
    """
    if kind == "tool":
        output = definition.get("outputSchema")
        if output is not None and not (is_object(output) and output.get("type") == "object"):
            definition = {key: value for key, value in definition.items() if key != "outputSchema"}
        schemas = {field: definition[field] for field in ("inputSchema", "outputSchema") if field in definition}
        definition = {**definition, **{field: with_object_properties(schema) for field, schema in schemas.items()}}
    return None if definition_problem(kind, definition, LATEST_HANDSHAKE_VERSION) else definition


def _problem(method: str, result: Mapping[str, Any], protocol_version: str) -> str | None:
    try:
        serialize_server_result(method, protocol_version, result)
    except ValidationError as error:
        return _first_problem(error)
    return None


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"] if not isinstance(part, int))
    return f"{where}: {first['msg']}"
