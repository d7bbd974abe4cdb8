"""The keys of `_meta` that the specification defines, and one of ours; what `_meta` says of a tool's views."""

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
