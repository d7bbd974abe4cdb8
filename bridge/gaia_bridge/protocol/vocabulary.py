"""Checks what servers send against MCP's schema, and translates definitions and questions between the eras.

A definition is checked before it is published, alone and once per era: clients refuse a whole list for one bad item.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from gaia_bridge.json_schema.portable_schemas import for_draft_07
from gaia_bridge.model import LOG_LEVELS, ServerInfo
from gaia_bridge.protocol import meta
from gaia_bridge.protocol.content import HANDSHAKE_DEFINITIONS, IMPLEMENTATION, MODERN_DEFINITIONS, RESULTS
from gaia_bridge.protocol.definition_repairs import with_object_properties, without_tasks_only
from gaia_bridge.protocol.headers import annotation_problem
from gaia_bridge.protocol.questions import ANSWERS, CAPABILITIES, NOTIFICATIONS, QUESTIONS
from gaia_bridge.protocol.shapes import OBJECT, TEXT, Record, first_problem, optional, required
from gaia_bridge.protocol.skills import skill_problem
from gaia_bridge.text.json_types import JSON, is_array, is_object, value_at

CAPABILITY_OF: Final[Mapping[str, str]] = {
    "elicitation/create": "elicitation",
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
}
"""For each request that a server may send to a client, the capability that the client must have declared."""

CONTENT_TYPES: Final = frozenset({"audio", "image", "resource", "resource_link", "text"})
"""The content blocks of MCP 2025-06-18 and later."""
LOG_LEVEL_KEY: Final = meta.LOG_LEVEL_KEY
"""The key in the `_meta` of a request for the lowest level of its log messages (2026-07-28)."""
ELICITATION_COMPLETE: Final = "notifications/elicitation/complete"
"""MCP 2025-11-25: the user has finished with a link. Sent only to the client that was asked to open the link."""
LOG_MESSAGE: Final = "notifications/message"
"""The notification that carries a log message."""

INFO_TEXTS: Final = ("name", "version", "title", "description", "websiteUrl")
"""The fields of an `Implementation` object that are texts."""


def server_info(info: ServerInfo) -> JSON:
    """Build the `Implementation` object that introduces a server."""
    fields = {
        "name": info.name,
        "version": info.version,
        "title": info.title,
        "description": info.description,
        "websiteUrl": info.website_url,
        "icons": [dict(icon) for icon in info.icons] or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def read_server_info(
    sent: Mapping[str, Any], name: str, version: str = "", instructions: str | None = None
) -> tuple[ServerInfo, str | None]:
    """Return the info of an `Implementation` object, and its problem; icons and address are left out if it has one.

    Args:
        sent: The object; texts and icons of another type are left out.
        name: The name of a server that states none.
        version: The version of a server that states none.
    """
    texts = {key: value for key in INFO_TEXTS if isinstance(value := sent.get(key), str) and value}
    icons = sent.get("icons")
    info = ServerInfo(
        name=texts.get("name", name),
        version=texts.get("version", version),
        title=texts.get("title"),
        description=texts.get("description"),
        instructions=instructions,
        website_url=texts.get("websiteUrl"),
        icons=tuple(icon for icon in icons if is_object(icon)) if is_array(icons) else (),
    )
    problem = info_problem(info)
    return info if problem is None else replace(info, icons=(), website_url=None), problem


def info_problem(info: ServerInfo, more: Mapping[str, Any] | None = None) -> str | None:
    """Explain why the `Implementation` object of a server is invalid; return `None` if it is valid."""
    return first_problem(IMPLEMENTATION, {**(more or {}), **server_info(info)})


def definition_problem(kind: str, definition: Mapping[str, Any], *, modern: bool = True) -> str | None:
    """Explain why a definition is not valid in 2026-07-28, or else in the handshake era; return `None` if it is."""
    problem = first_problem((MODERN_DEFINITIONS if modern else HANDSHAKE_DEFINITIONS)[kind], definition)
    if problem is None and kind == "skill":
        return skill_problem(definition)
    if problem is None and kind == "tool" and modern:
        return annotation_problem(definition["inputSchema"])
    return problem


_INPUT_REQUIRED: Final = Record(
    required("resultType", TEXT),
    *optional("requestState", shape=TEXT),
    *optional(
        "inputRequests", shape=Record(values=Record(required("method", TEXT), *optional("params", shape=OBJECT)))
    ),
)


def is_complete(method: str, result: Mapping[str, Any]) -> bool:
    """Whether a result is complete and of a core method; results of extensions and created tasks are not checked."""
    kind = result.get("resultType", "complete")
    return kind == "complete" and method in RESULTS and not ("task" in result and is_object(result["task"]))


def result_problem(method: str, result: Mapping[str, Any]) -> str | None:
    """Explain why a result is invalid; return `None` if it is valid."""
    kind = result.get("resultType", "complete")
    if kind == "input_required":
        if problem := first_problem(_INPUT_REQUIRED, result):
            return problem
        asked: Mapping[str, JSON] = result.get("inputRequests") or {}
        if not asked and result.get("requestState") is None:
            return "inputRequests: nothing is asked; expected a question, or a requestState to come back with"
        problems = (question_problem(item["method"], item.get("params") or {}) for item in asked.values())
        return next(filter(None, problems), None)
    if not is_complete(method, result):
        return None
    shape = RESULTS[method]
    return None if shape.accepts(result) else first_problem(shape, result)


def question_problem(method: str, params: Mapping[str, Any]) -> str | None:
    """Explain why the parameters of a request to a client of either era are invalid; return `None` if they are not."""
    if (shape := QUESTIONS.get(method)) is None:
        return f"method: got {method!r}; expected one of {', '.join(QUESTIONS)}"
    return first_problem(shape, params)


def capability_problem(name: str, declared: object) -> str | None:
    """Explain why the value of a server capability is invalid; return `None` if it is valid."""
    shape = CAPABILITIES.get(name)
    return None if shape is None or declared is None else first_problem(shape, declared)


def notification_problem(method: str, params: Mapping[str, Any]) -> str | None:
    """Explain why a notification is not valid in the handshake era; return `None` if it is."""
    shape = NOTIFICATIONS.get(method)
    return "it is not known" if shape is None else first_problem(shape, params)


def is_loud_enough(level: object, least: str | None) -> bool:
    """Whether a log message of `level` is sent to a client whose lowest level is `least`; with `None`, none is."""
    return level in LOG_LEVELS and least is not None and LOG_LEVELS.index(level) >= LOG_LEVELS.index(least)


def for_legacy_question(method: str, params: Mapping[str, Any], elicitation_id: str) -> Mapping[str, Any]:
    """Convert the parameters of a question to the handshake era: an elicitation in URL mode gets an id if need be."""
    if method == "elicitation/create" and params.get("mode") == "url":
        return {"elicitationId": elicitation_id, **params}
    return params


def for_modern_questions(result: JSON, declared: Mapping[str, Any], *, with_link_ids: bool = False) -> JSON:
    """Convert the questions in an input-required result to the form of 2026-07-28.

    2026-07-28 has no `elicitationId`, which 2025-11-25 needs for `notifications/elicitation/complete`, and no tasks for
    questions.

    Args:
        with_link_ids: Whether the client nevertheless refuses a link without an `elicitationId`.
    """
    asked: Mapping[str, JSON] = result.get("inputRequests") or {}
    spelt = {key: _for_modern_question(question, declared) for key, question in asked.items()}
    if with_link_ids:
        spelt = {key: _with_link_id(question, key) for key, question in spelt.items()}
    return result if all(spelt[key] is asked[key] for key in asked) else {**result, "inputRequests": spelt}


def _with_link_id(question: JSON, link_id: str) -> JSON:
    params, method = question.get("params"), str(question.get("method"))
    return {**question, "params": for_legacy_question(method, params, link_id)} if is_object(params) else question


def _for_modern_question(question: JSON, declared: Mapping[str, Any]) -> JSON:
    params = question.get("params")
    if not is_object(params):
        return question
    kept = as_declared(str(question.get("method")), params, declared)
    if not kept.keys().isdisjoint(_OF_HANDSHAKE_QUESTIONS):
        kept = {key: value for key, value in kept.items() if key not in _OF_HANDSHAKE_QUESTIONS}
    return question if kept is params else {**question, "params": kept}


_OF_HANDSHAKE_QUESTIONS: Final = frozenset(("elicitationId", "task"))
"""Fields of the parameters of questions that 2026-07-28 removed."""


def answer_problem(method: str, answer: Mapping[str, Any]) -> str | None:
    """Explain why a client's result for a question is invalid; return `None` if it is valid."""
    return first_problem(ANSWERS[method], answer)


def missing_capability(method: str, params: Mapping[str, Any], declared: Mapping[str, Any]) -> JSON | None:
    """Return the capability that a question requires and the client did not declare, or `None`."""
    capability = CAPABILITY_OF[method]
    have = declared.get(capability)
    if have is None:
        return {capability: {}}
    parts = {name for name, value in have.items() if value is not None} if is_object(have) else set[str]()
    part = ""
    if method == "elicitation/create":
        part = "url" if params.get("mode") == "url" else "form"
        if not parts & {"form", "url"}:
            parts.add("form")  # clients before 2025-11-25 have form mode only, and do not name it
    elif params.get("tools") is not None or params.get("toolChoice") is not None:
        part = "tools"
    return {capability: {part: {}}} if part and part not in parts else None


def as_declared(method: str, params: JSON, declared: Mapping[str, Any]) -> JSON:
    """Remove `includeContext` from the parameters of a question if the client did not declare `sampling.context`.

    Clients may ignore `includeContext` in every revision, so the question need not fail because of it. The capability
    exists since 2025-11-25; see `earlier_revisions.declares_context`.
    """
    if "includeContext" not in params or method != "sampling/createMessage":
        return params
    if value_at(declared, "sampling", "context") is not None:
        return params
    return {key: value for key, value in params.items() if key != "includeContext"}


def for_legacy(kind: str, definition: JSON) -> JSON | None:
    """Convert a definition to the form of the handshake era, or return `None` if it has none.

    There, an output schema describes an object; any other output schema is left out. Property schemas are objects, not
    booleans. A tool that must run as a task becomes one that may, since the bridge can wait for the task itself.
    """
    if kind == "tool":
        output = definition.get("outputSchema")
        definition = without_tasks_only(definition)
        if output is not None and not (is_object(output) and output.get("type") == "object"):
            definition = {key: value for key, value in definition.items() if key != "outputSchema"}
        elif output is not None:
            definition = {**definition, "outputSchema": for_draft_07(output)}
        schemas = {field: definition[field] for field in ("inputSchema", "outputSchema") if field in definition}
        definition = {**definition, **{field: with_object_properties(schema) for field, schema in schemas.items()}}
    return None if definition_problem(kind, definition, modern=False) else definition


def for_modern(kind: str, definition: JSON) -> JSON:
    """Convert a definition to the form of 2026-07-28, which has no `execution` field (task support) of tools."""
    if kind != "tool" or "execution" not in definition:
        return definition
    return {key: value for key, value in definition.items() if key != "execution"}
