"""Whom a tool is for: models, the views of MCP Apps, or both. Pure.

MCP Apps (SEP-1865) lets a server have tools for its views only, and leaves it to the host to keep them from its model.
Where a model is told of tools, or calls them by name, and no host in between knows which, the bridge has to. A direct
`tools/call` does not say who calls: it is the host that answers for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gaia_bridge.protocol.json_types import is_array, is_object

__all__ = ["is_model_visible"]


def is_model_visible(definition: Mapping[str, Any]) -> bool:
    """Whether a model may know and call a tool: unless `_meta.ui.visibility` is a list without `model`.

    Args:
        definition: The tool's definition, of any revision of the protocol.
    """
    meta = definition.get("_meta")
    ui = meta.get("ui") if is_object(meta) else None
    visibility = ui.get("visibility") if is_object(ui) else None
    return not is_array(visibility) or "model" in visibility
