"""The keys of `_meta` that the specification defines, one of ours, and the reading of those about views and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gaia_bridge.text.json_types import JSON, is_array, is_object, is_too_deep, value_at

PROTOCOL_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO_KEY: Final = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"
SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID_KEY: Final = "io.modelcontextprotocol/subscriptionId"
RELATED_TASK_KEY: Final = "io.modelcontextprotocol/related-task"
PROGRESS_TOKEN_KEY: Final = "progressToken"
LEFT_OUT_KEY: Final = "io.gaia-mcp-bridge/leftOut"
"""Ours, in the `_meta` of a definition: the reason why the server that lists it does not offer it, for people."""

_OF_ONE_CONNECTION: Final = frozenset(
    (PROTOCOL_VERSION_KEY, CLIENT_INFO_KEY, CLIENT_CAPABILITIES_KEY, LOG_LEVEL_KEY)
    + (SERVER_INFO_KEY, SUBSCRIPTION_ID_KEY, PROGRESS_TOKEN_KEY)
)

TASK_ID: Final = "taskId"
TASK_STATUS: Final = "notifications/tasks/status"
"""The notification that reports the status of a task to the client that created it."""


def forwarded_meta(params: Mapping[str, Any]) -> JSON | None:
    """Return the `_meta` of a notification to be forwarded, without the keys that concern one connection only.

    `None` where nothing is left, or where it is nested too deep to be written.
    """
    meta = params.get("_meta")
    if not is_object(meta) or is_too_deep(meta):
        return None
    return {key: value for key, value in meta.items() if key not in _OF_ONE_CONNECTION} or None


def without_key(holder: JSON, key: str) -> JSON:
    """Return a message or a definition without a key of its `_meta`; the same object where it has none."""
    meta = holder.get("_meta")
    if not is_object(meta) or key not in meta:
        return holder
    others = {name: value for name, value in meta.items() if name != key}
    rest = {name: value for name, value in holder.items() if name != "_meta"}
    return {**rest, "_meta": others} if others else rest


def is_model_visible(definition: Mapping[str, Any]) -> bool:
    """Whether a model may see and call a tool: not if `_meta.ui.visibility` is a list without `model`.

    In MCP Apps (SEP-1865) a server may have tools that only its views call; the host hides them from its model. Where
    the bridge itself lists tools for a model, or calls them for one, as tool search does, it has to hide them. A direct
    `tools/call` does not say who calls, so that check stays with the host.
    """
    visibility = value_at(definition, "_meta", "ui", "visibility")
    return not is_array(visibility) or "model" in visibility


def with_public_task(message: JSON, prefix: str) -> JSON:
    """Replace the id of a task in a result, or in the parameters of a question, by its public id.

    All public ids of the server's tasks begin with the prefix; it is empty where they are the server's own.
    """
    if not prefix:
        return message
    if isinstance(identifier := message.get(TASK_ID), str):
        message = {**message, TASK_ID: prefix + identifier}
    if is_object(task := message.get("task")):
        message = {**message, "task": with_public_task(task, prefix)}
    if is_object(related := value_at(message, "_meta", RELATED_TASK_KEY)):
        message = {**message, "_meta": {**message["_meta"], RELATED_TASK_KEY: with_public_task(related, prefix)}}
    return message


def with_own_task(message: JSON, prefix: str) -> JSON:
    """Replace the public id of the related task, in a message of a client, by the server's own id."""
    related = value_at(message, "_meta", RELATED_TASK_KEY)
    identifier = value_at(related, TASK_ID)
    if not prefix or not isinstance(identifier, str):
        return message
    own = {**related, TASK_ID: identifier.removeprefix(prefix)}
    return {**message, "_meta": {**message["_meta"], RELATED_TASK_KEY: own}}


def made_task(result: JSON) -> str | None:
    """Return the id of the task that a result announces; `None` if the result announces none."""
    identifier = value_at(result, "task", TASK_ID)
    return identifier if isinstance(identifier, str) else None
