"""The keys of `_meta` that the specification defines, and one of ours; what they say of views and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gaia_bridge.text.json_types import JSON, is_array, is_object, is_too_deep

PROTOCOL_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO_KEY: Final = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"
SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID_KEY: Final = "io.modelcontextprotocol/subscriptionId"
RELATED_TASK_KEY: Final = "io.modelcontextprotocol/related-task"
PROGRESS_TOKEN_KEY: Final = "progressToken"

LEFT_OUT_KEY: Final = "io.gaia-mcp-bridge/leftOut"
"""Ours: why whoever lists a definition does not offer it, so that people can be told."""

_OF_ONE_CONNECTION: Final = frozenset(
    {
        PROTOCOL_VERSION_KEY,
        CLIENT_INFO_KEY,
        CLIENT_CAPABILITIES_KEY,
        LOG_LEVEL_KEY,
        SERVER_INFO_KEY,
        SUBSCRIPTION_ID_KEY,
        PROGRESS_TOKEN_KEY,
    }
)

TASK_ID: Final = "taskId"
TASK_STATUS: Final = "notifications/tasks/status"
"""Tells whoever made a task how it is."""


def forwarded_meta(params: Mapping[str, Any]) -> JSON | None:
    """The `_meta` of a notification that is forwarded, without what is about one connection only.

    Returns:
        `None` where nothing is left, or where it is nested too deep to be written.
    """
    meta = params.get("_meta")
    if not is_object(meta) or is_too_deep(meta):
        return None
    return {key: value for key, value in meta.items() if key not in _OF_ONE_CONNECTION} or None


def is_model_visible(definition: Mapping[str, Any]) -> bool:
    """Whether a model may see and call a tool: not if `_meta.ui.visibility` is a list without `model`.

    In MCP Apps (SEP-1865) a server may have tools that only its views call; the host hides them from its model. Where
    the bridge itself lists tools for a model, or calls them for one, as tool search does, it has to hide them. A direct
    `tools/call` does not say who calls, so that check stays with the host.

    Args:
        definition: The tool's definition, in any revision of MCP.
    """
    meta = definition.get("_meta")
    ui = meta.get("ui") if is_object(meta) else None
    visibility = ui.get("visibility") if is_object(ui) else None
    return not is_array(visibility) or "model" in visibility


def with_public_task(message: JSON, prefix: str) -> JSON:
    """A result, or the parameters of a question, with the public id of the task that it is, or is related to.

    Args:
        message: What the server sent; not changed.
        prefix: What the public ids of its tasks begin with; empty where they are the server's own.
    """
    if not prefix:
        return message
    if isinstance(identifier := message.get(TASK_ID), str):
        message = {**message, TASK_ID: prefix + identifier}
    if is_object(task := message.get("task")):
        message = {**message, "task": with_public_task(task, prefix)}
    told = message.get("_meta")
    if is_object(told) and is_object(related := told.get(RELATED_TASK_KEY)):
        message = {**message, "_meta": {**told, RELATED_TASK_KEY: with_public_task(related, prefix)}}
    return message


def with_own_task(message: JSON, prefix: str) -> JSON:
    """What a client says, with the server's own id of the task that it is related to.

    Args:
        message: The client's answer to a question, or the parameters of a notification; not changed.
        prefix: What the public ids of the server's tasks begin with; empty where they are its own.
    """
    told = message.get("_meta")
    related = told.get(RELATED_TASK_KEY) if is_object(told) else None
    identifier = related.get(TASK_ID) if is_object(related) else None
    if not (prefix and is_object(told) and is_object(related) and isinstance(identifier, str)):
        return message
    own = {**related, TASK_ID: identifier.removeprefix(prefix)}
    return {**message, "_meta": {**told, RELATED_TASK_KEY: own}}


def made_task(result: JSON) -> str | None:
    """The id of the task that a result says was made; `None` if it is another result."""
    task = result.get("task")
    identifier = task.get(TASK_ID) if is_object(task) else None
    return identifier if isinstance(identifier, str) else None
